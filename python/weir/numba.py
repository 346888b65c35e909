"""Numba on weir: a memory manager of Numba's EMM interface, version 1.

    NUMBA_CUDA_MEMORY_MANAGER=weir.numba python3 program.py

or, before anything of CUDA is used:

    import weir.numba
    weir.numba.install()

Device arrays, page-locked and mapped host memory come from weir then. Numba
names no stream when it allocates, so device memory is that of
weir.ANY_STREAM: it may be used on any stream at once, and a freed block is
handed out again only when the work submitted before its free is done. Such
memory lies in segments of the driver, so Numba's IPC handles work. Nothing
waits: what cuda.defer_cleanup() puts off is only Numba's own unregistering.

A request that finds no memory raises weir.numba.OutOfMemoryError, which is a
weir.OutOfMemoryError and Numba's CudaAPIError with code 2. Where Numba
allocates by cuda.core (kernel launches with arrays of the host, in newer
versions), weir.cuda_core serves those requests too.
"""

import ctypes
import threading
import weakref

from numba import cuda
from numba.cuda.cudadrv import driver as _driver

import weir
from weir import _errors
from weir._weir import _block_range

try:
    from numba.cuda.cudadrv import drvapi as _drvapi
except ImportError:  # bindings only
    _drvapi = None

# Later versions of Numba have NVIDIA's bindings only, and no such name.
_BINDINGS = getattr(_driver, "USE_NV_BINDING", True)
_OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY


def _take_first_forms():
    """Let Numba call the first forms of cuCtxGetDevice() and cuCtxSynchronize().

    Numba's own bindings take the _v2 form of any call that has one. CUDA 13 gave
    one to these two, with another parameter.
    """
    find = getattr(_driver.driver, "_find_api", None)
    if find is None or _BINDINGS:
        return

    def find_first(name):
        if name in ("cuCtxGetDevice", "cuCtxSynchronize"):
            return getattr(_driver.driver.lib, name)
        return find(name)

    _driver.driver._find_api = find_first


_take_first_forms()


class OutOfMemoryError(_driver.CudaAPIError, weir.OutOfMemoryError):
    """No device memory for an array; the text is weir's report."""

    def __init__(self, error):
        super().__init__(_OUT_OF_MEMORY, str(error))
        self.status = error.status

    def __reduce__(self):
        return _errors.rebuild, (type(self), dict(self.__dict__), self.args)


def _device_pointer(address):
    """A device address, in the form of Numba's driver module."""
    if _BINDINGS:
        return _driver.binding.CUdeviceptr(address)
    return _drvapi.cu_device_ptr(address)


def _host_pointer(address):
    """A host address, in the form of Numba's driver module."""
    return address if _BINDINGS else ctypes.c_void_p(address)


def _device_number(device):
    """The number of a Context's device: one of Numba's Devices, or what
    another library's context was made with, a CUdevice or a number."""
    device = getattr(device, "id", device)
    return int(getattr(device, "value", device))


# ---- The extent of an allocation ---------------------------------------------

_drivers_extents = _driver.device_extents
_asking_driver = threading.local()


def _device_extents(devmem):
    """Numba's device_extents(): the first address of an allocation and the one
    after its last.

    Numba asks the driver, which knows the range of addresses that weir has many
    blocks in: device_memset() over device_memory_size() would write over the
    other blocks. Memory of weir's is answered with its own block.
    """
    if not getattr(_asking_driver, "now", False):
        pointer = _driver.device_ctypes_pointer(devmem)
        found = _block_range(int(getattr(pointer, "value", pointer) or 0))
        if found is not None:
            return found[0], found[0] + found[1]
    return _drivers_extents(devmem)


class WeirMemoryManager(cuda.GetIpcHandleMixin,
                        cuda.HostOnlyCUDAMemoryManager):
    """Numba's memory manager on weir; Numba makes one for each context."""

    def initialize(self):
        """Prepare for use; may be called any number of times."""
        _driver.device_extents = _device_extents
        if self.deallocations.memory_capacity == _driver._SizeNotSet:
            self.deallocations.memory_capacity = self.get_memory_info().total
            _serve_launches(self._device())

    def _device(self):
        return _device_number(self.context.device)

    def memalloc(self, size):
        """Allocate device memory. `size` is bytes."""
        try:
            memory = weir.malloc(size, weir.ANY_STREAM, device=self._device())
        except weir.OutOfMemoryError as error:
            raise OutOfMemoryError(error) from None
        # Dropping the object frees the memory, also after a device reset.
        return _driver.MemoryPointer(
            weakref.proxy(self.context), _device_pointer(memory.address),
            size, finalizer=[memory].clear)

    def memhostalloc(self, size, mapped=False, portable=False, wc=False):
        """Allocate page-locked host memory. `size` is bytes; it is reused when
        all work submitted to the device before its free is done."""
        memory = weir.pinned(size, device=self._device(), mapped=mapped,
                             portable=portable, write_combined=wc)
        memory.record_stream(weir.ANY_STREAM)
        address = memory.address
        context = weakref.proxy(self.context)
        if not mapped:
            return _driver.PinnedMemory(context, _host_pointer(address), size,
                                        finalizer=[memory].clear)
        allocations, holder = self.allocations, [memory]

        def finalizer():
            allocations.pop(address, None)
            holder.clear()

        # Numba's own handle holds only a weak reference.
        allocations[address] = mapped = _driver.MappedMemory(
            context, _host_pointer(address), size, finalizer=finalizer)
        return mapped.own()

    def get_ipc_handle(self, memory):
        """Numba's handle of the driver's allocation, with the offset of the
        memory in it."""
        _asking_driver.now = True
        try:
            return super().get_ipc_handle(memory)
        finally:
            _asking_driver.now = False

    def get_memory_info(self):
        """(free, total) bytes, as weir.memory_info() returns them."""
        free, total = weir.memory_info(self._device())
        return _driver.MemoryInfo(free=free, total=total)

    @property
    def interface_version(self):
        """The version of the EMM interface: 1."""
        return 1


_numba_memory_manager = WeirMemoryManager


def _serve_launches(device):
    """Make cuda.core, if it is installed, allocate through weir."""
    try:
        from weir import cuda_core
    except ImportError:
        return
    cuda_core.install(device)


def install():
    """Make Numba allocate through weir in this process.

    Raises RuntimeError if Numba has made a context already, because memory
    that it has allocated would be freed by the wrong manager.
    """
    if any(gpu.primary_context is not None for gpu in _made_devices()):
        raise RuntimeError(
            "weir.numba.install() came too late: Numba has used CUDA already")
    cuda.set_memory_manager(WeirMemoryManager)


def _made_devices():
    """Numba's devices, without creating any."""
    return list(getattr(_driver.driver, "devices", {}).values())
