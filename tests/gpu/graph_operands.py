"""Which memory may replace which in an instantiated graph, on one or two GPUs.

    graph_operands.py
    weir run -- graph_operands.py

A copy node and a fill node are made with memory of one kind, and then updated
to memory of each other kind: by cuGraphExecMemcpyNodeSetParams() and
cuGraphExecMemsetNodeSetParams(), and by cuGraphExecUpdate(). Tables show what
the driver said: "." if it accepted the memory and the graph then moved the
right bytes, "x" if it moved others, "o" if it accepted memory that this device
may not touch (so the graph was not run), else the error's number; "!" stands
before an error of the node's making. Rows are the memory at instantiation,
columns the memory at the update.

Memory of one entry point or one pool is one kind to a program. So the program
exits with 1 if two blocks of one kind, of any size and age, do not replace each
other.
"""

import ctypes
import sys
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

BYTES = 512
LARGE = 32 << 20
CONTEXT, MEMORY_TYPE, MAPPED, ORDINAL, POOL = 1, 2, 13, 9, 17
DEVICE, UNIFIED = 2, 4
cuda = ctypes.CDLL("libcuda.so.1")


class Failure(Exception):
    pass


def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code != 0:
        raise Failure(f"{name}: {code}")


class Copy(ctypes.Structure):
    """CUDA_MEMCPY3D."""

    _fields_ = [(side + name, kind) for side in ("src", "dst")
                for name, kind in (
                    ("X", c_size_t), ("Y", c_size_t), ("Z", c_size_t),
                    ("LOD", c_size_t), ("Type", c_int), ("Host", c_void_p),
                    ("Device", c_uint64), ("Array", c_void_p),
                    ("Reserved", c_void_p), ("Pitch", c_size_t),
                    ("Rows", c_size_t))]
    _fields_ += [("Width", c_size_t), ("Height", c_size_t),
                 ("Depth", c_size_t)]


