"""Triton kernels over tensors of many sizes; prints what was computed.

Run it with PYTORCH_NO_CUDA_MEMORY_CACHING=1, so that each tensor is an
allocation of the driver. The line printed bare and under weir must be equal:
all arithmetic is of integers. The time is printed to stderr.
"""

import hashlib
import sys
import time

import torch
import triton
import triton.language as tl

ROUNDS = 100


@triton.jit
def mix(x, y, out, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(x + at, mask=inside)
    b = tl.load(y + at, mask=inside)
    tl.store(out + at, a * factor + b, mask=inside)


def main():
    start = time.time()
    random = torch.Generator().manual_seed(9)
    side = torch.cuda.Stream()
    digest = hashlib.sha256()
    kept = []
    for i in range(ROUNDS):
        n = int(torch.randint(1, 1_000_000, (1,), generator=random))
        x = torch.arange(n, device="cuda")
        y = torch.randint(0, 1000, (n,), generator=random).cuda()
        out = torch.empty_like(x)
        mix[(triton.cdiv(n, 1024),)](x, y, out, n, i, BLOCK=1024)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            twice = out * 2
            out.record_stream(side)
        kept.append(twice)
        if len(kept) > 5:
            torch.cuda.current_stream().wait_stream(side)
            digest.update(kept.pop(0).cpu().numpy().tobytes())
    torch.cuda.synchronize()
    for tensor in kept:
        digest.update(tensor.cpu().numpy().tobytes())
    print(digest.hexdigest())
    print(f"{time.time() - start:.2f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
