"""Checks each function of PyTorch's allocator on weir's adapter.

    torch_adapter.py [--native] [--list] [NAME...]

Each check runs on its own memory; with --native the same checks run on
PyTorch's own allocator, for comparison. Prints a line a check, and exits with 1
if any failed. Needs a GPU and PyTorch; weir.torch on PYTHONPATH.
"""

import gc
import json
import os
import re
import subprocess
import sys
import threading
import traceback

NATIVE = "--native" in sys.argv
if not NATIVE:
    import weir.torch

    HOW = weir.torch.install()
    print("# installed:", HOW, flush=True)

import torch  # noqa: E402

MIB = 1 << 20
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def expect(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(w) for w in what))


def expect_equal(a, b, *what):
    expect(a == b, *what, f"{a!r} is not {b!r}")


def expect_raises(kind, pattern, function):
    try:
        function()
    except kind as error:
        expect(re.search(pattern, str(error)), "other words:", error)
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def clean():
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def stats(name):
    return torch.cuda.memory_stats()[name]


def cycles(milliseconds):
    return int(milliseconds * 1_900_000)


# ---- Allocating and freeing --------------------------------------------------


@check
def bytes_are_counted():
    before = torch.cuda.memory_allocated()
    ptr = torch.cuda.caching_allocator_alloc(1)
    expect_equal(torch.cuda.memory_allocated(), before + 512)
    torch.cuda.caching_allocator_delete(ptr)
    expect_equal(torch.cuda.memory_allocated(), before)


@check
def a_wrong_pointer_is_an_error():
    expect_raises(RuntimeError, "invalid device pointer",
                  lambda: torch.cuda.caching_allocator_delete(4096))


@check
def an_empty_tensor_has_no_memory():
    before = torch.cuda.memory_allocated()
    x = torch.empty(0, device="cuda")
    expect_equal(x.data_ptr(), 0)
    expect_equal(torch.cuda.memory_allocated(), before)


@check
def contents_survive():
    tensors = [torch.full((n * 1000 + 1,), n, device="cuda")
               for n in range(200)]
    for n in range(0, 200, 3):
        tensors[n] = None
    more = [torch.full((n * 777 + 1,), -n, device="cuda") for n in range(200)]
    for n, x in enumerate(tensors):
        expect(x is None or bool((x == n).all()), "tensor", n)
    for n, x in enumerate(more):
        expect(bool((x == -n).all()), "tensor", -n)


@check
def the_stream_has_its_memory_again():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
        ptr = x.data_ptr()
        del x
        y = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
        expect_equal(y.data_ptr(), ptr)


@check
def what_another_stream_uses_is_not_reused():
    copied = torch.cuda.Stream()
    source = torch.tensor([1.0, 2, 3, 4]).pin_memory()
    result = torch.empty(4, device="cuda")
    with torch.cuda.stream(copied):
        block = source.cuda(non_blocking=True)
        ptr = block.data_ptr()
    torch.cuda.current_stream().wait_stream(copied)
    block.record_stream(torch.cuda.current_stream())
    torch.cuda._sleep(cycles(50))
    result.copy_(block)
    del block
    with torch.cuda.stream(copied):
        other = torch.empty(4, device="cuda").zero_()
        expect(other.data_ptr() != ptr, "reused too soon")
    expect_equal(result.tolist(), [1, 2, 3, 4])
    torch.cuda.current_stream().synchronize()
    with torch.cuda.stream(copied):
        again = torch.empty(4, device="cuda")
        expect_equal(again.data_ptr(), ptr, "not reused")


@check
def a_view_is_recorded_for_its_block():
    owner, user = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(owner):
        base = torch.empty(4096, device="cuda")
    view = base[100:]
    with torch.cuda.stream(user):
        torch.cuda._sleep(cycles(50))
    view.record_stream(user)
    ptr = base.data_ptr()
    del base, view
    owner.synchronize()
    with torch.cuda.stream(owner):
        expect(torch.empty(4096, device="cuda").data_ptr() != ptr)


@check
def record_stream_does_not_run_out():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        y = torch.zeros(40 * MIB, device="cuda")
    for _ in range(100):
        x = torch.empty(40 * MIB, device="cuda")
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y += x
        x.record_stream(stream)
        del x
    clean()


@check
def threads_allocate_at_once():
    faults = []

    def work(seed):
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for i in range(200):
                    n = 1 + (seed * 7919 + i * 104729) % 300000
                    x = torch.full((n,), seed, device="cuda",
                                   dtype=torch.int32)
                    expect(bool((x == seed).all()), "thread", seed, i)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    expect(not faults, faults[:1])


