"""Peers of weir-bench in Python.

    peers.py flags      print flags of g++ for torch_peer.cpp, one a line
    peers.py torch      measure PyTorch's allocator, from Python
    peers.py cupy       measure CuPy's memory pool, from Python

The last two print "ready", or the reason why they cannot run. Then they answer
each line "SIZE N" of their input with the seconds of N pairs of malloc and free
of SIZE bytes. This time includes Python's own time for a round, so that the
names of these peers end in "-python".
"""

import glob
import inspect
import itertools
import os
import sys
import time


def loaded_library(name):
    """The path of a library that this process has loaded, or None."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            if os.path.basename(path).startswith(name):
                return path
    return None


def include_folders(torch):
    from torch.utils import cpp_extension

    try:
        folders = list(cpp_extension.include_paths("cuda"))
    except (OSError, TypeError):  # no toolkit, or an older PyTorch
        folders = list(cpp_extension.include_paths())
    # Without a toolkit the headers of the runtime are in its package.
    packages = os.path.dirname(os.path.dirname(torch.__file__))
    for header in glob.glob(packages +
                            "/nvidia/*/include/cuda_runtime_api.h"):
        folders.append(os.path.dirname(header))
    folders.append("/usr/local/cuda/include")
    return [folder for folder in folders if os.path.isdir(folder)]


def flags():
    import torch
    from torch.utils import cpp_extension

    # Loads what PyTorch's own libraries need.
    torch.cuda.init()
    source = inspect.getsource(cpp_extension)
    libraries = os.path.join(os.path.dirname(torch.__file__), "lib")
    runtime = loaded_library("libcudart.so")
    if runtime is None:
        raise SystemExit("PyTorch has not loaded libcudart.so")
    out = ["-std=c++20" if "-std=c++20" in source else "-std=c++17",
           f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    out += ["-isystem" + folder for folder in include_folders(torch)]
    out += [f"-L{libraries}", "-lc10_cuda", "-lc10", runtime,
            # DT_RPATH, the older tag, also finds the libraries that these
            # libraries need; DT_RUNPATH does not.
            "-Wl,--disable-new-dtags",
            f"-Wl,-rpath,{libraries}",
            f"-Wl,-rpath,{os.path.dirname(runtime)}"]
    print("\n".join(out))


def torch_pairs():
    import torch

    torch.cuda.init()
    stream = torch.cuda.Stream()
    malloc = torch.cuda.memory.caching_allocator_alloc
    free = torch.cuda.memory.caching_allocator_delete

    def pairs(size, n):
        for _ in itertools.repeat(None, n):
            free(malloc(size, 0, stream))

    return pairs


def cupy_pairs():
    import cupy

    pool = cupy.cuda.MemoryPool()
    stream = cupy.cuda.Stream(non_blocking=True)
    malloc = pool.malloc

    def pairs(size, n):
        with stream:
            for _ in itertools.repeat(None, n):
                malloc(size)  # freed at once: nothing holds it

    return pairs


def serve(make_pairs):
    try:
        pairs = make_pairs()
        pairs(512, 1)
    except Exception as error:  # weir-bench prints any reason
        print(f"{type(error).__name__}: {error}".replace("\n", " "))
        return
    print("ready", flush=True)
    for line in sys.stdin:
        size, n = map(int, line.split())
        start = time.perf_counter()
        pairs(size, n)
        print(time.perf_counter() - start, flush=True)


def main():
    what = sys.argv[1] if len(sys.argv) == 2 else None
    if what == "flags":
        flags()
    elif what == "torch":
        serve(torch_pairs)
    elif what == "cupy":
        serve(cupy_pairs)
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
