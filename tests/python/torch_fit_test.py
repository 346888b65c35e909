"""weir.torch.fit() with a double of PyTorch's memory history.

The double records what its tensors allocate and free, in the form of PyTorch's
snapshots. tests/gpu/torch_fit.py does the same with PyTorch on a GPU.
"""

import json
import os
import pickle
import subprocess
import sys
import types
import weakref

import pytest
import support

import weir.torch

WEIR = os.path.join(support.BUILD, "bin", "weir")


class Memory:
    """torch.cuda.memory: a history of a device that has no cache."""

    def __init__(self):
        self.events = None
        self.next = 1 << 32
        self.live = {}
        self.dumps = 0

    def _record_memory_history(self, enabled="all", **options):
        assert set(options) <= {"max_entries", "stacks"}
        self.events = None if enabled is None else []

    def put(self, action, address, size):
        if self.events is not None:
            frames = [] if action != "alloc" else [{
                "name": sys._getframe(2).f_code.co_name,
                "filename": "train.py",
                "line": sys._getframe(2).f_lineno}]
            self.events.append({
                "action": action, "addr": address, "size": size, "stream": 0,
                "time_us": len(self.events), "frames": frames})

    def _dump_snapshot(self, path):
        self.dumps += 1
        with open(path, "wb") as file:
            pickle.dump({"segments": [self.segment(address, size) for
                                      address, size in self.live.items()],
                         "device_traces": [self.events]}, file)

    @staticmethod
    def segment(address, size):
        return {"device": 0, "address": address, "total_size": size,
                "allocated_size": size, "active_size": size,
                "requested_size": size, "stream": 0, "segment_type": "large",
                "segment_pool_id": (0, 0), "is_expandable": False,
                "frames": [], "blocks": [{
                    "address": address, "size": size, "requested_size": size,
                    "state": "active_allocated", "frames": []}]}


class Tensor:
    def __init__(self, memory, size):
        address = memory.next
        memory.next += 1 << 32
        memory.live[address] = size
        memory.put("alloc", address, size)

        def end():
            del memory.live[address]
            memory.put("free_requested", address, size)
            memory.put("free_completed", address, size)

        weakref.finalize(self, end)


@pytest.fixture
def memory(monkeypatch):
    torch = types.ModuleType("torch")
    memory = Memory()
    torch.cuda = types.SimpleNamespace(
        memory=memory, empty_cache=lambda: None, synchronize=lambda: None)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setenv(
        "PATH", os.path.dirname(WEIR) + os.pathsep + os.environ["PATH"])
    return memory


def trainer(memory):
    """A step of training: weights that stay, and activations by the batch."""
    weights = []

    def step(batch):
        if not weights or weights[0][0] != batch:
            weights[:] = [(batch, [Tensor(memory, 20 << 20)
                                   for _ in range(6)])]
        kept = []
        for _ in range(6):
            wide = Tensor(memory, batch * 3 << 19)
            kept.append(Tensor(memory, batch * 700000))
            del wide
        while kept:
            grad = Tensor(memory, batch * 700000)
            kept.pop()
            del grad

    return step


def truth(memory, batch, path):
    """The peak of live bytes of a run at this size, as PyTorch rounds it."""
    step = trainer(memory)
    step(batch=batch)
    memory._record_memory_history()
    for _ in range(3):
        step(batch=batch)
    memory._dump_snapshot(path)
    done = subprocess.run([WEIR, "replay", "--json", "--as", "torch", path],
                          stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def test_a_step_is_forecast_at_a_size_that_has_not_run(memory, tmp_path):
    found = weir.torch.fit(trainer(memory), batch=[2, 4], ask=32, limit="1G",
                           largest="batch", allocators=["torch"])
    real = truth(memory, 32, str(tmp_path / "truth.pickle"))
    row = found.allocators["torch"]
    assert memory.dumps == 3
    assert found.asked == {"batch": 32}
    assert row["peak_allocated_bytes"] == real["peak_allocated_bytes"]
    assert row["peak_held_bytes"] == real["peak_reserved_bytes"]
    assert row["fits"] and row["largest"] > 32
    assert found.peak_live_range[0] <= found.peak_live_bytes
    assert found.by_kind["activations"] > 0
    assert "batch=32" in str(found) and "fits" in str(found)
    assert "at most" in str(found) and "batch=32" in repr(found)


def test_a_device_that_is_too_small_is_said(memory):
    found = weir.torch.fit(trainer(memory), batch=[2, 4], ask={"batch": 32},
                           limit="150M", allocators=["torch"])
    assert not found.allocators["torch"]["fits"]
    assert "does not fit" in str(found)


def test_recordings_can_be_kept(memory, tmp_path):
    folder = tmp_path / "runs"
    weir.torch.fit(trainer(memory), batch=[2, 4], ask=8, keep=str(folder),
                   allocators=["torch"])
    assert sorted(os.listdir(folder)) == ["batch.2.pickle", "batch.4.pickle"]


def test_the_history_ends_when_a_step_fails(memory):
    def step(batch):
        raise MemoryError("a step")

    with pytest.raises(MemoryError, match="a step"):
        weir.torch.fit(step, batch=[2, 4], ask=8)
    assert memory.events is None


@pytest.mark.parametrize("options, named", [
    ({"ask": 8}, "no sizes"),
    ({"ask": 8, "batch": [2]}, "at least two"),
    ({"ask": 8, "batch": 2}, "batch is a list"),
    ({"ask": 8, "batch": [2, "x"]}, "batch is a list"),
    ({"ask": {"length": 8}, "batch": [2, 4]}, "'length'"),
    ({"ask": 8, "batch": [2, 4], "length": [1, 2]}, "{name: number}"),
    ({"ask": 8, "batch": [2, 4], "steps": 0}, "steps"),
])
def test_sizes_that_do_not_fit_together_are_named(memory, options, named):
    with pytest.raises(ValueError, match=named):
        weir.torch.fit(trainer(memory), **options)
    assert memory.dumps == 0


def test_what_the_command_complains_of_is_raised(memory):
    with pytest.raises(weir.torch.FitError, match="--largest needs --limit"):
        weir.torch.fit(trainer(memory), batch=[2, 4], ask=8, largest="batch")
    with pytest.raises(weir.torch.FitError, match="no setting 'size'"):
        weir.torch.fit(trainer(memory), batch=[2, 4], ask=8,
                       allocators=["torch,size:1"])