# ---- Shortage and limits -----------------------------------------------------


@check
def a_shortage_is_an_out_of_memory_error():
    x = torch.zeros(1024, device="cuda")
    text = expect_raises(
        torch.cuda.OutOfMemoryError, "Tried to allocate 800000000.00 GiB",
        lambda: torch.empty(1024**3 * 800000000, dtype=torch.int8,
                            device="cuda"))
    expect(text.startswith("CUDA out of memory. "), text)
    expect("GPU 0" in text and " is free" in text, text)
    expect_raises(torch.cuda.OutOfMemoryError,
                  "Tried to allocate more than 1EB memory",
                  lambda: torch.empty(1024**3 * 8000000000, dtype=torch.int8,
                                      device="cuda"))
    expect(bool((x.fill_(1) == 1).all()))


@check
def there_is_memory_again_after_a_shortage():
    clean()
    size = int(torch.cuda.get_device_properties(0).total_memory * 0.5)
    ooms = stats("num_ooms")
    a = torch.empty(size, dtype=torch.int8, device="cuda")
    expect_raises(RuntimeError, "Tried to allocate",
                  lambda: torch.empty(size, dtype=torch.int8, device="cuda"))
    expect_equal(stats("num_ooms"), ooms + 1)
    del a
    b = torch.empty(size, dtype=torch.int8, device="cuda")
    del b
    clean()


@check
def observers_are_told_of_a_shortage():
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(
        lambda *args: seen.append(args))
    expect_raises(torch.cuda.OutOfMemoryError, "",
                  lambda: torch.empty(1024**4, device="cuda"))
    expect_equal(len(seen), 1)
    expect_equal(seen[0][0], 0)


@check
def a_fraction_limits():
    clean()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(0.5, 0)
    expect(abs(torch.cuda.get_per_process_memory_fraction(0) - 0.5) < 0.01)
    try:
        expect_raises(torch.cuda.OutOfMemoryError, "Tried to allocate",
                      lambda: torch.empty(int(total * 0.6), dtype=torch.int8,
                                          device="cuda"))
        torch.empty(int(total * 0.4), dtype=torch.int8, device="cuda")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, 0)
    expect_raises(ValueError, "Invalid fraction",
                  lambda: torch.cuda.set_per_process_memory_fraction(1.5, 0))
    clean()


@check
def settings_change_at_run_time():
    set_conf = getattr(torch._C, "_accelerator_setAllocatorSettings",
                       torch.cuda.memory._set_allocator_settings)
    try:
        for conf, mib, rounded in (
                ("roundup_power2_divisions:8", 84, 88),
                ("roundup_power2_divisions:[64:8,128:2,256:2,512:2,1024:1,"
                 ">:1]", 84, 88),
                ("max_split_size_mb:100", 84, 84)):
            set_conf(conf)
            clean()
            before = torch.cuda.memory_allocated()
            x = torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")
            expect_equal(torch.cuda.memory_allocated() - before,
                         rounded * MIB, conf)
            expect_equal(stats("requested_bytes.all.current") % MIB, 0)
            del x
        expect_raises(ValueError, "",
                      lambda: set_conf("roundup_power2_divisions:3"))
    finally:
        set_conf("")
    clean()


# ---- Statistics --------------------------------------------------------------


@check
def all_statistics_are_there():
    have = torch.cuda.memory_stats()
    for kind in ("allocation", "segment", "active", "inactive_split",
                 "allocated_bytes", "reserved_bytes", "active_bytes",
                 "inactive_split_bytes", "requested_bytes"):
        for pool in ("all", "small_pool", "large_pool"):
            for what in ("current", "peak", "allocated", "freed"):
                expect(f"{kind}.{pool}.{what}" in have, kind, pool, what)
    for kind in ("oversize_allocations", "oversize_segments"):
        for what in ("current", "peak", "allocated", "freed"):
            expect(f"{kind}.{what}" in have, kind, what)
    for name in ("num_alloc_retries", "num_ooms", "num_sync_all_streams",
                 "num_device_alloc", "num_device_free", "max_split_size"):
        expect(name in have, name)
    expect("PyTorch CUDA memory summary" in torch.cuda.memory_summary())


