"""weir.numba beside numba-cuda in the form that it has with NVIDIA's bindings: a
double of it, because Debian's Numba has the other form, which numba_test.py is
about."""

import copy
import gc
import pickle

import pytest
import support

support.use_double("numba")

from numba.cuda.cudadrv import driver  # noqa: E402

import weir  # noqa: E402
import weir.numba  # noqa: E402

DEVICES = (driver.Device(0), driver.binding.CUdevice(0))


@pytest.fixture(params=DEVICES, ids=("numba's", "another library's"))
def manager(request):
    weir.set_device(0)
    weir.numba.install()
    context = driver.Context(request.param, 1)
    context.push()
    yield context.memory_manager
    del context
    gc.collect()
    assert weir.check() == []


def test_a_context_of_any_maker_serves(manager):
    assert manager.get_memory_info().total == weir.memory_info(0)[1]
    before = weir.stats(0)["allocated_bytes.all.current"]
    memory = manager.memalloc(1000)
    assert weir.stats(0)["allocated_bytes.all.current"] == before + 1024
    assert driver.device_memory_size(memory) == 1000
    del memory
    assert weir.stats(0)["allocated_bytes.all.current"] == before


def mapped(manager, size):
    return manager.memhostalloc(size, mapped=True)


def device(manager, size):
    return manager.memalloc(size)


@pytest.mark.parametrize("make", (mapped, device))
def test_an_array_ends_where_its_block_does(manager, make):
    arrays = [driver.Array(make(manager, 400)) for _ in range(3)]
    for array in arrays:
        assert driver.device_memory_size(array) == 400
        driver.device_memset(array, 1, driver.device_memory_size(array))
    driver.device_memset(arrays[1], 2, driver.device_memory_size(arrays[1]))
    weir.synchronize()
    for array, value in zip(arrays, (1, 2, 1)):
        back = bytearray(400)
        weir.copy(back, driver.device_pointer(array), 400)
        assert set(back) == {value}
    inner = driver.Array(arrays[1].memory, 100)
    assert driver.device_extents(inner) == driver.device_extents(arrays[1])


def test_memory_of_another_is_the_drivers(manager):
    tensor = weir.zeros(100, "uint8")
    block = weir.malloc(100)
    found = driver.Array(driver.MemoryPointer(
        None, driver.binding.CUdeviceptr(block.address), 100))
    assert driver.device_memory_size(found) == 100
    block.free()
    start, end = driver.device_extents(found)
    assert start <= driver.device_pointer(found) < end
    assert end - start > 100
    del tensor


def test_an_ipc_handle_has_the_drivers_base(manager):
    memories = [manager.memalloc(1000) for _ in range(3)]
    for memory in memories:
        handle = manager.get_ipc_handle(memory)
        segments = [s["address"] for s in
                    weir.snapshot(trace=False)["segments"]]
        assert handle.handle in segments
        assert handle.handle + handle.offset == int(memory.device_pointer)
    assert len({manager.get_ipc_handle(m).offset for m in memories}) == 3


def test_an_out_of_memory_error_is_pickled_and_copied(manager):
    with pytest.raises(driver.CudaAPIError) as told:
        manager.memalloc(1 << 50)
    for again in (pickle.loads(pickle.dumps(told.value)),
                  copy.copy(told.value)):
        assert type(again) is weir.numba.OutOfMemoryError
        assert (again.code, again.status) == (2, "WEIR_ENOMEM")
        assert str(again) == str(told.value)
