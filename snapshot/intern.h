/*
 * An index that finds existing entries: it maps hashes to the numbers of
 * entries that its user keeps. Hashes are seeded, so that a file cannot be made
 * to collide.
 */
#ifndef SNAPSHOT_INTERN_H
#define SNAPSHOT_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

struct intern_slot {
	uint32_t hash;
	uint32_t entry; /* number of the entry + 1; 0: free */
};

struct intern {
	struct intern_slot *slots;
	size_t room; /* number of slots: a power of two, or 0 */
	size_t used;
};

/* Hash `size` bytes; `seed` is from intern_seed(). */
uint32_t intern_hash(uint64_t seed, const void *bytes, size_t size);
uint64_t intern_seed(void);

/*
 * Find the entry with this hash that `same(user, number)` accepts, and store
 * its number in *entry. If there is none, insert the number that is in *entry.
 *
 * @return WEIR_OK; WEIR_EHOSTMEM, with a message
 */
enum weir_status intern_find(struct intern *index, uint32_t hash,
    bool (*same)(const void *user, uint32_t entry), const void *user,
    uint32_t *entry);

void intern_drop(struct intern *index);

#endif
