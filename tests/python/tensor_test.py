"""Tensors: making, views, copies, NumPy, DLPack, the CUDA Array Interface."""

import array
import ctypes
import gc
import struct

import pytest
import support

import weir

numpy = pytest.importorskip("numpy")

# The seven types of a real program, and the eighth.
DTYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8",
          "uint8")
NUMPY_DTYPES = DTYPES + ("bool", "uint16", "uint32", "uint64", "complex64",
                         "complex128")
PLACES = ("cuda", "pinned", "cpu")


@pytest.fixture(autouse=True)
def health():
    """Check that nothing is left allocated and that all invariants hold."""
    weir.synchronize()
    before = allocated()
    yield
    assert allocated() == before
    assert weir.check() == []


def allocated():
    gc.collect()
    return (weir.stats()["allocated_bytes.all.current"],
            weir.pinned_stats()["allocated_bytes.all.current"])


def numbers(dtype, shape=(3, 4)):
    """A NumPy array of small numbers of a type."""
    count = 1
    for length in shape:
        count *= length
    return (numpy.arange(count).reshape(shape) % 7).astype(dtype)


# ---- Making ---------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
def test_a_tensor_has_its_attributes(place):
    x = weir.empty((2, 3, 4), "int32", place)
    assert (x.shape, x.strides, x.ndim) == ((2, 3, 4), (12, 4, 1), 3)
    assert (x.size, x.nbytes, x.itemsize, x.dtype) == (24, 96, 4, "int32")
    assert x.place == ("cuda:0" if place == "cuda" else place)
    assert x.is_contiguous and not x.read_only and x.address != 0
    assert (x.device, len(x)) == (0, 2)
    assert "int32" in repr(x)


@pytest.mark.parametrize("place", PLACES)
def test_tensors_are_filled(place):
    assert weir.zeros((2, 2), "float16", place).tolist() == [[0, 0], [0, 0]]
    assert weir.ones(3, "bool", place).tolist() == [True] * 3
    assert weir.full((2,), 2.5, None, place).tolist() == [2.5, 2.5]
    assert weir.full((2,), -3, "int8", place).tolist() == [-3, -3]
    assert weir.full((), 1 + 2j, place=place).item() == 1 + 2j
    assert weir.full(2, 2**64 - 1, "uint64", place).tolist() == [2**64 - 1] * 2
    assert weir.full(1, True, place=place).dtype == "bool"


def test_types_are_named_in_many_ways():
    class Torch:
        def __str__(self):
            return "torch.bfloat16"

    for name, dtype in (("float8_e4m3fn",) * 2, (numpy.float32, "float32"),
                        (numpy.dtype("int16"), "int16"), (bool, "bool"),
                        (int, "int64"), (float, "float64"),
                        (complex, "complex128"), (Torch(), "bfloat16"),
                        (None, "float32")):
        assert weir.empty(1, name, "cpu").dtype == dtype
    with pytest.raises(ValueError, match="float99"):
        weir.empty(1, "float99")
    with pytest.raises(ValueError, match="datetime64"):
        weir.empty(1, numpy.dtype("M8[s]"))


def test_impossible_shapes_are_refused():
    for wrong in ((-1,), (2**62, 2**62), (2**61,)):
        with pytest.raises(ValueError):
            weir.empty(wrong, "int8")
    with pytest.raises(ValueError, match="33"):
        weir.empty((1,) * 33)
    with pytest.raises(TypeError):
        weir.empty("three")
    with pytest.raises(weir.OutOfMemoryError):
        weir.empty(1 << 50, "int8")


def test_places_that_there_are_not_are_refused():
    with pytest.raises(ValueError, match="nvalid device string.*gpu"):
        weir.empty(1, place="gpu")
    with pytest.raises(weir.Error):
        weir.empty(1, place="cuda:99")
    with pytest.raises(TypeError):
        weir.Tensor()


def test_a_tensor_of_no_elements_takes_no_memory():
    before = allocated()
    x = weir.zeros((0, 5))
    assert (x.size, x.address, x.tolist()) == (0, 0, [])
    assert x.__cuda_array_interface__["data"] == (0, False)
    assert allocated() == before


def test_numbers_of_python_become_tensors():
    assert weir.asarray([[1, 2], [3, 4]]).dtype == "int64"
    assert weir.asarray([[1, 2.5]]).tolist() == [[1.0, 2.5]]
    assert weir.asarray([True, False]).dtype == "bool"
    assert weir.asarray(1j).item() == 1j
    assert weir.asarray(()).shape == (0,)
    assert weir.asarray([1, 2], "float16", "cuda").tolist() == [1.0, 2.0]
    for wrong in ([[1], [2, 3]], [1, [2]], [[1], 2]):
        with pytest.raises(ValueError):
            weir.asarray(wrong)
    with pytest.raises(TypeError, match="'x'"):
        weir.asarray(["x"])
    with pytest.raises(OverflowError):
        weir.asarray([2**70])
    with pytest.raises(ValueError, match="copy is False"):
        weir.asarray([1], copy=False)


