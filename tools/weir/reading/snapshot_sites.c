/*
 * The tables that distinguish frames of the program from other frames.
 *
 * A frame has a name, a file and a line. The file is a source or, without debug
 * information, an object. A C++ name is judged by its outermost namespace
 * alone: `layer<at::Half>(at::Tensor)` is a function of the program although it
 * mentions types of PyTorch.
 */
#include "tools/weir/reading/snapshot_sites.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* ---- Texts ------------------------------------------------------------- */

static bool
begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static bool
ends(const char *text, const char *with)
{
	size_t length = strlen(text);
	size_t tail = strlen(with);

	return length >= tail && strcmp(text + length - tail, with) == 0;
}

static bool
begins_any(const char *text, const char *const *table, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (begins(text, table[i]))
			return true;
	return false;
}

static bool
contains_any(const char *text, const char *const *table, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strstr(text, table[i]) != NULL)
			return true;
	return false;
}

static bool
is_any(const char *text, const char *const *table, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(text, table[i]) == 0)
			return true;
	return false;
}

/* The last part of a path: "b.py" for "/a/b.py" and for "C:\a\b.py". */
static const char *
base_of(const char *path)
{
	const char *base = path;

	for (; *path != '\0'; path++)
		if (*path == '/' || *path == '\\')
			base = path + 1;
	return base;
}

/* The path within the folder of installed packages: "torch/nn/..."; NULL if the
 * file is not there. */
static const char *
package_of(const char *file)
{
	static const char *const folders[] = { "site-packages",
		"dist-packages" };

	for (size_t i = 0; i < COUNT(folders); i++) {
		const char *at = strstr(file, folders[i]);

		if (at != NULL && at[13] != '\0')
			return at + 14;
	}
	return NULL;
}

/* True if a path within the packages belongs to the package `name`: "torch" for
 * "torch/nn/...". */
static bool
is_package(const char *package, const char *name)
{
	size_t length = strlen(name);

	return strncmp(package, name, length) == 0 &&
	    (package[length] == '/' || package[length] == '\\' ||
		package[length] == '.');
}

/* ---- Names of C++ ------------------------------------------------------ */

/* Write the outermost namespace of a mangled name: "at::" for
 * _ZN2at6Tensor... */
static void
scope_of_mangled(const char *name, char scope[SITE_FUNCTION])
{
	const char *at = name + strspn(name, "_ZNKVTSV");
	char *end;
	unsigned long length = strtoul(at, &end, 10);

	scope[0] = '\0';
	if (end == at || length == 0 || length >= SITE_FUNCTION - 2 ||
	    strnlen(end, length) < length)
		return;
	memcpy(scope, end, length);
	memcpy(scope + length, "::", 3);
}

void
site_function(const char *name, char function[SITE_FUNCTION])
{
	static const char anonymous[] = "(anonymous namespace)::";
	int depth = 0;
	size_t n = 0;

	if (begins(name, "_ZN")) {
		scope_of_mangled(name, function);
		return;
	}
	for (; *name != '\0'; name++) {
		if (depth == 0 && begins(name, anonymous)) {
			name += sizeof(anonymous) - 2;
			continue;
		}
		if (*name == '>' && depth > 0) {
			depth--;
			continue;
		}
		if (*name == '<')
			depth++;
		if (depth > 0)
			continue;
		if (*name == '(')
			break;
		/* The text so far was a return type or its qualifiers. */
		if (*name == ' ' || *name == '*' || *name == '&')
			n = 0;
		else if (n < SITE_FUNCTION - 1)
			function[n++] = *name;
	}
	function[n] = '\0';
}

/* ---- Scripts ----------------------------------------------------------- */

/* True if the file has Python code. */
static bool
is_script(const char *file)
{
	static const char *const texts[] = { "<stdin>", "<string>",
		"<ipython" };

	return ends(file, ".py") || ends(file, ".ipynb") ||
	    ends(file, ".pyx") || begins_any(file, texts, COUNT(texts));
}

/* True for Python's own library: .../lib/python3.12/..., or Lib\... on
 * Windows. */
static bool
is_standard_library(const char *file)
{
	const char *at = strstr(file, "/lib/python");

	if (at != NULL && strchr("0123456789", at[11]) != NULL &&
	    at[11] != '\0')
		return true;
	return strstr(file, "\\Lib\\") != NULL ||
	    strstr(file, "importlib") != NULL;
}

static enum site_grade
grade_script(const char *file)
{
	const char *package = package_of(file);

	if (package != NULL)
		return SITE_LIBRARY;
	return is_standard_library(file) ? SITE_RUNTIME : SITE_PROGRAM;
}

/* ---- Compiled code ----------------------------------------------------- */

/* True for PyTorch's generated code that passes calls on to an operator, if its
 * file has no folder. */
static bool
is_registration(const char *name, const char *file)
{
	static const char *const scopes[] = { "at::", "c10::" };
	char scope[SITE_FUNCTION];

	if (!begins(file, "Register"))
		return false;
	site_function(name, scope);
	return begins_any(scope, scopes, COUNT(scopes));
}

