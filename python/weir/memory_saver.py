"""Regions whose memory can leave the device: torch_memory_saver's interface.

    from weir.memory_saver import torch_memory_saver

    with torch_memory_saver.region(tag="kv_cache"):
        cache = torch.empty(...)             # PyTorch on weir
    torch_memory_saver.pause("kv_cache")     # its memory is the driver's now
    torch_memory_saver.resume("kv_cache")    # at the same addresses again

A tag has two pools of weir, one whose contents are kept in page-locked memory
(enable_cpu_backup=True) and one whose contents are undefined after resume().
Without a tag, pause() and resume() mean all tags. Graphs that use the memory
need no new capture.

Difference: a region routes the requests of the calling thread. Memory that
PyTorch has cached from before does not serve a region.
"""

import contextlib
import threading

import weir

__all__ = ["DEFAULT_TAG", "TorchMemorySaver", "torch_memory_saver"]

DEFAULT_TAG = "default"


def pool_of_tag(tag):
    """A pool of the tag's name, by which `weir sleep --discard` finds it; of none
    if the tag is no name of a pool."""
    try:
        return weir.Pool(name=str(tag))
    except weir.InvalidArgumentError:
        return weir.Pool()


class _Tag:
    """The pools of a tag, by whether their contents are kept."""

    def __init__(self, tag):
        self.tag = tag
        self.pools = {}
        self.paused = False

    def pool(self, backup):
        if backup not in self.pools:
            self.pools[backup] = pool_of_tag(self.tag)
        return self.pools[backup]

    def suspend(self):
        done = []
        try:
            for backup, pool in self.pools.items():
                pool.suspend(copy=backup)
                done.append(pool)
        except weir.Error:
            for pool in done:
                pool.resume()
            raise
        self.paused = True

    def resume(self):
        for pool in self.pools.values():
            with contextlib.suppress(weir.InvalidArgumentError):
                pool.resume()  # it is not suspended after an earlier failure
        self.paused = False


class TorchMemorySaver:
    """Regions by tag. All calls are thread-safe."""

    def __init__(self):
        self._tags = {}
        self._lock = threading.RLock()
        self.enabled = True

    def _named(self, tag):
        """The tags of a call, in the order of their making."""
        if tag is None:
            return list(self._tags.values())
        if tag not in self._tags:
            raise ValueError(f"torch_memory_saver: there is no tag {tag!r}; "
                             f"there are {sorted(self._tags)}")
        return [self._tags[tag]]

    @contextlib.contextmanager
    def region(self, tag=DEFAULT_TAG, enable_cpu_backup=False):
        """Route this thread's requests to the memory of a tag."""
        if not self.enabled:
            yield
            return
        with self._lock:
            named = self._tags.setdefault(tag, _Tag(tag))
            if named.paused:
                raise RuntimeError(
                    f"torch_memory_saver: tag {tag!r} is paused")
            pool = named.pool(bool(enable_cpu_backup))
        with pool:
            yield

    @contextlib.contextmanager
    def cuda_graph(self, cuda_graph, pool=None, stream=None,
                   capture_error_mode="global", tag=DEFAULT_TAG,
                   enable_cpu_backup=True):
        """As torch.cuda.graph(), with the graph's memory under a tag."""
        import torch

        with torch.cuda.graph(cuda_graph, pool=pool, stream=stream,
                              capture_error_mode=capture_error_mode):
            with self.region(tag, enable_cpu_backup):
                yield

    @contextlib.contextmanager
    def disable(self):
        """Ignore regions in a block."""
        before, self.enabled = self.enabled, False
        try:
            yield
        finally:
            self.enabled = before

    def pause(self, tag=None):
        """Give the memory of a tag, or of all, back to the driver."""
        with self._lock:
            for named in self._named(tag):
                if not named.paused:
                    named.suspend()

    def resume(self, tag=None):
        """Have it again. If memory is short, weir.OutOfMemoryError is raised;
        the tag is still paused then and can be resumed later."""
        with self._lock:
            for named in self._named(tag):
                if named.paused:
                    named.resume()


torch_memory_saver = TorchMemorySaver()
