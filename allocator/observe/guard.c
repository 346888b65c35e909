/*
 * Guarded blocks: see guard.h.
 *
 * The driver is called with no lock held. Therefore weir looks a block up,
 * reads its zones, and looks it up again before it reports damage: a block that
 * was freed and allocated again meanwhile has another serial number.
 *
 * Note [Order of fills]
 *
 * weir writes on a stream of its own, which nothing orders. So the host waits
 * before each fill for all work that may still use the memory, and after it for
 * the fill. A new block may be used only in the order of its stream: the work
 * of that stream so far includes, or comes after, all work of earlier owners of
 * the memory. A block that is freed may have been used on all streams of its
 * device, and on those of other devices that were recorded. weir does not fill
 * what it cannot wait for, as while a stream is captured.
 */
#include "allocator/observe/guard.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "allocator/fences/free.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/lookup.h"
#include "allocator/observe/fault.h"
#include "allocator/observe/tuning.h"
#include "allocator/private/suspension.h"
#include "base/log.h"
#include "base/meta.h"
#include "base/status.h"
#include "snapshot/frames.h"
#include "streams/drain.h"

enum {
	PATTERN = 0xa5,   /* of zones */
	POISON = 0xff,    /* of freed memory: NaN in each floating type */
	PIECE = 64 << 10, /* bytes looked at in one go */
	LINE = 512,       /* of a report */
	STACK_LINES = 32,
	ELSEWHERE = 8, /* recorded streams of other devices */
};

/* A guarded block and the zones before and after it. */
struct zones {
	CUdeviceptr addr;
	size_t requested;
	size_t size;
	size_t front; /* bytes of the zones */
	size_t after;
	weir_stream stream;
	uint32_t stack;
	uint32_t serial;
};

/* Damage that was found in a zone. */
struct damage {
	size_t bytes;   /* that differ */
	int64_t offset; /* of the first, from the block's start */
	uint8_t value;
};

/* The next serial number. Each guarded block gets its own, for ever: a record
 * of a block is used again, so a counter in the record could repeat at one
 * address. */
static _Atomic uint32_t next_serial;

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_EVENTS);
/* The streams, one per device, on which zones are written and read. Under the
 * lock. */
static struct own_stream {
	int device;
	CUcontext context;
	CUstream stream; /* NULL: none */
} streams[DEVICES_MAX];

void
guard_begin(size_t bytes)
{
	static bool begun;

	if (!begun)
		guard_zone = round_up(bytes, WEIR_GRANULE);
	begun = true;
}

/* ---- Under the arena's lock -------------------------------------------- */

enum weir_status
guard_cut(const struct options *options, size_t size, struct block **block)
{
	struct block *front = *block;
	struct arena *arena = front->arena;
	size_t rounded = arena_class(arena, options, size);
	struct block *between = NULL;
	struct block *after = NULL;

	ASSERT(guard_zone > 0 && front->size > 2 * guard_zone);
	ASSERT(block_state(front) == BLOCK_ACTIVE);
	lock_assert_held(&arena->lock);
	enum weir_status status =
	    block_new(arena, front->addr + guard_zone, &between);

	if (rounded > front->size - 2 * guard_zone)
		rounded = front->size - 2 * guard_zone;
	if (status == WEIR_OK)
		status = block_new(
		    arena, front->addr + guard_zone + rounded, &after);
	if (status != WEIR_OK) {
		if (between != NULL) {
			lock_assert_held(&between->arena->lock);
			block_delete(between);
		}
		lock_assert_held(&front->arena->lock);
		block_free(front);
		return status;
	}
	lock_assert_held(&front->arena->lock);
	lock_assert_held(&between->arena->lock);
	block_set_state(front, BLOCK_GUARD);
	block_split(front, guard_zone, between);
	block_split(between, rounded, after);
	block_set_state(between, BLOCK_ACTIVE);
	between->guarded = GUARD_CUT;
	between->serial = atomic_fetch_add(&next_serial, 1);
	*block = between;
	return WEIR_OK;
}

static bool
is_guarded(const struct block *block)
{
	return block->segment != NULL && block_state(block) == BLOCK_ACTIVE &&
	    block->guarded != GUARD_NONE;
}

static struct zones
zones_of(const struct block *block)
{
	ASSERT(block->prev != NULL && block->next != NULL);
	return (struct zones){
		.addr = block->addr,
		.requested = block->requested,
		.size = block->size,
		.front = block->prev->size,
		.after = block->next->size,
		.stream = block->pool->owner->stream->handle,
		.stack = block->stack,
		.serial = block->serial,
	};
}

