"""Measures copies and files of weir's tensors and of PyTorch's, in one process.

    WEIR_LIB=build/release/lib/libweir.so python3 tests/gpu/tensor_bench.py

Prints the bandwidth of copies of 256 MiB (bytes read and written) with weir,
torch.Tensor.copy_ and cuMemcpyDtoDAsync, taking turns on one stream; then
saves tensors with weir, reads the file with a few lines of Python and with
weir, and compares. PASS and FAIL lines; exit status 1 if any failed.
"""
import ctypes as c
import json
import os
import struct
import sys
import time

import torch

weir = c.CDLL(os.environ["WEIR_LIB"])
cuda = c.CDLL("libcuda.so.1")
weir.weir_last_error.restype = c.c_char_p
DTYPES = {
    torch.bool: 1, torch.int8: 2, torch.int16: 3, torch.int32: 4,
    torch.int64: 5, torch.uint8: 6, torch.float16: 10, torch.bfloat16: 11,
    torch.float32: 12, torch.float64: 13, torch.complex64: 14,
    torch.complex128: 15, torch.float8_e4m3fn: 19, torch.float8_e5m2: 21,
}
failed = 0


def report(good, text):
    global failed
    failed += not good
    print("PASS" if good else "FAIL", text, flush=True)


def check(status):
    if status != 0:
        raise RuntimeError(weir.weir_last_error().decode())


class Foreign(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("data", c.c_void_p),
                ("bytes", c.c_size_t), ("memory", c.c_int),
                ("device", c.c_int), ("read_only", c.c_bool),
                ("has_stream", c.c_bool), ("stream", c.c_void_p),
                ("give", c.c_void_p), ("closure", c.c_void_p)]


class Layout(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("dtype", c.c_int),
                ("ndim", c.c_int), ("shape", c.POINTER(c.c_int64)),
                ("strides", c.POINTER(c.c_int64)),
                ("offset_bytes", c.c_size_t)]


class Named(c.Structure):
    _fields_ = [("name", c.c_char_p), ("tensor", c.c_void_p)]


def wrap(tensor, stream):
    """Make a weir tensor of a torch tensor's memory."""
    storage = tensor.untyped_storage()
    foreign = Foreign(c.sizeof(Foreign), storage.data_ptr(), storage.nbytes(),
                      0 if tensor.is_cuda else 2, 0, False, True, stream)
    n = tensor.dim()
    lengths = c.c_int64 * max(n, 1)
    layout = Layout(c.sizeof(Layout), DTYPES[tensor.dtype], n,
                    lengths(*tensor.shape), lengths(*tensor.stride()),
                    tensor.storage_offset() * tensor.element_size())
    held, out = c.c_void_p(), c.c_void_p()
    check(weir.weir_storage_wrap(c.byref(foreign), c.byref(held)))
    check(weir.weir_tensor_over(held, c.byref(layout), c.c_void_p(stream),
                                c.byref(out)))
    weir.weir_storage_release(held)
    return out


