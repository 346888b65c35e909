"""weir.torch: building, caching and installing the adapter.

PyTorch is a package made here of the double of its interface
(tests/plugins/torch/double), so that the adapter is compiled, loaded and run
as it is with PyTorch's own.
"""

import os
import shutil
import subprocess
import sys
import textwrap
import zipfile

import pytest
import support

TOP = os.path.dirname(os.path.dirname(support.BUILD))
DOUBLE = os.path.join(TOP, "tests/plugins/torch/double")
RUNTIME = os.path.join(TOP, "simcuda/cudart/include")
CUDART = os.path.join(support.BUILD, "lib/sim/libcudart.so.13")

pytestmark = pytest.mark.skipif(
    not support.SIMULATED or shutil.which("g++") is None or
    not os.path.isdir(DOUBLE),
    reason="needs the simulated device, g++ and the sources")

TORCH = """
__version__ = "9.9.9+cu130"
class version:
    cuda = "13.0"
    git_version = "0"
class _C:
    _GLIBCXX_USE_CXX11_ABI = True
class cuda:
    late = False
    calls = []
    @staticmethod
    def is_initialized():
        return cuda.late
    class memory:
        class CUDAPluggableAllocator:
            def __init__(self, *names):
                cuda.calls.append(names)
            def allocator(self):
                return self
            def __getattr__(self, name):
                return lambda address: cuda.calls.append((name, address))
        @staticmethod
        def change_current_allocator(allocator):
            cuda.calls.append("changed")
"""

# A program's use of the allocator that is installed.
USE = r"""
#include "double.h"
using namespace c10::cuda::CUDACachingAllocator;
extern "C" long use(void)
{
	CUDAAllocator *a = allocator.load();

	a->init(1);
	c10::DataPtr p = a->allocate(1000);
	return a->getDeviceStats(0).allocated_bytes[0].current;
}
"""


def compile_shared(source, out, *more):
    subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", "-o", out, source,
                    "-I" + DOUBLE, "-I" + RUNTIME, *more], check=True)


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A folder with a package torch, and CUDA's headers beside it."""
    folder = tmp_path_factory.mktemp("packages")
    torch = folder / "torch"
    (torch / "lib").mkdir(parents=True)
    (torch / "__init__.py").write_text(TORCH)
    (torch / "include").symlink_to(DOUBLE)
    (folder / "cuda").mkdir()
    (folder / "cuda" / "include").symlink_to(RUNTIME)
    library = torch / "lib" / "libc10.so"
    compile_shared(os.path.join(DOUBLE, "double.cpp"), str(library), CUDART,
                   "-Wl,-soname,libc10.so",
                   "-Wl,-rpath," + os.path.dirname(CUDART))
    for name in ("libc10_cuda.so", "libtorch_cpu.so"):
        (torch / "lib" / name).symlink_to(library)
    (folder / "use.cpp").write_text(USE)
    compile_shared(str(folder / "use.cpp"), str(folder / "use.so"),
                   str(library), "-Wl,-rpath," + str(torch / "lib"))
    return folder


@pytest.fixture(scope="module")
def cache(packages):
    """A cache with the adapter in it."""
    folder = packages / "cache"
    done = program("import weir.torch; print(weir.torch.build())", packages,
                   folder)
    assert done.returncode == 0, done.stderr
    assert os.path.exists(done.stdout.strip())
    return folder


def start(text, packages, cache, **more):
    env = dict(os.environ, CUDA_HOME=str(packages / "cuda"),
               WEIR_CACHE=str(cache),
               PYTHONPATH=f"{support.PACKAGE}{os.pathsep}{packages}")
    env.update(more)
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text)], env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def program(text, packages, cache, **more):
    process = start(text, packages, cache, **more)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess([], process.returncode, out, err)


def files_of(cache):
    return [n for n in os.listdir(cache / "torch") if n.endswith(".so")]


def run_module(*arguments, **env):
    return subprocess.run(
        [sys.executable, "-m", "weir.torch", *arguments], text=True,
        env=dict(os.environ, **env), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, check=False)