# ---- Views ----------------------------------------------------------------

INDICES = ("1", "-1", "0, 2", "slice(1, None)", "slice(None, None, 2)",
           "..., 0", "slice(None, None, -1)", "slice(None), slice(3, 0, -2)",
           "None", "None, 1, None", "..., None", "(slice(None),) * 2",
           "slice(-2, None), slice(None, -1)", "slice(10, 20)", "()",
           "slice(None), 3", "slice(None), slice(None, None, -3)", "...")


@pytest.mark.parametrize("index", INDICES)
def test_indexing_is_numpys(index):
    source = numbers("int64")
    key = eval(index)
    for place in ("cpu", "cuda"):
        view = weir.asarray(source, place=place)[key]
        assert view.shape == source[key].shape
        assert view.tolist() == source[key].tolist()


def test_views_share_memory():
    x = weir.zeros((4, 6), "int32")
    view = x[1:3, ::2]
    view.fill_(5)
    expected = numpy.zeros((4, 6), int)
    expected[1:3, ::2] = 5
    assert (x.numpy() == expected).all()
    assert view.address == x.address + 6 * 4
    assert view.strides == (6, 2)
    del x
    assert view.tolist() == [[5] * 3] * 2


def test_impossible_indices_are_refused():
    x = weir.zeros((3, 4), place="cpu")
    for wrong in (3, -4, (0, 4), (0, 0, 0), (..., ...)):
        with pytest.raises(IndexError):
            x[wrong]
    for wrong in ("a", 1.5, [0, 1], True):
        with pytest.raises(TypeError):
            x[wrong]
    with pytest.raises(ValueError):
        x[::0]
    with pytest.raises(TypeError):
        del x[0]
    with pytest.raises(TypeError):
        len(weir.zeros(()))


def test_tensors_are_iterated_over():
    x = weir.asarray([[1, 2], [3, 4]], place="cuda")
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]


@pytest.mark.parametrize("change", (
    "reshape(4, 3)", "reshape((2, -1))", "permute(1, 0)", "transpose(0, 1)",
    "T", "unsqueeze(1)", "unsqueeze(-1)", "narrow(1, 1, 2)", "select(0, 2)",
    "T.contiguous()", "reshape(1, 3, 4).squeeze(0)", "reshape(1, 12).squeeze()",
    "reshape(3, 4, 1).expand(3, 4, 2)", "expand(2, 3, 4)",
    "as_strided((2, 2), (5, 1), 8)"))
def test_shapes_change_as_numpys_do(change):
    source = numbers("int64")
    numpys = {
        "unsqueeze(1)": source[:, None], "unsqueeze(-1)": source[..., None],
        "narrow(1, 1, 2)": source[:, 1:3], "select(0, 2)": source[2],
        "T.contiguous()": source.T, "permute(1, 0)": source.T,
        "transpose(0, 1)": source.T,
        "reshape(1, 3, 4).squeeze(0)": source,
        "reshape(1, 12).squeeze()": source.reshape(12),
        "reshape(3, 4, 1).expand(3, 4, 2)":
            numpy.broadcast_to(source[..., None], (3, 4, 2)),
        "expand(2, 3, 4)": numpy.broadcast_to(source, (2, 3, 4)),
        "as_strided((2, 2), (5, 1), 8)": source.reshape(-1)[
            [[1, 2], [6, 7]]],
    }
    expected = numpys.get(change)
    if expected is None:
        expected = eval("source." + change)
    for place in ("cpu", "cuda"):
        tensor = weir.asarray(source, place=place)  # noqa: F841
        assert eval("tensor." + change).tolist() == expected.tolist()


def test_an_impossible_view_is_refused():
    x = weir.zeros((3, 4), place="cpu")
    for wrong in ("x.reshape(5)", "x.T.reshape(12)", "x.expand(2, 4)",
                  "x.permute(0, 0)", "x.permute(0)", "x.transpose(0, 5)",
                  "x.squeeze(0)", "x.narrow(0, 2, 2)", "x.select(0, 3)",
                  "x.as_strided((100,), (1,))", "x.view('complex128')[0, 3]",
                  "x.T.view('int8')", "x.permute(0, 2**40)",
                  "x.as_strided((1,), (1, 2))"):
        with pytest.raises((ValueError, IndexError)):
            eval(wrong)


