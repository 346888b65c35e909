"""weir.ipc: tensors and events in two processes, and what is refused."""

import copy
import ctypes
import os
import pickle
import signal
import subprocess
import sys
import time

import pytest
import support

import weir


class Other:
    """Another process, which runs code and answers in lines."""

    def __init__(self, code):
        env = dict(os.environ, PYTHONPATH=support.PACKAGE)
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", code], env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is not None:
            self.process.kill()
        self.process.communicate(timeout=120)
        if kind is None:
            assert self.process.returncode == 0

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self):
        line = self.process.stdout.readline()
        assert line, "the other process has ended"
        return line.rstrip("\n")


OPENS = """
import weir
thing = weir.ipc.open(bytes.fromhex(input()))
"""


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def allocated():
    return weir.stats()["allocated_bytes.all.current"]


# ---- Tensors -----------------------------------------------------------------


@pytest.mark.parametrize("stream", [None, weir.ANY_STREAM],
                         ids=["mapped memory", "memory of the driver"])
def test_a_view_is_shared_in_place_and_freed_with_its_last_holder(stream):
    before = allocated()
    tensor = weir.empty((2, 3), "int64", stream=stream)
    tensor.copy_([[1, 2, 3], [4, 5, 6]])
    with Other(OPENS + """
print(thing.shape, thing.strides, thing.dtype, thing.tolist())
thing[1].fill_(9)
thing.synchronize()
print("filled")
input()
del thing
print("closed")
input()
""") as other:
        shared = weir.ipc.share(tensor.T)
        assert (shared.peers, shared.opened) == (0, 0)
        other.tell(shared.handle.hex())
        assert other.hear() == "(3, 2) (1, 3) int64 [[1, 4], [2, 5], [3, 6]]"
        assert other.hear() == "filled"
        assert (shared.peers, shared.opened) == (1, 1)
        assert tensor.tolist() == [[1, 9, 3], [4, 9, 6]]
        shared.release()
        shared.release()
        assert (shared.peers, shared.opened) == (0, 0)
        del tensor
        assert allocated() > before  # the other process has it
        other.tell("")
        assert other.hear() == "closed"
        wait_until(lambda: allocated() == before)
        other.tell("")
    assert weir.check() == []


def test_memory_serves_again_when_a_peer_is_killed():
    before = allocated()
    tensor = weir.zeros(1000)
    with weir.ipc.share(tensor) as shared:
        other = Other(OPENS + "print('open')\ninput()")
        other.tell(shared.handle.hex())
        assert other.hear() == "open"
        assert shared.peers == 1
        other.process.kill()
        other.process.communicate(timeout=60)
        wait_until(lambda: shared.peers == 0)
        assert shared.opened == 1
    del tensor
    assert allocated() == before


def test_what_is_open_outlives_its_owner():
    owner = Other("""
import weir
tensor = weir.full(5, 3, "int16")
shared = weir.ipc.share(tensor)
print(shared.handle.hex())
input()
""")
    handle = bytes.fromhex(owner.hear())
    tensor = weir.ipc.open(handle)
    owner.process.send_signal(signal.SIGKILL)
    owner.process.communicate(timeout=60)
    assert tensor.tolist() == [3] * 5
    tensor.fill_(4)
    assert tensor.tolist() == [4] * 5
    # Nobody is there to be asked again.
    with pytest.raises(weir.InvalidArgumentError):
        weir.ipc.open(handle)


def test_a_tensor_without_elements_is_shared():
    with weir.ipc.share(weir.empty((0, 4))) as shared:
        with Other(OPENS + "print(thing.shape, thing.size)") as other:
            other.tell(shared.handle.hex())
            assert other.hear() == "(0, 4) 0"


def test_a_block_that_c_shares_is_opened_as_bytes():
    library = ctypes.CDLL(weir.library_path())
    block = weir.malloc(3000)
    weir.copy(block, bytes(range(100)) * 30)
    export = ctypes.c_void_p()
    handle = ctypes.create_string_buffer(64)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    def done(closure, address):
        pass

    assert library.weir_ipc_lend(ctypes.c_void_p(block.address),
                                 ctypes.c_void_p(0), done, None,
                                 ctypes.byref(export)) == 0
    assert library.weir_ipc_handle_of(export, handle) == 0
    with Other(OPENS + "print(thing.shape, thing.dtype, thing[205].item())") \
            as other:
        other.tell(handle.raw.hex())
        assert other.hear() == "(3000,) uint8 5"
    library.weir_ipc_peers.restype = ctypes.c_size_t
    wait_until(lambda: library.weir_ipc_peers(export) == 0)
    library.weir_ipc_release(export)


TWO_DEVICES = OPENS.replace("input())", "input()), device=1") + """
print(thing.place, thing.tolist())
copy = thing.to("cuda:1", copy=True)
print(copy.place, copy.tolist())
thing.fill_(3)
thing.synchronize()
print("filled")
"""


