"""Measures an allocation and its free through PyTorch.

    torch_bench.py [--native]

From C++ by raw_alloc() and raw_delete(), by one thread and by sixteen with a
stream each, and from Python by torch.empty(); del. Prints nanoseconds a pair,
the best of several runs.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
import time

if "--native" not in sys.argv:
    import weir.torch

    weir.torch.install()

import torch  # noqa: E402

SOURCE = r"""
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <atomic>
#include <chrono>
#include <thread>
namespace caching = c10::cuda::CUDACachingAllocator;
static double one(size_t size, long pairs, int depth)
{
	void *held[16];
	auto begin = std::chrono::steady_clock::now();
	for (long i = 0; i < pairs; i += depth) {
		for (int k = 0; k < depth; k++)
			held[k] = caching::raw_alloc(size);
		for (int k = 0; k < depth; k++)
			caching::raw_delete(held[k]);
	}
	std::chrono::duration<double, std::nano> took =
	    std::chrono::steady_clock::now() - begin;
	return took.count() / pairs;
}
extern "C" double pair_ns(size_t size, long pairs, int depth)
{
	return one(size, pairs, depth);
}
extern "C" double device_ns(long n)
{
	auto begin = std::chrono::steady_clock::now();
	for (long i = 0; i < n; i++)
		(void)c10::cuda::current_device();
	std::chrono::duration<double, std::nano> took =
	    std::chrono::steady_clock::now() - begin;
	return took.count() / n;
}
extern "C" double stream_ns(long n)
{
	auto begin = std::chrono::steady_clock::now();
	for (long i = 0; i < n; i++)
		(void)c10::cuda::getCurrentCUDAStream(0);
	std::chrono::duration<double, std::nano> took =
	    std::chrono::steady_clock::now() - begin;
	return took.count() / n;
}
extern "C" double profiling_ns(long n)
{
	auto begin = std::chrono::steady_clock::now();
	for (long i = 0; i < n; i++)
		(void)c10::memoryProfilingEnabled();
	std::chrono::duration<double, std::nano> took =
	    std::chrono::steady_clock::now() - begin;
	return took.count() / n;
}
/* Weir's two calls alone. */
extern "C" double weir_ns(void *(*allocate)(int, size_t, void *),
    int (*release)(void *), size_t size, long pairs)
{
	auto begin = std::chrono::steady_clock::now();
	for (long i = 0; i < pairs; i++)
		release(allocate(0, size, nullptr));
	std::chrono::duration<double, std::nano> took =
	    std::chrono::steady_clock::now() - begin;
	return took.count() / pairs;
}
/* All threads begin together, when each has allocated before. */
extern "C" double threads_mpairs(int n, size_t size, double seconds)
{
	std::vector<std::thread> all;
	std::atomic<int> ready{ 0 };
	std::atomic<bool> go{ false };
	std::atomic<bool> stop{ false };
	std::atomic<long> pairs{ 0 };
	for (int i = 0; i < n; i++)
		all.emplace_back([&] {
			c10::cuda::CUDAStreamGuard guard(
			    c10::cuda::getStreamFromPool());
			long done = 0;
			one(size, 100, 1);
			ready++;
			while (!go.load())
				;
			for (; !stop.load(); done += 100)
				one(size, 100, 1);
			pairs += done;
		});
	while (ready.load() < n)
		;
	auto begin = std::chrono::steady_clock::now();
	go = true;
	std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
	stop = true;
	for (auto &t : all)
		t.join();
	std::chrono::duration<double, std::micro> took =
	    std::chrono::steady_clock::now() - begin;
	return pairs / took.count();
}
"""


def build():
    folder = tempfile.mkdtemp()
    source, out = folder + "/bench.cpp", folder + "/bench.so"
    with open(source, "w") as file:
        file.write(SOURCE)
    root = os.path.dirname(torch.__file__)
    cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    subprocess.run(
        ["g++", "-O2", "-w", "-std=c++17", "-shared", "-fPIC",
         f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
         f"-I{root}/include", f"-I{cuda}/include", source, "-o", out,
         f"-L{root}/lib", "-lc10", "-lc10_cuda"], check=True)
    lib = ctypes.CDLL(out)
    for name in ("pair_ns", "device_ns", "stream_ns", "profiling_ns",
                 "weir_ns", "threads_mpairs"):
        getattr(lib, name).restype = ctypes.c_double
    return lib


def python_ns(size, pairs=50_000):
    for _ in range(1000):
        x = torch.empty(size, device="cuda", dtype=torch.uint8)
        del x
    begin = time.perf_counter()
    for _ in range(pairs):
        x = torch.empty(size, device="cuda", dtype=torch.uint8)
        del x
    return (time.perf_counter() - begin) / pairs * 1e9


def main():
    torch.cuda.init()
    torch.empty(1, device="cuda")
    lib = build()
    size_t, long, double = ctypes.c_size_t, ctypes.c_long, ctypes.c_double
    what = "native" if "--native" in sys.argv else "weir"

    def best(function, pick=min, runs=3):
        return pick(function() for _ in range(runs))

    print(f"{what} current_device "
          f"{best(lambda: lib.device_ns(long(1000000))):.1f} ns, stream "
          f"{best(lambda: lib.stream_ns(long(1000000))):.1f} ns, "
          "memoryProfilingEnabled "
          f"{best(lambda: lib.profiling_ns(long(1000000))):.1f} ns")
    if what == "weir":
        weir_lib = ctypes.CDLL(weir.library_path())
        ns = best(lambda: lib.weir_ns(
            weir_lib.weir_malloc_primary, weir_lib.weir_free, size_t(4096),
            long(160000)))
        print(f"weir_malloc_primary and weir_free: {ns:.1f} ns a pair")
    for size in (512, 4096, 65536, 1 << 20, 20 << 20):
        for depth in (1, 16):
            ns = best(lambda: lib.pair_ns(size_t(size), long(160000), depth))
            print(f"{what} raw_alloc {size} x{depth}: {ns:.1f} ns a pair",
                  flush=True)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        ns = best(lambda: lib.pair_ns(size_t(4096), long(160000), 1))
        print(f"{what} raw_alloc 4096 on a stream: {ns:.1f} ns a pair")
    for size in (4096, 1 << 20):
        print(f"{what} torch.empty({size}); del: "
              f"{best(lambda: python_ns(size)):.0f} ns", flush=True)
    for n in (1, 4, 16):
        rates = [lib.threads_mpairs(n, size_t(4096), double(0.3))
                 for _ in range(3)]
        print(f"{what} {n} threads: {max(rates):.2f} million pairs/s "
              f"(least {min(rates):.2f})", flush=True)


main()
