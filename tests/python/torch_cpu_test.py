"""Host memory shared with PyTorch, built without CUDA, by DLPack and buffers.

As Debian's python3-torch is, which scripts/deps installs.
"""

import gc
import resource

import pytest
import support  # noqa: F401

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")

import weir  # noqa: E402

DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32",
          "int16", "int8", "uint8", "complex64", "complex128")


@pytest.fixture(autouse=True)
def health():
    yield
    gc.collect()
    assert weir.check() == []


def numbers(dtype):
    """Six rows of four numbers that every type has."""
    values = [[(4 * i + k) % 5 for k in range(4)] for i in range(6)]
    return weir.asarray(values).to("cpu", dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_pytorch_reads_a_tensor_of_the_host(dtype):
    x = numbers(dtype)
    for view in (x, x[1:, ::2], x.T, x[2]):
        y = torch.from_dlpack(view)
        assert str(y.dtype) == "torch." + dtype
        assert tuple(y.shape) == view.shape and y.stride() == view.strides
        assert y.data_ptr() == view.address
        assert y.tolist() == view.tolist()
    y = torch.from_dlpack(x)
    y[0, 0] = 3
    assert x[0, 0].item() == 3
    x.fill_(2)
    assert y.sum().item() == 48


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tensor_reads_pytorch_s_memory(dtype):
    y = (torch.arange(24).reshape(6, 4) % 5).to(getattr(torch, dtype))
    for view in (y, y[1:, ::2], y.T):
        x = weir.from_dlpack(view)
        assert (x.dtype, x.place) == (dtype, "cpu")
        assert (x.shape, x.strides) == (tuple(view.shape), view.stride())
        assert x.address == view.data_ptr()
        assert x.tolist() == view.tolist()
    assert weir.asarray(y).address == y.data_ptr()


def test_memory_lives_as_long_as_either_uses_it():
    def peak_mib():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

    before = peak_mib()
    for i in range(50):
        x = weir.full(2 << 20, i, "float32", "cpu")
        y = torch.from_dlpack(x)
        del x
        gc.collect()
        assert y[-1].item() == i
        x = weir.from_dlpack(y)
        del y
        gc.collect()
        assert x[-1].item() == i
        del x
    # 400 MiB in all, 8 at a time.
    assert peak_mib() - before < 200


def test_a_chain_of_views_is_one_memory():
    x = numbers("float64")
    view = x
    for _ in range(100):
        view = weir.from_dlpack(torch.from_dlpack(view))
    assert view.address == x.address
    del x
    gc.collect()
    view.fill_(7)
    assert torch.from_dlpack(view).sum().item() == 24 * 7


def test_pytorch_uses_page_locked_memory_as_a_buffer():
    block = weir.pinned(1024)
    y = torch.frombuffer(block, dtype=torch.float32)
    y[:] = 1.5
    assert weir.asarray(block).view("float32")[255].item() == 1.5
    # PyTorch keeps the block.
    del block
    gc.collect()
    weir.pinned(1024)
    assert y.sum().item() == 1.5 * 256


def test_pytorch_computes_for_the_device():
    device = numbers("float32").to("cuda")
    y = torch.from_dlpack(device.to("cpu"))
    device.copy_(weir.from_dlpack(y * 2 + 1))
    assert device.tolist() == (y * 2 + 1).tolist()


def test_what_pytorch_cannot_share_is_refused():
    y = torch.ones(3, requires_grad=True)
    with pytest.raises((BufferError, RuntimeError)):
        weir.from_dlpack(y)
    with pytest.raises((BufferError, TypeError, RuntimeError)):
        torch.from_dlpack(numbers("float32").to("cpu", "float8_e4m3fn"))
