/*
 * Open addressing. Each slot holds the hash beside the number, so most probes
 * are decided without reading the entry.
 */
#include "snapshot/intern.h"

#include <string.h>
#include <sys/random.h>

#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"

static const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);

uint64_t
intern_seed(void)
{
	uint64_t seed;

	/* If there is no entropy yet, early in a boot, the time will do. */
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) !=
	    (ssize_t)sizeof(seed))
		seed = os_monotonic_ns();
	return seed;
}

static uint64_t
mix_word(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * odd;
	return hash ^ hash >> 32;
}

uint32_t
intern_hash(uint64_t seed, const void *bytes, size_t size)
{
	const uint8_t *at = bytes;
	uint64_t hash = seed ^ size;
	uint64_t word;

	for (; size >= sizeof(word); size -= sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		hash = mix_word(hash, word);
		at += sizeof(word);
	}
	word = 0;
	if (size > 0)
		memcpy(&word, at, size);
	hash = mix_word(mix_word(hash, word), seed);
	return (uint32_t)(hash >> 16);
}

/* The first slot from `i` on that has this hash or is free. */
static size_t
probe_slots(const struct intern *index, uint32_t hash, size_t i)
{
	size_t mask = index->room - 1;

	for (i &= mask;; i = (i + 1) & mask)
		if (index->slots[i].entry == 0 || index->slots[i].hash == hash)
			return i;
}

static enum weir_status
widen_index(struct intern *index)
{
	struct intern wider = { .room =
				    index->room == 0 ? 64 : 2 * index->room };

	wider.slots = meta_zalloc(wider.room * sizeof(*wider.slots));
	if (wider.slots == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for reading a snapshot");
	for (size_t i = 0; i < index->room; i++) {
		struct intern_slot slot = index->slots[i];
		size_t to = slot.hash & (wider.room - 1);

		if (slot.entry == 0)
			continue;
		while (wider.slots[to].entry != 0)
			to = (to + 1) & (wider.room - 1);
		wider.slots[to] = slot;
	}
	wider.used = index->used;
	intern_drop(index);
	*index = wider;
	return WEIR_OK;
}

enum weir_status
intern_find(struct intern *index, uint32_t hash,
    bool (*same)(const void *user, uint32_t entry), const void *user,
    uint32_t *entry)
{
	size_t i;

	if (index->used >= index->room / 2) {
		enum weir_status status = widen_index(index);

		if (status != WEIR_OK)
			return status;
	}
	for (i = probe_slots(index, hash, hash); index->slots[i].entry != 0;
	     i = probe_slots(index, hash, i + 1)) {
		if (!same(user, index->slots[i].entry - 1))
			continue;
		*entry = index->slots[i].entry - 1;
		return WEIR_OK;
	}
	index->slots[i] = (struct intern_slot){ hash, *entry + 1 };
	index->used++;
	return WEIR_OK;
}

void
intern_drop(struct intern *index)
{
	meta_free(index->slots, index->room * sizeof(*index->slots));
	*index = (struct intern){ 0 };
}
