"""Blocks of `with`, and the options as a mapping."""

from . import _weir


class device:
    """Make a device current for a `with` block, on this thread.

    device: a number or "cuda:N". After the block the previous device is
    current again.
    """

    __slots__ = ("device", "_before")

    def __init__(self, device):
        self.device = device
        self._before = []

    def __enter__(self):
        self._before.append(_weir.get_device())
        try:
            _weir.set_device(self.device)
        except BaseException:
            self._before.pop()
            raise
        return self

    def __exit__(self, *exc):
        _weir.set_device(self._before.pop())


class capture:
    """Capture a stream into a weir.Graph for a `with` block.

    graph: the graph; stream: None is the current stream, which cannot be a
    default one; pool, mode: as Graph.capture_begin(). The stream is current
    in the block. If the block raises, the capture is dropped, the graph can
    capture again, and the exception is passed on.
    """

    __slots__ = ("graph", "stream", "pool", "mode")

    def __init__(self, graph, stream=None, *, pool=None, mode="global"):
        self.graph = graph
        self.stream = stream
        self.pool = pool
        self.mode = mode

    def __enter__(self):
        if self.stream is None:
            self.stream = _weir.current_stream()
        elif not isinstance(self.stream, _weir.Stream):
            self.stream = _weir.Stream.external(self.stream)
        self.stream.__enter__()
        try:
            self.graph.capture_begin(
                self.stream, pool=self.pool, mode=self.mode)
        except BaseException:
            self.stream.__exit__(None, None, None)
            raise
        return self.graph

    def __exit__(self, kind, value, traceback):
        self.stream.__exit__(None, None, None)
        if kind is None:
            self.graph.capture_end()
        else:
            self.graph.reset()


class history:
    """Record the history for a `with` block; arguments as history_start().

        with weir.history(stacks="python"):
            train_one_step()
            weir.snapshot_write("step.pickle")

    The recorded events are dropped at the end of the block.
    """

    __slots__ = ("_arguments",)

    def __init__(self, level="all", **arguments):
        self._arguments = (level, arguments)

    def __enter__(self):
        level, arguments = self._arguments
        _weir.history_start(level, **arguments)
        return self

    def __exit__(self, *exc):
        _weir.history_stop()


class annotate:
    """Record a region of the program in the history for a `with` block.

    name: the region's name in snapshots; device: the device with which it is
    listed. Does nothing while the history is off.
    """

    __slots__ = ("name", "device")

    def __init__(self, name, device=None):
        self.name = name
        self.device = device

    def __enter__(self):
        _weir.annotate_begin(self.name, self.device)
        return self

    def __exit__(self, *exc):
        _weir.annotate_end(self.name, self.device)


class metadata:
    """Give events of this thread a text as 'user_metadata' for a `with` block;
    the previous text is restored after it."""

    __slots__ = ("text", "_before")

    def __init__(self, text):
        self.text = text
        self._before = []

    def __enter__(self):
        self._before.append(_weir.get_metadata())
        _weir.set_metadata(self.text)
        return self

    def __exit__(self, *exc):
        _weir.set_metadata(self._before.pop())


class Options:
    """The options of weir, as a mapping from keys to texts: weir.options.

        weir.options["prefer"] = "memory"
        weir.options.set("prefer:speed,decay_ms:off")
        print(weir.options.describe("decay_ms"))

    A wrong key raises KeyError when it is read; a wrong key or value raises
    InvalidArgumentError when it is set, and nothing has changed then.
    """

    __slots__ = ()

    def _rows(self):
        return {row[0]: row for row in _weir.options_list()}

    def __getitem__(self, key):
        return self._rows()[key][1]

    def __setitem__(self, key, value):
        _weir.options_set(f"{key}:{value}")

    def set(self, conf):
        """Set options from "key:value,key:value"; all or none take effect."""
        _weir.options_set(conf)

    def describe(self, key):
        """A dict of an option: key, value, type, default, range (what is
        accepted), help, source ("default", "environment" or "call")."""
        names = ("key", "value", "type", "default", "range", "help", "source")
        return dict(zip(names, self._rows()[key]))

    def keys(self):
        """The keys, in the manual's order."""
        return self._rows().keys()

    def items(self):
        """Pairs of key and value in force."""
        return [(row[0], row[1]) for row in _weir.options_list()]

    def __contains__(self, key):
        return key in self._rows()

    def __iter__(self):
        return iter(self._rows())

    def __len__(self):
        return len(_weir.options_list())

    def __repr__(self):
        return f"<weir.options {dict(self.items())!r}>"


options = Options()
