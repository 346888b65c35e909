/*
 * From an address to its block.
 *
 * A tree of three fixed levels by address bits: a root, a table for each 16
 * GiB, a leaf for each 2 MiB, whose entries are 512 bytes apart and name the
 * block that starts there. A bit for each entry lets an address inside a block
 * find the start below it without walking memory.
 *
 * Reading takes no lock: tables are never freed, and a block that is named is
 * of memory that stays a struct block for ever (block_new()), so a reader that
 * is late sees a wrong block, not freed memory; it checks under the arena's
 * lock. Writing an address is for the owner of its segment, under the arena's
 * lock.
 */
#ifndef ALLOCATOR_LOOKUP_H
#define ALLOCATOR_LOOKUP_H

#include <weir/weir.h>

#include "driver/abi.h"

struct block;

/* Make room for a block start at addr. WEIR_EHOSTMEM. After it lookup_set()
 * cannot fail there. */
enum weir_status lookup_prepare(CUdeviceptr addr);

/* Name the block that starts at addr; NULL for none. */
void lookup_set(CUdeviceptr addr, struct block *block);

/* The block that starts at addr, or NULL. */
struct block *lookup_exact(CUdeviceptr addr);

/* The leaf of an address, for ever, or NULL; 2 MiB of addresses share one. */
enum { LOOKUP_LEAF_BITS = 21 };
struct leaf;
struct leaf *lookup_leaf(CUdeviceptr addr);

/* The same as lookup_exact() with the address's leaf at hand: one load. */
struct block *lookup_in_leaf(const struct leaf *leaf, CUdeviceptr addr);

/* The block with the highest start that is not above addr within the last 16
 * TiB, or NULL; whether it reaches addr is for the caller to see. */
struct block *lookup_floor(CUdeviceptr addr);

#endif
