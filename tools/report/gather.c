/*
 * Making a report from counters, in the process itself or after its end.
 */
#include <stdio.h>
#include <string.h>

#include <weir/host.h>

#include "tools/report/ledger.h"

/* ---- Sums -------------------------------------------------------------- */

static void
add_tally(ledger_count *to, const ledger_count *from, size_t bytes, int sign)
{
	for (size_t i = 0; i < bytes / sizeof(*to); i++)
		ledger_add(&to[i],
		    (int64_t)((uint64_t)sign * (uint64_t)ledger_now(&from[i])));
}

/* Add up the counters of all threads, without the memory that devices had when
 * they were reset. The limits of the sum have no meaning. */
static void
ledger_sum(struct ledger *ledger, const struct ledger_process *process,
    struct tally *sum)
{
	const struct ledger_thread *thread = &process->others;
	uint32_t next = atomic_load(&process->threads);

	memset(sum, 0, sizeof(*sum));
	/* The bound ends a chain that another process has made circular. */
	for (int n = 0; n < LEDGER_SLOTS && thread != NULL; n++) {
		add_tally((ledger_count *)sum,
		    (const ledger_count *)&thread->tally, sizeof(*sum), 1);
		thread = ledger_thread(ledger, next);
		if (thread != NULL)
			next = atomic_load(&thread->next);
	}
	add_tally((ledger_count *)sum->held,
	    (const ledger_count *)process->forgotten,
	    sizeof(process->forgotten), -1);
}

/* Clamp a counter to a range from 0. It may be negative, because the reader may
 * see a free of one running thread before the allocation of another. It may
 * have any value that another process wrote; the upper bound keeps sums below
 * 2^63. */
static uint64_t
at_least_none(int64_t n)
{
	const int64_t most = (int64_t)1 << 56;

	return n < 0 ? 0 : (uint64_t)(n < most ? n : most);
}

/* ---- The parts of a report --------------------------------------------- */

static const enum hook_id allocations[] = { HOOK_cuMemAlloc_v2,
	HOOK_cuMemAllocPitch_v2, HOOK_cuMemAllocAsync,
	HOOK_cuMemAllocAsync_ptsz, HOOK_cuMemAllocFromPoolAsync,
	HOOK_cuMemAllocFromPoolAsync_ptsz };
static const enum hook_id frees[] = { HOOK_cuMemFree_v2, HOOK_cuMemFreeAsync,
	HOOK_cuMemFreeAsync_ptsz };

static struct report_calls
calls_of(const struct tally_calls *calls)
{
	uint64_t quick = at_least_none(ledger_now(&calls->quick));

	return (struct report_calls){
		.seen = at_least_none(ledger_now(&calls->seen)) + quick,
		.served = at_least_none(ledger_now(&calls->served)) + quick,
		.saved = at_least_none(ledger_now(&calls->saved)) + quick
	};
}

static void
gather_calls(struct report *report, const struct tally *sum)
{
	for (int i = 0; i < HOOK_COUNT; i++)
		report->calls[i] = calls_of(&sum->calls[i]);
	for (size_t i = 0; i < sizeof(allocations) / sizeof(*allocations);
	     i++) {
		const struct report_calls *c = &report->calls[allocations[i]];

		report->allocations_served += c->served;
		report->calls_saved += c->saved;
	}
	for (size_t i = 0; i < sizeof(frees) / sizeof(*frees); i++) {
		const struct report_calls *c = &report->calls[frees[i]];

		report->frees_served += c->served;
		report->calls_saved += c->saved;
	}
}

static void
gather_entries(struct report *report, const struct tally *sum)
{
	for (size_t i = 0; i < COUNT_ENTRIES; i++) {
		struct report_entry *entry = &report->entries[i];

		entry->calls =
		    at_least_none(ledger_now(&sum->entries[i].calls));
		entry->ns = at_least_none(ledger_now(&sum->entries[i].ns));
		report->driver_calls_made += entry->calls;
		report->driver_ns += entry->ns;
	}
}

static weir_stream
stream_of_key(uintptr_t key)
{
	if ((key & 0xff) > (uintptr_t)WEIR_STREAM_PER_THREAD ||
	    key >> 8 > LEDGER_DEVICES)
		return (weir_stream)key;
	return (key & 0xff) == 0 ? WEIR_STREAM_ANY : (weir_stream)(key & 0xff);
}

