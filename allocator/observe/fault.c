/*
 * Writes faults into the caller's text, and cuts it where it is full.
 */
#include "allocator/observe/fault.h"

#include <stdarg.h>
#include <stdio.h>

void
check_fault(struct check *check, const char *format, ...)
{
	va_list args;

	check->faults++;
	if (check->used + 1 >= check->size)
		return;
	size_t left = check->size - check->used;
	va_start(args, format);
	int n = vsnprintf(check->text + check->used, left, format, args);
	va_end(args);
	check->used += (size_t)n < left ? (size_t)n : left - 1;
	if (check->used + 1 < check->size) {
		check->text[check->used++] = '\n';
		check->text[check->used] = '\0';
	}
}
