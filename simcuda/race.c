/*
 * Races: two operations access a byte, at least one of them writes it, and the
 * program has not ordered them.
 *
 * For every byte of physical memory that was accessed these are stored: the
 * last write, and all reads since then that are not ordered with each other. A
 * new access must come after the write; if it writes, it must come after the
 * reads too. Bytes with equal records form one span. Spans are in chunks, which
 * are found by hashing and freed with their memory. Two atomic accesses do not
 * race.
 *
 * Bytes are physical, so a range that is mapped at two addresses is one. Host
 * memory that devices can access is identified by its address.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simcuda/sim.h"
#include "simcuda/tuning.h"

enum { CHUNK = 1 << CHUNK_SHIFT, TEXT = 400 };

struct past {
	uint64_t epoch; /* 0: none */
	uint32_t slot;
	enum access_mode mode;
	const char *name;
};

struct span {
	uint32_t start, end; /* offsets in the chunk */
	struct past write;
	struct past *reads;
	size_t n_reads, reads_capacity;
};

struct chunk {
	struct chunk *next;
	uint64_t key;
	struct span *spans; /* in order, without overlap */
	size_t n, capacity;
};

static struct chunk **buckets;
static size_t n_buckets, n_chunks;

/* ---- telling ------------------------------------------------------------ */

static char *texts[RACE_VIOLATIONS];
static unsigned n_violations;
/* The operation for which a race was last reported. */
static uint64_t told_epoch;
static uint32_t told_slot;

void
violation(const char *format, ...)
{
	char text[TEXT];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n_violations < RACE_VIOLATIONS)
		texts[n_violations] = strdup(text);
	n_violations++;
	if (conf.verbose || conf.abort)
		fprintf(stderr, "simcuda: %s\n", text);
	if (conf.abort)
		abort();
}

void
violation_reset(void)
{
	for (unsigned i = 0; i < n_violations && i < RACE_VIOLATIONS; i++)
		free(texts[i]);
	n_violations = 0;
	told_epoch = 0;
}

unsigned
simcuda_violations(void)
{
	unsigned n;

	gate_lock();
	n = n_violations;
	gate_unlock();
	return n;
}

const char *
simcuda_violation_text(unsigned i)
{
	const char *text = NULL;

	gate_lock();
	if (i < n_violations && i < RACE_VIOLATIONS)
		text = texts[i];
	gate_unlock();
	return text;
}

static const char *
verb(enum access_mode mode)
{
	return mode == ACCESS_READ ? "reads" :
	    mode == ACCESS_WRITE   ? "writes" :
				     "changes";
}

/* Report a race. Each operation reports at most one, however many bytes it has.
 */
static void
tell_race(
    const struct access *access, const struct op *op, const struct past *past)
{
	if (told_slot == op->at.slot && told_epoch == op->at.epoch)
		return;
	told_slot = op->at.slot;
	told_epoch = op->at.epoch;
	violation("race: %s on stream %llu %s %zu bytes at %#llx, which %s on "
		  "stream %llu %s, and nothing orders the two",
	    action_name(&op->action),
	    (unsigned long long)slot_label(op->at.slot), verb(access->mode),
	    access->size, (unsigned long long)access->address, past->name,
	    (unsigned long long)slot_label(past->slot), verb(past->mode));
}

static void
tell_uninitialized(const struct access *access, const struct op *op)
{
	if (told_slot == op->at.slot && told_epoch == op->at.epoch)
		return;
	told_slot = op->at.slot;
	told_epoch = op->at.epoch;
	violation("%s on stream %llu reads %zu bytes at %#llx, not all of "
		  "which were ever written",
	    action_name(&op->action),
	    (unsigned long long)slot_label(op->at.slot), access->size,
	    (unsigned long long)access->address);
}

/* ---- chunks ------------------------------------------------------------- */

static uint64_t
chunk_key(unsigned space, uint64_t offset)
{
	return (uint64_t)space << 56 | offset >> CHUNK_SHIFT;
}

static size_t
chunk_bucket_of(uint64_t key)
{
	return (size_t)(key * 0x9e3779b97f4a7c15u >> 32) & (n_buckets - 1);
}

static void
rehash(void)
{
	struct chunk **old = buckets;
	size_t n_old = n_buckets;

	n_buckets = n_old == 0 ? 1024 : n_old * 2;
	buckets = sim_alloc(n_buckets * sizeof(struct chunk *));
	for (size_t i = 0; i < n_old; i++) {
		while (old[i] != NULL) {
			struct chunk *chunk = old[i];
			size_t bucket = chunk_bucket_of(chunk->key);

			old[i] = chunk->next;
			chunk->next = buckets[bucket];
			buckets[bucket] = chunk;
		}
	}
	free(old);
}

static struct chunk *
chunk_get(uint64_t key)
{
	struct chunk *chunk;
	size_t bucket;

	if (n_chunks >= n_buckets)
		rehash();
	bucket = chunk_bucket_of(key);
	for (chunk = buckets[bucket]; chunk != NULL; chunk = chunk->next) {
		if (chunk->key == key)
			return chunk;
	}
	chunk = sim_alloc(sizeof(*chunk));
	chunk->key = key;
	chunk->next = buckets[bucket];
	buckets[bucket] = chunk;
	n_chunks++;
	return chunk;
}

