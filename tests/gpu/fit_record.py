"""Records the memory of a small PyTorch program at given sizes.

    fit_record.py --kind KIND [--set NAME=N]... [--steps N] [-o FILE]

Writes FILE, a pickled snapshot with its history and stacks, and FILE.json with
the peaks that PyTorch itself counts. --no-history writes the peaks alone. A program that runs out of memory, as --limit-mb makes it do,
has "fits": false in FILE.json, and the exit status is 1.
The allocator's settings are PYTORCH_CUDA_ALLOC_CONF's. --list prints the kinds
and the sizes that each understands, with their defaults. A program is the same
at each run: its data comes from one seed.
"""

import argparse
import json
import os
import pickle
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

DEVICE = "cuda"


# ---- A transformer -----------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)

    def forward(self, x):
        batch, length, hidden = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, hidden))


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.first = nn.LayerNorm(hidden)
        self.attention = Attention(hidden, heads)
        self.second = nn.LayerNorm(hidden)
        self.wide = nn.Linear(hidden, 4 * hidden)
        self.narrow = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.narrow(F.gelu(self.wide(self.second(x))))


class Transformer(nn.Module):
    def __init__(self, size, checkpointed=False):
        super().__init__()
        hidden = size["hidden"]
        self.checkpointed = checkpointed
        self.embed = nn.Embedding(size["vocab"], hidden)
        self.blocks = nn.ModuleList(
            Block(hidden, 8) for _ in range(size["layers"]))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, size["vocab"], bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            if self.checkpointed:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.head(self.norm(x))


TRANSFORMER = {"batch": 4, "length": 256, "hidden": 512, "layers": 6,
               "vocab": 8000}


def words(size):
    tokens = torch.randint(size["vocab"], (size["batch"], size["length"] + 1))
    tokens = tokens.to(DEVICE)
    return tokens[:, :-1], tokens[:, 1:]


def loss_of(model, size):
    tokens, targets = words(size)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        logits = model(tokens)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train(model, size, steps, parameters=None, **kw):
    optimizer = torch.optim.AdamW(parameters or model.parameters(), lr=1e-4,
                                  **kw)
    for _ in range(steps):
        loss = loss_of(model, size)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters or model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield loss.item()


def dense(size, steps):
    return train(Transformer(size).to(DEVICE), size, steps)


def checkpointed(size, steps):
    return train(Transformer(size, checkpointed=True).to(DEVICE), size, steps)


# ---- LoRA: a frozen base, and adapters ---------------------------------------


