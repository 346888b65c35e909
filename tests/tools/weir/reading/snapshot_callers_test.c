/*
 * Stacks of one site are told apart by their callers, in each command.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

/* The file of a frame, by its letter. */
static const char *
file_of(char letter)
{
	if (letter == '.')
		return "/usr/include/c++/12/x.h";
	if (letter == 'Z')
		return "run.py";
	return letter >= 'A' && letter <= 'Y' ?
	    "/usr/lib/python3/site-packages/layers/layer.py" :
	    "p.cpp";
}

/* A stack is a text: functions, the innermost first, one letter for each. Lower
 * case is compiled code of the program, Z its script, another capital letter a
 * script of an installed package, '.' a frame of the C library, and a digit one
 * of PyTorch. */
static size_t
put_frames(char *text, size_t size, const char *stack)
{
	size_t n = 0;

	for (size_t i = 0; stack[i] != '\0'; i++) {
		char name[32];
		bool framework = stack[i] >= '0' && stack[i] <= '9';

		snprintf(name, sizeof(name),
		    framework           ? "at::native::op%c" :
			stack[i] == '.' ? "std::f" :
					  "%c_call",
		    stack[i]);
		n += (size_t)snprintf(text + n, size - n,
		    "%s{\"name\": \"%s\", \"filename\": \"%s\", "
		    "\"line\": %d}",
		    i > 0 ? ", " : "", name, file_of(stack[i]), stack[i]);
	}
	return n;
}

/* A snapshot with a block of 1 MiB for each stack, and a trace in which each
 * stack allocates once in each of eight rounds and the last fails. */
static const char *
snapshot_of(const char *name, const char *const *stacks, size_t count)
{
	static char text[1 << 16];
	size_t size = sizeof(text);
	size_t n = 0;
	size_t blocks = 0;

	n += (size_t)snprintf(text + n, size - n, "{\"device_traces\": [[");
	for (int round = 0; round < 8; round++)
		for (size_t i = 0; i < count; i++) {
			n += (size_t)snprintf(text + n, size - n,
			    "{\"action\": \"alloc\", \"addr\": %zu, \"size\": "
			    "1048576, \"stream\": 0, \"frames\": [",
			    ((size_t)1 << 30) + (blocks++ << 20));
			n += put_frames(text + n, size - n, stacks[i]);
			n += (size_t)snprintf(text + n, size - n, "]},");
		}
	n += (size_t)snprintf(text + n, size - n,
	    "{\"action\": \"oom\", \"device_free\": 0, \"size\": 1048576, "
	    "\"stream\": 0, \"frames\": [");
	n += put_frames(text + n, size - n, stacks[0]);
	n += (size_t)snprintf(text + n, size - n,
	    "]}]], \"segments\": [{\"device\": 0, \"address\": 1073741824, "
	    "\"total_size\": %zu, \"stream\": 0, \"segment_type\": \"large\", "
	    "\"blocks\": [",
	    blocks << 20);
	for (size_t b = 0; b < blocks; b++) {
		n += (size_t)snprintf(text + n, size - n,
		    "%s{\"address\": %zu, \"size\": 1048576, "
		    "\"requested_size\": 1048576, \"state\": "
		    "\"active_allocated\", \"frames\": [",
		    b > 0 ? ", " : "", ((size_t)1 << 30) + (b << 20));
		n += put_frames(text + n, size - n, stacks[b % count]);
		n += (size_t)snprintf(text + n, size - n, "]}");
	}
	n += (size_t)snprintf(text + n, size - n, "]}]}");
	EXPECT_LT(n, size - 1);
	return written(name, text, n);
}

#define SNAPSHOT(name, ...)                                                    \
	snapshot_of(name, (const char *const[]){ __VA_ARGS__ },                \
	    sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

/* The command's text must have this line of each caller. */
static void
expect_callers(const struct command_result *result, const char *callers)
{
	for (; *callers != '\0'; callers++) {
		char wanted[80];

		snprintf(wanted, sizeof(wanted),
		    "w_call (p.cpp:119), called by %c_call (p.cpp:%d)\n",
		    *callers, *callers);
		EXPECT_STR_HAS(result->out, wanted);
	}
}

/* Three callers of one wrapper, which is called through another one. */
static const char *
wrapped(void)
{
	return SNAPSHOT("wrapped.json", "wv.am", "wv.bm", "wv.cm");
}

TEST(a_shared_wrapper_hides_no_caller_in_any_command)
{
	static const struct {
		int status;
		const char *name;
		const char *flag;
	} commands[] = { { 0, "top", NULL }, { 1, "leaks", NULL },
		{ 0, "oom", NULL }, { 0, "show", "--blocks" },
		{ 0, "trace", NULL } };

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		struct command_result result = ask(commands[i].status,
		    commands[i].name, wrapped(), commands[i].flag, NULL);

		expect_callers(&result, "abc");
		command_free(&result);
	}
}

TEST(the_failed_request_and_its_largest_holder_have_their_callers)
{
	struct command_result result = ask(0, "oom", wrapped(), NULL, NULL);

	EXPECT_STR_HAS(result.out,
	    "requested by w_call (p.cpp:119), called by a_call (p.cpp:97)\n");
	EXPECT_STR_HAS(result.out,
	    "Most is held by w_call (p.cpp:119), called by a_call "
	    "(p.cpp:97): ");
	command_free(&result);
}

TEST(changes_and_ranks_have_their_callers)
{
	const char *none = SNAPSHOT("other.json", "x", "wv.bm");
	struct command_result result =
	    command_weir("diff", none, wrapped(), NULL);

	EXPECT_EQ(result.status, 0);
	expect_callers(&result, "ac");
	command_free(&result);
	result = command_weir("merge", none, wrapped(), NULL);
	EXPECT_EQ(result.status, 0);
	expect_callers(&result, "ac");
	command_free(&result);
}

