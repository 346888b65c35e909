"""Memory, copies, errors, streams, events: weir from Python."""

import gc
import threading
import weakref

import pytest
import support

import weir


@pytest.fixture(autouse=True)
def health():
    """Check that nothing is left allocated and that all invariants hold."""
    before = weir.stats()["allocated_bytes.all.current"]
    yield
    gc.collect()
    assert weir.stats()["allocated_bytes.all.current"] == before
    assert weir.check() == []


def allocated():
    return weir.stats()["allocated_bytes.all.current"]


def test_one_byte_raises_allocated_memory_by_a_block_until_it_is_let_go_of():
    before = allocated()
    block = weir.malloc(1)
    assert allocated() == before + 512
    del block
    assert allocated() == before


def test_a_block_has_its_attributes():
    stream = weir.Stream()
    block = weir.malloc(1000, stream)
    info = block.info()
    assert info["address"] == block.address != 0
    assert (info["requested_bytes"], info["size"]) == (1000, 1024)
    assert info["stream"] == block.stream == stream.handle
    assert (block.size, block.device, block.freed) == (1000, 0, False)
    assert f"{block.address:#x}" in repr(block)


def test_a_freed_block_serves_its_stream_again():
    stream = weir.Stream()
    block = weir.malloc(1 << 20, stream)
    address = block.address
    block.free()
    assert block.freed
    again = weir.malloc(1 << 20, stream)
    assert again.address == address


def test_a_block_is_freed_once_however_often_free_is_called():
    block = weir.malloc(10)
    with block:
        assert not block.freed
    block.free()
    assert block.freed
    with pytest.raises(ValueError, match="freed"):
        block.address
    with pytest.raises(ValueError, match="freed"):
        block.record_stream(None)
    assert "freed" in repr(block)


def test_a_block_can_be_freed_from_another_stream():
    first, second = weir.Stream(), weir.Stream()
    block = weir.malloc(1 << 20, first)
    second.wait_stream(first)
    address = block.address
    block.free(second)
    again = weir.malloc(1 << 20, second)
    assert again.address == address


def test_a_free_that_fails_leaves_the_block_to_its_object():
    block = weir.malloc(1000)
    before = allocated()
    with pytest.raises(weir.InvalidArgumentError):
        block.free(0x3039)
    assert not block.freed and block.address != 0
    block.free()
    assert block.freed and allocated() < before


def test_an_invalid_argument_is_refused_with_its_value():
    for wrong in (0, (1 << 60) + 1):
        with pytest.raises(weir.InvalidArgumentError):
            weir.malloc(wrong)
    with pytest.raises(ValueError, match="-5"):
        weir.malloc(-5)
    with pytest.raises(TypeError):
        weir.malloc("many")
    with pytest.raises(TypeError, match="stream"):
        weir.malloc(1, "stream")
    with pytest.raises(TypeError, match="pool"):
        weir.malloc(1, pool=3)
    with pytest.raises(TypeError):
        weir.Memory()


def test_devices_have_numbers_and_names():
    with pytest.raises(ValueError, match="Invalid device string: 'gpu0'"):
        weir.malloc(1, device="gpu0")
    with pytest.raises(ValueError, match="Invalid device string: 'cuda:'"):
        weir.malloc(1, device="cuda:")
    with pytest.raises(ValueError, match="Expected a cuda device"):
        weir.malloc(1, device="cpu")
    with pytest.raises(weir.NoDeviceError):
        weir.malloc(1, device=99)
    assert weir.malloc(1, device="cuda:0").device == 0
    assert weir.malloc(1, device="cuda").device == weir.get_device()


def test_out_of_memory_is_a_memory_error_with_a_report():
    with pytest.raises(MemoryError, match="Tried to allocate") as told:
        weir.malloc(1 << 50)
    assert isinstance(told.value, weir.OutOfMemoryError)
    assert isinstance(told.value, RuntimeError)
    assert told.value.status == "WEIR_ENOMEM"
    with pytest.raises(RuntimeError, match="more than 1EB memory"):
        weir.malloc((1 << 60) + 1)
    assert weir.malloc(100).address


