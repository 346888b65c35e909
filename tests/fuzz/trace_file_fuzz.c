/*
 * Arbitrary bytes as a trace: read, or refused with a reason. The events of a
 * trace that was read are consistent.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/weir/reading/trace_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_trace(const struct trace *trace)
{
	for (size_t i = 0; i < trace->row_count; i++) {
		const struct trace_row *row = &trace->rows[i];

		if (row->block != TRACE_NO_BLOCK &&
		    row->block >= trace->block_count)
			abort();
		if (row->block != TRACE_NO_BLOCK && row->action != 'c' &&
		    row->action != 'C' && row->stream >= trace->stream_count)
			abort();
		if (row->block != TRACE_NO_BLOCK &&
		    trace->blocks[row->block].pinned !=
			(strchr("ARFC", row->action) != NULL))
			abort();
		if (row->action == 'w' &&
		    (row->stream >= trace->stream_count ||
			row->size >= trace->stream_count))
			abort();
		if ((row->action == 'k' || row->action == 'e') &&
		    row->stream >= trace->stream_count)
			abort();
		if (row->time_us > trace->end_us)
			abort();
	}
	for (size_t i = 0; i < trace->block_count; i++)
		if (trace->blocks[i].used_until_us > trace->end_us)
			abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int file = -1;
	struct trace_error error = { "" };
	struct trace trace;
	char path[64];

	if (file < 0)
		file = memfd_create("trace", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, 0) != 0 ||
	    pwrite(file, data, size, 0) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	if (trace_read(path, &trace, &error)) {
		check_trace(&trace);
		trace_drop(&trace);
	} else if (error.text[0] == '\0') {
		abort();
	}
	return 0;
}
