"""Scratch memory of Triton's kernels from weir.

    import weir.triton
    weir.triton.install()
    kernel[grid](...)       # one that needs memory at its launch

Triton asks for such memory for each launch, on the launch's stream. It is let
go of when the launch is queued, and serves that stream again from then on.
Triton keeps an allocator for each context of contextvars: call install() in the
thread or task that launches.
"""

import weir

__all__ = ["allocate", "install"]


class _Buffer:
    """Memory in the form that Triton expects."""

    __slots__ = ("memory",)

    def __init__(self, memory):
        self.memory = memory

    def data_ptr(self):
        """The first byte, an int."""
        return 0 if self.memory is None else self.memory.address


def allocate(size, alignment, stream):
    """The function for triton.set_allocator(): allocate `size` bytes on a
    stream, a handle or None for the thread's current stream of weir; alignment
    up to 512.

    Returns an object with data_ptr(), which frees the memory when it is
    dropped. Raises OutOfMemoryError; ValueError for a larger alignment.
    """
    if alignment > 512:
        raise ValueError(f"alignment is {alignment}; weir aligns to 512 bytes")
    return _Buffer(weir.malloc(size, stream) if size else None)


def install():
    """Make Triton allocate scratch memory from weir, in this context."""
    import triton

    triton.set_allocator(allocate)