@check
def peaks_are_kept_and_reset():
    clean()
    torch.cuda.reset_peak_memory_stats()
    start = torch.cuda.memory_allocated()
    x = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    del x
    expect_equal(torch.cuda.max_memory_allocated(), start + 30 * MIB)
    torch.cuda.reset_peak_memory_stats()
    expect_equal(torch.cuda.max_memory_allocated(), start)
    torch.cuda.reset_accumulated_memory_stats()
    expect_equal(stats("allocation.all.allocated"), 0)
    free, total = torch.cuda.mem_get_info()
    expect(0 < free < total)


@check
def the_cache_is_emptied():
    x = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    del x
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    low = torch.cuda.memory_reserved()
    x = torch.empty(300 * MIB, dtype=torch.uint8, device="cuda")
    expect(torch.cuda.memory_reserved() >= low + 300 * MIB)
    del x
    torch.cuda.empty_cache()
    expect(torch.cuda.memory_reserved() <= low + 2 * MIB)


# ---- Page-locked memory ------------------------------------------------------


@check
def pinned_memory_is_reused_when_it_may_be():
    t = torch.tensor([1.0]).pin_memory()
    expect(t.is_pinned())
    ptr = t.data_ptr()
    del t
    t = torch.tensor([1.0]).pin_memory()
    expect_equal(t.data_ptr(), ptr, "not reused")
    on_gpu = torch.tensor([0.0], device="cuda")
    torch.cuda._sleep(cycles(300))
    on_gpu.copy_(t, non_blocking=True)
    del t
    t = torch.tensor([1.0]).pin_memory()
    expect(t.data_ptr() != ptr, "reused too soon")
    expect_equal(on_gpu.tolist(), [1.0])


@check
def pinned_memory_has_statistics():
    if not hasattr(torch.cuda, "host_memory_stats"):
        return
    t = torch.empty(10 * MIB, dtype=torch.uint8, pin_memory=True)
    after = torch.cuda.host_memory_stats()
    name = "active_bytes.current" if "active_bytes.current" in after else \
        "allocated_bytes.current"
    # Memory that others freed a while ago may go back to the driver meanwhile.
    expect(after[name] >= 10 * MIB, after[name])
    del t


@check
def a_loader_with_pinned_memory_works():
    data = torch.utils.data.TensorDataset(torch.arange(4096.0).view(512, 8))
    loader = torch.utils.data.DataLoader(data, batch_size=32, num_workers=2,
                                         pin_memory=True)
    total = 0.0
    for (batch,) in loader:
        expect(batch.is_pinned())
        total += float(batch.to("cuda", non_blocking=True).sum())
    expect_equal(total, float(sum(range(4096))))


# ---- Graphs and pools --------------------------------------------------------


def capture(function, pool=None):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(**({} if pool is None else {"pool": pool}))
        out = function()
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph, out


def segments_of(pool):
    return [s for s in torch.cuda.memory_snapshot()
            if tuple(s["segment_pool_id"]) == tuple(pool)]


def live_blocks(pool):
    return sum(b["state"] == "active_allocated" for s in segments_of(pool)
               for b in s["blocks"])


@check
def a_graph_replays():
    a = torch.full((1000,), 1.0, device="cuda")
    graph, out = capture(lambda: (a * 2 + 1) * 3)
    for value in (1.0, 5.0, 7.0):
        a.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        expect_equal(float(out[0]), (value * 2 + 1) * 3)
    expect(segments_of(graph.pool()), "no segment of the graph's pool")
    pool = graph.pool()
    del out
    graph.reset()
    del graph
    clean()
    expect_equal(segments_of(pool), [])


@check
def the_memory_of_a_graph_is_its_own():
    a = torch.full((MIB,), 1.0, device="cuda")

    def work():
        b = a + 1
        c = b * 2
        del b
        return c.sum()

    graph, out = capture(work)
    for _ in range(5):
        noise = [torch.full((MIB,), float("nan"), device="cuda")
                 for _ in range(20)]
        graph.replay()
        del noise
        torch.cuda.empty_cache()
        expect_equal(float(out), 4.0 * MIB)
    graph.reset()


@check
def two_graphs_share_a_pool():
    a = torch.full((1000,), 2.0, device="cuda")
    first, x = capture(lambda: a * 2)
    second, y = capture(lambda: x + 1, pool=first.pool())
    a.fill_(10)
    first.replay()
    second.replay()
    torch.cuda.synchronize()
    expect_equal(float(y[0]), 21.0)
    first.reset()
    second.reset()


