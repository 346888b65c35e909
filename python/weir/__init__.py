"""weir: a caching GPU memory allocator with stream-ordered reuse.

Freed memory stays in the pool of its stream and serves that stream again at
once, with no call to the driver and no wait.

    import weir

    stream = weir.Stream()
    with stream:
        block = weir.malloc(64 << 20)      # for work queued on the stream
    ...                                    # use block.address
    block.record_stream(other)             # the stream `other` uses it too
    block.free()                           # or drop it; neither waits

    x = weir.zeros((1024, 1024), "float16")   # a tensor on the device
    y = torch.from_dlpack(x)                  # or CuPy, Numba, JAX: no copy
    z = weir.asarray(numpy_array).to("cuda")
    queue.put(x)                              # multiprocessing: no copy either

Sizes are bytes. A device is a number, "cuda:N", or None for the current one. A
stream is a weir.Stream, a handle, an object with __cuda_stream__, or None for
the current one of the thread. A default stream that is given by its handle (0 to
2) is that of the current device; a weir.Stream is of its own device.

Every failure of weir raises a subclass of weir.Error, which is a RuntimeError:
OutOfMemoryError and HostOutOfMemoryError are MemoryErrors too, and
InvalidArgumentError is a ValueError, FileError an OSError with errno, strerror
and filename (errno is None if the file is not in its format). All can be pickled
and copied. A failed call changes nothing.

Every call is thread-safe; objects may be dropped on any thread. The GIL is
released in calls that may wait or call the driver. Importing weir loads no
driver. After fork() the child has no GPU: calls that need one raise
NoDeviceError, and dropping the parent's memory does nothing.
"""

try:
    from . import _weir
except ImportError as error:
    from ._where import explain
    raise ImportError(explain(error)) from None
from ._weir import (
    ANY_STREAM,
    GRANULE,
    Checkpoint,
    Error,
    Event,
    FileError,
    Graph,
    HostOutOfMemoryError,
    InvalidArgumentError,
    Memory,
    NoDeviceError,
    NotReadyError,
    NotSupportedError,
    OutOfMemory,
    OutOfMemoryError,
    PinnedMemory,
    Pool,
    Stream,
    Tensor,
    TraceEvent,
    __version__,
    add_oom_observer,
    add_trace_callback,
    annotate_begin,
    annotate_end,
    check,
    copy,
    current_stream,
    device_count,
    device_info,
    empty,
    from_buffer,
    from_cuda_array_interface,
    from_dlpack,
    full,
    get_device,
    get_metadata,
    history_info,
    history_start,
    history_stop,
    init,
    is_asleep,
    is_pinned,
    largest_free,
    limit,
    malloc,
    memory_info,
    ones,
    pinned,
    pinned_stats,
    remove_oom_observer,
    remove_trace_callback,
    reset_accumulated_stats,
    reset_peak_stats,
    set_current_stream,
    set_device,
    set_limit,
    set_metadata,
    sleep,
    snapshot_write,
    stats,
    synchronize,
    telemetry,
    trim,
    wake,
    zeros,
)
from . import _errors, ipc
from ._manage import annotate, capture, device, history, metadata, options
from ._report import memory_summary, snapshot
from ._files import load, save
from ._sleep import on_sleep
from ._tensor import asarray
from ._where import include_dir, library_path

__all__ = [name for name in dir() if not name.startswith("_")]
