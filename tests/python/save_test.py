"""Tensors in files."""

import copy
import errno
import gc
import json
import os
import pickle
import struct
import sys

import pytest
import support  # noqa: F401

import weir

numpy = pytest.importorskip("numpy")

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16",
          "uint32", "uint64", "float16", "bfloat16", "float32", "float64",
          "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
          "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
          "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz")


@pytest.fixture(autouse=True)
def health():
    yield
    gc.collect()
    assert weir.stats()["allocated_bytes.all.current"] == 0
    assert weir.check() == []


@pytest.mark.parametrize("place", ("cuda:0", "pinned", "cpu"))
def test_tensors_of_all_types_come_back(tmp_path, place):
    saved = {dtype: weir.asarray([[0, 1], [2, 1]], dtype, place)
             for dtype in DTYPES}
    saved["none"] = weir.zeros((0, 3), "float32", place)
    saved["one"] = weir.full((), 7, "int32", place)
    weir.save(tmp_path / "all", saved)
    loaded = weir.load(tmp_path / "all")
    assert set(loaded) == set(saved)
    for name, tensor in loaded.items():
        assert (tensor.dtype, tensor.shape, tensor.place) == (
            saved[name].dtype, saved[name].shape, place)
        assert tensor.tolist() == saved[name].tolist()


def test_tensors_that_shared_memory_share_it_again(tmp_path):
    whole = weir.asarray(numpy.arange(24).reshape(4, 6), place="cuda")
    weir.save(tmp_path / "s", {"whole": whole, "row": whole[1],
                               "odd": whole[:, 1::2]})
    loaded = weir.load(tmp_path / "s")
    loaded["whole"][1] = 9
    assert loaded["row"].tolist() == [9] * 6
    assert loaded["odd"][1].tolist() == [9] * 3
    assert (tmp_path / "s").stat().st_size < 24 * 8 + 1024


def test_the_file_follows_the_format(tmp_path):
    weir.save(tmp_path / "f", {"x": numpy.arange(6, dtype="float32")},
              metadata={"made by": "a test"})
    raw = (tmp_path / "f").read_bytes()
    length = struct.unpack_from("<Q", raw)[0]
    header = json.loads(raw[8:8 + length])
    assert (header["x"]["dtype"], header["x"]["shape"]) == ("F32", [6])
    start, end = header["x"]["data_offsets"]
    assert numpy.frombuffer(raw[8 + length:][start:end], "float32").tolist() \
        == [0, 1, 2, 3, 4, 5]
    loaded = weir.load(tmp_path / "f")
    assert loaded.metadata == {"made by": "a test"}


def test_places_are_chosen_and_mapped(tmp_path):
    weir.save(tmp_path / "p", {"x": weir.ones(3), "h": weir.ones(3, place="cpu")})
    assert {t.place for t in weir.load(tmp_path / "p", "cpu").values()} == \
        {"cpu"}
    mapped = weir.load(tmp_path / "p", map={"cpu": "pinned",
                                            "cuda:0": "cuda"})
    assert (mapped["x"].place, mapped["h"].place) == ("cuda:0", "pinned")
    with pytest.raises(ValueError, match="nvalid device string"):
        weir.load(tmp_path / "p", "tpu")
    with pytest.raises(ValueError, match="not both"):
        weir.load(tmp_path / "p", "cpu", map={"cpu": "cuda"})
    raw = (tmp_path / "p").read_bytes().replace(b"cuda:0", b"cuda:7")
    (tmp_path / "q").write_bytes(raw)
    with pytest.raises(weir.NoDeviceError):
        weir.load(tmp_path / "q")


