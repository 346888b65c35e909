/*
 * Chooses what a remap maps, and where: remap.c, Note [Remapping]. It changes
 * no block, but may reserve addresses.
 */
#ifndef ALLOCATOR_MEMORY_REMAP_PLAN_H
#define ALLOCATOR_MEMORY_REMAP_PLAN_H

#include "allocator/memory/grow.h"
#include "allocator/memory/segment.h"
#include "allocator/memory/tuning.h"

/* A part of the row to map, in an UNMAPPED block: its front, or, for a row at a
 * place, bytes from its middle on. */
struct part {
	struct block *block;
	CUdeviceptr addr;
	size_t size;   /* bytes to map */
	size_t filled; /* of these, bytes for which a handle is chosen */
};

/* A donor: whole handles under free neighbours, some of which are chosen. */
struct donor {
	struct span span;
	struct block *block; /* over the chosen handles; set by remap.c */
	const struct segment *segment;
	CUdeviceptr low;  /* start of all its handles */
	CUdeviceptr high; /* and their end */
	CUdeviceptr from; /* the chosen ones: from here to `high` */
	struct cut cut;   /* set by remap.c */
};

/* Set by the caller up to `at`, by remap.c in `middle` and `rest`, and by the
 * calls below in the other fields. */
struct remap_plan {
	struct view *view;
	struct pool *pool;
	const struct options *options;
	size_t rounded;
	size_t request; /* new handles are as for one of this size */
	bool bare; /* use unmapped addresses only: all free memory can move */
	CUdeviceptr at;      /* the row's place; 0: anywhere */
	size_t new_most;     /* at a place: bytes of new memory, at most */
	struct block *start; /* of the row; until blocks are hidden */
	size_t missing;      /* bytes to map in the row */
	struct segment *segment;
	CUdeviceptr addr; /* of the row */
	struct part parts[PARTS_MAX];
	size_t part_count;
	struct block *middle; /* the first part, if its block begins before */
	struct block *rest;   /* stays unmapped of the last part */
	struct donor *donors; /* the largest first */
	size_t donor_count;
	size_t donors_bytes;  /* bytes of the array */
	size_t donor_bytes;   /* bytes of the donors' handles */
	size_t enough;        /* of these; the search ends there */
	bool is_cut;          /* the search has ended there */
	bool places_stay;     /* no range of places is a donor */
	bool has_failed;      /* no host memory for all donors */
	struct handle *moved; /* through ->next, as `fresh` */
	struct handle *fresh;
	size_t moved_bytes;
	size_t fresh_bytes;
	uint64_t moved_handles; /* set by remap.c, as create_ns */
	uint64_t create_ns;     /* the time of cuMemCreate() for host memory */
};

/*
 * Find the row that needs the fewest bytes, or reserve addresses for one; or
 * find the one at plan->at. `missing` is 0 if another thread has freed enough
 * there meanwhile.
 *
 * @return WEIR_ENOMEM, WEIR_EHOSTMEM or WEIR_EDRIVER: there is no row
 */
enum weir_status plan_row(struct remap_plan *plan)
    HOLDS(plan->pool->owner->arena->lock);

/*
 * Choose handles to move to the row. plan_drop() follows, also after a failure.
 *
 * @return WEIR_ENOMEM: GROW_MOVED, and not enough can be moved; WEIR_EHOSTMEM
 */
enum weir_status plan_handles(struct remap_plan *plan, enum grow_how how)
    HOLDS(plan->pool->owner->arena->lock);

/* The bytes of the row for which no handle is chosen yet. */
size_t plan_open_bytes(const struct remap_plan *plan);

/* Choose new handles for these bytes. WEIR_EHOSTMEM. */
enum weir_status plan_fresh(struct remap_plan *plan);

/* Drop the donors and the new handles that are still in the plan. Handles that
 * the driver did not release go to arena->unreleased. */
void plan_drop(struct remap_plan *plan);

static inline struct part *
plan_last_part(struct remap_plan *plan)
{
	return &plan->parts[plan->part_count - 1];
}

/* The bytes of a part's block from the part's start on. */
static inline size_t
part_room(const struct part *part)
{
	return part->block->addr + part->block->size - part->addr;
}

/* The bytes of the chosen handles of a donor. */
static inline size_t
donor_chosen(const struct donor *donor)
{
	return donor->high - donor->from;
}

#endif
