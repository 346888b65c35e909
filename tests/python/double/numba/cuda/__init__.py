from .cudadrv.driver import (  # noqa: F401
    GetIpcHandleMixin,
    HostOnlyCUDAMemoryManager,
    set_memory_manager,
)
