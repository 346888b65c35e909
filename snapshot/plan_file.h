/*
 * Plans: the places of a program's large requests, computed from a recording.
 *
 * A plan lists the program's large requests in their order: first those before
 * the first round, then those of one round, which the program repeats. A place
 * is an offset in one range of addresses. Requests whose lives overlap have
 * places that do not. A request may have no place, such as one of the round
 * that lives longer than a round. The places of the round lie in the first part
 * of the range, which a program needs that does not begin as the plan does.
 *
 * Streams have numbers from 0 on, which mean nothing else.
 *
 * A file has, in little-endian order:
 *
 *	8 bytes   "weirplan"
 *	4 each    version, entries, first entry of the round, streams
 *	8 each    bytes of the range, bytes of the round's part of it, peak of
 *	          the bytes of it that are live, bytes held without a plan
 *	          each entry: 8 bytes size, 8 bytes offset, 4 bytes stream
 *	8 bytes   checksum of all bytes before
 */
#ifndef SNAPSHOT_PLAN_FILE_H
#define SNAPSHOT_PLAN_FILE_H

#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "snapshot/tuning.h"

/* Sizes and offsets are multiples of it: WEIR_GRANULE. */
enum { PLAN_GRANULE = 512 };

/* The offset of a request without a place. */
#define PLAN_NO_PLACE UINT64_MAX

struct plan_entry {
	uint64_t size;   /* bytes, a size class: a multiple of PLAN_GRANULE */
	uint64_t offset; /* likewise, or PLAN_NO_PLACE */
	uint32_t stream;
};

struct plan {
	uint64_t bytes;       /* of the range */
	uint64_t round_bytes; /* of its part for the round */
	uint64_t live_bytes;  /* the most of this part that is live at once */
	/* The most that the program holds without a plan, as far as the
	 * recording shows. Up to then a request may get new memory at its place
	 * although there is free memory elsewhere. */
	uint64_t held_bytes;
	uint32_t count;
	uint32_t round; /* the index of the round's first entry; below count */
	uint32_t streams; /* 1 to PLAN_STREAMS */
	struct plan_entry *entries;
};

/* The number of requests in a round. */
static inline uint32_t
plan_round_length(const struct plan *plan)
{
	return plan->count - plan->round;
}

/* Make a plan with `count` entries, all zero. WEIR_EHOSTMEM. */
enum weir_status plan_new(uint32_t count, struct plan **out);
/* NULL does nothing. */
void plan_free(struct plan *plan);

/* Is the plan consistent? The message says what is wrong. WEIR_EINVAL. */
enum weir_status plan_verify(const struct plan *plan);

/* Write a plan that plan_verify() accepts. WEIR_EINVAL: the file cannot be
 * written; WEIR_EHOSTMEM. */
enum weir_status plan_write(const struct plan *plan, const char *path);

/* Read a plan. WEIR_EINVAL: there is no such file, or it is no plan, or one of
 * another version, or damaged; WEIR_EHOSTMEM. */
enum weir_status plan_read(const char *path, struct plan **out);

/* Read a plan from the bytes of a file; `name` is for messages. */
enum weir_status plan_decode(
    const char *name, const uint8_t *bytes, size_t size, struct plan **out);

#endif
