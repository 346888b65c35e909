"""Numba on weir: NUMBA_CUDA_MEMORY_MANAGER=weir.numba."""

import copy
import ctypes
import gc
import os
import pickle

import pytest
import support

numpy = pytest.importorskip("numpy")
os.environ["NUMBA_CUDA_MEMORY_MANAGER"] = "weir.numba"
if support.SIMULATED:
    os.environ["NUMBA_CUDA_DRIVER"] = support.SIMULATED
if not hasattr(numpy, "row_stack"):  # NumPy 2 without an old name
    numpy.row_stack = numpy.vstack
cuda = pytest.importorskip("numba.cuda")

import weir  # noqa: E402


DTYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8",
          "uint8")


def allocated():
    gc.collect()
    return weir.stats()["allocated_bytes.all.current"]


@pytest.fixture(autouse=True)
def health():
    yield
    gc.collect()
    assert weir.check() == []


def test_numba_has_chosen_weir():
    import weir.numba

    context = cuda.current_context()
    assert type(context.memory_manager) is weir.numba.WeirMemoryManager
    assert context.memory_manager.interface_version == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_device_arrays_go_there_and_back(dtype):
    before = allocated()
    host = numpy.arange(1000).astype(dtype)
    array = cuda.to_device(host)
    assert allocated() > before
    again = array.copy_to_host()
    assert again.dtype == host.dtype and (again == host).all()
    interface = array.__cuda_array_interface__
    assert interface["typestr"] == numpy.dtype(dtype).newbyteorder("<").str
    assert interface["shape"] == (1000,)
    del array, interface
    assert allocated() == before


def test_an_array_is_a_block_of_weirs_of_any_stream():
    array = cuda.device_array((100, 10), numpy.float32)
    address = array.__cuda_array_interface__["data"][0]
    found = [block for segment in weir.snapshot(trace=False)["segments"]
             for block in segment["blocks"] if block["address"] == address]
    assert found[0]["requested_size"] == 4000
    assert found[0]["state"] == "active_allocated"
    assert found[0]["stream"] == -1


def test_views_and_slices_keep_the_memory():
    before = allocated()
    array = cuda.to_device(numpy.arange(100, dtype=numpy.int64))
    half = array[50:]
    odd = array[1::2]
    del array
    assert allocated() > before
    assert (half.copy_to_host() == numpy.arange(50, 100)).all()
    assert odd.strides == (16,)
    del half, odd
    assert allocated() == before


def test_copies_on_streams():
    stream = cuda.stream()
    host = cuda.pinned_array(10_000, numpy.int32)
    host[:] = numpy.arange(10_000)
    array = cuda.to_device(host, stream=stream)
    back = array.copy_to_host(stream=stream)
    stream.synchronize()
    assert (back == host).all()
    part = cuda.device_array_like(array)
    part.copy_to_device(array, stream=stream)
    stream.synchronize()
    assert (part.copy_to_host() == host).all()


def test_pinned_arrays_are_weirs():
    before = weir.pinned_stats()["allocated_bytes.all.current"]
    array = cuda.pinned_array(1 << 18, numpy.float32)
    assert weir.pinned_stats()["allocated_bytes.all.current"] >= \
        before + (1 << 20)
    assert weir.is_pinned(array.ctypes.data)
    array[:] = 1
    del array
    gc.collect()
    assert weir.pinned_stats()["allocated_bytes.all.current"] == before


def test_mapped_arrays_are_seen_by_both():
    array = cuda.mapped_array(100, numpy.int64)
    array[:] = numpy.arange(100)
    back = numpy.zeros(100, numpy.int64)
    weir.copy(back, int(array.gpu_data.device_pointer_value), 800)
    assert (back == array).all()


def test_the_hosts_own_memory_is_pinned():
    host = numpy.arange(5000)
    with cuda.pinned(host):
        assert weir.is_pinned(host.ctypes.data)
        cuda.to_device(host)
    assert not weir.is_pinned(host.ctypes.data)


