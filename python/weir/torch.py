"""weir as the CUDA allocator of PyTorch, device memory and page-locked.

    import weir.torch
    weir.torch.install()               # before the first use of CUDA
    import torch                       # may also come first
    x = torch.empty(1 << 20, device="cuda")
    print(torch.cuda.memory_summary()) # shows memory of weir

Without a change to the program: `weir run --torch -- python3 train.py`, or
WEIR_TORCH=1 in the environment of a Python that has the package.

The adapter is a shared object that is compiled against the installed PyTorch
when it is first needed (some ten seconds; a C++ compiler and CUDA's headers are
necessary), and stored in the user's cache folder: $WEIR_CACHE, else
$XDG_CACHE_HOME/weir, else ~/.cache/weir. `python3 -m weir.torch` builds it
ahead of time, for example for a container. If it cannot be built, install()
uses PyTorch's pluggable allocator and warns that functions are missing.
"""

import contextlib
import ctypes
import hashlib
import os
import subprocess
import sys
import tempfile
import warnings

from weir._fit import FitError, Forecast

__all__ = ["FitError", "Forecast", "NotInstalled", "build", "fit", "install",
           "installed", "sleep", "uninstall", "wake"]

# Bits of weir_torch_install().
_DEVICE, _HOST, _SETTINGS = 1, 2, 4

_HERE = os.path.dirname(os.path.abspath(__file__))
_SOURCES = (*(f"plugins/torch/{name}" for name in (
    "adapter.cpp", "blocks.hpp", "common.hpp", "compat.h", "context.hpp",
    "host.hpp", "pools.hpp", "sharing.hpp", "shortage.hpp", "statistics.hpp",
    "trace.hpp", "weir_torch.h")), *(f"include/weir/{name}.h" for name in (
        "graph", "host", "trace", "weir")))
_STANDARDS = ("c++17", "c++20")

_how = None     # "adapter" or "pluggable"
_keep = []      # libraries and objects that must live on


class NotInstalled(RuntimeError):
    """PyTorch still has its own allocator; the text gives the reason."""


class _NotBuilt(Exception):
    """The adapter cannot be built; the text gives the reason."""


# ---- Compiler and headers ----------------------------------------------------


def _compiler():
    """The C++ compiler's command, as a list."""
    import shutil

    given = os.environ.get("CXX")
    if given:
        return given.split()
    for name in ("c++", "g++", "clang++"):
        found = shutil.which(name)
        if found:
            return [found]
    raise _NotBuilt("there is no C++ compiler (set CXX)")


def _cuda_includes(torch):
    """Folders with CUDA's headers, as pip or the toolkit has them."""
    import glob

    site = os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__)))
    places = [os.path.join(os.environ[name], "include")
              for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    places.append("/usr/local/cuda/include")
    places += sorted(glob.glob(os.path.join(site, "nvidia", "*", "include")),
                     reverse=True)
    found = [place for place in places
             if os.path.exists(os.path.join(place, "cuda_runtime_api.h"))]
    if not found:
        raise _NotBuilt("there are no CUDA headers (set CUDA_HOME)")
    # The first folder, and the separate folders that pip installs.
    return found[:1] + [place for place in places
                        if place not in found and os.path.isdir(place)]


def _weir_version():
    with open(os.path.join(_HERE, "include/weir/weir.h"),
              encoding="utf-8") as file:
        words = file.read().split("WEIR_VERSION_")
    return ".".join(word.split()[1] for word in words[1:4])


def _abi(torch):
    """The ABI of C++'s library that PyTorch was built with."""
    return int(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))


def _sources_digest():
    digest = hashlib.sha256()
    for name in _SOURCES:
        with open(os.path.join(_HERE, name), "rb") as file:
            digest.update(file.read())
    return digest


