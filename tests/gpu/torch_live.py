"""Measures from outside how much device memory live PyTorch programs hold.

    torch_live.py [--steps=N] [--programs=NAME,...] [MODE...]
                                   native, expandable, async, weir, prefer, run,
                                   run-async, plan

weir is weir.torch.install(), prefer the same with prefer:memory, run is
`weir run --torch`, async PyTorch's backend cudaMallocAsync, and run-async that
under `weir run`. plan is run with what `weir plan` makes of a recording of
such a run.
Three programs, each in a process of its own for each mode: one that offloads
activations to page-locked memory on a side stream, one that gathers sharded
parameters on three streams, and one whose layers are compiled and replayed as
graphs. With --programs others, too: transformer, checkpointed (its activations,
with two parts of a batch), evaluated (at its end, with twice the batch), and
convolution. Prints the most live bytes, the most used of the device beyond the
context, the mean time of the steps (12; the first ones, which warm up, are not
timed) and the longest one, and how many of a step's blocks had another address
than in the step before: in the second half of the steps, and from the second
step on; and the last step, from 1 on, in which one had. Of modes under `weir
run` also what its report counts: waits inside streams, waits of the host, calls
that map, and requests that got their place of a plan.
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

GB = 1e9
COMPILE_SECONDS = 120


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


def compiled(torch, steps):
    """Layers are replayed as graphs. What goes in, and the errors of what comes
    out, are made by the program."""
    layers = torch.nn.Sequential(*[
        part for _ in range(8)
        for part in (torch.nn.Linear(4096, 4096), torch.nn.GELU())])
    layers = layers.cuda().bfloat16()
    swift = torch.compile(layers, mode="reduce-overhead")
    optimizer = torch.optim.SGD(layers.parameters(), lr=1e-4, foreach=False)
    for _ in range(steps):
        torch.compiler.cudagraph_mark_step_begin()
        x = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
        target = torch.randn_like(x)
        error = (swift(x) - target).float()
        error.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        addresses.extend([x.data_ptr(), target.data_ptr(), error.data_ptr()])
        del x, target, error
        yield


def watch(torch, model):
    """Note where the results of its layers lie."""
    def note(_layer, _inputs, result):
        if torch.is_tensor(result):
            addresses.append(result.data_ptr())

    for module in model.modules():
        if not list(module.children()):
            module.register_forward_hook(note)


WIDTH = 1024
HEAD = 64
LENGTH = 1024
WORDS = 32000


def layer_of(torch):
    nn = torch.nn

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.before = nn.LayerNorm(WIDTH)
            self.take = nn.Linear(WIDTH, 3 * WIDTH)
            self.give = nn.Linear(WIDTH, WIDTH)
            self.between = nn.LayerNorm(WIDTH)
            self.widen = nn.Linear(WIDTH, 4 * WIDTH)
            self.act = nn.GELU()
            self.narrow = nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            batch, length, _ = x.shape
            heads = self.take(self.before(x)).view(
                batch, length, 3, WIDTH // HEAD, HEAD)
            query, key, value = heads.permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(
                query, key, value, is_causal=True)
            x = x + self.give(seen.transpose(1, 2).reshape(x.shape))
            return x + self.narrow(self.act(self.widen(self.between(x))))

    return Layer()


def transformer(torch, steps, checkpointed=False, parts=1, evaluations=0):
    """Batches come on a side stream. It may keep the inputs of its layers only,
    add up the gradients of some batches, and end with evaluations."""
    from torch.utils.checkpoint import checkpoint

    nn = torch.nn
    layers = nn.ModuleList([layer_of(torch) for _ in range(12)])
    model = nn.ModuleList([nn.Embedding(WORDS, WIDTH), layers,
                           nn.Linear(WIDTH, WORDS)]).cuda().bfloat16()
    watch(torch, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    data = [torch.randint(0, WORDS, (8, LENGTH)).pin_memory()
            for _ in range(4)]

    def forward(x):
        y = model[0](x)
        for layer in layers:
            y = (checkpoint(layer, y, use_reentrant=False) if checkpointed
                 else layer(y))
        return model[2](y)

    for step in range(steps):
        for part in range(parts):
            with torch.cuda.stream(side):
                x = data[(step + part) % 4].cuda(non_blocking=True)
            main.wait_stream(side)
            x.record_stream(main)
            out = forward(x)
            nn.functional.cross_entropy(out.view(-1, WORDS),
                                        x.view(-1)).backward()
            del out
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield
    for _ in range(evaluations):
        with torch.no_grad():
            x = torch.randint(0, WORDS, (16, LENGTH), device="cuda")
            out = forward(x).float()
            nn.functional.cross_entropy(out.view(-1, WORDS),
                                        x.view(-1)).item()
            del out


def convolution(torch, steps):
    """Each input is made before the last one is dropped."""
    nn = torch.nn

    def layer(before, after, stride):
        return nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after), nn.ReLU())

    model = nn.Sequential(
        layer(3, 64, 1), layer(64, 64, 1), layer(64, 128, 2),
        layer(128, 128, 1), layer(128, 256, 2), layer(256, 256, 1),
        layer(256, 512, 2), layer(512, 512, 1), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(512, 1000)).cuda()
    watch(torch, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    for _ in range(steps):
        x = torch.randn(128, 3, 112, 112, device="cuda")
        kinds = torch.randint(0, 1000, (128,), device="cuda")
        nn.functional.cross_entropy(model(x), kinds).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield


# Each with the steps that warm it up.
PROGRAMS = {"offload": (offload, 2), "sharded": (sharded, 2),
            "compiled": (compiled, 5)}
OTHERS = {
    "transformer": (transformer, 3),
    "checkpointed": (lambda torch, steps: transformer(
        torch, steps, checkpointed=True, parts=2), 3),
    "evaluated": (lambda torch, steps: transformer(
        torch, steps, evaluations=6), 3),
    "convolution": (convolution, 3),
}


def moved(rounds):
    """The share of the blocks with another address than in the round before."""
    pairs = [(a, b) for before, now in zip(rounds, rounds[1:])
             for a, b in zip(before, now)]
    return sum(a != b for a, b in pairs) / max(1, len(pairs))


def last_moved(rounds):
    """The number of the last round, from 1 on, in which a block had another
    address than in the round before; 0 if there is none."""
    return max((i + 2 for i, (before, now) in enumerate(zip(rounds, rounds[1:]))
                if moved([before, now]) > 0), default=0)


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
    program, warm = {**PROGRAMS, **OTHERS}[name]
    rounds = []
    ends = []
    for _ in program(torch, count):
        rounds.append(addresses[:])
        addresses.clear()
        ends.append(torch.cuda.Event(enable_timing=True))
        ends[-1].record()
        if len(rounds) == warm:
            torch.cuda.synchronize()
            begin = time.perf_counter()
    torch.cuda.synchronize()
    took = (time.perf_counter() - begin) / (count - warm)
    longest = max(a.elapsed_time(b) for a, b in
                  zip(ends[warm - 1:], ends[warm:])) / 1e3
    live = torch.cuda.max_memory_allocated()
    active = torch.cuda.memory_stats()["active_bytes.all.peak"]
    held = torch.cuda.max_memory_reserved()
    print(live, active, held, took, longest,
          moved(rounds[len(rounds) // 2:]), moved(rounds[1:]),
          last_moved(rounds), flush=True)


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


def weir_run(*flags, report=None):
    how = ["--quiet"] if report is None else ["--report", report]
    return [os.environ.get("WEIR", "weir"), "run", *how, *flags, "--"]


def plan(command, folder):
    """The plan that a run of the command leads to, or None if none helps."""
    recording = os.path.join(folder, "recording.pickle")
    plan = os.path.join(folder, "plan")
    subprocess.run(weir_run("--torch", "--history", "--snapshot", recording)
                   + command, input="go\n", text=True,
                   stdout=subprocess.DEVNULL, timeout=COMPILE_SECONDS)
    subprocess.run([os.environ.get("WEIR", "weir"), "plan", recording, "-o",
                    plan], timeout=COMPILE_SECONDS)
    return plan if os.path.exists(plan) else None


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
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        if mode.startswith("run"):
            how = ["--torch"] if mode == "run" else []
            command = weir_run(*how, report=report) + command
        elif mode == "plan":
            planned = plan(command, folder)
            if planned is None:
                print(f"{name:8} {mode:10} no plan", flush=True)
                return
            command = weir_run("--torch", "--plan", planned,
                               report=report) + command
        measure(mode, name, steps, used, command, env)
        if os.path.exists(report):
            print_report(name, mode, report)


def print_report(name, mode, path):
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    calls = report.get("driver_calls", {}).get("cuMemMap", 0)
    print(f"{name:8} {mode:10} {report['gpu_waits']} GPU waits, "
          f"{report['host_waits']} host waits, {calls} map calls, "
          f"{report['planned']} as planned, "
          f"{report['plans_dropped']} plans dropped", flush=True)


def measure(mode, name, steps, used, command, env):
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
        process.wait(COMPILE_SECONDS + steps)
    except subprocess.TimeoutExpired:
        process.kill()
        words = []
    over.set()
    sampler.join()
    if len(words) != 8:
        print(f"FAIL {name} {mode}: it ended early", flush=True)
        return
    live, active, held, took, longest, late, early = map(float, words[:7])
    print(f"{name:8} {mode:10} live {live / GB:6.2f} GB, active "
          f"{active / GB:6.2f}, held {held / GB:6.2f}, used "
          f"{(peak - base) / GB:6.2f} GB ({(peak - base) / live:.2f}x live), "
          f"{took * 1e3:7.2f} ms a step, {longest * 1e3:7.2f} at most, "
          f"{100 * late:5.1f} % moved, {100 * early:5.1f} % from the second "
          f"step on, last in step {words[7]}", flush=True)


def main():
    arguments = sys.argv[1:]
    steps = 12
    if arguments[:1] == ["--child"]:
        child(arguments[1], arguments[2], int(arguments[3]))
        return
    names = list(PROGRAMS)
    if arguments and arguments[0].startswith("--steps="):
        steps = int(arguments.pop(0).partition("=")[2])
    if arguments and arguments[0].startswith("--programs="):
        names = arguments.pop(0).partition("=")[2].split(",")
    used = device()
    for name in names:
        for mode in arguments or ["native", "expandable", "weir"]:
            run(mode, name, steps, used)


main()
