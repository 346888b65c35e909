"""Reads snapshots of weir with PyTorch's own reader.

    python3 tests/gpu/memory_viz.py FILE...

Needs PyTorch, no GPU. Each file is read with Python's pickle and given to every
function of torch.cuda._memory_viz; what they print must have all that is in the
file: the segments' bytes by state, each event of the traces, and in the pages
the whole snapshot. One line a file; exit status 1 if one is not read.
"""

import base64
import pickle
import re
import sys

from torch.cuda import _memory_viz as viz


def folded(text):
    """Sum up a flame graph's input lines."""
    return sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines())


def page_data(page):
    """Read the snapshot out of a page."""
    found = re.search(r'"base64": "([A-Za-z0-9+/=]+)"', page)
    return pickle.loads(base64.b64decode(found[1]))


def check(data):
    segments = data["segments"]
    total = sum(s["total_size"] for s in segments)
    blocks = sum(b["size"] for s in segments for b in s["blocks"])
    events = [e for trace in data["device_traces"] for e in trace]
    assert total == blocks, f"{total} bytes of segments, {blocks} of blocks"

    summary = viz.segsum(data)
    assert f"segments: {len(segments)}" in summary.lower() or not segments, \
        summary[-400:]
    text = viz.trace(data)
    named = sum(e["action"] not in ("snapshot",) for e in events)
    assert len(text.splitlines()) >= named, "trace() has too few lines"
    flat = viz.memory(data, format_flamegraph=str)
    assert folded(flat) == total, f"memory() has {folded(flat)} of {total}"
    flat = viz.segments(data, format_flamegraph=str)
    assert folded(flat) == total, f"segments() has {folded(flat)} of {total}"
    empty = dict(data, segments=[])
    flat = viz.compare(empty["segments"], segments, format_flamegraph=str)
    assert folded(flat) == total, f"compare() has {folded(flat)} of {total}"
    for page in (viz.segment_plot(data), viz.trace_plot(data),
                 viz.trace_plot(data, plot_segments=True)):
        inside = page_data(page)
        assert len(inside["segments"]) == len(segments), "page: segments"
        assert [len(t) for t in inside["device_traces"]] == \
            [len(t) for t in data["device_traces"]], "page: events"
    return total, len(segments), len(events)


def main():
    bad = 0
    for name in sys.argv[1:]:
        with open(name, "rb") as file:
            data = pickle.load(file)
        try:
            total, segments, events = check(data)
        except Exception as error:  # pylint: disable=broad-except
            print(f"{name}: {type(error).__name__}: {error}")
            bad += 1
            continue
        print(f"{name}: {total} bytes in {segments} segments, {events} events")
    sys.exit(bad > 0 or len(sys.argv) < 2)


main()