class Adapted(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(
            torch.randn(rank, base.in_features, device=DEVICE) * 0.01)
        self.up = nn.Parameter(
            torch.zeros(base.out_features, rank, device=DEVICE))

    def forward(self, x):
        low = F.dropout(x, 0.05, training=True) @ self.down.t()
        return self.base(x) + (low @ self.up.t()) * 2.0


def lora(size, steps):
    model = Transformer(size).to(DEVICE, dtype=torch.bfloat16)
    model.requires_grad_(False)
    adapters = []
    for block in model.blocks:
        for owner, name in ((block.attention, "qkv"), (block.attention, "out"),
                            (block, "wide")):
            layer = Adapted(getattr(owner, name), size["rank"])
            setattr(owner, name, layer)
            adapters += [layer.down, layer.up]
    return train(model, size, steps, adapters)


# ---- Sharded: as FSDP gathers parameters, on one GPU -------------------------


class Shard:
    """A layer's parameters: a part in fp32 that stays, the whole in bf16 that
    is gathered before each use, and freed after."""

    def __init__(self, module, ranks, gather, reduce):
        self.gather, self.reduce = gather, reduce
        self.parameters = list(module.parameters())
        count = sum(p.numel() for p in self.parameters)
        self.numel = (count + ranks - 1) // ranks * ranks
        self.ranks = ranks
        self.part = torch.randn(self.numel // ranks, device=DEVICE) * 0.02
        self.part = nn.Parameter(self.part)
        self.full = torch.empty(self.numel, device=DEVICE,
                                dtype=torch.bfloat16)
        self.bytes = self.full.untyped_storage().nbytes()
        self.arrived = 0
        offset = 0
        for p in self.parameters:
            p.data = self.full[offset:offset + p.numel()].view(p.shape)
            offset += p.numel()
            p.register_post_accumulate_grad_hook(self.arrive)
        self.free()
        module.register_forward_pre_hook(lambda *_: self.fetch())
        module.register_forward_hook(lambda *_: self.free())
        module.register_full_backward_pre_hook(lambda *_: self.fetch())

    @torch.no_grad()
    def fetch(self):
        storage = self.full.untyped_storage()
        if storage.nbytes() != 0:
            return
        main = torch.cuda.current_stream()
        self.gather.wait_stream(main)
        with torch.cuda.stream(self.gather):
            storage.resize_(self.bytes)
            low = self.part.data.to(torch.bfloat16)
            self.full.data.view(self.ranks, -1).copy_(
                low.expand(self.ranks, -1))
        main.wait_stream(self.gather)

    def free(self):
        self.full.record_stream(torch.cuda.current_stream())
        self.full.untyped_storage().resize_(0)

    @torch.no_grad()
    def arrive(self, _):
        self.arrived += 1
        if self.arrived < len(self.parameters):
            return
        self.arrived = 0
        whole = torch.cat([p.grad.flatten() for p in self.parameters])
        whole = F.pad(whole, (0, self.numel - whole.numel()))
        for p in self.parameters:
            p.grad = None
        self.reduce.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.reduce):
            part = whole.view(self.ranks, -1).float().mean(0)
        whole.record_stream(self.reduce)
        self.part.grad = part
        self.free()


def sharded(size, steps):
    with torch.device(DEVICE):
        torch.set_default_dtype(torch.bfloat16)
        model = Transformer(size)
        torch.set_default_dtype(torch.float32)
    gather, reduce = torch.cuda.Stream(), torch.cuda.Stream()
    layers = [model.embed, *model.blocks, model.norm, model.head]
    shards = [Shard(layer, size["ranks"], gather, reduce) for layer in layers]
    optimizer = torch.optim.AdamW([s.part for s in shards], lr=1e-4)
    for _ in range(steps):
        tokens, targets = words(size)
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
        del logits
        loss.backward()
        torch.cuda.current_stream().wait_stream(reduce)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield loss.item()


# ---- Detection: as many boxes as the data has --------------------------------


def conv(inputs, outputs, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
                         nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


def overlap(a, b):
    low = torch.max(a[:, None, :2], b[None, :, :2])
    high = torch.min(a[:, None, 2:], b[None, :, 2:])
    both = (high - low).clamp(min=0).prod(2)
    area_a = (a[:, 2:] - a[:, :2]).prod(1)
    area_b = (b[:, 2:] - b[:, :2]).prod(1)
    return both / (area_a[:, None] + area_b[None] - both)


class Detector(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            conv(3, width, 2), conv(width, 2 * width, 2),
            conv(2 * width, 2 * width), conv(2 * width, 4 * width, 2),
            conv(4 * width, 4 * width), conv(4 * width, 4 * width))
        self.score = nn.Conv2d(4 * width, 9, 1)
        self.shift = nn.Conv2d(4 * width, 36, 1)
        self.inner = nn.Linear(4 * width * 49, 512)
        self.outer = nn.Linear(512, 91)

    def anchors(self, height, width):
        y, x = torch.meshgrid(torch.arange(height, device=DEVICE) * 8.0,
                              torch.arange(width, device=DEVICE) * 8.0,
                              indexing="ij")
        centre = torch.stack([x, y], -1).view(-1, 1, 2)
        half = torch.tensor([[a, b] for a in (16., 32., 64.)
                             for b in (16., 32., 64.)], device=DEVICE)
        return torch.cat([centre - half, centre + half], -1).view(-1, 4)

    def image_loss(self, features, score, shift, anchors, boxes, extent):
        ratio = overlap(anchors, boxes)
        best, which = ratio.max(1)
        good = (best > 0.4).nonzero().flatten()
        bad = (best < 0.1).nonzero().flatten()[:256]
        chosen = torch.cat([good, bad])
        truth = (torch.arange(len(chosen), device=DEVICE) < len(good)).float()
        loss = F.binary_cross_entropy_with_logits(score[chosen], truth)
        loss = loss + F.smooth_l1_loss(
            shift[good], (boxes[which[good]] - anchors[good]) / 64)
        rois = anchors[chosen[:512]]
        step = torch.linspace(-1, 1, 7, device=DEVICE)
        centre = (rois[:, :2] + rois[:, 2:]) / extent - 1
        half = (rois[:, 2:] - rois[:, :2]) / extent / 2
        grid = torch.stack([
            (centre[:, 0, None, None] + half[:, 0, None, None] * step)
            .expand(-1, 7, 7),
            (centre[:, 1, None, None] + half[:, 1, None, None]
             * step[:, None]).expand(-1, 7, 7)], -1)
        crops = F.grid_sample(features[None].expand(len(rois), -1, -1, -1),
                              grid, align_corners=False)
        classes = self.outer(F.relu(self.inner(crops.flatten(1))))
        labels = (which[chosen[:512]] % 90 + 1) * truth[:512].long()
        return loss + F.cross_entropy(classes, labels)

    def forward(self, images, targets):
        features = self.body(images)
        batch, _, height, width = features.shape
        score = self.score(features).permute(0, 2, 3, 1).reshape(batch, -1)
        shift = self.shift(features).permute(0, 2, 3, 1).reshape(batch, -1, 4)
        anchors = self.anchors(height, width)
        return sum(self.image_loss(features[i], score[i], shift[i], anchors,
                                   boxes, images.shape[-1])
                   for i, boxes in enumerate(targets)) / batch


def detection(size, steps):
    model = Detector(32).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    extent = size["image"]
    for _ in range(steps):
        images = torch.randn(size["batch"], 3, extent, extent).to(DEVICE)
        targets = []
        for _ in range(size["batch"]):
            count = random.randint(1, 40)
            corner = torch.rand(count, 2) * extent * 0.7
            extents = 16 + torch.rand(count, 2) * extent * 0.3
            targets.append(torch.cat([corner, corner + extents], 1).to(DEVICE))
        loss = model(images, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


# ---- Diffusion: a U-Net, trained, averaged, and asked for pictures -----------


class Residual(nn.Module):
    def __init__(self, inputs, outputs, times):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(8, inputs), nn.SiLU(),
                                   nn.Conv2d(inputs, outputs, 3, 1, 1))
        self.time = nn.Linear(times, outputs)
        self.second = nn.Sequential(nn.GroupNorm(8, outputs), nn.SiLU(),
                                    nn.Conv2d(outputs, outputs, 3, 1, 1))
        self.skip = (nn.Conv2d(inputs, outputs, 1) if inputs != outputs
                     else nn.Identity())

    def forward(self, x, time):
        y = self.first(x) + self.time(time)[:, :, None, None]
        return self.skip(x) + self.second(y)


class Spatial(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.attention = nn.MultiheadAttention(channels, 4, batch_first=True)

    def forward(self, x):
        y = self.norm(x).flatten(2).transpose(1, 2)
        y, _ = self.attention(y, y, y, need_weights=False)
        return x + y.transpose(1, 2).view(x.shape)


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        widths = [width, 2 * width, 4 * width]
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(),
                                  nn.Linear(4 * width, 4 * width))
        self.width = width
        self.enter = nn.Conv2d(4, width, 3, 1, 1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        before = width
        for w in widths:
            self.down.append(Residual(before, w, 4 * width))
            self.down.append(nn.Conv2d(w, w, 3, 2, 1))
            before = w
        self.middle = Residual(before, before, 4 * width)
        self.spatial = Spatial(before)
        for w in reversed(widths):
            self.up.append(nn.Upsample(scale_factor=2))
            self.up.append(Residual(before + w, w, 4 * width))
            before = w
        self.leave = nn.Conv2d(before, 4, 3, 1, 1)

    def forward(self, x, t):
        angles = t[:, None] * torch.arange(self.width, device=x.device)
        time = self.time(torch.sin(angles / self.width))
        x = self.enter(x)
        kept = []
        for first, second in zip(self.down[::2], self.down[1::2]):
            x = first(x, time)
            kept.append(x)
            x = second(x)
        x = self.spatial(self.middle(x, time))
        for first, second in zip(self.up[::2], self.up[1::2]):
            x = second(torch.cat([first(x), kept.pop()], 1), time)
        return self.leave(x)


def diffusion(size, steps):
    model = UNet(size["width"]).to(DEVICE)
    average = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    shape = (size["batch"], 4, size["image"], size["image"])
    for _ in range(steps):
        clean = torch.randn(shape).to(DEVICE)
        noise = torch.randn(shape, device=DEVICE)
        t = torch.rand(size["batch"], device=DEVICE)
        mixed = clean * (1 - t[:, None, None, None]) + noise
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = F.mse_loss(model(mixed, t).float(), noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for mean, p in zip(average, model.parameters()):
                mean.lerp_(p, 0.01)
            x = torch.randn(shape, device=DEVICE)
            for i in range(3):
                with torch.autocast(DEVICE, dtype=torch.bfloat16):
                    x = x - 0.3 * model(x, torch.full_like(t, i / 3))
        yield loss.item()


# ---- A server: prompts, then one word after the other ------------------------


@torch.no_grad()
def server(size, steps):
    """The cache of keys and values grows by torch.cat, as transformers' dynamic
    cache does; each round serves one batch and drops its cache."""
    hidden, heads = size["hidden"], 8
    layers = [{
        "qkv": nn.Linear(hidden, 3 * hidden), "out": nn.Linear(hidden, hidden),
        "wide": nn.Linear(hidden, 4 * hidden),
        "narrow": nn.Linear(4 * hidden, hidden)}
        for _ in range(size["layers"])]
    for layer in layers:
        for name in layer:
            layer[name] = layer[name].to(DEVICE, dtype=torch.bfloat16)
    embed = nn.Embedding(8000, hidden, device=DEVICE, dtype=torch.bfloat16)

    def forward(tokens, cache):
        x = embed(tokens)
        batch, length, _ = x.shape
        for i, layer in enumerate(layers):
            q, k, v = (part.view(batch, length, heads, -1).transpose(1, 2)
                       for part in layer["qkv"](x).chunk(3, -1))
            if i < len(cache):
                k = torch.cat([cache[i][0], k], 2)
                v = torch.cat([cache[i][1], v], 2)
                cache[i] = (k, v)
            else:
                cache.append((k.contiguous(), v.contiguous()))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
            x = x + layer["out"](y.transpose(1, 2).flatten(2))
            x = x + layer["narrow"](F.gelu(layer["wide"](x)))
        return (x[:, -1] @ embed.weight.t()).argmax(-1, keepdim=True)

    for _ in range(steps):
        cache = []
        tokens = torch.randint(8000, (size["batch"], size["length"]))
        tokens = forward(tokens.to(DEVICE), cache)
        for _ in range(size["answer"] - 1):
            tokens = forward(tokens, cache)
        yield tokens.sum().item()
        del cache


# ---- Compiled, and with graphs -----------------------------------------------


def compiled(size, steps):
    model = Transformer(size).to(DEVICE)
    swift = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(steps):
        torch.compiler.cudagraph_mark_step_begin()
        loss = loss_of(swift, size)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield loss.item()


def graphed(size, steps):
    model = Transformer(size).to(DEVICE, dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
    shape = (size["batch"], size["length"], size["hidden"])
    sample = torch.randn(shape, device=DEVICE, dtype=torch.bfloat16,
                         requires_grad=True)
    blocks = torch.cuda.make_graphed_callables(
        tuple(model.blocks), tuple((sample.clone().detach()
                                    .requires_grad_(),)
                                   for _ in model.blocks))
    for _ in range(steps):
        tokens, targets = words(size)
        x = model.embed(tokens)
        for block in blocks:
            x = block(x)
        logits = model.head(model.norm(x))
        loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
        del logits, x
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield loss.item()


# ---- Recording ---------------------------------------------------------------

KINDS = {
    "dense": (dense, TRANSFORMER),
    "sharded": (sharded, {**TRANSFORMER, "ranks": 4}),
    "checkpointed": (checkpointed, TRANSFORMER),
    "lora": (lora, {**TRANSFORMER, "rank": 16}),
    "detection": (detection, {"batch": 4, "image": 256}),
    "diffusion": (diffusion, {"batch": 4, "image": 64, "width": 64}),
    "server": (server, {"batch": 4, "length": 64, "answer": 32, "hidden": 512,
                        "layers": 4}),
    "compiled": (compiled, {**TRANSFORMER, "layers": 2}),
    "graphed": (graphed, {**TRANSFORMER, "layers": 4}),
}


def peaks():
    stats = torch.cuda.memory_stats()
    return {
        "allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
        "requested": stats["requested_bytes.all.peak"],
        "active": stats["active_bytes.all.peak"],
        "segments": stats["segment.all.peak"],
        "retries": stats["num_alloc_retries"],
        "allocations": stats["allocation.all.allocated"],
    }


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--stacks", choices=("python", "all"),
                        default="python")
    parser.add_argument("--no-history", action="store_true")
    parser.add_argument("--limit-mb", type=float)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("-o", "--output", default="fit.pickle")
    return parser.parse_args()


def sizes_of(args):
    size = dict(KINDS[args.kind][1])
    for text in args.set:
        name, _, number = text.partition("=")
        if name not in size:
            raise SystemExit(f"{args.kind} has no size '{name}', but: "
                             + ", ".join(size))
        size[name] = int(number)
    return size


def main():
    args = arguments()
    if args.list:
        for name, (_, size) in KINDS.items():
            print(name, *(f"{key}={n}" for key, n in size.items()))
        return
    size = sizes_of(args)
    random.seed(1)
    torch.manual_seed(1)
    if not args.no_history:
        torch.cuda.memory._record_memory_history(
            max_entries=2_000_000, stacks=args.stacks)
    total = torch.cuda.get_device_properties(0).total_memory
    if args.limit_mb:
        torch.cuda.set_per_process_memory_fraction(
            args.limit_mb * (1 << 20) / total)
    begin = time.perf_counter()
    fits, error = True, ""
    try:
        losses = list(KINDS[args.kind][0](size, args.steps))
    except torch.OutOfMemoryError as failure:
        fits, losses, error = False, [], str(failure)
    torch.cuda.synchronize()
    record = {
        "kind": args.kind, "size": size, "steps": args.steps, "fits": fits, "error": error,
        "conf": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""),
        "torch": torch.__version__, "total": total, **peaks(),
        "losses": losses, "seconds": time.perf_counter() - begin,
    }
    with open(args.output + ".json", "w") as file:
        json.dump(record, file, indent=1)
    if not args.no_history:
        with open(args.output, "wb") as file:
            pickle.dump(torch.cuda.memory._snapshot(), file)
    if not fits:
        raise SystemExit(f"{args.output}: out of memory, after allocating "
                         f"{record['allocated'] / 1e6:.1f} MB")
    print(f"{args.output}: allocated {record['allocated'] / 1e6:.1f} MB, "
          f"reserved {record['reserved'] / 1e6:.1f} MB, "
          f"{record['seconds']:.1f} s")


if __name__ == "__main__":
    main()
