/*
 * The table of counters.
 */
#include "trace/counters.h"

const struct counter_row counter_rows[COUNTER_COUNT] = {
#define COUNTER_ROW(name, path, unit, kind, value, report, label, note, help)  \
	{ #name, path, unit, kind, report, label, note, help },
	COUNTERS(COUNTER_ROW)
#undef COUNTER_ROW
};

static uint64_t
counters_cached(const struct weir_stats *s)
{
	uint64_t used = s->allocated_bytes.all.current + s->pending_bytes;
	uint64_t held = s->reserved_bytes.all.current;

	return held > used ? held - used : 0;
}

void
counters_read(struct counters *out, const struct weir_stats *s, uint64_t limit)
{
#define COUNTER_VALUE(name, path, unit, kind, value, ...) out->name = value;
	COUNTERS(COUNTER_VALUE)
#undef COUNTER_VALUE
}
