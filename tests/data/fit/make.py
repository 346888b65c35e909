"""Writes recordings of a made-up training of a transformer at a batch.

    make.py FOLDER BATCH...

Each is a memory snapshot of the shape that PyTorch writes, with the history from
the program's start, in batchN.pickle.xz. All sizes are those that such a model
would have; no GPU is needed.
"""

import lzma
import os
import pickle
import sys

LAYERS, HIDDEN, LENGTH, VOCAB, STEPS = 24, 2048, 512, 32000, 4


class Recording:
    def __init__(self):
        self.events = []
        self.next = 1 << 32

    def put(self, action, block, frames):
        address, size = block
        self.events.append({
            "action": action, "addr": address, "size": size, "stream": 0,
            "time_us": len(self.events), "frames": frames})

    def take(self, size, *calls):
        """Allocate; `calls` are (function, file, line), innermost first."""
        block = (self.next, size)
        self.next += -(-size // 512) * 512
        self.put("alloc", block, [{"name": name, "filename": file,
                                   "line": line}
                                  for name, file, line in calls])
        return block

    def drop(self, block):
        self.put("free_requested", block, [])
        self.put("free_completed", block, [])


TRAIN = ("train", "train.py", 31)


def forward_layer(r, batch):
    """What a layer keeps for the backward pass."""
    wide = 2 * batch * LENGTH * HIDDEN

    def at(line):
        return (("forward", "model.py", line), TRAIN)

    kept = [r.take(wide, *at(20)), r.take(3 * wide, *at(21)),
            r.take(wide, *at(22))]
    out = r.take(wide, *at(23))
    kept += [r.take(wide, *at(25)), r.take(4 * wide, *at(26)),
             r.take(4 * wide, *at(27))]
    r.drop(out)
    return kept


def loss(r, batch):
    """Logits in bf16, then in fp32, and the gradient of these."""
    half = 2 * batch * LENGTH * VOCAB
    at = (("loss", "train.py", 14), TRAIN)
    logits = r.take(half, *at)
    exact = r.take(2 * half, *at)
    logs = r.take(2 * half, *at)
    r.drop(exact)
    gradient = r.take(2 * half)
    r.drop(logs)
    small = r.take(half)
    r.drop(gradient)
    r.drop(logits)
    return small


def backward_layer(r, batch, kept, flow, weights):
    wide = 2 * batch * LENGTH * HIDDEN
    gradients = []
    for i, size in enumerate(weights):
        inner = r.take((4 if i > 1 else 3) * wide)
        gradients.append(r.take(size))
        r.drop(inner)
    following = r.take(wide)
    r.drop(flow)
    for block in reversed(kept):
        r.drop(block)
    return following, gradients


def update(r, weights, states):
    """The optimiser: its state is made in the first step."""
    if states:
        return
    for size in weights:
        for line in (80, 81):
            states.append(r.take(2 * size, ("step", "optim/adamw.py", line),
                                 TRAIN))


def record(batch):
    r = Recording()
    square = 2 * HIDDEN * HIDDEN
    weights = [3 * square, square, 4 * square, 4 * square]
    everything = [2 * VOCAB * HIDDEN] + LAYERS * weights
    for size in everything:
        r.take(size, ("__init__", "model.py", 8), ("main", "train.py", 40))
    states = []
    for _ in range(STEPS):
        words = r.take(8 * batch * (LENGTH + 1), TRAIN)
        kept = [forward_layer(r, batch) for _ in range(LAYERS)]
        flow = loss(r, batch)
        gradients = [r.take(2 * VOCAB * HIDDEN)]
        while kept:
            flow, more = backward_layer(r, batch, kept.pop(), flow, weights)
            gradients += more
        r.drop(flow)
        update(r, everything, states)
        for gradient in gradients:
            r.drop(gradient)
        r.drop(words)
    return r.events


def main():
    folder = sys.argv[1]
    for batch in map(int, sys.argv[2:]):
        path = os.path.join(folder, f"batch{batch}.pickle.xz")
        with lzma.open(path, "wb", preset=6) as file:
            pickle.dump({"segments": [], "device_traces": [record(batch)]},
                        file, protocol=4)


if __name__ == "__main__":
    main()
