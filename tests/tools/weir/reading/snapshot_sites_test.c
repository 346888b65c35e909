/*
 * The site of an allocation is a frame of the program.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"
#include "tools/weir/reading/snapshot_file.h"
#include "tools/weir/reading/snapshot_sites.h"

struct frame {
	const char *name;
	const char *file;
	unsigned line;
};

#define FRAMES(...)                                                            \
	(const struct frame[])                                                 \
	{                                                                      \
		__VA_ARGS__,                                                   \
		{                                                              \
			0                                                      \
		}                                                              \
	}

/* `weir top` names this site for a block with these frames. */
static void
expect_site(const struct frame *frames, const char *site)
{
	char text[4096];
	int n = snprintf(text, sizeof(text),
	    "{\"device_traces\": [], \"segments\": [{\"device\": 0, "
	    "\"address\": 4096, \"total_size\": 2097152, \"stream\": 0, "
	    "\"segment_type\": \"large\", \"blocks\": [{\"size\": 2097152, "
	    "\"requested_size\": 2097152, \"state\": \"active_allocated\", "
	    "\"frames\": [");

	for (size_t i = 0; frames[i].name != NULL; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n,
		    "%s{\"name\": \"%s\", \"filename\": \"%s\", \"line\": %u}",
		    i == 0 ? "" : ", ", frames[i].name, frames[i].file,
		    frames[i].line);
	n += snprintf(text + n, sizeof(text) - (size_t)n, "]}]}]}");
	EXPECT(n < (int)sizeof(text));

	json_t *json = ask_json(
	    0, "top", written("site.json", text, (size_t)n), NULL, NULL);

	EXPECT_STR_EQ(text_at(json, "rows.0.site"), site);
	json_decref(json);
}

TEST(the_cuda_runtime_carries_no_blame)
{
	/* Frames of NVIDIA's runtime, with debug information and without. */
	expect_site(FRAMES({ "cudaMalloc", "simcuda/cudart/memory.c", 21 },
			{ "layer(int)", "/home/u/oomtest.cu", 9 },
			{ "main", "/home/u/oomtest.cu", 30 },
			{ "__libc_start_call_main", "libc.so.6", 0 }),
	    "layer(int) (oomtest.cu:9)");
	expect_site(FRAMES({ "cuMemAlloc_v2", "/usr/lib/libcuda.so.1", 0 },
			{ "libcudart.so.13+0x4711",
			    "/usr/local/cuda/lib64/libcudart.so.13", 0 },
			{ "cudaMallocAsync_ptsz",
			    "/usr/local/cuda/lib64/libcudart.so.13", 0 },
			{ "layer", "/home/u/a.out", 0 }),
	    "layer (a.out)");
	expect_site(FRAMES({ "libcudart_static_0123abcd", "/home/u/a.out", 0 },
			{ "cudaMalloc", "/home/u/a.out", 0 },
			{ "cudaError cudaMalloc<float>(float**, unsigned long)",
			    "/usr/local/cuda/include/cuda_runtime.h", 681 },
			{ "Net::Net(int)", "/home/u/a.out", 0 }),
	    "Net::Net(int) (a.out)");
}

TEST(the_start_of_a_thread_without_debug_information_carries_no_blame)
{
	expect_site(FRAMES({ "at::native::div(at::Tensor const&)", "??", 0 },
			{ "torch::autograd::Engine::thread_main()", "??", 0 },
			{ "execute_native_thread_routine", "thread48.o", 0 },
			{ "pthread_condattr_setpshared", "??", 0 },
			{ "__xmknodat", "??", 0 }),
	    "(no frame of the program; in PyTorch: at::native::div)");
	expect_site(FRAMES({ "_Z5layeri", "/home/u/a.out", 0 },
			{ "__ZN3net5layerEi", "/home/u/a.out", 0 }),
	    "_Z5layeri (a.out)");
}

TEST(operators_of_the_interpreter_carry_no_blame)
{
	expect_site(
	    FRAMES({ "at::native::mul(at::Tensor const&)", "??", 0 },
		{ "vectorcall_maybe", "??", 0 },
		{ "slot_nb_multiply", "??", 0 }, { "binary_op1", "??", 0 }),
	    "(no frame of the program; in PyTorch: at::native::mul)");
}

TEST(generated_code_of_pytorch_that_passes_calls_on_names_no_operator)
{
	expect_site(FRAMES({ "at::(anonymous namespace)::create_out(int)",
			       "RegisterCUDA.cpp", 0 },
			{ "at::TensorIteratorBase::build(int)", "??", 0 },
			{ "at::native::mul(at::Tensor const&)", "??", 0 }),
	    "(no frame of the program; in PyTorch: at::native::mul)");
	expect_site(FRAMES({ "Register::add(int)", "Register.cpp", 0 }),
	    "Register::add(int) (Register.cpp)");
}

