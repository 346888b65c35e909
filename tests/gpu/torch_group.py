"""A trainer and a server with bursts on one device, with PyTorch.

    torch_group.py MODE [BURSTS]      native, weir, alone

The trainer evaluates every EVERY steps with a batch that needs 20 GiB more than
its steps do. The server has little, until a burst comes, for which it needs 20 GiB
at once; then it frees them. Another process has all of the device but ROOM, where
both have their place, and one of them 20 GiB more. In mode weir both are one group; in mode native
PyTorch's allocators serve them; in mode alone, on weir, no burst comes. Prints how
many evaluations and bursts fail, how long their requests take, and the trainer's
steps: median, mean and the longest.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

GIB = 1 << 30
IDLE = 20 * GIB
SERVER = 4 * GIB
# The trainer's steps, the server without a burst, 20 GiB, and what the driver has
# for the two processes.
ROOM = 40 * GIB
EVERY = 20  # steps


def install(mode):
    if mode != "native":
        import weir.torch
        weir.torch.install()
    import torch
    return torch


class Taker:
    """Takes IDLE bytes, writes to all their parts and frees them; counts
    failures. It writes little, so as not to slow the other's work down."""

    def __init__(self, torch, name):
        self.torch, self.name, self.failed, self.times = torch, name, 0, []

    def take(self):
        began = time.perf_counter()
        try:
            block = self.torch.empty(IDLE, dtype=self.torch.uint8, device="cuda")
        except self.torch.OutOfMemoryError:
            self.failed += 1
            return
        self.times.append(1000 * (time.perf_counter() - began))
        block[::1 << 20].fill_(2)
        self.torch.cuda.synchronize()

    def __str__(self):
        text = f"{len(self.times) + self.failed} {self.name}, " \
            f"{self.failed} failed"
        if self.times:
            text += f", request median {statistics.median(self.times):.1f} ms," \
                f" longest {max(self.times):.1f} ms"
        return text


def trainer(mode, seconds):
    torch = install(mode)
    model = torch.nn.Sequential(*(
        torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.GELU())
        for _ in range(24))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(4096, 4096, device="cuda")

    def step():
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    evaluations = Taker(torch, "evaluations")
    for _ in range(3):
        step()
    evaluations.take()
    torch.cuda.synchronize()
    print("ready", flush=True)
    sys.stdin.readline()
    times, end = [], time.perf_counter() + float(seconds)
    while time.perf_counter() < end:
        for _ in range(EVERY):
            began = time.perf_counter()
            step()
            torch.cuda.synchronize()
            times.append(1000 * (time.perf_counter() - began))
        evaluations.take()
    print(f"{len(times)} steps, median {statistics.median(times):.3f} ms,"
          f" mean {statistics.fmean(times):.3f} ms,"
          f" longest {max(times):.3f} ms; {evaluations}", flush=True)


def server(mode, bursts):
    torch = install(mode)
    base = torch.empty(SERVER, dtype=torch.uint8, device="cuda")
    base.fill_(1)
    torch.cuda.synchronize()
    print("ready", flush=True)
    sys.stdin.readline()
    taker = Taker(torch, "bursts")
    for _ in range(int(bursts)):
        time.sleep(0.5)
        taker.take()
    print(taker, flush=True)


def start(*arguments):
    process = subprocess.Popen([sys.executable, __file__, *arguments],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
    if process.stdout.readline() != "ready\n":
        sys.exit(f"{arguments[0]} has failed")
    return process


def go(process):
    process.stdin.write("go\n")
    process.stdin.flush()


def main():
    mode = sys.argv[1]
    bursts = sys.argv[2] if len(sys.argv) > 2 else "10"
    seconds = str(0.6 * int(bursts) + 3)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ["WEIR_CONF"] = (
            f"group:device,group_folder:{folder},group_guarantee_mb:4096,"
            "wait_ms:2000,decay_ms:600000")
        import torch
        free, total = torch.cuda.mem_get_info()
        beside = torch.empty(free - ROOM, dtype=torch.uint8, device="cuda")
        first = start("trainer", mode, seconds)
        second = start("server", mode, bursts)
        free, _ = torch.cuda.mem_get_info()
        print(f"others have {beside.numel() / GIB:.1f} GiB, free are "
              f"{free / GIB:.1f} of {total / GIB:.1f} GiB", flush=True)
        go(first)
        if mode != "alone":
            go(second)
        for name, process in (("trainer", first), ("server", second)):
            if mode != "alone" or name == "trainer":
                print(f"{name}: {process.stdout.readline().strip()}", flush=True)
        first.wait()
        second.kill()


if __name__ == "__main__":
    {"trainer": trainer, "server": server}.get(
        sys.argv[1], lambda *_: main())(*sys.argv[2:])
