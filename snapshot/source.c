/*
 * A buffer that slides over its input and grows only when bytes have arrived.
 */
#include "snapshot/source.h"

#include <string.h>

#include "base/meta.h"
#include "base/status.h"
#include "snapshot/tuning.h"

void
source_of_memory(struct source *source, const void *bytes, size_t size)
{
	*source = (struct source){
		.at = bytes,
		.end = (const uint8_t *)bytes + size,
		.end_offset = size,
	};
}

enum weir_status
source_open(struct source *source, source_read read, void *user)
{
	uint8_t *buffer = meta_alloc(SOURCE_FIRST_ROOM);

	if (buffer == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for reading a snapshot");
	*source = (struct source){
		.at = buffer,
		.end = buffer,
		.read = read,
		.user = user,
		.buffer = buffer,
		.room = SOURCE_FIRST_ROOM,
	};
	return WEIR_OK;
}

void
source_close(struct source *source)
{
	meta_free(source->buffer, source->room);
	*source = (struct source){ 0 };
}

/* Move the unread bytes to the front of the buffer, or to one twice as large if
 * they fill it. */
static enum weir_status
make_room(struct source *source)
{
	size_t left = source_left(source);
	uint8_t *buffer = source->buffer;
	size_t room = source->room;

	if (left == room) {
		room *= 2;
		buffer = meta_alloc(room);
		if (buffer == NULL)
			return status_set(WEIR_EHOSTMEM,
			    "no host memory for %zu bytes of a snapshot", room);
	}
	memmove(buffer, source->at, left);
	if (buffer != source->buffer) {
		meta_free(source->buffer, source->room);
		source->buffer = buffer;
		source->room = room;
	}
	source->at = buffer;
	source->end = buffer + left;
	return WEIR_OK;
}

enum weir_status
source_fill(struct source *source, size_t size)
{
	while (source_left(source) < size && source->read != NULL) {
		enum weir_status status = WEIR_OK;
		size_t room;
		ptrdiff_t got;

		if (source->end == source->buffer + source->room)
			status = make_room(source);
		if (status != WEIR_OK)
			return status;
		room = (size_t)(source->buffer + source->room - source->end);
		got = source->read(source->user, (uint8_t *)source->end, room);
		if (got < 0)
			return weir_last_status();
		if (got == 0)
			source->read = NULL;
		source->end += got;
		source->end_offset += (uint64_t)got;
		if (source->budget != NULL) {
			if (source->budget->decoded < source->end_offset)
				source->budget->decoded = source->end_offset;
			budget_enforce(source->budget);
		}
	}
	return WEIR_OK;
}
