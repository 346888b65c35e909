"""cuda.core on weir: a memory resource for cuda-python's Device.

    import weir.cuda_core
    weir.cuda_core.install()        # the current device; or install(1)

What cuda.core allocates on the device without naming a resource comes from
weir then, on the stream that the request names. A buffer is freed on the stream
that its close() names, or else on the one it was allocated for. A stream object
that a program drops lives on until a request names one that is new.
"""

try:
    from cuda.core import Buffer, Device, MemoryResource
except ImportError:
    from cuda.core.experimental import Buffer, Device, MemoryResource

import weir
from weir._streams import Keeper

_streams = Keeper()


def _keep(stream):
    if hasattr(stream, "__cuda_stream__"):
        _streams.keep(weir.Stream.external(stream).handle, stream)


class WeirMemoryResource(MemoryResource):
    """Device memory of one device from weir. device: its number."""

    def __init__(self, device):
        self._device = int(device)
        self._live = {}

    def allocate(self, size, stream=None, **_):
        """Allocate `size` bytes for work on a stream; None is weir's current
        stream of the thread. Raises weir.OutOfMemoryError."""
        if size == 0:
            return Buffer.from_handle(0, 0, mr=self)
        _keep(stream)
        memory = weir.malloc(size, stream, device=self._device)
        self._live[memory.address] = memory
        return Buffer.from_handle(memory.address, size, mr=self)

    def deallocate(self, ptr, size, stream=None, **_):
        """Free memory of allocate(). `stream`: the stream on which all its
        use is queued by now; None is the stream of its allocation."""
        memory = self._live.pop(int(ptr), None)
        if memory is not None:
            _keep(stream)
            memory.free(stream)

    @property
    def device_id(self):
        """The device's number."""
        return self._device

    @property
    def is_device_accessible(self):
        """True: it is device memory."""
        return True

    @property
    def is_host_accessible(self):
        """False: the host cannot access it."""
        return False

    @property
    def is_managed(self):
        """False: it does not migrate."""
        return False


def install(device=None):
    """Make weir the memory resource of a device of cuda.core; None is the
    current device. Returns the resource."""
    number = weir.get_device() if device is None else int(device)
    resource = WeirMemoryResource(number)
    Device(number).memory_resource = resource
    return resource
