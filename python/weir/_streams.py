"""Streams of other libraries, which end with their objects."""

import sys
import threading

from . import _weir


class Keeper:
    """Holds the objects of the streams that memory was allocated for.

    A driver must not be asked about a stream that was destroyed, and weir asks
    about those it has memory of. What nobody else refers to is retired, so that
    its memory serves all streams, and let go of when a stream comes that was
    not seen before.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._kept = {}
        # References to an object that nobody but a keeper has.
        self._alone = 0
        probe = {0: object()}
        for handle in list(probe):
            self._alone = self._count(probe, handle)

    @staticmethod
    def _count(kept, handle):
        return sys.getrefcount(kept[handle])

    def keep(self, handle, stream):
        """Memory is allocated for a stream of another library's. The default
        streams, 0 to 2, never end."""
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
                        continue  # it is being captured: another time
                    del self._kept[old]
