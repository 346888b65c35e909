import ctypes
import os
import weakref
from collections import namedtuple

_SizeNotSet = object()
MemoryInfo = namedtuple("MemoryInfo", "free,total")
IpcHandle = namedtuple("IpcHandle", "memory,handle,size,offset")


class CudaAPIError(Exception):
    def __init__(self, code, msg):
        super().__init__(code, msg)
        self.code, self.msg = code, msg

    def __str__(self):
        return f"[{self.code}] {self.msg}"


class _Number:
    def __init__(self, number=0):
        self._number = int(number)

    def __int__(self):
        return self._number


class binding:
    class CUdeviceptr(_Number):
        pass

    class CUdevice(_Number):
        pass


class _Driver:
    devices = {}

    def __init__(self):
        self._lib = ctypes.CDLL(os.environ.get("WEIR_LIBCUDA",
                                               "libcuda.so.1"))

    def _call(self, name, *args):
        code = getattr(self._lib, name)(*args)
        if code != 0:
            raise CudaAPIError(code, name)

    def cuMemGetAddressRange(self, address):
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        self._call("cuMemGetAddressRange_v2", ctypes.byref(base),
                   ctypes.byref(size), ctypes.c_uint64(address))
        return binding.CUdeviceptr(base.value), size.value

    def cuMemHostGetDevicePointer(self, address, flags):
        found = ctypes.c_uint64()
        self._call("cuMemHostGetDevicePointer_v2", ctypes.byref(found),
                   ctypes.c_void_p(address), flags)
        return binding.CUdeviceptr(found.value)

    def cuMemsetD8(self, address, value, size):
        self._call("cuMemsetD8_v2", ctypes.c_uint64(address), value,
                   ctypes.c_size_t(size))


driver = _Driver()


class MemoryPointer:
    __cuda_memory__ = True

    def __init__(self, context, pointer, size, owner=None, finalizer=None):
        self.context, self.device_pointer, self.size = context, pointer, size
        self._cuda_memsize_ = size
        self.handle = pointer
        if finalizer is not None:
            weakref.finalize(self, finalizer)

    @property
    def device_ctypes_pointer(self):
        return ctypes.c_size_t(int(self.device_pointer))


class MappedMemory(MemoryPointer):
    def __init__(self, context, pointer, size, owner=None, finalizer=None):
        self.host_pointer = pointer
        super().__init__(context, driver.cuMemHostGetDevicePointer(pointer, 0),
                         size, finalizer=finalizer)
        self.handle = pointer

    def own(self):
        return self


class PinnedMemory:
    def __init__(self, context, pointer, size, owner=None, finalizer=None):
        self.host_pointer, self.size = pointer, size
        if finalizer is not None:
            weakref.finalize(self, finalizer)


class Array:
    """An array of Numba's on memory: it does not know the memory's size."""

    __cuda_memory__ = True

    def __init__(self, memory, start=0):
        self.memory, self.start = memory, start

    @property
    def device_ctypes_pointer(self):
        return ctypes.c_size_t(int(self.memory.device_pointer) + self.start)


def device_ctypes_pointer(memory):
    return memory.device_ctypes_pointer


def device_pointer(memory):
    return device_ctypes_pointer(memory).value


def device_extents(memory):
    start, size = driver.cuMemGetAddressRange(device_pointer(memory))
    return int(start), int(start) + size


def device_memory_size(memory):
    size = getattr(memory, "_cuda_memsize_", None)
    if size is None:
        start, end = device_extents(memory)
        size = end - start
    return size


def device_memset(memory, value, size):
    driver.cuMemsetD8(device_pointer(memory), value, size)


class _Pending:
    memory_capacity = _SizeNotSet


class HostOnlyCUDAMemoryManager:
    def __init__(self, context):
        self.context = context
        self.allocations = {}
        self.deallocations = _Pending()


class GetIpcHandleMixin:
    def get_ipc_handle(self, memory):
        base, _ = device_extents(memory)
        return IpcHandle(memory, base, memory.size, int(memory.handle) - base)


class Device:
    def __init__(self, number):
        self.id = number


class Context:
    def __init__(self, device, handle):
        self.device, self.handle = device, handle
        self.memory_manager = _manager(self)

    def push(self):
        self.memory_manager.initialize()


_manager = None


def set_memory_manager(manager):
    global _manager
    _manager = manager