def test_observers_are_called_for_requests_that_find_no_memory():
    told = []

    def observer(oom):
        told.append(oom)
        raise ValueError("goes no further")

    weir.add_oom_observer(observer)
    with pytest.raises(ValueError, match="there already"):
        weir.add_oom_observer(observer)
    with pytest.raises(weir.OutOfMemoryError):
        weir.malloc(1 << 50)
    weir.remove_oom_observer(observer)
    with pytest.raises(ValueError, match="not there"):
        weir.remove_oom_observer(observer)
    with pytest.raises(weir.OutOfMemoryError):
        weir.malloc(1 << 50)
    assert len(told) == 1
    assert told[0].device == 0
    assert told[0].requested_bytes == 1 << 50
    assert told[0].device_free_bytes <= told[0].limit_bytes
    assert "Tried to allocate" in told[0].report


def test_copies_go_both_ways():
    block = weir.malloc(1000)
    weir.copy(block, bytes(range(250)) * 4)
    back = bytearray(1000)
    weir.copy(back, block)
    assert bytes(back) == bytes(range(250)) * 4
    part = bytearray(10)
    weir.copy(part, block.address + 5, 10)
    assert part == bytes(range(5, 15))


def test_copies_that_do_not_fit_are_refused():
    block = weir.malloc(10)
    with pytest.raises(ValueError, match="to has 10 bytes"):
        weir.copy(block, bytes(11))
    with pytest.raises(ValueError, match="from_ has 10 bytes"):
        weir.copy(bytearray(20), block, 20)
    with pytest.raises(TypeError, match="size is needed"):
        weir.copy(block.address, block.address)
    with pytest.raises(BufferError):
        weir.copy(bytes(10), block)
    with pytest.raises(TypeError, match="to is an address"):
        weir.copy(None, block)


def test_pinned_memory_is_a_buffer():
    pinned = weir.pinned(4096)
    assert weir.is_pinned(pinned.address)
    view = memoryview(pinned)
    assert (view.nbytes, view.readonly, len(pinned)) == (4096, False, 4096)
    view[:5] = b"hello"
    block = weir.malloc(5)
    weir.copy(block, pinned, 5)
    back = bytearray(5)
    weir.copy(back, block)
    assert back == b"hello"
    with pytest.raises(BufferError, match="1 buffers"):
        pinned.free()
    view.release()
    pinned.free()
    with pytest.raises(BufferError):
        memoryview(pinned)
    assert not hasattr(pinned, "__cuda_array_interface__")


def test_pinned_memory_is_numpys_in_place():
    numpy = pytest.importorskip("numpy")
    pinned = weir.pinned(8 * 100)
    array = numpy.frombuffer(pinned, numpy.int64)
    array[:] = numpy.arange(100)
    assert array.ctypes.data == pinned.address
    address = pinned.address
    del pinned
    assert array.ctypes.data == address
    assert int(array.sum()) == 4950


def test_pinned_memory_has_statistics_and_goes_back():
    before = weir.pinned_stats()["allocated_bytes.all.current"]
    pinned = weir.pinned(1 << 20)
    assert weir.pinned_stats()["allocated_bytes.all.current"] == \
        before + (1 << 20)
    pinned.free()
    assert weir.trim(pinned=True) >= 1 << 20


def test_bytes_of_a_block_have_an_array_interface():
    stream = weir.Stream()
    block = weir.malloc(100, stream)
    assert block.__cuda_array_interface__ == {
        "shape": (100,), "typestr": "|u1", "data": (block.address, False),
        "strides": None, "version": 3, "stream": stream.handle}
    assert weir.malloc(1).__cuda_array_interface__["stream"] == 1
    any_stream = weir.malloc(1, weir.ANY_STREAM)
    assert any_stream.__cuda_array_interface__["stream"] is None
    block.free()
    with pytest.raises(RuntimeError):
        hasattr(block, "__cuda_array_interface__")


