"""How long a PyTorch program takes that offloads activations, and how much
page-locked memory it needs.

    torch_pinned.py native|weir [STEPS]
    weir run --torch -- torch_pinned.py run [STEPS]

weir is weir.torch.install(). Twelve layers of 4096-8192-4096 in bfloat16 get
batches of 1,000 to 12,000 rows. Each saved tensor of 1 MiB and more is copied
to page-locked memory behind the forward pass, on a side stream, and back before
its use in the backward pass. Prints the seconds of the first ten steps, of
steps 11 to 30 and of all later ones, the most bytes that were live, the most
memory that the machine used beyond its use at the start, and the loss, which
has to be the same in all modes.
"""

import random
import sys
import threading
import time

import torch

LAYERS, WIDTH = 12, 4096
LEAST = 1 << 20
GB = 1e9

live = most_live = 0


class Saved:
    """A tensor in page-locked memory."""

    def __init__(self, tensor, side):
        global live, most_live
        self.bytes = tensor.numel() * tensor.element_size()
        live += self.bytes
        most_live = max(most_live, live)
        side.wait_stream(torch.cuda.current_stream())
        self.host = torch.empty(tensor.shape, dtype=tensor.dtype,
                                pin_memory=True)
        with torch.cuda.stream(side):
            self.host.copy_(tensor, non_blocking=True)
        tensor.record_stream(side)

    def __del__(self):
        global live
        live -= self.bytes


def used_bytes():
    """The memory of the machine that is in use, without the file cache."""
    with open("/proc/meminfo") as file:
        kib = {line.split(":")[0]: int(line.split()[1]) for line in file}
    return 1024 * (kib["MemTotal"] - kib["MemFree"] - kib["Buffers"]
                   - kib["Cached"] + kib["Shmem"])


class Sampler(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.base = self.peak = used_bytes()
        self.over = False

    def run(self):
        while not self.over:
            self.peak = max(self.peak, used_bytes())
            time.sleep(0.02)


def train(steps):
    """The seconds of each step, and the last loss."""
    rows = random.Random(7)
    side = torch.cuda.Stream()
    layers = [layer for _ in range(LAYERS)
              for layer in (torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.GELU(),
                            torch.nn.Linear(2 * WIDTH, WIDTH))]
    net = torch.nn.Sequential(*layers).cuda().bfloat16()
    weights = {parameter.data_ptr() for parameter in net.parameters()}

    def pack(tensor):
        small = tensor.numel() * tensor.element_size() < LEAST
        if small or tensor.data_ptr() in weights:
            return tensor
        return Saved(tensor, side)

    def unpack(saved):
        if not isinstance(saved, Saved):
            return saved
        main = torch.cuda.current_stream()
        with torch.cuda.stream(side):
            tensor = saved.host.to("cuda", non_blocking=True)
        main.wait_stream(side)
        tensor.record_stream(main)
        return tensor

    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        x = torch.randn(rows.randrange(1000, 12001), WIDTH, device="cuda",
                        dtype=torch.bfloat16)
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            loss = net(x).float().square().mean()
        loss.backward()
        net.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return times, loss.item()


def main():
    mode = sys.argv[1]
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    if mode == "weir":
        import weir.torch

        weir.torch.install()
    torch.manual_seed(1)
    torch.empty(1, device="cuda")
    sampler = Sampler()
    sampler.start()
    times, loss = train(steps)
    sampler.over = True
    sampler.join()
    print(f"{mode}: first ten {sum(times[:10]):.2f} s, 11 to 30 "
          f"{sum(times[10:30]):.2f} s, later {sum(times[30:]):.2f} s; live "
          f"{most_live / GB:.2f} GB, machine "
          f"{(sampler.peak - sampler.base) / GB:.2f} GB, loss {loss:.6g}",
          flush=True)


main()
