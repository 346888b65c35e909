/*
 * The frames of stacks in words, each address named once.
 */
#ifndef TRACE_FRAMES_H
#define TRACE_FRAMES_H

#include <stdbool.h>

#include "trace/writer.h"

struct stack_table;
struct frames;

/* For the stacks of a table, which may be NULL, whose numbers are at most
 * `stacks`. NULL without memory. */
struct frames *frames_new(const struct stack_table *table, size_t stacks);
void frames_delete(struct frames *frames);

/* Write a stack as a list of frames {name, filename, line}: innermost first,
 * without weir's own at that end if weir is a library, those of Python in the
 * place of the interpreter's. An unknown stack is an empty list. */
void frames_write(struct frames *frames, struct writer *w, uint32_t stack);

/* Did the memory suffice for all? What it did not suffice for has no names. */
bool frames_complete(const struct frames *frames);

#endif
