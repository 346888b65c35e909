"""Numba kernels over arrays of many sizes; prints what was computed.

The line printed bare and under weir must be equal: all arithmetic is of
integers. Numba frees late and in batches. The time is printed to stderr.
"""

import hashlib
import sys
import time

import numpy

# Numba's older releases import a name that NumPy has given up.
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack

from numba import cuda  # noqa: E402

ROUNDS = 120
THREADS = 256


@cuda.jit
def scale(x, y, factor):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * factor + i


@cuda.jit
def neighbours(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + x[(i + 1) % x.size]


def fill_whole_arrays():
    """Fill arrays by Numba's own device_memset() over its device_memory_size(),
    which asks for the extent of an allocation by address; their neighbours keep
    their content. Gives the sums, which are equal bare and under weir."""
    driver = cuda.cudadrv.driver
    sums = []
    for make in (cuda.device_array, cuda.mapped_array):
        arrays = [make(1000, numpy.uint8) for _ in range(3)]
        for value, array in enumerate(arrays, 1):
            size = driver.device_memory_size(array)
            assert size >= 1000
            driver.device_memset(array, value, size)
        cuda.synchronize()
        for array in arrays:
            host = array.copy_to_host() if make is cuda.device_array else array
            sums.append(int(host.astype(numpy.int64).sum()))
    pinned = cuda.pinned_array(1000, numpy.uint8)
    pinned[:] = 7
    device = cuda.to_device(pinned)
    driver.device_memset(device, 0, driver.device_memory_size(device))
    sums.append(int(pinned.astype(numpy.int64).sum()))
    sums.append(int(device.copy_to_host().astype(numpy.int64).sum()))
    return sums


def main():
    start = time.time()
    random = numpy.random.default_rng(7)
    streams = [cuda.stream() for _ in range(3)]
    digest = hashlib.sha256()
    kept = []
    for i in range(ROUNDS):
        stream = streams[i % len(streams)]
        n = int(random.integers(1, 1_000_000))
        host = random.integers(0, 1000, n)
        blocks = (n + THREADS - 1) // THREADS
        x = cuda.to_device(host, stream=stream)
        y = cuda.device_array(n, numpy.int64, stream=stream)
        scale[blocks, THREADS, stream](x, y, i)
        z = cuda.device_array(n, numpy.int64, stream=stream)
        neighbours[blocks, THREADS, stream](y, z)
        kept.append((z, stream))
        if len(kept) > 8:
            array, its = kept.pop(int(random.integers(0, 8)))
            result = array.copy_to_host(stream=its)
            its.synchronize()
            digest.update(result.tobytes())
    for array, its in kept:
        result = array.copy_to_host(stream=its)
        its.synchronize()
        digest.update(result.tobytes())
    sums = fill_whole_arrays()
    assert sums == [1000, 2000, 3000, 1000, 2000, 3000, 7000, 0], sums
    print(digest.hexdigest())
    print(f"{time.time() - start:.2f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
