"""The wheel: the whole product, from a folder with a space in its name."""

import base64
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import zipfile

import pytest
import support

BACKEND = os.path.join(support.BUILD, "../../python/backend.py")
SNAPSHOT = os.path.join(support.BUILD, "../../tests/data/snapshots/train4.pickle")
if not os.path.exists(BACKEND):
    pytest.skip("the sources are not here", allow_module_level=True)
COMMAND = os.path.exists(os.path.join(support.PACKAGE, "weir/bin/weir"))
needs_command = pytest.mark.skipif(
    not COMMAND, reason="this package was built without the command")


@pytest.fixture(scope="module")
def backend():
    spec = importlib.util.spec_from_file_location("backend", BACKEND)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wheel(backend, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    os.environ["WEIR_PYTHON_PACKAGE"] = support.PACKAGE
    try:
        return folder / backend.build_wheel(str(folder))
    finally:
        del os.environ["WEIR_PYTHON_PACKAGE"]


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    """A folder with what pip would put into site-packages."""
    folder = tmp_path_factory.mktemp("site packages")
    folder = folder / "with a space"
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            path = archive.extract(info, folder)
            os.chmod(path, info.external_attr >> 16)
    return str(folder)


def run(site, *arguments, status=0):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("WEIR_", "LD_", "PYTHON"))}
    env["PYTHONPATH"] = site
    done = subprocess.run([sys.executable, *arguments], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == status, done.stderr
    return done


def test_a_wheel_has_the_whole_product(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entries = archive.read("weir-0.1.0.dist-info/entry_points.txt").decode()
        notices = archive.read("weir-0.1.0.dist-info/THIRD-PARTY.txt").decode()
    for name in ("weir/_weir.abi3.so", "weir/libweir.so.0", "weir/__main__.py",
                 "weir/lib/libweir_preload.so", "weir/lib/sim/libcuda.so.1",
                 "weir/lib/sim/libcudart.so.13",
                 "weir/lib/sim/libnvidia-ml.so.1",
                 "weir/lib/sim/include/cuda_runtime.h",
                 "weir/include/weir/weir.h", "weir/site/sitecustomize.py",
                 "_weir_command.py", "weir.pth",
                 "weir-0.1.0.dist-info/LICENSE"):
        assert name in names
    assert ("weir/bin/weir" in names) == COMMAND
    assert "weir = _weir_command:main" in entries
    for library in ("libbacktrace", "zlib", "jansson"):
        assert (library in notices) == COMMAND


def test_a_wheel_runs_with_glibc_2_28(wheel):
    minor = re.search(r"-manylinux_2_(\d+)_", wheel.name).group(1)
    assert int(minor) <= 28


def test_the_record_has_each_files_hash(wheel):
    with zipfile.ZipFile(wheel) as archive:
        record = archive.read("weir-0.1.0.dist-info/RECORD").decode()
        lines = record.splitlines()
        assert len(lines) == len(archive.namelist())
        for line in lines:
            name, digest, size = line.rsplit(",", 2)
            if name.endswith("RECORD"):
                continue
            content = archive.read(name)
            sha = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
            assert digest == "sha256=" + sha.decode().rstrip("=")
            assert int(size) == len(content)


def test_pip_knows_the_metadata_before_it_builds(backend, tmp_path):
    folder = backend.prepare_metadata_for_build_wheel(str(tmp_path))
    assert folder == "weir-0.1.0.dist-info"
    text = (tmp_path / folder / "METADATA").read_text()
    assert text.startswith("Metadata-Version: ")
    assert "\nName: weir\n" in text


@needs_command
def test_the_package_is_a_command(site):
    assert run(site, "-m", "weir", "--version").stdout == "weir 0.1.0\n"
    done = run(site, "-m", "weir", "no-such-command", status=2)
    assert "no-such-command" in done.stderr


@needs_command
def test_the_page_is_in_the_command(site, tmp_path):
    page = tmp_path / "page.html"
    done = run(site, "-m", "weir", "view", SNAPSHOT, "-o", str(page))
    assert done.stderr == ""
    assert page.stat().st_size > 100_000


@needs_command
def test_a_program_runs_under_weir_from_a_folder_with_a_space(site):
    program = ("import ctypes; p = ctypes.c_void_p(); "
               "print(ctypes.CDLL('libcudart.so.13').cudaMalloc("
               "ctypes.byref(p), 1 << 20))")
    done = run(site, "-m", "weir", "run", "--sim", "--", sys.executable, "-c",
               program)
    assert done.stdout == "0\n"
    assert "allocations served" in done.stderr
    assert "ERROR" not in done.stderr


@needs_command
def test_run_with_torch_finds_the_package(site):
    program = ("import os, sys; print('_weir_autoload' in sys.modules, "
               "os.environ['WEIR_TORCH'])")
    done = run(site, "-m", "weir", "run", "--sim", "--torch", "--",
               sys.executable, "-c", program)
    assert done.stdout == "True 1\n"


def test_a_package_without_the_command_says_what_is_missing(site, tmp_path):
    (tmp_path / "_weir_command.py").write_text(
        open(os.path.join(site, "_weir_command.py")).read())
    done = run(str(tmp_path), "-c", "import _weir_command; _weir_command.main()",
               status=1)
    assert "libjansson-dev" in done.stderr
    assert "Traceback" not in done.stderr