static void
gather_streams(struct report *report, const struct ledger_process *process,
    const struct tally *sum)
{
	for (size_t i = 0; i < REPORT_STREAMS; i++) {
		const struct tally_stream *stream = &sum->streams[i];
		bool others = i == REPORT_STREAMS - 1;
		uint64_t quick = at_least_none(ledger_now(&stream->quick));
		uint64_t requests =
		    at_least_none(ledger_now(&stream->requests)) + quick;

		if (requests == 0)
			continue;
		report->streams[report->n_streams++] = (struct report_stream){
			.device = others ?
			    -1 :
			    atomic_load(&process->streams[i].device),
			.stream = stream_of_key(
			    atomic_load(&process->streams[i].key)),
			.requests = requests,
			.hits =
			    at_least_none(ledger_now(&stream->hits)) + quick,
			.bytes = at_least_none(ledger_now(&stream->bytes))
		};
	}
}

/* A sum that may wrap around: another process may have written any number. */
static int64_t
wrapping_sum(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static void
gather_memory(struct report *report, const struct ledger_process *process,
    const struct tally *sum)
{
	int64_t blocks = 0;
	int64_t bytes = 0;

	for (size_t i = 0; i < LEDGER_DEVICES; i++) {
		blocks = wrapping_sum(blocks, ledger_now(&sum->held[i].blocks));
		bytes = wrapping_sum(
		    bytes, ledger_now(&sum->held[i].bytes[LEDGER_LIVE]));
	}
	report->live_blocks_at_exit = at_least_none(blocks);
	report->live_bytes_at_exit = at_least_none(bytes);
	report->peak_live_bytes =
	    at_least_none(ledger_now(&process->peaks[LEDGER_LIVE]));
	/* The last page of shared pages counts as a whole. */
	report->peak_without_caching_bytes =
	    (uint64_t)ledger_multiple(LEDGER_PAGE,
		at_least_none(ledger_now(&process->peaks[LEDGER_UNCACHED])));
}

/* Add the counters of a memory of a device, before and after its reset. */
static void
add_memory(
    struct counters *to, const ledger_count *past, const ledger_count *now)
{
	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		uint64_t before = at_least_none(ledger_now(&past[i]));
		uint64_t after = at_least_none(ledger_now(&now[i]));

		if (counter_rows[i].kind == COUNTER_SUM)
			to->values[i] += before + after;
		else if (counter_rows[i].kind == COUNTER_PEAK)
			to->values[i] += before > after ? before : after;
	}
}

static void
gather_arenas(struct report *report, const struct ledger_process *process)
{
	for (size_t i = 0; i < LEDGER_DEVICES; i++) {
		const struct ledger_arena *past = &process->past[i];
		const struct ledger_arena *now = &process->now[i];

		add_memory(&report->memory, past->memory, now->memory);
		add_memory(&report->pinned, past->pinned, now->pinned);
	}
	report->peak_held_bytes = report->memory.held_peak_bytes;
}

static bool
anything_seen(const struct report *report)
{
	for (int i = 0; i < HOOK_COUNT; i++)
		if (report->calls[i].seen != 0)
			return true;
	return false;
}

bool
ledger_report(struct ledger *ledger, const struct ledger_process *process,
    struct report *report)
{
	static struct tally sum;

	ledger_sum(ledger, process, &sum);
	*report = (struct report){ .serving = atomic_load(&process->serving) };
	gather_calls(report, &sum);
	gather_entries(report, &sum);
	gather_streams(report, process, &sum);
	gather_memory(report, process, &sum);
	gather_arenas(report, process);
	report->pinned_source = weir_host_source_name((enum weir_host_source)(
	    at_least_none(ledger_now(&process->pinned_source)) - 1));
	report->barriers = at_least_none(ledger_now(&process->barriers));
	return anything_seen(report);
}

const char *
report_stream_name(const struct report_stream *stream, char *text, size_t size)
{
	if (stream->device < 0)
		snprintf(text, size, "others");
	else if (stream->stream == WEIR_STREAM_ANY)
		snprintf(text, size, "no stream");
	else if (stream->stream == WEIR_STREAM_LEGACY)
		snprintf(text, size, "legacy default");
	else if (stream->stream == WEIR_STREAM_PER_THREAD)
		snprintf(text, size, "per-thread default");
	else
		snprintf(text, size, "%p", (void *)stream->stream);
	return text;
}
