/*
 * Writes the report of a request that found no memory: the size it asked for,
 * how much memory there is and where, and the cause that follows from these
 * facts. No replay can run here, so that the report recommends no setting whose
 * gain a replay would have to show: it names the command that replays.
 * The text begins as PyTorch's does, because people and tools search for it.
 */
#include "allocator/request/oom.h"

#include <stdio.h>

#include "allocator/account/counters.h"
#include "allocator/account/outside.h"
#include "allocator/account/totals.h"
#include "allocator/cache/tcache.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/pool.h"
#include "allocator/share/member.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "trace/observe.h"
#include "trace/served.h"

enum {
	PROCESSES_MAX = 16,
	FEW = 256,              /* bytes of a report if host memory is short */
	STACK_NEEDED = 32 << 10 /* to load NVML */
};

/* A text that is appended to and cut at its end. */
struct text {
	char *at;
	size_t size;
	size_t used;
};

static void say(struct text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void
say(struct text *text, const char *format, ...)
{
	va_list args;

	if (text->used >= text->size)
		return;
	va_start(args, format);
	int n = vsnprintf(
	    text->at + text->used, text->size - text->used, format, args);
	va_end(args);
	if (n > 0)
		text->used += (size_t)n;
}

/* The facts, gathered under the lock. */
struct facts {
	struct weir_oom oom;
	size_t total_bytes;
	bool limited;
	size_t free_bytes;      /* held, and neither live nor pending */
	size_t largest_own;     /* largest run of the stream's pool */
	size_t largest_any;     /* and of complete memory */
	size_t largest_other;   /* and of other streams */
	size_t driver_segments; /* bytes in segments of the driver */
	bool expandable;
	struct served tried; /* the steps that the request tried */
	size_t outside;      /* bytes outside weir that the limit covers */
};

static const char *
bytes_text(size_t bytes, char *text)
{
	return os_format_bytes(bytes, text, 32);
}

static void
gather_heap(
    struct arena *arena, const struct stream *stream, struct facts *facts)
{
	enum pool_kind kind = arena_kind(arena, facts->oom.rounded_bytes);

	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		size_t n = pool_largest(&heap->pool[kind]);
		size_t *largest = heap->stream == stream ? &facts->largest_own :
		    heap == arena->memory.any_heap       ? &facts->largest_any :
							   &facts->largest_other;
		if (n > *largest)
			*largest = n;
	}
}

/* Bytes in segments of the driver. While memory is being mapped they are not
 * exact. */
static size_t
driver_segment_bytes(const struct arena *arena)
{
	size_t bytes = arena->account.stats.reserved_bytes.all.current;

	for (const struct list *l = arena->memory.ranges.next;
	     l != &arena->memory.ranges; l = l->next) {
		const struct segment *segment =
		    CONTAINER_OF(l, struct segment, range_link);
		bytes -= min_size(segment->mapped_bytes, bytes);
	}
	return bytes;
}

static void
gather(struct arena *arena, struct stream *stream, struct facts *facts)
{
	size_t free_bytes = 0;
	size_t total;
	struct driver_guard guard;

	if (driver_enter(arena->context, &guard) == WEIR_OK) {
		if (driver_peek()->cuMemGetInfo(&free_bytes, &total) !=
		    CUDA_SUCCESS)
			free_bytes = 0;
		driver_leave(&guard);
	}
	lock_enter(&arena->lock);
	tcache_report(arena);
	struct stream_heap *heap = heap_peek(arena, stream);
	if (heap != NULL) {
		lock_assert_held(&heap->arena->lock);
		counter_add_of(heap, COUNTER_num_ooms, 1);
	} else {
		counter_add(arena, COUNTER_num_ooms, 1);
	}
	facts->limited = device_limit(arena) < arena->account.total_bytes;
	facts->total_bytes = arena->account.total_bytes;
	facts->oom.limit_bytes =
	    facts->limited ? device_limit(arena) : arena->account.total_bytes;
	facts->outside = outside_in_limit(arena->device);
	facts->oom.reserved_bytes = device_reserved(arena);
	facts->oom.allocated_bytes = device_live(arena);
	gather_heap(arena, stream, facts);
	facts->driver_segments = driver_segment_bytes(arena);
	facts->oom.pending_bytes = stats_pending_bytes(&arena->account.tally);
	emit_oom(arena, stream, free_bytes, facts->oom.rounded_bytes);
	lock_leave(&arena->lock);
	facts->oom.device_free_bytes = free_bytes;
	/* The live bytes of a suspended pool are not held. */
	size_t used = facts->oom.allocated_bytes + facts->oom.pending_bytes;
	facts->free_bytes = facts->oom.reserved_bytes > used ?
	    facts->oom.reserved_bytes - used :
	    0;
}

