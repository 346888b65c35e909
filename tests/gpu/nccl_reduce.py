"""An all-reduce by NCCL over all GPUs of the machine, one process for each.

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 python3 tests/gpu/nccl_reduce.py

Needs two GPUs. The line printed bare and under weir must be equal: the sums are
of small integers. The time is printed to stderr.
"""

import hashlib
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

ROUNDS = 30


def work(rank, world, results):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29533")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    digest = hashlib.sha256()
    for i in range(ROUNDS):
        tensor = torch.arange((i + 1) * 50_000, device="cuda") % (7 + rank + i)
        dist.all_reduce(tensor)
        parts = [torch.empty_like(tensor) for _ in range(world)]
        dist.all_gather(parts, tensor + rank)
        digest.update(torch.cat(parts).cpu().numpy().tobytes())
    dist.destroy_process_group()
    results[rank] = digest.hexdigest()


def main():
    world = torch.cuda.device_count()
    if world < 2:
        sys.exit("nccl_reduce.py: needs two GPUs")
    start = time.time()
    with mp.Manager() as manager:
        results = manager.dict()
        mp.spawn(work, (world, results), nprocs=world)
        if len(set(results.values())) != 1:
            sys.exit("nccl_reduce.py: the ranks differ")
        print(world, results[0])
    print(f"{time.time() - start:.2f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