def test_memory_info_is_weirs():
    free, total = cuda.current_context().get_memory_info()
    assert total == weir.memory_info()[1]
    weir.set_limit(1 << 30)
    try:
        assert cuda.current_context().get_memory_info().free <= 1 << 30
    finally:
        weir.set_limit(None)
    assert 0 < free <= total


def test_out_of_memory_is_numbas_error_and_weirs():
    with pytest.raises(cuda.cudadrv.driver.CudaAPIError,
                       match="Tried to allocate") as told:
        cuda.device_array(1 << 50, numpy.uint8)
    assert told.value.code == 2
    assert isinstance(told.value, weir.OutOfMemoryError)
    assert isinstance(told.value, MemoryError)
    assert cuda.to_device(numpy.ones(3)).copy_to_host().sum() == 3


def test_frees_while_cleanup_is_deferred():
    before = allocated()
    with cuda.defer_cleanup():
        for _ in range(10):
            cuda.to_device(numpy.ones(1000))
    assert allocated() == before


def test_an_array_has_an_ipc_handle():
    array = cuda.to_device(numpy.arange(1000))
    handle = array.get_ipc_handle()
    assert handle._ipc_handle.size >= 8000
    assert handle._ipc_handle.offset >= 0


def bytes_of(array):
    """All bytes of a device or mapped array's block, by weir."""
    driver = cuda.cudadrv.driver
    size = driver.device_memory_size(array)
    back = bytearray(size)
    weir.copy(back, driver.device_pointer(array), size)
    return back


@pytest.mark.parametrize("make", (cuda.device_array, cuda.mapped_array))
def test_the_extent_of_an_array_is_its_block_and_a_memset_keeps_to_it(make):
    driver = cuda.cudadrv.driver
    arrays = [make(100, numpy.uint32) for _ in range(3)]
    for array in arrays:
        assert driver.device_memory_size(array) == 400
        driver.device_memset(array, 1, driver.device_memory_size(array))
    driver.device_memset(
        arrays[1], 2, driver.device_memory_size(arrays[1]))
    cuda.synchronize()
    assert [set(bytes_of(array)) for array in arrays] == [{1}, {2}, {1}]
    start, end = driver.device_extents(arrays[1])
    assert (int(start), int(end) - int(start)) == (
        driver.device_pointer(arrays[1]), 400)


def test_the_extent_of_a_slice_is_the_array_s():
    driver = cuda.cudadrv.driver
    array = cuda.device_array(100, numpy.uint8)
    start, end = driver.device_extents(array[40:50])
    assert int(start) == driver.device_pointer(array)
    assert int(end) - int(start) == 100


def test_the_extent_of_memory_that_is_not_weirs_is_the_drivers():
    driver = cuda.cudadrv.driver
    host = numpy.zeros(5000, numpy.uint8)
    with cuda.mapped(host) as mapped:
        start, end = driver.device_extents(mapped)
        assert int(start) <= driver.device_pointer(mapped)
        assert int(end) - int(start) >= 5000


def test_an_ipc_handle_has_the_drivers_base_and_the_offset_in_it():
    arrays = [cuda.device_array(1000, numpy.uint8) for _ in range(3)]
    driver = cuda.cudadrv.driver
    for array in arrays:
        handle = array.get_ipc_handle()._ipc_handle
        base = driver.device_pointer(array) - handle.offset
        found = [s for s in weir.snapshot(trace=False)["segments"]
                 if s["address"] == base]
        assert len(found) == 1 and handle.size == 1000


class CUdevice(int):
    """What a context of another library's has as its device: a number with
    nothing else of Numba's Device."""


