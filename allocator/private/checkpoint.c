/*
 * Checkpoints of an arena.
 *
 * A checkpoint lists the blocks that have memory, by address. Neighbouring
 * blocks make a *run*, which may begin and end anywhere in a segment, so that
 * expandable segments with holes are no special case. A restoration frees all
 * live blocks, joins the free blocks of each run into one and cuts it as it
 * was. It does before that everything that can fail: it allocates blocks and
 * lists, and makes a stream wait where memory passes to it from another stream.
 */
#include "allocator/private/checkpoint.h"

#include <stdlib.h>

#include "allocator/account/counters.h"
#include "allocator/fences/fence.h"
#include "allocator/fences/free.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/heap.h"
#include "allocator/memory/lookup.h"
#include "allocator/private/suspension.h"
#include "allocator/request/reclaim.h"
#include "allocator/request/release.h"
#include "base/meta.h"
#include "base/status.h"

/* A block as it was at the checkpoint. */
struct was {
	CUdeviceptr addr;
	size_t size;
	size_t requested;
	struct stream *stream; /* a reference */
	enum pool_kind kind;
	bool live;

	/* Used by a restoration only. */
	struct stream_heap *heap;
	struct block *spare; /* record for a block at `addr` */
	bool begins;         /* it is the first of a run */
};

struct checkpoint {
	struct arena *arena;
	uint64_t generation;
	size_t n;
	struct was *blocks;  /* by address */
	size_t blocks_bytes; /* bytes of the array */
};

/* ---- Taking ------------------------------------------------------------ */

/* Refuse an arena that was reset or is suspended, or that has jobs under way or
 * pending blocks. */
static enum weir_status
check_calm(struct arena *arena)
{
	if (arena->memory.forgotten)
		return status_set(WEIR_ECONTEXT,
		    "checkpoint: device %d was reset", arena->device);
	if (arena->memory.jobs > 0 || arena_is_suspended(arena))
		return status_set(WEIR_ENOTREADY,
		    "checkpoint: memory of the pool is being mapped, or "
		    "is suspended");
	for (struct list *l = arena->waiting.pending.next;
	     l != &arena->waiting.pending; l = l->next)
		if (block_state(block_of_pending(l)) == BLOCK_PENDING)
			return status_set(WEIR_ENOTREADY,
			    "checkpoint: the block at %#llx waits for a "
			    "stream: events should have synchronized",
			    (unsigned long long)block_of_pending(l)->addr);
	return WEIR_OK;
}

/* Is the block part of a checkpoint? It is if it has memory. */
static bool
is_kept(const struct block *block)
{
	return block_state(block) == BLOCK_FREE ||
	    block_state(block) == BLOCK_ACTIVE;
}

static enum weir_status
count_blocks(const struct arena *arena, size_t *n)
{
	*n = 0;
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next) {
		struct segment *segment = CONTAINER_OF(l, struct segment, link);
		for (struct block *b = segment->first; b != NULL; b = b->next) {
			*n += is_kept(b);
			if (block_state(b) == BLOCK_ACTIVE &&
			    b->pool->owner == arena->memory.any_heap)
				return status_set(WEIR_ENOTSUP,
				    "checkpoint: the block at %#llx belongs to "
				    "no "
				    "stream",
				    (unsigned long long)b->addr);
		}
	}
	return WEIR_OK;
}

static int
compare_was(const void *a, const void *b)
{
	const struct was *x = a;
	const struct was *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

static void
note_blocks(struct checkpoint *checkpoint, const struct arena *arena)
{
	ASSERT(checkpoint->n == 0 && checkpoint->blocks != NULL);
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next) {
		struct segment *segment = CONTAINER_OF(l, struct segment, link);
		for (struct block *b = segment->first; b != NULL; b = b->next) {
			if (!is_kept(b))
				continue;
			bool live = block_state(b) == BLOCK_ACTIVE;
			checkpoint->blocks[checkpoint->n++] =
			    (struct was){ .addr = b->addr,
				    .size = b->size,
				    .requested = live ? b->requested : 0,
				    .stream =
					stream_ref(b->pool->owner->stream),
				    .kind = b->pool->kind,
				    .live = live };
		}
	}
	qsort(checkpoint->blocks, checkpoint->n, sizeof(*checkpoint->blocks),
	    compare_was);
}

