/*
 * The project's own checks of `make lint` find their faults, and accept code
 * that keeps the rules. Each test makes a small tree.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

static char tree[] = "/tmp/weir-lint-XXXXXX";

static void
remove_tree(void)
{
	const char *const argv[] = { "rm", "-rf", tree, NULL };
	struct command_result result = command_run(argv);

	command_free(&result);
}

/* An empty tree as current folder, removed when the test's process ends. */
static void
enter_tree(void)
{
	if (access("/usr/bin/perl", X_OK) != 0)
		SKIP("the checks need perl");
	EXPECT_NOT_NULL(mkdtemp(tree));
	EXPECT_EQ(atexit(remove_tree), 0);
	EXPECT_EQ(chdir(tree), 0);
	EXPECT_EQ(mkdir("base", 0777), 0);
	EXPECT_EQ(mkdir("allocator", 0777), 0);
	EXPECT_EQ(mkdir("allocator/memory", 0777), 0);
	EXPECT_EQ(mkdir("allocator/api", 0777), 0);
	EXPECT_EQ(mkdir("tools", 0777), 0);
	EXPECT_EQ(mkdir("tools/weir", 0777), 0);
	EXPECT_EQ(mkdir("tools/weir/verbs", 0777), 0);
}

static void
write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	EXPECT_NOT_NULL(file);
	EXPECT_GE(fputs(text, file), 0);
	EXPECT_EQ(fclose(file), 0);
}

/* Run scripts/NAME. Returns its complaints, which the caller frees. */
static struct command_result
lint(const char *name, const char *first, const char *second)
{
	char script[4096];
	const char *const argv[] = { script, first, second, NULL };

	snprintf(script, sizeof(script), "%s/../../scripts/%s",
	    test_build_dir(), name);
	return command_run(argv);
}

static void
expect_fault(struct command_result result, const char *complaint)
{
	EXPECT_STR_HAS(result.err, complaint);
	EXPECT_EQ(result.status, 1);
	command_free(&result);
}

static void
expect_clean(struct command_result result)
{
	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
}

TEST(an_include_upwards_is_a_fault)
{
	enter_tree();
	write_file("base/low.c",
	    "#include \"base/low.h\"\n"
	    "#  include \"allocator/arena.h\"\n");
	expect_fault(lint("lint-layers", "includes", "base/low.c"),
	    "base/low.c:2: base/ may not include \"allocator/arena.h\"");
}

TEST(an_include_downwards_is_no_fault)
{
	enter_tree();
	write_file("allocator/high.c",
	    "#include <weir/weir.h>\n"
	    "#include \"base/low.h\"\n"
	    "#include \"streams/use.h\"\n");
	expect_clean(lint("lint-layers", "includes", "allocator/high.c"));
}

TEST(a_mutex_without_a_rank_is_a_fault_where_locks_have_ranks)
{
	enter_tree();
	EXPECT_EQ(mkdir("simcuda", 0777), 0);
	write_file("allocator/api/mutex.c",
	    "\nstatic pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n");
	write_file("simcuda/mutex.c", "static pthread_mutex_t lock;\n");
	expect_fault(lint("lint-layers", "includes", "allocator/api/mutex.c"),
	    "allocator/api/mutex.c:2: a mutex without a rank");
	expect_clean(lint("lint-layers", "includes", "simcuda/mutex.c"));
}

TEST(an_include_of_a_higher_room_of_the_allocator_is_a_fault)
{
	enter_tree();
	write_file("allocator/memory/low.c",
	    "#include \"allocator/magazines/depot.h\"\n"
	    "#include \"allocator/api/malloc.h\"\n");
	expect_fault(lint("lint-layers", "includes", "allocator/memory/low.c"),
	    "allocator/memory/low.c:2: \"allocator/api/malloc.h\" is of a "
	    "higher room");
	write_file("allocator/api/high.c",
	    "#include \"allocator/memory/block.h\"\n"
	    "#include \"allocator/options.h\"\n");
	expect_clean(lint("lint-layers", "includes", "allocator/api/high.c"));
}

TEST(the_command_knows_only_the_public_headers)
{
	enter_tree();
	write_file("tools/weir/verbs/show.c",
	    "#include <weir/weir.h>\n"
	    "#include \"tools/weir/tool.h\"\n"
	    "#include \"allocator/arena.h\"\n");
	expect_fault(lint("lint-layers", "includes", "tools/weir/verbs/show.c"),
	    "tools/weir/verbs/show.c:3: ");
}

/* Compile obj/NAME.o from a text, which is C without includes. */
static void
compile(const char *name, const char *text)
{
	char source[64];
	char object[64];
	const char *const argv[] = { "gcc", "-c", "-o", object, source, NULL };
	struct command_result result;

	snprintf(source, sizeof(source), "%s.c", name);
	snprintf(object, sizeof(object), "obj/%s.o", name);
	write_file(source, text);
	result = command_run(argv);
	EXPECT_EQ(result.status, 0);
	command_free(&result);
}

