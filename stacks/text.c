/*
 * An array of texts and a hash table over it. Both have their full size from
 * the start, in pages that are committed when they are first touched, so a text
 * that was returned never moves.
 */
#include "stacks/text.h"

#include <stdatomic.h>
#include <string.h>

#include "base/lock.h"
#include "base/meta.h"
#include "base/status.h"
#include "stacks/tuning.h"

struct table {
	const char *texts[TEXTS_MAX];
	uint64_t hashes[TEXTS_MAX];
	uint32_t buckets[TEXT_BUCKETS]; /* numbers of texts; 0: none */
	char bytes[TEXT_BYTES_MAX];
};

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_TEXTS);
/* NULL before the first text. A text is stored before its number is published.
 */
static _Atomic(struct table *) table;
static atomic_uint count = TEXT_FIRST;
static size_t used GUARDED_BY(lock); /* bytes in use */

static uint64_t
hash_of_text(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (const char *c = text; *c != '\0'; c++)
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
	return hash ^ hash >> 32;
}

/* The bucket with the text, or the empty bucket where it belongs. */
static uint32_t *
find_text(struct table *t, const char *text, uint64_t hash)
{
	for (uint64_t i = hash;; i++) {
		uint32_t *bucket = &t->buckets[i % TEXT_BUCKETS];
		if (*bucket == 0 ||
		    (t->hashes[*bucket] == hash &&
			strcmp(t->texts[*bucket], text) == 0))
			return bucket;
	}
}

static enum weir_status
intern(const char *text, uint32_t *out) HOLDS(lock)
{
	struct table *t = atomic_load(&table);
	uint64_t hash = hash_of_text(text);
	size_t size = strlen(text) + 1;

	if (t == NULL) {
		t = meta_map(sizeof(*t));
		if (t == NULL)
			return status_set(
			    WEIR_EHOSTMEM, "no host memory for texts");
		atomic_store(&table, t);
	}
	uint32_t *bucket = find_text(t, text, hash);
	uint32_t id = atomic_load(&count);
	if (*bucket != 0) {
		*out = *bucket;
		return WEIR_OK;
	}
	if (id == TEXTS_MAX || size > TEXT_BYTES_MAX - used) {
		*out = TEXT_OTHER;
		return WEIR_OK;
	}
	char *copy = t->bytes + used;
	memcpy(copy, text, size);
	t->texts[id] = copy;
	t->hashes[id] = hash;
	*bucket = id;
	used += size;
	atomic_store(&count, id + 1);
	*out = id;
	return WEIR_OK;
}

enum weir_status
text_intern(const char *text, uint32_t *out)
{
	if (text == NULL || *text == '\0') {
		*out = TEXT_NONE;
		return WEIR_OK;
	}
	lock_enter(&lock);
	enum weir_status status = intern(text, out);
	lock_leave(&lock);
	return status;
}

const char *
text_get(uint32_t id)
{
	if (id == TEXT_NONE)
		return "";
	if (id < TEXT_FIRST || id >= atomic_load(&count))
		return "(too many texts)";
	return atomic_load(&table)->texts[id];
}

uint32_t
text_count(void)
{
	return atomic_load(&count);
}