def median_ms(run, stream):
    times = []
    for _ in range(3):
        run()
    for _ in range(15):
        a, b = (torch.cuda.Event(enable_timing=True) for _ in "ab")
        a.record(stream)
        run()
        b.record(stream)
        b.synchronize()
        times.append(a.elapsed_time(b))
    return sorted(times)[len(times) // 2]


def same(a, b):
    a, b = (t.contiguous().reshape(-1) for t in (a, b))
    if a.dtype.is_floating_point and a.element_size() == 1:
        a, b = a.float(), b.float()
    return bool(((a == b) | ((a != a) & (b != b))).all())


def straight(size, stream):
    """Copy `size` bytes with cuMemcpyDtoDAsync; the bandwidth in GB/s."""
    a = torch.empty(size, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    copy = lambda: cuda.cuMemcpyDtoDAsync_v2(
        c.c_uint64(b.data_ptr()), c.c_uint64(a.data_ptr()),
        c.c_size_t(size), c.c_void_p(stream.cuda_stream))
    return 2 * size / median_ms(copy, stream) / 1e6


def case(name, source, target, stream, memory, wanted):
    a, b = wrap(source, stream.cuda_stream), wrap(target, stream.cuda_stream)
    handle = c.c_void_p(stream.cuda_stream)
    target.zero_()
    check(weir.weir_tensor_copy(b, a, handle, 0))
    stream.synchronize()
    right = same(target, source.to(target.dtype))
    size = source.numel() * (source.element_size() + target.element_size())
    ours = size / median_ms(
        lambda: weir.weir_tensor_copy(b, a, handle, 0), stream) / 1e6
    theirs = size / median_ms(
        lambda: target.copy_(source, non_blocking=True), stream) / 1e6
    weir.weir_tensor_destroy(a)
    weir.weir_tensor_destroy(b)
    report(right, f"{name}: the same elements as torch's")
    report(ours >= wanted * memory,
           f"{name}: weir {ours:.0f} GB/s, torch {theirs:.0f} GB/s, straight "
           f"{memory:.0f} GB/s: {100 * ours / memory:.1f} % of straight, "
           f"{ours / theirs:.2f} of torch")


def transpose(dtype, rows, columns, stream, memory, wanted):
    source = torch.randn(rows, columns, dtype=dtype, device="cuda") \
        if dtype.is_complex else \
        (torch.randn(rows, columns, device="cuda") * 50).abs().clamp(
            max=255).to(dtype)
    case(f"transpose {dtype} {rows} x {columns}", source.t(),
         torch.empty(columns, rows, dtype=dtype, device="cuda"), stream,
         memory, wanted)


def bench(stream):
    size = 256 << 20
    memory = straight(size, stream)
    make = lambda dtype, *shape: (
        torch.randn(*shape, device="cuda") * 50).to(dtype)
    n = size // 4
    f32 = make(torch.float32, n)
    case("contiguous float32", f32, torch.empty_like(f32), stream, memory,
         0.95)
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int32,
                  torch.int64, torch.uint8, torch.float8_e4m3fn):
        # Beyond a byte's range PyTorch gives what the processor gives.
        source = f32 if dtype is not torch.uint8 else f32.abs().clamp(max=255)
        to = torch.empty(n, dtype=dtype, device="cuda")
        case(f"float32 to {dtype}", source, to, stream, memory, 0.85)
        case(f"{dtype} to float32", to, torch.empty_like(f32), stream, memory,
             0.85)
    for dtype in (torch.uint8, torch.float16, torch.float32, torch.float64,
                  torch.complex128):
        count = size // torch.empty(0, dtype=dtype).element_size()
        rows = 1 << (count.bit_length() - 1) // 2
        transpose(dtype, rows, count // rows, stream, memory, 0.85)
    # Rows that are no whole words.
    transpose(torch.uint8, 16383, 16385, stream, memory, 0)
    transpose(torch.float16, 11585, 11585, stream, memory, 0)
    cube = make(torch.float32, 64, 1024, 1024)
    case("permute float32 (2, 0, 1)", cube.permute(2, 0, 1),
         torch.empty(1024, 64, 1024, device="cuda"), stream, memory, 0.85)
    case("permute float32 (1, 0, 2)", cube.permute(1, 0, 2),
         torch.empty(1024, 64, 1024, device="cuda"), stream, memory, 0.85)
    del cube
    wide = make(torch.float32, 8192, 8192 + 64)
    case("rows with gaps float32", wide[:, :8192],
         torch.empty(8192, 8192, device="cuda"), stream, memory, 0.85)
    case("every second float32", f32[::2],
         torch.empty(n // 2, device="cuda"), stream, memory, 0.4)
    case("transpose float32 to float16", wide[:, :8192].t(),
         torch.empty(8192, 8192, dtype=torch.float16, device="cuda"), stream,
         memory, 0.7)


def read_plain(path):
    """Read a safetensors file as its format is specified."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    names = {"F32": torch.float32, "F16": torch.float16, "I64": torch.int64,
             "BF16": torch.bfloat16, "U8": torch.uint8, "BOOL": torch.bool}
    header.pop("__metadata__", None)
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype = names[entry["dtype"]]
        out[name] = torch.frombuffer(data[begin:end] or bytearray(1),
                                     dtype=torch.uint8)[:end - begin] \
            .view(dtype).reshape(entry["shape"])
    return out


def files(stream):
    path = "/tmp/weir_tensor_bench.safetensors"
    tensors = {
        "f32": torch.randn(1000, 77, device="cuda"),
        "f16": torch.randn(3, 5, 7, device="cuda").half(),
        "bf16": torch.randn(9, device="cuda").bfloat16(),
        "i64": torch.arange(12, device="cuda").reshape(3, 4).t(),
        "bool": torch.tensor([True, False], device="cuda"),
        "cpu": torch.arange(5.0),
        "large": torch.randn(256 << 20, device="cuda"),
    }
    torch.cuda.synchronize()
    named = (Named * len(tensors))(*[
        Named(name.encode(), wrap(t, stream.cuda_stream))
        for name, t in tensors.items()])
    start = time.perf_counter()
    check(weir.weir_save(path.encode(), named, c.c_size_t(len(tensors)),
                         None))
    print(f"saved {os.path.getsize(path) / 2**30:.2f} GiB in "
          f"{time.perf_counter() - start:.3f} s", flush=True)
    plain = read_plain(path)
    for name, tensor in tensors.items():
        report(torch.equal(plain[name], tensor.cpu()),
               f"file: {name} read by plain Python")
    del plain
    check_load(path, tensors, stream)
    os.unlink(path)


def check_load(path, tensors, stream):
    loaded = c.c_void_p()
    for turn in range(2):
        start = time.perf_counter()
        check(weir.weir_load(path.encode(), None, c.byref(loaded)))
        ours = time.perf_counter() - start
        find = weir.weir_loaded_find
        find.restype = c.c_void_p
        if turn == 0:
            for name, tensor in tensors.items():
                got = torch.empty_like(tensor).cuda()
                to = wrap(got, stream.cuda_stream)
                check(weir.weir_tensor_copy(
                    to, c.c_void_p(find(loaded, name.encode())),
                    c.c_void_p(stream.cuda_stream), 0))
                stream.synchronize()
                report(torch.equal(got.cpu(), tensor.cpu()),
                       f"file: {name} loaded by weir")
                weir.weir_tensor_destroy(to)
        weir.weir_loaded_drop(loaded)
    # In sequence: out of the page cache into page-locked memory, then over.
    size = os.path.getsize(path)
    pinned = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(size, dtype=torch.uint8, device="cuda")
    view = memoryview(pinned.numpy())
    best = 1e9
    for _ in range(2):
        start = time.perf_counter()
        with open(path, "rb", buffering=0) as file:
            at = 0
            while at < size:
                at += file.readinto(view[at:])
        device.copy_(pinned)
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    report(ours < best, f"file: {size / 2**30:.2f} GiB loaded in {ours:.3f} s,"
           f" {size / ours / 1e9:.1f} GB/s; in sequence {best:.3f} s")


def main():
    torch.manual_seed(1)
    stream = torch.cuda.Stream()
    print(torch.cuda.get_device_name(), torch.__version__, flush=True)
    with torch.cuda.stream(stream):
        bench(stream)
        files(stream)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
