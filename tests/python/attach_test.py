"""weir.attach: PyTorch's snapshot of a process that does not know weir.

Where Python has no sys.remote_exec (before 3.14), a double of it lets the
process run the lines, as the real one does between two lines of Python.
"""

import os
import subprocess
import sys
import time

import pytest

from weir import attach

# A program with a torch of its own, which runs what the double sends it.
PROGRAM = """
import sys, types

class Memory:
    recorded = False
    def _record_memory_history(self):
        self.recorded = True
    def _dump_snapshot(self, path):
        if path.startswith("/nowhere"):
            raise OSError("no room")
        with open(path, "w") as file:
            file.write(f"snapshot, recorded: {self.recorded}")

kind = sys.argv[1]
if kind != "plain":
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(memory=Memory(),
                                       is_initialized=lambda: kind == "gpu")
    sys.modules["torch"] = torch
print("ready", flush=True)
for line in sys.stdin:
    exec(compile(open(line.strip()).read(), line, "exec"), {})
    assert "weir_attach" not in globals()
"""


@pytest.fixture
def start(monkeypatch):
    """Start such a program; the real call is used where there is one."""
    programs = []

    def begin(kind):
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, kind], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        assert program.stdout.readline() == "ready\n"

        def double(pid, script):
            assert pid == program.pid
            program.stdin.write(script + "\n")
            program.stdin.flush()

        monkeypatch.setattr(sys, "remote_exec", double, raising=False)
        programs.append(program)
        return program.pid

    yield begin
    for program in programs:
        program.kill()
        program.wait()
        program.stdin.close()
        program.stdout.close()


def test_a_snapshot_is_fetched(start, tmp_path):
    pid, out = start("gpu"), tmp_path / "now.pickle"
    assert attach.main([str(pid), "-o", str(out)]) == 0
    assert out.read_text() == "snapshot, recorded: False"
    assert out.stat().st_mode & 0o777 == 0o600
    assert attach.main([str(pid), "--record"]) == 0
    attach.fetch(pid, out)
    assert out.read_text() == "snapshot, recorded: True"
    assert os.listdir(tmp_path) == ["now.pickle"]


@pytest.mark.parametrize("kind, why", [
    ("plain", "has not imported torch"), ("idle", "has not used a GPU")])
def test_a_process_without_a_snapshot_says_so(start, tmp_path, capsys, kind,
                                              why):
    out = tmp_path / "now.pickle"
    assert attach.main([str(start(kind)), "-o", str(out)]) == 2
    assert why in capsys.readouterr().err
    assert not out.exists()


def test_an_old_python_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.delattr(sys, "remote_exec", raising=False)
    assert attach.main([str(os.getpid()), "-o", str(tmp_path / "x")]) == 2
    said = capsys.readouterr().err
    assert "3.14" in said and "_dump_snapshot" in said


@pytest.mark.parametrize("error, why", [
    (PermissionError(), "may not be traced by you"),
    (ProcessLookupError(), "there is no process"),
    (RuntimeError("the versions differ"), "the versions differ")])
def test_a_refusal_is_said(monkeypatch, error, why):
    def refuse(pid, script):
        raise error

    monkeypatch.setattr(sys, "remote_exec", refuse, raising=False)
    with pytest.raises(attach.AttachError, match=why):
        attach.record(os.getpid())


def test_a_busy_process_is_waited_for_a_while(monkeypatch):
    monkeypatch.setattr(sys, "remote_exec", lambda *_: None, raising=False)
    began = time.monotonic()
    with pytest.raises(attach.AttachError, match="ran no line of Python"):
        attach.record(os.getpid(), timeout_s=0.2)
    assert time.monotonic() - began < 60


def test_a_process_that_is_not_there_is_said():
    with pytest.raises(attach.AttachError, match="there is no process"):
        attach.record(2 ** 22 + 1)


@pytest.mark.skipif(not hasattr(sys, "remote_exec"),
                    reason="Python has no sys.remote_exec before 3.14")
def test_python_itself_runs_the_lines(tmp_path):
    program = PROGRAM.replace("for line in sys.stdin:",
                              "import time\nwhile True: time.sleep(0.01)\n"
                              "for line in ():")
    process = subprocess.Popen([sys.executable, "-c", program, "gpu"],
                               stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        attach.fetch(process.pid, tmp_path / "now.pickle")
        assert (tmp_path / "now.pickle").read_text().startswith("snapshot")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
