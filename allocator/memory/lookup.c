/*
 * The three levels, from the granule up: 12 bits of leaf, 13 of table, 24 of
 * root. They cover 57 bits of address and the places of fine starts above them.
 * The system maps pages of the root when they are first written.
 */
#include "allocator/memory/lookup.h"

#include <stdatomic.h>
#include <stdint.h>

#include "allocator/state.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/status.h"

enum {
	GRANULE_BITS = LOOKUP_GRANULE_BITS,
	LEAF_BITS = LOOKUP_LEAF_BITS - GRANULE_BITS, /* 2 MiB */
	TABLE_BITS = 13,                             /* 16 GiB */
	ROOT_BITS = 24,                              /* 2^58 */
	LEAF_SHIFT = GRANULE_BITS + LEAF_BITS,
	TABLE_SHIFT = LEAF_SHIFT + TABLE_BITS,
	LEAF_ENTRIES = 1 << LEAF_BITS,
	TABLE_ENTRIES = 1 << TABLE_BITS,
	ROOT_ENTRIES = 1 << ROOT_BITS,
	WORD = LOOKUP_WORD,
	TABLES_BACK = 1024, /* how far lookup_floor() goes back: 16 TiB */
	FINE_BACK = 2,      /* and for fine starts: 2 GiB at least */
	ADDRESS_BITS = 57,
	FINE_ADDRESS_BITS = 54,
};

struct table {
	/* A bit for each leaf that exists. */
	_Atomic(uint64_t) used[TABLE_ENTRIES / WORD];
	_Atomic(struct leaf *) leaves[TABLE_ENTRIES];
};

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_LOOKUP);
static _Atomic(_Atomic(struct table *) *) root;

static struct table *
table_at(uint64_t index)
{
	_Atomic(struct table *) *r =
	    atomic_load_explicit(&root, memory_order_acquire);

	if (r == NULL || index >= ROOT_ENTRIES)
		return NULL;
	return atomic_load_explicit(&r[index], memory_order_acquire);
}

static struct leaf *
leaf_of(struct table *table, CUdeviceptr addr)
{
	size_t i = (addr >> LEAF_SHIFT) % TABLE_ENTRIES;

	return atomic_load_explicit(&table->leaves[i], memory_order_acquire);
}

static size_t
entry_of(CUdeviceptr addr)
{
	return (addr >> GRANULE_BITS) % LEAF_ENTRIES;
}

/* Make the leaf of a place. */
static enum weir_status
make_leaf(CUdeviceptr addr) HOLDS(lock)
{
	_Atomic(struct table *) *r = atomic_load(&root);

	ASSERT(addr >> TABLE_SHIFT < ROOT_ENTRIES);
	if (r == NULL) {
		r = meta_map(ROOT_ENTRIES * sizeof(*r));
		if (r == NULL)
			return WEIR_EHOSTMEM;
		atomic_store_explicit(&root, r, memory_order_release);
	}
	struct table *table = atomic_load(&r[addr >> TABLE_SHIFT]);
	if (table == NULL) {
		table = meta_map(sizeof(*table));
		if (table == NULL)
			return WEIR_EHOSTMEM;
		atomic_store_explicit(
		    &r[addr >> TABLE_SHIFT], table, memory_order_release);
	}
	if (leaf_of(table, addr) != NULL)
		return WEIR_OK;
	struct leaf *leaf = meta_map(sizeof(*leaf));
	if (leaf == NULL)
		return WEIR_EHOSTMEM;
	size_t page = (addr >> LEAF_SHIFT) % TABLE_ENTRIES;
	atomic_store_explicit(&table->leaves[page], leaf, memory_order_release);
	atomic_fetch_or_explicit(&table->used[page / WORD],
	    (uint64_t)1 << page % WORD, memory_order_release);
	return WEIR_OK;
}

enum weir_status
lookup_prepare(CUdeviceptr addr)
{
	CUdeviceptr place = lookup_place(addr);

	ASSERT(addr % FINE_GRANULE == 0);
	if (addr >= LOOKUP_FINE || place >> TABLE_SHIFT >= ROOT_ENTRIES)
		return status_set(WEIR_ENOTSUP, "address %#llx: above %d bits",
		    (unsigned long long)addr,
		    place == addr ? ADDRESS_BITS : FINE_ADDRESS_BITS);
	struct table *table = table_at(place >> TABLE_SHIFT);
	if (table != NULL && leaf_of(table, place) != NULL)
		return WEIR_OK;
	lock_enter(&lock);
	enum weir_status status = make_leaf(place);
	lock_leave(&lock);
	if (status != WEIR_OK)
		return status_set(
		    status, "no host memory for the table of addresses");
	return WEIR_OK;
}

