"""Shares memory of PyTorch and weir between two processes.

    PYTHONPATH=build/release/python python3 tests/gpu/torch_ipc.py [DEVICE]

The opener uses DEVICE (default: 0); the owner's memory is on device 0. Each case has an owner and an opener in processes of their own. One of them is
PyTorch, with the handles of torch.multiprocessing.reductions.reduce_tensor();
the other is weir, with weir_ipc_torch_open() or weir_ipc_torch_handle(). Both
write and both read. The last case views opened memory through the CUDA Array
Interface with an explicit device. PASS and FAIL lines; exit status 1 if any
failed.
"""
import ctypes as c
import multiprocessing
import os
import sys
import traceback

COUNT = 2333
SECONDS = 60
# Environment, because the processes are spawned.
DEVICE = int(os.environ.get("WEIR_TEST_OPENER", "0"))


class Info(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("ptr", c.c_void_p),
                ("size", c.c_size_t), ("device", c.c_int), ("home", c.c_int),
                ("owner", c.c_int), ("owner_alive", c.c_bool),
                ("event", c.c_void_p)]


class Bytes:
    """Memory at an address, for consumers of the CUDA Array Interface."""

    def __init__(self, address, size):
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (address, False),
            "version": 3}


def library():
    import weir

    found = c.CDLL(weir.library_path())
    found.weir_last_error.restype = c.c_char_p
    return found


def check(lib, status):
    if status != 0:
        raise RuntimeError(lib.weir_last_error().decode())


def expect(what, got, wanted):
    if got != wanted:
        raise AssertionError(f"{what}: {got}, not {wanted}")


# ---- PyTorch owns, weir opens ----------------------------------------------


def torch_owns(pipe, _):
    import torch
    from torch.multiprocessing.reductions import reduce_tensor

    torch.ones(1000, device="cuda")  # the tensor starts behind others
    before = torch.ones(1000, device="cuda")
    tensor = torch.arange(COUNT, dtype=torch.int64, device="cuda")
    args = reduce_tensor(tensor)[1]
    torch.cuda.synchronize()
    pipe.send((args[7], args[9], tensor.nbytes))
    expect("weir's answer", pipe.recv(), "written")
    torch.cuda.synchronize()
    expect("what weir wrote", tensor.tolist(), [7] * COUNT)
    expect("the memory beside it", before.sum().item(), 1000)
    pipe.send("seen")
    pipe.recv()


def weir_opens(pipe, view_by_torch):
    import weir

    lib = library()
    handle, offset, size = pipe.recv()
    opened = c.c_void_p()
    check(lib, lib.weir_ipc_torch_open(
        handle, c.c_size_t(len(handle)), c.c_size_t(offset),
        c.c_size_t(size), DEVICE, c.byref(opened)))
    info = Info(c.sizeof(Info))
    check(lib, lib.weir_ipc_info(opened, c.byref(info)))
    expect("size and device", (info.size, info.device), (size, DEVICE))
    memory = Bytes(info.ptr, info.size)
    if view_by_torch:
        import torch

        tensor = torch.as_tensor(memory, device=f"cuda:{DEVICE}").view(torch.int64)
        expect("the address", tensor.data_ptr(), info.ptr)
        expect("elements", tensor.tolist(), list(range(COUNT)))
        tensor.fill_(7)
        torch.cuda.synchronize()
    else:
        tensor = weir.from_cuda_array_interface(memory, DEVICE).view("int64")
        expect("the address", tensor.address, info.ptr)
        expect("elements", tensor.tolist(), list(range(COUNT)))
        tensor.fill_(7)
        tensor.synchronize()
    pipe.send("written")
    expect("PyTorch's answer", pipe.recv(), "seen")
    del tensor
    check(lib, lib.weir_ipc_close(opened, c.c_void_p(0)))
    expect("weir.check()", weir.check(), [])
    pipe.send("closed")


# ---- weir owns, PyTorch opens ----------------------------------------------