@check
def a_shortage_in_a_capture_is_reported():
    def work():
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.zeros(2**40, device="cuda")

    expect_raises(RuntimeError, "out of memory", work)
    clean()


@check
def captures_do_not_leak():
    a = torch.rand(1024, 512, device="cuda")
    b = torch.rand(512, 64, device="cuda")
    torch.mm(a, b)
    clean()
    before = torch.cuda.mem_get_info()[0]
    for _ in range(100):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.mm(a, b)
        graph.replay()
    del graph
    clean()
    expect(before - torch.cuda.mem_get_info()[0] < 100_000_000)


@check
def generators_and_graphs_give_back_all():
    def blocks():
        return stats("active.all.current"), stats("active_bytes.all.current")

    def work(graph):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            graph.capture_begin()
            torch.rand(1, device="cuda")
            graph.capture_end()
        torch.cuda.current_stream().wait_stream(stream)
        graph.replay()

    clean()
    before = blocks()
    graphs = [torch.cuda.CUDAGraph() for _ in range(3)]
    for graph in graphs:
        work(graph)
    expect(blocks()[0] > before[0])
    del graph
    graphs.clear()
    clean()
    expect_equal(blocks(), before)


@check
def graphed_callables_train():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(),
                                torch.nn.Linear(64, 8)).cuda()
    twin = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(),
                               torch.nn.Linear(64, 8)).cuda()
    twin.load_state_dict(model.state_dict())
    x = torch.randn(16, 64, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(model, (x,))
    for step in range(4):
        data = torch.randn(16, 64, device="cuda", requires_grad=True)
        graphed(data).square().mean().backward()
        twin(data.detach()).square().mean().backward()
        for p, q in zip(model.parameters(), twin.parameters()):
            expect(torch.allclose(p.grad, q.grad, atol=1e-5), "step", step)
            p.grad = q.grad = None


@check
def a_pool_of_the_users_own():
    if not hasattr(torch.cuda, "MemPool"):
        return
    pool = torch.cuda.MemPool()
    expect_equal(pool.use_count(), 1)
    with torch.cuda.use_mem_pool(pool):
        expect_equal(pool.use_count(), 2)
        x = torch.empty(5 * MIB, dtype=torch.uint8, device="cuda")
    expect_equal(pool.use_count(), 1)
    y = torch.empty(5 * MIB, dtype=torch.uint8, device="cuda")
    ranges = [(s["address"], s["address"] + s["total_size"])
              for s in segments_of(pool.id)]
    expect(any(a <= x.data_ptr() < b for a, b in ranges), "x is not in it")
    expect(not any(a <= y.data_ptr() < b for a, b in ranges), "y is in it")
    expect_equal(len(pool.snapshot()), len(ranges))
    name = pool.id
    del x, pool
    clean()
    expect_equal(segments_of(name), [])


SOURCE = """
#include <cuda_runtime_api.h>
static long taken, given;
extern "C" void *my_take(size_t n, int, void *) {
	void *p = nullptr;
	taken++;
	return cudaMalloc(&p, n) == cudaSuccess ? p : nullptr;
}
extern "C" void my_give(void *p, size_t, int, void *) {
	given++;
	cudaFree(p);
}
extern "C" long counts(int which) { return which ? given : taken; }
"""


@check
def a_pool_with_an_allocator_of_its_own():
    import ctypes
    import tempfile

    if not hasattr(torch.cuda, "MemPool"):
        return
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "own.so")
    with open(os.path.join(folder, "own.cpp"), "w") as file:
        file.write(SOURCE)
    cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    subprocess.run(["g++", "-shared", "-fPIC", "-o", path,
                    os.path.join(folder, "own.cpp"), f"-I{cuda}/include",
                    f"-L{cuda}/lib64", "-lcudart"], check=True)
    counts = ctypes.CDLL(path).counts
    own = torch.cuda.memory.CUDAPluggableAllocator(path, "my_take", "my_give")
    pool = torch.cuda.MemPool(own.allocator())
    with torch.cuda.use_mem_pool(pool):
        x = torch.empty(MIB, device="cuda")
        y = torch.empty(100, device="cuda")
    expect_equal(counts(0), 2)
    del x, y, pool
    clean()
    expect_equal(counts(1), 2)


