/*
 * Frames that a file has no names for.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot/pickle_read.h"
#include "stacks/modules.h"
#include "tests/support/command.h"
#include "tests/support/test.h"

static struct snapshot *
read_named(const char *text)
{
	char *command = test_build("bin/weir");
	struct source source;
	struct snapshot *snapshot = NULL;

	setenv("WEIR_COMMAND", command, 0);
	free(command);
	source_of_memory(&source, text, strlen(text));
	EXPECT_EQ(pickle_read(&source, &snapshot), WEIR_OK);
	return snapshot;
}

__attribute__((always_inline)) static inline void *
inner(void)
{
	__asm__ volatile("" ::: "memory");
	return __builtin_return_address(0);
}

__attribute__((noinline)) static void *
outer(void)
{
	void *address = inner();

	__asm__ volatile("" ::: "memory");
	return address;
}

/* A frame of this program as a pickle of protocol 0, with these changes of its
 * build ID and offset. */
static char *
frame_text(const void *address, const char *build_id, long more)
{
	struct modules modules;
	char *text;

	modules_read(&modules);
	const struct module *module =
	    modules_find(&modules, (uintptr_t)address - 1);
	EXPECT_GT(asprintf(&text,
		      "}Vname\nVwhere+0x1\nsVfilename\nV%s\nsVline\nI0\ns"
		      "Vmodule\nV%s\nsVbuild_id\nV%s\nsVoffset\nI%ld\ns",
		      module->path, module->path,
		      build_id != NULL ? build_id : module->build_id,
		      (long)((uintptr_t)address - module->base) + more),
	    0);
	modules_free(&modules);
	return text;
}

/* A snapshot with two events whose stacks are the same frame, and a frame that
 * has a name. */
static struct snapshot *
read_events(const char *frame)
{
	char *text;

	EXPECT_GT(asprintf(&text,
		      "}Vdevice_traces\n]]("
		      "}Vaction\nValloc\nsVsize\nI512\nsVframes\n](%s"
		      "}Vname\nVmain\nsVfilename\nVa.py\nsVline\nI7\nses"
		      "}Vaction\nValloc\nsVsize\nI512\nsVframes\n](%ses"
		      "eas.",
		      frame, frame),
	    0);
	struct snapshot *snapshot = read_named(text);

	free(text);
	return snapshot;
}

static const struct snapshot_frame *
frame_at(const struct snapshot *snapshot, uint32_t event, uint32_t i)
{
	const struct snapshot_stack *stack =
	    &snapshot->stacks[snapshot->events.stack[event]];

	EXPECT_LT(i, stack->count);
	return &snapshot->frames[snapshot->stack_frames[stack->first + i]];
}

static void
expect_frame(const struct snapshot *snapshot, uint32_t event, uint32_t i,
    const char *name, const char *file)
{
	const struct snapshot_frame *frame = frame_at(snapshot, event, i);

	EXPECT_STR_EQ(snapshot_text(snapshot, frame->name), name);
	EXPECT_STR_HAS(snapshot_text(snapshot, frame->file), file);
}

TEST(a_frame_without_a_name_gets_it_when_it_is_read)
{
	/* The first address of a function stands for a return address. */
	char *frame = frame_text((const char *)outer + 1, NULL, 0);
	struct snapshot *snapshot = read_events(frame);
	uint32_t n = snapshot->stacks[snapshot->events.stack[0]].count;

	expect_frame(snapshot, 0, n - 2, "outer", "rename_test.c");
	EXPECT_GT(frame_at(snapshot, 0, n - 2)->line, 20);
	EXPECT_EQ(frame_at(snapshot, 0, n - 2)->build_id, 0);
	expect_frame(snapshot, 0, n - 1, "main", "a.py");
	EXPECT_EQ(snapshot->stacks[snapshot->events.stack[1]].count, n - 1);
	/* Frames are stored once. */
	EXPECT_EQ(frame_at(snapshot, 0, n - 2), frame_at(snapshot, 1, n - 2));
	snapshot_free(snapshot);
	free(frame);
}

static void
expect_unnamed(char *frame)
{
	struct snapshot *snapshot = read_events(frame);

	expect_frame(snapshot, 0, 0, "where+0x1", "");
	expect_frame(snapshot, 0, 1, "main", "a.py");
	snapshot_free(snapshot);
	free(frame);
}

TEST(a_frame_of_another_build_or_without_a_build_id_keeps_its_name)
{
	expect_unnamed(frame_text(outer, "0123456789abcdef", 0));
	expect_unnamed(frame_text(outer, "", 0));
	expect_unnamed(frame_text(outer, NULL, 1l << 40));
	setenv("WEIR_COMMAND", "", 1);
	expect_unnamed(frame_text(outer, NULL, 0));
}

TEST(calls_that_were_inlined_become_frames_of_their_own)
{
	const char *at = (const char *)outer;

	/* Some instruction of the function belongs to the inlined call. */
	for (int i = 1; i < 32; i++) {
		char *frame = frame_text(at + i, NULL, 0);
		struct snapshot *snapshot = read_events(frame);
		bool found =
		    snapshot->stacks[snapshot->events.stack[0]].count == 3;

		if (found) {
			expect_frame(snapshot, 0, 0, "inner", "rename_test.c");
			expect_frame(snapshot, 0, 1, "outer", "rename_test.c");
		}
		snapshot_free(snapshot);
		free(frame);
		if (found)
			return;
	}
	SKIP("the compiler has left nothing of the inlined call");
}

TEST(keys_of_other_programs_are_not_places)
{
	struct snapshot *snapshot = read_events(
	    "}Vname\nVf\nsVfilename\nVb.c\nsVline\nI3\nsVmodule\nVm\ns"
	    "Vbuild_id\nVb\nsVoffset\nVx\ns");

	expect_frame(snapshot, 0, 0, "f", "b.c");
	EXPECT_EQ(frame_at(snapshot, 0, 0)->module, 0);
	snapshot_free(snapshot);
}