def test_bytes_are_viewed_as_another_type():
    x = weir.asarray([1.0], "float32", "cuda")
    assert x.view("int32").item() == 0x3f800000
    assert x.view("uint8").tolist() == [0, 0, 0x80, 0x3f]


# ---- Copies ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_numpy_arrays_go_there_and_back(dtype):
    source = numbers(dtype)
    for place in PLACES:
        x = weir.asarray(source, place=place)
        back = x.numpy()
        assert back.dtype == source.dtype
        assert (back == source).all()
        part = x[::2, 1:].numpy()
        assert (part == source[::2, 1:]).all()


@pytest.mark.parametrize("place", PLACES)
def test_types_are_converted(place):
    x = weir.asarray([0.0, 1.5, -2.75, 300.0], place=place)
    assert x.to(dtype="int32").tolist() == [0, 1, -2, 300]
    assert x.to(dtype="bool").tolist() == [False, True, True, True]
    assert x.to(dtype="float16").dtype == "float16"
    assert x.to(dtype="bfloat16").tolist() == [0.0, 1.5, -2.75, 300.0]
    assert x.to(dtype="complex64").tolist() == [0, 1.5, -2.75, 300]
    y = weir.zeros(4, "int64", place)
    assert y.copy_(x).tolist() == [0, 1, -2, 300]


def test_elements_are_set():
    x = weir.zeros((3, 4), "int32")
    expected = numpy.zeros((3, 4), "int32")
    x[1] = expected[1] = 7
    x[:, 2] = numpy.arange(3)
    expected[:, 2] = numpy.arange(3)
    x[0, ::3] = [8, 9]
    expected[0, ::3] = [8, 9]
    x[2] = weir.full((), 4, "int64", "cuda")
    expected[2] = 4
    assert (x.numpy() == expected).all()
    with pytest.raises(ValueError):
        x[0] = [1, 2, 3]
    with pytest.raises(TypeError):
        x[0] = "text"


def test_a_copy_that_changes_nothing_is_the_same_memory():
    x = weir.zeros((3,), "int32")
    assert x.to("cuda").address == x.address
    assert x.to(dtype="int32").address == x.address
    assert x.contiguous().address == x.address
    assert x.to(copy=True).address != x.address
    assert weir.asarray(x, copy=True).address != x.address
    assert weir.asarray(x, "int32", copy=False).address == x.address
    with pytest.raises(ValueError, match="copy is False"):
        weir.asarray(x, "int64", copy=False)


def test_a_copy_to_the_host_is_pinned_only_if_it_does_not_block():
    x = weir.ones((1000,), "float32")
    assert x.to("cpu").place == "cpu"
    later = x.to("cpu", non_blocking=True)
    assert later.place == "pinned"
    weir.synchronize()
    assert later.tolist() == [1.0] * 1000
    pinned = weir.empty((1000,), "float32", "pinned")
    pinned.copy_(x, non_blocking=True)
    pinned.synchronize()
    assert pinned.tolist() == [1.0] * 1000


def test_copies_are_on_the_stream_named():
    stream = weir.Stream()
    x = weir.zeros(1 << 16, "int32", stream=stream)
    assert x.stream == stream.handle
    source = weir.full(1 << 16, 3, "int32", "pinned")
    x.copy_(source, non_blocking=True, stream=stream)
    y = x.to("cpu", stream=stream)
    assert y[5].item() == 3 and y[-1].item() == 3
    other = weir.Stream()
    x.join(other)
    x.record_stream(other)
    with other:
        assert weir.empty(1).stream == other.handle


@pytest.mark.parametrize("place", (None, "cuda:0", "pinned", "cpu"))
def test_a_tensor_of_any_stream_is_filled_on_the_current_one(place):
    stream, any_stream = weir.Stream(), weir.ANY_STREAM
    with stream:
        tensors = [weir.zeros(100, "int32", place, any_stream),
                   weir.ones(100, "int32", place, any_stream),
                   weir.full(100, 7, "int32", place, any_stream)]
        assert weir.empty(1, "int32", place, any_stream).shape == (1,)
    for i, x in enumerate(tensors):
        if place in (None, "cuda:0"):
            assert x.stream == any_stream
        assert x.to("cpu").tolist() == [(0, 1, 7)[i]] * 100


