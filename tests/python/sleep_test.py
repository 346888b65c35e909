"""Sleep and wake from Python, and the interfaces of others over them."""

import ctypes
import gc
import os
import subprocess
import sys
import threading
import types

import pytest
import support

import weir
from weir.memory_saver import TorchMemorySaver

DRIVER = ctypes.CDLL(support.DRIVER)
MIB = 1 << 20


def memset(block, value, stream):
    assert DRIVER.cuMemsetD8Async(
        ctypes.c_uint64(block.address), ctypes.c_ubyte(value),
        ctypes.c_size_t(block.size), ctypes.c_void_p(stream.handle)) == 0
    stream.synchronize()


def content(block):
    back = bytearray(block.size)
    weir.copy(back, block)
    return bytes(back)


@pytest.fixture(autouse=True)
def health():
    weir.set_device(0)
    yield
    gc.collect()
    assert not weir.is_asleep("all")
    assert weir.check() == []


def held():
    return weir.stats()["reserved_bytes.all.current"]


def test_a_device_sleeps_and_wakes():
    stream = weir.Stream()
    block = weir.malloc(4 * MIB, stream)
    memset(block, 7, stream)
    assert not weir.is_asleep()
    slept = weir.sleep()
    assert weir.is_asleep() and weir.is_asleep(0)
    assert slept["copied_bytes"] >= 4 * MIB and held() == 0
    assert sum(slept["stays"].values()) == 0
    with pytest.raises(weir.NotReadyError, match="asleep"):
        weir.malloc(512, stream)
    woken = weir.wake(wait_ms=10)
    assert woken["mapped_bytes"] == slept["freed_bytes"]
    assert content(block) == bytes([7]) * (4 * MIB)


def test_what_is_discarded_is_not_copied():
    stream = weir.Stream()
    pool = weir.Pool()
    block = weir.malloc(4 * MIB, stream)
    other = weir.malloc(2 * MIB, stream, pool=pool)
    slept = weir.sleep("all", discard_pools=[pool.id],
                       discard_ranges=[(block.address, MIB)])
    assert slept["discarded_bytes"] == 3 * MIB
    weir.wake("all")
    memset(other, 1, stream)
    assert weir.sleep(discard_all=True)["copied_bytes"] == 0
    weir.wake()


def test_pools_are_discarded_by_name():
    stream = weir.Stream()
    pools = [weir.Pool(name="kv cache"), weir.Pool(name="kv cache"),
             weir.Pool(name="weights"), weir.Pool()]
    assert [pool.name for pool in pools] == [
        "kv cache", "kv cache", "weights", ""]
    blocks = [weir.malloc(2 * MIB, stream, pool=pool) for pool in pools]
    slept = weir.sleep(discard_names=["kv cache"])
    assert slept["discarded_bytes"] == 4 * MIB
    assert slept["copied_bytes"] == 4 * MIB
    weir.wake()
    assert len(blocks) == 4


@pytest.mark.parametrize("name", ["3", "a,b", "pool:3", "x" * 64, "a\n"])
def test_a_pool_s_name_is_checked(name):
    with pytest.raises(weir.InvalidArgumentError, match="is no name"):
        weir.Pool(name=name)


@pytest.mark.parametrize("how, error", [
    ({"discard_names": ["nobody's"]}, weir.InvalidArgumentError),
    ({"discard_names": "kv"}, TypeError),
    ({"discard_names": [3]}, TypeError),
    ({"discard_names": 3}, TypeError),
    ({"discard_pools": [10 ** 6]}, weir.InvalidArgumentError),
    ({"discard_ranges": [(16, 16)]}, weir.InvalidArgumentError),
    ({"discard_ranges": [3]}, TypeError),
    ({"discard_pools": ["a"]}, TypeError),
    ({"device": 99}, weir.NoDeviceError),
])
def test_wrong_arguments_are_refused(how, error):
    weir.malloc(512)
    with pytest.raises(error):
        weir.sleep(**how)


def test_other_threads_wait():
    stream = weir.Stream()
    got = []
    weir.malloc(512, stream).free()
    weir.sleep()
    thread = threading.Thread(
        target=lambda: got.append(weir.malloc(512, stream)))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive() and not got
    weir.wake()
    thread.join(20)
    assert len(got) == 1


# ---- Hooks -------------------------------------------------------------------


@pytest.fixture
def calls():
    """The calls of the hooks that note() makes, which are removed."""
    calls = []
    yield calls
    for hook in list(weir._sleep._hooks):
        hook.remove()


def note(calls, name, before=None, after=None):
    """A hook that notes its calls, and raises what is given."""

    def call(word, error):
        assert not weir.is_asleep("all")
        calls.append(word)
        if error is not None:
            raise error

    return weir.on_sleep(before=lambda: call(name, before),
                         after=lambda: call(name.upper(), after))


