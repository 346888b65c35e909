/*
 * Safetensors files of arbitrary bytes: a file is refused, or its tensors lie
 * within it, and the file that saves them can be loaded again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/save.h>

#include "tensor/header.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Accepted entries tile the data, and their names are in order. */
static void
look_at_header(const uint8_t *bytes, size_t size)
{
	struct header header;
	uint64_t data, sum = 0;

	if (size < sizeof(data))
		return;
	memcpy(&data, bytes, sizeof(data));
	if (header_read((const char *)bytes + 8, size - 8, data, &header) !=
	    WEIR_OK)
		return;
	for (size_t i = 0; i < header.n_entries; i++) {
		const struct header_entry *entry = &header.entries[i];

		sum += entry->end - entry->begin;
		if ((!entry->opaque && entry->ndim > WEIR_DIMS_MAX) ||
		    entry->type == NULL || entry->end > data ||
		    (i > 0 && strcmp(entry[-1].name, entry->name) >= 0))
			abort();
	}
	if (sum != data || header.texts_used > size)
		abort();
	header_drop(&header);
}

static void
save_again(const struct weir_loaded *loaded)
{
	size_t n = weir_loaded_count(loaded);
	struct weir_named *named = calloc(n + 1, sizeof(*named));

	for (size_t i = 0; named != NULL && i < n; i++)
		named[i] = (struct weir_named){ weir_loaded_name(loaded, i),
			weir_loaded_tensor(loaded, i) };
	/* A name may be invalid UTF-8, which is refused. */
	if (named != NULL)
		weir_save("/dev/null/x", named, n, NULL);
	free(named);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct weir_place place = { .struct_size = sizeof(place),
		.memory = WEIR_MEMORY_HOST };
	struct weir_load_options options = { .struct_size = sizeof(options),
		.place = &place };
	struct weir_loaded *loaded;
	char path[64];
	int file = memfd_create("fuzz", 0);

	look_at_header(bytes, size);
	if (file < 0)
		return 0;
	if (write(file, bytes, size) == (ssize_t)size) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
		if (weir_load(path, &options, &loaded) == WEIR_OK) {
			save_again(loaded);
			weir_loaded_drop(loaded);
		}
	}
	close(file);
	return 0;
}
