"""Reads the stubs with a type checker."""

import os
import subprocess
import sys

import pytest
import support

pytest.importorskip("mypy")

PACKAGE = os.path.join(support.PACKAGE, "weir")

# Modules without a stub are not checked, nor what they import.
SETTINGS = """
[mypy]
ignore_missing_imports = True
follow_imports = skip
[mypy-weir.*]
ignore_errors = True
"""

# Names that a type checker cannot see, because C makes them.
KNOWN = """
weir\\.(Event|Graph)\\.__init__
weir\\.(PinnedMemory|Tensor)\\.__buffer__
weir\\.options
weir\\.(_|cuda_core|cupy|numba|onnxruntime|torch|triton).*
"""

RIGHT = """
from typing import Dict, List, Tuple

import weir

stream: weir.Stream = weir.Stream()
with stream:
    block: weir.Memory = weir.malloc(64 << 20)
block.record_stream(weir.current_stream())
x: weir.Tensor = weir.zeros((1024, 1024), "float16")
y: weir.Tensor = x[1:, ::2].T.to("cpu", "float32")
shape: Tuple[int, ...] = y.shape
with weir.device("cuda:0") as chosen:
    d: weir.device = chosen
counts: Dict[str, int] = weir.stats()
faults: List[str] = weir.check()
weir.options["prefer"] = "memory"
shared: weir.ipc.Shared = weir.ipc.share(x)
loaded: Dict[str, weir.Tensor] = weir.load("x", map={"cuda:1": "cuda:0"})
def observe(failure: weir.OutOfMemory) -> None:
    print(failure.report)
weir.add_oom_observer(observe)
with weir.on_sleep(before=lambda: None) as hook:
    h: weir.on_sleep = hook
"""

# A line, and what is wrong with it.
WRONG = [
    ('weir.malloc("1")', "arg-type"),
    ('weir.zeros((2, 3)).shape = (6,)', "misc"),
    ('weir.Stream().wait_event(3)', "arg-type"),
    ('weir.nothing()', "attr-defined"),
    ('weir.history_start("everything")', "arg-type"),
    ('weir.add_oom_observer(lambda: None)', "arg-type"),
    ('weir.on_sleep(after=3)', "arg-type"),
    ('print(weir.OutOfMemoryError("").status + 1)', "operator"),
]


def check(*arguments, module="mypy"):
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], text=True,
        env=dict(os.environ, MYPYPATH=support.PACKAGE,
                 PYTHONPATH=support.PACKAGE),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return str(tmp_path_factory.mktemp("mypy"))


def test_the_stubs_have_no_fault(cache):
    code, told = check("--strict", "--cache-dir", cache,
                       *(os.path.join(PACKAGE, name) for name in
                         sorted(os.listdir(PACKAGE)) if name.endswith(".pyi")))
    assert code == 0, told


def test_programs_are_checked(tmp_path, cache):
    program = tmp_path / "program.py"
    program.write_text(RIGHT + "".join(line + "\n" for line, _ in WRONG))
    _, told = check("--strict", "--cache-dir", cache, str(program))
    first = RIGHT.count("\n") + 1
    found = {int(line.split(":")[1]): line for line in told.splitlines()
             if ": error: " in line}
    assert sorted(found) == list(range(first, first + len(WRONG))), told
    for i, (_, kind) in enumerate(WRONG):
        assert f"[{kind}]" in found[first + i]


def test_the_stubs_fit_the_modules(tmp_path):
    (tmp_path / "settings").write_text(SETTINGS)
    (tmp_path / "known").write_text(KNOWN)
    code, told = check(
        "weir", "--ignore-missing-stub", "--ignore-unused-allowlist",
        "--allowlist", str(tmp_path / "known"), "--mypy-config-file",
        str(tmp_path / "settings"), module="mypy.stubtest")
    assert code == 0, told
