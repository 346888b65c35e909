"""Tensors of what other libraries and Python itself have."""

from . import _weir


def _shape_of(values):
    """The shape of nested lists, by the first of each."""
    shape = []
    while isinstance(values, (list, tuple)):
        shape.append(len(values))
        if not values:
            break
        values = values[0]
    return shape


def _flatten(values, shape, depth, out):
    """Append the numbers of nested lists to `out`."""
    if depth == len(shape):
        if isinstance(values, (list, tuple)):
            raise ValueError(f"nested deeper than {depth} at {values!r}")
        out.append(values)
        return
    if not isinstance(values, (list, tuple)) or len(values) != shape[depth]:
        raise ValueError(f"dimension {depth} has length {shape[depth]}, "
                         f"but {values!r} has not")
    for value in values:
        _flatten(value, shape, depth + 1, out)


def _from_numbers(values):
    """A tensor of the host of a number or nested lists of numbers."""
    import struct

    shape, flat = _shape_of(values), []
    _flatten(values, shape, 0, flat)
    kinds = {type(value) for value in flat}
    if not kinds <= {bool, int, float, complex}:
        odd = next(v for v in flat
                   if type(v) not in (bool, int, float, complex))
        raise TypeError(f"{odd!r} is no number, and nothing that has numbers")
    if complex in kinds:
        flat = [part for v in map(complex, flat) for part in (v.real, v.imag)]
        code, dtype = "d", "complex128"
    elif float in kinds or not kinds:
        code, dtype = "d", "float64"
    elif int in kinds:
        code, dtype = "q", "int64"
    else:
        code, dtype = "?", "bool"
    try:
        data = struct.pack(f"={len(flat)}{code}", *flat)
    except struct.error:
        raise OverflowError("a number is beyond 64 bits") from None
    size = len(data) // 8 if dtype != "bool" else len(data)
    tensor = _weir.empty(shape, dtype, "cpu")
    if size:
        memoryview(tensor.reshape(-1).view("uint8"))[:] = data
    return tensor


def _take_over(value, device, stream):
    """A tensor on the memory of an object, without a copy; None if it offers
    none."""
    # The attribute of the type: reading it may be dear, or raise.
    kind = type(value)
    if hasattr(kind, "__cuda_array_interface__"):
        try:
            return _weir.from_cuda_array_interface(value, device, stream)
        except AttributeError:
            pass  # not on a device
    if hasattr(kind, "__dlpack__"):
        try:
            return _weir.from_dlpack(value, stream)
        except BufferError:
            if not _has_buffer(value):
                raise
    if _has_buffer(value):
        return _weir.from_buffer(value)
    if hasattr(value, "__cuda_array_interface__"):
        return _weir.from_cuda_array_interface(value, device, stream)
    return None


def _has_buffer(value):
    try:
        memoryview(value).release()
    except (TypeError, BufferError):
        return False
    return True


def asarray(object, dtype=None, place=None, *, copy=None, stream=None):
    """A tensor of an object: of its memory where that is possible.

    object: a weir.Tensor; what has __cuda_array_interface__, __dlpack__ (arrays
    of CuPy, Numba, PyTorch, JAX, NumPy) or the buffer protocol; a number, or
    nested lists of numbers.
    dtype, place: what the tensor is to be, as for empty(); None leaves it as it
    is.
    copy: None copies only if it must, True always, False never.
    stream: where it is taken over and copied; None is the current stream.

    Raises ValueError if copy is False and a copy is needed, TypeError for an
    object that has no numbers, and what from_dlpack() and
    from_cuda_array_interface() raise.
    """
    tensor = object if isinstance(object, _weir.Tensor) else None
    fresh = False
    if tensor is None:
        tensor = _take_over(object, None, stream)
    if tensor is None:
        tensor = _from_numbers(object)
        fresh = True
        if copy is False:
            raise ValueError("numbers of Python are copied, and copy is False")
    if dtype is None and place is None and not copy:
        return tensor
    result = tensor.to(place, dtype, copy=bool(copy) and not fresh,
                       stream=stream)
    if copy is False and result.address != tensor.address:
        raise ValueError(
            f"{tensor!r} as {result!r} needs a copy, and copy is False")
    return result
