"""Python's frames of allocations made while the GIL is released: by ctypes, as
by CuPy, Numba and whoever calls C. ctypes.PyDLL keeps the GIL and CDLL does not,
so the two must have the same frames."""

import ctypes
import os
import pickle
import subprocess
import sys
import threading

import pytest
import support

import weir

held = ctypes.PyDLL(weir.library_path()).weir_malloc
released = ctypes.CDLL(weir.library_path()).weir_malloc
free = ctypes.CDLL(weir.library_path()).weir_free
BOTH = (held, released)
for call in BOTH:
    call.restype = ctypes.c_void_p
    call.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
free.argtypes = [ctypes.c_void_p]

_KNOWN = (3, 9) <= sys.version_info[:2] <= (3, 13)
pytestmark = pytest.mark.skipif(
    not _KNOWN or sys.implementation.name != "cpython" or
    "free-thread" in sys.version, reason="frames of this Python are not known")


@pytest.fixture(autouse=True)
def history():
    weir.history_start(stacks="python", clear=True)
    yield
    weir.history_stop()
    assert weir.check() == []


def stacks():
    """The frames of each allocation, in order, as (name, file, line)."""
    return [[(f["name"], f["filename"], f["line"]) for f in e["frames"]]
            for e in weir.snapshot()["device_traces"][0]
            if e["action"] == "alloc"]


def use(call, size=512):
    free(call(size, None))


def expect_same(n=1):
    """Allocate n times with each of the two in turn."""
    found = stacks()
    assert len(found) == 2 * n
    for with_gil, without in zip(found[::2], found[1::2]):
        assert with_gil == without
        assert with_gil
    return [[frame[0] for frame in stack] for stack in found[1::2]]


def test_frames_without_the_gil_are_those_with_it():
    for call in BOTH:
        use(call)
    names = expect_same()[0]
    assert names[:2] == ["use",
                         "test_frames_without_the_gil_are_those_with_it"]
    assert stacks()[1][0][1] == __file__


class Thing:
    def method(self):
        for call in BOTH:
            use(call)

    @property
    def prop(self):
        return self.method()

    def __del__(self):
        self.method()


def generator():
    for call in BOTH:
        use(call)
        yield


def recursive(depth):
    if depth == 0:
        for call in BOTH:
            use(call)
    else:
        recursive(depth - 1)


async def coroutine():
    for call in BOTH:
        use(call)


def run_coroutine():
    with pytest.raises(StopIteration):
        coroutine().send(None)


@pytest.mark.parametrize("run, name", [
    (lambda: [use(call) for call in BOTH], "<lambda>"),
    (lambda: Thing().method(), "method"),
    (lambda: Thing().prop, "prop"),
    (lambda: list(generator()), "generator"),
    (lambda: list(map(use, BOTH)), "<lambda>"),
    (lambda: sorted(BOTH, key=lambda call: use(call) or 0), "<lambda>"),
    (run_coroutine, "coroutine"),
    (lambda: recursive(10), "recursive"),
    (lambda: recursive(200), "recursive"),
], ids=["comprehension", "method", "property", "generator", "call from C",
        "callback of C", "coroutine", "recursion", "deep recursion"])
def test_frames_of_all_kinds_are_recorded(run, name):
    run()
    found = stacks()
    n = len(found) // 2
    names = expect_same(n)
    assert name in names[0]
    assert len(names[0]) <= 128


@pytest.mark.parametrize("name, file", [
    ("plain", "/a/plain.py"), ("größe", "/a/größe.py"),
    ("αβγ", "/a/αβγ.py"), ("f", "/a/\U0001f600.py"),
    ("long", "/" + "x" * 2000)],
    ids=["ascii", "latin", "greek", "beyond 16 bits", "long"])
def test_names_of_all_characters_are_read(name, file):
    scope = {"use": use}
    exec(compile(f"def {name}(call):\n\n    use(call)\n", file, "exec"),
         scope)
    scope[name](released)
    found = stacks()[0]
    shown = found[1]
    assert shown[0] == name and shown[2] == 3
    assert file.startswith(shown[1]) and len(shown[1]) >= min(len(file), 500)


def test_code_that_comes_and_goes_has_its_own_names():
    for i in range(300):
        scope = {"use": use}
        exec(compile(f"def f{i}(call):\n    use(call)\n", f"<cell {i % 7}>",
                     "exec"), scope)
        scope[f"f{i}"](released)
        del scope
    found = [stack[1][:2] for stack in stacks()]
    assert found == [(f"f{i}", f"<cell {i % 7}>") for i in range(300)]


def test_each_thread_has_its_own_frames():
    rounds = 200
    stop = threading.Event()

    def in_thread():
        for _ in range(rounds):
            use(released)

    def busy():
        # Holds the GIL most of the time, and makes and drops frames.
        while not stop.is_set():
            recursive_sum(20)

    def recursive_sum(n):
        return n + recursive_sum(n - 1) if n else 0

    noise = threading.Thread(target=busy)
    noise.start()
    threads = [threading.Thread(target=in_thread, name=str(i))
               for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    noise.join()
    found = stacks()
    assert len(found) == 3 * rounds
    assert {tuple(f[0] for f in stack[:3]) for stack in found} == {
        ("use", "in_thread", "run")}


def test_threads_that_outlive_the_interpreter_are_harmless():
    support.run_python("""
import ctypes, threading, time, weir
weir.history_start(stacks="python")
library = ctypes.CDLL(weir.library_path())
library.weir_malloc.restype = ctypes.c_void_p
library.weir_malloc.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
library.weir_free.argtypes = [ctypes.c_void_p]
def churn():
    while True:
        library.weir_free(library.weir_malloc(512, None))
for _ in range(3):
    threading.Thread(target=churn, daemon=True).start()
while weir.history_info()["recorded"] < 100:
    time.sleep(0.001)
""")


PROGRAM = """
import ctypes, os
driver = ctypes.CDLL(os.environ["WEIR_LIBCUDA"])
def allocate(size):
    address = ctypes.c_uint64()
    assert driver.cuMemAlloc_v2(
        ctypes.byref(address), ctypes.c_size_t(size)) == 0
def train():
    allocate(5 << 20)
device, context = ctypes.c_int(), ctypes.c_void_p()
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
train()
"""


@pytest.mark.skipif(not support.SIMULATED, reason="loads the driver by path")
def test_a_program_under_weir_run_has_its_frames(tmp_path):
    path, snapshot = tmp_path / "program.py", tmp_path / "s.pickle"
    path.write_text(PROGRAM)
    subprocess.run(
        [os.path.join(support.BUILD, "bin/weir"), "run", "--sim", "--quiet",
         "--history", f"--snapshot={snapshot}", "--", sys.executable, path],
        check=True, timeout=120, stdout=subprocess.DEVNULL)
    with open(snapshot, "rb") as file:
        events = pickle.load(file)["device_traces"][0]
    frames = next(e["frames"] for e in events if e["action"] == "alloc")
    own = [(f["name"], f["line"]) for f in frames
           if f["filename"] == str(path)]
    assert own == [("allocate", 6), ("train", 9), ("<module>", 14)]
    # The frames of C are there, without those that run Python.
    names = [f["name"] for f in frames]
    assert not any(name.startswith("_PyEval_EvalFrame") for name in names)
    assert names.index("allocate") > 0