def test_the_command_prints_the_path_of_the_adapter(packages, cache):
    done = run_module(CUDA_HOME=str(packages / "cuda"), WEIR_CACHE=str(cache),
                      PYTHONPATH=f"{support.PACKAGE}{os.pathsep}{packages}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(cache / "torch" / files_of(cache)[0])


@pytest.mark.parametrize("torch, why", [
    ("raise ImportError('libcudart.so.12: cannot open shared object file')",
     "weir.torch: PyTorch cannot be imported by "),
    ("raise ModuleNotFoundError(\"No module named 'torch'\")",
     "weir.torch: PyTorch cannot be imported by "),
    ("class version:\n    cuda = None",
     "weir.torch.build(): this PyTorch is built without CUDA")])
def test_the_command_says_in_a_sentence_why_it_cannot_build(
        tmp_path, torch, why):
    (tmp_path / "torch.py").write_text(torch + "\n")
    done = run_module(PYTHONPATH=f"{support.PACKAGE}{os.pathsep}{tmp_path}",
                      WEIR_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(why)
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "cache").exists()


def test_the_command_refuses_an_unknown_flag(tmp_path):
    done = run_module("--forse", PYTHONPATH=support.PACKAGE)
    assert done.returncode == 2
    assert "--forse" in done.stderr


def test_an_installed_adapter_serves_pytorch(packages, cache):
    done = program(f"""
        import weir.torch
        print(weir.torch.installed(), weir.torch.install(),
              weir.torch.install(), weir.torch.installed())
        import ctypes
        use = ctypes.CDLL({str(packages / "use.so")!r}).use
        use.restype = ctypes.c_long
        print(use())
        """, packages, cache, CXX="/nonexistent")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["None", "adapter", "adapter", "adapter",
                                   "1024"]


def test_the_file_names_its_dependencies(packages, cache):
    names = files_of(cache)
    assert len(names) == 1
    assert names[0].startswith("weir_torch-9.9.9+cu130-abi1-weir")


def test_the_file_depends_on_every_source():
    import weir.torch

    folder = os.path.join(support.PACKAGE, "weir")
    there = {f"plugins/torch/{name}"
             for name in os.listdir(os.path.join(folder, "plugins/torch"))}
    assert there == {s for s in weir.torch._SOURCES
                     if s.startswith("plugins")}
    assert all(os.path.exists(os.path.join(folder, s))
               for s in weir.torch._SOURCES)


def test_another_pytorch_is_another_file(packages, cache, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(packages, other, symlinks=True,
                    ignore=shutil.ignore_patterns("cache"))
    (other / "torch/__init__.py").write_text(
        TORCH.replace("9.9.9", "9.9.8"))
    done = program("""
        import weir.torch
        try:
            weir.torch.install(fallback=False)
        except weir.torch.NotInstalled as error:
            print(error)
        """, other, cache, CXX="/nonexistent")
    assert "cannot be run" in done.stdout


def test_two_that_start_at_once_build_one_file(packages, tmp_path):
    both = [start("import weir.torch; print(weir.torch.install())", packages,
                  tmp_path / "new") for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=200)
        assert out.strip() == "adapter", err
    assert len(files_of(tmp_path / "new")) == 1
    assert not [n for n in os.listdir(tmp_path / "new/torch")
                if n.startswith(".")]


def test_it_is_too_late_once_cuda_is_initialised(packages, cache):
    done = program("""
        import torch, weir.torch
        torch.cuda.late = True
        try:
            weir.torch.install()
        except RuntimeError as error:
            print(error)
        print(weir.torch.installed())
        """, packages, cache)
    assert "CUDA is already initialised" in done.stdout
    assert done.stdout.split()[-1] == "None"


def test_it_cannot_be_uninstalled(packages, cache):
    done = program("""
        import weir.torch
        for _ in range(2):
            try:
                weir.torch.uninstall()
            except RuntimeError as error:
                print(error)
            weir.torch.install()
        """, packages, cache)
    first, second = done.stdout.splitlines()
    assert "not installed" in first
    assert "frees each tensor by" in second


def test_without_cuda_it_is_refused(packages, cache):
    done = program("""
        import torch, weir.torch
        torch.version.cuda = None
        try:
            weir.torch.install()
        except weir.torch.NotInstalled as error:
            print(error)
        """, packages, cache)
    assert "without CUDA" in done.stdout


def test_without_a_compiler_every_hook_is_set(packages, tmp_path):
    done = program("""
        import torch, weir.torch
        print(weir.torch.install())
        names = [c[0] for c in torch.cuda.calls if c != "changed"]
        print(*names[1:])
        print(torch.cuda.calls[-1], all(c[1] for c in torch.cuda.calls[1:-1]))
        """, packages, tmp_path / "empty", CXX="/nonexistent")
    how, hooks, changed = done.stdout.splitlines()
    assert how == "pluggable"
    assert hooks.split() == [
        "set_init_fn", "set_reset_fn", "set_memory_fraction_fn",
        "set_base_alloc_fn", "set_record_stream_fn",
        "set_begin_allocate_to_pool", "set_end_allocate_to_pool_fn",
        "set_release_pool"]
    assert changed == "changed True"
    assert "pluggable allocator is used" in done.stderr


def test_a_failed_compilation_is_reported_and_leaves_nothing(packages, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(packages, broken, symlinks=True,
                    ignore=shutil.ignore_patterns("cache"))
    (broken / "torch/include").unlink()
    (broken / "torch/include").mkdir()
    done = program("""
        import weir.torch
        try:
            weir.torch.build()
        except weir.torch.NotInstalled as error:
            print(error)
        """, broken, tmp_path / "cache")
    assert "does not compile against PyTorch 9.9.9" in done.stdout
    assert files_of(tmp_path / "cache") == []


def test_a_cache_of_others_is_not_trusted(packages, cache, tmp_path):
    (tmp_path / "torch").mkdir()
    os.chmod(tmp_path / "torch", 0o777)
    done = program("""
        import weir.torch
        try:
            weir.torch.build()
        except weir.torch.NotInstalled as error:
            print(error)
        """, packages, tmp_path)
    assert "can be written to by others" in done.stdout


def test_the_environment_installs_it_at_the_import(packages, cache):
    site = os.path.join(support.PACKAGE, "weir", "site")
    path = os.pathsep.join([site, support.PACKAGE, str(packages)])
    done = program("""
        import sys
        assert "weir" not in sys.modules
        import torch
        import weir.torch
        print(weir.torch.installed(), torch.__version__)
        """, packages, cache, WEIR_TORCH="1", PYTHONPATH=path)
    assert done.stdout.split() == ["adapter", "9.9.9+cu130"], done.stderr
    done = program("""
        import torch
        import weir.torch
        print(weir.torch.installed())
        """, packages, cache, WEIR_TORCH="0", PYTHONPATH=path)
    assert done.stdout.split() == ["None"], done.stderr


def test_a_failure_at_the_import_is_reported(packages, cache, tmp_path):
    site = os.path.join(support.PACKAGE, "weir", "site")
    plain = tmp_path / "plain"
    (plain / "torch").mkdir(parents=True)
    (plain / "torch/__init__.py").write_text(
        TORCH.replace('cuda = "13.0"', "cuda = None"))
    path = os.pathsep.join([site, str(plain)])
    done = program("import torch; print('on')", packages, cache,
                   WEIR_TORCH="1", PYTHONPATH=path)
    assert done.stdout.strip() == "on"
    assert "PyTorch keeps its own allocator" in done.stderr
    done = program("import torch; print('on')", packages, cache,
                   WEIR_TORCH="require", PYTHONPATH=path)
    assert done.returncode != 0
    assert "without CUDA" in done.stderr


def test_a_program_has_its_own_sitecustomize(packages, cache, tmp_path):
    site = os.path.join(support.PACKAGE, "weir", "site")
    (tmp_path / "sitecustomize.py").write_text("mine = 'here'\n")
    path = os.pathsep.join([site, str(tmp_path)])
    done = program("import sitecustomize; print(sitecustomize.mine)",
                   packages, cache, WEIR_TORCH="1", PYTHONPATH=path)
    assert done.stdout.strip() == "here", done.stderr


def test_weir_run_gives_a_program_one_weir(packages, cache):
    weir = os.path.join(support.BUILD, "bin", "weir")
    text = textwrap.dedent(f"""
        import torch, weir.torch, weir, ctypes
        use = ctypes.CDLL({str(packages / "use.so")!r}).use
        use.restype = ctypes.c_long
        print(weir.torch.installed(), use())
        x = weir.malloc(5 << 20)
        print(weir.stats(0)["allocation.all.allocated"])
        """)
    env = dict(os.environ, CUDA_HOME=str(packages / "cuda"),
               WEIR_CACHE=str(cache), PYTHONPATH=str(packages))
    done = subprocess.run(
        [weir, "run", "--torch", "--sim", "--report=-", "--", sys.executable,
         "-c", text], env=env, text=True, capture_output=True, timeout=120,
        check=False)
    assert done.stdout.split() == ["adapter", "1024", "2"], done.stderr
    assert done.returncode == 0
    assert "allocations served              2" in done.stderr


# ---- Installed ---------------------------------------------------------------


USED = """
    import torch, weir.torch, ctypes, weir
    use = ctypes.CDLL({use!r}).use
    use.restype = ctypes.c_long
    print(weir.torch.installed(), use(), weir.__file__)
    """


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """Where `make install` has put weir."""
    folder = tmp_path_factory.mktemp("prefix")
    subprocess.run([os.path.join(TOP, "scripts/install"), support.BUILD],
                   env=dict(os.environ, PREFIX=str(folder), DESTDIR=""),
                   check=True, stdout=subprocess.DEVNULL)
    return folder


def test_weir_run_serves_pytorch_from_where_it_is_installed(
        packages, prefix, tmp_path):
    text = textwrap.dedent(USED.format(use=str(packages / "use.so")))
    env = dict(os.environ, CUDA_HOME=str(packages / "cuda"),
               WEIR_CACHE=str(tmp_path), PYTHONPATH=str(packages))
    done = subprocess.run(
        [prefix / "bin/weir", "run", "--torch", "--sim", "--quiet", "--",
         sys.executable, "-c", text], env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
        check=False)
    assert done.stdout.split() == [
        "adapter", "1024", str(prefix / "lib/weir/python/weir/__init__.py")], \
        done.stderr


def test_the_installed_package_has_no_library_of_its_own(prefix):
    library = prefix / "lib/weir/python/weir/libweir.so.0"
    assert os.path.samefile(library, prefix / "lib/libweir.so.0")
    assert not os.path.isabs(os.readlink(library))


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    """The environment of a user who has installed the wheel, as
    `pip install --user` does."""
    folder = tmp_path_factory.mktemp("user")
    env = dict(os.environ, PYTHONUSERBASE=str(folder),
               WEIR_PYTHON_PACKAGE=support.PACKAGE)
    env.pop("PYTHONPATH", None)
    site = subprocess.run([sys.executable, "-m", "site", "--user-site"],
                          env=env, stdout=subprocess.PIPE, text=True,
                          check=False).stdout.strip()
    subprocess.run([sys.executable, os.path.join(TOP, "python/backend.py"),
                    folder / "wheel"], env=env, check=True,
                   stdout=subprocess.DEVNULL)
    with zipfile.ZipFile(next((folder / "wheel").iterdir())) as wheel:
        wheel.extractall(site)
    return {"PYTHONUSERBASE": str(folder), "site": site}


def installed_by_wheel(packages, user, cache, text, **more):
    env = {"PYTHONUSERBASE": user["PYTHONUSERBASE"],
           "PYTHONPATH": str(packages)}
    return program(text, packages, cache, **env, **more)


@pytest.mark.skipif(sys.prefix != sys.base_prefix,
                    reason="a virtual environment has no user's packages")
def test_an_installed_wheel_and_the_environment_are_enough(
        packages, user, tmp_path):
    # The build above made the adapter, and it is what gets installed.
    text = """
        import torch, weir.torch
        print(weir.torch.installed(), weir.__file__)
        print(len(weir.torch._file_name(torch)) > 0)
        """
    path = os.path.join(user["site"], "weir/__init__.py")
    for said, how in (("1", "pluggable"), ("", "None"), ("0", "None")):
        done = installed_by_wheel(packages, user, tmp_path, text,
                                  WEIR_TORCH=said, CXX="/nonexistent")
        assert done.stdout.split() == [how, path, "True"], done.stderr


def test_a_wheel_costs_programs_nothing_without_the_environment(
        packages, user, cache):
    text = """
        import sys
        print([m for m in sys.modules if "weir" in m],
              [f for f in sys.meta_path if "weir" in type(f).__module__])
        """
    done = installed_by_wheel(packages, user, cache, text)
    assert done.stdout.split() == ["[]", "[]"], done.stderr


def test_weir_run_takes_the_weir_that_a_python_has(packages, user, prefix,
                                                   tmp_path):
    text = textwrap.dedent("""
        import sys, torch, weir.torch
        print(weir.torch.installed(), weir.__file__)
        """)
    env = dict(os.environ, CUDA_HOME=str(packages / "cuda"),
               WEIR_CACHE=str(tmp_path), PYTHONPATH=str(packages),
               PYTHONUSERBASE=user["PYTHONUSERBASE"], CXX="/nonexistent")
    done = subprocess.run(
        [prefix / "bin/weir", "run", "--torch", "--sim", "--quiet", "--",
         sys.executable, "-c", text], env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
        check=False)
    assert done.stdout.split() == [
        "pluggable", os.path.join(user["site"], "weir/__init__.py")], \
        done.stderr
    assert done.stderr.count("pluggable allocator is used") == 1
