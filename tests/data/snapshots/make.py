#!/usr/bin/env python3
"""Make the memory snapshots of this folder: dicts of the shape that PyTorch
writes, from a small caching allocator that runs a made-up training.

    make.py DIR                      all files of this folder
    make.py DIR --events 1000000     one large snapshot, large.pickle

The same arguments give the same files.
"""
import argparse
import json
import os
import pickle

MIB = 1 << 20
STREAM = 0x7F00


def frame(name, filename, line):
    return {"name": name, "filename": filename, "line": line}


class Device:
    """Best fit in segments of 2 or 20 MiB, neighbours merged, with a trace."""

    def __init__(self, index, start):
        self.index = index
        self.next = start
        self.time = 1_700_000_000_000_000
        self.segments = []
        self.trace = []

    def tell(self, action, addr, size, stream, frames):
        self.time += 10
        key = "device_free" if action == "oom" else "addr"
        entry = {
            "action": action,
            key: addr,
            "size": size,
            "stream": stream,
            "time_us": self.time,
            "compile_context": "N/A",
            "user_metadata": "",
        }
        if frames:
            entry["frames"] = frames
        self.trace.append(entry)

    def grow(self, size, stream, pool, frames):
        small = size <= MIB
        total = 2 * MIB if small else 20 * MIB if size < 10 * MIB else size
        segment = {
            "device": self.index,
            "address": self.next,
            "total_size": total,
            "allocated_size": 0,
            "active_size": 0,
            "requested_size": 0,
            "stream": stream,
            "segment_type": "small" if small else "large",
            "segment_pool_id": pool,
            "is_expandable": False,
            "frames": frames,
            "blocks": [self.block(self.next, total)],
        }
        self.next += (total + 32 * MIB) // (2 * MIB) * 2 * MIB
        self.segments.append(segment)
        self.tell("segment_alloc", segment["address"], total, stream, frames)
        return segment

    @staticmethod
    def block(address, size):
        return {
            "address": address,
            "size": size,
            "requested_size": 0,
            "state": "inactive",
            "frames": [],
        }

    def find(self, size, stream, pool):
        kind = "small" if size <= MIB else "large"
        fits = [
            (b["size"], b["address"], s, b)
            for s in self.segments
            if (s["stream"], s["segment_pool_id"], s["segment_type"])
            == (stream, pool, kind)
            for b in s["blocks"]
            if b["state"] == "inactive" and b["size"] >= size
        ]
        return min(fits, key=lambda f: f[:2])[2:] if fits else None

    def alloc(self, requested, frames, stream=0, pool=(0, 0)):
        size = max(512, (requested + 511) // 512 * 512)
        found = self.find(size, stream, pool)
        if found is None:
            segment = self.grow(size, stream, pool, frames)
            block = segment["blocks"][0]
        else:
            segment, block = found
        rest = block["size"] - size
        if rest >= (512 if size <= MIB else MIB + 1):
            at = segment["blocks"].index(block)
            segment["blocks"].insert(
                at + 1, self.block(block["address"] + size, rest)
            )
            block["size"] = size
        block["requested_size"] = requested
        block["state"] = "active_allocated"
        block["frames"] = frames
        self.tell("alloc", block["address"], requested, stream, frames)
        return segment, block

    def free(self, handle, frames, pending=False):
        segment, block = handle
        args = (block["address"], block["requested_size"], segment["stream"])
        self.tell("free_requested", *args, frames)
        if pending:
            block["state"] = "active_pending_free"
            return
        self.tell("free_completed", *args, frames)
        block.update(requested_size=0, state="inactive", frames=[])
        self.merge(segment)

    @staticmethod
    def merge(segment):
        merged = []
        for block in segment["blocks"]:
            if (
                merged
                and merged[-1]["state"] == block["state"] == "inactive"
            ):
                merged[-1]["size"] += block["size"]
            else:
                merged.append(block)
        segment["blocks"] = merged

    def finish(self):
        for segment in self.segments:
            active = [
                b for b in segment["blocks"] if b["state"] != "inactive"
            ]
            segment["active_size"] = sum(b["size"] for b in active)
            segment["requested_size"] = sum(
                b["requested_size"] for b in active
            )
            segment["allocated_size"] = sum(
                b["size"]
                for b in active
                if b["state"] == "active_allocated"
            )


MAIN = frame("<module>", "/home/user/train.py", 40)
STEP = frame("step", "/home/user/train.py", 21)
WEIGHT = [frame("__init__", "/home/user/model.py", 8), MAIN]
FORWARD = [
    frame("forward", "/usr/lib/python3/dist-packages/torch/nn.py", 99),
    frame("forward", "/home/user/model.py", 15),
    STEP,
    MAIN,
]
CACHE = [frame("remember", "/home/user/cache.py", 7), STEP, MAIN]
COPY = [frame("prefetch", "/home/user/data.py", 30), STEP, MAIN]
GRAPH = [frame("capture", "/home/user/graph.py", 3), MAIN]


def train():
    """Two devices; eight steps, each of which leaves a block in a cache."""
    one = Device(0, 0x7F0000000000)
    two = Device(1, 0x7E0000000000)
    for size in (6 * MIB, 3 * MIB, 40 * MIB, 1000, 2048):
        one.alloc(size, WEIGHT)
    two.alloc(5 * MIB + 100, WEIGHT)
    one.alloc(4 * MIB, GRAPH, pool=(1, 0))
    for step in range(8):
        here = [one.alloc((2 + i) * MIB, FORWARD) for i in range(3)]
        batch = one.alloc(700 * 1000, COPY, stream=STREAM)
        one.alloc(1536 * 1024, CACHE)
        for handle in reversed(here):
            one.free(handle, FORWARD)
        one.free(batch, COPY, pending=step == 7)
    one.tell("oom", 24 * MIB, 48 * MIB, 0, FORWARD)
    return snapshot([one, two])


def snapshot(devices):
    for device in devices:
        device.finish()
    return {
        "segments": [s for d in devices for s in d.segments],
        "device_traces": [d.trace for d in devices],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64",
            "max_split_size": -1,
            "garbage_collection_threshold": 0.5,
            "expandable_segments": False,
            "roundup_power2_divisions": {"1": 0, "2": 4},
        },
        "external_annotations": [
            {
                "name": "Optimizer.step#SGD.step",
                "stage": stage,
                "device": 0,
                "time_us": 1_700_000_000_000_100 + i,
            }
            for i, stage in enumerate(("START", "END"))
        ],
    }


