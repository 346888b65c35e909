"""Objects that other programs may pass: dicts of the CUDA Array Interface and
structs of DLPack, changed at random. They are refused by a documented
exception, or a tensor is made; their owner gets one call, and nothing is left
behind. No memory is accessed, so an address may have any value.

WEIR_TEST_SEED is the random seed, WEIR_TEST_EFFORT multiplies the number of
steps (default: 1).
"""

import ctypes
import gc
import os
import random
import struct
import sys

import pytest
import support

import weir

pytestmark = pytest.mark.skipif(
    not support.SIMULATED,
    reason="a GPU's driver ends the process for a stream that is none")

SEED = os.environ.get("WEIR_TEST_SEED", "1")
ROUNDS = int(4000 * float(os.environ.get("WEIR_TEST_EFFORT", "1")))
REFUSED = (TypeError, ValueError, OverflowError, BufferError, weir.Error)


class Raises:
    """Raises a given exception from each conversion."""

    def __init__(self, error):
        self.error = error

    def __index__(self):
        raise self.error

    __bool__ = __len__ = __iter__ = __int__ = __index__


class Number(int):
    pass


NUMBERS = (0, 1, 2, 3, 4, 7, 31, 32, 33, 64, 1000, -1, -2, -4, -8, 2**31 - 1,
           2**31, 2**32, 2**60, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1,
           2**64, 2**200, -2**31, -2**62, -2**63, -2**63 - 1, -2**200)
THINGS = (None, True, False, 1.5, float("nan"), "", "x", "<f4", ">f4", "|b1",
          "<V2", "<c16", "<f16", "<i3", "<u8", "=f4", "\0<f", "<f4\0",
          "\ud800", "<" * 1000, b"<f4", (), [], {}, object(), int, 1j,
          Number(3), Raises(TypeError("told")), Raises(ValueError("told")))


def any_number(at):
    return at.choice(NUMBERS) if at.random() < 0.9 else at.getrandbits(70)


def any_thing(at, depth=0):
    kind = at.random()
    if kind < 0.4:
        return any_number(at)
    if kind < 0.8 or depth == 3:
        return at.choice(THINGS)
    many = at.choice((0, 1, 2, 3, 33, 40))
    values = [any_thing(at, depth + 1) for _ in range(many)]
    return tuple(values) if at.random() < 0.8 else values


class Owner:
    """Has a dict for an interface."""


@pytest.fixture
def memory():
    weir.synchronize()
    memory = weir.zeros(1024)
    memory.synchronize()
    yield memory


def right_interface(at, memory):
    shape = tuple(at.choice((0, 1, 2, 3, 5)) for _ in range(at.randrange(5)))
    return {"shape": shape, "typestr": at.choice(("<f4", "|u1", "<i8", "|b1")),
            "data": (memory.address, at.random() < 0.3), "version": 3,
            "strides": None, "stream": at.choice((None, 1, 2))}


def test_interfaces_with_anything_in_them(memory):
    at = random.Random(SEED)
    counts = {True: 0, False: 0}
    for _ in range(ROUNDS):
        owner = Owner()
        told = right_interface(at, memory)
        for _ in range(at.choice((0, 1, 1, 1, 2, 3))):
            key = at.choice((*told, "mask", "descr", "else"))
            if at.random() < 0.15:
                told.pop(key, None)
            elif key in ("shape", "strides") and at.random() < 0.5:
                told[key] = tuple(any_number(at)
                                  for _ in range(at.choice((1, 2, 3, 33))))
            elif key == "data" and at.random() < 0.5:
                told[key] = (any_number(at), any_thing(at))
            else:
                told[key] = any_thing(at)
        # A handle of no stream is not for a driver to find out.
        if isinstance(told.get("stream"), int) and \
                not isinstance(told["stream"], bool) and told["stream"] > 2:
            told["stream"] = 1
        owner.__cuda_array_interface__ = told
        before = sys.getrefcount(owner)
        tensor = None
        try:
            tensor = weir.from_cuda_array_interface(
                owner, at.choice((None, 0, 0)))
        except REFUSED as error:
            assert str(error), told
        counts[tensor is not None] += 1
        if tensor is not None:
            assert tensor.shape == told["shape"]
            assert sys.getrefcount(owner) == before + 1
            repr(tensor), tensor.nbytes, tensor.T, tensor.strides
        del tensor
        assert sys.getrefcount(owner) == before, told
    # Neither of the two is all that is tried.
    assert min(counts.values()) > ROUNDS // 20, counts
    assert weir.check() == []


