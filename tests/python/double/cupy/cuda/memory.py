class OutOfMemoryError(MemoryError):
    def __init__(self, size, total, limit=0):
        super().__init__(f"Out of memory allocating {size:,} bytes")


class UnownedMemory:
    def __init__(self, ptr, size, owner, device_id=-1):
        self.ptr, self.size, self.device_id = ptr, size, device_id
        self._owner = owner


class MemoryPointer:
    def __init__(self, mem, offset):
        self.mem, self.ptr = mem, mem.ptr + offset


class PinnedMemoryPointer:
    def __init__(self, mem, offset):
        self.mem, self.ptr = mem, mem.ptr + offset


class MemoryPool:
    def malloc(self, size):
        return MemoryPointer(UnownedMemory(1, size, None), 0)


class PinnedMemoryPool:
    def malloc(self, size):
        return PinnedMemoryPointer(UnownedMemory(1, size, None), 0)


_allocators = [MemoryPool().malloc, PinnedMemoryPool().malloc]


def get_allocator():
    return _allocators[0]


def set_allocator(function):
    _allocators[0] = function


def set_pinned_memory_allocator(function):
    _allocators[1] = function


def allocate(size):
    return _allocators[0](size)


def allocate_pinned(size):
    return _allocators[1](size)
