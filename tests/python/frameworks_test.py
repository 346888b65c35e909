"""Memory shared with PyTorch, CuPy, Numba, JAX and ml_dtypes, where they are
installed: the same memory under each, and weir's memory under all."""

import gc
import os

import pytest
import support

if support.SIMULATED:
    pytest.skip("frameworks compute on a GPU only", allow_module_level=True)
numpy = pytest.importorskip("numpy")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack

import weir  # noqa: E402

DTYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8",
          "uint8", "bool", "complex64")


def need(name):
    """Import a framework that can use the device, or skip the test."""
    module = pytest.importorskip(name)
    if name == "torch" and not module.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    return module


def numbers(dtype):
    return (numpy.arange(24).reshape(4, 6) % 5).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_pytorch_reads_a_tensor(dtype):
    torch = need("torch")
    source = numbers(dtype)
    x = weir.asarray(source, place="cuda")
    for view, expected in ((x, source), (x[1:, ::2], source[1:, ::2]),
                           (x.T, source.T)):
        for y in (torch.from_dlpack(view),
                  torch.as_tensor(view, device="cuda")):
            assert y.data_ptr() == view.address
            assert (y.cpu().numpy() == expected).all()
    torch.from_dlpack(x).zero_()
    torch.cuda.synchronize()
    assert not x.numpy().any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tensor_reads_pytorchs(dtype):
    torch = need("torch")
    source = numbers(dtype)
    y = torch.from_numpy(source).cuda()
    for view, expected in ((y, source), (y[1:, ::2], source[1:, ::2]),
                           (y.T, source.T)):
        for x in (weir.from_dlpack(view), weir.asarray(view),
                  weir.from_cuda_array_interface(view)):
            assert x.address == view.data_ptr() and x.place == "cuda:0"
            assert x.tolist() == expected.tolist()
    weir.asarray(y).fill_(1)
    weir.synchronize()
    assert (y.cpu().numpy() == 1).all()


def test_types_that_only_dlpack_has_go_to_pytorch_and_back():
    torch = need("torch")
    for dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        x = weir.asarray([0.5, 1.0, -2.0], dtype, "cuda")
        try:
            y = torch.from_dlpack(x)
        except (BufferError, RuntimeError, ValueError):
            assert dtype != "bfloat16"
            continue
        assert y.dtype == getattr(torch, dtype)
        assert y.float().tolist() == [0.5, 1.0, -2.0]
        assert weir.from_dlpack(y).tolist() == [0.5, 1.0, -2.0]


def test_pytorch_keeps_a_tensors_memory():
    torch = need("torch")
    gc.collect()
    before = weir.stats()["allocated_bytes.all.current"]
    x = weir.full(1000, 7, "int32", "cuda")
    y, z = torch.from_dlpack(x), torch.as_tensor(x, device="cuda")
    del x
    gc.collect()
    assert weir.stats()["allocated_bytes.all.current"] > before
    assert y.tolist() == z.tolist() == [7] * 1000
    del y, z
    gc.collect()
    assert weir.stats()["allocated_bytes.all.current"] == before


def test_pytorchs_errors_come_through():
    torch = need("torch")
    grad = torch.zeros(3, device="cuda", requires_grad=True)
    with pytest.raises((BufferError, RuntimeError)):
        weir.from_dlpack(grad)
    with pytest.raises(RuntimeError):
        weir.from_cuda_array_interface(grad)
    sparse = torch.zeros(3).to_sparse().cuda()
    with pytest.raises((BufferError, RuntimeError, TypeError, AttributeError)):
        weir.asarray(sparse)
    host = torch.arange(3)
    assert weir.asarray(host).address == host.data_ptr()
    pinned = torch.arange(3).pin_memory()
    assert weir.from_dlpack(pinned).place in ("pinned", "cpu")
    with pytest.raises(TypeError):
        torch.as_tensor(weir.zeros((1, 3)).expand(2, 3), device="cuda",
                        dtype="x")