/* True for frames that name no function of interest to a reader. */
static bool
is_noise(const char *name, const char *file)
{
	static const char *const parts[] = { "unwind::unwind",
		"CapturedTraceback", "gather_with_cpp",
		"execute_native_thread_routine" };
	static const char *const whole[] = { "_start", "clone", "clone3",
		"__clone", "__clone3", "start_thread", "type_call", "type_new",
		"partial_call", "partial_vectorcall", "binary_op1", "run_mod",
		"run_eval_code_obj", "pyrun_file" };
	static const char *const heads[] = { "__libc_", "pthread_", "pymain",
		"method_vectorcall", "cfunction_", "vectorcall_", "slot_tp_",
		"slot_nb_", "Py_", "_Py_" };
	static const char *const files[] = { "core/boxing", "/Register",
		"/Redispatch", "pythonrun.c", "Modules/main.c",
		"Objects/call.c", "Objects/methodobject.c", "pycore_ceval.h",
		"ceval.c", "cpython/abstract.h" };
	const char *python = name[0] == '_' ? name + 1 : name;

	/* Functions of the interpreter: PyObject_Call, PyEval_EvalCode. */
	if (begins(python, "Py") && python[2] >= 'A' && python[2] <= 'Z' &&
	    strchr(python, '_') != NULL)
		return true;
	return contains_any(name, parts, COUNT(parts)) ||
	    is_any(name, whole, COUNT(whole)) ||
	    begins_any(name, heads, COUNT(heads)) ||
	    contains_any(file, files, COUNT(files)) ||
	    is_registration(name, file);
}

/* True for a name that C reserves for its library. Without debug information
 * the nearest symbol may be another one, as "__xmknodat" for "clone3". */
static bool
is_reserved(const char *name)
{
	return begins(name, "__") && !begins(name, "__Z");
}

/* True for a call of the CUDA runtime or driver that allocates, such as
 * "cudaMalloc" and "cudaMalloc_ptsz". The rest of the name must be one of these
 * endings: a program may have functions with longer names. */
static bool
is_cuda_call(const char *scope)
{
	static const char *const calls[] = { "cudaMalloc", "cudaMallocAsync",
		"cudaMallocFromPoolAsync", "cudaMallocPitch", "cudaMalloc3D",
		"cudaMallocArray", "cudaMalloc3DArray", "cudaMallocManaged",
		"cudaMallocMipmappedArray", "cudaMallocHost", "cudaHostAlloc",
		"cudaHostRegister", "cuMemAlloc", "cuMemAllocAsync",
		"cuMemAllocFromPoolAsync", "cuMemAllocPitch", "cuMemAllocHost",
		"cuMemHostAlloc", "cuMemHostRegister", "cuMemAllocManaged",
		"cuMemCreate", "cuMemMap", "cuArrayCreate", "cuArray3DCreate",
		"cuMipmappedArrayCreate" };
	static const char *const endings[] = { "", "_v2", "_v3", "_ptsz",
		"_ptds", "_v2_ptds", "_v2_ptsz" };

	for (size_t i = 0; i < COUNT(calls); i++)
		if (begins(scope, calls[i]) &&
		    is_any(scope + strlen(calls[i]), endings, COUNT(endings)))
			return true;
	return begins(scope, "libcudart_static_") || begins(scope, "__cudart");
}

/* True for objects and headers of CUDA, libffi, the C and C++ libraries, and
 * weir. */
static bool
is_runtime(const char *scope, const char *file)
{
	static const char *const scopes[] = { "std::", "__gnu_cxx::",
		"thrust::", "cub::", "cuda::", "pybind11::", "nanobind::",
		"weir::", "weir_torch::", "ffi_", "_ctypes_", "PyCFuncPtr_",
		"__cxx" };
	static const char *const objects[] = { "libcudart", "libcuda.so",
		"libcublas", "libcudnn", "libcufft", "libcusolver",
		"libcusparse", "libcurand", "libcutensor", "libnccl",
		"libnvrtc", "libnvJitLink", "libnpp", "libffi", "_ctypes.",
		"_cffi_backend", "libpython", "libc.so", "libc-2.",
		"libpthread", "ld-linux", "libstdc++", "libgcc_s", "libweir",
		"cuda_runtime.h", "cuda_runtime_api.h" };
	static const char *const folders[] = { "/include/c++/", "simcuda/",
		"/usr/include/", "/usr/lib/gcc/", "/cuda/include/",
		"-linux/include/", "/libffi", "_ctypes/" };

	return is_cuda_call(scope) ||
	    begins_any(scope, scopes, COUNT(scopes)) ||
	    begins_any(base_of(file), objects, COUNT(objects)) ||
	    contains_any(file, folders, COUNT(folders));
}

/* ---- Frameworks -------------------------------------------------------- */