/* Run scripts/lint-layers on three objects. */
static struct command_result
lint_objects(const char *what, const char *a, const char *b, const char *c)
{
	char script[4096];
	const char *const argv[] = { script, what, "obj", a, b, c, NULL };

	snprintf(script, sizeof(script), "%s/../../scripts/lint-layers",
	    test_build_dir());
	return command_run(argv);
}

/* An empty tree, with folders for objects. */
static void
enter_object_tree(void)
{
	static const char *const folders[] = { "obj", "obj/base", "simcuda",
		"obj/simcuda" };

	enter_tree();
	if (access("/usr/bin/gcc", X_OK) != 0)
		SKIP("the check needs objects, and so gcc");
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		EXPECT_EQ(mkdir(folders[i], 0777), 0);
}

TEST(files_that_need_each_other_are_a_fault_and_are_named)
{
	const char *const a = "obj/base/a.o", *const b = "obj/base/b.o",
			  *const c = "obj/base/c.o";
	struct command_result result;

	enter_object_tree();
	compile("base/a", "void b(void); void a(void) { b(); }\n");
	compile("base/b", "extern int c; void b(void) { c++; }\n");
	compile("base/c", "int c;\n");
	expect_clean(lint_objects("symbols", a, b, c));
	compile("base/c", "void a(void); int c; void d(void) { a(); }\n");
	expect_fault(lint_objects("symbols", a, b, c),
	    "a circle of 3 files: base/a.c base/b.c base/c.c");
	result = lint_objects("circles", a, b, c);
	EXPECT_STR_HAS(result.out, "base/b.c needs of base/c.c: c\n");
	command_free(&result);
}

TEST(a_folder_that_has_circles_may_not_keep_a_number_that_is_too_large)
{
	enter_object_tree();
	compile("simcuda/a", "void b(void); void a(void) { b(); }\n");
	compile("simcuda/b", "void a(void); void b(void) { a(); }\n");
	compile("simcuda/c", "int c;\n");
	expect_fault(lint_objects("symbols", "obj/simcuda/a.o",
			 "obj/simcuda/b.o", "obj/simcuda/c.o"),
	    "the largest circle of simcuda has 2 files now");
}

/* A tree whose arena has a member of memory/ and `more` members. */
static void
enter_arena_tree(int more)
{
	FILE *file;

	enter_tree();
	file = fopen("allocator/state.h", "w");
	EXPECT_NOT_NULL(file);
	fprintf(file, "struct arena {\n\tstruct arena_memory memory;\n");
	for (int i = 0; i < more; i++)
		fprintf(file, "\tint m%d; /* constant; unlike that; */\n", i);
	fprintf(file, "};\n");
	EXPECT_EQ(fclose(file), 0);
}

/* Lint an api/ file that has this line. */
static struct command_result
lint_room_line(const char *line)
{
	char text[512];

	snprintf(
	    text, sizeof(text), "#include \"allocator/state.h\"\n\t%s\n", line);
	write_file("allocator/api/high.c", text);
	return lint("lint-rooms", "allocator/api/high.c", NULL);
}

TEST(a_member_of_another_room_that_is_written_is_a_fault)
{
	static const char *const writes[] = {
		"arena->memory.jobs = 1;",
		"heap->arena->memory.stats.num_gc++;",
		"arena_peek(0)->memory.limit |= 2;",
		"--arena->memory.users[i];",
		"list_push_back(\n\t    &arena->memory.vacated, &b->link);",
		"atomic_store(&arena->main->memory.limit, 5);",
		"driver->cuDeviceTotalMem(&arena->memory.jobs, 0);",
		"struct tally *tally = &arena->memory.tally;",
		"copy.memory.jobs <<= 1;",
	};

	enter_arena_tree(0);
	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
		expect_fault(lint_room_line(writes[i]),
		    "allocator/api/high.c:2: memory.");
	write_file("allocator/memory/own.c",
	    "#include \"allocator/state.h\"\n\tarena->memory.jobs = 1;\n");
	expect_clean(lint("lint-rooms", "allocator/memory/own.c", NULL));
}

TEST(a_member_of_another_room_may_be_read)
{
	static const char *const reads[] = {
		"if (arena->memory.jobs == 1)",
		"x = arena->memory.jobs >= 2;",
		"arena->memory.any_heap->index = 3;",
		"/* arena->memory.jobs = 1; */",
		"list_push_back(&own, &arena->memory.any->link);",
		"n = atomic_load(&arena->memory.limit);",
		"const struct tally *tally = &arena->memory.tally;",
		"for (; l != &arena->memory.heaps; l = l->next)",
	};

	enter_arena_tree(19);
	for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++)
		expect_clean(lint_room_line(reads[i]));
}

