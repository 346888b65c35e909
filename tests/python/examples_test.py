"""Runs the programs of examples/python."""

import os
import pickle
import subprocess
import sys

import pytest
import support

EXAMPLES = os.path.join(support.BUILD, "examples", "python")


def output_of(name, *arguments):
    env = dict(os.environ, PYTHONPATH=support.PACKAGE)
    done = subprocess.run(
        [sys.executable, os.path.join(EXAMPLES, name), *arguments], env=env,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        timeout=support.HELD_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_of_streams_is_right(tmp_path):
    path = str(tmp_path / "out.pickle")
    assert output_of("streams.py", path) == (
        "sum: 28\n"
        "one block served them all: True\n"
        "too much: OutOfMemoryError\n")
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    names = {frame["name"] for events in snapshot["device_traces"]
             for event in events for frame in event["frames"]}
    assert "load_batch" in names


def test_the_example_of_pytorch_is_right(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not here")
    if support.SIMULATED or not torch.cuda.is_available():
        pytest.skip("PyTorch needs a GPU")
    path = str(tmp_path / "out.pickle")
    assert output_of("torch_oom.py", path) == (
        f"out of memory; the snapshot is {path}\n"
        "PyTorch's allocator: adapter\n")
    assert os.path.getsize(path) > 0
