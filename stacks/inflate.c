/*
 * zlib counts bytes in 32 bits, so larger buffers are passed to it in pieces.
 * Its memory comes from the reader's memory.
 */
#include "stacks/inflate.h"

#include <stdint.h>
#include <zlib.h>

#include "stacks/reader_memory.h"

/* Precedes each block and keeps its alignment. */
struct block {
	_Alignas(16) size_t size;
};

static void *
alloc_block(void *user, unsigned items, unsigned size)
{
	size_t bytes = sizeof(struct block) + (size_t)items * size;
	struct block *block = reader_alloc(bytes);

	(void)user;
	if (block == NULL)
		return NULL;
	block->size = bytes;
	return block + 1;
}

static void
free_block(void *user, void *memory)
{
	struct block *block = (struct block *)memory - 1;

	(void)user;
	reader_free(block, block->size);
}

/* Pass up to UINT32_MAX of the remaining bytes to zlib. */
static unsigned
next_piece(size_t *left)
{
	unsigned piece = *left < UINT32_MAX ? (unsigned)*left : UINT32_MAX;

	*left -= piece;
	return piece;
}

bool
inflate_exactly(const unsigned char *packed, size_t packed_size,
    unsigned char *bytes, size_t size)
{
	z_stream stream = { .zalloc = alloc_block,
		.zfree = free_block,
		.next_in = (unsigned char *)(uintptr_t)packed,
		.next_out = bytes };
	int status;

	if (inflateInit(&stream) != Z_OK)
		return false;
	do {
		if (stream.avail_in == 0)
			stream.avail_in = next_piece(&packed_size);
		if (stream.avail_out == 0)
			stream.avail_out = next_piece(&size);
		status = inflate(&stream, Z_NO_FLUSH);
	} while (status == Z_OK);
	inflateEnd(&stream);
	return status == Z_STREAM_END && stream.avail_out == 0 && size == 0;
}