static void
chunk_drop(uint64_t key)
{
	struct chunk **link;

	if (n_buckets == 0)
		return;
	for (link = &buckets[chunk_bucket_of(key)]; *link != NULL;
	     link = &(*link)->next) {
		struct chunk *chunk = *link;

		if (chunk->key != key)
			continue;
		*link = chunk->next;
		for (size_t i = 0; i < chunk->n; i++)
			free(chunk->spans[i].reads);
		free(chunk->spans);
		free(chunk);
		n_chunks--;
		return;
	}
}

/* ---- spans -------------------------------------------------------------- */

/* The first span that ends after `at`. */
static size_t
span_search(const struct chunk *chunk, uint32_t at)
{
	size_t low = 0, high = chunk->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (chunk->spans[middle].end > at)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Insert a span at index i, with undefined contents. */
static struct span *
span_insert(struct chunk *chunk, size_t i)
{
	chunk->spans = sim_grow(
	    chunk->spans, chunk->n, &chunk->capacity, sizeof(*chunk->spans));
	memmove(&chunk->spans[i + 1], &chunk->spans[i],
	    (chunk->n - i) * sizeof(*chunk->spans));
	chunk->n++;
	return &chunk->spans[i];
}

/* Cut the span at index i in two. */
static void
span_cut(struct chunk *chunk, size_t i, uint32_t at)
{
	struct span *low = span_insert(chunk, i), *high = low + 1;

	*low = *high;
	low->end = at;
	high->start = at;
	if (low->reads != NULL) {
		high->reads =
		    sim_alloc(low->reads_capacity * sizeof(*low->reads));
		memcpy(high->reads, low->reads,
		    low->n_reads * sizeof(*low->reads));
	}
}

static void
read_add(struct span *span, const struct past *read, const struct op *op)
{
	size_t n = 0;

	/* Keep the reads that this operation is not ordered after. */
	for (size_t i = 0; i < span->n_reads; i++) {
		struct past *old = &span->reads[i];

		if (old->mode != read->mode ||
		    !point_has(&op->at, old->slot, old->epoch))
			span->reads[n++] = *old;
	}
	span->n_reads = n;
	span->reads = sim_grow(span->reads, span->n_reads,
	    &span->reads_capacity, sizeof(*span->reads));
	span->reads[span->n_reads++] = *read;
}

static void
span_check(
    const struct span *span, const struct access *access, const struct op *op)
{
	const struct past *write = &span->write;

	if (!point_has(&op->at, write->slot, write->epoch))
		tell_race(access, op, write);
	for (size_t i = 0; i < span->n_reads; i++) {
		const struct past *read = &span->reads[i];

		if (read->mode == access->mode && access->mode != ACCESS_WRITE)
			continue;
		if (!point_has(&op->at, read->slot, read->epoch))
			tell_race(access, op, read);
	}
	if (conf.uninitialized && access->mode == ACCESS_READ &&
	    write->epoch == 0)
		tell_uninitialized(access, op);
}

/* The bytes [start, end) of the chunk were accessed: check and record that. */
static void
chunk_access(struct chunk *chunk, uint32_t start, uint32_t end,
    const struct access *access, const struct op *op)
{
	struct past past = { op->at.epoch, op->at.slot, access->mode,
		action_name(&op->action) };
	size_t first = span_search(chunk, start), i;
	uint32_t at = start;

	if (first < chunk->n && chunk->spans[first].start < start)
		span_cut(chunk, first++, start);
	for (i = first; at < end; i++) {
		struct span *span;

		if (i == chunk->n || chunk->spans[i].start > at) {
			uint32_t stop = end;

			if (i < chunk->n && chunk->spans[i].start < end)
				stop = chunk->spans[i].start;
			span = span_insert(chunk, i);
			*span = (struct span){ .start = at, .end = stop };
		} else if (chunk->spans[i].end > end) {
			span_cut(chunk, i, end);
		}
		span = &chunk->spans[i];
		span_check(span, access, op);
		if (access->mode != ACCESS_WRITE)
			read_add(span, &past, op);
		at = span->end;
	}
	if (access->mode != ACCESS_WRITE)
		return;
	/* All records are ordered before the write, so one span remains. */
	for (size_t j = first; j < i; j++)
		free(chunk->spans[j].reads);
	chunk->spans[first] =
	    (struct span){ .start = start, .end = end, .write = past };
	memmove(&chunk->spans[first + 1], &chunk->spans[i],
	    (chunk->n - i) * sizeof(*chunk->spans));
	chunk->n -= i - first - 1;
}

void
race_access(unsigned space, uint64_t offset, const struct access *access,
    const struct op *op)
{
	uint64_t end = offset + access->size;

	while (offset < end) {
		uint64_t base = offset & ~(uint64_t)(CHUNK - 1);
		uint64_t stop = base + CHUNK < end ? base + CHUNK : end;

		chunk_access(chunk_get(chunk_key(space, offset)),
		    (uint32_t)(offset - base), (uint32_t)(stop - base), access,
		    op);
		offset = stop;
	}
}

/* Host memory does not begin and end at chunk boundaries, so neighbours'
 * records are dropped too. This can hide a race but never reports a false one.
 */
void
race_forget(unsigned space, uint64_t offset, size_t size)
{
	for (uint64_t key = chunk_key(space, offset);
	     key <= chunk_key(space, offset + size - 1); key++)
		chunk_drop(key);
}
