/*
 * From an address to its block.
 *
 * A tree of three fixed levels by address bits: a root, a table for each 16
 * GiB, a leaf for each 2 MiB, whose entries are 512 bytes apart and name the
 * block that starts there. A bit for each entry lets an address inside a block
 * find the start below it without walking memory.
 *
 * Starts that are no multiple of 512 are multiples of 64, of small page-locked
 * memory. They are in the same tree at a place of their own, above all
 * addresses and eight times as far apart: lookup_place().
 *
 * Reading takes no lock: tables are never freed, and a block that is named is
 * of memory that stays a struct block for ever (block_new()), so a reader that
 * is late sees a wrong block, not freed memory; it checks under the arena's
 * lock. Writing an address is for the owner of its segment, under the arena's
 * lock.
 */
#ifndef ALLOCATOR_MEMORY_LOOKUP_H
#define ALLOCATOR_MEMORY_LOOKUP_H

#include <stdatomic.h>
#include <stdint.h>

#include <weir/weir.h>

#include "allocator/memory/sizes.h"
#include "driver/abi.h"

struct block;

/* Make room for a block start at addr. WEIR_EHOSTMEM. After it lookup_set()
 * cannot fail there. */
enum weir_status lookup_prepare(CUdeviceptr addr);

/* Name the block that starts at addr; NULL for none. */
void lookup_set(CUdeviceptr addr, struct block *block);

/* The block that starts at addr, or NULL. */
struct block *lookup_exact(CUdeviceptr addr);

/* The leaf of a place: for ever; NULL: none. */
enum {
	LOOKUP_GRANULE_BITS = 9,
	LOOKUP_LEAF_BITS = 21,
	LOOKUP_ENTRIES = 1 << (LOOKUP_LEAF_BITS - LOOKUP_GRANULE_BITS),
	LOOKUP_LEAF_SIZE = 1 << LOOKUP_LEAF_BITS, /* bytes of addresses */
	LOOKUP_WORD = 64, /* starts whose bits are in one word */
};
/* The bits of an offset in a leaf at which a block can start. */
#define LOOKUP_STARTS ((CUdeviceptr)LOOKUP_LEAF_SIZE - WEIR_GRANULE)
/* Where the places of other starts begin: addresses end below it. */
#define LOOKUP_FINE ((CUdeviceptr)1 << 57)

/* Where a start is found in the tree. */
static inline CUdeviceptr
lookup_place(CUdeviceptr addr)
{
	return addr % WEIR_GRANULE == 0 ?
	    addr :
	    LOOKUP_FINE + addr * (WEIR_GRANULE / FINE_GRANULE);
}

struct leaf {
	_Atomic(struct block *) blocks[LOOKUP_ENTRIES];
	_Atomic(uint64_t) used[LOOKUP_ENTRIES / LOOKUP_WORD];
};
struct leaf *lookup_leaf(CUdeviceptr place);

/* The place of the first start in a leaf. */
static inline CUdeviceptr
lookup_base(CUdeviceptr place)
{
	return place & ~(CUdeviceptr)(LOOKUP_LEAF_SIZE - 1);
}

/* The leaf of the place that was looked for last; no leaf, of the lowest, if
 * none was. */
struct nearby {
	CUdeviceptr base;
	struct leaf *leaf;
};

/* Turn to the leaf of a place and return it; NULL: there is none yet. */
struct leaf *lookup_turn_to(struct nearby *nearby, CUdeviceptr place);

/*
 * lookup_set() at a place in its leaf.
 *
 * @param alone  the words of bits that lie in the segment are its alone, so
 *               nobody else writes one meanwhile
 */
static inline void
lookup_set_in_leaf(
    struct leaf *leaf, CUdeviceptr place, struct block *block, bool alone)
{
	size_t entry = (place & (LOOKUP_LEAF_SIZE - 1)) >> LOOKUP_GRANULE_BITS;
	_Atomic(uint64_t) *word = &leaf->used[entry / LOOKUP_WORD];
	uint64_t bit = (uint64_t)1 << entry % LOOKUP_WORD;
	uint64_t bits = atomic_load_explicit(word, memory_order_relaxed);

	atomic_store_explicit(
	    &leaf->blocks[entry], block, memory_order_release);
	if (alone)
		atomic_store_explicit(word,
		    block != NULL ? bits | bit : bits & ~bit,
		    memory_order_release);
	else if (block == NULL)
		atomic_fetch_and_explicit(word, ~bit, memory_order_release);
	else if ((bits & bit) == 0) /* or the look was cheaper */
		atomic_fetch_or_explicit(word, bit, memory_order_release);
}

/* The block that starts at a place, which has a block's name, is another one.
 */
static inline void
lookup_replace_in_leaf(
    struct leaf *leaf, CUdeviceptr place, struct block *block)
{
	atomic_store_explicit(&leaf->blocks[(place & (LOOKUP_LEAF_SIZE - 1)) >>
				  LOOKUP_GRANULE_BITS],
	    block, memory_order_release);
}

/* Are the words of bits of all starts in a segment its alone? Those of its fine
 * starts are too, then: they cover less. */
static inline bool
lookup_is_alone(CUdeviceptr addr, size_t size)
{
	return (addr | size) % (LOOKUP_WORD << LOOKUP_GRANULE_BITS) == 0;
}

/* The block that starts at an offset of LOOKUP_STARTS in a leaf: one load. */
static inline struct block *
lookup_at(const struct leaf *leaf, CUdeviceptr offset)
{
	return atomic_load_explicit(
	    &leaf->blocks[offset >> LOOKUP_GRANULE_BITS], memory_order_acquire);
}

/* lookup_exact() for an address that is a multiple of WEIR_GRANULE, with its
 * leaf at hand. */
static inline struct block *
lookup_in_leaf(const struct leaf *leaf, CUdeviceptr addr)
{
	return lookup_at(leaf, addr & (LOOKUP_LEAF_SIZE - 1));
}

/* The block with the highest start that is not above addr within the last 16
 * TiB, or NULL; whether it reaches addr is for the caller to see. */
struct block *lookup_floor(CUdeviceptr addr);

#endif