@check
def a_pool_helps_when_memory_is_short():
    if not hasattr(torch.cuda, "MemPool"):
        return
    clean()
    try:
        pool = torch.cuda.MemPool(use_on_oom=True)
    except TypeError:
        return
    total = torch.cuda.get_device_properties(0).total_memory
    size = 200 * MIB
    with torch.cuda.use_mem_pool(pool):
        x = torch.empty(size, dtype=torch.uint8, device="cuda")
    ptr = x.data_ptr()
    del x
    torch.cuda.set_per_process_memory_fraction(
        (torch.cuda.memory_reserved() + 10 * MIB) / total)
    try:
        y = torch.empty(size, dtype=torch.uint8, device="cuda")
        expect_equal(y.data_ptr(), ptr)
        del y
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    del pool
    clean()


@check
def reduce_overhead_records_once():
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256)
                                  for _ in range(4)]).cuda()
    compiled = torch.compile(model, mode="reduce-overhead")
    x = torch.randn(64, 256, device="cuda")
    for _ in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        loss = compiled(x).square().mean()
        loss.backward()
        for p in model.parameters():
            p.grad = None
    expected = model(x).square().mean()
    expect(abs(float(loss.detach()) - float(expected.detach())) < 1e-3)
    from torch._inductor.cudagraph_trees import get_container

    manager = get_container(0).tree_manager
    if manager is not None:
        print("#   graphs recorded:", manager.new_graph_id().id, flush=True)


# ---- Checkpoints of a pool, as graph trees take them -------------------------


def states_of(pool):
    return [(s["address"], s["total_size"],
             [(b["size"], b["state"]) for b in s["blocks"]])
            for s in segments_of(pool)]


def int8(size):
    return torch.ones([size], device="cuda", dtype=torch.uint8)


def restore(device, state, stale, owners):
    torch._C._cuda_setCheckpointPoolState(
        device, state, [t.untyped_storage()._cdata for t in stale],
        [t.untyped_storage()._cdata for t in owners])


@check
def a_pool_is_restored():
    for work in (
            lambda: [int8(512) for _ in range(11)][5].add_(2),
            lambda: [int8(512) for _ in range(11)][5:9:3],
            lambda: [int8(2 * MIB), int8(12 * MIB), int8(512)],
            lambda: (int8(100) + int8(100), int8(MIB + 1))):
        graph, out = capture(work)
        pool = graph.pool()
        before = states_of(pool)
        state = torch._C._cuda_getCheckpointState(0, pool)
        restore(0, state, [], [])
        expect_equal(states_of(pool), before)
        del out
        graph.reset()
        clean()


@check
def what_a_restore_makes_live_is_freed_by_hand():
    graph, out = capture(lambda: (int8(512), int8(512)))
    pool = graph.pool()
    state = torch._C._cuda_getCheckpointState(0, pool)
    pointers = [t.data_ptr() for t in out]
    del out
    restore(0, state, [], [])
    expect_equal(live_blocks(pool), 2)
    torch._C._cuda_cudaCachingAllocator_raw_delete(pointers[0])
    expect_equal(live_blocks(pool), 1)
    torch._C._cuda_cudaCachingAllocator_raw_delete(pointers[1])
    expect_equal(live_blocks(pool), 0)
    graph.reset()


@check
def live_allocations_of_a_pool_are_checked():
    pool = torch.cuda.graph_pool_handle()
    graph, out = capture(lambda: torch.ones([4], device="cuda"), pool=pool)

    def same(pointers):
        return torch._C._cuda_checkPoolLiveAllocations(0, pool, pointers)

    expect(same({out.data_ptr()}))
    expect(not same({out.data_ptr(), 0}))
    expect(not same(set()))
    del out
    expect(same(set()))
    graph.reset()


