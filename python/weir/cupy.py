"""CuPy on weir.

    import weir.cupy
    weir.cupy.install()

Arrays are allocated by weir from now on, each for CuPy's current stream of the
thread; once freed, their memory serves that stream again at once. CuPy records
no use of an array on other streams, and neither does weir: call
weir.cupy.record_stream(array, stream) for such, or put the streams in order
before the array is let go of. A cupy.cuda.Stream that a program drops lives on
until an array is made on a stream that is new, and its memory then serves all
streams. For an ExternalStream call weir.Stream.external(handle).retire() before
it is destroyed. Page-locked memory comes from weir too, and is reused when all
work submitted to the device before its free is done.

CuPy's own pools stay as they are, with what they had given out; install()
makes cupy.get_default_memory_pool() and _pinned_memory_pool() give pools that
tell of weir's memory, whose limit is weir's. uninstall() undoes all of it;
arrays that are alive keep their memory until they are let go of.
"""

import cupy
import cupy.cuda.memory as _memory

import weir
from weir._streams import Keeper

_before = None
_streams = Keeper()


class OutOfMemoryError(_memory.OutOfMemoryError, weir.OutOfMemoryError):
    """No device memory for an array; the text is weir's report."""

    def __init__(self, error, size, total):
        super().__init__(size, total)
        self.args = (str(error),)
        self._text = str(error)
        self.status = error.status

    def __str__(self):
        return self._text


def malloc(size):
    """CuPy's allocator function: memory of `size` bytes of the current device
    for CuPy's current stream, as a cupy.cuda.MemoryPointer. Raises
    weir.cupy.OutOfMemoryError."""
    device = cupy.cuda.Device().id
    if size == 0:
        return cupy.cuda.MemoryPointer(
            cupy.cuda.UnownedMemory(0, 0, None, device), 0)
    stream = cupy.cuda.get_current_stream()
    _streams.keep(stream.ptr, stream)
    try:
        memory = weir.malloc(size, stream.ptr, device=device)
    except weir.OutOfMemoryError as error:
        held = weir.stats(device)["allocated_bytes.all.current"]
        raise OutOfMemoryError(error, size, held) from None
    return cupy.cuda.MemoryPointer(
        cupy.cuda.UnownedMemory(memory.address, size, memory, device), 0)


class _Pinned:
    """Page-locked memory as cupy.cuda.PinnedMemoryPointer has it."""

    __slots__ = ("ptr", "size", "_memory", "__weakref__")

    def __init__(self, size):
        self._memory = weir.pinned(max(size, 1), device=cupy.cuda.Device().id)
        self._memory.record_stream(weir.ANY_STREAM)
        self.ptr = self._memory.address
        self.size = size


def pinned_malloc(size):
    """CuPy's allocator function for page-locked memory of `size` bytes. Raises
    weir.HostOutOfMemoryError."""
    return cupy.cuda.PinnedMemoryPointer(_Pinned(size), 0)


def record_stream(array, stream):
    """Say that work queued on a stream uses an array of weir's memory, so that
    it is not reused before that work is done. Raises TypeError for an array
    whose memory is not weir's."""
    owner = getattr(array.data.mem, "_owner", None)
    owner = owner if owner is not None else getattr(array.data.mem, "owner",
                                                    None)
    if not isinstance(owner, weir.Memory):
        raise TypeError("array is not in memory that weir gave CuPy")
    owner.record_stream(getattr(stream, "ptr", stream))


class MemoryPool:
    """weir's memory of the current device, as CuPy's pools tell of theirs."""

    def malloc(self, size):
        """Allocate; as weir.cupy.malloc()."""
        return malloc(size)

    def used_bytes(self):
        """Bytes of blocks in the hands of arrays."""
        return self._stats()["allocated_bytes.all.current"]

    def total_bytes(self):
        """Bytes that weir holds from the driver."""
        return self._stats()["reserved_bytes.all.current"]

    def free_bytes(self):
        """Bytes that weir holds and nobody uses."""
        return self.total_bytes() - self.used_bytes()

    def n_free_blocks(self):
        """Free parts of segments that are partly in use."""
        return self._stats()["inactive_split.all.current"]

    def free_all_blocks(self, stream=None):
        """Give unused memory back to the driver: of all streams, whichever
        `stream` is. Waits for the work that uses it."""
        weir.trim(cupy.cuda.Device().id)

    def free_all_free(self):
        """As free_all_blocks()."""
        self.free_all_blocks()

    def get_limit(self):
        """The most bytes weir may hold; 0 where there is no limit."""
        return weir.limit(cupy.cuda.Device().id) or 0

    def set_limit(self, size=None, fraction=None):
        """Set it to `size` bytes, or to a fraction of the device's memory; a
        size of 0 removes it. Raises ValueError unless one of the two is given,
        or for a value that cannot be."""
        if (size is None) == (fraction is None):
            raise ValueError("give either size or fraction")
        if fraction is not None:
            value = float(fraction)
        else:
            value = int(size) or None
        weir.set_limit(value, cupy.cuda.Device().id)

    @staticmethod
    def _stats():
        return weir.stats(cupy.cuda.Device().id)


class PinnedMemoryPool:
    """weir's page-locked memory, as CuPy's pool tells of its own."""

    def malloc(self, size):
        """Allocate; as weir.cupy.pinned_malloc()."""
        return pinned_malloc(size)

    def n_free_blocks(self):
        """Free parts of segments that are partly in use."""
        return weir.pinned_stats()["inactive_split.all.current"]

    def free_all_blocks(self):
        """Give unused memory back to the system."""
        weir.trim(pinned=True)


def install():
    """Have CuPy allocate by weir, on every thread of the process. Does nothing
    if that is so already."""
    global _before
    if _before is not None:
        return
    before = (_memory.get_allocator(), cupy.get_default_memory_pool,
              cupy.get_default_pinned_memory_pool)
    pool, pinned_pool = MemoryPool(), PinnedMemoryPool()
    cupy.cuda.set_allocator(malloc)
    cupy.cuda.set_pinned_memory_allocator(pinned_malloc)
    cupy.get_default_memory_pool = lambda: pool
    cupy.get_default_pinned_memory_pool = lambda: pinned_pool
    _before = before


def uninstall():
    """Undo install(). Does nothing without one."""
    global _before
    if _before is None:
        return
    allocator, pool, pinned_pool = _before
    cupy.cuda.set_allocator(allocator)
    cupy.cuda.set_pinned_memory_allocator(pinned_pool().malloc)
    cupy.get_default_memory_pool = pool
    cupy.get_default_pinned_memory_pool = pinned_pool
    _before = None