/* Name the processes that use the device. Does nothing on a thread with a small
 * stack. */
static __attribute__((noinline)) void
say_processes(struct text *text, int device)
{
	struct nvml_process processes[PROCESSES_MAX];
	char bus_id[32];
	char size[32];

	if (os_stack_left() < STACK_NEEDED ||
	    driver_peek()->cuDeviceGetPCIBusId(
		bus_id, sizeof(bus_id), device) != CUDA_SUCCESS)
		return;
	size_t n = nvml_processes(bus_id, processes, PROCESSES_MAX);
	for (size_t i = 0; i < n; i++) {
		if (processes[i].pid == os_process_id())
			say(text,
			    "This process has %s in use, weir's and "
			    "other. ",
			    bytes_text(processes[i].used_bytes, size));
		else
			say(text, "Process %u has %s in use. ",
			    processes[i].pid,
			    bytes_text(processes[i].used_bytes, size));
	}
}

/* Name the memory outside weir that the limit covers. Not inlined, because the
 * threads of some programs have small stacks. */
static __attribute__((noinline)) void
say_outside(struct text *text, int device)
{
	char kinds[OUTSIDE_TEXT];

	outside_describe(device, kinds);
	say(text, "the program has %s from the driver (limit_counts:all); ",
	    kinds);
}

/* Say who holds what of the group's limit. Does nothing on a thread with a
 * small stack. */
static __attribute__((noinline)) void
say_group(struct text *text, int device)
{
	const struct ledger_file *file = member_file(device);
	struct member members[LEDGER_MEMBERS];
	char a[32];
	char b[32];

	if (file == NULL || os_stack_left() < STACK_NEEDED)
		return;
	unsigned n = member_list(file, members);
	uint64_t limit = atomic_load(&file->ledger->limit);
	say(text, "Group %s has %s%s: ", file->ledger->group,
	    limit == LEDGER_BYTES_MAX ? "" : "a limit of ",
	    limit == LEDGER_BYTES_MAX ? "no limit" : bytes_text(limit, a));
	for (unsigned i = 0; i < n; i++)
		say(text, "%s%s %llu holds %s (%s guaranteed)",
		    i > 0 ? ", " : "",
		    members[i].own ? "this process" : "process",
		    (unsigned long long)members[i].pid,
		    bytes_text(members[i].lease_bytes, a),
		    bytes_text(members[i].guarantee_bytes, b));
	say(text, ". ");
}

static const char replay_advice[] =
    "'weir advise SNAPSHOT', of a snapshot with a history, says which setting "
    "helps.";

/* Add advice if the facts show a cause. */
static void
say_advice(struct text *text, const struct facts *f)
{
	char size[32];
	size_t rounded = f->oom.rounded_bytes;

	if (f->oom.requested_bytes > f->total_bytes)
		say(text, "The request is larger than the device.");
	else if (f->limited && f->oom.device_free_bytes > rounded &&
	    rounded + f->oom.allocated_bytes + f->outside > f->oom.limit_bytes)
		say(text,
		    "The limit is the cause, not the device: "
		    "raise it (per_process_memory_fraction, "
		    "memory_limit_mb, weir_limit_set()).");
	else if (f->driver_segments > rounded && f->free_bytes > rounded)
		say(text,
		    "%s of unused memory lie scattered in segments of the "
		    "driver, which cannot be put together. %s",
		    bytes_text(f->free_bytes, size), replay_advice);
	else if (f->free_bytes > rounded)
		say(text,
		    "%s are unused but lie in pieces between live "
		    "blocks. %s",
		    bytes_text(f->free_bytes, size), replay_advice);
	else if (f->oom.pending_bytes > rounded)
		say(text,
		    "Freed memory waits for work on other streams "
		    "that could not be waited for here.");
	else if (f->total_bytes - f->oom.device_free_bytes >
	    2 * f->oom.reserved_bytes + ((size_t)1 << 30))
		say(text, "Most of the device is held by others.");
}