class Managed:
    """A struct of DLPack in memory, of either form."""

    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    deleted = []
    deleter = kind(deleted.append)

    def __init__(self, at, memory):
        self.versioned = at.random() < 0.7
        self.lengths = (ctypes.c_int64 * 80)(
            *(self.length(at) for _ in range(80)))
        device = at.choice((1, 1, 2, 2, 2, 3, 13, 10, 0, -1, 2**31 - 1))
        data = memory.address if at.random() < 0.7 else \
            any_number(at) % 2**64
        dtype = at.choice(((2, 32, 1), (0, 64, 1), (1, 8, 1), (6, 8, 1),
                           (4, 16, 1), (5, 64, 1), (10, 8, 1),
                           (at.getrandbits(8), at.getrandbits(8),
                            at.getrandbits(16))))
        ndim = at.choice((0, 1, 2, 3, 4, 32, 33, 40, -1, -2**31, 2**31 - 1))
        address = ctypes.addressof(self.lengths)
        shape = 0 if ndim <= 0 and at.random() < 0.5 else address
        tensor = struct.pack(
            "QiiiBBHQQQ", data, device, at.choice((0, 0, 0, 1, 77, -1)), ndim,
            *dtype, shape, at.choice((0, address + 320)),
            at.choice((0, 0, 4, 2**60, 2**64 - 1)))
        called = ctypes.cast(Managed.deleter, ctypes.c_void_p).value
        # Without a deleter there is nobody to be told.
        self.told = at.random() < 0.95
        called = called if self.told else 0
        major = at.choice((1, 1, 1, 1, 0, 2, 2**32 - 1))
        raw = struct.pack("IIQQQ", major, at.getrandbits(32), 0, called,
                          at.choice((0, 1, 2, 3, 2**64 - 1))) + tensor \
            if self.versioned else tensor + struct.pack("QQ", 0, called)
        self.raw = ctypes.create_string_buffer(raw, len(raw))

    @staticmethod
    def length(at):
        if at.random() < 0.8:
            return at.choice((0, 1, 1, 2, 3))
        return (any_number(at) + 2**63) % 2**64 - 2**63

    def capsule(self):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.raw),
                   b"dltensor_versioned" if self.versioned else b"dltensor",
                   None)


def test_structs_of_dlpack_with_anything_in_them(memory):
    at = random.Random(SEED)
    counts = {True: 0, False: 0}
    for _ in range(ROUNDS):
        managed = Managed(at, memory)
        Managed.deleted.clear()
        tensor = None
        try:
            tensor = weir.from_dlpack(managed.capsule())
        except REFUSED as error:
            assert str(error)
        counts[tensor is not None] += 1
        if tensor is not None:
            assert Managed.deleted == []
            repr(tensor), tensor.nbytes, tensor.T, tensor.strides
        del tensor
        assert len(Managed.deleted) == managed.told
    assert min(counts.values()) > ROUNDS // 20, counts
    assert weir.check() == []


