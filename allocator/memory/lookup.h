/*
 * Finds the block of an address.
 *
 * The address table is a tree of three fixed levels by address bits: a root, a
 * table for each 16 GiB, and a leaf for each 2 MiB. The entries of a leaf are
 * 512 bytes apart; each names the block that starts there. A bit for each entry
 * helps to find the start below an address inside a block.
 *
 * Starts that are no multiple of 512 are fine starts: multiples of 64, of small
 * page-locked memory. The tree holds each at a place of its own, above all
 * addresses and eight times as far apart: lookup_place().
 *
 * Readers take no lock. Tables and records of blocks (block_new()) are never
 * freed, so a late reader may get a wrong block but never freed memory. It
 * checks the block under the arena's lock. Only the arena that owns the segment
 * enters an address, under its lock.
 */
#ifndef ALLOCATOR_MEMORY_LOOKUP_H
#define ALLOCATOR_MEMORY_LOOKUP_H

#include <stdatomic.h>
#include <stdint.h>

#include <weir/weir.h>

#include "allocator/policy/sizes.h"
#include "driver/abi.h"

struct block;

/* Make the tables for a start at addr, so that lookup_set() has a place there.
 * WEIR_EHOSTMEM; WEIR_ENOTSUP if the address has too many bits. */
enum weir_status lookup_prepare(CUdeviceptr addr);

/* Enter the block that starts at addr; NULL: none does. */
void lookup_set(CUdeviceptr addr, struct block *block);

/* The block that starts at addr, or NULL. */
struct block *lookup_exact(CUdeviceptr addr);

/* The sizes of a leaf. */
enum {
	LOOKUP_GRANULE_BITS = 9,
	LOOKUP_LEAF_BITS = 21,
	LOOKUP_ENTRIES = 1 << (LOOKUP_LEAF_BITS - LOOKUP_GRANULE_BITS),
	LOOKUP_LEAF_SIZE = 1 << LOOKUP_LEAF_BITS, /* bytes of addresses */
	LOOKUP_WORD = 64, /* starts with their bits in one word */
};
/* Masks an address to the offset in its leaf at which a block can start. */
#define LOOKUP_STARTS ((CUdeviceptr)LOOKUP_LEAF_SIZE - WEIR_GRANULE)
/* The places of fine starts begin here; addresses end below it. */
#define LOOKUP_FINE ((CUdeviceptr)1 << 57)

/* The place of a start in the tree. */
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

/* The leaf of the latest lookup; at first no leaf, for the lowest place. */
struct nearby {
	CUdeviceptr base;
	struct leaf *leaf;
};

/* Make the leaf of a place the latest and return it; NULL: there is none
 * yet. */
struct leaf *lookup_turn_to(struct nearby *nearby, CUdeviceptr place);

/*
 * lookup_set() at a place in its leaf.
 *
 * @param alone the words of bits of the segment hold no other segment's bits,
 * so no other thread writes one meanwhile
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
	else if ((bits & bit) ==
	    0) /* a load is cheaper than the read-modify-write */
		atomic_fetch_or_explicit(word, bit, memory_order_release);
}

/* Replace the block that starts at a place by another one. */
static inline void
lookup_replace_in_leaf(
    struct leaf *leaf, CUdeviceptr place, struct block *block)
{
	atomic_store_explicit(&leaf->blocks[(place & (LOOKUP_LEAF_SIZE - 1)) >>
				  LOOKUP_GRANULE_BITS],
	    block, memory_order_release);
}

/* Do the words of bits of a segment hold no other segment's bits? This is then
 * true of its fine starts too, whose words cover fewer addresses. */
static inline bool
lookup_is_alone(CUdeviceptr addr, size_t size)
{
	return (addr | size) % (LOOKUP_WORD << LOOKUP_GRANULE_BITS) == 0;
}

/* The block that starts at an offset (LOOKUP_STARTS) in a leaf: one load. */
static inline struct block *
lookup_at(const struct leaf *leaf, CUdeviceptr offset)
{
	return atomic_load_explicit(
	    &leaf->blocks[offset >> LOOKUP_GRANULE_BITS], memory_order_acquire);
}

/* As lookup_exact(), for an address that is a multiple of WEIR_GRANULE and
 * whose leaf is known. */
static inline struct block *
lookup_in_leaf(const struct leaf *leaf, CUdeviceptr addr)
{
	return lookup_at(leaf, addr & (LOOKUP_LEAF_SIZE - 1));
}

/* The block with the highest start at or below addr, within 16 TiB, or NULL.
 * The caller checks whether it reaches addr. */
struct block *lookup_floor(CUdeviceptr addr);

#endif