# 2**64 - 3 stood for the current stream.
@pytest.mark.parametrize("handle", (-2, -3, 2**64 - 2, 2**64 - 3))
def test_a_handle_that_cannot_be_one_is_refused(handle):
    class Protocol:
        def __cuda_stream__(self):
            return 0, handle % 2**64

    x = weir.zeros(10, "int32")
    block = weir.malloc(10)
    for stream in (handle, Protocol()):
        for call in (lambda: weir.zeros(3, stream=stream),
                     lambda: weir.empty(3, stream=stream),
                     lambda: weir.malloc(3, stream), lambda: x.fill_(1, stream),
                     lambda: x.to("cuda", copy=True, stream=stream),
                     lambda: x.join(stream), lambda: x.record_stream(stream),
                     lambda: block.record_stream(stream),
                     lambda: weir.Stream.external(stream),
                     lambda: weir.Stream().wait_stream(stream),
                     lambda: weir.from_cuda_array_interface(
                         Foreign(x), stream=stream)):
            with pytest.raises(weir.InvalidArgumentError, match="stream 0xff"):
                call()


def test_what_is_read_only_is_not_written_to():
    x = weir.asarray(bytes(10))
    assert x.read_only and x.dtype == "uint8"
    for wrong in ("x.fill_(1)", "x.__setitem__(0, 1)", "x.copy_([1] * 10)",
                  "x.expand(2, 10).fill_(1)"):
        with pytest.raises(ValueError):
            eval(wrong)
    with pytest.raises((ValueError, weir.Error)):
        weir.zeros((1, 3)).expand(2, 3).fill_(1)


def test_one_element_is_a_number():
    assert weir.full((1, 1), 7, "uint8").item() == 7
    assert isinstance(weir.full((), 7.0).item(), float)
    with pytest.raises(ValueError, match="2 elements"):
        weir.zeros(2).item()


# ---- Buffers and NumPy ----------------------------------------------------


@pytest.mark.parametrize("place", ("pinned", "cpu"))
def test_memory_of_the_host_is_numpys_in_place(place):
    x = weir.zeros((3, 4), "int16", place)
    view = numpy.asarray(x)
    assert view.ctypes.data == x.address
    view[1] = 9
    assert x[1].tolist() == [9] * 4
    strided = numpy.asarray(x[:, ::2].T)
    assert strided.shape == (2, 3) and strided.strides == (4, 8)
    address = x.address
    del x
    assert view.ctypes.data == address and (view[1] == 9).all()


def test_numpys_memory_is_a_tensor_in_place():
    source = numbers("float32")
    x = weir.asarray(source)
    assert x.address == source.ctypes.data and x.place == "cpu"
    source[0, 0] = 42
    assert x[0, 0].item() == 42
    x[0, 1] = 43
    assert source[0, 1] == 43
    strided = weir.asarray(source[::-1, ::2])
    assert strided.tolist() == source[::-1, ::2].tolist()
    source.flags.writeable = False
    assert weir.from_buffer(source).read_only


def test_buffers_of_other_kinds():
    assert weir.asarray(array.array("i", [1, 2])).tolist() == [1, 2]
    assert weir.asarray(array.array("l", [1, 2])).dtype == "int64"
    assert weir.asarray(bytearray(b"ab")).tolist() == [97, 98]
    assert weir.asarray(memoryview(b"abcd")[::2]).tolist() == [97, 99]
    with pytest.raises(TypeError, match="format"):
        weir.from_buffer(numpy.zeros(2, "M8[s]").view("V8"))
    with pytest.raises(TypeError):
        weir.from_buffer(3)


def test_memory_of_a_device_has_no_buffer():
    x = weir.zeros(3)
    with pytest.raises(BufferError, match="device"):
        memoryview(x)
    with pytest.raises(TypeError, match="unasked"):
        numpy.asarray(x)
    with pytest.raises(BufferError):
        memoryview(weir.zeros(3, "bfloat16", "cpu"))
    with pytest.raises(TypeError, match="bfloat16"):
        weir.zeros(3, "bfloat16").numpy()
    with pytest.raises((BufferError, TypeError)):
        ctypes.c_char.from_buffer(weir.asarray(b"abc"))


class Buffer(ctypes.Structure):
    """Python's Py_buffer."""

    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p)] + [
        (name, ctypes.c_void_p)
        for name in ("shape", "strides", "suboffsets", "internal")]


def gives_buffer(tensor, flags):
    view = Buffer()
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes = [ctypes.py_object, ctypes.POINTER(Buffer), ctypes.c_int]
    try:
        get(tensor, view, flags)
    except BufferError:
        return False
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return True


def test_a_buffer_has_the_order_that_its_reader_demands():
    row, column, either = 0x38, 0x58, 0x98
    x = weir.zeros((2, 3), "float32", "cpu")
    for tensor, orders in ((x, {row, either}), (x.T, {column, either}),
                           (x[:, ::2], set()), (x[:, :1], set()),
                           (x[0], {row, column, either}),
                           (x[:0].T, {row, column, either})):
        for flags in (row, column, either):
            assert gives_buffer(tensor, flags) == (flags in orders)
        assert gives_buffer(tensor, 0x18)