def test_hooks_are_called_before_a_sleep_and_after_the_wake(calls):
    weir.malloc(4 * MIB).free()
    a = note(calls, "a")
    with note(calls, "b") as b:
        weir.on_sleep(after=lambda: calls.append("-"))
        weir.sleep()
        weir.sleep()
        assert "".join(calls) == "ab"
        weir.wake()
        weir.wake()
        assert "".join(calls) == "ab-BA"
        a.remove()
        a.remove()
        weir.sleep()
        weir.wake()
        assert "".join(calls) == "ab-BAb-B"
    b.remove()
    weir.sleep()
    weir.wake()
    assert "".join(calls) == "ab-BAb-B-"


def test_after_belongs_to_a_before(calls):
    weir.malloc(4 * MIB).free()
    a = note(calls, "a")
    weir.sleep()
    note(calls, "b")
    a.remove()
    weir.wake()
    assert calls == ["a"]


def test_sleep_raises_what_a_hook_raises(calls, monkeypatch):
    printed = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    weir.malloc(4 * MIB).free()
    note(calls, "a", after=KeyError("late"))
    note(calls, "b", before=ZeroDivisionError("early"))
    note(calls, "c")
    for _ in range(2):
        calls.clear()
        with pytest.raises(ZeroDivisionError, match="early"):
            weir.sleep()
        assert calls == ["a", "b", "A"] and not weir.is_asleep()
    assert [report.exc_type for report in printed] == [KeyError, KeyError]
    # A sleep that fails for another reason has an error of its own.
    with pytest.raises(weir.InvalidArgumentError):
        weir.sleep(discard_pools=[10 ** 6])


def test_an_exception_in_after_keeps_no_hook_from_its_call(calls, monkeypatch):
    printed = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    weir.malloc(4 * MIB).free()
    note(calls, "a")
    hook = note(calls, "b", after=SystemExit(3))
    weir.sleep()
    assert weir.wake()["mapped_bytes"] == 0
    assert calls == ["a", "b", "B", "A"]
    assert printed[0].exc_type is SystemExit
    assert printed[0].object is hook.after


@pytest.mark.parametrize("error, status", [
    (ZeroDivisionError("early"), "WEIR_ENOTREADY"),
    (weir.NotSupportedError("no"), "WEIR_ENOTSUP"),
])
def test_callers_in_c_get_a_status(calls, monkeypatch, error, status):
    printed = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    weir.malloc(4 * MIB).free()
    if isinstance(error, weir.Error):
        error.status = status
    note(calls, "a", before=error)
    library = ctypes.CDLL(weir.library_path())
    library.weir_status_name.restype = ctypes.c_char_p
    assert library.weir_status_name(
        library.weir_sleep(0, None, None)).decode() == status
    assert calls == ["a"] and printed[0].exc_value is error


def test_a_hook_on_a_thread_of_its_own_is_called(calls):
    weir.malloc(4 * MIB).free()
    note(calls, "a")
    threads = []

    def act():
        threads.append(threading.get_ident())
        weir.sleep(0)
        weir.wake(0)

    weir.on_sleep(before=lambda: threads.append(threading.get_ident()))
    thread = threading.Thread(target=act)
    thread.start()
    thread.join(20)
    assert calls == ["a", "A"] and threads[0] == threads[1]


HOOKED = """
import sys, weir
refuses = True
def before():
    if refuses:
        raise KeyError("not now")
    print("before", flush=True)
weir.on_sleep(before, lambda: print("after", flush=True))
block = weir.malloc(4 << 20)
print("ready", flush=True)
sys.stdin.readline()
refuses = False
print("ready", flush=True)
sys.stdin.readline()
"""


def test_the_command_calls_hooks_on_a_thread_of_weirs(tmp_path):
    command = os.path.join(support.BUILD, "bin", "weir")
    env = dict(os.environ, PYTHONPATH=support.PACKAGE,
               XDG_RUNTIME_DIR=str(tmp_path))
    program = subprocess.Popen(
        [command, "run", "-q", "--may-sleep",
         *(["--sim"] if support.SIMULATED else []), "--",
         sys.executable, "-c", HOOKED], env=env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE)

    def run(verb):
        return subprocess.run([command, verb, str(program.pid)], env=env,
                              text=True, capture_output=True)

    def line():
        return program.stdout.readline().strip()

    assert line() == "ready"
    refused = run("sleep")
    assert refused.returncode == 2
    assert "a hook of the program refuses it" in refused.stderr
    program.stdin.write("\n")
    program.stdin.flush()
    assert line() == "ready"
    for verb, word in (("sleep", "before"), ("wake", "after")):
        done = run(verb)
        assert (done.returncode, done.stderr) == (0, "")
        assert line() == word
    rest, printed = program.communicate("\n")
    assert program.returncode == 0 and rest == ""
    assert "KeyError: 'not now'" in printed


