"""Statistics, options, limits, history and snapshots from Python."""

import json
import os
import pickle
import xml.etree.ElementTree

import pytest
import support

import weir


def test_statistics_have_pytorchs_names():
    stats = weir.stats()
    for name in ("allocated_bytes.all.current", "reserved_bytes.all.peak",
                 "active_bytes.small_pool.allocated", "segment.all.freed",
                 "num_alloc_retries", "num_ooms", "pending_bytes"):
        assert isinstance(stats[name], int), name


def test_peaks_and_sums_are_reset():
    block = weir.malloc(10 << 20)
    block.free()
    assert weir.stats()["allocated_bytes.all.peak"] >= 10 << 20
    weir.reset_peak_stats()
    stats = weir.stats()
    assert stats["allocated_bytes.all.peak"] == \
        stats["allocated_bytes.all.current"]
    weir.reset_accumulated_stats()
    assert weir.stats()["allocated_bytes.all.allocated"] == 0


def test_statistics_of_a_stream_are_its_own():
    stream = weir.Stream()
    block = weir.malloc(3 << 20, stream)
    mine = weir.stats(stream=stream)
    assert mine["allocated_bytes.all.current"] == 3 << 20
    assert weir.stats(stream=weir.Stream())[
        "allocated_bytes.all.current"] == 0
    del block


def test_the_summary_has_the_values_of_the_statistics():
    weir.malloc(10)
    text = weir.memory_summary()
    lines = text.splitlines()
    assert {len(line) for line in lines} == {82}
    assert "Allocated memory" in text and "small pool" in text
    assert len(weir.memory_summary(abbreviated=True).splitlines()) < len(lines)


def test_a_notebook_shows_the_summary_as_a_table():
    weir.malloc(10)
    summary = weir.memory_summary()
    page = xml.etree.ElementTree.fromstring(
        summary._repr_html_().replace("<br>", "<br/>"))
    rows = [[cell.text or "" for cell in row] for row in page.findall("tr")]
    assert rows[0] == ["", "now", "peak", "allocated", "freed"]
    lines = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in summary.splitlines() if line.count("|") == 6]
    assert [[cell.strip() for cell in row] for row in rows] == lines
    assert "weir memory summary" in page.find("caption").text
    assert "<" not in summary
    assert type(pickle.loads(pickle.dumps(summary))) is str


def test_a_limit_holds_and_is_removed():
    assert weir.limit() is None
    weir.trim()
    weir.set_limit(64 << 20)
    try:
        assert weir.limit() == 64 << 20
        with pytest.raises(weir.OutOfMemoryError):
            weir.malloc(65 << 20)
    finally:
        weir.set_limit(None)
    assert weir.limit() is None
    assert weir.malloc(65 << 20).size == 65 << 20


def test_a_limit_can_be_a_fraction():
    free, total = weir.memory_info()
    assert 0 < free <= total
    weir.set_limit(0.5)
    try:
        assert weir.limit() == pytest.approx(total / 2, rel=0.01)
    finally:
        weir.set_limit(1.0)
    assert weir.limit() is None
    for wrong in (-0.5, 1.5, float("nan")):
        with pytest.raises(weir.InvalidArgumentError):
            weir.set_limit(wrong)


def test_trim_gives_back_unused_memory():
    weir.malloc(32 << 20).free()
    weir.synchronize()
    assert weir.trim() >= 32 << 20
    assert weir.trim("all") == 0
    block = weir.malloc(1 << 20)
    assert weir.largest_free() >= 0
    del block


def test_options_are_a_mapping():
    before = weir.options["prefer"]
    weir.options["prefer"] = "memory"
    try:
        assert weir.options["prefer"] == "memory"
        told = weir.options.describe("prefer")
        assert told["source"] == "call" and told["help"]
    finally:
        weir.options.set(f"prefer:{before}")
    assert "prefer" in weir.options and "prefers" not in weir.options
    assert len(weir.options) == len(list(weir.options)) > 20
    assert dict(weir.options)["prefer"] == before
    with pytest.raises(KeyError):
        weir.options["nothing"]
    with pytest.raises(weir.InvalidArgumentError, match="nothing"):
        weir.options["nothing"] = 1
    with pytest.raises(ValueError, match="prefer"):
        weir.options["prefer"] = "both"


