/*
 * There are two buffers: one before zlib, because columns are added as single
 * numbers, and one after it, whose size is a multiple of base64's groups.
 */
#include "tools/weir/export/packer.h"

#include <string.h>

/* Write the deflated bytes in whole groups; at the end write the rest too. */
static void
write_base64(struct packer *packer, bool last)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijkl"
				     "mnopqrstuvwxyz0123456789+/";
	size_t size = PACKER_OUT - packer->deflate.avail_out;
	const unsigned char *at = packer->packed;
	const unsigned char *end = at + size;

	for (; end - at >= 3 || (last && at < end); at += 3) {
		size_t n = end - at >= 3 ? 3 : (size_t)(end - at);
		uint32_t group = (uint32_t)at[0] << 16;
		char text[4];

		if (n > 1)
			group |= (uint32_t)at[1] << 8;
		if (n > 2)
			group |= at[2];
		for (size_t i = 0; i < 4; i++)
			text[i] =
			    i > n ? '=' : digits[group >> (18 - 6 * i) & 63];
		fwrite(text, 1, sizeof(text), packer->out);
		if (n < 3)
			break;
	}
	size = at < end ? (size_t)(end - at) : 0;
	memmove(packer->packed, at, last ? 0 : size);
	packer->deflate.next_out = packer->packed + size;
	packer->deflate.avail_out = (uInt)(PACKER_OUT - size);
}

/* Deflate the bytes in `in`. */
static void
deflate_waiting(struct packer *packer, bool last)
{
	z_stream *stream = &packer->deflate;
	int more;

	stream->next_in = packer->in;
	stream->avail_in = (uInt)packer->waiting;
	packer->waiting = 0;
	do {
		more = deflate(stream, last ? Z_FINISH : Z_NO_FLUSH);
		if (stream->avail_out < PACKER_OUT / 2 && more == Z_OK)
			write_base64(packer, false);
	} while (stream->avail_in > 0 || (last && more == Z_OK));
	if (last)
		write_base64(packer, true);
}

bool
packer_open(struct packer *packer, FILE *out)
{
	packer->deflate = (z_stream){ 0 };
	packer->out = out;
	packer->added = 0;
	packer->waiting = 0;
	if (deflateInit(&packer->deflate, 6) != Z_OK)
		return false;
	packer->deflate.next_out = packer->packed;
	packer->deflate.avail_out = PACKER_OUT;
	return true;
}

void
packer_add(struct packer *packer, const void *bytes, size_t size)
{
	const unsigned char *from = bytes;

	packer->added += size;
	while (size > 0) {
		size_t part = PACKER_IN - packer->waiting;

		if (part > size)
			part = size;
		memcpy(packer->in + packer->waiting, from, part);
		packer->waiting += part;
		from += part;
		size -= part;
		if (packer->waiting == PACKER_IN)
			deflate_waiting(packer, false);
	}
}

void
packer_align(struct packer *packer)
{
	static const unsigned char zeros[8];

	packer_add(packer, zeros, (8 - packer->added % 8) % 8);
}

void
packer_close(struct packer *packer)
{
	deflate_waiting(packer, true);
	deflateEnd(&packer->deflate);
}