def _file_name(torch):
    """The adapter's file name, which depends on everything it is built from."""
    digest = _sources_digest()
    for word in (torch.__version__, getattr(torch.version, "git_version", ""),
                 torch.version.cuda, _abi(torch), _weir_version(),
                 os.uname().machine, _HERE):
        digest.update(f"{word}\0".encode())
    version = "".join(c if c.isalnum() or c in ".+" else "_"
                      for c in torch.__version__)
    return (f"weir_torch-{version}-abi{_abi(torch)}-weir{_weir_version()}-"
            f"{digest.hexdigest()[:16]}.so")


def _cache_folder():
    """A folder that only the user can write to."""
    base = os.environ.get("WEIR_CACHE")
    if not base:
        base = os.path.join(os.environ.get("XDG_CACHE_HOME") or
                            os.path.expanduser("~/.cache"), "weir")
    folder = os.path.join(base, "torch")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise _NotBuilt(f"{folder} cannot be made ({error}); "
                        "set WEIR_CACHE") from error
    status = os.stat(folder)
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise _NotBuilt(f"{folder} can be written to by others; "
                        "set WEIR_CACHE")
    return folder


# ---- Building ----------------------------------------------------------------


def _command(torch, out, standard, compiler):
    root = os.path.dirname(os.path.abspath(torch.__file__))
    include = os.path.join(root, "include")
    command = compiler + [
        "-O2", f"-std={standard}", "-fPIC", "-shared", "-w",
        f"-D_GLIBCXX_USE_CXX11_ABI={_abi(torch)}",
        "-I" + _HERE, "-I" + os.path.join(_HERE, "include"),
        "-isystem", include, "-isystem",
        os.path.join(include, "torch/csrc/api/include")]
    for place in _cuda_includes(torch):
        command += ["-isystem", place]
    return command + [
        os.path.join(_HERE, "plugins/torch/adapter.cpp"), "-o", out,
        "-L" + _HERE, "-l:libweir_torch.so", "-l:libweir.so.0",
        "-L" + os.path.join(root, "lib"), "-lc10", "-lc10_cuda",
        "-ltorch_cpu", "-Wl,-rpath," + _HERE,
        "-Wl,-rpath," + os.path.join(root, "lib")]


def _compile(torch, out):
    """Compile into `out`, with the first C++ standard that works."""
    compiler = _compiler()
    said = ""
    for standard in _STANDARDS:
        command = _command(torch, out, standard, compiler)
        try:
            run = subprocess.run(command, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True,
                                 errors="replace", check=False)
        except OSError as error:
            raise _NotBuilt(f"{command[0]} cannot be run ({error})") from error
        if run.returncode == 0:
            return
        said = said or run.stdout
    lines = [line for line in said.splitlines() if "error" in line]
    raise _NotBuilt("the adapter does not compile against PyTorch "
                    f"{torch.__version__}: " +
                    "; ".join(lines[:3] or said.splitlines()[-3:]))