static enum weir_status
copy_runs(struct arena *arena, struct checkpoint *checkpoint) HOLDS(arena->lock)
{
	size_t n;
	enum weir_status status;

	ASSERT(checkpoint->blocks == NULL);
	reclaim_poll(arena, RECLAIM_SKIPS);
	status = check_calm(arena);
	if (status == WEIR_OK)
		status = count_blocks(arena, &n);
	if (status != WEIR_OK)
		return status;
	checkpoint->blocks_bytes = (n + 1) * sizeof(*checkpoint->blocks);
	checkpoint->blocks = meta_zalloc(checkpoint->blocks_bytes);
	if (checkpoint->blocks == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "checkpoint: no host memory for %zu blocks", n);
	checkpoint->arena = arena;
	checkpoint->generation = arena->private.generation;
	note_blocks(checkpoint, arena);
	return WEIR_OK;
}

enum weir_status
checkpoint_take(struct arena *arena, struct checkpoint **out)
{
	ASSERT(arena != arena->main);
	struct checkpoint *checkpoint = meta_zalloc(sizeof(*checkpoint));
	if (checkpoint == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "checkpoint: no host memory for it");
	lock_enter(&arena->lock);
	enum weir_status status = copy_runs(arena, checkpoint);
	lock_leave(&arena->lock);
	if (status != WEIR_OK) {
		meta_free(checkpoint, sizeof(*checkpoint));
		return status;
	}
	*out = checkpoint;
	return WEIR_OK;
}

void
checkpoint_drop(struct checkpoint *checkpoint)
{
	if (checkpoint == NULL)
		return;
	for (size_t i = 0; i < checkpoint->n; i++)
		stream_put(checkpoint->blocks[i].stream);
	meta_free(checkpoint->blocks, checkpoint->blocks_bytes);
	meta_free(checkpoint, sizeof(*checkpoint));
}

void
restored_drop(struct restored *restored)
{
	if (restored->freed != NULL)
		meta_free(restored->freed,
		    (restored->n_freed + 1) * sizeof(*restored->freed));
	if (restored->live != NULL)
		meta_free(restored->live,
		    (restored->n_live + 1) * sizeof(*restored->live));
	*restored = (struct restored){ 0 };
}

/* ---- Before anything changes ------------------------------------------- */

/* The block that has memory at an address of the arena, or NULL. */
static struct block *
block_over(const struct arena *arena, CUdeviceptr addr)
{
	struct block *block = lookup_floor(addr);

	return block != NULL && block->arena == arena &&
		block->segment != NULL && addr - block->addr < block->size ?
	    block :
	    NULL;
}

/* Order the stream that had a block at the checkpoint after all work that is
 * queued on the stream that has the memory now. */
static enum weir_status
order_after_owner(const struct was *was, struct block *now)
{
	struct stream_heap *owner = now->pool->owner;
	struct arena *arena = now->arena;
	char a[STREAM_PHRASE];
	char b[STREAM_PHRASE];
	struct view view;

	ASSERT(was->heap != NULL && is_kept(now));
	if (owner == was->heap || owner == arena->memory.any_heap ||
	    (block_state(now) == BLOCK_FREE &&
		now->freed_at <= owner->completed_at))
		return WEIR_OK;
	if (block_state(now) == BLOCK_ACTIVE)
		owner->freed_at = order_tick();
	view_begin(&view, was->heap);
	lock_assert_held(&view.mine->arena->lock);
	if (was->heap != arena->memory.any_heap && view_can_wait(&view) &&
	    view.capture == 0 &&
	    fences_follow(&view, owner, owner->freed_at, WAITS_ANY))
		return WEIR_OK;
	return status_set(WEIR_ENOTREADY,
	    "checkpoint: the memory at %#llx is in use on %s, and %s cannot be "
	    "made to wait for it",
	    (unsigned long long)was->addr,
	    stream_name((weir_stream)owner->stream->handle, a),
	    stream_name((weir_stream)was->stream->handle, b));
}

