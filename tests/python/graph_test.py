"""Graphs, pools, checkpoints and suspending from Python."""

import ctypes
import gc

import pytest
import support

import weir

DRIVER = ctypes.CDLL(support.DRIVER)


def memset(block, value, stream):
    """Queue a fill of a block's bytes."""
    assert DRIVER.cuMemsetD8Async(
        ctypes.c_uint64(block.address), ctypes.c_ubyte(value),
        ctypes.c_size_t(block.size), ctypes.c_void_p(stream.handle)) == 0


def content(block):
    back = bytearray(block.size)
    weir.copy(back, block)
    return bytes(back)


@pytest.fixture(autouse=True)
def health():
    weir.set_device(0)  # calls of the driver need a current context
    yield
    gc.collect()
    assert weir.check() == []


def test_a_captured_graph_does_its_work_at_each_replay():
    stream = weir.Stream()
    graph = weir.Graph()
    with weir.capture(graph, stream) as captured:
        assert captured is graph and weir.current_stream() == stream
        block = weir.malloc(100)
        memset(block, 7, stream)
    assert graph.nodes == 1
    assert block.stream == stream.handle
    for _ in range(2):
        weir.copy(block, bytes(100), stream=stream)
        graph.replay(stream)
        stream.synchronize()
        assert content(block) == bytes([7]) * 100
    assert graph.exec != 0
    assert graph.pool.stats()["allocated_bytes.all.current"] == 512


def test_a_graph_captures_again_after_a_reset():
    stream = weir.Stream()
    graph = weir.Graph(keep=True)
    block = weir.malloc(10, stream)
    with weir.capture(graph, stream):
        memset(block, 1, stream)
    assert graph.handle != 0 and graph.exec == 0
    graph.instantiate()
    graph.reset()
    with pytest.raises(ValueError):
        graph.replay(stream)
    with weir.capture(graph, stream, mode="thread_local"):
        memset(block, 2, stream)
    graph.replay(stream)
    stream.synchronize()
    assert content(block) == bytes([2]) * 10


def test_a_capture_that_raises_is_dropped():
    stream = weir.Stream()
    graph = weir.Graph()
    with pytest.raises(ZeroDivisionError):
        with weir.capture(graph, stream):
            1 / 0
    assert weir.current_stream().handle == 0
    with weir.capture(graph, stream):
        pass


def test_an_impossible_capture_is_refused():
    graph = weir.Graph()
    with pytest.raises(weir.InvalidArgumentError):
        graph.capture_begin(0)
    with pytest.raises(weir.InvalidArgumentError):
        weir.capture(graph).__enter__()
    with pytest.raises(ValueError, match="'global', 'thread_local'"):
        graph.capture_begin(weir.Stream(), mode="loose")
    with pytest.raises(weir.InvalidArgumentError):
        graph.capture_end()
    with pytest.raises(weir.InvalidArgumentError):
        graph.pool


def test_graphs_share_a_pool():
    stream, pool = weir.Stream(), weir.Pool()
    graphs = [weir.Graph(), weir.Graph()]
    for graph in graphs:
        with weir.capture(graph, stream, pool=pool):
            weir.malloc(1 << 20)
        assert graph.pool.id == pool.id
    assert pool.stats()["reserved_bytes.all.peak"] <= 2 << 20
    assert pool.use_count == 3


def test_a_thread_is_routed_to_a_pool():
    pool = weir.Pool()
    outside = weir.malloc(1000)
    with pool:
        inside = weir.malloc(1000)
    assert pool.stats()["allocated_bytes.all.current"] == 1024
    assert pool.check_live([inside.address])
    assert not pool.check_live([outside.address])
    assert not pool.check_live([])
    assert f"id={pool.id}" in repr(pool)
    with pytest.raises(TypeError):
        pool.check_live(["x"])


def test_a_pool_is_found_by_its_number_and_trimmed():
    pool = weir.Pool(use_on_oom=True)
    block = weir.malloc(4 << 20, pool=pool)
    number = pool.id
    del pool
    pool = weir.Pool.find(number)
    assert pool.check_live([block.address])
    block.free()
    weir.synchronize()
    assert pool.trim() >= 4 << 20
    del pool
    with pytest.raises(weir.InvalidArgumentError):
        weir.Pool.find(number)


def test_a_checkpoint_is_restored_and_old_objects_are_freed_ones():
    stream, pool = weir.Stream(), weir.Pool()
    graph = weir.Graph()
    with weir.capture(graph, stream, pool=pool):
        pass
    first = weir.malloc(1 << 20, stream, pool=pool)
    saved, size = first.address, first.size
    checkpoint = pool.checkpoint()
    first.free()
    second = weir.malloc(3 << 20, stream, pool=pool)
    for _ in range(2):
        live = pool.restore(checkpoint)
        assert second.freed
        assert [(b.address, b.size, b.stream) for b in live] == [
            (saved, size, stream.handle)]
        assert pool.check_live([saved])
        live[0].free()
    with pytest.raises(weir.InvalidArgumentError):
        weir.Pool().restore(checkpoint)
    with pytest.raises(TypeError):
        pool.restore(None)
    with pytest.raises(TypeError):
        weir.Checkpoint()


def test_a_suspended_pool_comes_back_with_its_content():
    stream, pool = weir.Stream(), weir.Pool()
    block = weir.malloc(4 << 20, stream, pool=pool)
    weir.copy(block, bytes(range(256)) * (16 << 10), stream=stream)
    address = block.address
    assert pool.suspend() >= 4 << 20
    with pytest.raises(weir.InvalidArgumentError):
        pool.suspend()
    pool.resume()
    assert block.address == address
    assert content(block) == bytes(range(256)) * (16 << 10)
    assert pool.suspend(copy=False) >= 4 << 20
    pool.resume()
    with pytest.raises(weir.InvalidArgumentError):
        pool.resume()


def test_a_block_that_outlives_its_pool_is_freed_with_it():
    before = weir.stats()["allocated_bytes.all.current"]
    pool = weir.Pool(no_split=True)
    block = weir.malloc(1 << 20, pool=pool)
    del pool
    assert content(block) is not None
    del block
    assert weir.stats()["allocated_bytes.all.current"] == before


def test_a_pool_can_be_registered():
    pool = weir.Pool(registrable=True)
    block = weir.malloc(1 << 20, pool=pool)
    weir.copy(block, bytes(1 << 20))
    assert content(block) == bytes(1 << 20)
    assert pool.check_live([block.address])