struct leaf *
lookup_turn_to(struct nearby *nearby, CUdeviceptr place)
{
	struct leaf *leaf = lookup_leaf(place);

	if (leaf != NULL)
		*nearby = (struct nearby){ lookup_base(place), leaf };
	return leaf;
}

/* The highest set bit at or below i, or -1. */
static long
bit_floor(_Atomic(uint64_t) *words, long i)
{
	if (i < 0)
		return -1;
	long w = i / WORD;
	uint64_t mask = ~(uint64_t)0 >> (WORD - 1 - i % WORD);
	for (;; mask = ~(uint64_t)0) {
		uint64_t word = mask &
		    atomic_load_explicit(&words[w], memory_order_acquire);
		if (word != 0)
			return w * WORD + 63 - __builtin_clzll(word);
		if (w-- == 0)
			return -1;
	}
}

void
lookup_set(CUdeviceptr addr, struct block *block)
{
	CUdeviceptr place = lookup_place(addr);
	struct leaf *leaf = lookup_leaf(place);

	ASSERT(addr % FINE_GRANULE == 0);
	if (leaf !=
	    NULL) /* otherwise it removes an address that was never prepared */
		lookup_set_in_leaf(leaf, place, block, false);
}

struct leaf *
lookup_leaf(CUdeviceptr place)
{
	struct table *table = table_at(place >> TABLE_SHIFT);

	return table != NULL ? leaf_of(table, place) : NULL;
}

struct block *
lookup_exact(CUdeviceptr addr)
{
	if (addr % FINE_GRANULE != 0 || addr >= LOOKUP_FINE)
		return NULL;
	CUdeviceptr place = lookup_place(addr);
	struct leaf *leaf = lookup_leaf(place);
	return leaf != NULL ? lookup_in_leaf(leaf, place) : NULL;
}

/* A block and the place of its start. */
struct found {
	struct block *block;
	CUdeviceptr place;
};

/* Find the block with the highest start in a leaf, at or below an entry. `base`
 * is the leaf's place. */
static bool
floor_in_leaf(
    struct leaf *leaf, CUdeviceptr base, long entry, struct found *out)
{
	for (; (entry = bit_floor(leaf->used, entry)) >= 0; entry--) {
		out->block = atomic_load_explicit(
		    &leaf->blocks[entry], memory_order_acquire);
		out->place = base + ((CUdeviceptr)entry << GRANULE_BITS);
		if (out->block != NULL)
			return true;
	}
	return false;
}

/* Find the block with the highest start in a table, at or below an entry of a
 * page. */
static bool
floor_in_table(struct table *table, CUdeviceptr base, long page, long entry,
    struct found *out)
{
	for (long p = page; (p = bit_floor(table->used, p)) >= 0; p--) {
		struct leaf *leaf = atomic_load_explicit(
		    &table->leaves[p], memory_order_acquire);
		if (floor_in_leaf(leaf, base + ((CUdeviceptr)p << LEAF_SHIFT),
			p == page ? entry : LEAF_ENTRIES - 1, out))
			return true;
	}
	return false;
}

/* Find the block with the highest start at or below a place, in so many tables:
 * that of the place and those before it. */
static bool
floor_in_tables(CUdeviceptr place, int tables, struct found *out)
{
	uint64_t index = place >> TABLE_SHIFT;
	long page = (long)((place >> LEAF_SHIFT) % TABLE_ENTRIES);
	long entry = (long)entry_of(place);

	for (int back = 0; back < tables; back++) {
		struct table *table = table_at(index);
		if (table != NULL &&
		    floor_in_table(
			table, index << TABLE_SHIFT, page, entry, out))
			return true;
		if (index-- == 0)
			break;
		page = TABLE_ENTRIES - 1;
		entry = LEAF_ENTRIES - 1;
	}
	return false;
}

struct block *
lookup_floor(CUdeviceptr addr)
{
	const unsigned apart = WEIR_GRANULE / FINE_GRANULE;
	struct found found;
	struct found fine;

	if (addr >= LOOKUP_FINE)
		return NULL;
	if (!floor_in_tables(addr, TABLES_BACK, &found))
		found = (struct found){ NULL, 0 };
	/* The search for fine starts may come down to ordinary addresses, which
	 * do not count. */
	if (floor_in_tables(LOOKUP_FINE + addr * apart, FINE_BACK, &fine) &&
	    fine.place >= LOOKUP_FINE + found.place * apart)
		return fine.block;
	return found.block;
}
