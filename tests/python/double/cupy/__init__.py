"""A test double: as much of CuPy's allocator interface as weir.cupy uses, in
our own words, so that the plug-in is tested where there is no CuPy."""

from . import cuda

DOUBLE = True
_pool = cuda.memory.MemoryPool()
_pinned_pool = cuda.memory.PinnedMemoryPool()


def get_default_memory_pool():
    return _pool


def get_default_pinned_memory_pool():
    return _pinned_pool


class ndarray:
    """Bytes of memory from the allocator in force."""

    def __init__(self, size):
        self.size = size
        self.data = cuda.memory.allocate(size)


def empty(size, dtype="u1"):
    return ndarray(size)
