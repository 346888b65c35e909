"""Trains with DDP and FSDP2 and registers memory with NCCL, on weir or on PyTorch's
own allocator.

    torchrun --nproc-per-node 2 tests/gpu/torch_distributed.py [--native] [DIR]

Rank 0 prints a line a part: the last loss to its last bit, the time, and what
each rank had live and held at most. With DIR each rank writes its snapshot
there, as rank0.pickle and so on, for `weir merge`.
"""

import os
import sys
import time

NATIVE = "--native" in sys.argv
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
if not NATIVE:
    import weir.torch

    weir.torch.install()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

WIDTH, DEPTH, STEPS = 2048, 12, 12


def network():
    torch.manual_seed(2)
    return torch.nn.Sequential(*[torch.nn.Sequential(
        torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 4 * WIDTH),
        torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH))
        for _ in range(DEPTH)]).cuda()


def train(model, rank):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    generator = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        rows = 1024 + 512 * (step % 3)
        x = torch.randn(rows, WIDTH, generator=generator).cuda()
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    dist.all_reduce(loss, op=dist.ReduceOp.AVG)
    return float(loss)


def ddp(rank):
    model = torch.nn.parallel.DistributedDataParallel(
        network(), device_ids=[rank])
    return train(model, rank)


def fsdp(rank):
    from torch.distributed.fsdp import fully_shard

    model = network()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    return train(model, rank)


def registered(rank):
    """Reduce memory of a MemPool that NCCL has registered, as gradients would be."""
    backend = dist.group.WORLD._get_backend(torch.device("cuda"))
    pool = torch.cuda.MemPool()
    reduce_in(pool, backend, rank)
    return 0.0


def registered_of_nccl(rank):
    """Do so with memory that NCCL allocates, which it does not on every GPU."""
    backend = dist.group.WORLD._get_backend(torch.device("cuda"))
    pool = torch.cuda.MemPool(backend.mem_allocator)
    reduce_in(pool, backend, rank)
    return 0.0


def reduce_in(pool, backend, rank):
    with torch.cuda.use_mem_pool(pool):
        x = torch.full((8 << 20,), rank + 1.0, device="cuda")
    backend.register_mem_pool(pool)
    dist.all_reduce(x)
    torch.cuda.synchronize()
    world = dist.get_world_size()
    assert bool((x == world * (world + 1) / 2).all()), "a wrong sum"
    backend.deregister_mem_pool(pool)


def run(part, rank):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    try:
        loss = part(rank).hex()
    except Exception as error:
        loss = f"FAIL {type(error).__name__}: {str(error)[:300]}"
    torch.cuda.synchronize()
    took = time.perf_counter() - begin
    mine = (torch.cuda.max_memory_allocated() / 1e6,
            torch.cuda.max_memory_reserved() / 1e6)
    all_of = [None] * dist.get_world_size()
    dist.all_gather_object(all_of, mine)
    if rank == 0:
        what = "native" if NATIVE else "weir"
        ranks = ", ".join(f"live {a:.0f} held {b:.0f} MB" for a, b in all_of)
        print(f"{what:7} {part.__name__:18} {loss} {took:6.2f} s; {ranks}",
              flush=True)


def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    folders = [a for a in sys.argv[1:] if not a.startswith("--")]
    if folders:
        torch.cuda.memory._record_memory_history(max_entries=20000)
    for part in (ddp, fsdp, registered, registered_of_nccl):
        run(part, rank)
    if folders:
        torch.cuda.memory._dump_snapshot(
            os.path.join(folders[0], f"rank{rank}.pickle"))
    dist.barrier()
    dist.destroy_process_group()


main()