def test_a_buffer_is_kept_as_long_as_a_tensor_is_on_it():
    source = bytearray(b"abc")
    x = weir.asarray(source)
    with pytest.raises(BufferError):
        source.append(1)
    y = x[1:]
    del x
    with pytest.raises(BufferError):
        source.append(1)
    del y
    source.append(1)


# ---- The CUDA Array Interface ---------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES + ("complex64", "complex128", "bool",
                                            "uint16", "uint32", "uint64"))
def test_the_array_interface_of_a_type(dtype):
    x = weir.zeros((10,), dtype)
    assert x.__cuda_array_interface__ == {
        "shape": (10,), "strides": None, "version": 3, "stream": 1,
        "typestr": numpy.dtype(dtype).newbyteorder("<").str,
        "data": (x.address, False)}


def test_the_array_interface_of_views():
    stream = weir.Stream()
    x = weir.zeros((4, 6), "float32", stream=stream)
    view = x[1:, ::2].__cuda_array_interface__
    assert view["strides"] == (24, 8) and view["shape"] == (3, 3)
    assert view["data"][0] == x.address + 24
    assert view["stream"] == x.stream
    assert x[:, :1].T.__cuda_array_interface__["strides"] == (4, 24)
    assert x[:1].__cuda_array_interface__["strides"] is None
    assert x.reshape(-1)[:0].__cuda_array_interface__["data"][0] == 0
    assert weir.zeros(()).__cuda_array_interface__["shape"] == ()
    assert weir.zeros((1, 2)).expand(3, 2).__cuda_array_interface__[
        "strides"] == (0, 4)


def test_what_has_no_array_interface():
    for place in ("cpu", "pinned"):
        x = weir.zeros(3, place=place)
        assert not hasattr(x, "__cuda_array_interface__")
    with pytest.raises(TypeError, match="DLPack"):
        weir.zeros(3, "float8_e4m3fn").__cuda_array_interface__
    assert weir.zeros(3, "bfloat16").__cuda_array_interface__[
        "typestr"] == "<V2"


class Foreign:
    """An object that has the interface, with given contents."""

    def __init__(self, tensor, **changes):
        self.owner = tensor
        self.__cuda_array_interface__ = dict(
            tensor.__cuda_array_interface__, **changes)
        for key in [k for k, v in changes.items() if v is KeyError]:
            del self.__cuda_array_interface__[key]


def test_an_array_is_taken_over_without_a_copy():
    x = weir.asarray(numbers("int32"), place="cuda")
    y = weir.asarray(Foreign(x))
    assert y.address == x.address and y.place == "cuda:0"
    y[0] = 5
    assert x[0].tolist() == [5] * 4
    z = weir.from_cuda_array_interface(Foreign(x[:, ::2].T))
    assert z.tolist() == x[:, ::2].T.tolist()
    older = Foreign(x, version=2, stream=KeyError, strides=KeyError)
    assert weir.from_cuda_array_interface(older).is_contiguous
    assert weir.from_cuda_array_interface(
        Foreign(x, data=(x.address, True))).read_only


def test_the_owner_of_an_array_is_kept():
    x = weir.zeros(1000, "int32")
    owner = Foreign(x)
    del x
    y = weir.asarray(owner)[10:]
    before = allocated()
    del owner
    assert allocated() == before
    assert y.fill_(3).tolist() == [3] * 990


@pytest.mark.parametrize("changes, error", (
    ({"shape": KeyError}, TypeError), ({"typestr": KeyError}, TypeError),
    ({"data": KeyError}, TypeError), ({"version": KeyError}, TypeError),
    ({"shape": 3}, TypeError), ({"shape": (-1,)}, ValueError),
    ({"shape": (2**62, 2**62)}, ValueError), ({"typestr": 4}, TypeError),
    ({"typestr": ""}, TypeError), ({"typestr": "<x4"}, TypeError),
    ({"typestr": ">i4"}, ValueError), ({"data": 7}, TypeError),
    ({"data": (7,)}, TypeError), ({"data": ("7", False)}, TypeError),
    ({"data": (0, False)}, ValueError), ({"data": (4096, False)}, ValueError),
    ({"data": (2**64, False)}, OverflowError),
    ({"strides": (3,)}, ValueError), ({"strides": (4, 4)}, ValueError),
    ({"strides": 4}, TypeError), ({"mask": 1}, ValueError),
    ({"stream": 0}, ValueError), ({"stream": "1"}, TypeError),
    ({"stream": 2**64 - 1}, ValueError), ({"stream": 2**64 - 3}, ValueError),
    ({"strides": (2**62,)}, ValueError)))