def test_the_current_stream_is_that_of_the_block():
    default = weir.current_stream()
    assert default.handle == 0
    first, second = weir.Stream(), weir.Stream(priority=-1)
    with first:
        assert weir.current_stream() == first
        with second:
            assert weir.malloc(10).stream == second.handle
        assert weir.malloc(10).stream == first.handle
        seen = []
        thread = threading.Thread(
            target=lambda: seen.append(weir.current_stream()))
        thread.start()
        thread.join()
        assert seen == [default]
    assert weir.current_stream() == default


def test_streams_are_queried_waited_for_compared_and_printed():
    stream = weir.Stream()
    assert stream != weir.current_stream()
    assert stream.query() is True
    stream.synchronize()
    weir.synchronize()
    assert stream.__cuda_stream__() == (0, stream.handle)
    assert weir.Stream.external(stream.handle) == stream
    assert len({stream, weir.Stream.external(stream)}) == 1
    assert f"{stream.handle:#x}" in repr(stream)
    pooled = [weir.Stream.from_pool() for _ in range(33)]
    assert len(set(pooled)) == 32
    assert weir.Stream(priority=-1).priority <= stream.priority
    with pytest.raises(ValueError):
        weir.Stream.external(weir.ANY_STREAM)
    with pytest.raises(TypeError):
        weir.Stream(priority="high")


def test_a_destroyed_stream_is_refused():
    handle = weir.Stream().handle
    with pytest.raises(weir.InvalidArgumentError, match="destroyed"):
        weir.malloc(10, handle)


def test_a_stream_of_the_protocol_is_a_stream():
    class Foreign:
        def __init__(self, answer):
            self.answer = answer

        def __cuda_stream__(self):
            return self.answer

    stream = weir.Stream()
    assert weir.malloc(1, Foreign((0, stream.handle))).stream == stream.handle
    for wrong in ((1, 0), (0,), None, (0, "x")):
        with pytest.raises(TypeError, match="__cuda_stream__"):
            weir.malloc(1, Foreign(wrong))


def test_events_are_done_before_they_are_recorded_and_measure_time_after():
    stream = weir.Stream()
    start, end = weir.Event(timing=True), weir.Event(timing=True)
    assert start.query() is True and start.handle == 0
    block = weir.malloc(1 << 20, stream)
    start.record(stream)
    weir.copy(block, bytearray(1 << 20), stream=stream)
    end.record(stream)
    end.synchronize()
    assert start.elapsed_ms(end) >= 0
    assert start.handle != 0 and "event" in repr(start).lower()
    weir.Stream().wait_event(end)
    end.wait(weir.Stream())
    assert stream.record_event().query() in (True, False)
    with pytest.raises(ValueError):
        weir.Event(timing=True, interprocess=True)
    with pytest.raises(ValueError):
        weir.Event().elapsed_ms(end)
    with pytest.raises(TypeError):
        start.elapsed_ms(3)


def test_other_threads_run_while_one_waits():
    stream = weir.Stream()
    weir.malloc(1, stream)
    begun, turns = threading.Event(), []

    def wait():
        begun.set()
        stream.synchronize()
        turns.append("done")

    with support.held(stream) as go_on:
        thread = threading.Thread(target=wait)
        thread.start()
        begun.wait()
        for _ in range(5):
            turns.append("turn")
            thread.join(0.01)
        go_on()
        thread.join()
    assert turns == ["turn"] * 5 + ["done"]


def test_a_block_used_on_another_stream_is_not_reused_before_its_work():
    stream, other = weir.Stream(), weir.Stream()
    block = weir.malloc(1 << 20, stream)
    address = block.address
    with support.held(other):
        block.record_stream(other)
        block.free()
        assert not other.query()
        assert weir.stats()["pending_bytes"] >= 1 << 20
        early = weir.malloc(1 << 20, stream)
        assert early.address != address


