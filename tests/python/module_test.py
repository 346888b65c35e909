"""Importing, typing, forking and building the package."""

import ast
import inspect
import os
import shutil
import subprocess
import sys
import time
import zipfile

import pytest
import support

import weir

PYTHON = os.path.join(support.PACKAGE, "weir")


def test_importing_loads_no_driver():
    maps = support.run_python(
        "import weir; print(open('/proc/self/maps').read())")
    assert "libweir.so.0" in maps
    assert "libcuda" not in maps


def test_importing_takes_less_than_20_ms():
    # The processor's time: that of a machine which does nothing else.
    code = ("import time; start = time.process_time(); import weir;"
            "print(time.process_time() - start)")
    times = [float(support.run_python(code)) for _ in range(7)]
    assert min(times) < 0.020, times


def test_importing_brings_no_module_of_others():
    told = support.run_python(
        "import sys; before = set(sys.modules); import weir;"
        "print(*sorted(m for m in set(sys.modules) - before))")
    assert {m for m in told.split() if not m.startswith("weir")} <= {"atexit"}


def test_an_interpreter_ends_with_memory_streams_and_callbacks_alive():
    told = support.run_python("""
import threading, weir
weir.add_trace_callback("memory_deallocation", print)
keep = [weir.malloc(1 << 20), weir.pinned(100), weir.Stream(), weir.Event(),
        weir.Pool(), weir.Graph()]
cycle = [keep]; cycle.append(cycle)
stop = threading.Event()
def churn():
    while not stop.is_set():
        weir.malloc(512)
thread = threading.Thread(target=churn, daemon=True)
weir.remove_trace_callback("memory_deallocation", print)
thread.start()
print("ends")
""")
    assert told == "ends\n"


def test_a_forked_child_gets_an_error_and_frees_nothing():
    told = support.run_python("""
import os, weir
block = weir.malloc(1 << 20)
child = os.fork()
if child == 0:
    try:
        weir.malloc(10)
    except weir.NoDeviceError as error:
        print(error.status, flush=True)
    block.free()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(block.info()["requested_bytes"] == 1 << 20, weir.check())
""")
    assert told == "WEIR_EFORK\nTrue []\n"


@pytest.mark.parametrize("before, words", [
    ("", "cannot be loaded by cpython 3."),
    ("import sysconfig; sysconfig.get_config_var = lambda name: 1",
     "without the GIL"),
    ("import sys; sys.version_info = (3, 8, 0)", "needs CPython 3.9")])