@contextlib.contextmanager
def _only_one(path):
    """Admit one process at a time; the lock ends with its process."""
    import fcntl

    with open(path, "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(force=False):
    """Build the adapter for the installed PyTorch, if it does not exist.

    Returns its path. Of several processes that start at once, one builds and
    the others wait. The file gets its name when it is complete. Raises
    NotInstalled if it cannot be built.
    """
    import torch

    if not torch.version.cuda:
        raise NotInstalled("weir.torch.build(): this PyTorch is built without "
                           "CUDA")
    try:
        return _build(torch, force)
    except _NotBuilt as error:
        raise NotInstalled(f"weir.torch.build(): {error}") from error


def _build(torch, force=False):
    folder = _cache_folder()
    path = os.path.join(folder, _file_name(torch))
    if os.path.exists(path) and not force:
        return path
    with _only_one(path + ".lock"):
        if os.path.exists(path) and not force:
            return path
        handle, temporary = tempfile.mkstemp(suffix=".so", prefix=".",
                                             dir=folder)
        os.close(handle)
        try:
            _compile(torch, temporary)
            os.chmod(temporary, 0o700)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    return path


# ---- Installing --------------------------------------------------------------


def _load(path):
    """Load a library, which is never unloaded."""
    library = ctypes.CDLL(path)
    _keep.append(library)
    return library


def _load_adapter(torch):
    _load(os.path.join(_HERE, "libweir.so.0"))
    _load(os.path.join(_HERE, "libweir_torch.so"))
    path = _build(torch)
    try:
        return _load(path)
    except OSError:
        pass
    # It was built with libraries that have changed since.
    path = _build(torch, force=True)
    try:
        return _load(path)
    except OSError as error:
        raise _NotBuilt(f"the adapter cannot be loaded: {error}") from error


def _install_adapter(torch, pinned):
    adapter = _load_adapter(torch)
    text = ctypes.create_string_buffer(4096)
    adapter.weir_torch_install.argtypes = [
        ctypes.c_bool, ctypes.c_char_p, ctypes.c_size_t]
    done = adapter.weir_torch_install(pinned, text, len(text))
    if not done & _DEVICE:
        raise NotInstalled("weir.torch.install(): "
                           + text.value.decode(errors="replace"))
    if not done & _SETTINGS:
        _follow_settings(torch, adapter)


def _follow_settings(torch, adapter):
    """For versions that do not report changed settings: intercept changes that
    are made through Python."""
    adapter.weir_torch_settings.argtypes = [
        ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]

    def follow(place, name):
        before = getattr(place, name, None)
        if before is None:
            return

        def changed(settings):
            before(settings)
            text = ctypes.create_string_buffer(4096)
            if adapter.weir_torch_settings(settings.encode(), text,
                                           len(text)) != 0:
                warnings.warn("weir does not take these settings: "
                              + text.value.decode(errors="replace"),
                              stacklevel=2)

        setattr(place, name, changed)

    follow(torch._C, "_cuda_cudaCachingAllocator_set_allocator_settings")
    follow(torch._C, "_accelerator_setAllocatorSettings")


# PyTorch's names of the hooks follow no one pattern.
_HOOKS = (("set_init_fn", "weir_torch_plug_init"),
          ("set_reset_fn", "weir_torch_plug_reset"),
          ("set_memory_fraction_fn", "weir_torch_plug_fraction"),
          ("set_base_alloc_fn", "weir_torch_plug_base"),
          ("set_record_stream_fn", "weir_torch_plug_record"),
          ("set_begin_allocate_to_pool", "weir_torch_plug_begin"),
          ("set_end_allocate_to_pool_fn", "weir_torch_plug_end"),
          ("set_release_pool", "weir_torch_plug_release"))


def _install_pluggable(torch):
    """Install the pluggable allocator, which needs no compiler."""
    _load(os.path.join(_HERE, "libweir.so.0"))
    path = os.path.join(_HERE, "libweir_torch.so")
    library = _load(path)
    allocator = torch.cuda.memory.CUDAPluggableAllocator(
        path, "weir_torch_plug_alloc", "weir_torch_plug_free")
    for hook, function in _HOOKS:
        address = ctypes.cast(getattr(library, function),
                              ctypes.c_void_p).value
        getattr(allocator.allocator(), hook)(address)
    torch.cuda.memory.change_current_allocator(allocator)
    _keep.append(allocator)


def _refuse_if_late(torch):
    if not torch.version.cuda:
        raise NotInstalled("weir.torch.install(): this PyTorch is built "
                           "without CUDA")
    if torch.cuda.is_initialized():
        raise NotInstalled(
            "weir.torch.install(): CUDA is already initialised: PyTorch may "
            "have memory of its own allocator by now. Call install() before "
            "the first tensor on a GPU, or start the program with "
            "'weir run --torch'")


def install(pinned=True, fallback=True):
    """Make weir PyTorch's CUDA allocator, for the life of the process.

    pinned     for page-locked memory too (PyTorch 2.8 and later)
    fallback   if the adapter cannot be built, use PyTorch's pluggable
               allocator: it has no statistics, snapshots, checkpoints (graph
               trees of torch.compile), IPC or OutOfMemoryError

    Returns "adapter" or "pluggable". Further calls do nothing. Raises
    NotInstalled, a RuntimeError, if CUDA is already initialised, if this
    PyTorch has no CUDA, or, without fallback, if the adapter cannot be built.
    Then PyTorch still uses its own allocator.
    """
    global _how

    import torch

    if _how is not None:
        return _how
    _refuse_if_late(torch)
    try:
        _install_adapter(torch, pinned)
        _how = "adapter"
    except _NotBuilt as error:
        if not fallback:
            raise NotInstalled(f"weir.torch.install(): {error}") from error
        warnings.warn(
            f"weir.torch: {error}. PyTorch's pluggable allocator is used: "
            "torch.cuda.memory_stats(), snapshots, MemPool, torch.compile's "
            "reduce-overhead and sharing between processes do not work, and a "
            "request that fails gives a tensor without memory", stacklevel=2)
        _install_pluggable(torch)
        _how = "pluggable"
    return _how


def installed():
    """How weir is installed: "adapter", "pluggable" or None."""
    return _how


def uninstall():
    """Always raises RuntimeError, with the reason."""
    if _how is None:
        raise RuntimeError("weir.torch.uninstall(): weir is not installed")
    raise RuntimeError(
        "weir.torch.uninstall(): PyTorch frees each tensor by the allocator "
        "that is installed at that moment, so memory of weir would be freed by "
        "another one. Start the program without weir instead")


def sleep(device="all", **how):
    """Take PyTorch's memory off its devices: weir.sleep(), for all devices.

    Tensors, captured graphs and their pools stay at their addresses, and have
    their contents after wake(). Until then nothing may run on the devices.
    The arguments and the result are those of weir.sleep(). Raises RuntimeError
    if weir is not PyTorch's allocator.
    """
    import weir

    if _how is None:
        raise RuntimeError("weir.torch.sleep(): weir is not installed")
    return weir.sleep(device, **how)


def wake(device="all", **how):
    """Give PyTorch its memory back: weir.wake(), for all devices."""
    import weir

    return weir.wake(device, **how)


def fit(step, *, ask, **options):
    """Forecast the memory of a program at a size at which it has not run.

        def step(batch):
            loss(model(data(batch))).backward()
            optimizer.step()
            optimizer.zero_grad()

        print(weir.torch.fit(step, batch=[2, 4], ask=64, limit="80G"))

    Runs the step at two or three small sizes, records each run, and asks the
    command `weir fit` (docs/foresight.md).

    step       called with the sizes by their names: once, and then `steps`
               times, which are recorded, for each. What it makes in the first
               call and keeps, such as the optimiser's state, counts
    NAME=[N, N]
               sizes by any names, two or more of each; those of one place are
               used together
    ask        the size to forecast: a number, or {NAME: number} for several
    limit      bytes, or a text such as "80G": whether it fits. `context` is
               the part of the limit that no allocator gets
    largest    the name of a size, whose largest value that fits is searched
    allocators as --as takes them: "weir", "torch,expandable_segments:True"
    steps      3 by default
    keep       a folder in which the recordings are kept

    Returns a Forecast. Raises ValueError for sizes that do not fit together,
    FitError if the command fails or is not there, and what `step` raises. A
    recording of PyTorch's memory history that is under way ends.
    """
    import torch
    from weir import _fit

    if _how == "pluggable":
        raise NotInstalled("weir.torch.fit(): PyTorch's pluggable allocator "
                           "has no memory history")
    return _fit.forecast(torch, step, ask, options)


def _main():
    import argparse

    parser = argparse.ArgumentParser(
        prog="python3 -m weir.torch", description="Build weir's adapter for "
        "the installed PyTorch, and print its path.")
    parser.add_argument("--force", action="store_true",
                        help="build it again if it exists")
    force = parser.parse_args().force
    try:
        print(build(force))
    except ImportError as error:
        sys.exit(f"weir.torch: PyTorch cannot be imported by {sys.executable}: "
                 f"{error}")
    except NotInstalled as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _main()
