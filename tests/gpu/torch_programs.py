"""Small PyTorch programs, each in a process of its own, natively and on weir.

    torch_programs.py [--mode=MODE]... [NAME...]     install, run, sleep

install is weir.torch.install(), run is `weir run --torch`, and sleep is that
with --may-sleep, where the program sleeps and wakes between its two halves.
Each program begins in a new process, so that libraries make their handles, and
ask for memory, in the midst of what it does: in a capture, in a pool, on a
thread. It prints what it computed. A row a program: "equal" if a mode printed
what the native run printed and ended with the same exit status. Exits with 1
if one differs.
"""

import concurrent.futures
import os
import subprocess
import sys
import tempfile

MODES = ("install", "run", "sleep")
JOBS = 8
SECONDS = 150  # for a program
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def shown(*tensors):
    """What does not depend on the algorithm that a library chose."""
    return " ".join(f"{tensor.double().abs().sum().item():.3g}"
                    for tensor in tensors)


def layers(torch, width=512, count=3):
    parts = []
    for _ in range(count):
        parts += [torch.nn.Linear(width, width), torch.nn.GELU()]
    return torch.nn.Sequential(*parts).cuda()


# ---- Graphs and pools --------------------------------------------------------


@program
def compiled_first(torch, rest):
    """The first product is in the warm-up of a compiled model."""
    model = layers(torch)
    swift = torch.compile(model, mode="reduce-overhead")
    x = torch.ones(64, 512, device="cuda")
    for step in range(8):
        model.zero_grad()
        torch.compiler.cudagraph_mark_step_begin()
        y = swift(x).sum()
        y.backward()
        if step == 4:
            rest()
    return shown(y, *(p.grad for p in model.parameters()))


@program
def compiled_eval(torch, rest):
    """Two shapes, each with graphs, and memory of both in one pool."""
    model = layers(torch).eval()
    swift = torch.compile(model, mode="reduce-overhead", dynamic=False)
    out = []
    with torch.no_grad():
        for step in range(12):
            torch.compiler.cudagraph_mark_step_begin()
            x = torch.ones(32 << step % 2, 512, device="cuda")
            out.append(swift(x).clone())
            if step == 7:
                rest()
    return shown(*out)


