/*
 * Programs that nvcc has compiled run on simcuda's runtime, linked as README.md
 * says, with and without weir. Skipped if there is no nvcc.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/start.h"
#include "tests/support/test.h"

/* The most time that nvcc takes on a busy machine. */
enum { COMPILE_SECONDS = 120 };

/* Find the toolkit's compiler, or skip the test. The caller frees it. */
static char *
need_nvcc(void)
{
	const char *home = getenv("CUDA_HOME");
	char *path;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	SKIP("a sanitized library needs sanitized programs");
#endif
	if (asprintf(&path, "%s/bin/nvcc",
		home != NULL && *home != '\0' ? home : "/usr/local/cuda") < 0)
		FAIL("out of memory");
	if (access(path, X_OK) != 0)
		SKIP("there is no nvcc");
	return path;
}

/* Compile a program of tests/programs/cuda, with up to two options. Returns its
 * path, which the caller frees; the program is removed with the test. */
static char *
compile(const char *name, const char *option, const char *value)
{
	char *nvcc = need_nvcc();
	char *program = test_file(name, "", 0);
	char *archive = test_build("lib/libweir.a");
	char source[4096], include[4096];
	const char *const argv[] = { nvcc, "-o", program, source, "-std=c++17",
		"-I", include, option, value, archive, NULL };
	struct command_result result;

	snprintf(source, sizeof(source), "%s/../../tests/programs/cuda/%s.cu",
	    test_build_dir(), name);
	snprintf(
	    include, sizeof(include), "%s/../../include", test_build_dir());
	/* Without an option the archive is linked instead. */
	const char *const plain[] = { nvcc, "-o", program, source, "-std=c++17",
		"-I", include, archive, NULL };

	result = command_run(option != NULL ? argv : plain);
	if (result.status != 0)
		FAIL("nvcc: exit status %d: %s%s", result.status, result.out,
		    result.err);
	command_free(&result);
	free(archive);
	free(nvcc);
	return program;
}

static void
expect_memory_served(const char *option, const char *value)
{
	char *program = compile("memory", option, value);

	serves_as((struct start){ .program = program, .machine = "devices:2" });
	free(program);
}

/* `nvcc -L DIR prog.cu`: nvcc links the runtime statically, and the linker
 * finds simcuda's first. On a GPU it is NVIDIA's. */
TEST_TIMEOUT(a_program_with_the_runtime_in_it_is_served, COMPILE_SECONDS)
{
	char *folder = test_build("lib/sim");

	if (start_simulated())
		expect_memory_served("-L", folder);
	else
		expect_memory_served(NULL, NULL);
	free(folder);
}

TEST_TIMEOUT(a_program_with_the_shared_runtime_is_served, COMPILE_SECONDS)
{
	expect_memory_served("-cudart", "shared");
}

TEST_TIMEOUT(contents_of_memory_are_right, COMPILE_SECONDS)
{
	char *program = compile("memory", "-cudart", "shared");
	struct start how = { .program = program, .machine = "devices:2" };
	struct command_result result = start(&how);

	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out,
	    "plain: 786432\ncleared: 0\nportable: 1\nstreams: 1179636\n"
	    "managed: 1\nprefetched: 524288\ntable: 0\nfactor: 3\n"
	    "size: 256, second: 1\npast the end: cudaErrorInvalidValue\n"
	    "unified: 1, managed: 1, pools: 1\nsome is free: 1\nheap: 1\n");
	EXPECT_STR_HAS(result.out, "last error: cudaSuccess\n");
	if (start_simulated())
		EXPECT_STR_HAS(result.out, "peers: 262144\n");
	command_free(&result);
	free(program);
}

static unsigned
count_of(const char *text, const char *part)
{
	unsigned n = 0;

	for (; (text = strstr(text, part)) != NULL; text++)
		n++;
	return n;
}

/* It is printed once for each kernel. */
TEST_TIMEOUT(a_compiled_kernel_is_refused_by_its_name, COMPILE_SECONDS)
{
	char *program = compile("kernel", "-cudart", "shared");
	struct start how = { .program = program };
	struct command_result result;

	if (!start_simulated())
		SKIP("a GPU runs it");
	result = start(&how);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out,
	    "launch: cudaErrorNotSupported\nlaunch: cudaErrorNotSupported\n"
	    "launch: cudaErrorNotSupported\nsynchronize: cudaSuccess\n"
	    "words: 31\nanswer: 42\n");
	EXPECT_EQ(count_of(result.err, "twice"), 1);
	EXPECT_STR_HAS(result.err, "cannot run here");
	EXPECT_STR_HAS(result.err, "answer begins as zeroes");
	command_free(&result);
	free(program);
}

/* docs/adr/0008. It must not look as if the program were wrong. */
TEST_TIMEOUT(nvidia_s_own_runtime_is_refused_with_a_remedy, COMPILE_SECONDS)
{
	char *program = compile("memory", "-cudart", "static");
	struct start how = { .program = program };
	struct command_result result;

	if (!start_simulated())
		SKIP("a GPU serves it");
	result = start(&how);
	EXPECT_EQ(result.status, 3);
	EXPECT_STR_HAS(result.err, "NVIDIA's CUDA runtime");
	EXPECT_STR_HAS(result.err, "libcudart_static.a");
	EXPECT_STR_HAS(result.err, "operation not supported");
	command_free(&result);
	free(program);
}

/* <weir/cccl.hpp>: code that accepts a cuda::mr resource accepts weir. */
TEST_TIMEOUT(a_resource_of_cccl_is_served, COMPILE_SECONDS)
{
	char *program = compile("resource", "-cudart", "shared");
	struct start how = { .program = program };
	struct command_result result = start(&how);

	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_EQ(
	    result.out, "on its stream: 1\nas it was\nagain: 1\nequal: 1\n");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	free(program);
}

TEST_TIMEOUT(vectors_of_thrust_are_served, 2 * COMPILE_SECONDS)
{
	char *program;
	struct start how = { 0 };
	struct command_result result;

	if (start_simulated())
		SKIP("the simulated device cannot run Thrust's kernels");
	program = compile("thrust", NULL, NULL);
	how.program = program;
	result = start(&how);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_EQ(
	    result.out, "first: 0\nsum: 549755289600\nlive: 1\nleft: 0\n");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	free(program);
}