@pytest.mark.skipif(not support.SIMULATED and weir.device_count() < 2,
                    reason="there is one device")
def test_a_tensor_is_used_by_another_device_of_another_process():
    told = support.run_python("""
import subprocess, sys, weir
tensor = weir.ones(4, "int32", "cuda:0")
with weir.ipc.share(tensor) as shared:
    done = subprocess.run(
        [sys.executable, "-c", sys.argv[1]], input=shared.handle.hex(),
        text=True, stdout=subprocess.PIPE, check=True)
print(done.stdout, end="")
print(tensor.place, tensor.tolist())
""", TWO_DEVICES, SIMCUDA_CONF="devices:2")
    assert told.splitlines() == [
        "cuda:1 [1, 1, 1, 1]", "cuda:1 [1, 1, 1, 1]", "filled",
        "cuda:0 [3, 3, 3, 3]"]


# ---- Events ------------------------------------------------------------------


def test_an_event_is_waited_for_in_another_process():
    event = weir.Event(interprocess=True)
    with weir.Stream() as stream:
        event.record(stream)
    first, second = weir.ipc.share(event), weir.ipc.share(event)
    assert first.handle == second.handle
    with Other(OPENS + """
thing.wait(weir.Stream())
thing.synchronize()
print(type(thing).__name__, thing.query())
del thing
print("closed")
""") as other:
        other.tell(first.handle.hex())
        assert other.hear() == "Event True"
        assert other.hear() == "closed"
    first.release()
    event.record()  # it is the owner's still
    event.synchronize()
    assert weir.check() == []


@pytest.mark.parametrize("event", [
    weir.Event(), weir.Event(interprocess=True)],
    ids=["private", "never recorded"])
def test_an_event_of_this_process_only_is_not_shared(event):
    with pytest.raises(weir.InvalidArgumentError, match="INTERPROCESS"):
        weir.ipc.share(event)


# ---- What is refused ---------------------------------------------------------


def test_only_memory_of_a_device_is_shared():
    for tensor in (weir.zeros(4, place="cpu"), weir.zeros(4, place="pinned"),
                   weir.asarray(weir.malloc(100))):
        with pytest.raises(weir.NotSupportedError, match="memory"):
            weir.ipc.share(tensor)
    with pytest.raises(TypeError, match="Tensor or a weir.Event, not 3"):
        weir.ipc.share(3)
    with pytest.raises(TypeError, match="weir.ipc.share"):
        weir.ipc.Shared()


def test_a_tensor_of_another_process_is_not_shared_on():
    with weir.ipc.share(weir.zeros(4)) as shared:
        with Other(OPENS + """
try:
    weir.ipc.share(thing)
except weir.NotSupportedError as error:
    print(error)
weir.ipc.share(thing.to(copy=True))
""") as other:
            other.tell(shared.handle.hex())
            assert "foreign" in other.hear()


def test_a_handle_of_this_process_or_of_nobody_is_refused():
    tensor = weir.zeros(100)
    shared = weir.ipc.share(tensor)
    with pytest.raises(weir.InvalidArgumentError, match="is the owner"):
        weir.ipc.open(shared.handle)
    for length in (0, 63, 65, 1000):
        with pytest.raises(ValueError, match=f"has {length} bytes"):
            weir.ipc.open(bytes(length))
    for size in (64, len(shared.handle)):
        with pytest.raises(weir.InvalidArgumentError):
            weir.ipc.open(b"\xff" * size)
    with pytest.raises(TypeError):
        weir.ipc.open("a text")


LIES = """
import struct, weir
good = bytes.fromhex(input())
before = weir.memory_info()[0]
def refused(at, form, value):
    bad = bytearray(good)
    struct.pack_into(form, bad, at, value)
    try:
        weir.ipc.open(bytes(bad))
    except (weir.Error, ValueError) as error:
        print(type(error).__name__)
    else:
        print("opened")
# dtype, ndim, bytes of the storage, offset, shape[0], strides[0]
refused(64, "I", 1000)
refused(68, "i", 33)
refused(68, "i", -1)
refused(72, "Q", 1 << 40)
refused(80, "Q", (1 << 64) - 4)
refused(88, "q", 101)
refused(88, "q", -1)
refused(88 + 8 * 32, "q", 1 << 62)
# the secret, the number of the export, the process
refused(40, "B", good[40] ^ 1)
refused(24, "Q", 12345)
refused(8, "i", 1)
print(weir.ipc.open(good).tolist() == [1.0] * 100, weir.check())
"""


def test_a_handle_with_one_lie_is_refused_and_nothing_is_opened():
    with weir.ipc.share(weir.ones(100)) as shared, Other(LIES) as other:
        other.tell(shared.handle.hex())
        for _ in range(11):
            assert other.hear() == "InvalidArgumentError"
        assert other.hear() == "True []"


