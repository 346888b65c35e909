"""CuPy arrays of many sizes on several streams; prints what was computed.

    python3 tests/gpu/cupy_arrays.py none     CuPy's own pool is off: cudaMalloc
    python3 tests/gpu/cupy_arrays.py async    MemoryAsyncPool: cudaMallocAsync
    python3 tests/gpu/cupy_arrays.py pool     CuPy's own pools
    python3 tests/gpu/cupy_arrays.py weir     weir.cupy.install()

The lines printed bare and on weir must be equal: all arithmetic is of
integers. The time is printed to stderr.
"""

import hashlib
import sys
import time

import cupy
import numpy

ROUNDS = 150
STREAMS = 4


def choose(kind):
    if kind == "pool":
        return
    if kind == "weir":
        import weir.cupy

        weir.cupy.install()
        return
    if kind == "async":
        cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    elif kind == "none":
        cupy.cuda.set_allocator(None)
    else:
        sys.exit(f"cupy_arrays.py: {kind!r}: give none, async, pool or weir")
    cupy.cuda.set_pinned_memory_allocator(None)


def main():
    choose(sys.argv[1] if len(sys.argv) > 1 else "none")
    start = time.time()
    random = numpy.random.default_rng(5)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(STREAMS)]
    held = [[] for _ in streams]
    digest = hashlib.sha256()
    for i in range(ROUNDS):
        k = i % STREAMS
        with streams[k]:
            n = int(random.integers(1, 2_000_000))
            x = cupy.arange(n, dtype=cupy.int64)
            y = cupy.cumsum(x * 3 + i)
            z = cupy.sort(y[::-1])[: min(n, 5000)]
            held[k].append(z ^ i)
            if len(held[k]) > 6:
                digest.update(held[k].pop(int(random.integers(0, 6))).get()
                              .tobytes())
            del x, y, z
    for stream, arrays in zip(streams, held):
        with stream:
            for array in arrays:
                digest.update(array.get().tobytes())
    matrix = cupy.arange(1_000_000, dtype=cupy.int64).reshape(1000, 1000) % 97
    digest.update((matrix @ matrix).get().tobytes())
    print(digest.hexdigest())
    print(f"{time.time() - start:.2f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