@program
def captured(torch, rest):
    """A graph of a convolution and a product, replayed with new inputs."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3), torch.nn.Flatten(),
        torch.nn.Linear(16 * 30 * 30, 64)).cuda()
    x = torch.ones(8, 3, 32, 32, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        model(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        y = model(x)
    out = []
    for step in range(6):
        x.fill_(step)
        graph.replay()
        out.append(y.clone())
        if step == 2:
            rest()
    return shown(*out)


@program
def captured_cold(torch, rest):
    """The libraries' handles are made while a stream is captured, in a mode
    that allows it."""
    x = torch.ones(256, 256, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="relaxed"):
        y = x @ x
        z = torch.fft.fft(x).abs()
    graph.replay()
    rest()
    graph.replay()
    return shown(y, z)


@program
def two_graphs(torch, rest):
    """Two graphs of one pool, and work of another stream between them."""
    pool = torch.cuda.graph_pool_handle()
    x = torch.ones(1024, 1024, device="cuda")
    (x @ x).sum().item()
    graphs = []
    for factor in (2, 3):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            y = (x * factor) @ x
        graphs.append((graph, y))
    out = []
    for step in range(4):
        for graph, y in graphs:
            graph.replay()
            out.append(y.clone())
        if step == 1:
            rest()
            junk = torch.zeros(64 << 20, device="cuda")
            del junk
    return shown(*out)


@program
def graphed_callable(torch, rest):
    model = layers(torch)
    x = torch.ones(64, 512, device="cuda", requires_grad=True)
    model = torch.cuda.make_graphed_callables(model, (x,))
    for step in range(4):
        y = model(x).sum()
        y.backward()
        if step == 1:
            rest()
    return shown(y, x.grad)


@program
def pooled(torch, rest):
    """A pool of the user's holds PyTorch's memory, and only that."""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.ones(512, 512, device="cuda")
        y = torch.linalg.solve(x + 512 * torch.eye(512, device="cuda"), x @ x)
    rest()
    z = torch.ones(512, 512, device="cuda")
    inside = sum(s["allocated_size"] for s in pool.snapshot())
    out = shown(y, z)
    del x, y
    torch.cuda.synchronize()
    left = sum(s["allocated_size"] for s in pool.snapshot())
    del pool
    return f"{out} {inside} {left}"


# ---- Libraries ---------------------------------------------------------------


@program
def algebra(torch, rest):
    torch.manual_seed(0)
    x = torch.randn(300, 300, device="cuda", dtype=torch.double)
    positive = x @ x.T + 300 * torch.eye(300, device="cuda", dtype=torch.double)
    out = [torch.linalg.svdvals(x), torch.linalg.cholesky(positive)]
    rest()
    out += [torch.linalg.eigvalsh(positive), torch.linalg.inv(positive),
            torch.fft.fft2(x).abs(), (x.to_sparse_csr() @ x)]
    return shown(*out)


@program
def recurrent(torch, rest):
    torch.manual_seed(0)
    model = torch.nn.LSTM(64, 128, 2, dropout=0.0).cuda()
    x = torch.ones(20, 8, 64, device="cuda")
    for step in range(4):
        y, _ = model(x)
        y.sum().backward()
        if step == 1:
            rest()
    return shown(y, *(p.grad for p in model.parameters()))


@program
def convolved(torch, rest):
    """cuDNN tries algorithms, with workspaces of many sizes."""
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 7, stride=2), torch.nn.BatchNorm2d(64),
        torch.nn.ReLU(), torch.nn.Conv2d(64, 64, 3)).cuda()
    for step in range(6):
        y = model(torch.ones(4 + step, 3, 128, 128, device="cuda"))
        y.sum().backward()
        if step == 3:
            rest()
    return shown(y)


@program
def attention(torch, rest):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q = torch.ones(2, 8, 256, 64, device="cuda", dtype=torch.half)
    out = []
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION,
                    SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH):
        with sdpa_kernel(backend):
            out.append(torch.nn.functional.scaled_dot_product_attention(
                q, q, q, is_causal=True))
        if backend == SDPBackend.EFFICIENT_ATTENTION:
            rest()
    return shown(*out)


@program
def one_rank(torch, rest):
    """NCCL with a single rank."""
    import torch.distributed as dist
    port = 20000 + os.getpid() % 20000
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}",
                            rank=0, world_size=1)
    x = torch.ones(1 << 20, device="cuda")
    dist.all_reduce(x)
    rest()
    dist.all_reduce(x)
    out = shown(x)
    dist.destroy_process_group()
    return out


@program
def arrays(torch, rest):
    """CuPy and Numba beside PyTorch, in a pool's context and a capture."""
    import cupy
    from numba import cuda
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        a = cupy.arange(100000, dtype=cupy.float32)
        t = torch.from_dlpack(a * 2)
        d = cuda.to_device([1.0, 2.0, 3.0])
        u = torch.as_tensor(d, device="cuda")
    inside = sum(s["allocated_size"] for s in pool.snapshot())
    rest()
    b = cupy.from_dlpack(torch.ones(1000, device="cuda")).sum()
    return f"{shown(t, u)} {float(b)} {inside}"


# ---- Threads, processes, page-locked memory ----------------------------------


@program
def threads(torch, rest):
    """Each thread has its model and its stream; one of them captures."""
    import threading
    out = [None] * 4
    barrier = threading.Barrier(5)

    def work(i):
        torch.cuda.set_device(0)
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.ones(200 + i, 200 + i, device="cuda")
            for half in range(2):
                for _ in range(50):
                    x = (x @ x).clamp(0, 1)
                torch.cuda.current_stream().synchronize()
                barrier.wait()
                barrier.wait()
            out[i] = x

    started = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in started:
        thread.start()
    barrier.wait()
    rest()
    barrier.wait()
    barrier.wait()
    barrier.wait()
    for thread in started:
        thread.join()
    return shown(*out)


class Numbers:
    def __len__(self):
        return 400

    def __getitem__(self, i):
        import torch
        return torch.full((1000,), float(i))


@program
def loader(torch, rest):
    """Forked workers and a thread that page-locks their batches."""
    total = torch.zeros((), device="cuda", dtype=torch.double)
    for half in range(2):
        for batch in torch.utils.data.DataLoader(
                Numbers(), batch_size=16, num_workers=2, pin_memory=True):
            total += batch.cuda(non_blocking=True).double().sum()
        if half == 0:
            rest()
    return shown(total)


@program
def offloaded(torch, rest):
    model = layers(torch, 1024, 4)
    x = torch.ones(256, 1024, device="cuda")
    for step in range(4):
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            y = torch.utils.checkpoint.checkpoint(
                model, x, use_reentrant=False).sum()
        y.backward()
        if step == 1:
            rest()
    return shown(y, *(p.grad for p in model.parameters()))


@program
def registered(torch, rest):
    """The program page-locks its own memory, and shares a file's."""
    host = torch.ones(1 << 20)
    runtime = torch.cuda.cudart()
    code = runtime.cudaHostRegister(host.data_ptr(), host.numel() * 4, 0)
    device = host.cuda(non_blocking=True)
    rest()
    device += host.cuda(non_blocking=True)
    torch.cuda.synchronize()
    freed = runtime.cudaHostUnregister(host.data_ptr())
    return f"{shown(device)} {int(code)} {int(freed)}"


