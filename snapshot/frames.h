/*
 * The names of the frames of stacks. Each address is named once.
 */
#ifndef SNAPSHOT_FRAMES_H
#define SNAPSHOT_FRAMES_H

#include <stdbool.h>

#include "snapshot/writer.h"

struct stack_table;
struct frames;

/* Create a writer for the stacks of `table`, which may be NULL, with numbers up
 * to `stacks`. NULL without memory. */
struct frames *frames_new(const struct stack_table *table, size_t stacks);
void frames_delete(struct frames *frames);

/* Name all frames of the table at once, by one helper (stacks/names.h). Frames
 * that come later take another one for each stack that is written or told. */
void frames_name_all(struct frames *frames);
/* Have the frames of this stack named together with those of the next one that
 * is written or told. */
void frames_ask(struct frames *frames, uint32_t stack);

/* Why frames have no more than the names of exported functions: a text such as
 * "there is no weir command". NULL: all were asked for. */
const char *frames_lack(const struct frames *frames);

/* Write a stack as a list of frames {name, filename, line}, the innermost
 * first. A frame that was not named has its module, build_id and offset, too.
 * If weir is a library, its own frames at the inner end are left out. Python's
 * frames take the place of the interpreter's. An unknown stack is written as an
 * empty list. */
void frames_write(struct frames *frames, struct writer *w, uint32_t stack);

/* Call `tell` with a line for each frame that frames_write() would write, such
 * as "function (file.c:12)", for `most` frames at most. */
void frames_tell(struct frames *frames, uint32_t stack, unsigned most,
    void (*tell)(void *user, const char *line), void *user);

/* Was there memory to name all frames? The others are left out. */
bool frames_complete(const struct frames *frames);

#endif
