/*
 * The statistics that weir shows of a memory, a row each: the device's memory
 * and its page-locked host memory have the same ones.
 *
 * From this list come the values of `weir ctl`, the samples of `weir watch` as
 * text, JSON and OpenMetrics, weir's own figures in the report of `weir run`,
 * and docs/counters.md. CONTRIBUTING.md has the recipe for a new row.
 */
#ifndef TRACE_COUNTERS_H
#define TRACE_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

/* How the values of one memory add up over its lives; a device that is reset
 * ends one. Values of several devices are always added. */
enum counter_kind {
	COUNTER_NOW,  /* what there is now: nothing of earlier lives counts */
	COUNTER_PEAK, /* the largest of all lives */
	COUNTER_SUM,  /* counts since the last reset: the sum of all lives */
};

/* The report's tables that show it. */
enum counter_report {
	REPORTED_NOT,
	REPORTED_CALLS,  /* of the device's memory, under "calls" */
	REPORTED_PINNED, /* of page-locked memory, in its own table */
	/* of memory that the program has from the driver, in its own table */
	REPORTED_OUTSIDE,
	REPORTED_PLAN, /* of requests with a plan, in its own table */
};

/*
 * X(name, path, unit, kind, value, report, label, note, help)
 *
 * name    its field in struct counters, and its key in JSON. OpenMetrics
 *         writes it as weir_NAME, with _nanoseconds for _ns
 * path    its path in `weir ctl` below stats.; "" if that has it elsewhere
 * unit    "bytes", "ns" or ""
 * value   from `s`, a struct weir_stats, and `limit`, the most to be held
 * report  where the report shows it, as `label` and, behind the value, `note`
 * help    one sentence
 */