def test_a_python_without_the_extension_is_reported(tmp_path, before, words):
    shutil.copytree(PYTHON, tmp_path / "weir",
                    ignore=shutil.ignore_patterns("*.so", "*.so.*"))
    told = support.run_python(f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
{before}
try:
    import weir
except ImportError as error:
    print(error)
""")
    assert words in told


def test_a_missing_driver_is_reported():
    told = support.run_python("""
import weir
try:
    weir.malloc(1)
except weir.NoDeviceError as error:
    print(error.status, isinstance(error, weir.Error))
""", WEIR_LIBCUDA="/nowhere/libcuda.so")
    assert told == "WEIR_ENODRIVER True\n"


def stub(name="__init__"):
    with open(os.path.join(PYTHON, name + ".pyi")) as file:
        return ast.parse(file.read())


def declared(body):
    """Names of a stub's classes, functions and variables."""
    found = {}
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found.setdefault(node.name, node)
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = node
        elif isinstance(node, ast.ImportFrom):
            found.update((a.asname, node) for a in node.names if a.asname)
    return found


def test_stubs_name_all_there_is_and_no_more():
    names = {n for n in declared(stub().body) if not n.startswith("_")}
    assert names - {"annotations"} == set(weir.__all__)
    assert os.path.exists(os.path.join(PYTHON, "py.typed"))


def test_the_stub_of_ipc_names_all_there_is_and_no_more():
    found = declared(stub("ipc").body)
    assert {n for n in found if n != "annotations"} == set(weir.ipc.__all__)
    for name, node in found.items():
        if isinstance(node, ast.FunctionDef):
            check_signature(getattr(weir.ipc, name), node, name)
        assert getattr(weir.ipc, name).__doc__, name


def parameters(node):
    a = node.args
    named = a.posonlyargs + a.args + [a.vararg] + a.kwonlyargs
    return [p.arg for p in named if p is not None and p.arg != "self"]


def check_signature(called, node, name):
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return
    real = [p for p in signature.parameters if p != "self"]
    if real not in (["args", "kwargs"], ["arguments"]):
        assert parameters(node) == real, name


def test_stubs_have_the_parameters_there_are():
    for name, node in declared(stub().body).items():
        if name.startswith("_"):
            continue
        if isinstance(node, ast.FunctionDef):
            check_signature(getattr(weir, name), node, name)
        if not isinstance(node, ast.ClassDef):
            continue
        for method, inner in declared(node.body).items():
            if method == "__buffer__":
                continue  # a method from 3.12 on only
            assert hasattr(getattr(weir, name), method) or \
                issubclass(getattr(weir, name), BaseException), (name, method)
            if isinstance(inner, ast.FunctionDef) and method[0] != "_":
                check_signature(getattr(getattr(weir, name), method), inner,
                                f"{name}.{method}")


def test_all_that_is_public_has_a_docstring():
    for name in weir.__all__:
        thing = getattr(weir, name)
        if not callable(thing):
            continue
        assert thing.__doc__, name
        for method, what in vars(thing).items() if inspect.isclass(thing) \
                else ():
            if method[0] != "_" and callable(what):
                assert what.__doc__, f"{name}.{method}"


def test_the_extension_keeps_to_the_stable_abi():
    told = subprocess.run(
        ["nm", "-D", "--undefined-only",
         os.path.join(PYTHON, "_weir.abi3.so")],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    needed = {line.split()[-1].partition("@")[0] for line in told.splitlines()}
    assert any(n.startswith("Py") for n in needed)
    # Private calls and those of later versions than 3.9.
    allowed = {"_Py_NoneStruct", "_Py_NotImplementedStruct", "_Py_FalseStruct",
               "_Py_TrueStruct", "_Py_EllipsisObject", "_Py_Dealloc", "_PyArg_Parse_SizeT",
               "_PyArg_ParseTuple_SizeT",
               "_PyArg_ParseTupleAndKeywords_SizeT", "_Py_BuildValue_SizeT",
               "_PyObject_CallMethod_SizeT", "_PyObject_CallFunction_SizeT"}
    assert {n for n in needed if n.startswith("_Py")} <= allowed
    assert "PyType_FromModuleAndSpec" not in needed


@pytest.mark.skipif(not os.path.exists("python/backend.py"),
                    reason="the sources are not here")
def test_a_wheel_is_installed_and_runs_with_no_network(tmp_path):
    start = time.time()
    env = dict(os.environ, WEIR_PYTHON_PACKAGE=support.PACKAGE)
    subprocess.run([sys.executable, "python/backend.py", tmp_path / "w"],
                   check=True, env=env)
    wheel = next((tmp_path / "w").iterdir())
    assert wheel.name.startswith("weir-" + weir.__version__ + "-cp39-abi3-")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
    assert {"weir/libweir.so.0", "weir/_weir.abi3.so", "weir/py.typed",
            "weir/include/weir/weir.h", "weir.pth", "_weir_autoload.py"} \
        <= set(names)
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    environment = dict(os.environ, PYTHONPATH=str(site))
    # pytest finds its plug-in by itself.
    assert "--weir-limit" in subprocess.run(
        [sys.executable, "-m", "pytest", "--help"], env=environment,
        cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True).stdout
    told = subprocess.run(
        [sys.executable, "-c",
         "import weir; print(weir.__file__, weir.malloc(9).size)"],
        env=environment, cwd=tmp_path, check=True,
        stdout=subprocess.PIPE, text=True).stdout
    assert told.split() == [str(site / "weir/__init__.py"), "9"]
    assert time.time() - start < 60


@pytest.mark.skipif(not os.path.exists("python/backend.py"),
                    reason="the sources are not here")
def test_a_source_distribution_has_every_folder_of_the_library():
    with open("Makefile") as file:
        folders = next(line for line in file if line.startswith("lib_dirs"))
    sys.path.insert(0, "python")
    try:
        import backend
    finally:
        sys.path.pop(0)
    there = {name.split("/")[0] for name in backend.sources()}
    assert set(folders.split()[2:]) <= there