def test_a_wrong_array_interface_is_refused(changes, error):
    x = weir.zeros(10, "int32")
    with pytest.raises(error):
        weir.from_cuda_array_interface(Foreign(x, **changes))


def test_an_interface_that_is_no_dict_or_raises():
    class Odd:
        __cuda_array_interface__ = 3

    class Freed:
        @property
        def __cuda_array_interface__(self):
            raise RuntimeError("freed")

    with pytest.raises(TypeError, match="dict"):
        weir.asarray(Odd())
    with pytest.raises(RuntimeError, match="freed"):
        weir.asarray(Freed())
    with pytest.raises(TypeError):
        weir.asarray(object())


@pytest.mark.parametrize("of_any", (False, True))
def test_the_work_on_a_tensor_with_an_interface_is_waited_for(of_any):
    stream, other = weir.Stream(), weir.Stream()
    x = weir.zeros(1 << 20, "uint8",
                   stream=weir.ANY_STREAM if of_any else stream)
    usleep = ctypes.CDLL(None).usleep
    driver = ctypes.CDLL(support.DRIVER)
    assert driver.cuLaunchHostFunc(ctypes.c_void_p(stream.handle), usleep,
                                   ctypes.c_void_p(100_000)) == 0
    x.fill_(7, stream)
    with other:
        y = weir.asarray(Foreign(x))
        assert y.to("cpu")[12345].item() == 7
    del x, y


def test_a_device_that_is_named_is_believed():
    x = weir.zeros(10, "uint8")
    y = weir.from_cuda_array_interface(Foreign(x), device="cuda:0")
    assert (y.device, y.address) == (0, x.address)


# ---- DLPack ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES + ("complex64", "bool"))
def test_numpy_reads_a_tensor_by_dlpack(dtype):
    for place in ("cpu", "pinned"):
        x = weir.asarray(numbers(dtype)).to(place)
        if place == "pinned" or not hasattr(numpy, "from_dlpack"):
            y = weir.from_dlpack(x)
            assert y.tolist() == x.tolist()
            continue
        try:
            view = numpy.from_dlpack(x)
        except (RuntimeError, BufferError):
            assert dtype == "bool"  # NumPy before 1.25
            continue
        assert view.ctypes.data == x.address
        assert (view == x.numpy()).all()


def test_a_tensor_reads_numpy_by_dlpack():
    source = numbers("int32")
    x = weir.from_dlpack(source)
    assert x.address == source.ctypes.data
    assert x.tolist() == source.tolist()
    assert weir.from_dlpack(source[:, ::2]).strides == (4, 2)


def test_a_device_tensor_goes_by_dlpack_to_itself():
    for stream in (None, weir.Stream()):
        x = weir.asarray(numbers("float16"), place="cuda")
        y = weir.from_dlpack(x[::2], stream)
        assert y.address == x.address and y.place == "cuda:0"
        assert y.tolist() == x[::2].tolist()
        del x
        assert y.shape == (2, 4)


def test_the_device_of_dlpack():
    assert weir.zeros(1).__dlpack_device__() == (2, 0)
    assert weir.zeros(1, place="pinned").__dlpack_device__() == (3, 0)
    assert weir.zeros(1, place="cpu").__dlpack_device__() == (1, 0)


