"""Trains one model in each of PyTorch's modes, on weir or on its own allocator.

    torch_modes.py [--native] [MODE...]    eager, amp, compile, overhead, graphed

One line a mode: the last loss to its last bit, milliseconds a step, the most
memory that was live and held, and, for reduce-overhead, how often CUDA graphs
were recorded and warmed up, which must not be more often than natively: the
addresses of a step's memory have to be the same in the next one.
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

STEPS = 40
SHAPES = ((32, 128), (16, 128), (32, 64))


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.mix = torch.nn.MultiheadAttention(width, 8, batch_first=True)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm(x)
        x = x + self.mix(y, y, y, need_weights=False)[0]
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def network(depth=4, width=512):
    torch.manual_seed(11)
    return torch.nn.Sequential(*[Block(width) for _ in range(depth)]).cuda()


def recorded(counts):
    """Count the recordings and warm-ups of CUDA-graph trees."""
    from torch._inductor import cudagraph_trees as trees

    manager = trees.CUDAGraphTreeManager
    for name in ("record_function", "run_eager", "execute_node"):
        before = getattr(manager, name)

        def counted(self, *args, _name=name, _before=before, **named):
            counts[_name] = counts.get(_name, 0) + 1
            return _before(self, *args, **named)

        setattr(manager, name, counted)


def train(model, forward, amp, mark):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    generator = torch.Generator().manual_seed(5)
    loss = None
    times = []
    for step in range(STEPS):
        batch, length = SHAPES[step % len(SHAPES) if step < 12 else 0]
        x = torch.randn(batch, length, 512, generator=generator).cuda()
        begin = time.perf_counter()
        if mark:
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
            loss = (forward(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return float(loss.detach()), sorted(times[12:])[len(times[12:]) // 2] * 1e3


def run(mode):
    model = network()
    counts = {}
    forward = model
    if mode == "compile":
        forward = torch.compile(model, dynamic=False)
    elif mode == "overhead":
        recorded(counts)
        forward = torch.compile(model, dynamic=False, mode="reduce-overhead")
    elif mode == "graphed":
        sample = torch.randn(*SHAPES[0], 512, device="cuda")
        whole = model.forward
        graphed = torch.cuda.make_graphed_callables(model, (sample,))

        def forward(x):
            return (graphed if x.shape == sample.shape else whole)(x)
    torch.cuda.reset_peak_memory_stats()
    loss, ms = train(model, forward, mode == "amp",
                     mode == "overhead")
    print(f"{'native' if NATIVE else 'weir':7} {mode:9} loss {loss.hex()} "
          f"{ms:7.2f} ms a step, live "
          f"{torch.cuda.max_memory_allocated() / 1e6:8.1f} MB, held "
          f"{torch.cuda.max_memory_reserved() / 1e6:8.1f} MB {counts or ''}",
          flush=True)


def main():
    modes = [a for a in sys.argv[1:] if not a.startswith("--")]
    for mode in modes or ("eager", "amp", "compile", "overhead", "graphed"):
        try:
            run(mode)
        except Exception as error:
            print(f"FAIL {mode}: {type(error).__name__}: {str(error)[:300]}",
                  flush=True)
        torch._dynamo.reset()


main()
