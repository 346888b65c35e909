"""Streams of other libraries, which end with their objects."""

import sys
import threading

from . import _weir


class Keeper:
    """Holds the objects of the streams that memory was allocated for.

    The driver must not be asked about a destroyed stream, and weir asks about
    streams that it has memory of. So a stream object is kept alive here. When a
    new stream is added, streams without any other reference are retired, so
    that their memory serves all streams, and dropped.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._kept = {}
        # The reference count of an object that only a keeper refers to.
        self._alone = 0
        probe = {0: object()}
        for handle in list(probe):
            self._alone = self._count(probe, handle)

    @staticmethod
    def _count(kept, handle):
        return sys.getrefcount(kept[handle])

    def keep(self, handle, stream):
        """Called when memory is allocated for another library's stream. The
        default streams, 0 to 2, never end."""
        if handle in self._kept or handle <= 2:
            return
        with self._lock:
            self._kept[handle] = stream
            for old in list(self._kept):
                if old != handle and \
                        self._count(self._kept, old) <= self._alone:
                    try:
                        _weir.Stream.external(old).retire()
                    except _weir.Error:
                        continue  # it is being captured: try again later
                    del self._kept[old]
