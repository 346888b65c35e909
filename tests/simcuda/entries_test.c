/*
 * Each call of the driver's API can be found: a call that simcuda does not
 * simulate returns that, and the list of these calls agrees with the toolkit's
 * headers.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simcuda/unsimulated.h"
#include "tests/support/command.h"
#include "tests/support/cuda.h"

static const struct row {
	const char *symbol, *base;
	int version;
	const char *per_thread;
} rows[] = {
#define ROW_PLAIN(symbol, base, version) { #symbol, #base, version, #symbol },
#define ROW_PTSZ(symbol, base, version)                                        \
	{ #symbol, #base, version, #symbol "_ptsz" },
#define ROW_PTDS(symbol, base, version)                                        \
	{ #symbol, #base, version, #symbol "_ptds" },
	SIM_UNSIMULATED(ROW_PLAIN, ROW_PTSZ, ROW_PTDS)
#undef ROW_PTDS
#undef ROW_PTSZ
#undef ROW_PLAIN
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]), ROWS_AT_LEAST = 350 };

/* The simulated driver, or the test is skipped. */
static void *
need_library(void)
{
	void *library;

	if (sim() == NULL)
		SKIP("this is of the simulated driver only");
	cuda_load();
	library = dlopen(getenv("WEIR_LIBCUDA"), RTLD_NOW | RTLD_LOCAL);
	EXPECT_NOT_NULL(library);
	return library;
}

/* The code that such a call returns. It reads no argument. */
static int
code_of(void *function)
{
	int (*call)(void);

	memcpy(&call, &function, sizeof(call));
	return call();
}

static void
expect_refused(
    void *library, const struct row *row, const char *symbol, cuuint64_t flags)
{
	void *found = NULL, *exported = dlsym(library, symbol);

	if (exported == NULL)
		FAIL("%s is not exported", symbol);
	CU(cu.cuGetProcAddress_v2(
	    row->base, &found, row->version, flags, NULL));
	if (found != exported)
		FAIL("%s at %d is not %s", row->base, row->version, symbol);
	if (code_of(found) != CUDA_ERROR_NOT_SUPPORTED)
		FAIL("%s gives %d", symbol, code_of(found));
}

TEST(each_call_that_is_not_simulated_is_found_and_returns_not_supported)
{
	void *library = need_library();

	EXPECT_GT(ROWS, ROWS_AT_LEAST);
	for (int i = 0; i < ROWS; i++) {
		if (rows[i].version > 13000)
			continue;
		expect_refused(library, &rows[i], rows[i].symbol, 0);
		expect_refused(library, &rows[i], rows[i].per_thread,
		    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	}
}

/* A form that is newer than the requested one is another function. */
TEST(an_old_form_that_is_not_simulated_hides_no_simulated_one)
{
	void *library = need_library();
	void *found = NULL;

	CU(cu.cuGetProcAddress_v2("cuMemAlloc", &found, 2000, 0, NULL));
	EXPECT_EQ(1, found == dlsym(library, "cuMemAlloc"));
	EXPECT_EQ(code_of(found), CUDA_ERROR_NOT_SUPPORTED);
	CU(cu.cuGetProcAddress_v2("cuMemAlloc", &found, 3020, 0, NULL));
	EXPECT_EQ(1, found == dlsym(library, "cuMemAlloc_v2"));
}

/* The stderr of the calls below, which is in `text` after end_capture(). */
static FILE *captured;

static void
begin_capture(void)
{
	fflush(stderr);
	captured = tmpfile();
	EXPECT_NOT_NULL(captured);
	EXPECT_EQ(dup2(fileno(captured), STDERR_FILENO), STDERR_FILENO);
}

static void
end_capture(char *text, size_t size)
{
	size_t n;

	fflush(stderr);
	rewind(captured);
	n = fread(text, 1, size - 1, captured);
	text[n] = '\0';
}

TEST(a_call_that_is_not_simulated_names_itself_where_it_is_asked_to)
{
	void *library;
	char text[256];

	setenv("SIMCUDA_CONF", "verbose:1", 1);
	library = need_library();
	CU(cu.cuInit(0));
	begin_capture();
	code_of(dlsym(library, "cuTexObjectCreate"));
	end_capture(text, sizeof(text));
	EXPECT_STR_EQ(text, "simcuda: cuTexObjectCreate() is not simulated\n");
}

/* docs/adr/0008: NVIDIA's runtime does not run, and a message gives the
 * reason. */
TEST(nvidia_s_runtime_is_refused_with_a_text)
{
	CUuuid id = { { 0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89,
	    0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9 } };
	const void *table = NULL;
	char text[1024];

	(void)need_library();
	begin_capture();
	EXPECT_CU(cu.cuGetExportTable(&table, &id), CUDA_ERROR_NOT_SUPPORTED);
	EXPECT_CU(cu.cuGetExportTable(&table, &id), CUDA_ERROR_NOT_SUPPORTED);
	end_capture(text, sizeof(text));
	EXPECT_NULL(table);
	EXPECT_STR_HAS(text, "NVIDIA's CUDA runtime");
	EXPECT_STR_HAS(text, "/lib/sim (libcudart_static.a is there)");
	/* The message is printed once. */
	EXPECT_NULL(strstr(strstr(text, "runtime,") + 1, "runtime,"));
}

TEST(the_list_is_that_of_the_toolkit_s_headers)
{
	const char *home = getenv("CUDA_HOME");
	char script[4096], include[4096], header[4200];
	const char *const argv[] = { script, "--check", include, NULL };
	struct command_result result;

	snprintf(include, sizeof(include), "%s/include",
	    home != NULL && *home != '\0' ? home : "/usr/local/cuda");
	snprintf(header, sizeof(header), "%.4000s/cudaTypedefs.h", include);
	if (access(header, R_OK) != 0)
		SKIP("there is no CUDA toolkit to compare with");
	snprintf(script, sizeof(script), "%s/../../scripts/driver-entries",
	    test_build_dir());
	result = command_run(argv);
	if (strstr(result.out, "+ * ") != NULL)
		SKIP("the toolkit is of another version than the list");
	if (result.status != 0)
		FAIL("exit status %d: %s%s", result.status, result.out,
		    result.err);
	EXPECT_STR_EQ(result.out, "");
	command_free(&result);
}
