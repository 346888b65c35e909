"""A small PyTorch training loop that prints what it computed, to the last bit.

Run it bare and under weir with PyTorch's own caching off; the lines must be
equal:

    export CUBLAS_WORKSPACE_CONFIG=:4096:8 PYTORCH_NO_CUDA_MEMORY_CACHING=1
    python3 tests/gpu/torch_train.py
    weir run -- python3 tests/gpu/torch_train.py

Batches vary in size, and a side stream reads each one after record_stream().
The time is printed to stderr.
"""

import hashlib
import json
import sys
import time

import torch

STEPS = 60


def network():
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * 16 * 16, 256), nn.ReLU(),
        nn.Linear(256, 10))


def main():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    start = time.time()
    net = network().cuda()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    loss_of = torch.nn.CrossEntropyLoss()
    random = torch.Generator().manual_seed(1)
    side = torch.cuda.Stream()
    seen = []
    for _ in range(STEPS):
        n = int(torch.randint(16, 257, (1,), generator=random))
        x = torch.randn(n, 3, 32, 32, generator=random).cuda()
        y = torch.randint(0, 10, (n,), generator=random).cuda()
        loss = loss_of(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.cuda.stream(side):
            side.wait_stream(torch.cuda.current_stream())
            total = (x * 2).sum()
            x.record_stream(side)
        seen += [loss.item(), total.item()]
    torch.cuda.synchronize()
    weights = b"".join(p.detach().cpu().numpy().tobytes()
                       for p in net.parameters())
    print(json.dumps({"first": seen[0], "last": seen[-2], "sum": sum(seen),
                      "weights": hashlib.sha256(weights).hexdigest()}))
    print(f"{time.time() - start:.2f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