static const struct framework {
	const char *name;
	const char *packages[6]; /* folders of site-packages */
	const char *scopes[8];   /* beginnings of C++ names */
	const char *objects[4];  /* beginnings of names of libraries */
} frameworks[] = {
	{ "PyTorch", { "torch", "functorch", "torchgen" },
	    { "at::", "c10::", "c10d::", "torch::", "caffe2::", "THP" },
	    { "libtorch", "libc10" } },
	{ "CuPy", { "cupy", "cupyx", "cupy_backends" }, { "cupy::" },
	    { "libcupy" } },
	{ "JAX", { "jax", "jaxlib" }, { "xla::", "jax::", "pjrt::", "tsl::" },
	    { "libjax", "xla_", "pjrt_" } },
	{ "Numba", { "numba", "numba_cuda", "llvmlite" }, { 0 }, { 0 } },
	{ "TensorFlow", { "tensorflow", "keras" }, { "tensorflow::" },
	    { "libtensorflow", "_pywrap_tensorflow" } },
	{ "Triton", { "triton" }, { 0 }, { 0 } },
	{ "PyCUDA", { "pycuda" }, { "pycuda::" }, { 0 } },
	{ "CUDA Python", { "cuda", "cuda_core" }, { 0 }, { 0 } },
	{ "RMM", { "rmm" }, { "rmm::" }, { "librmm" } },
	{ "ONNX Runtime", { "onnxruntime" }, { "onnxruntime::" },
	    { "libonnxruntime" } },
	{ "weir", { "weir" }, { 0 }, { 0 } },
};

/* True for code that PyTorch generates while a program runs. */
static bool
is_generated(const char *file)
{
	return strstr(file, "torchinductor_") != NULL ||
	    begins(file, "<eval_with_key>");
}

static bool
is_of(const struct framework *framework, const char *scope, const char *file)
{
	const char *package = package_of(file);
	const char *base = base_of(file);

	for (size_t i = 0; package != NULL && i < COUNT(framework->packages) &&
	     framework->packages[i] != NULL;
	     i++)
		if (is_package(package, framework->packages[i]))
			return true;
	for (size_t i = 0; i < COUNT(framework->scopes) &&
	     framework->scopes[i] != NULL && !is_script(file);
	     i++)
		if (begins(scope, framework->scopes[i]))
			return true;
	for (size_t i = 0;
	     i < COUNT(framework->objects) && framework->objects[i] != NULL;
	     i++)
		if (begins(base, framework->objects[i]))
			return true;
	return false;
}

static const char *
framework_of(const char *scope, const char *file)
{
	if (is_generated(file))
		return "PyTorch";
	for (size_t i = 0; i < COUNT(frameworks); i++)
		if (is_of(&frameworks[i], scope, file))
			return frameworks[i].name;
	return NULL;
}

/* True for functions that all allocations of PyTorch call. */
static bool
is_passage(const char *scope)
{
	static const char *const heads[] = { "c10::cuda::", "c10::impl::",
		"c10::Dispatcher", "c10::StorageImpl",
		"at::detail::", "at::cuda::", "at::_ops::", "at::wrapper_",
		"at::native::empty", "at::TensorIterator",
		"torch::autograd::THP" };

	return begins_any(scope, heads, COUNT(heads));
}

/* ---- Frames and stacks ------------------------------------------------- */

enum site_grade
site_grade(const struct snapshot *snapshot, uint32_t frame)
{
	const char *name =
	    snapshot_text(snapshot, snapshot->frames[frame].name);
	const char *file =
	    snapshot_text(snapshot, snapshot->frames[frame].file);
	bool script = is_script(file);
	char scope[SITE_FUNCTION];

	if (begins(file, "<frozen ") || (!script && is_noise(name, file)))
		return SITE_NOISE;
	site_function(name, scope);
	if (!script && is_passage(scope))
		return SITE_RUNTIME;
	if (framework_of(scope, file) != NULL)
		return SITE_FRAMEWORK;
	if (script)
		return grade_script(file);
	if (is_runtime(scope, file))
		return SITE_RUNTIME;
	return is_reserved(name) ? SITE_NOISE : SITE_COMPILED;
}

enum site_grade
site_find(const struct snapshot *snapshot, uint32_t stack, uint32_t *frame)
{
	const struct snapshot_stack *frames = &snapshot->stacks[stack];
	enum site_grade best = SITE_NOISE;

	*frame = UINT32_MAX;
	for (uint32_t i = 0; i < frames->count && best < SITE_PROGRAM; i++) {
		uint32_t id = snapshot->stack_frames[frames->first + i];
		enum site_grade grade = site_grade(snapshot, id);

		if (grade > best) {
			best = grade;
			*frame = id;
		}
	}
	return best;
}

const char *
site_framework(const struct snapshot *snapshot, uint32_t frame)
{
	const struct snapshot_frame *at = &snapshot->frames[frame];
	char scope[SITE_FUNCTION];

	site_function(snapshot_text(snapshot, at->name), scope);
	return framework_of(scope, snapshot_text(snapshot, at->file));
}