/* Check that the memory of a block of the checkpoint still exists, in one
 * segment of its kind. */
static enum weir_status
check_memory(struct arena *arena, const struct was *was)
{
	const struct segment *segment = NULL;
	CUdeviceptr at = was->addr;

	ASSERT(was->size > 0 && was->heap != NULL);
	while (at < was->addr + was->size) {
		struct block *now = block_over(arena, at);
		if (now == NULL || !is_kept(now) ||
		    now->segment->kind != was->kind ||
		    (segment != NULL && segment != now->segment))
			return status_set(WEIR_EINVAL,
			    "checkpoint: could not find %#llx: the memory "
			    "there "
			    "is no longer the pool's",
			    (unsigned long long)at);
		enum weir_status status = order_after_owner(was, now);
		if (status != WEIR_OK)
			return status;
		segment = now->segment;
		at = now->addr + now->size;
	}
	return WEIR_OK;
}

/* Count the live blocks. Refuse a block with a stream use, because its free
 * would leave it pending. */
static enum weir_status
check_live(const struct arena *arena, size_t *n)
{
	*n = 0;
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next) {
		struct segment *segment = CONTAINER_OF(l, struct segment, link);
		for (struct block *b = segment->first; b != NULL; b = b->next) {
			if (block_state(b) != BLOCK_ACTIVE)
				continue;
			++*n;
			if (b->pending.uses != NULL)
				return status_set(WEIR_ENOTREADY,
				    "checkpoint: the live block at %#llx was "
				    "used on other streams: events should have "
				    "synchronized",
				    (unsigned long long)b->addr);
		}
	}
	return WEIR_OK;
}

/* A restore on its way. */
struct job {
	struct arena *arena;
	const struct options *options;
	struct was *blocks; /* a copy of the checkpoint's */
	size_t n;
	struct block *after; /* records for the memory after each run */
	struct restored restored;
};

static enum weir_status
prepare_lists(struct job *job)
{
	struct restored *r = &job->restored;

	ASSERT(job->restored.live == NULL);
	r->n_live = 0;
	for (size_t i = 0; i < job->n; i++)
		r->n_live += job->blocks[i].live;
	r->freed = meta_zalloc((r->n_freed + 1) * sizeof(*r->freed));
	r->live = meta_zalloc((r->n_live + 1) * sizeof(*r->live));
	if (r->freed == NULL || r->live == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "checkpoint: no host memory for %zu pointers",
		    r->n_freed + r->n_live);
	return WEIR_OK;
}

static bool
begins_run(const struct job *job, size_t i)
{
	const struct was *was = &job->blocks[i];

	ASSERT(i < job->n);
	return i == 0 || was[-1].addr + was[-1].size != was->addr ||
	    block_over(job->arena, was->addr)->segment !=
	    block_over(job->arena, was[-1].addr)->segment;
}

/* Make a record for the start of each block, and one for the memory after each
 * run. Find the starts of runs now: once everything is freed and merged, the
 * block over an address starts far below it, and the lookup takes long. */
