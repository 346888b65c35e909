#!/usr/bin/env python3
"""Write a memory snapshot for tests of `weir view`, as a pickle.

    make_snapshot.py KIND OUT [EVENTS]

The same KIND and EVENTS give the same file everywhere. What a kind has:

    training   four streams, of which one is expandable, one has a private
               pool, and some share blocks with others (pending frees); steps that repeat; annotations; a
               request that fails
    hostile    the same, short, with names that are HTML, script, control
               characters, and very long
    state      segments and blocks without a history
    devices    two devices, the first of them empty
    blame      stacks that begin in the CUDA runtime and in a framework
    wrapped    four callers of one function that allocates
    sites      forty call sites, and a block without a stack
    pinned     a device, and page-locked host memory beside it
    rank       a short training, as one rank of a job
    bigrank    the same, with 120 MiB more of one call site
    leaky      a call site whose blocks pile up
    faulty     thirteen blocks that are said to be larger than their segment
    kinds      each kind of memory, by metadata, by range, and to be guessed
    cut        a training that is recorded from its first step to the middle of
               its last one, with memory of all kinds to be guessed
    high       46 MiB that come and go on top of 3.4 GiB
    empty      nothing at all
    wild       what no allocator does: anything in any order
    million    EVENTS events of blocks that come and go on eight streams

What a reader must find in it is written to OUT.json.
"""
import json
import pickle
import random
import sys

MIB = 1 << 20
GRANULE = 512
START_US = 1_700_000_000_000_000

HOSTILE = [
    "<img src=x onerror=window.broken=1>",
    "</script><script>window.broken=1</script>",
    "</title><h1>broken</h1>",
    "<!--weir:data--><!-- --><svg/onload=window.broken=1>",
    "javascript:window.broken=1//",
    "\u202egnp.exe \u0007\u001b[31m \ufffd \U0001f4a5",
    "{{constructor.constructor('window.broken=1')()}}",
    "x" * 5000,
    "",
]


class Stream:
    """The memory of one stream: segments with sorted free and used blocks."""

    def __init__(self, device, handle, base, expandable, pool):
        self.device = device
        self.pool = pool
        self.handle = handle
        self.base = base
        self.end = base
        self.expandable = expandable
        self.segments = []  # [address, size, frames]
        self.blocks = {}    # address: [size, requested, state, frames]
        self.free = []      # [address, size], sorted