@check
def a_stream_is_routed_to_a_pool():
    pool = torch.cuda.graph_pool_handle()
    graph, out = capture(lambda: torch.rand([4], device="cuda"), pool=pool)
    del out
    expect_equal(len(segments_of(pool)), 1)

    def three():
        a, b = int8(12 * MIB), int8(12 * MIB)
        return (a + b).sum()

    def routed():
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch._C._cuda_beginAllocateCurrentStreamToPool(0, pool)
            try:
                for _ in range(10):
                    three()
            finally:
                torch._C._cuda_endAllocateToPool(0, pool) if hasattr(
                    torch._C, "_cuda_endAllocateToPool") else \
                    torch._C._cuda_endAllocateCurrentStreamToPool(0, pool)
                torch._C._cuda_releasePool(0, pool)

    others = []

    def unrouted():
        for _ in range(10):
            others.append(int8(12 * MIB))

    threads = [threading.Thread(target=t) for t in (routed, unrouted)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    # The pool's first, and those of the three large tensors at least.
    ranges = [(s["address"], s["address"] + s["total_size"])
              for s in segments_of(pool)]
    expect(len(ranges) >= 4, ranges)
    for x in others:
        expect(not any(a <= x.data_ptr() < b for a, b in ranges))
    others.clear()
    graph.reset()
    del graph
    clean()
    expect_equal(len(segments_of(pool)), 0)


# ---- History and snapshots ---------------------------------------------------


def record(*args, **named):
    torch.cuda.memory._record_memory_history(*args, **named)


def snapshot():
    return torch.cuda.memory._snapshot()


@check
def stacks_are_pythons_and_cs():
    for context, stacks in (("all", "all"), ("all", "python"),
                            (None, "python")):
        try:
            torch.cuda.memory.empty_cache()
            record("all", context=context, stacks=stacks)
            x = torch.rand(128, 128, device="cuda")
            x * x + x * x
            text = json.dumps(snapshot())
            expect_equal("stacks_are_pythons_and_cs" in text,
                         context is not None)
            expect_equal("::rand" in text, stacks == "all")
            expect(str(128 * 128 * 4) in text)
        finally:
            record(None)


@check
def frees_have_stacks_as_asked():
    for context in ("alloc", "all", "state"):
        try:
            torch.cuda.memory.empty_cache()
            record(context=context)

            def the_alloc():  # a segment of its own, which goes back
                return torch.rand(8 * MIB, device="cuda")

            def the_free(x):
                x.untyped_storage().resize_(0)

            x = the_alloc()
            the_free(x)
            torch.cuda.memory.empty_cache()
            text = json.dumps(snapshot()["device_traces"])
            expect_equal("the_free" in text, context == "all", context)
            expect_equal("the_alloc" in text, context != "state", context)
            expect_equal("empty_cache" in text, context == "all", context)
        finally:
            record(None)


@check
def a_context_may_be_left_out():
    try:
        def first():
            return torch.rand(4, 4, device="cuda")

        def left_out():
            return torch.rand(3, 4, device="cuda")

        def last():
            return torch.rand(4, 4, device="cuda")

        record(context="all", stacks="python")
        x = first()
        record(context=None)
        x = left_out()
        record(context="all", stacks="python")
        x = last()
        text = json.dumps(snapshot())
        expect("in first" in text or '"first"' in text)
        expect('"left_out"' not in text)
        expect('"last"' in text)
        del x
    finally:
        record(None)


@check
def live_blocks_have_their_stack():
    try:
        torch.cuda.memory.empty_cache()
        record("state", stacks="python")
        x = torch.rand(311, 411, device="cuda")
        found = [b for s in snapshot()["segments"] for b in s["blocks"]
                 if b["requested_size"] == 311 * 411 * 4]
        expect_equal(len(found), 1)
        expect("live_blocks_have_their_stack" in str(found[0]["frames"]))
        del x
    finally:
        record(None)


@check
def a_dump_is_what_tools_read():
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "weir_dump.pickle")
    try:
        record(max_entries=1000)
        x = [torch.rand(1000, 100, device="cuda") for _ in range(10)]
        del x[::2]
        torch.cuda.memory._dump_snapshot(path)
        all_ = snapshot()
        actions = [e["action"] for e in all_["device_traces"][0]]
        expect("alloc" in actions and "free_completed" in actions)
        times = [e["time_us"] for e in all_["device_traces"][0]]
        expect(times == sorted(times), "times are not in order")
        expect(abs(times[-1] / 1e6 - __import__("time").time()) < 60)
        tool = os.path.join(os.path.dirname(torch.__file__), "cuda",
                            "_memory_viz.py")
        page = path + ".html"
        run = subprocess.run([sys.executable, tool, "trace_plot", path, "-o",
                              page], capture_output=True, text=True)
        expect_equal(run.returncode, 0, run.stderr[-500:])
        expect(os.path.getsize(page) > 1000)
        del x
    finally:
        record(None)


@check
def entries_carry_texts_and_are_skipped():
    try:
        if hasattr(torch.cuda.memory, "_set_memory_metadata"):
            torch.cuda.memory._set_memory_metadata("phase one")
        record(max_entries=100)
        torch.rand(10, 10, device="cuda")
        entry = [e for e in snapshot()["device_traces"][0]
                 if e["action"] == "alloc"][-1]
        if "user_metadata" in entry:
            expect_equal(entry["user_metadata"], "phase one")
            torch.cuda.memory._set_memory_metadata("")
        record(None)
        try:
            record(max_entries=100, skip_actions=["free_requested"])
        except TypeError:
            return
        torch.rand(10, 10, device="cuda")
        actions = [e["action"] for e in snapshot()["device_traces"][0]]
        expect("free_requested" not in actions and "free_completed" in actions)
    finally:
        record(None)


