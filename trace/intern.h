/*
 * Finding existing entries: an index from hashes to numbers of entries
 * that somebody else keeps. Hashes are seeded, so that a file cannot know
 * which of its entries fall on each other.
 */
#ifndef TRACE_INTERN_H
#define TRACE_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

struct intern_slot {
	uint32_t hash;
	uint32_t entry; /* number of the entry + 1; 0: the slot is free */
};

struct intern {
	struct intern_slot *slots;
	size_t room; /* a power of two, or 0 */
	size_t used;
};

/* The hash of `size` bytes; `seed` is intern_seed(). */
uint32_t intern_hash(uint64_t seed, const void *bytes, size_t size);
uint64_t intern_seed(void);

/*
 * The number of the entry of this hash that `same(user, number)` accepts, into
 * *entry. If there is none, the number that is in *entry is put in.
 *
 * @return WEIR_OK; WEIR_EHOSTMEM, told
 */
enum weir_status intern_find(struct intern *index, uint32_t hash,
    bool (*same)(const void *user, uint32_t entry), const void *user,
    uint32_t *entry);

void intern_drop(struct intern *index);

#endif