class Fill(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS."""

    _fields_ = [("dst", c_uint64), ("pitch", c_size_t), ("value", c_uint),
                ("element", c_uint), ("width", c_size_t),
                ("height", c_size_t)]


class Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", c_int)]


class PoolProps(ctypes.Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location),
                ("security", c_void_p), ("max_size", c_size_t),
                ("usage", ctypes.c_ushort), ("reserved", ctypes.c_ubyte * 54)]


class MemoryProps(ctypes.Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location),
                ("security", c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Result(ctypes.Structure):
    _fields_ = [("result", c_int), ("node", c_void_p), ("from", c_void_p)]


contexts = []


def enter(device):
    call("cuCtxSetCurrent", contexts[device])


def alloc(size):
    out = c_uint64()
    call("cuMemAlloc_v2", byref(out), c_size_t(size))
    return out.value


def alloc_async(size):
    out = c_uint64()
    call("cuMemAllocAsync", byref(out), c_size_t(size), None)
    return out.value


def make_pool(device):
    pool = c_void_p()
    props = PoolProps(1, 0, Location(1, device))
    call("cuMemPoolCreate", byref(pool), byref(props))
    return pool


def open_pool(pool, device):
    access = Access(Location(1, device), 3)
    call("cuMemPoolSetAccess", pool, byref(access), c_size_t(1))


def from_pool(pool, size):
    out = c_uint64()
    call("cuMemAllocFromPoolAsync", byref(out), c_size_t(size), pool, None)
    return out.value


def mapped(device, users):
    props = MemoryProps(1, 0, Location(1, device))
    handle, out = c_uint64(), c_uint64()
    call("cuMemCreate", byref(handle), c_size_t(LARGE), byref(props),
         c_uint64(0))
    call("cuMemAddressReserve", byref(out), c_size_t(LARGE), c_size_t(0),
         c_uint64(0), c_uint64(0))
    call("cuMemMap", out, c_size_t(LARGE), c_size_t(0), handle, c_uint64(0))
    access = (Access * len(users))(*[Access(Location(1, u), 3)
                                     for u in users])
    call("cuMemSetAccess", out, c_size_t(LARGE), access, c_size_t(len(users)))
    return out.value


def managed(size):
    out = c_uint64()
    call("cuMemAllocManaged", byref(out), c_size_t(size), c_uint(1))
    return out.value


def pinned(size, flags=2):
    out = c_void_p()
    call("cuMemHostAlloc", byref(out), c_size_t(size), c_uint(flags))
    return out.value


def registered(size, keep=[]):
    keep.append(ctypes.create_string_buffer(size + 8192))
    start = (ctypes.addressof(keep[-1]) + 4095) & ~4095
    call("cuMemHostRegister_v2", c_void_p(start), c_size_t(size), c_uint(2))
    return start


SIZES = (512, 4096, 100_000, 1 << 20, 3 << 20, LARGE)


def sized(function):
    """A function that makes a block of each size."""
    return lambda: [function(size) for size in SIZES]


def opened(device, user):
    """Blocks of a pool from before and after it is opened to a device."""
    pool = make_pool(device)
    blocks = [from_pool(pool, size) for size in SIZES]
    open_pool(pool, user)
    return blocks + [from_pool(pool, size) for size in SIZES]


def kinds_of(device, count):
    """Pairs of a name and a function that makes the blocks of a kind."""
    pool = make_pool(device)
    kinds = [("alloc", sized(alloc)), ("async", sized(alloc_async)),
             ("pool", sized(lambda size: from_pool(pool, size)))]
    for other in range(count):
        if other != device:
            kinds.append((f"opened{other}",
                          lambda other=other: opened(device, other)))
            kinds.append((f"map-both{other}", lambda other=other: [
                mapped(device, (device, other)) for _ in range(2)]))
    kinds.append(("map", lambda: [mapped(device, (device,))
                                  for _ in range(2)]))
    kinds.append(("managed", sized(managed)))
    kinds.append(("pinned", sized(pinned)))
    kinds.append(("portable", sized(lambda size: pinned(size, 3))))
    kinds.append(("registered", sized(registered)))
    return [(f"{name}@{device}", function) for name, function in kinds]


def attribute(address, which, kind):
    out = kind()
    code = cuda.cuPointerGetAttribute(byref(out), c_int(which),
                                      c_uint64(address))
    return out.value if code == 0 else f"error {code}"


def copy_params(to, source, kind):
    params = Copy()
    for side, address in (("src", source), ("dst", to)):
        setattr(params, side + "Type", kind)
        setattr(params, side + "Device", address)
        setattr(params, side + "Pitch", BYTES)
        setattr(params, side + "Rows", 1)
    params.Width, params.Height, params.Depth = BYTES, 1, 1
    return params


def fill_params(to):
    return Fill(to, BYTES, 0xC3, 1, BYTES, 1)


def add(graph, node, params):
    name = ("cuGraphAddMemcpyNode" if isinstance(params, Copy)
            else "cuGraphAddMemsetNode")
    call(name, byref(node), graph, None, c_size_t(0), byref(params),
         contexts[0])


def set_node(executable, node, params):
    name = ("cuGraphExecMemcpyNodeSetParams" if isinstance(params, Copy)
            else "cuGraphExecMemsetNodeSetParams")
    return getattr(cuda, name)(executable, node, byref(params), contexts[0])


def set_all(executable, params):
    """Update all, as from a graph made anew; the code, 1 if none is made."""
    graph, node, result = c_void_p(), c_void_p(), Result()
    call("cuGraphCreate", byref(graph), c_uint(0))
    try:
        add(graph, node, params)
        code = cuda.cuGraphExecUpdate_v2(executable, graph, byref(result))
    except Failure:
        code = 1
    call("cuGraphDestroy", graph)
    return code


def peek(address):
    out = (ctypes.c_ubyte * BYTES)()
    call("cuMemcpy", c_uint64(ctypes.addressof(out)), c_uint64(address),
         c_size_t(BYTES))
    return bytes(out)


def put(address, byte):
    source = (ctypes.c_ubyte * BYTES)(*[byte] * BYTES)
    call("cuMemcpy", c_uint64(address), c_uint64(ctypes.addressof(source)),
         c_size_t(BYTES))


def try_pair(before, after, update, launch):
    """`before` and `after` are of operands()."""
    graph, node, executable = c_void_p(), c_void_p(), c_void_p()
    call("cuGraphCreate", byref(graph), c_uint(0))
    try:
        add(graph, node, before[0])
        call("cuGraphInstantiateWithFlags", byref(executable), graph,
             c_uint64(0))
    except Failure as failure:
        return "!" + str(failure).rsplit(" ", 1)[1]
    params, target, prepare, expected = after
    code = (set_all(executable, params) if update
            else set_node(executable, node, params))
    answer = str(code) if code else "o"
    if code == 0 and launch:
        prepare()
        call("cuGraphLaunch", executable, None)
        call("cuStreamSynchronize", None)
        answer = "." if peek(target) == bytes([expected] * BYTES) else "x"
    call("cuGraphExecDestroy", executable)
    call("cuGraphDestroy", graph)
    return answer


def prepare_both(source, target):
    put(source, 0x5A)
    put(target, 0)


def operands(anchor):
    """The tables: a title, what is done with a block, and how it is updated.

    What is done is (parameters, address to read, a function that prepares the
    bytes, the byte to find).
    """
    def copy_from(block, kind):
        return (copy_params(anchor, block, kind), anchor,
                lambda: prepare_both(block, anchor), 0x5A)

    def copy_to(block, kind):
        return (copy_params(block, anchor, kind), block,
                lambda: prepare_both(anchor, block), 0x5A)

    def fill(block):
        return fill_params(block), block, lambda: put(block, 0), 0xC3

    for update, suffix in ((False, "set the node's parameters"),
                           (True, "update the whole")):
        yield f"copy from, {suffix}", lambda b: copy_from(b, DEVICE), update
        yield f"copy to, {suffix}", lambda b: copy_to(b, DEVICE), update
        yield (f"copy from, unified, {suffix}",
               lambda b: copy_from(b, UNIFIED), update)
        yield (f"copy to, unified, {suffix}",
               lambda b: copy_to(b, UNIFIED), update)
        yield f"fill, {suffix}", fill, update


def print_table(title, names, answers):
    width = max(map(len, names))
    print(f"\n{title}")
    print(" " * (width + 5) + " ".join(f"{i:>3}" for i in range(len(names))))
    for i, name in enumerate(names):
        print(f"{i:3} {name:{width}} "
              + " ".join(f"{a:>3}" for a in answers[i]))


def reachable(name, peered):
    """May device 0 touch memory of this kind?"""
    return name.endswith("@0") or name.startswith(
        ("opened0", "map-both0", "managed")) or (
            peered and name.startswith("alloc"))


def make_kinds(count):
    kinds = []
    for device in range(count):
        enter(device)
        for name, function in kinds_of(device, count):
            try:
                kinds.append((name, function()))
            except Failure as failure:
                print(f"{name}: left out, {failure}")
    enter(0)
    return kinds


def show_kinds(kinds):
    print("kind, then of its first and last block: context, memory type, "
          "mapped, device, pool")
    for name, blocks in kinds:
        print(f"{name:12}", *[
            (attribute(b, CONTEXT, c_void_p), attribute(b, MEMORY_TYPE, c_uint),
             attribute(b, MAPPED, c_uint), attribute(b, ORDINAL, c_int),
             attribute(b, POOL, c_void_p)) for b in (blocks[0], blocks[-1])])


def check_within(kinds, title, make, update, peered):
    """Each pair of one kind's blocks; the number of kinds that fail."""
    failed = 0
    for name, blocks in kinds:
        launch = reachable(name, peered)
        answers = [[try_pair(make(a), make(b), update, launch)
                    for b in blocks] for a in blocks]
        seen = {answer for row in answers for answer in row}
        # A graph that cannot be made says nothing about updates.
        if all(a[0] == "!" for a in seen) or seen <= {".", "o"}:
            continue
        failed += 1
        print_table(f"{name}, within itself: {title}",
                    [str(i) for i in range(len(blocks))], answers)
    return failed


def run_tables(kinds, peered):
    """Print all tables; the number of kinds that are several."""
    failed = 0
    anchor = alloc(BYTES)
    names = [name for name, _ in kinds]
    for title, make, update in operands(anchor):
        answers = [[try_pair(make(before[0]), make(after[-1]), update,
                             reachable(name, peered))
                    for name, after in kinds] for _, before in kinds]
        print_table(title, names, answers)
        failed += check_within(kinds, title, make, update, peered)
    return failed


def run_mode(count, peered):
    for device in range(count if peered else 0):
        enter(device)
        call("cuCtxEnablePeerAccess", contexts[1 - device], c_uint(0))
    enter(0)
    print(f"\n==== {count} devices, peer access {'on' if peered else 'off'}")
    kinds = make_kinds(count)
    show_kinds(kinds)
    return run_tables(kinds, peered)


def main():
    count = c_int()
    call("cuInit", c_uint(0))
    call("cuDeviceGetCount", byref(count))
    count = min(count.value, 2)
    for device in range(count):
        contexts.append(c_void_p())
        call("cuDevicePrimaryCtxRetain", byref(contexts[-1]), c_int(device))
    failed = run_mode(count, False)
    if count > 1:
        failed += run_mode(count, True)
    print(f"\n{failed} tables in which memory of one kind does not replace "
          "memory of that kind")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