def opened(queue, back, mode):
    if mode == "install":
        import weir.torch
        weir.torch.install()
    tensor = queue.get()
    back.put(float(tensor.sum().item()))
    del tensor
    back.get()


@program
def shared(torch, rest):
    """Another process opens a tensor, on the same allocator."""
    import torch.multiprocessing as mp
    context = mp.get_context("spawn")
    queue, back = context.Queue(), context.Queue()
    other = context.Process(target=opened, args=(queue, back, sys.argv[2]))
    other.start()
    tensor = torch.ones(3 << 20, device="cuda")
    queue.put(tensor)
    total = back.get()
    back.put("done")
    other.join()
    return f"{total} {other.exitcode}"


# ---- Faults ------------------------------------------------------------------


@program
def short(torch, rest):
    """Memory ends; the program frees some and goes on."""
    torch.cuda.set_per_process_memory_fraction(0.02)
    held = []
    try:
        while len(held) < 1000:
            held.append(torch.empty(64 << 20, device="cuda",
                                    dtype=torch.uint8))
    except torch.OutOfMemoryError:
        count = len(held)
    del held
    rest()
    x = torch.ones(512 << 20, device="cuda", dtype=torch.uint8)
    return f"{count > 30} {x[-1000:].sum().item()}"


@program
def asserted(torch, rest):
    """A kernel's assertion ends the context; the program still ends by itself."""
    x = torch.zeros(10, device="cuda")
    rest()
    try:
        x[torch.tensor([100], device="cuda")].sum().item()
    except RuntimeError as error:
        text = "assert" in str(error)
    try:
        torch.ones(10, device="cuda").sum().item()
        again = "no error"
    except RuntimeError as error:
        again = "error"
    return f"{text} {again}"


@program
def left_at_exit(torch, rest):
    """Tensors, a graph and a thread that allocates are there at the end."""
    import threading
    global kept
    x = torch.ones(1 << 20, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    graph.replay()
    rest()

    def work():
        while True:
            torch.empty(1000, device="cuda")

    kept = (x, y, graph)
    threading.Thread(target=work, daemon=True).start()
    return shown(y)


@program
def history(torch, rest):
    """PyTorch's own recording has each allocation and free."""
    torch.cuda.memory._record_memory_history()
    x = [torch.ones(1 << 20, device="cuda") for _ in range(10)]
    rest()
    del x
    torch.cuda.synchronize()
    found = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    actions = [event["action"] for event in found["device_traces"][0]
               if event["size"] == 4 << 20]
    return " ".join(f"{name} {actions.count(name)}"
                    for name in ("alloc", "free_completed"))


# ---- Running -----------------------------------------------------------------


def child(mode, name):
    if mode == "install":
        import weir.torch
        weir.torch.install()
    import torch

    def rest():
        if mode == "sleep":
            import weir
            torch.cuda.synchronize()
            weir.sleep()
            weir.wake()

    torch.manual_seed(0)
    torch.cuda.init()
    print(PROGRAMS[name](torch, rest), flush=True)


def run(mode, name, folder):
    command = [sys.executable, os.path.abspath(__file__), "--child", mode, name]
    weir = os.environ.get("WEIR", "weir")
    if mode in ("run", "sleep"):
        more = ["--may-sleep"] if mode == "sleep" else []
        command = [weir, "run", "--quiet", "--torch", *more, "--"] + command
    env = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=os.path.join(
        folder, f"{mode}-{name}"))
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True,
                              timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return ("", "timeout", "")
    return done.stdout.strip(), done.returncode, done.stderr


def compare(native, other):
    if other[:2] == native[:2]:
        return "equal"
    return "DIFFERS"


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--child"]:
        child(arguments[1], arguments[2])
        return 0
    modes = [a.partition("=")[2] for a in arguments if a.startswith("--mode=")]
    modes = modes or MODES
    names = [a for a in arguments if not a.startswith("--")] or list(PROGRAMS)
    right = True
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        jobs = {(mode, name): pool.submit(run, mode, name, folder)
                for name in names for mode in ("native", *modes)}
        for name in names:
            native = jobs["native", name].result()
            row, wrong = [], []
            for mode in modes:
                other = jobs[mode, name].result()
                row.append(f"{mode} {compare(native, other)}")
                if other[:2] != native[:2]:
                    wrong.append((mode, other))
            print(f"{name:18s} {', '.join(row)}  (native: {native[0]!r}, "
                  f"status {native[1]})", flush=True)
            if native[1] != 0:
                wrong.insert(0, ("native", native))
            for mode, other in wrong:
                right = right and mode == "native"
                print(f"  {mode}: {other[0]!r}, status {other[1]}\n    "
                      + other[2][-1500:].replace("\n", "\n    "), flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