/* The guarded block at an address, with its arena's lock; or NULL. */
static struct block *
lock_guarded(CUdeviceptr addr)
{
	struct block *block = lookup_exact(addr);

	if (block == NULL)
		return NULL;
	lock_enter(&block->arena->lock);
	if (block->addr == addr && is_guarded(block)) {
		lock_hand_over(&block->arena->lock);
		return block;
	}
	lock_leave(&block->arena->lock);
	return NULL;
}

/* Change a block from `from` to `to`. False if it is no longer the block that
 * was looked at, or no longer `from`. */
static bool
change_guard(
    const struct zones *zones, enum block_guard from, enum block_guard to)
{
	struct block *block = lock_guarded(zones->addr);

	if (block == NULL)
		return false;
	lock_take_over(&block->arena->lock);
	bool same = block->serial == zones->serial && block->guarded == from;
	if (same)
		block->guarded = to;
	lock_leave(&block->arena->lock);
	return same;
}

/* ---- The driver -------------------------------------------------------- */

/* Find the device's stream, or make it. Between driver_enter() and
 * driver_leave(). */
static bool
find_stream(const struct arena *arena, struct own_stream *out)
{
	struct own_stream *own = &streams[arena->device];
	bool found = true;

	lock_enter(&lock);
	if (own->context != arena->context)
		own->stream = NULL;
	if (own->stream == NULL)
		found = driver_peek()->cuStreamCreateWithPriority(&own->stream,
			    CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS;
	own->device = arena->device;
	own->context = arena->context;
	*out = *own;
	lock_leave(&lock);
	return found;
}

void
guard_forget_device(int device)
{
	lock_enter(&lock);
	if (device >= 0 && device < DEVICES_MAX)
		streams[device].stream = NULL;
	lock_leave(&lock);
}

/* Does this code mean that the stream ended with its context? */
static bool
says_ended(CUresult code)
{
	return code == CUDA_ERROR_INVALID_HANDLE ||
	    code == CUDA_ERROR_INVALID_CONTEXT ||
	    code == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* Forget a stream that has ended: a program can reset a device without weir's
 * knowledge. It is not destroyed, because the driver may have given its handle
 * to another stream. */
static void
forget_stream(const struct own_stream *own)
{
	lock_enter(&lock);
	if (streams[own->device].stream == own->stream)
		streams[own->device].stream = NULL;
	lock_leave(&lock);
}

/* Wait for what was queued, also if not all could be: the block may then go to
 * another stream, or to the driver. The stream is used again after a failure,
 * unless it has ended. */
static bool
finish_own(const struct own_stream *own, CUresult queued)
{
	CUresult waited = drain_stream(own->context, own->stream);

	if (says_ended(queued) || says_ended(waited))
		forget_stream(own);
	return queued == CUDA_SUCCESS && waited == CUDA_SUCCESS;
}

/* Write the pattern into the zones and the bytes of the block beyond the
 * request. */
static bool
fill_zones(const struct zones *z, const struct own_stream *own)
{
	const struct driver *driver = driver_peek();
	CUresult queued = driver->cuMemsetD8Async(
	    z->addr - z->front, PATTERN, z->front, own->stream);

	if (queued == CUDA_SUCCESS)
		queued = driver->cuMemsetD8Async(z->addr + z->requested,
		    PATTERN, z->size - z->requested + z->after, own->stream);
	return finish_own(own, queued);
}

static void
fill_with_poison(const struct zones *z, const struct own_stream *own)
{
	(void)finish_own(own,
	    driver_peek()->cuMemsetD8Async(
		z->addr, POISON, z->size, own->stream));
}

static void
compare_pattern(
    const uint8_t *bytes, size_t n, int64_t offset, struct damage *damage)
{
	for (size_t i = 0; i < n; i++) {
		if (bytes[i] == PATTERN)
			continue;
		if (damage->bytes++ == 0) {
			damage->offset = offset + (int64_t)i;
			damage->value = bytes[i];
		}
	}
}

/* Find the damage in a range of a zone. False if it cannot be read. */
static bool
look_at_bytes(const struct zones *z, int64_t from, size_t size,
    const struct own_stream *own, struct damage *damage)
{
	const struct driver *driver = driver_peek();
	uint8_t *bytes = meta_alloc(PIECE);
	bool done = bytes != NULL;

	ASSERT(size > 0);
	*damage = (struct damage){ 0 };
	for (size_t n = 0; done && size > 0; size -= n, from += (int64_t)n) {
		n = size < PIECE ? size : PIECE;
		done = finish_own(own,
		    driver->cuMemcpyDtoHAsync(
			bytes, z->addr + (CUdeviceptr)from, n, own->stream));
		if (done)
			compare_pattern(bytes, n, from, damage);
	}
	if (bytes != NULL)
		meta_free(bytes, PIECE);
	return done;
}

/* ---- Reports ----------------------------------------------------------- */

static void
describe_damage(const struct zones *z, const struct damage *damage, bool before,
    char *text, size_t size)
{
	uint64_t distance = before ? (uint64_t)-damage->offset :
				     (uint64_t)damage->offset - z->requested;
	char stream[STREAM_PHRASE];

	snprintf(text, size,
	    "guard: %zu byte%s %s the block of %zu bytes at %#llx (%s) "
	    "%s overwritten, the first, %llu %s, with 0x%02x",
	    damage->bytes, damage->bytes == 1 ? "" : "s",
	    before ? "before" : "behind", z->requested,
	    (unsigned long long)z->addr, stream_name(z->stream, stream),
	    damage->bytes == 1 ? "was" : "were", (unsigned long long)distance,
	    before ? "before its start" : "behind its end", damage->value);
}

static void
log_frame(void *unused, const char *line)
{
	(void)unused;
	log_write(LOG_ERROR, "  allocated at: %s", line);
}

/* Log where the block was allocated, if the history has its stack. */
static void
log_stack(uint32_t stack)
{
	struct stack_table *table = history_stacks();
	struct frames *frames;

	if (stack == 0 || table == NULL) {
		log_write(LOG_ERROR,
		    "  allocated at: not known; WEIR_CONF="
		    "history:all records it");
		return;
	}
	frames = frames_new(table, 0);
	if (frames == NULL)
		return;
	frames_tell(frames, stack, STACK_LINES, log_frame, NULL);
	frames_delete(frames);
}

static void
report_damage(const struct zones *z, const struct damage *damage, bool before,
    struct check *check)
{
	char text[LINE];

	describe_damage(z, damage, before, text, sizeof(text));
	if (check != NULL)
		check_fault(check, "%s", text);
	else
		log_write(LOG_ERROR, "%s", text);
}

/* Check both zones; true if anything was overwritten. Damage that was logged is
 * not reported again. */
static bool
look_at_zones(
    const struct zones *z, const struct own_stream *own, struct check *check)
{
	struct damage front;
	struct damage after;

	if (!look_at_bytes(z, -(int64_t)z->front, z->front, own, &front) ||
	    !look_at_bytes(z, (int64_t)z->requested,
		z->size - z->requested + z->after, own, &after) ||
	    (front.bytes == 0 && after.bytes == 0) ||
	    !change_guard(
		z, GUARD_FILLED, check != NULL ? GUARD_FILLED : GUARD_CUT))
		return false;
	if (front.bytes > 0)
		report_damage(z, &front, true, check);
	if (after.bytes > 0)
		report_damage(z, &after, false, check);
	if (check == NULL)
		log_stack(z->stack);
	return true;
}

/* ---- With no lock ------------------------------------------------------ */

/* Enter the arena's context, with this thread's status muted, until
 * guard_leave(). False: nothing has changed. */
static bool
guard_enter(const struct arena *arena, struct driver_guard *guard,
    struct own_stream *own)
{
	status_mute();
	if (driver_enter(arena->context, guard) == WEIR_OK) {
		if (find_stream(arena, own))
			return true;
		driver_leave(guard);
	}
	status_unmute();
	return false;
}

static void
guard_leave(const struct driver_guard *guard)
{
	driver_leave(guard);
	status_unmute();
}

/* A visit to one guarded block: to fill its zones, or to check them. */
struct visit {
	struct arena *arena;
	struct zones zones;
	bool filled; /* the zones hold the pattern */
	/* References: the block's stream, and streams of other devices that
	 * used the block. `more`: there are others. */
	struct stream *owner;
	struct stream *elsewhere[ELSEWHERE];
	unsigned n_elsewhere;
	bool more;
	struct driver_guard guard;
	struct own_stream own;
};

static void
note_streams(struct visit *visit, const struct block *block)
{
	const struct arena *arena = block->arena;

	visit->owner = stream_ref(block->pool->owner->stream);
	visit->n_elsewhere = 0;
	visit->more = false;
	for (const struct use *u = block->pending.uses; u != NULL;
	     u = u->next) {
		struct stream *stream = u->queue->stream;
		if (stream->context == arena->context)
			continue;
		if (visit->n_elsewhere == ELSEWHERE)
			visit->more = true;
		else
			visit->elsewhere[visit->n_elsewhere++] =
			    stream_ref(stream);
	}
}

static void
put_streams(const struct visit *visit)
{
	stream_put(visit->owner);
	for (unsigned i = 0; i < visit->n_elsewhere; i++)
		stream_put(visit->elsewhere[i]);
}

/* Enter the context for a visit to the guarded block at `ptr`, until
 * leave_block(). False: it is no guarded block, or the context cannot be
 * entered. */
static bool
enter_block(const void *ptr, struct visit *visit)
{
	const struct block *block = lock_guarded((CUdeviceptr)(uintptr_t)ptr);

	if (block == NULL)
		return false;
	visit->arena = block->arena;
	lock_take_over(&visit->arena->lock);
	/* Zones that have left the device cannot be read. */
	if (arena_is_suspended(visit->arena)) {
		lock_leave(&visit->arena->lock);
		return false;
	}
	visit->zones = zones_of(block);
	visit->filled = block->guarded == GUARD_FILLED;
	note_streams(visit, block);
	lock_leave(&visit->arena->lock);
	if (guard_enter(visit->arena, &visit->guard, &visit->own))
		return true;
	put_streams(visit);
	return false;
}

static void
leave_block(const struct visit *visit)
{
	guard_leave(&visit->guard);
	put_streams(visit);
}

/* Wait until earlier owners of a new block's memory no longer use it: Note
 * [Order of fills]. Memory of WEIR_STREAM_ANY is free of all work. False: the
 * stream is captured, or the driver refuses. */
static bool
wait_for_earlier(const struct visit *visit)
{
	return visit->owner->handle == WEIR_STREAM_ANY ||
	    stream_wait_host(visit->owner) == WEIR_OK;
}

/* Wait for the work of other devices on the block. */
static bool
wait_elsewhere(const struct visit *visit)
{
	bool done = !visit->more;

	for (unsigned i = 0; i < visit->n_elsewhere && done; i++)
		done = stream_wait_host(visit->elsewhere[i]) == WEIR_OK;
	return done;
}

void
guard_fill(const void *ptr)
{
	struct visit v;

	if (!enter_block(ptr, &v))
		return;
	bool filled = wait_for_earlier(&v) && fill_zones(&v.zones, &v.own);
	leave_block(&v);
	if (filled)
		change_guard(&v.zones, GUARD_CUT, GUARD_FILLED);
}

void
guard_look(const void *ptr, bool poison)
{
	struct visit v;

	if (!enter_block(ptr, &v))
		return;
	/* This fails while a capture is under way, when nothing can be waited
	 * for. */
	if (stream_wait_host(v.arena->any) == WEIR_OK) {
		if (v.filled)
			look_at_zones(&v.zones, &v.own, NULL);
		/* A thread that checks all blocks must not check this one any
		 * more. */
		change_guard(&v.zones, GUARD_FILLED, GUARD_CUT);
		if (poison && wait_elsewhere(&v))
			fill_with_poison(&v.zones, &v.own);
	}
	leave_block(&v);
}

/* Copy the lowest `max` guarded blocks of an arena above an address, in
 * order. */
static size_t
find_some(struct arena *arena, CUdeviceptr above, struct zones *out, size_t max)
{
	size_t n = 0;

	lock_enter(&arena->lock);
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next) {
		struct segment *s = CONTAINER_OF(l, struct segment, link);
		for (struct block *b = s->first; b != NULL; b = b->next) {
			if (b->addr <= above || !is_guarded(b) ||
			    b->guarded != GUARD_FILLED)
				continue;
			/* Insert it in order, and drop the highest if there are
			 * too many. */
			size_t at = n < max ? n++ : max;
			struct zones zones = zones_of(b);
			for (; at > 0 && out[at - 1].addr > zones.addr; at--)
				if (at < max)
					out[at] = out[at - 1];
			if (at < max)
				out[at] = zones;
		}
	}
	lock_leave(&arena->lock);
	return n;
}

size_t
guard_look_at_all(struct arena *arena, struct check *check)
{
	struct zones *some;
	struct driver_guard guard;
	struct own_stream own;
	CUdeviceptr above = 0;
	size_t found = 0;
	size_t n;

	if (!guard_is_for(arena) || arena->memory.forgotten ||
	    arena_is_suspended(arena))
		return 0;
	some = meta_alloc(ZONES_AT_ONCE * sizeof(*some));
	if (some == NULL || !guard_enter(arena, &guard, &own))
		goto drop_some;
	while ((n = find_some(arena, above, some, ZONES_AT_ONCE)) > 0) {
		for (size_t i = 0; i < n; i++)
			found += look_at_zones(&some[i], &own, check);
		above = some[n - 1].addr;
	}
	guard_leave(&guard);
drop_some:
	if (some != NULL)
		meta_free(some, ZONES_AT_ONCE * sizeof(*some));
	return found;
}
