import weir

from . import memory
from .memory import MemoryPointer, UnownedMemory, PinnedMemoryPointer
from .memory import set_allocator, set_pinned_memory_allocator


class Device:
    def __init__(self, number=None):
        self.id = weir.get_device() if number is None else number


class Stream:
    current = []

    def __init__(self, non_blocking=True):
        self.own = weir.Stream()
        self.ptr = self.own.handle

    def __enter__(self):
        Stream.current.append(self)
        return self

    def __exit__(self, *exc):
        Stream.current.pop()


class _Null:
    ptr = 0


def get_current_stream():
    return Stream.current[-1] if Stream.current else _Null


def alloc_pinned_memory(size):
    return memory.allocate_pinned(size)