TEST(a_function_with_a_name_like_the_runtime_s_is_the_program_s)
{
	expect_site(FRAMES({ "cudaMalloc", "/home/u/a.out", 0 },
			{ "cudaMallocChecked", "/home/u/a.out", 0 },
			{ "main", "/home/u/a.out", 0 }),
	    "cudaMallocChecked (a.out)");
	expect_site(FRAMES({ "void layer<at::Half>(at::Tensor const&)",
			       "/home/u/ext.cpp", 5 },
			{ "main", "/home/u/ext.cpp", 9 }),
	    "void layer<at::Half>(at::Tensor const&) (ext.cpp:5)");
	expect_site(FRAMES({ "format::at::write()", "/home/u/ext.cpp", 5 },
			{ "main", "/home/u/ext.cpp", 9 }),
	    "format::at::write() (ext.cpp:5)");
}

TEST(a_framework_in_cplusplus_carries_no_blame)
{
	expect_site(
	    FRAMES({ "c10::cuda::CUDACachingAllocator::malloc(int)", "??", 0 },
		{ "at::(anonymous namespace)::make(long)", "??", 0 },
		{ "at::Tensor at::native::empty<float>(long)", "??", 0 },
		{ "_ZN5torch8autograd6Engine7executeEv", "libtorch.so", 0 },
		{ "std::vector<Net>::resize(unsigned long)",
		    "/usr/include/c++/12/bits/stl_vector.h", 3 },
		{ "net::forward(at::Tensor)", "/home/u/net.cpp", 12 }),
	    "net::forward(at::Tensor) (net.cpp:12)");
}

/* Frames of weir's adapter in PyTorch, which is built on the user's machine. */
TEST(the_adapter_to_pytorch_carries_no_blame)
{
	expect_site(
	    FRAMES({ "weir_torch::(anonymous namespace)::take_watched(signed "
		     "char, unsigned long, CUstream_st*)",
		       "adapter.cpp", 0 },
		{ "at::native::empty_cuda(long)", "??", 0 },
		{ "train", "/home/u/train.py", 28 },
		{ "main", "/home/u/train.py", 36 }),
	    "train (train.py:28)");
}

TEST(ctypes_and_installed_packages_carry_less_than_the_script)
{
	expect_site(
	    FRAMES({ "cudaMalloc", "/usr/lib/libcudart.so.13", 0 },
		{ "libffi.so.8+0x7e2e", "/lib/x86_64-linux-gnu/libffi.so.8.1.2",
		    0 },
		{ "ffi_call", "/lib/x86_64-linux-gnu/libffi.so.8.1.2", 0 },
		{ "_ctypes_callproc", "_ctypes.cpython-311.so", 0 },
		{ "PyObject_Call", "/usr/bin/python3", 0 },
		{ "helper", "/usr/lib/python3.11/ctypes/__init__.py", 3 },
		{ "load", "/home/u/train.py", 7 },
		{ "<module>", "/home/u/train.py", 20 }),
	    "load (train.py:7)");
	expect_site(
	    FRAMES({ "step", "/v/lib/python3.12/site-packages/torch/o.py", 5 },
		{ "run", "/v/lib/python3.12/site-packages/vllm/run.py", 8 },
		{ "execute", "vllm/_C.abi3.so", 0 }),
	    "run (run.py:8)");
	expect_site(
	    FRAMES({ "step", "C:\\\\lib\\\\site-packages\\\\torch\\\\o.py", 5 },
		{ "<module>", "<stdin>", 1 }),
	    "<module> (<stdin>:1)");
}

TEST(a_site_without_a_frame_of_the_program_has_that_text)
{
	expect_site(FRAMES({ "at::Tensor at::native::empty(at::A<int> const&)",
			       "??", 0 },
			{ "at::native::add(at::Tensor const&)", "??", 0 },
			{ "torch::autograd::Engine::thread_main()", "??", 0 },
			{ "start_thread", "libc.so.6", 0 }),
	    "(no frame of the program; in PyTorch: at::native::add)");
	expect_site(
	    FRAMES({ "step", "/v/site-packages/torch/optim/adam.py", 76 },
		{ "clone3", "libc.so.6", 0 }),
	    "(no frame of the program; in PyTorch: step (adam.py:76))");
	expect_site(FRAMES({ "cudaMalloc", "libcudart.so.13", 0 },
			{ "_start", "a.out", 0 }),
	    "(no frame of the program; in cudaMalloc)");
	expect_site(
	    FRAMES({ "_start", "a.out", 0 }), "(no frame of the program)");
}

TEST(names_are_cut_to_the_function)
{
	static const char *const names[][2] = {
		{ "main", "main" },
		{ "a::b::operator()(int) const", "a::b::operator" },
		{ "std::vector<int>* f<std::map<a, b> >(int)", "f" },
		{ "(anonymous namespace)::f(int)", "f" },
		{ "_ZN2at6TensorC1Ev", "at::" },
		{ "_ZN99999999999999999999x", "" },
		{ "_ZN5at", "" },
		{ "", "" },
		{ "<<<<", "" },
		{ ">>>>", ">>>>" },
	};
	char function[SITE_FUNCTION];
	char longer[1000];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		site_function(names[i][0], function);
		EXPECT_STR_EQ(function, names[i][1]);
	}
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	site_function(longer, function);
	EXPECT_EQ(strlen(function), SITE_FUNCTION - 1);
}