static void
write_report(struct text *text, const struct facts *f)
{
	char a[32];
	char b[32];
	char tried[SERVED_TEXT];
	char stream[STREAM_PHRASE];
	const struct weir_oom *oom = &f->oom;

	say(text, "CUDA out of memory. Tried to allocate %s",
	    bytes_text(oom->requested_bytes, a));
	say(text, " (%zu bytes, rounded to %zu). ", oom->requested_bytes,
	    oom->rounded_bytes);
	say(text, "GPU %d has a total capacity of %s of which %s is free. ",
	    oom->device, bytes_text(f->total_bytes, a),
	    bytes_text(oom->device_free_bytes, b));
	say_processes(text, oom->device);
	say_group(text, oom->device);
	if (f->limited)
		say(text, "%s allowed; ", bytes_text(oom->limit_bytes, a));
	if (f->outside > 0)
		say_outside(text, oom->device);
	say(text, "Of the %s held by weir %s is allocated, ",
	    bytes_text(oom->reserved_bytes, a),
	    bytes_text(oom->allocated_bytes, b));
	say(text, "%s waits for other streams and %s is unused; ",
	    bytes_text(oom->pending_bytes, a), bytes_text(f->free_bytes, b));
	say(text, "largest unused block: ");
	if (oom->stream != WEIR_STREAM_ANY)
		say(text, "%s of %s, ", bytes_text(f->largest_own, a),
		    stream_name(oom->stream, stream));
	say(text, "%s of no stream, %s of other streams. ",
	    bytes_text(f->largest_any, a), bytes_text(f->largest_other, b));
	if (f->tried.tried != 0)
		say(text, "Tried: %s. ", served_tried(&f->tried, tried));
	say_advice(text, f);
}

/* Report that host memory is short, which is another status. Observers are
 * called for device memory only. */
static enum weir_status
report_host(struct arena *arena, size_t requested)
{
	char sizes[5][32];

	ASSERT(requested > 0);
	lock_enter(&arena->lock);
	tcache_report(arena);
	counter_add(arena, COUNTER_num_ooms, 1);
	size_t pending = stats_pending_bytes(&arena->account.tally);
	size_t held = device_reserved(arena);
	size_t live = device_live(arena);
	size_t limit = device_limit(arena);
	lock_leave(&arena->lock);
	return status_set(WEIR_EHOSTMEM,
	    "out of page-locked host memory: tried to allocate %s (%zu bytes, "
	    "%s) for device %d, of the %s held for it %s is allocated and %s "
	    "waits for streams; the limit is %s",
	    bytes_text(requested, sizes[0]), requested,
	    arena->memory.source.name, arena->device,
	    bytes_text(held, sizes[1]), bytes_text(live, sizes[2]),
	    bytes_text(pending, sizes[3]),
	    limit == SIZE_MAX ? "none" : bytes_text(limit, sizes[4]));
}

enum weir_status
oom_report(struct arena *arena, struct stream *stream, size_t requested,
    size_t rounded)
{
	ASSERT(requested > 0 && rounded >= requested);
	if (arena->traits.account == ACCOUNT_HOST)
		return report_host(arena, requested);

	char few[FEW];
	char *page = meta_alloc(STATUS_TEXT_SIZE);
	char *buffer = page != NULL ? page : few;
	struct text text = { .at = buffer,
		.size = page != NULL ? STATUS_TEXT_SIZE : sizeof(few) };
	struct facts facts = {
		.oom = { .struct_size = sizeof(struct weir_oom),
		    .device = arena->device,
		    .stream = stream->handle,
		    .requested_bytes = requested,
		    .rounded_bytes = rounded },
		.tried = served_here.served,
	};

	status_mute();
	gather(arena, stream, &facts);
	status_unmute();
	buffer[0] = '\0';
	write_report(&text, &facts);
	status_set(WEIR_ENOMEM, "%s", buffer);
	facts.oom.report = buffer;
	observe_oom(&facts.oom);
	/* An observer may have changed the status: set it again. */
	status_set(WEIR_ENOMEM, "%s", buffer);
	if (page != NULL)
		meta_free(page, STATUS_TEXT_SIZE);
	return WEIR_ENOMEM;
}