@pytest.mark.parametrize("device", (CUdevice(0), 0, ctypes.c_int(0)))
def test_a_context_that_another_library_made_can_be_pushed(device):
    driver = cuda.cudadrv.driver
    mine = cuda.current_context()
    theirs = driver.Context(device, mine.handle)
    theirs.push()
    try:
        assert theirs.get_memory_info().total == weir.memory_info()[1]
        pointer = theirs.memalloc(100)
        assert driver.device_memory_size(pointer) == 100
        theirs.memhostalloc(100, mapped=True)
    finally:
        theirs.pop()


def test_an_out_of_memory_error_is_pickled_and_copied():
    with pytest.raises(weir.OutOfMemoryError) as told:
        cuda.device_array(1 << 50, numpy.uint8)
    for again in (pickle.loads(pickle.dumps(told.value)),
                  copy.copy(told.value)):
        assert type(again) is type(told.value)
        assert str(again) == str(told.value)
        assert (again.code, again.status) == (2, "WEIR_ENOMEM")


def test_a_late_install_is_refused():
    import weir.numba

    cuda.current_context()
    with pytest.raises(RuntimeError, match="too late"):
        weir.numba.install()


def test_install_in_a_process_that_has_not_used_cuda():
    told = support.run_python("""
import numpy
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack
import weir, weir.numba
from numba import cuda
driver = cuda.cudadrv.driver.driver
find = getattr(driver, "_find_api", None)
driver._find_api = lambda name: (
    driver.lib.cuCtxGetDevice if name == "cuCtxGetDevice" else find(name))
weir.numba.install()
array = cuda.to_device(numpy.arange(10))
print(array.copy_to_host().sum(),
      weir.stats()["allocated_bytes.all.current"])
""", NUMBA_CUDA_MEMORY_MANAGER="default")
    assert told.split() == ["45", "512"]


def test_bytes_of_weirs_memory_are_an_array_of_numbas():
    block = weir.malloc(100)
    weir.copy(block, bytes(range(100)))
    assert cuda.is_cuda_array(block)
    view = cuda.as_cuda_array(block)
    assert (view.dtype, view.shape) == (numpy.uint8, (100,))
    assert bytes(view.copy_to_host()) == bytes(range(100))
    view[:5].copy_to_device(numpy.full(5, 7, numpy.uint8))
    back = bytearray(5)
    weir.copy(back, block.address, 5)
    assert back == bytes([7]) * 5
    address = block.address
    del block
    assert view.__cuda_array_interface__["data"][0] == address
    assert bytes(view.copy_to_host()[5:]) == bytes(range(5, 100))


def test_pinned_memory_is_no_array_of_the_device():
    assert not cuda.is_cuda_array(weir.pinned(10))
    with pytest.raises(TypeError):
        cuda.as_cuda_array(weir.pinned(10))


def test_arrays_of_numbas_are_copied_by_weir():
    array = cuda.to_device(numpy.arange(10, dtype=numpy.uint8))
    back = bytearray(10)
    weir.copy(back, array.__cuda_array_interface__["data"][0], 10)
    assert back == bytes(range(10))


# ---- weir's tensors and Numba's arrays --------------------------------------

ADAPTED = ("complex64", "complex128", "float16", "float32", "float64", "uint8",
           "int8", "int16", "int32", "int64")


@pytest.mark.parametrize("dtype", ADAPTED)
def test_numba_views_a_tensor(dtype):
    source = numpy.arange(10).astype(dtype)
    for host in (weir.asarray(source), weir.asarray(source).to("pinned")):
        assert not cuda.is_cuda_array(host)
        with pytest.raises(TypeError):
            cuda.as_cuda_array(host)
    tensor = weir.asarray(source, place="cuda")
    assert cuda.is_cuda_array(tensor)
    view = cuda.as_cuda_array(tensor)
    assert isinstance(view, cuda.devicearray.DeviceNDArray)
    assert (view.dtype, view.strides, view.shape) == (
        source.dtype, source.strides, tensor.shape)
    assert (view.copy_to_host() == source).all()
    tensor[:5] = 11
    source[:5] = 11
    assert (view.copy_to_host() == source).all()
    view[5:].copy_to_device(source[:5])
    assert tensor.tolist() == [11] * 10
    odd = cuda.as_cuda_array(tensor[::2])
    assert (odd.dtype, odd.strides, odd.shape) == (
        source.dtype, source[::2].strides, (5,))


