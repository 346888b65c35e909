"""A sleep backend for vLLM, in the form of its pluggable interface.

    # an entry point of the group vllm.general_plugins:
    weir = "weir.vllm:register"
    # then
    vllm serve ... --enable-sleep-mode --sleep-mode-backend weir

Level 1 keeps the weights in page-locked memory and drops the KV cache; level 2
drops both. All other memory that weir serves leaves as well, with its contents:
static buffers, graph pools, workspaces. Graphs and compiled code stay valid.

vLLM must run on weir (weir.torch.install(), or `weir run --torch`). register()
makes vLLM's memory pools with tags pools of weir.
"""

import contextlib

import weir
from weir.memory_saver import pool_of_tag

__all__ = ["Allocator", "SleepBackend", "allocator", "register"]

_WEIGHTS, _CACHE = "weights", "kv_cache"


class Allocator:
    """The memory of vLLM's tags. It has the interface of its own allocator for
    sleep mode: use_memory_pool(), sleep(), wake_up(), discard() and
    get_current_usage()."""

    def __init__(self):
        self._pools = {}
        self._suspended = {}  # tag: its pool is suspended

    @contextlib.contextmanager
    def use_memory_pool(self, tag=None):
        """Route this thread's requests to the memory of a tag."""
        tag = tag or "default"
        pool = self._pools.get(tag)
        if pool is None:
            pool = self._pools[tag] = pool_of_tag(tag)
        with pool:
            yield

    def get_current_usage(self):
        """Bytes that the tags hold on the device."""
        return sum(pool.stats()["reserved_bytes.all.current"]
                   for pool in self._pools.values())

    def sleep(self, offload_tags=None):
        """Take the tags off the device, and then all other memory. The contents
        of the tags in `offload_tags` are kept."""
        if offload_tags is None:
            offload_tags = ("default",)
        elif isinstance(offload_tags, str):
            offload_tags = (offload_tags,)
        begun = []
        try:
            for tag, pool in self._pools.items():
                if tag not in self._suspended:
                    pool.suspend(copy=tag in offload_tags)
                    self._suspended[tag] = True
                    begun.append(tag)
            weir.sleep()
        except weir.Error:
            for tag in begun:
                self._pools[tag].resume()
                del self._suspended[tag]
            raise

    def discard(self, tags):
        """Drop the contents and the memory of some tags now."""
        for tag in tags:
            if tag in self._pools and tag not in self._suspended:
                self._pools[tag].suspend(copy=False)
                self._suspended[tag] = True

    def wake_up(self, tags=None):
        """Have the memory of some tags, or of all, again; and all memory
        without a tag. After an error the call can be repeated."""
        if weir.is_asleep():
            weir.wake()
        for tag in list(self._suspended):
            if tags is None or tag in tags:
                self._pools[tag].resume()
                del self._suspended[tag]

    def asleep(self):
        """The tags that are not on the device."""
        return set(self._suspended)


allocator = Allocator()


def _base():
    try:
        from vllm.device_allocator.sleep_mode_backend import SleepModeBackend
    except ImportError:
        return object
    return SleepModeBackend


class SleepBackend(_base()):
    """vLLM's SleepModeBackend over weir."""

    def __init__(self):
        super().__init__()
        self._state = "RUNNING"

    def suspend(self, level=1):
        if level not in (1, 2):
            raise ValueError(f"weir.vllm: sleep level {level}; it is 1 or 2")
        allocator.sleep((_WEIGHTS,) if level == 1 else ())
        self._state = "SUSPENDED"

    def resume(self, tags=None):
        self._state = "RESUMING"
        try:
            allocator.wake_up(tags)
        finally:
            self._state = "SUSPENDED" if allocator.asleep() else "RUNNING"

    def discard(self, tags):
        allocator.discard(tags)
        self._state = "SUSPENDED"

    def state(self):
        return self._state

    @classmethod
    def is_supported(cls):
        import weir.torch

        return weir.torch.installed() == "adapter"

    @classmethod
    def preserves_communicators(cls):
        return True

    @classmethod
    def preserves_nccl(cls):
        return True

    @classmethod
    def preserves_compiled_artifacts(cls):
        return True

    @classmethod
    def preserves_graphs_with_communicators(cls):
        return True

    @classmethod
    def preserves_graphs_with_nccl(cls):
        return True

    @classmethod
    def supports_durable_storage(cls):
        return False


def register():
    """Make the backend known to vLLM as "weir"; further calls do nothing."""
    import vllm.device_allocator as device_allocator
    from vllm.device_allocator.sleep_mode_backend import \
        SleepModeBackendFactory as factory

    with contextlib.suppress(ValueError):  # it is registered already
        factory.register_backend("weir", "weir.vllm", "SleepBackend")
    device_allocator.get_mem_allocator_instance = lambda: allocator
