"""PyTorch's own snapshot of a process that runs already, without weir.

    python -m weir.attach 4711 --record        # record the history from now on
    python -m weir.attach 4711 -o now.pickle   # write a snapshot

The process needs no change: Python runs a few lines in it, between two lines
of its main thread (sys.remote_exec). That needs Python 3.14 or newer, in the
process and here, of one minor version, and the right to trace the process. A
Python that was started with PYTHON_DISABLE_REMOTE_DEBUG refuses.
"""

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
import time

TIMEOUT_S = 60.0  # a main thread may be within a long call
_LOOK_S = 0.02
_ANSWER_BYTES = 4096

# The code that runs in the process. It must leave no name behind, and no exception.
_LINES = '''
def weir_attach(path, answer, record):
    import os
    import sys
    try:
        torch = sys.modules.get("torch")
        if torch is None:
            raise RuntimeError("the process has not imported torch")
        if not torch.cuda.is_initialized():
            raise RuntimeError("torch has not used a GPU in the process")
        if record:
            torch.cuda.memory._record_memory_history()
        else:
            torch.cuda.memory._dump_snapshot(path)
        said = "done"
    except BaseException as error:
        said = f"{{type(error).__name__}}: {{error}}"
    with open(answer + ".new", "w", encoding="utf-8") as file:
        file.write(said)
    os.replace(answer + ".new", answer)


try:
    weir_attach({path!r}, {answer!r}, {record!r})
finally:
    del weir_attach
'''


class AttachError(RuntimeError):
    """The process cannot be reached, or has no snapshot. The text says why."""


def _wait(pid, answer, timeout_s):
    """The answer of the process."""
    until = time.monotonic() + timeout_s
    while not os.path.exists(answer):
        if not os.path.exists(f"/proc/{pid}"):
            raise AttachError(f"process {pid} has ended")
        if time.monotonic() > until:
            raise AttachError(
                f"process {pid} ran no line of Python for {timeout_s:g} s: "
                "its main thread is within one call")
        time.sleep(_LOOK_S)
    with open(answer, encoding="utf-8", errors="replace") as file:
        return file.read(_ANSWER_BYTES)


def _remote_exec(pid, script):
    run = getattr(sys, "remote_exec", None)
    if run is None:
        version = ".".join(map(str, sys.version_info[:2]))
        raise AttachError(
            f"Python {version} cannot run lines in another process: both need "
            "3.14 or newer. Let the program call "
            "torch.cuda.memory._dump_snapshot(), or start it by "
            "'weir run --torch --watch'")
    try:
        run(pid, script)
    except ProcessLookupError:
        raise AttachError(f"there is no process {pid}") from None
    except PermissionError:
        raise AttachError(
            f"process {pid} may not be traced by you: it is another user's, "
            "or the system forbids it (kernel.yama.ptrace_scope)") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise AttachError(f"process {pid} cannot be reached: {error}") from None


@contextlib.contextmanager
def _meeting_place(pid):
    """A folder that only the process's user and this one can enter."""
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
    except FileNotFoundError:
        raise AttachError(f"there is no process {pid}") from None
    folder = tempfile.mkdtemp(prefix="weir-attach-")
    try:
        if owner != os.geteuid() and os.geteuid() == 0:
            os.chown(folder, owner, -1)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(pid, record, timeout_s, keep):
    with _meeting_place(pid) as folder:
        path = os.path.join(folder, "snapshot.pickle")
        answer = os.path.join(folder, "answer")
        script = os.path.join(folder, "lines.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(_LINES.format(path=path, answer=answer, record=record))
        _remote_exec(pid, script)
        said = _wait(pid, answer, timeout_s)
        if said != "done":
            raise AttachError(f"process {pid}: {said}")
        if keep is not None:
            _keep(path, keep)


def _keep(path, out):
    """Move a snapshot to its place: a file of this user alone, whose name is
    there when it is complete."""
    folder = os.path.dirname(os.path.abspath(out))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".weir-")
    try:
        with os.fdopen(handle, "wb") as to, open(path, "rb") as source:
            shutil.copyfileobj(source, to)
        os.replace(temporary, out)
    except BaseException:
        os.unlink(temporary)
        raise


def fetch(pid, out, timeout_s=TIMEOUT_S):
    """Write PyTorch's snapshot of process `pid` to the file `out`. It has a
    history if the process records one. Raises AttachError."""
    _run(pid, False, timeout_s, out)


def record(pid, timeout_s=TIMEOUT_S):
    """Let PyTorch record its history in process `pid` from now on. Raises
    AttachError."""
    _run(pid, True, timeout_s, None)


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m weir.attach",
        description="Fetch PyTorch's memory snapshot of a running process.")
    parser.add_argument("pid", type=int, metavar="PID")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("-o", "--output", metavar="FILE",
                      help="write a snapshot to FILE, for weir view and others")
    what.add_argument("--record", action="store_true",
                      help="record the history from now on")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S,
                        metavar="SECONDS", help="default: %(default)g")
    choices = parser.parse_args(arguments)
    try:
        if choices.record:
            record(choices.pid, choices.timeout)
        else:
            fetch(choices.pid, choices.output, choices.timeout)
    except (AttachError, OSError) as error:
        print(f"weir.attach: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