def test_streams_are_put_in_order_with_pytorchs():
    torch = need("torch")
    side = torch.cuda.Stream()
    stream = weir.Stream()
    for i in range(20):
        x = weir.empty(1 << 22, "int32", stream=stream)
        x.fill_(i, stream)
        with torch.cuda.stream(side):
            y = torch.from_dlpack(x) + 1
        del x
        with stream:
            z = weir.from_dlpack(y)
        assert stream.query() in (True, False)
        assert z[12345].item() == i + 1 and y[-1].item() == i + 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_cupy_reads_a_tensor_and_gives_one(dtype):
    cupy = need("cupy")
    source = numbers(dtype)
    x = weir.asarray(source, place="cuda")
    for y in (cupy.asarray(x), cupy.from_dlpack(x), cupy.asarray(x[:, ::2])):
        assert y.data.ptr == x.address
    assert (cupy.from_dlpack(x[1:]).get() == source[1:]).all()
    y = cupy.asarray(source)
    for z in (weir.asarray(y), weir.from_dlpack(y)):
        assert z.address == y.data.ptr
        assert z.tolist() == source.tolist()
    assert weir.asarray(y[::-1]).tolist() == source[::-1].tolist()


def test_cupy_to_numba_to_pytorch_and_back_on_weirs_memory():
    cupy, cuda, torch = need("cupy"), need("numba.cuda"), need("torch")
    import weir.cupy

    weir.cupy.install()
    try:
        first = cupy.random.random((10, 1000, 1000))
        cupy.cuda.Device().synchronize()
        total = float(first.sum())
        gc.collect()
        held = weir.stats()["allocated_bytes.all.current"]
        reserved = weir.stats()["reserved_bytes.all.current"]
        numbas = cuda.to_device(first)
        pytorchs = torch.as_tensor(numbas, device="cuda")
        weirs = weir.asarray(pytorchs)
        back = cupy.asarray(weirs)
        gc.collect()
        assert weir.stats()["allocated_bytes.all.current"] == held
        assert weir.stats()["reserved_bytes.all.current"] == reserved
        assert {numbas.__cuda_array_interface__["data"][0],
                pytorchs.data_ptr(), weirs.address, back.data.ptr} == \
            {first.data.ptr}
        back[0] = 0
        cupy.cuda.Device().synchronize()
        assert float(pytorchs[0].sum()) == 0 < total
        del first, numbas, pytorchs, weirs, back
        gc.collect()
        assert weir.stats()["allocated_bytes.all.current"] < held
    finally:
        weir.cupy.uninstall()


def test_numba_computes_on_a_tensor():
    cuda = need("numba.cuda")

    @cuda.jit
    def double(x, y):
        i = cuda.grid(1)
        if i < x.shape[0]:
            y[i] = 2 * x[i]

    stream = weir.Stream()
    x = weir.asarray(numpy.arange(1000), place="cuda", stream=stream)
    y = weir.zeros(1000, "int64", stream=stream)
    x.synchronize()
    double[8, 128](x, y)
    cuda.synchronize()
    assert (y.numpy() == 2 * numpy.arange(1000)).all()


def test_jax_reads_a_tensor_and_gives_one():
    jax = need("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no CUDA")
    source = numbers("float32")
    x = weir.asarray(source, place="cuda")
    y = jax.dlpack.from_dlpack(x)
    assert (numpy.asarray(y + 1) == source + 1).all()
    z = weir.from_dlpack(jax.numpy.asarray(source) * 2)
    assert z.place == "cuda:0" and z.tolist() == (source * 2).tolist()


def test_streams_of_frameworks_are_streams():
    for name, make in (("torch", lambda m: m.cuda.Stream()),
                       ("cupy", lambda m: m.cuda.Stream(non_blocking=True))):
        try:
            module = need(name)
        except pytest.skip.Exception:
            continue
        stream = make(module)
        if not hasattr(stream, "__cuda_stream__"):
            stream = getattr(stream, "cuda_stream", None) or stream.ptr
        assert weir.malloc(10, stream).stream == \
            weir.Stream.external(stream).handle