def test_progress_is_reported(tmp_path):
    told = []
    x = weir.ones(1 << 20, "uint8")
    weir.save(tmp_path / "x", {"x": x},
              progress=lambda *counts: told.append(counts))
    assert told[-1][0] == told[-1][1] >= 1 << 20
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    told.clear()
    weir.load(tmp_path / "x", progress=lambda *counts: told.append(counts))
    assert told[-1][0] == told[-1][1] >= 1 << 20
    with pytest.raises(ZeroDivisionError):
        weir.save(tmp_path / "x", {"x": x}, progress=lambda d, t: 1 / 0)


def test_a_bar_is_shown_where_tqdm_is(tmp_path, capfd, monkeypatch):
    pytest.importorskip("tqdm")
    x = weir.ones(1 << 20, "uint8")
    weir.save(tmp_path / "x", {"x": x}, progress=True)
    weir.load(tmp_path / "x", progress=True)
    shown = capfd.readouterr().err
    assert "save: 100%" in shown and "load: 100%" in shown
    monkeypatch.setitem(sys.modules, "tqdm", None)
    weir.load(tmp_path / "x", progress=True)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("raw", (
    b"", b"1234567", struct.pack("<Q", 2**63), struct.pack("<Q", 2) + b"{}"[:1],
    struct.pack("<Q", 4) + b"[1, ", struct.pack("<Q", 2**40) + b"{}",
    struct.pack("<Q", 60) + b'{"x":{"dtype":"F32","shape":[9],'
    b'"data_offsets":[0,4]}}'.ljust(60) + bytes(4)))
def test_a_file_that_is_not_in_the_format_is_refused(tmp_path, raw):
    (tmp_path / "bad").write_bytes(raw)
    with pytest.raises(weir.FileError) as told:
        weir.load(tmp_path / "bad")
    assert isinstance(told.value, OSError) and str(told.value)
    assert told.value.status == "WEIR_EFILE"


def again(error):
    """The error, pickled by each protocol and copied both ways."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        yield pickle.loads(pickle.dumps(error, protocol))
    yield copy.copy(error)
    yield copy.deepcopy(error)


def same(a, b):
    return type(a) is type(b) and str(a) == str(b) and \
        (a.errno, a.strerror, a.filename, a.status, a.args) == \
        (b.errno, b.strerror, b.filename, b.status, b.args)


def refused(call, *args):
    with pytest.raises(weir.FileError) as told:
        call(*args)
    assert all(same(told.value, one) for one in again(told.value))
    return told.value


def test_an_error_of_a_file_has_what_an_os_error_has(tmp_path):
    x = {"x": weir.ones(3)}
    absent = tmp_path / "none" / "x"
    os.mkfifo(tmp_path / "pipe")
    for call, path, number in (
            (lambda p: weir.load(p), absent, errno.ENOENT),
            (lambda p: weir.save(p, x), absent, errno.ENOENT),
            (lambda p: weir.load(p), tmp_path, errno.EISDIR),
            (lambda p: weir.save(p, x), tmp_path / "pipe", errno.EINVAL)):
        for form in (str(path), path, os.fsencode(path)):
            error = refused(call, form)
            assert error.errno == number
            assert error.strerror == os.strerror(number)
            assert error.filename == os.fspath(form)
            assert str(path) in str(error)


def test_an_error_of_the_format_names_the_file_and_has_no_errno(tmp_path):
    (tmp_path / "bad").write_bytes(b"1234567")
    with pytest.raises(weir.FileError):  # leaves an errno behind
        weir.load(tmp_path / "none")
    error = refused(weir.load, tmp_path / "bad")
    assert error.errno is None and error.strerror is None
    assert error.filename == str(tmp_path / "bad")
    assert "safetensors" in str(error)


def test_an_error_that_a_program_makes_is_like_any_os_error():
    error = weir.FileError(errno.EPERM, "not allowed", "x")
    assert (error.errno, error.strerror, error.filename) == (
        errno.EPERM, "not allowed", "x")
    assert str(error) == "[Errno 1] not allowed: 'x'"
    copied = copy.copy(error)
    assert str(copied) == str(error) and copied.filename == "x"
    assert str(weir.FileError("text")) == "text"
    assert str(weir.FileError()) == ""


@pytest.mark.parametrize("call", (
    lambda: weir.malloc(0), lambda: weir.malloc(1 << 50),
    lambda: weir.set_device(1000), lambda: weir.pinned(1 << 59),
    lambda: weir.options.__setitem__("prefer", "nothing")))
def test_every_error_is_pickled_and_copied(call):
    with pytest.raises(weir.Error) as told:
        call()
    for one in (*(pickle.loads(pickle.dumps(told.value, protocol))
                  for protocol in range(pickle.HIGHEST_PROTOCOL + 1)),
                copy.copy(told.value), copy.deepcopy(told.value)):
        assert type(one) is type(told.value)
        assert str(one) == str(told.value)
        assert one.status == told.value.status


def test_objects_that_cannot_be_saved_are_refused(tmp_path):
    x = weir.ones(3)
    with pytest.raises(weir.FileError):
        weir.save(tmp_path / "none" / "x", {"x": x})
    with pytest.raises(ValueError):
        weir.save(tmp_path / "x", {"__metadata__": x})
    with pytest.raises(TypeError):
        weir.save(tmp_path / "x", {"x": object()})
    with pytest.raises(TypeError):
        weir.save(tmp_path / "x", {3: x})
    assert list(tmp_path.iterdir()) == []


def write(path, header, data=b""):
    """A file of others: a header, as an object or as bytes, and elements."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + data)