def test_a_hook_is_two_functions():
    with pytest.raises(TypeError, match="before is callable or None"):
        weir.on_sleep(3)
    with pytest.raises(TypeError, match="after is callable or None"):
        weir.on_sleep(after="x")


def test_hooks_end_with_the_interpreter():
    done = subprocess.run(
        [sys.executable, "-c", """
import atexit, ctypes, weir
library = ctypes.CDLL(weir.library_path())
weir.malloc(512).free()
atexit.register(lambda: print(library.weir_sleep(0, None, None)))
import weir._weir
weir.on_sleep(before=lambda: print("asleep"), after=lambda: print("awake"))
weir.sleep()
weir.wake()
weir._weir._end()
"""], env=dict(os.environ, PYTHONPATH=support.PACKAGE), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert (done.stdout, done.stderr) == ("asleep\nawake\n0\n", "")


# ---- torch_memory_saver ------------------------------------------------------


def test_a_region_is_paused_and_resumed():
    saver = TorchMemorySaver()
    stream = weir.Stream()
    with saver.region("weights", enable_cpu_backup=True):
        kept = weir.malloc(2 * MIB, stream)
    with saver.region("kv_cache"):
        cache = weir.malloc(4 * MIB, stream)
    memset(kept, 3, stream)
    before = held()
    saver.pause("kv_cache")
    assert held() <= before - 4 * MIB
    with pytest.raises(RuntimeError, match="paused"):
        with saver.region("kv_cache"):
            pass
    saver.pause()
    saver.pause()
    address = cache.address
    saver.resume("kv_cache")
    assert cache.address == address
    memset(cache, 1, stream)
    saver.resume()
    assert content(kept) == bytes([3]) * (2 * MIB)
    with pytest.raises(ValueError, match="no tag 'x'"):
        saver.pause("x")
    with saver.disable(), saver.region("other"):
        weir.malloc(512, stream)
    saver.pause()
    saver.resume()


# ---- vLLM --------------------------------------------------------------------


@pytest.fixture
def vllm(monkeypatch):
    """A double of the parts of vLLM that the backend uses."""
    backend = types.ModuleType("vllm.device_allocator.sleep_mode_backend")

    class SleepModeBackend:
        def __init__(self):
            self._state = "RUNNING"

    class Factory:
        registry = {}

        @classmethod
        def register_backend(cls, name, module_path, class_name):
            if name in cls.registry:
                raise ValueError(f"{name} is already registered")
            cls.registry[name] = (module_path, class_name)

    backend.SleepModeBackend = SleepModeBackend
    backend.SleepModeBackendFactory = Factory
    package = types.ModuleType("vllm")
    allocators = types.ModuleType("vllm.device_allocator")
    package.device_allocator = allocators
    allocators.sleep_mode_backend = backend
    for module in (package, allocators, backend):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delitem(sys.modules, "weir.vllm", raising=False)
    import weir.vllm
    yield weir.vllm, allocators, Factory, SleepModeBackend
    sys.modules.pop("weir.vllm", None)


def test_vllm_sleeps_by_level_and_wakes_by_tag(vllm):
    module, allocators, factory, base = vllm
    module.register()
    module.register()
    assert factory.registry == {"weir": ("weir.vllm", "SleepBackend")}
    assert issubclass(module.SleepBackend, base)
    allocator = allocators.get_mem_allocator_instance()
    stream = weir.Stream()
    static = weir.malloc(2 * MIB, stream)
    with allocator.use_memory_pool("weights"):
        weights = weir.malloc(2 * MIB, stream)
    with allocator.use_memory_pool("kv_cache"):
        cache = weir.malloc(8 * MIB, stream)
    memset(static, 1, stream)
    memset(weights, 2, stream)
    assert allocator.get_current_usage() >= 10 * MIB
    backend = module.SleepBackend()
    assert backend.state() == "RUNNING"
    for level in (1, 2):
        backend.suspend(level)
        assert backend.state() == "SUSPENDED" and held() == 0
        backend.resume(["weights"])
        assert backend.state() == "SUSPENDED"
        if level == 1:
            assert content(weights) == bytes([2]) * (2 * MIB)
        memset(weights, 4, stream)
        backend.resume(["kv_cache"])
        assert backend.state() == "RUNNING"
        memset(cache, 5, stream)
        assert content(static) == bytes([1]) * (2 * MIB)
        memset(weights, 2, stream)
    backend.discard(("kv_cache",))
    assert backend.state() == "SUSPENDED"
    backend.resume()
    assert backend.state() == "RUNNING"
    with pytest.raises(ValueError, match="level 3"):
        backend.suspend(3)
    assert backend.preserves_compiled_artifacts()
    assert not backend.supports_durable_storage()