@check
def the_ring_keeps_the_latest():
    try:
        record(max_entries=10)
        for _ in range(50):
            torch.rand(10, device="cuda")
        expect_equal(len(snapshot()["device_traces"][0]), 10)
    finally:
        record(None)


@check
def segments_add_up():
    x = [torch.empty(n, dtype=torch.uint8, device="cuda")
         for n in (10, 1000, 100_000, 3 * MIB, 30 * MIB)]
    segments = torch.cuda.memory_snapshot()
    expect_equal(sum(s["total_size"] for s in segments),
                 torch.cuda.memory_reserved())
    expect_equal(sum(s["allocated_size"] for s in segments),
                 torch.cuda.memory_allocated())
    for s in segments:
        expect_equal(sum(b["size"] for b in s["blocks"]), s["total_size"])
    del x


# ---- Others ------------------------------------------------------------------


@check
def the_trace_of_allocations_is_reported():
    seen = []
    from torch.cuda import _gpu_trace

    torch._C._activate_gpu_trace()
    _gpu_trace.register_callback_for_memory_allocation(seen.append)
    _gpu_trace.register_callback_for_memory_deallocation(
        lambda ptr: seen.append(-ptr))
    x = torch.empty(10, 4, device="cuda")
    ptr = x.data_ptr()
    del x
    expect_equal(seen[-2:], [ptr, -ptr])


@check
def the_profiler_sees_memory():
    with torch.profiler.profile(profile_memory=True,
                                record_shapes=True) as profile:
        x = torch.rand(128, 128, device="cuda")
        (x * x + x * x).sum()
    table = profile.key_averages()
    expect(any(e.self_device_memory_usage > 0 for e in table),
           "no memory in the profile")


@check
def training_steps_agree_with_autocast():
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(),
                                torch.nn.Linear(2048, 512)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(20):
        x = torch.randn(256, 512, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss))
    expect(losses[-1] < losses[0], losses[0], losses[-1])


def _receive(queue, done):
    x = queue.get()
    x.add_(1)
    torch.cuda.synchronize()
    done.put(float(x.sum()))
    del x


@check
def a_tensor_is_shared_with_a_process():
    import torch.multiprocessing as mp

    context = mp.get_context("spawn")
    queue, done = context.Queue(), context.Queue()
    os.environ["WEIR_GPU_CHILD"] = "1"
    process = context.Process(target=_receive, args=(queue, done))
    process.start()
    x = torch.ones(1000, device="cuda")
    queue.put(x)
    expect_equal(done.get(timeout=60), 2000.0)
    process.join(60)
    expect_equal(float(x.sum()), 2000.0)


# ---- Two devices -------------------------------------------------------------


def check_with_two(function):
    """Mark a check that needs two devices."""
    return check(function) if torch.cuda.device_count() > 1 else function


@check_with_two
def tensors_are_copied_between_devices():
    for n in (1, 1000, 5 * MIB):
        x = torch.arange(n, device="cuda:0")
        y = x.to("cuda:1")
        expect_equal(y.get_device(), 1)
        expect(torch.equal(y.cpu(), x.cpu()), "there", n)
        expect(torch.equal((y + 1).to("cuda:0"), x + 1), "and back", n)
        # Not contiguous: a kernel reads the other device's memory.
        expect(torch.equal(x[::3].to("cuda:1").cpu(), x.cpu()[::3]), "parts", n)


@check_with_two
def copies_between_devices_are_in_order():
    here, there = torch.cuda.Stream(0), torch.cuda.Stream(1)
    for i in range(200):
        with torch.cuda.stream(here):
            x = torch.full((100_000 + i,), i, device="cuda:0")
        there.wait_stream(here)
        with torch.cuda.stream(there):
            y = torch.empty(x.shape, dtype=x.dtype, device="cuda:1")
            y.copy_(x, non_blocking=True)
            y += 1
        x.record_stream(here)
        here.wait_stream(there)
        del x
        if i % 20 == 0:
            there.synchronize()
            expect(bool((y == i + 1).all()), "round", i)
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)