def test_what_answers_for_dlpack_with_anything(memory):
    at = random.Random(SEED)
    for _ in range(ROUNDS // 4):
        answers = {"device": (2, 0), "capsule": None}
        for key in answers:
            if at.random() < 0.6:
                answers[key] = any_thing(at)

        class Answers:
            def __dlpack_device__(self):
                return answers["device"]

            def __dlpack__(self, **_):
                return answers["capsule"] or memory.__dlpack__(stream=-1)

        try:
            weir.from_dlpack(Answers())
        except REFUSED as error:
            assert str(error)
    gc.collect()
    assert weir.check() == []


# ---- Objects that change what they are read from ----------------------------

# The object that each of these reads must stay alive while Python code that a
# conversion calls drops every other reference to it. Memory that was freed is
# filled with 0xdd by Python's debugging allocator, and is given out again by
# reuse().
HOSTILE = """
import gc, sys, weir
kept = []
def reuse():
    gc.collect()
    for n in (1, 2, 3):
        kept.append([(0x41414141,) * n for _ in range(500)])
    kept.append([bytes(n) for n in range(16, 128)])
    del kept[:-8]
class Acts:
    def __init__(self, act, value):
        self.act, self.value = act, value
    def __index__(self):
        self.act()
        reuse()
        return self.value
    def __bool__(self):
        self.act()
        reuse()
        return bool(self.value)
    __len__ = None
    def __repr__(self):
        self.act()
        reuse()
        return "acts"
class Named(str):
    # A key that is equal to another after it has acted.
    def __new__(cls, text, act):
        self = super().__new__(cls, text + "?")
        self.act, self.text = act, text
        return self
    def __hash__(self):
        return hash(self.text)
    def __eq__(self, other):
        act, self.act = self.act, reuse
        act()
        reuse()
        return False
def tried(call, *args, **kwargs):
    try:
        return call(*args, **kwargs)
    except (TypeError, ValueError, OverflowError, BufferError, LookupError,
            weir.Error) as error:
        assert str(error) and str(0x41414141) not in str(error), error
memory = weir.zeros((8, 8))
"""

SCENES = {
    "interface": """
class Owner:
    @property
    def __cuda_array_interface__(self):
        return told
for name in ("shape", "strides", "data", "typestr", "stream", "version", "mask",
             "all"):
    for place in ("shape", "strides", "data", "typestr", "stream", "version"):
        def act():
            if name == "all":
                told.clear()
            else:
                told[name] = None
        acts = Acts(act, 4)
        for wrong in range(3):
            told = dict(shape=tuple([2, 2]), strides=tuple([8, 4]),
                        typestr="<f4", data=tuple([memory.address, False]),
                        version=3, stream=1)
            told[place] = {
                "shape": ((acts, 2), (acts,), [acts]),
                "strides": ((acts, 4), (acts,), [acts]),
                "data": ((memory.address, acts), (acts, acts), [acts]),
            }.get(place, ([acts], (acts,), acts))[wrong]
            tried(weir.from_cuda_array_interface, Owner())
        del acts
        told = {Named(key, act): None for key in
                ("shape", "strides", "data", "typestr")}
        told.update(shape=tuple([2]), typestr="<" + "f4", version=3,
                    data=tuple([memory.address, False]), strides=tuple([4]))
        tried(weir.from_cuda_array_interface, Owner())
class Vanishes:
    @property
    def __cuda_array_interface__(self):
        global vanishing
        vanishing = None
        reuse()
        return dict(shape=(4,), typestr="<f4", data=(memory.address, False),
                    version=3)
vanishing = Vanishes()
tried(weir.from_cuda_array_interface, vanishing)
""",
    "dlpack": """
class Producer:
    pairs = []
    def __dlpack_device__(self):
        self.pairs[:] = [tuple([Acts(self.pairs.clear, 2), 0])]
        return self.pairs[0]
    def __dlpack__(self, **keywords):
        keywords.clear()
        type(self).__dlpack__ = None
        reuse()
        return memory.__dlpack__(stream=-1)
tried(weir.from_dlpack, Producer())
numbers = []
def versions():
    numbers[:] = [Acts(numbers.clear, 1), Acts(numbers.clear, 0)]
    return numbers
for key in ("max_version", "dl_device", "copy", "stream"):
    tried(memory.__dlpack__, **{key: versions()})
    tried(memory.__dlpack__, **{key: tuple(versions())})
    tried(memory.__dlpack__, **{key: Acts(reuse, 1)})
""",
    "shapes": """
lengths = []
def shape(length=3):
    lengths[:] = [Acts(lengths.clear, 2) for _ in range(length)]
    return lengths
for call in (weir.empty, weir.zeros):
    tried(call, shape())
    tried(call, tuple(shape()))
    tried(call, iter(shape()))
for call in (memory.reshape, memory.expand, memory.permute):
    tried(call, shape(2))
    tried(call, *shape(2))
tried(memory.as_strided, shape(2), shape(2))
tried(memory.__getitem__, tuple(shape(2)))
tried(memory.__getitem__, slice(Acts(reuse, 1), Acts(reuse, 2)))
tried(memory.__setitem__, tuple(shape(2)), 1)
tried(memory.__setitem__, Acts(reuse, 1), Acts(reuse, 3))
""",
    "copies": """
# The conversion of one end frees the memory of the other.
class Frees:
    def __init__(self, block):
        self.block = block
    @property
    def freed(self):
        try:
            self.block.free()
        except BufferError as error:
            refused.append(str(error))
        reuse()
        raise AttributeError
    def __buffer__(self, flags):
        return memoryview(bytearray(64))
refused = []
for make in (weir.malloc, weir.pinned):
    block = make(64)
    tried(weir.copy, block, Frees(block), 64)
    assert not block.freed and len(refused) > 0, refused
    block.free()
    refused.clear()
tried(weir.copy, Frees(weir.malloc(64)), bytearray(64))
block = weir.malloc(64)
tried(weir.copy, block, bytearray(64), Acts(block.free, 64))
block = weir.malloc(64)
class Streams:
    def __cuda_stream__(self):
        block.free()
        return tuple([0, Acts(reuse, 0)])
tried(block.record_stream, Streams())
""",
    "callbacks": """
class Callback:
    turn = 0
    def __call__(self, event):
        pass
    def __hash__(self):
        type(self).turn += 1
        return self.turn % 2
    def __eq__(self, other):
        raise ValueError("no answer")
for _ in range(20):
    callback = Callback()
    tried(weir.add_trace_callback, "memory_allocation", callback)
    tried(weir.remove_trace_callback, "memory_allocation", callback)
    tried(weir.add_oom_observer, callback)
    tried(weir.remove_oom_observer, callback)
class Removes:
    def __call__(self, event):
        weir.remove_trace_callback("memory_allocation", self)
        globals().pop("removes", None)
        reuse()
removes = Removes()
weir.add_trace_callback("memory_allocation", removes)
weir.malloc(100)
""",
    "ends": """
import weakref
# Finalisers, weak references and collections in the middle of a free.
block = weir.malloc(100)
def gone(reference):
    weir.malloc(100)
    reuse()
reference = weakref.ref(block, gone)
def freed(event):
    reuse()
weir.add_trace_callback("memory_deallocation", freed)
del block
class Ring:
    def __init__(self):
        self.me, self.tensor = self, weir.zeros(10)
        self.view = memoryview(weir.pinned(10))
    def __del__(self):
        weir.from_dlpack(self.tensor)
        reuse()
for _ in range(20):
    Ring()
gc.collect()
weir.remove_trace_callback("memory_deallocation", freed)
""",
    "handles": """
import weir.ipc
try:
    import numpy
except ImportError:
    numpy = None
for size in (64, 128, 1024, 0):
    tried(weir.ipc.open, bytes(size), Acts(reuse, 0))
    if numpy is not None:
        array = numpy.zeros(size, "uint8")
        array.flags.writeable = False
        def act():
            array.resize(1 << 20, refcheck=False)
        tried(weir.ipc.open, array, Acts(act, 0))
""",
}


@pytest.mark.parametrize("scene", SCENES)
def test_objects_that_drop_what_is_being_read_from_them(scene):
    told = support.run_python(
        HOSTILE + SCENES[scene] +
        "\nassert weir.check() == []\nprint('well')",
        PYTHONMALLOC="debug", PYTHONFAULTHANDLER="1")
    assert told == "well\n"
