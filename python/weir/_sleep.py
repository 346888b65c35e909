"""Hooks of the program around a sleep."""

from . import _weir

_hooks = []    # in the order in which they were added
_entered = []  # those whose `before` was called for the sleep under way


class on_sleep:
    """Call functions of the program before a sleep and after the wake.

    They are for memory that weir does not serve, such as that of NCCL:

        hook = weir.on_sleep(before=comm.suspend, after=comm.resume)
        ...
        hook.remove()

    or for a `with` block, at whose end the hook is removed.

    before: called with no argument before the first device goes to sleep, while
    work and requests may still begin. after: called with no argument when all
    devices are awake again, also after a sleep that failed. Each may be None.
    Hooks are called in the order in which they were added, those after the wake
    in the reverse order, on the thread that calls weir.sleep() or weir.wake().
    That is a thread of weir's for `weir sleep PID` and, in a group, the thread
    whose launch or request wakes the device. They hold no lock of weir, and may
    call weir.

    What `before` raises makes the sleep fail: weir.sleep() on the same thread
    raises it. For any other caller the sleep fails with the exception's status,
    if it is a weir.Error, or else with WEIR_ENOTREADY, and the exception is
    passed to sys.unraisablehook(), as is what `after` raises. Then `after` is
    called of the hooks whose `before` has returned.

    A hook can be removed at any time. `after` of one that was added or removed
    while a device sleeps is not called.
    """

    __slots__ = ("before", "after", "_added")

    def __init__(self, before=None, after=None):
        for name, function in (("before", before), ("after", after)):
            if function is not None and not callable(function):
                raise TypeError(
                    f"{name} is callable or None, and {function!r} is not")
        self.before = before
        self.after = after
        self._added = True
        _weir._hook_sleep(_call_before, _call_after)
        _hooks.append(self)

    def remove(self):
        """Call the functions no more. Removing it again does nothing."""
        if self._added:
            self._added = False
            _hooks.remove(self)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


def _end(hooks):
    for hook in reversed(hooks):
        if hook.after is None or not hook._added:
            continue
        try:
            hook.after()
        except BaseException as error:
            _weir._print_raised(hook.after, error)


def _call_before():
    begun = []
    for hook in tuple(_hooks):
        try:
            if hook.before is not None and hook._added:
                hook.before()
        except BaseException:
            _end(begun)
            raise
        begun.append(hook)
    _entered[:] = begun


def _call_after():
    begun = tuple(_entered)
    _entered.clear()
    _end(begun)
