"""Two PyTorch programs that take turns on one device, of which each needs most.

    torch_turns.py MODE [TURNS]       native, weir, awake

Each has a transformer with reduce-overhead graphs and a training step, and a
cache that fills it up to SHARE of the device. In mode weir the one whose turn has
ended sleeps, with its cache discarded, before the other wakes; outputs must be
equal to the bit, and weir.check() must find nothing. In mode native both stay
awake, so that the second finds no memory. In mode awake one runs alone on weir,
without may_sleep. Prints how long the turns and the
changes take, and the time of a step.
"""

import os
import subprocess
import sys
import time

GIB = 1 << 30
SHARE = 0.6
STEPS = 20  # of a turn


def decoder(torch):
    layer = torch.nn.TransformerEncoderLayer(
        2048, 16, 8192, batch_first=True, dropout=0.0)
    return torch.nn.TransformerEncoder(layer, 24).cuda().half().eval()


def used_bytes(pid):
    """Of the process, by the driver's tool; 0 if it lists none."""
    listed = subprocess.run(
        ["nvidia-smi", "--query-compute-apps=pid,used_memory",
         "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout
    return sum(int(line.split(",")[1]) << 20 for line in listed.splitlines()
               if line.split(",")[0].strip() == str(pid)
               and line.split(",")[1].strip().isdigit())


class Program:
    def __init__(self, mode, seed):
        import torch
        self.torch, self.mode = torch, mode
        torch.manual_seed(seed)
        self.model = decoder(torch)
        self.fast = torch.compile(self.model, mode="reduce-overhead")
        self.x = torch.randn(4, 256, 2048, device="cuda", dtype=torch.half)
        self.expected = self.step()
        torch.cuda.synchronize()
        _, total = torch.cuda.mem_get_info()
        size = int(total * SHARE) - torch.cuda.memory_reserved()
        if mode != "native":
            import weir
            self.weir = weir
            size = int(total * SHARE) - \
                weir.stats()["reserved_bytes.all.current"]
        self.cache = torch.empty(size, dtype=torch.uint8, device="cuda")

    def step(self):
        """An inference by graphs, and a step of training; gives the outputs."""
        torch = self.torch
        with torch.no_grad():
            for _ in range(3):
                torch.compiler.cudagraph_mark_step_begin()
                y = self.fast(self.x).clone()
        for p in self.model.parameters():
            p.grad = None
        trained = self.model(self.x)
        trained.float().square().mean().backward()
        return y, trained.detach()

    def turn(self):
        """Gives the seconds of a step, the first not counted."""
        torch = self.torch
        self.cache.fill_(7)
        y = self.step()
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(STEPS):
            y = self.step()
        torch.cuda.synchronize()
        seconds = (time.perf_counter() - began) / STEPS
        for got, wanted in zip(y, self.expected):
            assert torch.equal(got, wanted), "an output differs"
        return seconds

    def sleep(self):
        found = self.weir.torch.sleep(discard_ranges=[
            (self.cache.data_ptr(), self.cache.numel())])
        return found["copied_bytes"] / GIB, sum(found["stays"].values()) / GIB

    def wake(self):
        self.weir.torch.wake()


def serve(mode, seed):
    if mode == "weir":
        os.environ.setdefault("WEIR_CONF", "may_sleep:True")
    if mode != "native":
        import weir.torch
        weir.torch.install()
    program = Program(mode, seed)
    print("ready", flush=True)
    for line in sys.stdin:
        word = line.strip()
        began = time.perf_counter()
        if word == "turn":
            print(f"{program.turn():.6f}", flush=True)
        elif word == "sleep":
            copied, stays = program.sleep()
            print(f"{time.perf_counter() - began:.3f} s, {copied:.2f} GiB "
                  f"copied, {stays:.3f} GiB stay", flush=True)
        elif word == "wake":
            program.wake()
            print(f"{time.perf_counter() - began:.3f} s", flush=True)
        elif word == "check":
            assert mode == "native" or program.weir.check() == []
            print("clean", flush=True)


class Served:
    def __init__(self, mode, seed):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "serve", mode, str(seed)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self):
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError("the program has ended")
        return line

    def ask(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.stdin.close()
        return self.process.wait()


def main():
    mode = sys.argv[1]
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 6
    first = Served(mode, 1)
    first.answer()
    print("a step, alone:", *(first.ask("turn") for _ in range(4)), "s",
          flush=True)
    if mode == "awake":
        return first.end()
    if mode == "weir":
        print("first asleep:", first.ask("sleep"), flush=True)
        print("used by it while asleep:",
              f"{used_bytes(first.process.pid) / GIB:.3f} GiB", flush=True)
    second = Served(mode, 2)
    try:
        second.answer()
        print("second:", second.ask("turn"), "s", flush=True)
    except RuntimeError as error:
        print("second:", error)
        first.process.kill()
        return 0 if mode == "native" else 1
    if mode == "native":
        first.end(), second.end()
        return 0
    programs, steps, changes = [first, second], [], []
    for turn in range(turns):
        last, this = programs[(turn + 1) % 2], programs[turn % 2]
        began = time.perf_counter()
        slept, woken = last.ask("sleep"), this.ask("wake")
        changes.append(time.perf_counter() - began)
        steps.append(float(this.ask("turn")))
        if turn < 2:
            print("asleep:", slept, "- awake:", woken, flush=True)
    print("changes, s:", " ".join(f"{s:.3f}" for s in changes))
    print("a step, s: ", " ".join(f"{s:.6f}" for s in steps))
    this.ask("check")
    return first.end() | second.end()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(main())
