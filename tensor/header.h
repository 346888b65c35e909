/*
 * The header of a safetensors file, which is read from untrusted bytes and
 * checked completely.
 */
#ifndef TENSOR_HEADER_H
#define TENSOR_HEADER_H

#include <stddef.h>
#include <stdint.h>

#include <weir/tensor.h>

/* The longest header of a file, in bytes. */
enum { HEADER_MAX = 100 << 20 };

/* One entry: the position of a tensor's elements in the file. */
struct header_entry {
	const char *name;
	enum weir_dtype dtype;
	int ndim;
	size_t shape_at;     /* index of its shape in header.lengths */
	uint64_t begin, end; /* bytes from the end of the header */
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
	int64_t *lengths; /* of all shapes */
	size_t n_lengths, max_lengths;
	char *texts; /* names, keys and values */
	size_t texts_used, texts_size;
};

/*
 * Read a header.
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

static inline const int64_t *
header_shape(const struct header *header, const struct header_entry *entry)
{
	/* There are no lengths if all shapes are empty. */
	return header->lengths == NULL ? NULL :
					 header->lengths + entry->shape_at;
}

/* The format's name of a type; NULL if it has none. */
const char *header_dtype_name(enum weir_dtype dtype);

#endif
