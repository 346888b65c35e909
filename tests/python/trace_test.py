"""Callbacks of Python for what the allocator does."""

import gc

import pytest
import support  # noqa: F401

import weir

KINDS = ("event_creation", "event_deletion", "event_record", "event_wait",
         "memory_allocation", "memory_deallocation", "stream_creation",
         "device_synchronization", "stream_synchronization",
         "event_synchronization")


class Collector:
    """Collects the events of some kinds for a block."""

    def __init__(self, *kinds):
        self.kinds = kinds
        self.events = []

    def __call__(self, event):
        self.events.append(event)

    def __enter__(self):
        for kind in self.kinds:
            weir.add_trace_callback(kind, self)
        return self.events

    def __exit__(self, *exc):
        for kind in self.kinds:
            weir.remove_trace_callback(kind, self)


def test_an_allocation_and_a_free_are_reported_with_their_address():
    stream = weir.Stream()
    with Collector("memory_allocation", "memory_deallocation") as events:
        block = weir.malloc(1000, stream)
        address = block.address
        del block
        gc.collect()
    assert [(e.kind, e.address, e.size, e.stream, e.device) for e in events] \
        == [("memory_allocation", address, 1000, stream.handle, 0),
            ("memory_deallocation", address, 1000, stream.handle, 0)]


def test_the_life_of_an_event_is_reported():
    stream = weir.Stream()
    with Collector("event_creation", "event_record", "event_wait",
              "event_synchronization", "event_deletion") as events:
        event = weir.Event()
        event.record(stream)
        handle = event.handle
        stream.wait_event(event)
        event.synchronize()
        del event
    assert [e.kind for e in events] == [
        "event_creation", "event_record", "event_wait",
        "event_synchronization", "event_deletion"]
    assert {e.event for e in events} == {handle}
    assert events[1].stream == events[2].stream == stream.handle


def test_the_creation_of_a_stream_is_reported():
    with Collector("stream_creation") as events:
        streams = [weir.Stream() for _ in range(3)]
    assert [e.stream for e in events] == [s.handle for s in streams]


def test_waits_of_the_host_are_reported_before_them():
    stream = weir.Stream()
    with Collector("device_synchronization", "stream_synchronization") as events:
        weir.synchronize()
        stream.synchronize()
        block = weir.malloc(8, stream)
        weir.copy(block, bytes(8), stream=stream)
    assert [(e.kind, e.stream) for e in events] == [
        ("device_synchronization", 0),
        ("stream_synchronization", stream.handle),
        ("stream_synchronization", stream.handle)]


def test_all_callbacks_of_a_kind_are_called():
    first, second = Collector("memory_allocation"), Collector("memory_allocation")
    with first as one, second as two:
        weir.malloc(1)
    assert len(one) == len(two) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_can_be_listened_to(kind):
    reported = Collector(kind)
    with reported:
        with pytest.raises(ValueError, match="there already"):
            weir.add_trace_callback(kind, reported)
    with pytest.raises(ValueError, match="not there"):
        weir.remove_trace_callback(kind, reported)


def test_wrong_kinds_and_callbacks_are_refused():
    with pytest.raises(ValueError, match="'memory_allocation'"):
        weir.add_trace_callback("malloc", print)
    with pytest.raises(TypeError, match="callable"):
        weir.add_trace_callback("memory_allocation", 3)
    with pytest.raises(TypeError, match="callable"):
        weir.add_oom_observer(None)


def test_a_callback_may_call_weir():
    seen, reported = [], []

    def callback(event):
        reported.append(event)
        if len(reported) <= 3:
            seen.append(weir.malloc(event.size))

    weir.add_trace_callback("memory_allocation", callback)
    weir.malloc(77)
    weir.remove_trace_callback("memory_allocation", callback)
    assert [block.size for block in seen] == [77, 77, 77]


def test_callbacks_do_not_outlive_the_interpreter():
    told = support.run_python("""if True:
        import weir
        class Last:
            def __del__(self):
                print("let go of")
        last = Last()
        weir.add_trace_callback("memory_allocation", lambda event: None)
        weir.add_oom_observer(lambda oom: None)
        weir.malloc(1)
    """)
    assert told == "let go of\n"
