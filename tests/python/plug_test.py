"""weir.onnxruntime and weir.triton: what ONNX Runtime and Triton call. Neither is
installed: ctypes stands for them, and a double of triton.set_allocator() that
was written from its documentation."""

import contextvars
import ctypes
import gc
import sys
import types

import pytest
import support  # noqa: F401

import weir
import weir.onnxruntime
import weir.triton


@pytest.fixture(autouse=True)
def health():
    gc.collect()
    before = allocated()
    yield
    gc.collect()
    weir.set_limit(None)
    assert allocated() == before
    assert weir.check() == []


def allocated():
    return weir.stats()["allocated_bytes.all.current"]


# ---- ONNX Runtime ------------------------------------------------------------


def functions():
    options = weir.onnxruntime.provider_options()
    kinds = {"gpu_external_alloc": (ctypes.c_void_p, ctypes.c_size_t),
             "gpu_external_free": (None, ctypes.c_void_p),
             "gpu_external_empty_cache": (None,)}
    return [ctypes.CFUNCTYPE(*kinds[name])(int(options[name]))
            for name in kinds]


def test_onnxruntime_is_served_by_addresses():
    alloc, free, empty = functions()
    before = allocated()
    address = alloc(5 << 20)
    assert allocated() == before + (5 << 20)
    weir.copy(address, b"abc")
    free(address)
    assert allocated() == before
    held = weir.stats()["reserved_bytes.all.current"]
    empty()
    assert weir.stats()["reserved_bytes.all.current"] <= held - (5 << 20)
    free(None)


def test_onnxruntime_gets_null_for_want_of_memory():
    alloc, _, _ = functions()
    weir.set_limit(weir.stats()["reserved_bytes.all.current"] + (4 << 20))
    assert alloc(64 << 20) is None
    assert alloc(0) is None


def test_options_of_onnxruntime_are_joined():
    options = weir.onnxruntime.provider_options(device_id=1)
    assert options["device_id"] == 1
    assert options["gpu_external_alloc"].isdigit()
    with pytest.raises(ValueError, match="gpu_external_free is weir's"):
        weir.onnxruntime.provider_options(gpu_external_free="1")


# ---- Triton ------------------------------------------------------------------


@pytest.fixture
def triton(monkeypatch):
    """A double: the allocator is of a context, and is called at a launch."""
    double = types.ModuleType("triton")
    current = contextvars.ContextVar("allocator", default=None)
    double.set_allocator = current.set

    def launch(size, alignment, stream, use):
        scratch = current.get()(size, alignment, stream)
        use(scratch.data_ptr())

    double.launch = launch
    double.allocator = current
    monkeypatch.setitem(sys.modules, "triton", double)
    yield double
    current.set(None)


def test_triton_has_scratch_memory_of_the_launch_s_stream(triton):
    weir.triton.install()
    stream = weir.Stream()
    used = []
    before = allocated()

    def use(address):
        assert allocated() == before + (1 << 20)
        used.append(address)

    for _ in range(3):
        triton.launch(1 << 20, 128, stream.handle, use)
    # It serves its stream again, behind the launch before.
    assert len(set(used)) == 1
    triton.launch(1 << 20, 128, None, used.append)
    triton.launch(0, 128, None, used.append)
    assert used[-1] == 0
    assert allocated() == before


def test_triton_s_allocator_is_of_its_context(triton):
    contextvars.copy_context().run(weir.triton.install)
    assert triton.allocator.get() is None
    weir.triton.install()
    assert triton.allocator.get() is weir.triton.allocate


def test_triton_gets_failures_as_exceptions(triton):
    weir.triton.install()
    with pytest.raises(ValueError, match="alignment is 1024"):
        triton.launch(10, 1024, None, print)
    weir.set_limit(weir.stats()["reserved_bytes.all.current"] + (4 << 20))
    with pytest.raises(weir.OutOfMemoryError):
        triton.launch(64 << 20, 16, None, print)