def test_a_tensor_that_raises_for_its_interface_raises_in_numba():
    block = weir.malloc(10)
    block.free()
    with pytest.raises(RuntimeError):
        cuda.is_cuda_array(block)
    with pytest.raises(RuntimeError):
        cuda.as_cuda_array(block)
    with pytest.raises(TypeError):
        cuda.as_cuda_array(weir.zeros(3, "float8_e5m2"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tensor_views_an_array_of_numbas_and_infers_strides(dtype):
    host = numpy.arange(6).reshape(2, 3).astype(dtype)
    array = cuda.to_device(host)
    assert array.is_c_contiguous()
    tensor = weir.asarray(array)
    assert tensor.is_contiguous and tensor.dtype == dtype
    assert tensor.address == array.__cuda_array_interface__["data"][0]
    assert tensor.tolist() == host.tolist()
    tensor[0, 0] = 5
    assert array.copy_to_host()[0, 0] == 5


def test_a_tensor_keeps_numbas_array_alive():
    before = allocated()
    array = cuda.to_device(numpy.arange(6))
    tensor = weir.asarray(array)
    address = tensor.address
    del array
    assert allocated() > before
    again = cuda.to_device(numpy.zeros(6))
    assert again.__cuda_array_interface__["data"][0] != address
    assert tensor.tolist() == [0, 1, 2, 3, 4, 5]
    del tensor, again
    assert allocated() == before


def test_a_chain_of_views_is_one_memory_and_goes_in_any_order():
    before = allocated()
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0), (0, 2, 1),
                  (2, 0, 1)):
        chain = [weir.asarray(numpy.arange(1000.0), place="cuda")]
        held = allocated()
        chain.append(cuda.as_cuda_array(chain[0]))
        chain.append(weir.asarray(chain[1]))
        assert allocated() == held
        addresses = {chain[0].address, chain[2].address,
                     chain[1].__cuda_array_interface__["data"][0]}
        assert len(addresses) == 1
        for i in order[:2]:
            chain[i] = None
        last = chain[order[2]]
        values = last.copy_to_host() if order[2] == 1 else last.numpy()
        assert (values == numpy.arange(1000.0)).all()
        chain = last = None
        assert allocated() == before


TWO_DEVICES = """
import numpy
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack
import weir
from numba import cuda
driver = cuda.cudadrv.driver.driver
find = getattr(driver, "_find_api", None)
driver._find_api = lambda name: (
    driver.lib.cuCtxGetDevice if name == "cuCtxGetDevice" else find(name))
print(weir.device_count())
for number in (0, 1):
    tensor = weir.asarray(numpy.arange(10), place=number)
    assert tensor.place == f"cuda:{number}", tensor
    with cuda.gpus[number]:
        array = cuda.as_cuda_array(tensor)
        assert (array.copy_to_host() == numpy.arange(10)).all()
        own = cuda.to_device(numpy.arange(5))
    taken = weir.asarray(own)
    assert taken.place == f"cuda:{number}", taken
    assert taken.tolist() == [0, 1, 2, 3, 4]
    other = taken.to(1 - number)
    assert other.address != taken.address
    assert other.place == f"cuda:{1 - number}"
    assert other.tolist() == [0, 1, 2, 3, 4]
print("done")
"""


@pytest.mark.skipif(not support.SIMULATED and weir.device_count() < 2,
                    reason="there is one device")
def test_arrays_are_of_the_device_they_are_on():
    told = support.run_python(TWO_DEVICES, SIMCUDA_CONF="devices:2")
    assert told.split() == ["2", "done"]