@c.CFUNCTYPE(None, c.c_void_p, c.c_void_p)
def nothing(_closure, _address):
    pass


def weir_owns(pipe, any_stream):
    import torch
    from torch.multiprocessing.reductions import reduce_tensor

    import weir

    lib = library()
    # PyTorch's counts and its event are those of a tensor of its own.
    other = torch.empty(1, device="cuda")
    counter = reduce_tensor(other)[1]
    size = 5 << 20
    stream = weir.ANY_STREAM if any_stream else None
    first = weir.malloc(1 << 20, stream)
    block = weir.malloc(size, stream)
    tensor = weir.asarray(block).view("int64")
    tensor.fill_(3)
    tensor.synchronize()
    shared = c.c_void_p()
    check(lib, lib.weir_ipc_lend(c.c_void_p(block.address), c.c_void_p(0),
                                 nothing, None, c.byref(shared)))
    length, offset = c.c_size_t(), c.c_size_t()
    lib.weir_ipc_torch_handle(shared, None, c.c_size_t(0), c.byref(length),
                              c.byref(offset))
    handle = c.create_string_buffer(length.value)
    check(lib, lib.weir_ipc_torch_handle(shared, handle, length,
                                         c.byref(length), c.byref(offset)))
    pipe.send((handle.raw, size, offset.value, counter[11:]))
    expect("PyTorch's answer", pipe.recv(), "written")
    expect("what PyTorch wrote", set(tensor.tolist()), {9})
    pipe.send("seen")
    pipe.recv()
    lib.weir_ipc_release(shared)
    del tensor, block, first
    expect("weir.check()", weir.check(), [])


def torch_opens(pipe, _):
    import torch
    from torch.multiprocessing.reductions import rebuild_cuda_tensor

    torch.cuda.set_device(DEVICE)
    torch.empty(1, device="cuda")
    handle, size, offset, counter = pipe.recv()
    tensor = rebuild_cuda_tensor(
        torch.Tensor, (size // 8,), (1,), 0, torch.UntypedStorage,
        torch.int64, DEVICE, handle, size, offset, False, *counter)
    expect("the device", tensor.get_device(), DEVICE)
    expect("elements", tensor.unique().tolist(), [3])
    tensor.fill_(9)
    torch.cuda.synchronize()
    pipe.send("written")
    expect("weir's answer", pipe.recv(), "seen")
    del tensor
    pipe.send("closed")


# ---- Cases -----------------------------------------------------------------


def run(body, pipe, argument, environment, name):
    os.environ.update(environment)
    try:
        body(pipe, argument)
    except BaseException:
        print(f"# {name}: {body.__name__}", flush=True)
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
PIECES = {"WEIR_CONF": "handle_mb:2"}
CASES = [
    ("PyTorch's memory of cudaMalloc, opened by weir",
     torch_owns, weir_opens, False, {}),
    ("PyTorch's expandable segments, opened by weir",
     torch_owns, weir_opens, False, EXPANDABLE),
    ("the same, viewed by PyTorch through the CUDA Array Interface",
     torch_owns, weir_opens, True, EXPANDABLE),
    ("weir's memory of the driver, opened by PyTorch",
     weir_owns, torch_opens, True, {}),
    ("weir's mapped memory of equal pieces, opened by PyTorch",
     weir_owns, torch_opens, False, PIECES),
]


def main():
    context = multiprocessing.get_context("spawn")
    failed = 0
    os.environ["WEIR_TEST_OPENER"] = (sys.argv[1:] or ["0"])[0]
    for name, owner, opener, argument, environment in CASES:
        ends = context.Pipe()
        both = [context.Process(target=run,
                                args=(body, end, argument, environment, name))
                for body, end in zip((owner, opener), ends)]
        for process in both:
            process.start()
        for end in ends:
            end.close()
        for process in both:
            process.join(SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
        good = all(process.exitcode == 0 for process in both)
        failed += not good
        print("PASS" if good else "FAIL", name, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
