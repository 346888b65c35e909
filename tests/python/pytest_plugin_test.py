"""The pytest plug-in, in a pytest of its own for each test."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest

from support import PACKAGE

TESTS = """
import pytest
import weir

kept = []

def test_small():
    block = weir.malloc(1 << 20)

def test_large():
    block = weir.malloc(64 << 20)

def test_keeps():
    kept.append(weir.malloc(4 << 20))

@pytest.mark.weir(limit="8M")
def test_has_a_limit_of_its_own():
    with pytest.raises(weir.OutOfMemoryError):
        weir.malloc(16 << 20)

def test_is_free_of_it_again():
    block = weir.malloc(16 << 20)
"""


def run(folder, *arguments, tests=TESTS):
    (folder / "test_it.py").write_text(tests)
    environment = dict(os.environ, PYTHONPATH=PACKAGE,
                       PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider",
         "-p", "weir.pytest_plugin", *arguments, str(folder / "test_it.py")],
        env=environment, cwd=folder, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True)


def test_without_options_only_marks_count(tmp_path):
    result = run(tmp_path)
    assert result.returncode == 0, result.stdout
    assert "5 passed" in result.stdout
    assert "device memory" not in result.stdout


def test_a_test_beyond_the_limit_fails_on_its_line(tmp_path):
    result = run(tmp_path, "--weir-limit=32M")
    assert result.returncode == 1, result.stdout
    assert "1 failed, 4 passed" in result.stdout
    assert ">       block = weir.malloc(64 << 20)" in \
        re.sub(r"\n>\s+", "\n>       ", result.stdout)
    assert "OutOfMemoryError" in result.stdout


def test_the_report_has_the_highest_peaks_first(tmp_path):
    result = run(tmp_path, "--weir-report=2")
    assert result.returncode == 0, result.stdout
    rows = re.findall(r"^ +([\d.]+ \w+) +([\d.]+ \w+)  \S*::(\w+)$",
                      result.stdout, re.M)
    assert [row[2] for row in rows] == ["test_large", "test_is_free_of_it_again"]
    assert rows[0][0] == "64.0 MiB" and rows[0][1] == "0 B"


def test_what_is_left_is_in_the_properties(tmp_path):
    result = run(tmp_path, "--weir-report", "--junit-xml=out.xml")
    assert result.returncode == 0, result.stdout
    cases = {case.get("name"): {p.get("name"): int(p.get("value"))
                                for p in case.iter("property")}
             for case in xml.etree.ElementTree.parse(
                 tmp_path / "out.xml").iter("testcase")}
    assert cases["test_small"] == {"weir_peak_bytes": 1 << 20,
                                   "weir_left_bytes": 0}
    assert cases["test_keeps"] == {"weir_peak_bytes": 4 << 20,
                                   "weir_left_bytes": 4 << 20}
    assert cases["test_is_free_of_it_again"]["weir_peak_bytes"] == 20 << 20


@pytest.mark.parametrize("size", ["much", "-1", "0", "2X", ""])
def test_a_wrong_limit_is_named(tmp_path, size):
    result = run(tmp_path, f"--weir-limit={size}")
    assert result.returncode == 4, result.stdout
    assert f"--weir-limit: {size!r} is no size, such as 2G" in result.stdout


def test_the_driver_is_not_loaded_where_nothing_asks_for_it(tmp_path):
    result = run(tmp_path, tests="def test_it():\n"
                 "    assert 'libcuda' not in open('/proc/self/maps').read()\n")
    assert result.returncode == 0, result.stdout
    assert "1 passed" in result.stdout, result.stdout