def entry(dtype, shape, begin, end, **members):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end],
            **members}


def test_names_keys_and_values_are_those_of_the_header(tmp_path):
    path = tmp_path / "x"
    names = {"": 0, "a\0b": 1, "a\0c": 2, "a": 3, "\U0001f600\"\\\n": 4, "é": 5}
    texts = {"k\0": "\0v\0\0", "": "", "é": "\U0001f600", "weir": "x"}
    header = {name: entry("U8", [1], i, i + 1) for name, i in names.items()}
    for ascii in (True, False):
        raw = json.dumps({"__metadata__": {**texts, "weir.other": "y"},
                          **header}, ensure_ascii=ascii).encode()
        write(path, raw, bytes(range(6)))
        loaded = weir.load(path, "cpu")
        assert {name: t.tolist()[0] for name, t in loaded.items()} == names
        assert loaded.metadata == texts
        assert loaded.opaque == {}


def test_tensors_without_a_type_of_weir_s_are_bytes(tmp_path):
    write(tmp_path / "x", {
        "w": entry("F4", [2, 4], 0, 4), "v": entry("F6_E3M2", [4], 4, 7),
        "a": entry("F32", [1], 7, 11)},
        bytes(range(7)) + struct.pack("<f", 1.5))
    loaded = weir.load(tmp_path / "x", "cpu")
    assert loaded.opaque == {"w": ("F4", (2, 4)), "v": ("F6_E3M2", (4,))}
    assert loaded["w"].tolist() == [0, 1, 2, 3]
    assert loaded["v"].tolist() == [4, 5, 6]
    assert loaded["a"].tolist() == [1.5]


def test_members_that_nobody_knows_are_ignored(tmp_path):
    write(tmp_path / "x", {"a": entry("U8", [2], 0, 2, note="x",
                                      nested={"k": [1, {"z": None}]})}, b"ab")
    assert weir.load(tmp_path / "x", "cpu")["a"].tolist() == [97, 98]


@pytest.mark.parametrize("after", (b"\0", b"\0 garbage", b"{}", b" \x80"))
def test_whatever_follows_a_header_is_refused(tmp_path, after):
    write(tmp_path / "x", b"{}" + after)
    with pytest.raises(weir.FileError):
        weir.load(tmp_path / "x", "cpu")
    write(tmp_path / "x", b"{} \n")
    assert weir.load(tmp_path / "x", "cpu") == {}