def managed(capsule):
    """(major, minor, flags, data, type, id, ndim, code, bits, lanes) of a
    versioned capsule."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object,
                                                  ctypes.c_char_p]
    raw = ctypes.string_at(get(capsule, b"dltensor_versioned"), 80)
    major, minor, _, _, flags = struct.unpack_from("IIQQQ", raw)
    return (major, minor, flags) + struct.unpack_from("QiiiBBH", raw, 32)


def test_a_capsule_follows_the_standard():
    x = weir.zeros((2, 3), "bfloat16")
    assert managed(x.__dlpack__(max_version=(1, 0))) == (
        1, 3, 0, x.address, 2, 0, 2, 4, 16, 1)
    copied = managed(x.__dlpack__(max_version=(1, 0), copy=True))
    assert copied[2] == 2 and copied[3] != x.address
    read_only = weir.asarray(b"abc").__dlpack__(max_version=(1, 1))
    assert managed(read_only)[2] == 1
    assert '"dltensor"' in repr(x.__dlpack__())
    host = x.__dlpack__(max_version=(1, 0), dl_device=(1, 0))
    assert managed(host)[4] == 1


def test_what_dlpack_cannot_say_is_refused():
    x = weir.zeros(3)
    for wrong in (0, -2):
        with pytest.raises(ValueError, match="stream"):
            x.__dlpack__(stream=wrong)
    with pytest.raises(ValueError, match="stream"):
        weir.zeros(3, place="cpu").__dlpack__(stream=1)
    with pytest.raises(BufferError, match="read-only"):
        weir.asarray(b"abc").__dlpack__()
    with pytest.raises(BufferError, match="1.1"):
        weir.zeros(3, "float8_e5m2").__dlpack__(max_version=(1, 0))
    for nowhere in ((10, 0), (2, 99), (2, -1)):
        with pytest.raises(BufferError):
            x.__dlpack__(dl_device=nowhere)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(TypeError):
        x.__dlpack__(stream="x")


def test_a_copy_of_read_only_memory_may_be_written_to():
    x = weir.asarray(b"abc")
    assert '"dltensor"' in repr(x.__dlpack__(copy=True))
    assert '"dltensor"' in repr(x.__dlpack__(dl_device=(2, 0)))


def test_a_capsule_is_used_once():
    x = weir.zeros(1000, "uint8")
    capsule = x.__dlpack__(stream=-1)
    y = weir.from_dlpack(capsule)
    with pytest.raises(ValueError, match="used before"):
        weir.from_dlpack(capsule)
    with pytest.raises((ValueError, AttributeError)):
        weir.from_dlpack(3)
    before = allocated()
    del x
    assert allocated() == before
    del capsule
    assert y.fill_(1)[5].item() == 1


def test_an_unused_capsule_releases_its_tensor():
    before = allocated()
    for version in (None, (1, 0)):
        weir.zeros(1000).__dlpack__(max_version=version)
    assert allocated() == before


class Producer:
    """Gives a capsule that it makes itself of raw bytes. Its deleter may be
    called at any time, so it lives on."""

    alive = []

    def __init__(self, raw, name=b"dltensor_versioned", device=(1, 0)):
        Producer.alive.append(self)
        self.raw = ctypes.create_string_buffer(raw, len(raw))
        self.name, self.device, self.deleted = name, device, []
        self.kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self.deleter = self.kind(self.deleted.append)
        at = 16 if name == b"dltensor_versioned" else 56
        ctypes.memmove(ctypes.addressof(self.raw) + at,
                       ctypes.byref(ctypes.c_void_p.from_buffer(self.deleter)),
                       8)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.raw), self.name, None)


SHAPE = (ctypes.c_int64 * 2)(2, 3)
DATA = (ctypes.c_uint8 * 64)(*range(64))


def versioned(major=1, flags=0, data=None, device=1, ndim=2, dtype=(1, 8, 1),
              shape=None, strides=0, offset=0):
    """A versioned tensor of DLPack's in bytes."""
    return struct.pack(
        "IIQQQQiiiBBHQQQ", major, 0, 0, 0, flags,
        ctypes.addressof(DATA) if data is None else data, device, 0, ndim,
        *dtype, 0 if shape is None and ndim == 0 else
        ctypes.addressof(SHAPE if shape is None else shape), strides, offset)


def test_a_tensor_of_dlpack_is_read():
    producer = Producer(versioned(offset=4))
    x = weir.from_dlpack(producer)
    assert x.tolist() == [[4, 5, 6], [7, 8, 9]]
    assert producer.deleted == []
    del x
    assert len(producer.deleted) == 1
    backward = (ctypes.c_int64 * 2)(-3, 1)
    producer = Producer(versioned(
        offset=3, flags=1, strides=ctypes.addressof(backward)))
    x = weir.from_dlpack(producer)
    assert x.tolist() == [[3, 4, 5], [0, 1, 2]] and x.read_only
    legacy = Producer(versioned()[32:] + bytes(16), b"dltensor")
    assert weir.from_dlpack(legacy).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert len(legacy.deleted) == 1


@pytest.mark.parametrize("wrong", (
    {"major": 2}, {"ndim": 33}, {"ndim": -1}, {"dtype": (99, 8, 1)},
    {"dtype": (1, 8, 4)}, {"dtype": (2, 24, 1)}, {"device": 10},
    {"shape": (ctypes.c_int64 * 2)(-1, 3)},
    {"shape": (ctypes.c_int64 * 2)(2**62, 2**62)}, {"data": 0}))
def test_an_impossible_tensor_of_dlpack_is_given_back(wrong):
    producer = Producer(versioned(**wrong))
    with pytest.raises((BufferError, ValueError)):
        weir.from_dlpack(producer)
    assert len(producer.deleted) == 1


