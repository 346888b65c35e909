"""The build backend says on the terminal how far a build is, since pip keeps what
it prints."""

import os
import pty
import subprocess
import sys
import types

import pytest
import support

BACKEND = os.path.join(support.BUILD, "../../python/backend.py")
if not os.path.exists(BACKEND):
    pytest.skip("the sources are not here", allow_module_level=True)

MAKE = """#!/bin/sh
echo "  CC    base/list.c"
echo "  CC    base/tree.c"
echo "  LD    libweir.so"
exit ${MAKE_STATUS:-0}
"""

# What pip does: the output of the backend goes to a file, not to the terminal.
BUILD = """
import os, sys
sys.path.insert(0, sys.argv[1])
out = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
if sys.argv[3] == "captured":
    os.dup2(out, 1), os.dup2(out, 2)
import backend
backend.SAY_EVERY_S = 0
backend.make("python")
"""


@pytest.fixture
def build(tmp_path):
    make = tmp_path / "make"
    make.write_text(MAKE)
    make.chmod(0o755)
    env = dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}")

    def command(how):
        return [sys.executable, "-c", BUILD, os.path.dirname(BACKEND),
                str(tmp_path / "output"), how]

    def on_terminal(how, **more):
        """Build on a terminal. Gives what it shows, and the status."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(sys.executable, command(how), dict(env, **more))
        shown = b""
        while True:
            try:
                part = os.read(terminal, 4096)
            except OSError:  # the end, as Linux tells it
                break
            if not part:
                break
            shown += part
        os.close(terminal)
        return shown.decode(), os.WEXITSTATUS(
            os.waitpid(pid, 0)[1])

    def without_terminal():
        done = subprocess.run(command("captured"), env=env,
                              start_new_session=True, check=False)
        return done.returncode

    return types.SimpleNamespace(
        on_terminal=on_terminal, without_terminal=without_terminal,
        output=tmp_path / "output")


def test_a_captured_build_says_on_the_terminal_how_far_it_is(build):
    shown, status = build.on_terminal("captured")
    assert status == 0
    lines = shown.replace("\r", "").split("\n")
    assert "weir: building from source" in shown and "pip install -v" in shown
    assert "weir: 1 file compiled in 0 s" in lines
    assert "weir: 2 files compiled in 0 s" in lines
    assert lines[-1].startswith("weir: built, 2 files compiled in")
    assert build.output.read_text() == "".join(
        line.removeprefix('echo "').removesuffix('"') + "\n"
        for line in MAKE.splitlines()[1:4])


def test_a_build_that_is_shown_says_nothing_twice(build):
    shown, status = build.on_terminal("shown")
    assert status == 0
    assert "  CC    base/list.c" in shown
    assert "weir:" not in shown


def test_a_build_without_a_terminal_goes_on(build):
    assert build.without_terminal() == 0
    assert "  LD    libweir.so" in build.output.read_text()


def test_a_failed_build_says_who_says_why(build):
    shown, status = build.on_terminal("captured", MAKE_STATUS="2")
    assert status == 1
    assert "could not be built" in build.output.read_text()
