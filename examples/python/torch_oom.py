"""PyTorch on weir: a training loop that runs out of memory, and the cause.

    python3 torch_oom.py out.pickle
    weir oom out.pickle
    weir view out.pickle -o page.html

weir becomes PyTorch's allocator before CUDA is used. PyTorch's own calls for
memory history, limits and snapshots work as before.
"""

import sys

import weir.torch

weir.torch.install()

import torch  # noqa: E402


def train(model, steps, kept):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        batch = torch.randn(256, 1024, device="cuda")
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(model(batch))  # the mistake: it keeps each graph alive


def main(path):
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, (256 << 20) / total))
    torch.cuda.memory._record_memory_history()
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(),
                                torch.nn.Linear(4096, 1024)).cuda()
    try:
        train(model, 1000, [])
    except torch.cuda.OutOfMemoryError:
        torch.cuda.memory._dump_snapshot(path)
        print(f"out of memory; the snapshot is {path}")
    print(f"PyTorch's allocator: {weir.torch.installed()}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "snapshot.pickle")