def test_producers_from_before_versions_are_asked_again():
    class Old:
        def __init__(self, tensor):
            self.tensor, self.asked = tensor, []

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

        def __dlpack__(self, stream=None):
            self.asked.append(stream)
            return self.tensor.__dlpack__(stream=stream)

    x = weir.zeros(3, "int32")
    old = Old(x)
    assert weir.from_dlpack(old).address == x.address
    assert old.asked == [1]


class Table(ctypes.Structure):
    """DLPack's table of functions for C, of version 1.3."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p), ("allocate", ctypes.c_void_p),
        ("give", ctypes.PYFUNCTYPE(
            ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))),
        ("take", ctypes.PYFUNCTYPE(
            ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object))),
        ("view", ctypes.PYFUNCTYPE(
            ctypes.c_int, ctypes.py_object, ctypes.c_void_p)),
        ("work_stream", ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_int32, ctypes.c_int32,
            ctypes.POINTER(ctypes.c_void_p)))]


def exchange_table():
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object,
                                                  ctypes.c_char_p]
    return Table.from_address(get(weir.Tensor.__dlpack_c_exchange_api__,
                                  b"dlpack_exchange_api"))


def test_the_table_for_c_is_found_by_the_type():
    table = exchange_table()
    assert (table.major, table.minor, table.previous) == (1, 3, None)
    assert table.allocate
    stream, out = weir.Stream(), ctypes.c_void_p()
    with stream:
        assert table.work_stream(2, 0, ctypes.byref(out)) == 0
        assert out.value == stream.handle
    assert table.work_stream(1, 0, ctypes.byref(out)) == 0
    assert out.value is None


def test_the_table_for_c_gives_and_takes_tensors():
    table, out = exchange_table(), ctypes.c_void_p()
    x = weir.asarray(numbers("float16"), place="cuda")[1:]
    assert table.give(x, ctypes.byref(out)) == 0
    raw = ctypes.string_at(out.value, 80)
    assert struct.unpack_from("QiiiBBH", raw, 32) == (
        x.address, 2, 0, 2, 2, 16, 1)
    back = ctypes.py_object()
    assert table.take(out, ctypes.byref(back)) == 0
    y = back.value
    assert type(y) is weir.Tensor and y.address == x.address
    address, expected = x.address, x.tolist()
    # The slot of the result has a reference of its own.
    ctypes.pythonapi.Py_DecRef(back)
    view = ctypes.create_string_buffer(48)
    assert table.view(x, view) == 0
    assert struct.unpack_from("QiiiBBH", view.raw) == (
        x.address, 2, 0, 2, 2, 16, 1)
    shape, strides = struct.unpack_from("QQ", view.raw, 24)
    assert tuple((ctypes.c_int64 * 2).from_address(shape)) == x.shape
    assert tuple((ctypes.c_int64 * 2).from_address(strides)) == x.strides
    del x, back
    assert (y.address, y.tolist()) == (address, expected)


def test_the_table_for_c_refuses_other_objects():
    table, out = exchange_table(), ctypes.c_void_p()
    with pytest.raises(TypeError, match="not 3"):
        table.give(3, ctypes.byref(out))
    with pytest.raises(TypeError, match="weir.Tensor"):
        table.view([], ctypes.create_string_buffer(48))
    producer = Producer(versioned(dtype=(99, 8, 1)))
    with pytest.raises(BufferError):
        table.take(ctypes.addressof(producer.raw),
                   ctypes.byref(ctypes.py_object()))
    assert len(producer.deleted) == 1


def test_memory_that_a_consumer_uses_is_not_reused_too_soon():
    stream, consumer = weir.Stream(), weir.Stream()
    x = weir.zeros(1 << 20, "uint8", stream=stream)
    address = x.address
    capsule = x.__dlpack__(stream=consumer.handle)
    with support.held(consumer):
        del x, capsule
        assert not consumer.query()
        early = weir.empty(1 << 20, "uint8", stream=stream)
        assert early.address != address


@pytest.mark.parametrize("place", ("pinned", "cpu"))
def test_a_copy_to_a_device_is_the_consumers_until_its_work_is_done(place):
    consumer, current = weir.Stream(), weir.Stream()
    x = weir.zeros(1 << 20, "uint8", place)
    with current:
        with pytest.raises(ValueError, match="stream"):
            x.__dlpack__(dl_device=(2, 0), stream=0)
        capsule = x.__dlpack__(dl_device=(2, 0), max_version=(1, 0),
                               stream=consumer.handle)
        address = managed(capsule)[3]
        with support.held(consumer):
            del capsule
            early = weir.empty(1 << 20, "uint8")
            assert early.address != address