def test_what_is_released_cannot_be_opened_any_more():
    shared = weir.ipc.share(weir.ones(10))
    handle = shared.handle.hex()
    del shared
    with Other("""
import weir
try:
    weir.ipc.open(bytes.fromhex(input()))
except weir.InvalidArgumentError as error:
    print(error)
""") as other:
        other.tell(handle)
        assert "does not share that" in other.hear()


# ---- Pickling ----------------------------------------------------------------


DTYPES = ("bool", "int8", "uint64", "float16", "bfloat16", "float32",
          "complex128", "float8_e4m3fn")


@pytest.mark.parametrize("place", ["cuda:0", "pinned", "cpu"])
def test_a_tensor_is_pickled_by_value(place):
    for dtype in DTYPES:
        tensor = weir.asarray([[0, 1, 1], [1, 0, 2]]).to(place, dtype).T
        again = pickle.loads(pickle.dumps(tensor))
        assert (again.shape, again.dtype, again.place) == \
            (tensor.shape, dtype, place)
        assert again.tolist() == tensor.tolist()
        assert again.address != tensor.address
    for shape in ((), (0,), (3, 0)):
        again = copy.deepcopy(weir.zeros(shape, place=place))
        assert (again.shape, again.place) == (shape, place)


def test_an_event_is_not_pickled_by_value():
    with pytest.raises(TypeError, match="multiprocessing"):
        pickle.dumps(weir.Event(interprocess=True))


def run_program(tmp_path, code):
    """A program in a file, as multiprocessing needs it."""
    path = tmp_path / "program.py"
    path.write_text(code)
    done = subprocess.run(
        [sys.executable, path], stdout=subprocess.PIPE, text=True, timeout=120,
        env=dict(os.environ, PYTHONPATH=support.PACKAGE))
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


QUEUE = """
{imports}

def work(first, tasks, results):
    tensor, event = tasks.get()
    event.wait(weir.current_stream())
    print(first.tolist(), tensor.tolist(), flush=True)
    tensor.fill_(8)
    tensor.synchronize()
    results.put(weir.full(2, 6, "int32", "cpu"))
    result = weir.full(3, 7, "int32")
    results.put(result)
    tasks.get()

if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    tasks, results = context.Queue(), context.Queue()
    first = weir.full(2, 4, "int32")
    worker = context.Process(target=work, args=(first, tasks, results))
    worker.start()
    tensor = weir.full((2, 2), 5, "int32")
    event = weir.Event(interprocess=True)
    event.record()
    tasks.put((tensor, event))
    copied, shared = results.get(), results.get()
    print(copied.place, copied.tolist(), shared.tolist(), tensor.tolist())
    # All have arrived: nothing is held for a message.
    print(weir.ipc.pending())
    tasks.put(None)
    worker.join()
    print(shared.tolist(), worker.exitcode, weir.check())
"""


@pytest.mark.parametrize("method, imports", [
    ("spawn", "import multiprocessing\nimport weir"),
    ("forkserver", "import weir\nimport multiprocessing")],
    ids=["spawn", "forkserver"])
def test_tensors_and_events_go_through_queues(tmp_path, method, imports):
    assert run_program(
        tmp_path, QUEUE.format(method=method, imports=imports)) == [
            "[4, 4] [[5, 5], [5, 5]]",
            "cpu [6, 6] [7, 7, 7] [[8, 8], [8, 8]]",
            "0",
            "[7, 7, 7] 0 []"]


def test_a_queue_with_both_ends_in_one_process_gives_the_tensor_back():
    told = support.run_python("""
import multiprocessing, weir
queue = multiprocessing.get_context("spawn").Queue()
tensor = weir.ones(4)
queue.put(tensor)
print(queue.get() is tensor, weir.ipc.pending())
# Shared memory that nobody opens is released on demand.
from multiprocessing.reduction import ForkingPickler
message = ForkingPickler.dumps(tensor)
print(weir.ipc.pending())
weir.ipc.collect(all=True)
print(weir.ipc.pending())
import pickle
try:
    pickle.loads(message)
except weir.InvalidArgumentError as error:
    print(error)
""")
    assert told.splitlines() == [
        "True 0", "1", "0", "it was taken out of its message before"]


def test_a_forked_child_gets_an_error():
    told = support.run_python("""
import os, weir
tensor = weir.ones(4)
shared = weir.ipc.share(tensor)
if os.fork() == 0:
    for call in (lambda: weir.ipc.share(tensor),
                 lambda: weir.ipc.open(shared.handle[:8] + bytes(56))):
        try:
            call()
        except weir.Error as error:
            print(type(error).__name__, flush=True)
    print(shared.peers, shared.opened, flush=True)
    shared.release()
    os._exit(0)
print(os.wait()[1], len(shared.handle) > 64)
""")
    assert told.splitlines()[-2:] == ["0 0", "0 True"]
    assert "NoDeviceError" in told.splitlines()[0]
