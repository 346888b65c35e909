"""How fast copies between page-locked memory and the device are.

    torch_copies.py native|weir

weir is weir.torch.install(). Prints GB/s for blocks of several sizes in both
directions, the best of ten copies. Blocks above 8 MiB lie in several handles.
"""

import sys

import torch

MIB = 1 << 20


def best_gbps(to, source):
    best = 0.0
    for _ in range(10):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        to.copy_(source, non_blocking=True)
        end.record()
        end.synchronize()
        best = max(best, source.numel() / begin.elapsed_time(end) / 1e6)
    return best


def main():
    mode = sys.argv[1]
    if mode == "weir":
        import weir.torch

        weir.torch.install()
    for size in (1, 8, 64, 1024):
        device = torch.empty(size * MIB, dtype=torch.uint8, device="cuda")
        host = torch.ones(size * MIB, dtype=torch.uint8).pin_memory()
        print(f"{mode}: {size} MiB, to the device "
              f"{best_gbps(device, host):.2f}, to the host "
              f"{best_gbps(host, device):.2f} GB/s", flush=True)


main()
