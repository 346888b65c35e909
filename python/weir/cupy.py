"""CuPy on weir.

    import weir.cupy
    weir.cupy.install()

From now on weir allocates arrays, each for the thread's current CuPy stream.
Once freed, their memory serves that stream again at once. CuPy does not record
the use of an array on other streams, and neither does weir: for such uses call
weir.cupy.record_stream(array, stream), or order the streams before the array is
dropped. A cupy.cuda.Stream that a program drops lives on until an array is
made on a new stream; then its memory serves all streams. For an ExternalStream
call weir.Stream.external(handle).retire() before it is destroyed. Page-locked memory comes from weir too, and is reused when all
work submitted to the device before its free is done.

CuPy's own pools stay as they are, with the memory that they have allocated.
After install(), cupy.get_default_memory_pool() and _pinned_memory_pool() return
pools that report weir's memory and set weir's limit. uninstall() undoes all of
this; live arrays keep their memory until they are dropped.
"""

import cupy
import cupy.cuda.memory as _memory

import weir
from weir import _errors
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

    def __reduce__(self):
        return _errors.rebuild, (
            type(self), dict(self.__dict__), self.args, 0, 0)


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
    """Page-locked memory in the form for cupy.cuda.PinnedMemoryPointer."""

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
    """Record that work queued on a stream uses an array in weir's memory, so
    that the memory is not reused before that work is done. Raises TypeError for
    an array whose memory is not weir's."""
    owner = getattr(array.data.mem, "_owner", None)
    owner = owner if owner is not None else getattr(array.data.mem, "owner",
                                                    None)
    if not isinstance(owner, weir.Memory):
        raise TypeError("array is not in memory that weir gave CuPy")
    owner.record_stream(getattr(stream, "ptr", stream))


class MemoryPool:
    """weir's memory of the current device, in the form of CuPy's pools."""

    def malloc(self, size):
        """Allocate like weir.cupy.malloc()."""
        return malloc(size)

    def used_bytes(self):
        """Bytes of blocks that arrays use."""
        return self._stats()["allocated_bytes.all.current"]

    def total_bytes(self):
        """Bytes that weir holds from the driver."""
        return self._stats()["reserved_bytes.all.current"]

    def free_bytes(self):
        """Bytes that weir holds and no array uses."""
        return self.total_bytes() - self.used_bytes()

    def n_free_blocks(self):
        """Free parts of segments that are partly in use."""
        return self._stats()["inactive_split.all.current"]

    def free_all_blocks(self, stream=None):
        """Give unused memory back to the driver: of all streams, whichever
        `stream` is. Waits for the work that uses it."""
        weir.trim(cupy.cuda.Device().id)

    def free_all_free(self):
        """Does the same as free_all_blocks()."""
        self.free_all_blocks()

    def get_limit(self):
        """The most bytes that weir may hold; 0 if there is no limit."""
        return weir.limit(cupy.cuda.Device().id) or 0

    def set_limit(self, size=None, fraction=None):
        """Set the limit to `size` bytes, or to a fraction of the device's
        memory; a size of 0 removes it. Raises ValueError unless exactly one of
        the two is given, or for an impossible value."""
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
    """weir's page-locked memory, with the interface of CuPy's pool."""

    def malloc(self, size):
        """Allocate like weir.cupy.pinned_malloc()."""
        return pinned_malloc(size)

    def n_free_blocks(self):
        """Free parts of segments that are partly in use."""
        return weir.pinned_stats()["inactive_split.all.current"]

    def free_all_blocks(self):
        """Give unused memory back to the system."""
        weir.trim(pinned=True)


def install():
    """Make CuPy allocate through weir, on every thread of the process. Does
    nothing if CuPy does so already."""
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
