"""Ranks that sleep and wake between reductions by NCCL, with PyTorch.

    nccl_sleep.py [CYCLES]                          natively, no rank sleeps
    weir run --torch --may-sleep -- nccl_sleep.py [CYCLES]

Needs two GPUs, one a rank. Each cycle trains a step with DDP, reduces and gathers
a tensor, and replays a graph in which a reduction was captured. Under weir all
ranks then sleep and wake. Prints a digest of all that was computed, which must be
the same in both, and to stderr how long sleeping and waking take and what stays
on the device meanwhile, by reason.
"""

import hashlib
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

CYCLES = 10
WIDTH = 2048


def weir_of_this_process():
    """The package, if weir is there (weir run)."""
    if "libweir" not in os.environ.get("LD_PRELOAD", ""):
        return None
    import weir
    return weir


class Rank:
    def __init__(self, rank, world):
        torch.manual_seed(1)
        self.rank, self.world = rank, world
        self.quiet = dist.new_group(backend="gloo")
        self.model = torch.nn.parallel.DistributedDataParallel(
            torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH)
                                  for _ in range(8)]).cuda(),
            device_ids=[rank])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.captured = torch.zeros(1 << 20, device="cuda")
        dist.all_reduce(self.captured)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            dist.all_reduce(self.captured)
        self.digest = hashlib.sha256()

    def add(self, tensor):
        self.digest.update(tensor.detach().cpu().numpy().tobytes())

    def step(self, cycle):
        x = torch.full((256, WIDTH), self.rank + cycle / 8, device="cuda")
        self.model(x).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.add(self.model.module[0].weight)
        tensor = torch.arange((cycle + 1) * 50_000, device="cuda")
        tensor = tensor % (7 + self.rank + cycle)
        dist.all_reduce(tensor)
        parts = [torch.empty_like(tensor) for _ in range(self.world)]
        dist.all_gather(parts, tensor + self.rank)
        self.captured.fill_(self.rank + cycle)
        self.graph.replay()
        self.add(torch.cat(parts))
        self.add(self.captured)

    def rest(self, weir):
        """Gives the seconds of sleep and of wake, and what stays, by reason."""
        torch.cuda.synchronize()
        dist.barrier(group=self.quiet)
        began = time.perf_counter()
        found = weir.sleep()
        slept = time.perf_counter()
        dist.barrier(group=self.quiet)
        woke = time.perf_counter()
        weir.wake()
        after = time.perf_counter()
        dist.barrier(group=self.quiet)
        return slept - began, after - woke, found


def work(rank, world, cycles, results):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29541")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    me, weir = Rank(rank, world), weir_of_this_process()
    for cycle in range(cycles):
        me.step(cycle)
        if weir is None:
            continue
        sleep, wake, found = me.rest(weir)
        if cycle in (0, cycles - 1):
            print(f"rank {rank}: asleep in {sleep:.3f} s, awake in {wake:.3f} s,"
                  f" {found}", file=sys.stderr, flush=True)
    me.step(cycles)
    results[rank] = me.digest.hexdigest()
    if weir is not None:
        assert weir.check() == []
    del me.graph
    dist.destroy_process_group()


def main():
    world = torch.cuda.device_count()
    if world < 2:
        sys.exit("nccl_sleep.py: needs two GPUs")
    cycles = int(sys.argv[1]) if len(sys.argv) > 1 else CYCLES
    with mp.Manager() as manager:
        results = manager.dict()
        mp.spawn(work, (world, cycles, results), nprocs=world)
        if len(set(results.values())) != 1:
            sys.exit("nccl_sleep.py: the ranks differ")
        print(world, results[0], flush=True)


if __name__ == "__main__":
    main()
