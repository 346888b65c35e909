"""CuPy on weir: CuPy itself where it is there, else a double of its allocator
interface."""

import copy
import gc
import pickle
import weakref

import pytest
import support

try:
    import cupy
except ImportError:
    support.use_double("cupy")
    import cupy

import weir
import weir.cupy

REAL = not hasattr(cupy, "DOUBLE")
real_only = pytest.mark.skipif(not REAL, reason="there is no CuPy")


@pytest.fixture(autouse=True)
def installed():
    weir.cupy.install()
    yield
    gc.collect()
    weir.cupy.uninstall()
    assert weir.check() == []


def allocated():
    gc.collect()
    return weir.stats()["allocated_bytes.all.current"]


def test_arrays_are_weirs_blocks_of_cupys_current_stream():
    before = allocated()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        array = cupy.empty(100_000, "u1")
    assert allocated() - before >= 100_000
    assert weir.stats(stream=stream.ptr)["allocated_bytes.all.current"] >= \
        100_000
    address = array.data.ptr
    del array
    assert allocated() == before
    with stream:
        assert cupy.empty(100_000, "u1").data.ptr == address


def test_an_array_of_no_bytes_takes_no_memory():
    before = allocated()
    array = cupy.empty(0, "u1")
    assert allocated() == before and array.size == 0


def test_out_of_memory_is_cupys_error_and_weirs():
    with pytest.raises(cupy.cuda.memory.OutOfMemoryError,
                       match="Tried to allocate") as raised:
        cupy.empty(1 << 50, "u1")
    assert isinstance(raised.value, weir.OutOfMemoryError)
    assert raised.value.status == "WEIR_ENOMEM"
    for again in (pickle.loads(pickle.dumps(raised.value)),
                  copy.copy(raised.value)):
        assert type(again) is type(raised.value)
        assert (str(again), again.status) == (
            str(raised.value), "WEIR_ENOMEM")


def test_pinned_memory_is_weirs():
    before = weir.pinned_stats()["allocated_bytes.all.current"]
    pinned = cupy.cuda.alloc_pinned_memory(1 << 20)
    assert weir.is_pinned(pinned.ptr)
    assert weir.pinned_stats()["allocated_bytes.all.current"] >= \
        before + (1 << 20)
    del pinned
    gc.collect()
    assert weir.pinned_stats()["allocated_bytes.all.current"] == before


def test_the_default_pool_reports_weirs_memory():
    pool = cupy.get_default_memory_pool()
    used = pool.used_bytes()
    array = cupy.empty(1 << 20, "u1")
    assert pool.used_bytes() == used + (1 << 20)
    assert pool.total_bytes() >= pool.used_bytes()
    assert pool.free_bytes() == pool.total_bytes() - pool.used_bytes()
    del array
    gc.collect()
    pool.free_all_blocks()
    assert pool.used_bytes() == used
    cupy.get_default_pinned_memory_pool().free_all_blocks()
    assert cupy.get_default_pinned_memory_pool().n_free_blocks() >= 0


def test_the_default_pools_limit_is_weirs():
    pool = cupy.get_default_memory_pool()
    assert pool.get_limit() == 0
    pool.free_all_blocks()
    pool.set_limit(size=256 << 20)
    try:
        assert weir.limit() == pool.get_limit() == 256 << 20
        with pytest.raises(cupy.cuda.memory.OutOfMemoryError):
            cupy.empty(257 << 20, "u1")
    finally:
        pool.set_limit(size=0)
    assert weir.limit() is None
    pool.set_limit(fraction=0.5)
    assert pool.get_limit() > 0
    pool.set_limit(size=0)
    for wrong in ({}, {"size": 1, "fraction": 1}):
        with pytest.raises(ValueError):
            pool.set_limit(**wrong)


def test_an_array_is_recorded_for_another_stream():
    stream, other = cupy.cuda.Stream(), cupy.cuda.Stream()
    with stream:
        array = cupy.empty(1 << 20, "u1")
    weir.cupy.record_stream(array, other)
    del array
    gc.collect()
    weir.synchronize()
    weir.cupy.uninstall()
    foreign = cupy.empty(10, "u1")
    with pytest.raises(TypeError, match="weir"):
        weir.cupy.record_stream(foreign, other)


def test_a_stream_outlives_its_object_as_long_as_memory_is_of_it():
    stream = cupy.cuda.Stream(non_blocking=True)
    held, handle = weakref.ref(stream), stream.ptr
    with stream:
        array = cupy.empty(3 << 20, "u1")
    del stream, array
    gc.collect()
    assert held().ptr == handle
    # Whoever is short of memory may look at all streams.
    with pytest.raises(cupy.cuda.memory.OutOfMemoryError):
        cupy.empty(1 << 50, "u1")
    other = cupy.cuda.Stream(non_blocking=True)
    with other:
        array = cupy.empty(3 << 20, "u1")
    gc.collect()
    assert held() is None
    assert other.ptr != handle and array.data.ptr


def test_streams_that_are_used_are_kept():
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(20)]
    for stream in streams:
        with stream:
            cupy.empty(1000, "u1")
    assert len({stream.ptr for stream in streams}) == 20
    for stream in streams:
        with stream:
            assert cupy.empty(1000, "u1").data.ptr
    known = len(weir.cupy._streams._kept)
    assert known >= 20
    del streams, stream
    with cupy.cuda.Stream(non_blocking=True):
        cupy.empty(1000, "u1")
    assert len(weir.cupy._streams._kept) <= known - 19


def test_uninstalling_leaves_cupy_as_it_was():
    weir.cupy.uninstall()
    before = allocated()
    array = cupy.empty(1000, "u1")
    assert allocated() == before
    assert not isinstance(cupy.get_default_memory_pool(),
                          weir.cupy.MemoryPool)
    weir.cupy.uninstall()
    del array


@real_only
def test_cupy_computes_on_weirs_memory():
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
    sums = []
    for i in range(60):
        with streams[i % 3]:
            x = cupy.arange(i * 1000 + 1, dtype=cupy.int64)
            sums.append((i, cupy.sum(x[::-1] * 2 + i)))
    for i, total in sums:
        n = i * 1000 + 1
        assert int(total) == n * (n - 1) + n * i


@real_only
def test_bytes_of_weirs_memory_are_an_array_of_cupys():
    block = weir.malloc(100)
    array = cupy.asarray(block)
    assert array.data.ptr == block.address
    array[:] = 9
    cupy.cuda.Device().synchronize()
    back = bytearray(100)
    weir.copy(back, block)
    assert back == bytes([9]) * 100