static enum weir_status
prepare_blocks(struct job *job) HOLDS(job->arena->lock)
{
	ASSERT(job->after == NULL);
	for (size_t i = 0; i < job->n; i++)
		job->blocks[i].begins = begins_run(job, i);
	for (size_t i = 0; i < job->n; i++) {
		struct was *was = &job->blocks[i];
		struct block *after;
		enum weir_status status =
		    block_new(job->arena, was->addr, &was->spare);
		if (status != WEIR_OK)
			return status;
		if (i + 1 < job->n && !job->blocks[i + 1].begins)
			continue;
		status = block_new(job->arena, was->addr + was->size, &after);
		if (status != WEIR_OK)
			return status;
		after->next = job->after;
		job->after = after;
	}
	return WEIR_OK;
}

static void
drop_blocks(struct job *job) HOLDS(job->arena->lock)
{
	for (size_t i = 0; i < job->n; i++)
		if (job->blocks[i].spare != NULL) {
			lock_assert_held(&job->blocks[i].spare->arena->lock);
			block_delete(job->blocks[i].spare);
		}
	while (job->after != NULL) {
		struct block *next = job->after->next;
		lock_assert_held(&job->after->arena->lock);
		block_delete(job->after);
		job->after = next;
	}
}

/* Find the heap of each stream and hold it until drop_heap(): a restoration may
 * free the last block of a stream that has ended. */
static enum weir_status
prepare_heap(struct job *job) HOLDS(job->arena->lock)
{
	enum weir_status status = WEIR_OK;

	for (size_t i = 0; i < job->n && status == WEIR_OK; i++) {
		struct was *was = &job->blocks[i];
		status = heap_get(job->arena, was->stream, &was->heap);
		if (status == WEIR_OK)
			was->heap->pins++;
	}
	return status;
}

static void
drop_heap(struct job *job)
{
	for (size_t i = 0; i < job->n; i++) {
		struct stream_heap *heap = job->blocks[i].heap;
		if (heap == NULL)
			continue;
		heap->pins--;
		lock_assert_held(&heap->arena->lock);
		heap_drop_if_done(heap);
	}
}

static enum weir_status
prepare_restore(struct job *job) HOLDS(job->arena->lock)
{
	struct arena *arena = job->arena;

	lock_assert_held(&arena->lock);
	reclaim_poll(arena, RECLAIM_SKIPS);
	reclaim_refresh(arena);
	enum weir_status status = check_calm(arena);
	if (status == WEIR_OK)
		status = check_live(arena, &job->restored.n_freed);
	if (status == WEIR_OK)
		status = prepare_heap(job);
	for (size_t i = 0; i < job->n && status == WEIR_OK; i++)
		status = check_memory(arena, &job->blocks[i]);
	if (status == WEIR_OK)
		status = prepare_lists(job);
	if (status == WEIR_OK)
		status = prepare_blocks(job);
	return status;
}

/* ---- Making it so ------------------------------------------------------ */

static void
free_live(struct job *job)
{
	struct arena *arena = job->arena;
	size_t n = 0;

	ASSERT(job->restored.freed != NULL);
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next) {
		struct segment *segment = CONTAINER_OF(l, struct segment, link);
		for (struct block *b = segment->first; b != NULL; b = b->next)
			if (block_state(b) == BLOCK_ACTIVE)
				job->restored.freed[n++] = b->addr;
	}
	for (size_t i = 0; i < n; i++) {
		struct block *block = lookup_exact(job->restored.freed[i]);
		lock_assert_held(&block->arena->lock);
		release_block(block);
	}
}

/* Join the free blocks under a run to one block that begins and ends with the
 * run and is in no tree. Free the memory before and after it. */