TEST(stacks_with_equal_callers_are_told_apart_by_what_they_call)
{
	struct command_result result = ask(
	    0, "top", SNAPSHOT("inner.json", "01ab", "21ab", "1c"), NULL, NULL);

	EXPECT_STR_HAS(
	    result.out, "a_call (p.cpp:97), in PyTorch: at::native::op0\n");
	EXPECT_STR_HAS(
	    result.out, "a_call (p.cpp:97), in PyTorch: at::native::op2\n");
	EXPECT_STR_HAS(result.out, "c_call (p.cpp:99)\n");
	command_free(&result);
}

TEST(json_has_the_caller_beside_the_site)
{
	json_t *json = ask_json(1, "leaks", wrapped(), NULL, NULL);

	EXPECT_STR_EQ(text_at(json, "suspects.0.site"), "w_call (p.cpp:119)");
	EXPECT_STR_EQ(text_at(json, "suspects.0.caller"), "a_call (p.cpp:97)");
	json_decref(json);
	json = ask_json(0, "top", train(), NULL, NULL);
	EXPECT(json_is_null(value_at(json, "rows.0.caller")));
	json_decref(json);
}

TEST(each_command_prints_as_many_frames_as_asked_for)
{
	static const char *const commands[] = { "top", "leaks", "oom", "show",
		"trace" };

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		struct command_result result = command_weir(commands[i],
		    "--frames=4", wrapped(), i == 3 ? "--blocks" : NULL, NULL);

		EXPECT_STR_HAS(result.out, " v_call (p.cpp:118)\n");
		EXPECT_STR_HAS(result.out, " a_call (p.cpp:97)\n");
		EXPECT_NULL(strstr(result.out, " m_call"));
		command_free(&result);
	}
	for (int i = 0; i < 2; i++) {
		struct command_result result =
		    command_weir(i == 0 ? "diff" : "merge", "--frames=4",
			SNAPSHOT("x.json", "x"), wrapped(), NULL);

		EXPECT_STR_HAS(result.out, " v_call (p.cpp:118)\n");
		command_free(&result);
	}
}

/* ---- The rule ---------------------------------------------------------- */

/* The name that a stack has in the list of `weir top`. */
static void
expect_names(const char *path, const char *const *names)
{
	struct command_result result = ask(0, "top", path, NULL, NULL);

	for (; *names != NULL; names++) {
		char line[200];

		snprintf(line, sizeof(line), "  %s\n", *names);
		EXPECT_STR_HAS(result.out, line);
	}
	command_free(&result);
}

#define EXPECT_NAMES(path, ...)                                                \
	expect_names(path, (const char *const[]){ __VA_ARGS__, NULL })

TEST(a_site_with_one_caller_stands_alone)
{
	EXPECT_NAMES(SNAPSHOT("one.json", "wam", "xbm"), "w_call (p.cpp:119)",
	    "x_call (p.cpp:120)");
}

/* A path that ends is no caller, and tells nothing of the others. */
TEST(a_stack_that_ends_at_the_wrapper_has_no_caller)
{
	EXPECT_NAMES(SNAPSHOT("ends.json", "w", "wa", "wb"),
	    "w_call (p.cpp:119)",
	    "w_call (p.cpp:119), called by a_call (p.cpp:97)",
	    "w_call (p.cpp:119), called by b_call (p.cpp:98)");
}

TEST(stacks_with_one_caller_have_a_second_where_both_are_listed)
{
	const char *path = SNAPSHOT("two.json", "wax", "way", "wbx");

	EXPECT_NAMES(path,
	    "w_call (p.cpp:119), called by a_call (p.cpp:97), called by x_call "
	    "(p.cpp:120)",
	    "w_call (p.cpp:119), called by a_call (p.cpp:97), called by y_call "
	    "(p.cpp:121)",
	    "w_call (p.cpp:119), called by b_call (p.cpp:98)");
	struct command_result result = ask(0, "top", path, "--count", "1");

	EXPECT_STR_HAS(
	    result.out, "w_call (p.cpp:119), called by a_call (p.cpp:97)\n");
	command_free(&result);
}

/* Stacks that differ in frames of libraries alone have one name. */
TEST(frames_of_libraries_tell_nothing_apart)
{
	EXPECT_NAMES(SNAPSHOT("lib.json", "w.am", "wam"), "w_call (p.cpp:119)");
}

TEST(a_recursive_function_is_told_apart_by_what_called_it_first)
{
	EXPECT_NAMES(SNAPSHOT("deep.json", "wrrra", "wrrrb"),
	    "w_call (p.cpp:119), called by a_call (p.cpp:97)",
	    "w_call (p.cpp:119), called by b_call (p.cpp:98)");
}

TEST(stacks_of_one_caller_are_told_apart_by_the_package_that_they_call)
{
	EXPECT_NAMES(SNAPSHOT("package.json", "0AZ", "0BZ", "1c"),
	    "Z_call (run.py:90), in A_call (layer.py:65)",
	    "Z_call (run.py:90), in B_call (layer.py:66)", "c_call (p.cpp:99)");
}

/* The innermost script of a package says more than what calls it. */
TEST(the_innermost_script_of_a_package_is_named)
{
	EXPECT_NAMES(SNAPSHOT("scripts.json", "0ACZ", "0BCZ"),
	    "Z_call (run.py:90), in A_call (layer.py:65)",
	    "Z_call (run.py:90), in B_call (layer.py:66)");
}
