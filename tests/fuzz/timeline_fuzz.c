/*
 * Arbitrary text as a profiler's trace: it is refused with a reason, or its
 * events begin after a bracket and its times are in order. A database of Nsight
 * Systems is refused, or gives such a trace.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/weir/export/nsys.h"
#include "tools/weir/reading/sqlite_read.h"
#include "tools/weir/reading/timeline.h"

static void
convert(const uint8_t *data, size_t size)
{
	struct timeline timeline = { .length = 0 };
	const char *why =
	    nsys_to_chrome(data, size, &timeline.text, &timeline.length);

	if (why != NULL)
		return;
	why = timeline_parse(&timeline);
	fuzz_expect(
	    why == NULL || strcmp(why, "none of its events has a time") == 0,
	    "the trace of a database cannot be read");
	free(timeline.text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct timeline timeline = { .length = size };

	if (sqlite_is(data, size)) {
		convert(data, size);
		return 0;
	}
	timeline.text = malloc(size + 1);
	fuzz_expect(timeline.text != NULL, "no memory");
	memcpy(timeline.text, data, size);
	timeline.text[size] = '\0';
	if (timeline_parse(&timeline) == NULL) {
		fuzz_expect(timeline.events_at > 0 &&
			timeline.events_at < size &&
			timeline.text[timeline.events_at - 1] == '[',
		    "events are not behind a bracket");
		fuzz_expect(timeline.first_us <= timeline.last_us &&
			fabs(timeline.first_us) <= 8e15 &&
			fabs(timeline.last_us) <= 8e15,
		    "times are out of order");
		fuzz_expect(timeline.last_pid >= 0, "a process below 0");
	}
	free(timeline.text);
	return 0;
}
