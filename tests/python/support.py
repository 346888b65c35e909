"""Support for the tests of the Python package.

Each X_test.py is run by a program of the build folder that calls main(): pytest
runs the tests of the file, and their results are printed as TAP, which
scripts/test-run counts. By hand:

    make python && scripts/test-run build/release python/
    build/release/tests/python/memory_test -k freed
"""

import contextlib
import ctypes
import gc
import os
import signal
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.dirname(os.path.dirname(HERE))
PACKAGE = os.path.join(BUILD, "python")
sys.path.insert(0, PACKAGE)

HELD_SECONDS = 600  # of deadlock; nothing takes that long

# The simulated driver by path; None where tests run on a GPU.
SIMULATED = os.environ.get("WEIR_LIBCUDA")
DRIVER = SIMULATED or "libcuda.so.1"


def use_double(name):
    """Import a double of a package that is not installed here: `name` of the
    folder double."""
    folder = os.path.join(HERE, "double")
    assert os.path.isdir(os.path.join(folder, name))
    sys.path.insert(0, folder)


class Tap:
    """A pytest plugin that prints results as TAP."""

    def __init__(self):
        self.number = 0
        self.result = "ok"
        self.more = ""
        self.reason = ""  # why a whole file is skipped

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config):
        # Its options are needed, its report is not.
        config.pluginmanager.unregister(name="terminalreporter")

    def pytest_collection_finish(self, session):
        gc.collect()
        gc.freeze()  # what tests collect is theirs
        skip = f" # SKIP {self.reason}" if self.reason else ""
        print(f"1..{len(session.items)}{skip}", flush=True)

    @staticmethod
    def sentence(nodeid):
        """test_a_block_is_freed[x] as "a block is freed [x]"."""
        name, bracket, case = nodeid.split("::")[-1].partition("[")
        words = name[len("test_"):].replace("_", " ")
        return words + (f" [{case}" if bracket else "")

    def pytest_runtest_logstart(self, nodeid):
        self.result, self.more = "ok", ""

    def pytest_runtest_logreport(self, report):
        """A test's setup, call or teardown is done."""
        if report.skipped:
            reason = report.longrepr[2].replace("Skipped: ", "")
            self.more = f" # SKIP {reason}"
        elif report.failed:
            self.result, self.more = "not ok", ""
            for line in str(report.longrepr).splitlines()[-40:]:
                print("# " + line)

    def pytest_runtest_logfinish(self, nodeid):
        self.number += 1
        print(f"{self.result} {self.number} - {self.sentence(nodeid)}"
              f"{self.more}", flush=True)

    def pytest_collectreport(self, report):
        if report.failed:
            print("# " + str(report.longrepr).replace("\n", "\n# "))
        if report.skipped:
            self.reason = report.longrepr[2].replace("Skipped: ", "")


def main(path):
    """Run the tests of a file; the exit status is pytest's, but 0 for a file
    that is skipped."""
    tap = Tap()
    status = pytest.main(
        [path, "--tb=short", "-p", "no:cacheprovider", "-p",
         "no:faulthandler", "--rootdir", HERE, *sys.argv[1:]],
        plugins=[tap])
    return 0 if tap.reason and status == 5 else status


@contextlib.contextmanager
def held(stream):
    """A stream whose work does not go on before the block ends, or before
    what it yields is called. A deadlock ends the process."""
    libc = ctypes.CDLL(None)
    gate = ctypes.create_string_buffer(64)  # a sem_t
    opened = []

    def go_on():
        opened.append(True)
        libc.sem_post(gate)

    libc.sem_init(gate, 0, 0)
    signal.alarm(HELD_SECONDS)
    assert ctypes.CDLL(DRIVER).cuLaunchHostFunc(
        ctypes.c_void_p(stream.handle), libc.sem_wait, gate) == 0
    try:
        yield go_on
    finally:
        if not opened:
            go_on()
        stream.synchronize()
        signal.alarm(0)


def run_python(code, *arguments, **environment):
    """Run code in a Python of its own, with the package on its path, and give
    what it printed. Fails the test if it fails."""
    env = dict(os.environ, PYTHONPATH=PACKAGE, **environment)
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
