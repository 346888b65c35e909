"""Registers weir's memory with NCCL, on all GPUs of the machine.

    nccl_register.py

One process, one communicator a GPU. For blocks of a registrable pool, and for
ordinary ones: ncclCommRegister, a window, an all-reduce in place with its
result looked at, and the calls that undo it. A line each, with what NCCL said;
exits with 1 if anything of the registrable pool failed. With one GPU the
registrations are shown, and the all-reduce is a copy.
"""

import ctypes
import glob
import os
import sys

import weir

INT32, SUM = 2, 0
SYMMETRIC = 1
COUNT = 8 << 20


def library():
    for place in sys.path:
        found = glob.glob(os.path.join(place, "nvidia/nccl/lib/libnccl.so.2"))
        if found:
            return ctypes.CDLL(found[0])
    return ctypes.CDLL("libnccl.so.2")


class Failure(Exception):
    pass


class Nccl:
    def __init__(self):
        self.lib = library()
        self.lib.ncclGetErrorString.restype = ctypes.c_char_p
        version = ctypes.c_int()
        self.lib.ncclGetVersion(ctypes.byref(version))
        self.version = version.value

    def __getattr__(self, name):
        function = getattr(self.lib, "nccl" + name)

        def call(*args):
            code = function(*args)
            if code != 0:
                text = self.lib.ncclGetErrorString(code).decode()
                raise Failure(f"nccl{name}: {text} ({code})")

        return call


def pointer(address):
    return ctypes.c_void_p(address)


class Rank:
    def __init__(self, nccl, device, comm):
        self.nccl, self.device, self.comm = nccl, device, comm
        with weir.device(device):
            self.stream = weir.Stream(device)

    def allocate(self, pool):
        with weir.device(self.device):
            self.memory = weir.malloc(COUNT * 4, self.stream,
                                      device=self.device, pool=pool)
        tensor = weir.from_cuda_array_interface(View(self.memory))
        with self.stream:
            tensor.fill_(self.device + 1)
        self.tensor = tensor


class View:
    """A block as an array of int32."""

    def __init__(self, memory):
        self.memory = memory
        self.__cuda_array_interface__ = {
            "shape": (COUNT,), "typestr": "<i4", "strides": None,
            "data": (memory.address, False), "version": 3}


def each(nccl, ranks, act):
    """Make a call for each rank, as one group, because they may wait for each other."""
    nccl.GroupStart()
    for rank in ranks:
        with weir.device(rank.device):
            act(rank)
    nccl.GroupEnd()


def reduce(nccl, ranks):
    expected = sum(rank.device + 1 for rank in ranks)
    each(nccl, ranks, lambda r: nccl.AllReduce(
        pointer(r.memory.address), pointer(r.memory.address),
        ctypes.c_size_t(COUNT), INT32, SUM, r.comm,
        pointer(r.stream.handle)))
    for rank in ranks:
        rank.stream.synchronize()
        if set(memoryview(rank.tensor.to("cpu"))) != {expected}:
            raise Failure(f"device {rank.device}: a wrong sum")


def registered(nccl, ranks):
    handles = []
    for rank in ranks:
        handle = ctypes.c_void_p()
        nccl.CommRegister(rank.comm, pointer(rank.memory.address),
                          ctypes.c_size_t(COUNT * 4), ctypes.byref(handle))
        handles.append(handle)
    reduce(nccl, ranks)
    for rank, handle in zip(ranks, handles):
        nccl.CommDeregister(rank.comm, handle)
    return f"handles {[bool(h.value) for h in handles]}"


def window(nccl, ranks):
    windows = [ctypes.c_void_p() for _ in ranks]
    each(nccl, ranks, lambda r: nccl.CommWindowRegister(
        r.comm, pointer(r.memory.address), ctypes.c_size_t(COUNT * 4),
        ctypes.byref(windows[ranks.index(r)]), SYMMETRIC))
    reduce(nccl, ranks)
    for rank, made in zip(ranks, windows):
        nccl.CommWindowDeregister(rank.comm, made)
    return f"windows {[bool(w.value) for w in windows]}"


def main():
    nccl = Nccl()
    n = weir.device_count()
    comms = (ctypes.c_void_p * n)()
    nccl.CommInitAll(comms, n, (ctypes.c_int * n)(*range(n)))
    ranks = [Rank(nccl, i, ctypes.c_void_p(comms[i])) for i in range(n)]
    failed = 0
    print(f"NCCL {nccl.version}, {n} devices", flush=True)
    for kind in ("registrable", "ordinary"):
        for act in (registered, window):
            pools = [weir.Pool(i, registrable=True) for i in range(n)] \
                if kind == "registrable" else [None] * n
            for rank, pool in zip(ranks, pools):
                rank.allocate(pool)
            try:
                print(f"PASS {kind} {act.__name__}: {act(nccl, ranks)}",
                      flush=True)
            except Failure as error:
                failed += kind == "registrable"
                word = "FAIL" if kind == "registrable" else "no  "
                print(f"{word} {kind} {act.__name__}: {error}", flush=True)
            for rank in ranks:
                rank.tensor = rank.memory = None
    for comm in comms:
        nccl.CommDestroy(ctypes.c_void_p(comm))
    sys.exit(failed > 0)


main()
