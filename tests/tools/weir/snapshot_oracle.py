#!/usr/bin/env python3
"""Sums of a memory snapshot, counted by Python's own pickle: what
`weir show --json --blocks` and `weir stats --json` must come to.

    snapshot_oracle.py WEIR SNAPSHOT...

Reads the snapshot with an unpickler that imports nothing, or as JSON, runs
WEIR on it, and compares every segment, block, stack and event count. Exit
status 1, and what differs, if anything does.
"""
import collections
import json
import pickle
import subprocess
import sys


class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name}")


def load(path):
    with open(path, "rb") as file:
        first = file.read(1)
        file.seek(0)
        if first in b"{[":
            made = json.load(file)
        else:
            made = Unpickler(file).load()
    return made if isinstance(made, dict) else {"segments": made}


def ask(weir, *args):
    done = subprocess.run([weir, *args], capture_output=True, check=True)
    return json.loads(done.stdout)


def frames(entry):
    return [
        (f["name"], f["filename"], f["line"]) for f in entry.get("frames", [])
    ]


def segment_of(segment):
    """A segment as (device, address, ..., blocks), from the file."""
    blocks = segment["blocks"]
    sums = collections.Counter()
    for block in blocks:
        sums[block["state"]] += block["size"]
    active = [b for b in blocks if b["state"] != "inactive"]
    return (
        segment["device"],
        segment["address"],
        segment["stream"],
        segment["segment_type"],
        segment["total_size"],
        sums["active_allocated"],
        sums["active_pending_free"],
        sums["inactive"],
        sum(b["requested_size"] for b in active),
        [
            (b["address"], b["size"], b["requested_size"], b["state"],
             frames(b))
            for b in blocks
        ],
    )


def segment_of_weir(segment):
    """A segment as segment_of() returns it, from what weir says."""
    return (
        segment["device"],
        segment["address"],
        segment["stream"],
        segment["kind"],
        segment["reserved_bytes"],
        segment["allocated_bytes"],
        segment["pending_bytes"],
        segment["free_bytes"],
        segment["requested_bytes"],
        [
            (b["address"], b["size_bytes"], b["requested_bytes"], b["state"],
             frames(b))
            for b in segment["block_list"]
        ],
    )


def compare(weir, path):
    made = load(path)
    shown = ask(weir, "show", "--json", "--blocks", path)
    stats = ask(weir, "stats", "--json", path)
    faults = []

    here = [segment_of(s) for s in made["segments"]]
    there = [segment_of_weir(s) for s in shown["segment_list"]]
    if len(here) != len(there):
        faults.append(f"{len(here)} segments, weir says {len(there)}")
    faults += [
        f"segment {a[1]:x}: {a[:9]}, weir says {b[:9]}"
        for a, b in zip(here, there)
        if a != b
    ]
    traces = made.get("device_traces", [])
    for device in stats["devices"]:
        index = device["device"]
        mine = [s for s in here if s[0] == index]
        trace = traces[index] if index < len(traces) else []
        counted = {
            "segments": len(mine),
            "blocks": sum(len(s[9]) for s in mine),
            "reserved_bytes": sum(s[4] for s in mine),
            "allocated_bytes": sum(s[5] for s in mine),
            "active_bytes": sum(s[5] + s[6] for s in mine),
            "requested_bytes": sum(s[8] for s in mine),
            "events": dict(collections.Counter(e["action"] for e in trace)),
        }
        faults += [
            f"device {index}: {key} is {value}, weir says {device[key]}"
            for key, value in counted.items()
            if device[key] != value
        ]
    return faults, len(here), sum(map(len, traces))


def main():
    weir, *paths = sys.argv[1:]
    status = 0
    for path in paths:
        faults, segments, events = compare(weir, path)
        print(f"{path}: {segments} segments, {events} events,"
              f" {len(faults)} differences")
        for fault in faults:
            print(" ", fault)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
