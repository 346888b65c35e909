/*
 * NVTX: the calls that a tool gets. Without a tool nothing happens.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/nvtx.h>

#include "tests/support/test.h"

static char path[4096];

/* The tool is used from the first call on. */
static void
use_tool(void)
{
	snprintf(path, sizeof(path), "%s/tests/trace/fake/nvtx_tool.so",
	    test_build_dir());
	setenv("NVTX_INJECTION64_PATH", path, 1);
}

static const char *
calls_made(void)
{
	void *library = dlopen(path, RTLD_NOW);
	void *symbol;
	const char *(*nvtx_calls)(void);

	EXPECT_NOT_NULL(library);
	symbol = dlsym(library, "nvtx_calls");
	EXPECT_NOT_NULL(symbol);
	memcpy(&nvtx_calls, &symbol, sizeof(nvtx_calls));
	return nvtx_calls();
}

/* The library calls this function in place of libc's. */
static bool has_more_rights;

char *
secure_getenv(const char *name)
{
	return has_more_rights ? NULL : getenv(name);
}

/* It would run with the rights of the program's owner. */
TEST(a_setuid_program_loads_no_tool_that_its_caller_names)
{
	has_more_rights = true;
	use_tool();
	EXPECT(!weir_nvtx_active());
	EXPECT_NULL(dlopen(path, RTLD_NOW | RTLD_NOLOAD));
}

TEST(without_a_tool_nothing_happens)
{
	unsetenv("NVTX_INJECTION64_PATH");
	EXPECT(!weir_nvtx_active());
	weir_nvtx_mark("x");
	EXPECT_LT(weir_nvtx_range_push("x"), 0);
	EXPECT_LT(weir_nvtx_range_pop(), 0);
	EXPECT_EQ(weir_nvtx_range_start("x"), 0);
	weir_nvtx_range_end(5);
	weir_nvtx_name_stream(NULL, "x");
	weir_nvtx_name_thread("x");
	EXPECT_NULL(weir_nvtx_name_memory(path, "x"));
	weir_nvtx_forget(path);
}

TEST(ranges_and_marks_are_emitted)
{
	use_tool();
	EXPECT_EQ(weir_nvtx_range_push("outer"), 0);
	EXPECT_EQ(weir_nvtx_range_push("inner"), 1);
	weir_nvtx_mark("here");
	EXPECT_EQ(weir_nvtx_range_pop(), 1);
	EXPECT_EQ(weir_nvtx_range_pop(), 0);
	EXPECT_EQ(weir_nvtx_range_start("long"), 77);
	weir_nvtx_range_end(77);
	weir_nvtx_range_end(0);
	weir_nvtx_mark(NULL);
	EXPECT(weir_nvtx_active());
	EXPECT_STR_EQ(calls_made(),
	    "push outer\npush inner\nmark here\npop\npop\nstart long\n"
	    "end 77\n");
}

TEST(streams_threads_and_memory_are_named)
{
	void *named;
	char text[256];

	use_tool();
	weir_nvtx_name_stream((weir_stream)0x1234, "copies");
	weir_nvtx_name_thread("loader");
	named = weir_nvtx_name_memory((void *)0xabc000, "weights");
	EXPECT_NOT_NULL(named);
	weir_nvtx_forget(named);
	snprintf(text, sizeof(text),
	    "stream %p copies\nthread some loader\n"
	    "resource %p version 3 size 32 type 10001 id abc000 weights\n"
	    "destroy it\n",
	    (void *)0x1234, (void *)0);
	EXPECT_STR_EQ(calls_made(), text);
}

TEST(a_tool_that_knows_the_runtimes_streams_gets_their_names)
{
	setenv("NVTX_TOOL_RUNTIME", "1", 1);
	use_tool();
	weir_nvtx_name_stream((weir_stream)0x10, "s");
	EXPECT_STR_EQ(calls_made(), "stream 0x10 s\n");
}

TEST(a_tool_that_refuses_or_is_not_there_is_no_tool)
{
	setenv("NVTX_TOOL_REFUSES", "1", 1);
	use_tool();
	EXPECT(!weir_nvtx_active());
	weir_nvtx_mark("x");
	EXPECT_STR_EQ(calls_made(), "");
}

TEST(a_library_that_is_no_tool_is_left_alone)
{
	setenv("NVTX_INJECTION64_PATH", "libm.so.6", 1);
	EXPECT(!weir_nvtx_active());
}

TEST(a_path_that_leads_nowhere_is_left_alone)
{
	setenv("NVTX_INJECTION64_PATH", "/nonexistent/tool.so", 1);
	EXPECT(!weir_nvtx_active());
	weir_nvtx_mark("x");
}