def test_a_block_is_reused_when_its_past_use_is_over():
    stream, other = weir.Stream(), weir.Stream()
    block = weir.malloc(4 << 20, stream)
    address = block.address
    block.record_use(other)
    other.synchronize()
    with support.held(other):
        block.free()
        again = weir.malloc(4 << 20, stream)
        assert again.address == address
        assert not other.query()
    again.free()
    with pytest.raises(ValueError, match="freed"):
        again.record_use(other)


def test_finalisers_run_on_any_thread():
    def churn(count):
        stream = weir.Stream()
        cycle = []
        for i in range(count):
            block = weir.malloc(512 * (1 + i % 7), stream)
            cycle = [block, cycle[:1]]
            cycle.append(cycle)

    threads = [threading.Thread(target=churn, args=(300,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    handed = [weir.malloc(4096) for _ in range(100)]
    other = threading.Thread(target=handed.clear)
    other.start()
    for thread in [*threads, other]:
        thread.join()
    gc.collect()


def test_blocks_can_be_referred_to_weakly():
    block = weir.malloc(1)
    seen = []
    reference = weakref.ref(block, seen.append)
    assert reference() is block
    del block
    assert seen == [reference] and reference() is None


def test_a_free_leaves_the_exception_that_is_raised():
    def callback(event):
        raise KeyError("of the callback")

    weir.add_trace_callback("memory_deallocation", callback)
    try:
        with pytest.raises(ZeroDivisionError):
            block = weir.malloc(1)
            block.address / 0
        del block
    finally:
        weir.remove_trace_callback("memory_deallocation", callback)


def test_pages_are_pinned_by_count():
    block = weir.malloc(1 << 20)
    block.pin()
    block.pin()
    block.unpin()
    block.unpin()
    with pytest.raises(weir.InvalidArgumentError):
        block.unpin()


# The streams of two devices, of which the first is current.
TWO_DEVICES = """if True:
    import sys
    sys.path.insert(0, sys.argv[1])
    import support
    import weir

    weir.set_device(0)
    first, second = weir.Stream(0), weir.Stream(1)
    default = weir.current_stream(1)
    assert (default.device, default.handle) == (1, 0)

    weir.set_current_stream(first)
    with second:
        assert weir.current_stream(0) == first
        assert weir.current_stream(1) == second
    assert weir.current_stream(0) == first
    assert weir.current_stream(1) == default
    weir.set_current_stream(second)
    with default:
        assert weir.current_stream(1) == default
    assert weir.current_stream(1) == second
    weir.set_current_stream(default)
    assert weir.current_stream(1) == default
    assert weir.current_stream(0) == first

    assert weir.malloc(8, default).device == 1
    assert weir.zeros(8, stream=default).device == 1
    assert weir.full(8, 1, stream=default).device == 1
    assert weir.zeros(8, place=0, stream=first).device == 0

    pool = weir.Pool(1)
    assert weir.malloc(8, pool=pool).info()["device"] == 1
    with second:
        assert weir.malloc(8, pool=pool).stream == second.handle
        assert weir.malloc(8, device=0, pool=pool).device == 1

    block = weir.malloc(1 << 20, second)
    address = block.address
    with weir.device(1), support.held(default) as go_on:
        with weir.device(0):
            assert not default.query()
            event = default.record_event()
            later = weir.Event()
            later.record(default)
            first.wait_stream(default)
            assert not (event.query() or later.query() or first.query())
            for stream in (default, None):
                block.record_stream(stream)
                block.free()
                block = weir.malloc(1 << 20, second)
                assert block.address != address
                address = block.address
            go_on()
            default.synchronize()
            assert default.query() and event.query()
            first.synchronize()
    assert weir.get_device() == 0
    with support.held(first):
        default.wait_stream(first)
        assert not default.query()
    with support.held(first):
        default.wait_event(first.record_event())
        assert not default.query()
    default.synchronize()
    print("done")
"""


@pytest.mark.skipif(not support.SIMULATED and weir.device_count() < 2,
                    reason="there is one device")
def test_a_default_stream_is_of_its_own_device():
    told = support.run_python(TWO_DEVICES, support.HERE,
                              SIMCUDA_CONF="devices:2")
    assert told == "done\n"