static struct block *
join_run(struct job *job, const struct was *first, const struct was *last)
    HOLDS(job->arena->lock)
{
	struct span span = { .first = block_over(job->arena, first->addr),
		.last = block_over(job->arena, last->addr + last->size - 1) };
	CUdeviceptr end = last->addr + last->size;
	struct block *after = job->after;

	ASSERT(first->begins && first->addr <= last->addr);
	ASSERT(span.first != NULL && span.last != NULL);
	lock_assert_held(&span.first->arena->lock);
	struct block *block = block_join(span.first, span.last);
	if (block->addr < first->addr) {
		struct block *before = block;
		block = first->spare;
		lock_assert_held(&before->arena->lock);
		block_split(before, first->addr - before->addr, block);
		block_set_state(block, BLOCK_UNMAPPING);
		block_put(before, BLOCK_FREE);
	} else {
		block_set_state(block, BLOCK_UNMAPPING);
		lock_assert_held(&first->spare->arena->lock);
		block_delete(first->spare);
	}
	job->after = after->next;
	after->addr = end;
	after->next = NULL;
	if (block->addr + block->size > end) {
		lock_assert_held(&block->arena->lock);
		block_split(block, end - block->addr, after);
		lock_assert_held(&after->arena->lock);
		block_put(after, BLOCK_FREE);
	} else {
		lock_assert_held(&after->arena->lock);
		block_delete(after);
	}
	return block;
}

/* Cut one block of a run as it was; returns the rest of the run. */
static struct block *
cut_one(struct job *job, struct was *was, struct block *block)
    HOLDS(block->arena->lock)
{
	struct block *rest = NULL;

	ASSERT(block->addr == was->addr && block->size >= was->size);
	if (block->size > was->size) {
		rest = was[1].spare;
		block_split(block, was->size, rest);
	}
	block_move(block, &was->heap->pool[was->kind]);
	if (was->live) {
		block_set_state(block, BLOCK_ACTIVE);
		block->requested = was->requested;
		stats_hand_out(job->options, block);
		emit_alloc(block);
		job->restored.live[job->restored.n_live++] = block->addr;
	}
	return rest;
}

static void
restore_free(struct job *job, size_t first, size_t last)
{
	ASSERT(first <= last && last < job->n);
	for (size_t i = first; i <= last; i++)
		if (!job->blocks[i].live) {
			struct block *block = lookup_exact(job->blocks[i].addr);
			lock_assert_held(&block->arena->lock);
			block_free(block);
		}
}

static void
commit_restore(struct job *job) HOLDS(job->arena->lock)
{
	size_t last;

	ASSERT(job->n == 0 || job->blocks[0].begins);
	free_live(job);
	job->restored.n_live = 0;
	for (size_t i = 0; i < job->n; i = last + 1) {
		last = i;
		while (last + 1 < job->n && !job->blocks[last + 1].begins)
			last++;
		struct block *block =
		    join_run(job, &job->blocks[i], &job->blocks[last]);
		for (size_t k = i; k <= last; k++) {
			lock_assert_held(&block->arena->lock);
			block = cut_one(job, &job->blocks[k], block);
		}
		restore_free(job, i, last);
	}
}

enum weir_status
checkpoint_restore(struct arena *arena, const struct checkpoint *checkpoint,
    struct restored *out)
{
	struct job job = { .arena = arena, .n = checkpoint->n };
	enum weir_status status = options_get(&job.options);
	if (status != WEIR_OK)
		return status;
	job.blocks = meta_zalloc(checkpoint->blocks_bytes);
	if (job.blocks == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "checkpoint: no host memory to restore it");
	for (size_t i = 0; i < job.n; i++)
		job.blocks[i] = checkpoint->blocks[i];
	history_enter(WEIR_HISTORY_STATE);
	lock_enter(&arena->lock);
	if (checkpoint->arena != arena ||
	    checkpoint->generation != arena->private.generation)
		status = status_set(
		    WEIR_EINVAL, "checkpoint: it is not of this pool");
	lock_assert_held(&job.arena->lock);
	if (status == WEIR_OK)
		status = prepare_restore(&job);
	if (status == WEIR_OK)
		commit_restore(&job);
	else
		drop_blocks(&job);
	drop_heap(&job);
	lock_leave(&arena->lock);
	history_leave();
	meta_free(job.blocks, checkpoint->blocks_bytes);
	if (status == WEIR_OK)
		*out = job.restored;
	else
		restored_drop(&job.restored);
	return status;
}