def test_a_snapshot_shows_a_block_with_the_python_that_asked_for_it():
    with weir.history(clear=True):
        with weir.metadata("step 1"):
            block = weir.malloc(12345)
        snapshot = weir.snapshot()
    found = [b for segment in snapshot["segments"]
             for b in segment["blocks"] if b["address"] == block.address]
    assert found[0]["requested_size"] == 12345
    assert found[0]["state"] == "active_allocated"
    event = [e for e in snapshot["device_traces"][0]
             if e["action"] == "alloc"][-1]
    assert (event["addr"], event["size"]) == (block.address, 12345)
    assert event["user_metadata"] == "step 1"
    assert weir.history_info()["on"] is False


def test_stacks_have_pythons_frames_though_the_gil_is_released():
    def ask_for_memory():
        return weir.malloc(54321), weir.empty(7777, "uint8")

    with weir.history(stacks="python", clear=True):
        kept = ask_for_memory()
        weir.trim()
        snapshot = weir.snapshot()
    for size in (54321, 7777):
        event = [e for e in snapshot["device_traces"][0]
                 if e["action"] == "alloc" and e["size"] == size][-1]
        assert [f["name"] for f in event["frames"]][:2] == [
            "ask_for_memory",
            "test_stacks_have_pythons_frames_though_the_gil_is_released"]
        assert event["frames"][0]["filename"].endswith("report_test.py")
    blocks = [b for s in snapshot["segments"] for b in s["blocks"]
              if b["address"] == kept[0].address]
    assert blocks[0]["frames"][0]["name"] == "ask_for_memory"


def test_annotations_are_in_the_snapshot():
    with weir.history(clear=True):
        with weir.annotate("forward"):
            weir.malloc(1)
        told = weir.snapshot()["external_annotations"]
    assert [(a["name"], a["stage"]) for a in told] == [
        ("forward", "START"), ("forward", "END")]


def test_snapshots_are_written_as_pickle_and_as_json(tmp_path):
    block = weir.malloc(100)
    pickled, text = tmp_path / "a.pickle", tmp_path / "a.json"
    weir.snapshot_write(pickled, trace=False)
    weir.snapshot_write(os.fspath(text), "json", device=0, trace=False)
    one = pickle.loads(pickled.read_bytes())
    two = json.loads(text.read_text())
    assert one["segments"][0]["address"] == two["segments"][0]["address"]
    with pytest.raises(ValueError, match="'pickle', 'json'"):
        weir.snapshot_write(text, "xml")
    with pytest.raises(weir.InvalidArgumentError):
        weir.snapshot_write(tmp_path / "none" / "a.json")
    del block


def test_a_snapshot_of_a_pool_has_its_segments_only():
    pool = weir.Pool()
    block = weir.malloc(1 << 20, pool=pool)
    addresses = [b["address"] for s in weir.snapshot(pool=pool)["segments"]
                 for b in s["blocks"]]
    assert block.address in addresses
    assert weir.snapshot(pool=weir.Pool())["segments"] == []


def test_the_history_follows_its_settings():
    weir.history_start("alloc", max_entries=100, skip="free_requested",
                       clear=True)
    try:
        for _ in range(200):
            weir.malloc(1)
        info = weir.history_info()
        assert info["on"] and info["level"] == "alloc"
        assert info["kept"] == 100 and info["dropped"] > 0
        actions = {e["action"] for e in weir.snapshot()["device_traces"][0]}
        assert "free_requested" not in actions and "alloc" in actions
    finally:
        weir.history_stop()
    for wrong in ({"level": "most"}, {"stacks": "c"}):
        with pytest.raises(ValueError):
            weir.history_start(**wrong)
    with pytest.raises(weir.InvalidArgumentError, match="nonsense"):
        weir.history_start(skip="nonsense")


def test_devices_have_their_attributes():
    info = weir.device_info()
    assert info == weir.device_info(0) == weir.device_info("cuda:0")
    assert info["simulated"] == (support.SIMULATED is not None)
    assert info["total_bytes"] == weir.memory_info()[1]
    assert len(info["capability"]) == 2
    assert weir.device_count() >= 1
    with weir.device(0) as chosen:
        assert chosen.device == 0 and weir.get_device() == 0
    with pytest.raises(weir.NoDeviceError):
        weir.set_device(99)
    try:
        told = weir.telemetry()
    except weir.NotSupportedError:
        return
    assert 0 <= told["temperature_celsius"] < 150
