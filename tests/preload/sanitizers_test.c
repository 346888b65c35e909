/*
 * Programs that are built with sanitizers run under weir as without it: they
 * start, and nothing of weir is reported.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

/* Threads allocate device memory and page-locked memory, which one frees and
 * another then gets; the process forks and starts another program. */
static const char source[] =
    "#include <dlfcn.h>\n"
    "#include <pthread.h>\n"
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "#include <sys/wait.h>\n"
    "#include <unistd.h>\n"
    "#define FIND(name, ...) static int (*name)(__VA_ARGS__);\n"
    "FIND(cuInit, unsigned)\n"
    "FIND(cuDevicePrimaryCtxRetain, void **, int)\n"
    "FIND(cuCtxSetCurrent, void *)\n"
    "FIND(cuMemAlloc_v2, unsigned long long *, size_t)\n"
    "FIND(cuMemFree_v2, unsigned long long)\n"
    "FIND(cuMemHostAlloc, void **, size_t, unsigned)\n"
    "FIND(cuMemFreeHost, void *)\n"
    "static void *context;\n"
    "static void must(int code)\n"
    "{\n"
    "	if (code != 0) { printf(\"code %d\\n\", code); exit(5); }\n"
    "}\n"
    "static void *work(void *unused)\n"
    "{\n"
    "	unsigned long long p;\n"
    "	char *host;\n"
    "	must(cuCtxSetCurrent(context));\n"
    "	for (int i = 0; i < 500; i++) {\n"
    "		must(cuMemHostAlloc((void **)&host, 5000, 0));\n"
    "		for (int k = 0; k < 5000; k += 64) host[k] = (char)k;\n"
    "		must(cuMemFreeHost(host));\n"
    "		must(cuMemAlloc_v2(&p, 1000 + 512 * (i % 40)));\n"
    "		must(cuMemFree_v2(p));\n"
    "	}\n"
    "	return unused;\n"
    "}\n"
    "int main(void)\n"
    "{\n"
    "	void *cuda = dlopen(\"libcuda.so.1\", RTLD_NOW);\n"
    "	pthread_t threads[4];\n"
    "	int status;\n"
    "	pid_t child;\n"
    "#define LOOK_UP(name) *(void **)&name = dlsym(cuda, #name)\n"
    "	LOOK_UP(cuInit); LOOK_UP(cuDevicePrimaryCtxRetain);\n"
    "	LOOK_UP(cuCtxSetCurrent); LOOK_UP(cuMemAlloc_v2);\n"
    "	LOOK_UP(cuMemFree_v2); LOOK_UP(cuMemHostAlloc);\n"
    "	LOOK_UP(cuMemFreeHost);\n"
    "	must(cuInit(0));\n"
    "	must(cuDevicePrimaryCtxRetain(&context, 0));\n"
    "	for (int i = 0; i < 4; i++)\n"
    "		pthread_create(&threads[i], NULL, work, NULL);\n"
    "	for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);\n"
    "	child = fork();\n"
    "	if (child == 0) _exit(3);\n"
    "	waitpid(child, &status, 0);\n"
    "	printf(\"child %d\\n\", WEXITSTATUS(status));\n"
    "	printf(\"shell %d\\n\", WEXITSTATUS(system(\"exit 4\")));\n"
    "	return 0;\n"
    "}\n";

static const char answer[] = "child 3\nshell 4\n";

/* Build the program. Skips the test without the compiler or the runtime. */
static char *
build_with(const char *compiler, const char *sanitizer)
{
	char *text = test_file("program.c", source, sizeof(source) - 1);
	char *program = test_file("program", "", 0);
	char flag[64];
	struct command_result result;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	SKIP("weir itself is built with a sanitizer");
#endif
	if (test_is_watched())
		SKIP("a sanitizer does not run under another watcher");
	snprintf(flag, sizeof(flag), "-fsanitize=%s", sanitizer);
	result = command_run((const char *const[]){ compiler, "-w", "-g",
	    "-pthread", flag, "-o", program, text, "-ldl", NULL });
	if (result.status != 0)
		SKIP("the compiler has no such sanitizer");
	command_free(&result);
	free(text);
	unsetenv("LD_PRELOAD");
	unsetenv("ASAN_OPTIONS");
	unsetenv("TSAN_OPTIONS");
	unsetenv("WEIR_CONF");
	return program;
}

static void
expect_clean_run(const char *compiler, const char *sanitizer)
{
	char *program = build_with(compiler, sanitizer);
	struct command_result result = command_weir(
	    "run", "--sim", "--report=/dev/null", "--", program, NULL);

	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_EQ(result.out, answer);
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	free(program);
}

TEST(a_program_with_address_sanitizer_of_gcc_runs)
{
	expect_clean_run("gcc", "address");
}

TEST(a_program_with_address_sanitizer_of_clang_runs)
{
	expect_clean_run("clang", "address");
}

TEST(a_program_with_thread_sanitizer_of_gcc_runs)
{
	expect_clean_run("gcc", "thread");
}

TEST(a_program_with_thread_sanitizer_of_clang_runs)
{
	expect_clean_run("clang", "thread");
}

TEST(a_program_with_undefined_behaviour_sanitizer_runs)
{
	expect_clean_run("gcc", "undefined");
	expect_clean_run("clang", "undefined");
}

TEST(a_program_with_leak_sanitizer_runs)
{
	expect_clean_run("gcc", "leak");
}

/* The shell has no sanitizer, and starts one that has. */
TEST(a_script_starts_a_program_with_a_sanitizer)
{
	char *program = build_with("gcc", "address");
	struct command_result result = command_weir("run", "--sim", "--quiet",
	    "sh", "-c", "\"$0\"; exit $?", program, NULL);

	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_EQ(result.out, answer);
	command_free(&result);
	free(program);
}

TEST(a_runtime_that_the_user_preloads_stays_first)
{
	char *program = build_with("gcc", "address");
	struct command_result runtime = command_run((const char *const[]){
	    "gcc", "-print-file-name=libasan.so", NULL });
	struct command_result result;

	runtime.out[strcspn(runtime.out, "\n")] = '\0';
	/* Without the option that weir sets. */
	setenv("ASAN_OPTIONS", "verify_asan_link_order=1", 1);
	setenv("LD_PRELOAD", runtime.out, 1);
	result =
	    command_weir("run", "--sim", "--report=/dev/null", program, NULL);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_EQ(result.out, answer);
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	command_free(&runtime);
	free(program);
}

TEST(an_option_of_the_users_sanitizer_is_kept)
{
	char *show = test_build("tests/programs/show");
	struct command_result result;

	unsetenv("LD_PRELOAD");
	unsetenv("WEIR_CONF");
	setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
	setenv("TSAN_OPTIONS", "detect_deadlocks=1", 1);
	result = command_weir("run", "--sim", "--quiet", show, "$ASAN_OPTIONS",
	    "and", "$TSAN_OPTIONS", NULL);
	EXPECT_STR_EQ(result.out,
	    "detect_leaks=0:verify_asan_link_order=0[and]"
	    "detect_deadlocks=1");
	command_free(&result);
	free(show);
}
