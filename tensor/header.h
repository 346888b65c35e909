/*
 * The header of a safetensors file, which is read from untrusted bytes and
 * checked completely.
 */
#ifndef TENSOR_HEADER_H
#define TENSOR_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/tensor.h>

#include "tensor/tuning.h"

/* One entry: the position of a tensor's elements in the file. */
struct header_entry {
	const char *name;
	const char *type; /* the format's name of the type */
	unsigned bits;    /* of an element */
	/* Weir has no type for it, or no tensor of such a shape. */
	bool opaque;
	enum weir_dtype dtype; /* WEIR_DTYPE_NONE: weir has none */
	size_t ndim;           /* also more than WEIR_DIMS_MAX if opaque */
	size_t shape_at;       /* index of its shape in header.lengths */
	uint64_t begin, end;   /* bytes from the end of the header */
};

struct header_pair {
	const char *key;
	const char *value;
};

struct header {
	struct header_entry *entries; /* sorted by name */
	size_t n_entries, max_entries;
	struct header_pair *metadata; /* sorted by key */
	size_t n_metadata, max_metadata;
	uint64_t *lengths; /* of all shapes */
	size_t n_lengths, max_lengths;
	char *texts; /* names, keys and values */
	size_t texts_used, texts_size;
};

/*
 * Read a header.
 *
 * Texts are UTF-8 and end with NUL; a zero character in one is the two bytes
 * C0 80, which UTF-8 does not have.
 *
 * @param text        `size` bytes of JSON
 * @param data_bytes  bytes of the file after the header
 * @return WEIR_EFILE, with a text that says what is wrong at which byte;
 *         WEIR_EHOSTMEM. The allocated memory is bounded by `size`
 */
enum weir_status header_read(
    const char *text, size_t size, uint64_t data_bytes, struct header *out);
void header_drop(struct header *header);

/* The value of a key; NULL if there is none. */
const char *header_metadata(const struct header *header, const char *key);

/* The entry with a name; NULL if there is none. */
const struct header_entry *header_find(
    const struct header *header, const char *name);

static inline const uint64_t *
header_lengths(const struct header *header, const struct header_entry *entry)
{
	/* There are no lengths if all shapes are empty. */
	return header->lengths == NULL ? NULL :
					 header->lengths + entry->shape_at;
}

/* The lengths as those of a tensor, which they are unless it is opaque. */
static inline const int64_t *
header_shape(const struct header *header, const struct header_entry *entry)
{
	return (const int64_t *)header_lengths(header, entry);
}

/* The format's name of a type; NULL if it has none. */
const char *header_dtype_name(enum weir_dtype dtype);

#endif
