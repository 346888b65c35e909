"""Tensors and events that other processes use, without a copy.

    shared = weir.ipc.share(tensor)        # the owner
    pipe.send_bytes(shared.handle)

    tensor = weir.ipc.open(pipe.recv_bytes())   # another process

The memory is freed when the owner has let go of the tensor and of `shared`, and
every process that opened it has let go of its tensor or has ended, in whatever
way. Work is in order: what the owner had queued comes before what is queued
after the open. What follows is for the processes to agree on, for example by an
event that is shared.

multiprocessing does this by itself: a tensor in memory of a device that is put
into a multiprocessing.Queue, sent through a Pipe or passed to a Process that is
spawned arrives as the same memory. Each message is opened once; its memory is
held until then. Everywhere else, and in memory of the host, a tensor is pickled
by value.

Processes are of one user on one machine. A forked child has no GPU: start
processes with the methods "spawn" or "forkserver".
"""

import os
import sys

from . import _weir
from ._weir import Shared

__all__ = ["Shared", "collect", "open", "pending", "share"]

# Exports that were sent and are not opened yet, by handle, each with its
# tensor, because this process may be the receiver.
_sent = {}


def share(object, stream=None):
    """Let other processes open a tensor or an event.

    object: a weir.Tensor in memory of a device that weir allocated, or a
    weir.Event made with interprocess=True and recorded at least once.
    stream: for a tensor. It is ordered after all known work on the memory, and
    other processes' work is ordered after the work that is queued on it now.
    None is the current stream.

    Returns a weir.ipc.Shared, whose `handle` is sent to the opener. Raises
    NotSupportedError for host memory and foreign memory, such as a tensor of
    another process (share a copy of that); InvalidArgumentError for another
    event.
    """
    return _weir._share(object, stream)


def open(handle, device=None, stream=None):
    """Open what another process shares.

    handle: bytes, of weir.ipc.Shared.handle, or of weir_ipc_handle_of() in C.
    device: the device that will use it; None is the current one.
    stream: the tensor's stream; work that is queued on it after this call comes
    after the owner's work. None is the current stream.

    Returns a weir.Tensor (of uint8 for a block that C shares) or a weir.Event.
    The memory is closed with the last tensor on it, which waits for the work
    on it. It may be used after its owner has ended.

    Raises ValueError for bytes of another length; InvalidArgumentError for
    bytes that are no handle or for a handle of this process, or if the owner
    has ended, has released it or is another user's; NotReadyError if the owner
    does not answer; NotSupportedError if the device cannot access the
    memory.
    """
    return _weir._open(handle, device, stream)


def collect(all=False):
    """Release objects that multiprocessing has sent and others have opened.

    Sending and pending() do this too. An object that has not arrived is held,
    even if its receiver has ended: all=True releases it, and objects that are
    still under way cannot be opened any more.
    """
    for handle, (shared, _) in list(_sent.items()):
        if all or shared.opened:
            _sent.pop(handle, None)


def pending():
    """The number of tensors and events that multiprocessing has sent and that
    were not opened yet."""
    collect()
    return len(_sent)


# ---- Pickling ----------------------------------------------------------------


def _tensor_by_value(tensor):
    place = tensor.place
    if place == "managed":
        place = f"cuda:{tensor.device}"
    tensor.synchronize()
    data = tensor.to("cpu").contiguous().reshape(-1).view("uint8")
    return _tensor_from_value, (bytes(memoryview(data)), tensor.shape,
                                tensor.dtype, place)


def _tensor_from_value(data, shape, dtype, place):
    tensor = _weir.empty(shape, dtype, "cpu")
    if data:
        memoryview(tensor.reshape(-1).view("uint8"))[:] = data
    return tensor if place == "cpu" else tensor.to(place)


def _send(object, stream):
    """Share it for one message."""
    collect()
    shared = _weir._share(object, stream)
    _sent[shared.handle] = shared, object
    return shared.handle, os.getpid()


def _receive(handle, owner, device=None):
    if owner == os.getpid():
        # A process may be the sender and the receiver.
        try:
            return _sent.pop(handle)[1]
        except KeyError:
            raise _weir.InvalidArgumentError(
                "it was taken out of its message before") from None
    return _weir._open(handle, device)


def _tensor_by_handle(tensor):
    if not tensor.place.startswith("cuda") or tensor.size == 0:
        return _tensor_by_value(tensor)
    # Its work is on its own stream, whichever thread sends it.
    stream = None if tensor.stream == _weir.ANY_STREAM else tensor.stream
    return _receive, (*_send(tensor, stream), tensor.device)


def _event_by_handle(event):
    return _receive, _send(event, None)


def _event_by_value(event):
    raise TypeError(f"{event!r} cannot be pickled; it can be sent by "
                    "multiprocessing")


_BY_VALUE = {_weir.Tensor: _tensor_by_value, _weir.Event: _event_by_value}
_BY_HANDLE = {_weir.Tensor: _tensor_by_handle, _weir.Event: _event_by_handle}


def _reduce(object):
    """The result of __reduce_ex__(): by handle between processes of
    multiprocessing, else by value."""
    how = _BY_VALUE
    reduction = sys.modules.get("multiprocessing.reduction")
    if reduction is not None:
        # Register the reducers, which multiprocessing calls itself from then
        # on. This is the first call, and by handle only if it comes from
        # multiprocessing's functions that pickle messages.
        for kind, reducer in _BY_HANDLE.items():
            reduction.ForkingPickler.register(kind, reducer)
        if sys._getframe(1).f_code in (
                reduction.ForkingPickler.dumps.__func__.__code__,
                reduction.dump.__code__):
            how = _BY_HANDLE
    return how[type(object)](object)
