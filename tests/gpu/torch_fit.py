"""weir.torch.fit() against PyTorch's own counts: a small training is recorded at
two batches, and asked at one four times larger, which is run too.

    torch_fit.py

Prints both peaks, and fails if they differ by more than 4 % (live) or 6 %
(held).
"""

import sys

import torch
import torch.nn as nn

import weir.torch

DEVICE = "cuda"
LARGE = 256


def trainer():
    model = nn.Sequential(*(nn.Sequential(nn.Linear(2048, 2048), nn.GELU())
                            for _ in range(8))).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())

    def step(batch):
        x = torch.randn(batch * 64, 2048, device=DEVICE)
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def main():
    step = trainer()
    step(batch=8)  # the optimiser's state is there in all recordings
    found = weir.torch.fit(step, batch=[16, 64], ask=LARGE,
                           allocators=["torch"])
    print(found)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        step(batch=LARGE)
    torch.cuda.synchronize()
    live = torch.cuda.max_memory_allocated()
    held = torch.cuda.max_memory_reserved()
    row = found.allocators["torch"]
    print(f"PyTorch: {live} live, {held} held; forecast: "
          f"{row['peak_allocated_bytes']} and {row['peak_held_bytes']}")
    if (abs(row["peak_allocated_bytes"] - live) > 0.04 * live or
            abs(row["peak_held_bytes"] - held) > 0.06 * held):
        sys.exit("the forecast is off")


if __name__ == "__main__":
    main()
