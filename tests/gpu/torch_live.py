"""Measures from outside how much device memory live PyTorch programs hold.

    torch_live.py [--steps=N] [MODE...]
                                   native, expandable, async, weir, prefer, run,
                                   run-async

weir is weir.torch.install(), prefer the same with prefer:memory, run is
`weir run --torch`, async PyTorch's backend cudaMallocAsync, and run-async that
under `weir run`.
Two programs, each in a process of its own for each mode: one that offloads
activations to page-locked memory on a side stream, one that gathers sharded
parameters on three streams. Prints the most live bytes, the most used of the
device beyond the context, the time of the steps (12, the first two not timed),
and how many of a step's blocks had another address than in the step before, in
the second half of the steps.
"""

import ctypes
import os
import subprocess
import sys
import threading
import time

GB = 1e9


# ---- The programs ------------------------------------------------------------

# Where the blocks of the step under way lie, in the order of their requests.
addresses = []


def offload(torch, steps):
    """Forward: each activation is copied to the host behind the compute stream
    and dropped. Backward: they come back in time."""
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    sizes = [(96 + 37 * i % 160) * (1 << 20) // 2 for i in range(24)]
    host = [torch.empty(n, dtype=torch.bfloat16, pin_memory=True)
            for n in sizes]
    weight = torch.randn(3 << 28, device="cuda", dtype=torch.bfloat16)

    def compute(x):
        for _ in range(6):
            x = x * 1.0001
        return x

    for _ in range(steps):
        for i, n in enumerate(sizes):
            x = compute(weight[:n] + 1)
            addresses.append(x.data_ptr())
            side.wait_stream(main)
            with torch.cuda.stream(side):
                host[i].copy_(x, non_blocking=True)
            x.record_stream(side)
            del x
        for i in reversed(range(len(sizes))):
            with torch.cuda.stream(side):
                back = torch.empty(sizes[i], dtype=torch.bfloat16,
                                   device="cuda")
                back.copy_(host[i], non_blocking=True)
            main.wait_stream(side)
            back.record_stream(main)
            grad = compute(back)
            grad = compute(grad * back)
            addresses.extend([back.data_ptr(), grad.data_ptr()])
            del back, grad
        yield


def sharded(torch, steps):
    """Parameters are gathered on one stream, used on another, and their
    gradients reduced on a third."""
    main = torch.cuda.current_stream()
    gather, reduce = torch.cuda.Stream(), torch.cuda.Stream()
    sizes = [(24 + 29 * i % 72) * (1 << 20) for i in range(32)]
    shards = [torch.randn(n // 8, device="cuda", dtype=torch.bfloat16)
              for n in sizes]
    done = [torch.zeros_like(s) for s in shards]

    def full_of(i):
        gather.wait_stream(main)
        with torch.cuda.stream(gather):
            full = torch.empty(sizes[i], device="cuda", dtype=torch.bfloat16)
            full.view(8, -1).copy_(shards[i].expand(8, -1))
        return full

    for _ in range(steps):
        for order in (range(len(sizes)), reversed(range(len(sizes)))):
            order = list(order)
            ahead = full_of(order[0])
            for k, i in enumerate(order):
                full = ahead
                main.wait_stream(gather)
                if k + 1 < len(order):
                    ahead = full_of(order[k + 1])
                out = full
                for _ in range(4):
                    out = out * 1.001
                addresses.extend([full.data_ptr(), out.data_ptr()])
                full.record_stream(main)
                reduce.wait_stream(main)
                with torch.cuda.stream(reduce):
                    done[i].add_(out.view(8, -1).sum(0))
                out.record_stream(reduce)
                del full, out
        yield


PROGRAMS = {"offload": offload, "sharded": sharded}


def moved(rounds):
    """The share of the blocks with another address than in the round before."""
    pairs = [(a, b) for before, now in zip(rounds, rounds[1:])
             for a, b in zip(before, now)]
    return sum(a != b for a, b in pairs) / max(1, len(pairs))


def child(mode, name, count):
    if mode in ("weir", "prefer"):
        import weir.torch

        weir.torch.install()
    import torch

    torch.cuda.init()
    torch.empty(1, device="cuda")
    torch.cuda.synchronize()
    print("ready", flush=True)
    sys.stdin.readline()
    steps = PROGRAMS[name](torch, count)
    next(steps)
    next(steps)
    torch.cuda.synchronize()
    addresses.clear()
    rounds = []
    begin = time.perf_counter()
    for _ in steps:
        rounds.append(addresses[:])
        addresses.clear()
    torch.cuda.synchronize()
    took = (time.perf_counter() - begin) / len(rounds)
    live = torch.cuda.max_memory_allocated()
    active = torch.cuda.memory_stats()["active_bytes.all.peak"]
    held = torch.cuda.max_memory_reserved()
    print(live, active, held, took, moved(rounds[len(rounds) // 2:]),
          flush=True)


# ---- Looking from outside ----------------------------------------------------


class MemoryInfo(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


def device():
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    nvml.nvmlInit_v2()
    handle = ctypes.c_void_p()
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))

    def used():
        info = MemoryInfo()
        nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(info))
        return info.used

    return used


def run(mode, name, steps, used):
    env = dict(os.environ)
    env.pop("PYTORCH_CUDA_ALLOC_CONF", None)
    command = [sys.executable, os.path.abspath(__file__), "--child", mode,
               name, str(steps)]
    if mode == "expandable":
        env["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    if mode == "prefer":
        env["WEIR_CONF"] = "prefer:memory"
    if mode.endswith("async"):
        env["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"
    if mode.startswith("run"):
        how = ["--torch"] if mode == "run" else []
        command = [os.environ.get("WEIR", "weir"), "run", "--quiet", *how,
                   "--"] + command
    process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    if process.stdout.readline().strip() != "ready":
        print(f"FAIL {name} {mode}: it did not begin", flush=True)
        process.kill()
        return
    base = peak = used()
    over = threading.Event()

    def sample():
        nonlocal peak
        while not over.is_set():
            peak = max(peak, used())
            time.sleep(0.002)

    sampler = threading.Thread(target=sample)
    sampler.start()
    process.stdin.write("go\n")
    process.stdin.flush()
    try:
        words = process.stdout.readline().split()
        process.wait(60 + steps)
    except subprocess.TimeoutExpired:
        process.kill()
        words = []
    over.set()
    sampler.join()
    if len(words) != 5:
        print(f"FAIL {name} {mode}: it ended early", flush=True)
        return
    live, active, held, took, share = map(float, words)
    print(f"{name:8} {mode:10} live {live / GB:6.2f} GB, active "
          f"{active / GB:6.2f}, held {held / GB:6.2f}, used "
          f"{(peak - base) / GB:6.2f} GB ({(peak - base) / live:.2f}x live), "
          f"{took * 1e3:7.1f} ms a step, {100 * share:5.1f} % moved",
          flush=True)


def main():
    arguments = sys.argv[1:]
    steps = 12
    if arguments[:1] == ["--child"]:
        child(arguments[1], arguments[2], int(arguments[3]))
        return
    if arguments and arguments[0].startswith("--steps="):
        steps = int(arguments.pop(0).partition("=")[2])
    used = device()
    for name in PROGRAMS:
        for mode in arguments or ["native", "expandable", "weir"]:
            run(mode, name, steps, used)


main()