class World:
    def __init__(self, seed, names=None):
        self.random = random.Random(seed)
        self.traces = {}
        self.streams = []
        self.time = START_US
        self.annotations = []
        self.names = names
        self.stacks = {}
        self.late = []

    def stream(self, device, handle, expandable=False, pool=(0, 0)):
        base = 0x7F00_0000_0000 + len(self.streams) * (1 << 36)
        made = Stream(device, handle, base, expandable, pool)
        self.streams.append(made)
        self.traces.setdefault(device, [])
        return made

    def frames(self, *path):
        """A list of frames, outermost first as given; shared when equal."""
        if path not in self.stacks:
            out = []
            for depth, name in enumerate(path):
                if self.names is not None:
                    file = self.names[hash_of(name) % len(self.names)]
                    shown = self.names[hash_of(name + "n") % len(self.names)]
                else:
                    file, shown = f"/work/{name.split('.')[0]}.py", name
                out.append({"name": shown, "filename": file,
                            "line": 10 + hash_of(name) % 300 + depth})
            self.stacks[path] = out[::-1]
        return self.stacks[path]

    def event(self, stream, action, addr, size, frames, key="addr"):
        self.time += self.random.randrange(1, 40)
        self.traces[stream.device].append({
            "action": action, key: addr, "size": size,
            "stream": stream.handle, "time_us": self.time,
            "compile_context": "N/A", "user_metadata": "",
            "pool_id": stream.pool, "frames": frames})

    def grow(self, stream, size, frames):
        step = -(-size // (20 * MIB)) * 20 * MIB
        if stream.expandable and stream.segments:
            segment = stream.segments[0]
            addr = segment[0] + segment[1]
            segment[1] += step
        else:
            addr = stream.end + (0 if stream.expandable else 2 * MIB)
            stream.segments.append([addr, step, frames])
        stream.end = addr + step
        self.event(stream, "segment_map" if stream.expandable else
                   "segment_alloc", addr, step, frames)
        self.put(stream, addr, step)

    def put(self, stream, addr, size):
        """Free memory, merged with its neighbours of one segment."""
        edges = {s[0] for s in stream.segments}
        free = sorted(stream.free + [[addr, size]])
        stream.free = []
        for addr, size in free:
            last = stream.free[-1] if stream.free else None
            if last and last[0] + last[1] == addr and addr not in edges:
                last[1] += size
            else:
                stream.free.append([addr, size])

    def alloc(self, stream, requested, frames):
        self.reap()
        size = -(-requested // GRANULE) * GRANULE
        fits = [f for f in stream.free if f[1] >= size]
        if not fits:
            self.grow(stream, size, frames)
            fits = [f for f in stream.free if f[1] >= size]
        best = min(fits, key=lambda f: (f[1], f[0]))
        addr = best[0]
        stream.free.remove(best)
        if best[1] > size:
            stream.free.append([addr + size, best[1] - size])
        stream.blocks[addr] = [size, requested, "active_allocated", frames]
        self.event(stream, "alloc", addr, requested, frames)
        return stream, addr

    def free_block(self, block, frames, late=0):
        stream, addr = block
        entry = stream.blocks[addr]
        self.event(stream, "free_requested", addr, entry[1], frames)
        if late:
            entry[2] = "active_pending_free"
            self.late.append((len(self.traces[stream.device]) + late, stream,
                              addr, frames))
        else:
            self.complete(stream, addr, frames)

    def complete(self, stream, addr, frames):
        size, requested, _, _ = stream.blocks.pop(addr)
        self.event(stream, "free_completed", addr, requested, frames)
        self.put(stream, addr, size)

    def reap(self, everything=False):
        for item in list(self.late):
            due, stream, addr, frames = item
            if everything or due <= len(self.traces[stream.device]):
                self.late.remove(item)
                self.complete(stream, addr, frames)

    def annotate(self, name, stage, device=0):
        self.annotations.append({"name": name, "stage": stage,
                                 "device": device, "time_us": self.time})

    def snapshot(self, devices=1):
        segments = []
        for stream in self.streams:
            for addr, size, frames in sorted(stream.segments,
                                             key=lambda s: s[0]):
                segments.append(self.segment(stream, addr, size, frames))
        return {
            "segments": segments,
            "device_traces": [self.traces.get(d, []) for d in range(devices)],
            "allocator_settings": {
                "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
                "expandable_segments": True, "max_split_size": -1},
            "external_annotations": self.annotations,
        }

    def segment(self, stream, addr, size, frames):
        inside = [(a, b) for a, b in stream.blocks.items()
                  if addr <= a < addr + size]
        blocks = [{"address": a, "size": b[0], "requested_size": b[1],
                   "state": b[2], "frames": b[3]} for a, b in inside]
        blocks += [{"address": a, "size": s, "requested_size": 0,
                    "state": "inactive", "frames": []}
                   for a, s in stream.free if addr <= a < addr + size]
        blocks.sort(key=lambda b: b["address"])
        used = [b for b in blocks if b["state"] != "inactive"]
        held = [b for b in used if b["state"] == "active_allocated"]
        return {
            "device": stream.device, "address": addr, "total_size": size,
            "allocated_size": sum(b["size"] for b in held),
            "active_size": sum(b["size"] for b in used),
            "requested_size": sum(b["requested_size"] for b in used),
            "stream": stream.handle, "segment_type": "large",
            "segment_pool_id": stream.pool,
            "is_expandable": stream.expandable,
            "frames": frames, "blocks": blocks}


def hash_of(text):
    value = 7
    for byte in text.encode():
        value = (value * 31 + byte) % 1_000_003
    return value


def train(world, streams, events, layers=12):
    """Parameters, then steps of forward, backward and an optimiser."""
    main, side, copy = streams[0], streams[1], streams[2]
    rand = world.random
    trace = world.traces[main.device]
    weights = [world.alloc(main, rand.choice([3, 5, 9]) * MIB + 300,
                           world.frames("main.run", "model.build",
                                        f"model.layer_{i % 4}"))
               for i in range(layers)]
    step = 0
    while len(trace) < events:
        world.annotate("step", "START", main.device)
        kept = []
        for i in range(layers):
            top = ("main.run", "train.step", "model.forward",
                   f"model.layer_{i % 4}")
            kept.append(world.alloc(main, rand.randrange(1, 9) * MIB,
                                    world.frames(*top, "ops.matmul")))
            part = world.alloc(side, rand.randrange(1, 400) * 1024,
                               world.frames(*top, "comm.gather"))
            scratch = world.alloc(main, rand.randrange(1, 60000),
                                  world.frames(*top, "ops.softmax"))
            world.free_block(scratch, world.frames(*top, "ops.softmax"))
            world.free_block(part, world.frames(*top, "comm.done"),
                             late=rand.randrange(8, 60))
        for i, block in reversed(list(enumerate(kept))):
            top = ("main.run", "train.step", "model.backward",
                   f"model.layer_{i % 4}")
            grad = world.alloc(main, rand.randrange(1, 4) * MIB,
                               world.frames(*top, "ops.grad"))
            out = world.alloc(copy, rand.randrange(1, 3) * MIB,
                              world.frames(*top, "offload.copy"))
            world.free_block(block, world.frames(*top, "autograd.release"))
            world.free_block(grad, world.frames(*top, "autograd.release"),
                             late=rand.randrange(0, 30))
            world.free_block(out, world.frames(*top, "offload.done"))
        world.annotate("step", "END", main.device)
        step += 1
        if step == 3:
            top = world.frames("main.run", "train.step", "model.evaluate")
            world.event(main, "oom", 700 * MIB, 3 << 30, top,
                        key="device_free")
    return weights


def training(events, names=None, device=0, devices=1):
    world = World(1, names)
    streams = [world.stream(device, 0, expandable=True),
               world.stream(device, 0x5581_2233_4400),
               world.stream(device, 7, pool=(3, 0)), world.stream(device, 9)]
    idle = world.alloc(streams[3], 30 * MIB, world.frames("main.run",
                                                          "cache.fill"))
    train(world, streams, events)
    world.free_block(idle, world.frames("main.run", "cache.drop"), late=99999)
    return world.snapshot(devices)


def state():
    made = training(600)
    made["device_traces"] = [[]]
    made["external_annotations"] = []
    return made


def million(events):
    """Made without the world above, which would take long."""
    rand = random.Random(2)
    frames = [[{"name": f"leaf_{i % 40}", "filename": "/work/leaf.py",
                "line": i}, {"name": "top", "filename": "/work/top.py",
                             "line": 1}] for i in range(200)]
    slots, slot = 4000, 4 * MIB
    base = 0x7F00_0000_0000
    live, trace = {}, []
    for i in range(events):
        at = rand.randrange(slots)
        addr, stream = base + at * slot, at % 8
        freed = live.pop(at, None)
        if freed is None:
            live[at] = size = rand.randrange(1, slot)
            action = "alloc"
        else:
            size, action = freed, "free_completed"
        trace.append({"action": action, "addr": addr, "size": size,
                      "stream": stream, "time_us": START_US + 3 * i,
                      "frames": frames[rand.randrange(200)]})
    blocks = [{"address": base + at * slot,
               "size": slot, "requested_size": live.get(at, 0),
               "state": "active_allocated" if at in live else "inactive",
               "frames": []} for at in range(slots)]
    return {"segments": [{
        "device": 0, "address": base, "total_size": slots * slot,
        "allocated_size": 0, "active_size": 0, "requested_size": 0,
        "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
        "is_expandable": False, "frames": [], "blocks": blocks}],
        "device_traces": [trace]}


def wild(events, seed=5):
    """Everything is of the right type, and nothing fits together."""
    rand = random.Random(seed)
    actions = ["alloc", "free_requested", "free_completed", "segment_alloc",
               "segment_free", "segment_map", "segment_unmap", "snapshot",
               "oom", "workspace_snapshot"]

    def size():
        return rand.choice([0, 1, 511, 512, 4096, 3 * MIB, 1 << 40, 1 << 52])

    def address():
        return rand.randrange(0, 64) * rand.choice([1, 512, 4096, MIB, 1 << 36])

    trace = []
    for _ in range(events):
        action = rand.choice(actions)
        key = "device_free" if action == "oom" else "addr"
        trace.append({"action": action, key: address(), "size": size(),
                      "stream": rand.choice([0, 1, 7, 1 << 63]),
                      "time_us": rand.choice([0, 1, START_US,
                                              START_US + rand.randrange(99)]),
                      "frames": [{"name": "f", "filename": "", "line": 0}]
                      * rand.randrange(0, 3)})
    segments = []
    for _ in range(9):
        blocks = [{"address": address(), "size": size(),
                   "requested_size": size(), "frames": [],
                   "state": rand.choice(["active_allocated", "inactive",
                                         "active_pending_free"])}
                  for _ in range(rand.randrange(0, 6))]
        segments.append({"device": 0, "address": address(),
                         "total_size": size(), "allocated_size": size(),
                         "active_size": 0, "requested_size": 0, "stream": 3,
                         "segment_type": "small", "segment_pool_id": (5, -1),
                         "is_expandable": True, "frames": [],
                         "blocks": blocks})
    notes = [{"name": f"n{i % 3}", "stage": rand.choice(["START", "END"]),
              "device": 0, "time_us": START_US + rand.randrange(99)}
             for i in range(40)]
    return {"segments": segments, "device_traces": [trace],
            "external_annotations": notes}


def answers(made):
    """What a reader must find, counted in another way than readers do."""
    out = []
    for trace in made["device_traces"]:
        use = peak = wait = wait_peak = held = held_peak = ooms = 0
        peak_event = 0
        streams, by_name, pending = set(), {}, {}
        for i, e in enumerate(trace):
            after = trace[i + 1] if i + 1 < len(trace) else None
            size = e["size"]
            if e["action"] == "alloc":
                use += size
                streams.add(e["stream"])
                name = (e["frames"] or [{"name": ""}])[0]["name"]
                by_name[name] = by_name.get(name, 0) + 1
            elif e["action"] == "free_requested":
                both = after and after["action"] == "free_completed" and \
                    after["addr"] == e["addr"]
                if not both:
                    pending[e["addr"]] = size
                    wait += size
            elif e["action"] == "free_completed":
                use -= size
                wait -= pending.pop(e["addr"], 0)
            elif e["action"] in ("segment_alloc", "segment_map"):
                held += size
            elif e["action"] in ("segment_free", "segment_unmap"):
                held -= size
            elif e["action"] == "oom":
                ooms += 1
            if use > peak:
                peak, peak_event = use, i
            wait_peak = max(wait_peak, wait)
            held_peak = max(held_peak, held)
        out.append({"events": len(trace), "peak": peak,
                    "peak_event": peak_event,
                    "peak_name": trace[peak_event]["frames"][0]["name"]
                    if trace and trace[peak_event]["frames"] else "",
                    "waiting": wait_peak,
                    "held": held_peak, "ooms": ooms,
                    "streams": len(streams), "allocations": by_name,
                    "in_use_at_end": use})
    return out


def pinned(events):
    """48 MiB of page-locked memory, 20 MiB of it in use, of device 0."""
    made = training(min(events, 400))
    frames = [{"name": "to_host", "filename": "offload.py", "line": 7}]

    def block(addr, size, state):
        return {"address": addr, "size": size, "frames": frames,
                "requested_size": 0 if state == "inactive" else size - 512,
                "state": state}
    addr = 0x7E00_0000_0000
    blocks = [block(addr, 16 * MIB, "active_allocated"),
              block(addr + 16 * MIB, 4 * MIB, "active_pending_free"),
              block(addr + 20 * MIB, 28 * MIB, "inactive")]
    made["host_segments"] = [{
        "address": addr, "total_size": 48 * MIB, "blocks": blocks,
        "allocated_size": 16 * MIB, "active_size": 20 * MIB,
        "requested_size": 20 * MIB - 1024, "device": 0, "stream": -1,
        "segment_type": "large", "segment_pool_id": (0, 0),
        "is_expandable": False, "frames": []}]
    made["host_traces"] = []
    return made


def blame():
    """Blocks whose innermost frames are the runtime's and a framework's."""
    def frame(name, file, line):
        return {"name": name, "filename": file, "line": line}
    inner = [frame("cudaMalloc", "/usr/lib/libcudart.so.13", 0),
             frame("at::native::add(long)", "??", 0)]
    outer = frame("_start", "a.out", 0)
    stacks = [inner + [frame("layer", "net.cpp", 9), outer], inner + [outer]]
    blocks = [{"address": 4096 + i * MIB, "size": MIB, "requested_size": MIB,
               "state": "active_allocated", "frames": frames}
              for i, frames in enumerate(stacks)]
    segment = {"address": 4096, "total_size": 2 * MIB, "blocks": blocks,
               "allocated_size": 2 * MIB, "active_size": 2 * MIB,
               "requested_size": 2 * MIB, "device": 0, "stream": 0,
               "segment_type": "large", "frames": []}
    return {"segments": [segment], "device_traces": [[]]}


def wrapped():
    """Blocks of one function with three callers, one of which has two."""
    blocks = [{"address": 4096 + i * MIB, "size": MIB,
               "requested_size": MIB - i * 512, "state": "active_allocated",
               "frames": [{"name": name, "filename": "pool.cpp", "line": 7}
                          for name in ("allocate", "tensor", *callers)]}
              for i, callers in enumerate([("load", "main"), ("run", "first"),
                                           ("run", "second"), ("save",)])]
    segment = {"address": 4096, "total_size": 4 * MIB, "blocks": blocks,
               "allocated_size": 4 * MIB, "active_size": 4 * MIB,
               "requested_size": 4 * MIB - 6 * 512, "device": 0, "stream": 0,
               "segment_type": "large", "frames": []}
    return {"segments": [segment], "device_traces": [[]]}


def sites():
    """Forty call sites with a block each, and one block without a stack."""
    blocks = [{"address": 4096 + i * MIB, "size": MIB,
               "requested_size": MIB - i * 512, "state": "active_allocated",
               "frames": [{"name": f"layer_{i}", "filename": "net.py",
                           "line": i + 1}] if i < 40 else []}
              for i in range(41)]
    segment = {"address": 4096, "total_size": 41 * MIB, "blocks": blocks,
               "allocated_size": 41 * MIB, "active_size": 41 * MIB,
               "requested_size": 41 * MIB, "device": 0, "stream": 0,
               "segment_type": "large", "frames": []}
    return {"segments": [segment], "device_traces": [[]]}


def rank(more):
    """A rank; with `more`, a cache of three blocks of 40 MiB beside it."""
    world = World(4)
    streams = [world.stream(0, 0, expandable=True), world.stream(0, 5),
               world.stream(0, 7)]
    for _ in range(3 if more else 0):
        world.alloc(streams[0], 40 * MIB, world.frames("main.run",
                                                       "cache.stash"))
    world.random.seed(5)
    train(world, streams, 400 + len(world.traces[0]))
    return world.snapshot()


def leaky():
    """Forty steps, each of which frees a block and keeps another one."""
    world = World(6)
    stream = world.stream(0, 0)
    for _ in range(40):
        scratch = world.alloc(stream, MIB, world.frames("main.run",
                                                        "step.work"))
        world.alloc(stream, 2 * MIB, world.frames("main.run", "log.remember"))
        world.free_block(scratch, world.frames("main.run", "step.work"))
    return world.snapshot()


def faulty():
    blocks = [{"address": 4096 + i * MIB, "size": MIB, "requested_size":
               2 * MIB, "state": "active_allocated", "frames": []}
              for i in range(13)]
    segment = {"address": 4096, "total_size": 13 * MIB, "blocks": blocks,
               "allocated_size": 13 * MIB, "active_size": 13 * MIB,
               "requested_size": 26 * MIB, "device": 0, "stream": 0,
               "segment_type": "large", "frames": []}
    return {"segments": [segment], "device_traces": [[]]}


def kinds():
    """Memory of each kind; sizes in MiB are powers of two, so that sums tell
    what was counted."""
    world = World(8)
    stream = world.stream(0, 0)
    graph = world.stream(0, 7, pool=(2, 0))
    trace = world.traces[0]
    world.alloc(stream, 1 * MIB, world.frames("main.run", "model.build"))
    world.alloc(stream, 2 * MIB, world.frames("main.run", "a.one"))
    trace[-1]["user_metadata"] = "gradients of layer 3"
    world.annotate("optimizer step", "START")
    world.time += 10
    world.alloc(stream, 4 * MIB, world.frames("main.run", "a.two"))
    world.time += 10
    world.annotate("optimizer step", "END")
    world.time += 10
    kept = []
    for i in range(30):
        kept.append(world.alloc(stream, 8 * MIB, world.frames(
            "main.run", "model.forward")))
        for _ in range(4):
            scratch = world.alloc(stream, 512, world.frames("main.run",
                                                            "ops.tmp"))
            world.free_block(scratch, world.frames("main.run", "ops.tmp"))
        if len(kept) > 1:
            world.free_block(kept.pop(0), world.frames("main.run", "a.free"))
    world.free_block(kept.pop(), world.frames("main.run", "a.free"))
    world.alloc(graph, 16 * MIB, world.frames("main.run", "graph.capture"))
    return world.snapshot()


def cut():
    """Sizes in MiB: weights 3 and 5, activations 2, 4 and 6, the optimiser's
    state 7. The history lacks the first weights. It ends in a backward pass,
    with activations alive that the steps before have freed."""
    world = World(11)
    stream = world.stream(0, 0)
    graph = world.stream(0, 7, pool=(2, 0))

    def alloc(mib, *path, where=stream):
        return world.alloc(where, mib * MIB, world.frames("main.run", *path))

    def free(block):
        world.free_block(block, world.frames("main.run", "a.free"))

    for _ in range(4):
        alloc(3, "model.build")
    world.traces[0].clear()
    for _ in range(4):
        alloc(5, "model.adapt")
    alloc(16, "graph.capture", where=graph)
    gradients = []
    for step in range(4):
        kept = []
        for _ in range(6):
            kept.append(alloc(2, "nn._call_impl"))
            kept.append(alloc(4, "loss.compute"))
            free(alloc(1, "nn._call_impl", "ops.work"))
        kept.append(alloc(6, "nn._call_impl", "head.once"
                          if step == 3 else "head.other"))
        for block in gradients:
            free(block)
        gradients = [alloc(size, "Engine::run") for size in (3, 5) * 4]
        if step == 3:
            break
        for block in kept:
            free(block)
        free(alloc(1, "optim.step"))
        if step == 0:
            for _ in range(2):
                alloc(7, "optim.state")
    return world.snapshot()


def high():
    world = World(9)
    stream = world.stream(0, 0)
    for i in range(34):
        world.alloc(stream, 100 * MIB, world.frames("main.run", "model.build"))
    for i in range(200):
        block = world.alloc(stream, 46 * MIB, world.frames("main.run",
                                                           "step.work"))
        world.free_block(block, world.frames("main.run", "step.work"))
    return world.snapshot()


KINDS = {
    "rank": lambda n: rank(False),
    "bigrank": lambda n: rank(True),
    "leaky": lambda n: leaky(),
    "faulty": lambda n: faulty(),
    "kinds": lambda n: kinds(),
    "cut": lambda n: cut(),
    "high": lambda n: high(),
    "sites": lambda n: sites(),
    "blame": lambda n: blame(),
    "wrapped": lambda n: wrapped(),
    "million": million,
    "wild": lambda n: wild(n, n),
    "training": lambda n: training(n),
    "hostile": lambda n: training(min(n, 400), HOSTILE),
    "state": lambda n: state(),
    "devices": lambda n: training(min(n, 400), device=1, devices=2),
    "pinned": pinned,
    "empty": lambda n: {"segments": [], "device_traces": []},
}


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in KINDS:
        sys.exit(__doc__)
    events = int(sys.argv[3]) if len(sys.argv) == 4 else 3000
    made = KINDS[sys.argv[1]](events)
    with open(sys.argv[2], "wb") as out:
        pickle.dump(made, out, protocol=4)
    with open(sys.argv[2] + ".json", "w", encoding="utf-8") as out:
        json.dump(answers(made), out)


if __name__ == "__main__":
    main()