TEST(an_arena_with_many_members_is_a_fault)
{
	enter_arena_tree(20);
	expect_fault(lint_room_line(""),
	    "allocator/state.h: struct arena has 21 members, more than 20");
}

TEST(a_document_that_names_what_is_not_there_is_a_fault)
{
	enter_tree();
	EXPECT_EQ(mkdir("docs", 0777), 0);
	write_file("allocator/api/high.c", "int is_there(void);\n");
	write_file(
	    "docs/a.md", "`is_there()` of api/high.c, and `f_NAME()`.\n");
	expect_clean(lint("lint-docs", NULL, NULL));
	write_file("docs/b.md", "`is_gone()`\n");
	expect_fault(lint("lint-docs", NULL, NULL),
	    "docs/b.md:1: no source has is_gone()");
	write_file("docs/b.md", "See api/low.c.\n");
	expect_fault(lint("lint-docs", NULL, NULL),
	    "docs/b.md:1: there is no file api/low.c");
}

TEST(a_file_in_no_known_folder_is_a_fault)
{
	enter_tree();
	write_file("stray.c", "");
	expect_fault(
	    lint("lint-layers", "includes", "stray.c"), "lies in no folder");
}

/* A function of `lines` lines, from its name to its brace. */
static void
write_function(const char *path, int lines)
{
	FILE *file = fopen(path, "w");

	EXPECT_NOT_NULL(file);
	fputs("static void\nlong_one(void)\n{\n", file);
	for (int i = 3; i < lines; i++)
		fputs("\tcall();\n", file);
	fputs("}\n", file);
	EXPECT_EQ(fclose(file), 0);
}

TEST(a_function_of_60_lines_is_accepted_and_one_of_61_is_not)
{
	enter_tree();
	write_function("base/a.c", 60);
	expect_clean(lint("lint-functions", "base/a.c", NULL));
	write_function("base/a.c", 61);
	expect_fault(lint("lint-functions", "base/a.c", NULL),
	    "base/a.c:2: long_one has 61 lines");
}

TEST(a_seventh_parameter_is_a_fault)
{
	enter_tree();
	write_file("base/a.c",
	    "int\nwide(int a, int b, int c,\n"
	    "    void (*d)(int, int), int e, int f)\n"
	    "{\n\treturn a;\n}\n");
	expect_clean(lint("lint-functions", "base/a.c", NULL));
	write_file("base/a.c",
	    "int\nwide(int a, int b, int c,\n"
	    "    void (*d)(int, int), int e, int f, int g)\n"
	    "{\n\treturn a;\n}\n");
	expect_fault(lint("lint-functions", "base/a.c", NULL),
	    "base/a.c:2: wide has 7 parameters");
}

TEST(a_replacement_of_a_call_of_cuda_has_its_parameters)
{
	enter_tree();
	write_file("base/a.c",
	    "CUresult\ncuMany(int a, int b, int c, int d,\n"
	    "    int e, int f, int g)\n"
	    "{\n\treturn a;\n}\n");
	expect_clean(lint("lint-functions", "base/a.c", NULL));
}

TEST(a_fifth_level_of_nesting_is_a_fault)
{
	enter_tree();
	write_file("base/a.c",
	    "void\ndeep(int a)\n{\n"
	    "\tif (a)\n\t\tif (a)\n\t\t\tif (a)\n"
	    "\t\t\t\tif (a)\n\t\t\t\t\ta++;\n}\n");
	expect_clean(lint("lint-functions", "base/a.c", NULL));
	write_file("base/a.c",
	    "void\ndeep(int a)\n{\n"
	    "\tif (a)\n\t\tif (a)\n\t\t\tif (a)\n"
	    "\t\t\t\tif (a)\n\t\t\t\t\tif (a)\n"
	    "\t\t\t\t\t\ta++;\n}\n");
	expect_fault(lint("lint-functions", "base/a.c", NULL),
	    "base/a.c:8: deep nests deeper than 4 levels");
}

TEST(a_header_that_leans_on_another_is_a_fault)
{
	struct command_result result;

	enter_tree();
	if (access("/usr/bin/gcc", X_OK) != 0)
		SKIP("the check needs gcc");
	write_file("base/a.h", "typedef int word;\n");
	write_file("base/b.h", "extern word b;\n");
	result = lint("lint-header", "base/b.h", "-I.");
	EXPECT_STR_HAS(result.err, "base/b.h: does not compile alone");
	EXPECT_EQ(result.status, 1);
	command_free(&result);
	write_file("base/b.h", "#include \"base/a.h\"\nextern word b;\n");
	expect_clean(lint("lint-header", "base/b.h", "-I."));
}

TEST(a_header_without_a_guard_is_a_fault)
{
	enter_tree();
	if (access("/usr/bin/gcc", X_OK) != 0)
		SKIP("the check needs gcc");
	write_file("base/a.h", "enum { TWICE };\n");
	expect_fault(lint("lint-header", "base/a.h", "-I."),
	    "base/a.h: does not compile alone");
}