/* clang-format off */
#define COUNTERS(X)                                                            \
	X(live_bytes, "live", "bytes", COUNTER_NOW,                            \
	    s->allocated_bytes.all.current, REPORTED_NOT, "", "",              \
	    "Memory in the hands of callers.")                                 \
	X(live_blocks, "blocks", "", COUNTER_NOW,                              \
	    s->allocation.all.current, REPORTED_NOT, "", "",                   \
	    "Blocks in the hands of callers.")                                 \
	X(pending_bytes, "pending", "bytes", COUNTER_NOW,                      \
	    s->pending_bytes, REPORTED_NOT, "", "",                            \
	    "Memory that is freed and not yet seen to be complete.")           \
	X(cached_bytes, "cached", "bytes", COUNTER_NOW,                        \
	    counters_cached(s), REPORTED_NOT, "", "",                          \
	    "Memory that is held, and neither live nor pending.")              \
	X(held_bytes, "held", "bytes", COUNTER_NOW,                            \
	    s->reserved_bytes.all.current, REPORTED_NOT, "", "",               \
	    "Physical memory held from the driver.")                           \
	X(requested_bytes, "requested", "bytes", COUNTER_NOW,                  \
	    s->requested_bytes.all.current, REPORTED_NOT, "", "",              \
	    "Bytes asked for, of live and pending blocks.")                    \
	X(live_peak_bytes, "live_peak", "bytes", COUNTER_PEAK,                 \
	    s->allocated_bytes.all.peak, REPORTED_NOT, "", "",                 \
	    "The most that was live since the last reset of peaks.")           \
	X(held_peak_bytes, "held_peak", "bytes", COUNTER_PEAK,                 \
	    s->reserved_bytes.all.peak, REPORTED_NOT, "", "",                  \
	    "The most that was held since the last reset of peaks.")           \
	X(limit_bytes, "", "bytes", COUNTER_NOW, limit, REPORTED_NOT, "", "",  \
	    "The most that may be held; absent without a limit.")              \
	X(allocations, "allocations", "", COUNTER_SUM,                         \
	    s->allocation.all.allocated, REPORTED_NOT, "", "",                 \
	    "Blocks allocated.")                                               \
	X(frees, "frees", "", COUNTER_SUM,                                     \
	    s->allocation.all.freed, REPORTED_NOT, "", "",                     \
	    "Blocks freed.")                                                   \
	X(driver_allocations, "driver_allocations", "", COUNTER_SUM,           \
	    s->num_device_alloc + s->num_map_calls, REPORTED_NOT, "", "",      \
	    "Calls that allocated memory from the driver.")                    \
	X(driver_frees, "driver_frees", "", COUNTER_SUM,                       \
	    s->num_device_free + s->num_unmap_calls, REPORTED_NOT, "", "",     \
	    "Calls that freed memory of the driver.")                          \
	X(host_waits, "host_waits", "", COUNTER_SUM,                           \
	    s->num_host_waits, REPORTED_CALLS, "host waits", "",               \
	    "Times the host waited for the device for memory.")                \
	X(brief_waits, "brief_waits", "", COUNTER_SUM,                         \
	    s->num_brief_waits, REPORTED_CALLS, "brief waits",                 \
	    "of the host, before new memory",                                  \
	    "Times the host waited for a moment before growth.")               \
	X(gpu_waits, "gpu_waits", "", COUNTER_SUM,                             \
	    s->num_gpu_waits, REPORTED_CALLS, "GPU waits", "",                 \
	    "Times a stream waited for another so that memory was reused.")    \
	X(ooms, "ooms", "", COUNTER_SUM,                                       \
	    s->num_ooms, REPORTED_CALLS, "out of memory", "",                  \
	    "Requests that ran out of memory.")                                \
	X(planned, "planned", "", COUNTER_SUM,                                 \
	    s->num_planned, REPORTED_PLAN, "as planned", "requests",           \
	    "Requests that got the place of the plan.")                        \
	X(plans_dropped, "plans_dropped", "", COUNTER_SUM,                     \
	    s->num_plans_dropped, REPORTED_PLAN, "dropped",                    \
	    "the program left the plan, or it cost too much",                  \
	    "Plans that the program left, or that cost too much.")             \
	X(pin_ns, "", "ns", COUNTER_SUM,                                       \
	    s->pin_ns, REPORTED_PINNED, "pinning", "",                         \
	    "Nanoseconds that the driver took to page-lock memory.")           \
	X(unpin_ns, "", "ns", COUNTER_SUM,                                     \
	    s->unpin_ns, REPORTED_PINNED, "giving back", "",                   \
	    "Nanoseconds that it took to give page-locked memory back.")       \
	X(pin_delay_ns, "", "ns", COUNTER_SUM,                                 \
	    s->pin_delay_ns, REPORTED_PINNED, "delay",                         \
	    "by moves and by pinning again",                                   \
	    "Nanoseconds of these, and of moves, beyond the first pinning.")   \
	X(outside_plain_bytes, "outside.plain", "bytes", COUNTER_NOW,          \
	    s->outside_plain.current, REPORTED_NOT, "", "",                    \
	    "Memory of cuMemAlloc() that the driver serves.")                  \
	X(outside_plain_peak_bytes, "outside.plain_peak", "bytes",             \
	    COUNTER_PEAK,                                                      \
	    s->outside_plain.peak, REPORTED_OUTSIDE, "cuMemAlloc", "",         \
	    "The most of it since the last reset of peaks.")                   \
	X(outside_pooled_bytes, "outside.pooled", "bytes", COUNTER_NOW,        \
	    s->outside_pooled.current, REPORTED_NOT, "", "",                   \
	    "Memory of pools that the driver serves.")                         \
	X(outside_pooled_peak_bytes, "outside.pooled_peak", "bytes",           \
	    COUNTER_PEAK,                                                      \
	    s->outside_pooled.peak, REPORTED_OUTSIDE, "memory pools", "",      \
	    "The most of it since the last reset of peaks.")                   \
	X(outside_handles_bytes, "outside.handles", "bytes", COUNTER_NOW,      \
	    s->outside_handles.current, REPORTED_NOT, "", "",                  \
	    "Memory that the program has by cuMemCreate().")                   \
	X(outside_handles_peak_bytes, "outside.handles_peak", "bytes",         \
	    COUNTER_PEAK,                                                      \
	    s->outside_handles.peak, REPORTED_OUTSIDE, "cuMemCreate", "",      \
	    "The most of it since the last reset of peaks.")                   \
	X(outside_managed_bytes, "outside.managed", "bytes", COUNTER_NOW,      \
	    s->outside_managed.current, REPORTED_NOT, "", "",                  \
	    "Managed memory of the program.")                                  \
	X(outside_managed_peak_bytes, "outside.managed_peak", "bytes",         \
	    COUNTER_PEAK,                                                      \
	    s->outside_managed.peak, REPORTED_OUTSIDE, "managed memory", "",   \
	    "The most of it since the last reset of peaks.")                   \
	X(outside_arrays_bytes, "outside.arrays", "bytes", COUNTER_NOW,        \
	    s->outside_arrays.current, REPORTED_NOT, "", "",                   \
	    "Arrays and mipmapped arrays of the program.")                     \
	X(outside_arrays_peak_bytes, "outside.arrays_peak", "bytes",           \
	    COUNTER_PEAK,                                                      \
	    s->outside_arrays.peak, REPORTED_OUTSIDE, "arrays", "",            \
	    "The most of it since the last reset of peaks.")                   \
	X(outside_graphs_bytes, "outside.graphs", "bytes", COUNTER_NOW,        \
	    s->outside_graphs.current, REPORTED_NOT, "", "",                   \
	    "Memory that the driver holds for nodes of graphs.")               \
	X(outside_graphs_peak_bytes, "outside.graphs_peak", "bytes",           \
	    COUNTER_PEAK,                                                      \
	    s->outside_graphs.peak, REPORTED_OUTSIDE, "graphs", "",            \
	    "The most of it since the last reset of peaks.")                   \
	X(outside_external_bytes, "outside.external", "bytes", COUNTER_NOW,    \
	    s->outside_external.current, REPORTED_NOT, "", "",                 \
	    "Memory of other interfaces that was imported.")                   \
	X(outside_external_peak_bytes, "outside.external_peak", "bytes",       \
	    COUNTER_PEAK,                                                      \
	    s->outside_external.peak, REPORTED_OUTSIDE, "external memory", "", \
	    "The most of it since the last reset of peaks.")                   \
	X(outside_contexts_bytes, "outside.contexts", "bytes", COUNTER_NOW,    \
	    s->outside_contexts.current, REPORTED_NOT, "", "",                 \
	    "Contexts, modules and stacks, with limit_counts:all.")            \
	X(outside_contexts_peak_bytes, "outside.contexts_peak", "bytes",       \
	    COUNTER_PEAK,                                                      \
	    s->outside_contexts.peak, REPORTED_OUTSIDE,                        \
	    "contexts and modules", "",                                        \
	    "The most of it since the last reset of peaks.")                   \
	X(outside_imported_bytes, "outside.imported", "bytes", COUNTER_NOW,    \
	    s->outside_imported.current, REPORTED_NOT, "", "",                 \
	    "Memory that another process has and that is open here.")          \
	X(outside_imported_peak_bytes, "outside.imported_peak", "bytes",       \
	    COUNTER_PEAK,                                                      \
	    s->outside_imported.peak, REPORTED_OUTSIDE, "imported memory", "", \
	    "The most of it since the last reset of peaks.")
/* clang-format on */

enum counter_id {
#define COUNTER_ID(name, ...) COUNTED_##name,
	COUNTERS(COUNTER_ID)
#undef COUNTER_ID
	    COUNTER_COUNT
};

/* The values of a memory, by name and by number. */
struct counters {
	union {
		struct {
#define COUNTER_FIELD(name, ...) uint64_t name;
			COUNTERS(COUNTER_FIELD)
#undef COUNTER_FIELD
		};
		uint64_t values[COUNTER_COUNT];
	};
};

struct counter_row {
	const char *name;
	const char *path;
	const char *unit;
	enum counter_kind kind;
	enum counter_report report;
	const char *label;
	const char *note;
	const char *help;
};

/* Indexed by enum counter_id. */
extern const struct counter_row counter_rows[COUNTER_COUNT];

/* Read the counters from statistics. `limit` is UINT64_MAX if there is none. */
void counters_read(
    struct counters *out, const struct weir_stats *s, uint64_t limit);

#endif