@check_with_two
def each_device_counts_its_own():
    clean()
    before = [torch.cuda.memory_allocated(i) for i in (0, 1)]
    x = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda:1")
    expect_equal(torch.cuda.memory_allocated(0), before[0])
    expect_equal(torch.cuda.memory_allocated(1), before[1] + 3 * MIB)
    expect(torch.cuda.memory_reserved(1) >= 3 * MIB)
    ptr = x.data_ptr()
    with torch.cuda.device(0):
        del x  # freed with another device current
    expect_equal(torch.cuda.memory_allocated(1), before[1])
    x = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda:1")
    expect_equal(x.data_ptr(), ptr, "not reused")


@check_with_two
def a_shortage_is_of_one_device():
    torch.cuda.set_per_process_memory_fraction(0.01, 1)
    try:
        total = torch.cuda.get_device_properties(1).total_memory
        expect_raises(torch.OutOfMemoryError, "GPU 1", lambda: torch.empty(
            total // 20, dtype=torch.uint8, device="cuda:1"))
        x = torch.empty(total // 20, dtype=torch.uint8, device="cuda:0")
        expect_equal(x.fill_(3)[-1].item(), 3)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, 1)
    x = torch.empty(total // 20, dtype=torch.uint8, device="cuda:1")
    expect_equal(x.fill_(3)[-1].item(), 3)


@check_with_two
def each_device_has_its_history():
    try:
        record(max_entries=1000)
        x = torch.empty(777_777, dtype=torch.uint8, device="cuda:1")
        sizes = [[e["size"] for e in trace if e["action"] == "alloc"]
                 for trace in snapshot()["device_traces"]]
        expect_equal([777_777 in some for some in sizes], [False, True])
        expect_equal({s["device"] for s in snapshot()["segments"]
                      if s["address"] <= x.data_ptr() <
                      s["address"] + s["total_size"]}, {1})
    finally:
        record(None)


@check_with_two
def a_graph_and_a_pool_of_the_other_device():
    with torch.cuda.device(1):
        a = torch.zeros(1000, device="cuda")
        graph = torch.cuda.CUDAGraph()
        # PyTorch's own stream for captures is of the first device it captured on.
        with torch.cuda.graph(graph, stream=torch.cuda.Stream(1)):
            b = a + 1
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            c = torch.ones(MIB, device="cuda")
    a.fill_(5)
    with torch.cuda.device(1):
        graph.replay()
    expect_equal((b.get_device(), b.sum().item()), (1, 6000.0))
    expect_equal({s["device"] for s in pool.snapshot()}, {1})
    del a, b, c, graph, pool
    clean()


@check_with_two
def a_model_runs_on_both_devices():
    torch.manual_seed(1)
    model = torch.nn.Linear(64, 64).cuda()
    x = torch.randn(128, 64, device="cuda")
    expected = model(x)
    both = torch.nn.DataParallel(model, device_ids=[0, 1])
    for _ in range(20):
        model.zero_grad()
        y = both(x)
        y.sum().backward()
    expect(torch.allclose(y, expected, atol=1e-5), "another result")
    expect(bool(model.weight.grad.isfinite().all()))


def _receive_elsewhere(queue, done):
    torch.cuda.set_device(1)
    x = queue.get()
    y = x.to("cuda:1") + 1
    x.copy_(y)
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    done.put((x.get_device(), y.get_device(), float(y.sum())))
    del x


@check_with_two
def a_tensor_is_shared_with_a_process_on_the_other_device():
    import torch.multiprocessing as mp

    context = mp.get_context("spawn")
    queue, done = context.Queue(), context.Queue()
    process = context.Process(target=_receive_elsewhere, args=(queue, done))
    process.start()
    x = torch.ones(1000, device="cuda:0")
    queue.put(x)
    expect_equal(done.get(timeout=60), (0, 1, 2000.0))
    process.join(60)
    expect_equal(float(x.sum()), 2000.0)


# ---- Running -----------------------------------------------------------------


def main():
    names = [a for a in sys.argv[1:] if not a.startswith("--")]
    if "--list" in sys.argv:
        for function in CHECKS:
            print(function.__name__)
        return 0
    failed = 0
    for function in CHECKS:
        if names and function.__name__ not in names:
            continue
        try:
            function()
            print("PASS", function.__name__, flush=True)
        except Exception as error:
            failed += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            print(f"FAIL {function.__name__}: {type(error).__name__}: "
                  f"{str(error)[:300]} ({os.path.basename(where.filename)}:"
                  f"{where.lineno})", flush=True)
            record(None)
    print(f"# {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