def broken():
    """The same, with one fault of each kind that `weir check` knows."""
    made = train()
    first, second = made["segments"][:2]
    first["blocks"][0]["size"] -= 100
    first["blocks"][-1]["requested_size"] = 1 << 30
    first["blocks"][-1]["state"] = "active_allocated"
    second["allocated_size"] += 1
    made["segments"][3]["address"] = made["segments"][2]["address"] + 512
    made["device_traces"][1].append(
        dict(made["device_traces"][1][-1], action="alloc", addr=512)
    )
    return made


def large(events):
    """A trace of so many events, a third of them allocations."""
    device = Device(0, 0x7F0000000000)
    stacks = [
        [frame(f"f{i}_{j}", f"/src/{i % 7}.py", j) for j in range(24)]
        for i in range(500)
    ]
    live = []
    while len(device.trace) < events:
        n = len(device.trace)
        live.append(device.alloc(1024 + 512 * (n % 91), stacks[n % 500]))
        if len(live) > 40:
            device.free(live.pop(n % 37), stacks[(n + 1) % 500])
    return snapshot([device])


def write(folder, name, data):
    with open(os.path.join(folder, name), "wb") as out:
        out.write(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--events", type=int)
    parser.add_argument("--protocol", type=int, default=4)
    args = parser.parse_args()
    if args.events:
        made = pickle.dumps(large(args.events), args.protocol)
        write(args.folder, "large.pickle", made)
        return
    for protocol in range(6):
        write(args.folder, f"train{protocol}.pickle",
              pickle.dumps(train(), protocol))
    write(args.folder, "train.json",
          json.dumps(train(), separators=(",", ":")).encode())
    write(args.folder, "segments.pickle",
          pickle.dumps(train()["segments"], 4))
    write(args.folder, "broken.pickle", pickle.dumps(broken(), 4))


if __name__ == "__main__":
    main()
