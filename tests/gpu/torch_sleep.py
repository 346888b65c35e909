"""A transformer that sleeps and wakes, on weir, with PyTorch.

    PYTHONPATH=build/release/python python3 tests/gpu/torch_sleep.py

It has reduce-overhead graphs, cuBLAS workspaces, a training step and a KV cache.
It prints one figure a line, and fails if an output differs by a bit, if a graph
is captured again, or if memory stays. It takes about a minute.
"""

import os
import sys
import time

os.environ.setdefault("WEIR_CONF", "may_sleep:True")

import weir
import weir.torch

weir.torch.install()

import torch

GIB = 1 << 30
CYCLES = int(os.environ.get("CYCLES", "20"))


def say(name, value, unit):
    print(f"{name:44s} {value:12.3f} {unit}", flush=True)


def free_bytes():
    return weir.telemetry()["memory_used_bytes"]


def decoder(width, layers):
    layer = torch.nn.TransformerEncoderLayer(
        width, 16, 4 * width, batch_first=True, dropout=0.0)
    return torch.nn.TransformerEncoder(layer, layers).cuda().half().eval()


def train_step(model, x):
    for p in model.parameters():
        p.grad = None
    y = model(x)
    y.float().square().mean().backward()
    return y.detach()


def main():
    torch.manual_seed(1)
    model = decoder(2048, 12)
    fast = torch.compile(model, mode="reduce-overhead")
    cache = torch.zeros(int(os.environ.get("CACHE_GIB", "20")) * GIB,
                        dtype=torch.uint8, device="cuda")
    x = torch.randn(4, 256, 2048, device="cuda", dtype=torch.half)
    with torch.no_grad():
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            expected = fast(x).clone()
    trained = train_step(model, x)
    small = torch.cuda.CUDAGraph()
    with torch.cuda.graph(small):
        static = x @ x.transpose(1, 2)
    small.replay()
    product = static.clone()
    torch.cuda.synchronize()
    before = free_bytes()
    held = weir.stats()["reserved_bytes.all.current"]
    say("held by weir before", held / GIB, "GiB")
    say("used of the device before (NVML)", before / GIB, "GiB")

    first = None
    for cycle in range(CYCLES):
        discard = [(cache.data_ptr(), cache.numel())] if cycle % 2 else []
        began = time.perf_counter()
        slept = weir.torch.sleep(discard_ranges=discard)
        asleep = time.perf_counter() - began
        used = free_bytes()
        began = time.perf_counter()
        woken = weir.torch.wake()
        awake = time.perf_counter() - began
        with torch.no_grad():
            torch.compiler.cudagraph_mark_step_begin()
            y = fast(x)
        torch.cuda.synchronize()
        ready = time.perf_counter() - began
        assert torch.equal(y, expected), f"cycle {cycle}: output differs"
        small.replay()
        assert torch.equal(static, product), f"cycle {cycle}: graph differs"
        if cycle < 2:
            what = "discarded cache" if discard else "all contents"
            say(f"asleep, {what}", asleep, "s")
            say(f"copied, {what}", slept["copied_bytes"] / GIB, "GiB")
            say(f"used while asleep (NVML), {what}", used / GIB, "GiB")
            for reason, count in slept["stays"].items():
                if count > 0:
                    say(f"stays, {what}: {reason}", count / GIB, "GiB")
            say(f"awake, {what}", awake, "s")
            say(f"first output after waking began, {what}", ready, "s")
            if woken["copied_bytes"] > GIB:
                say(f"wake rate, {what}",
                    woken["copied_bytes"] / woken["map_ns"], "GB/s")
        if cycle == 2:
            first = (weir.stats()["reserved_bytes.all.current"],
                     weir.pinned_stats()["reserved_bytes.all.current"])
    last = (weir.stats()["reserved_bytes.all.current"],
            weir.pinned_stats()["reserved_bytes.all.current"])
    assert torch.equal(train_step(model, x), trained), "training differs"
    assert weir.check() == []
    if first is not None:
        say("device memory gained over the cycles", last[0] - first[0], "B")
        say("pinned memory gained over the cycles", last[1] - first[1], "B")
    say("cycles with equal outputs", CYCLES, "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
