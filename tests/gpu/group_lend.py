#!/usr/bin/env python3
"""Memory that processes of a group lend each other, on a GPU.

    tests/gpu/group_lend.py BUILD [GIB]

BUILD is a build folder, GIB (default: 20) how much changes hands. Prints how
long a request waits for unused memory of another process, and for the memory of
one that was killed, and fails if a request does, or if the processes together
exceed the limit by NVML.
"""
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time

GIB = 1 << 30


def load(build):
    library = ctypes.CDLL(os.path.join(build, "lib/libweir.so"))
    library.weir_malloc.restype = ctypes.c_void_p
    library.weir_malloc.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
    library.weir_free.argtypes = [ctypes.c_void_p]
    library.weir_last_error.restype = ctypes.c_char_p
    return library


def take(library, size):
    began = time.monotonic()
    ptr = library.weir_malloc(size, None)
    if not ptr:
        sys.exit("weir_malloc: " + library.weir_last_error().decode())
    return ptr, 1000 * (time.monotonic() - began)


def hold(build, size, keep):
    """Another process: holds memory, unused unless `keep` is 1."""
    library = load(build)
    ptr, _ = take(library, size)
    if keep == "0":
        library.weir_free(ptr)
    print("ready", flush=True)
    sys.stdin.read()


def start(build, size, keep):
    process = subprocess.Popen(
        [sys.executable, __file__, build, "hold", str(size), keep],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if process.stdout.readline() != "ready\n":
        sys.exit("the other process has failed")
    return process


def main():
    build = sys.argv[1]
    if len(sys.argv) > 3:
        hold(build, int(sys.argv[3]), sys.argv[4])
        return
    size = int(sys.argv[2] if len(sys.argv) > 2 else 20) * GIB
    limit = size + size // 4
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ["WEIR_CONF"] = (
            f"group:gpu,group_folder:{folder},group_limit_mb:{limit >> 20},"
            "lend_ms:2000")
        other = start(build, size, "0")
        library = load(build)
        take(library, 2 << 20)  # the context and the ledger
        ptr, ms = take(library, size)
        print(f"unused memory of another process: {size / GIB:.0f} GiB "
              f"in {ms:.1f} ms")
        other.kill()
        other.wait()
        library.weir_free(ptr)
        library.weir_trim(0, ctypes.c_size_t(0), None)
        os.environ["WEIR_CONF"] += ",wait_ms:20000"
        other = start(build, size, "1")
        library.weir_options_set(b"wait_ms:20000")
        began = time.monotonic()
        os.kill(other.pid, signal.SIGKILL)
        take(library, size)
        print("memory of a killed process: "
              f"{1000 * (time.monotonic() - began):.1f} ms")
        other.wait()


main()
