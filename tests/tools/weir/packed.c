/*
 * A reader of packed data that is independent of the packer: zlib's own reader,
 * and a search in a table for base64.
 */
#include "tests/tools/weir/packed.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tests/support/test.h"

static unsigned char *
read_base64(const char *text, size_t length, size_t *size)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned char *bytes = malloc(length + 3);
	size_t n = 0;

	EXPECT_NOT_NULL(bytes);
	EXPECT_EQ(length % 4, 0);
	for (size_t i = 0; i < length; i += 4) {
		uint32_t group = 0;

		for (size_t j = 0; j < 4; j++) {
			const char *digit = strchr(digits, text[i + j]);
			bool filler = text[i + j] == '=' && i + 4 == length;

			if (text[i + j] == '\0' || (digit == NULL && !filler))
				FAIL("byte %zu is no digit", i + j);
			group = group << 6 |
			    (filler ? 0 : (uint32_t)(digit - digits));
		}
		for (size_t j = 0; j < 3; j++)
			if (text[i + j + 1] != '=')
				bytes[n++] =
				    (unsigned char)(group >> (16 - 8 * j));
	}
	*size = n;
	return bytes;
}

unsigned char *
packed_read(const char *text, size_t length, size_t *size)
{
	size_t packed_size;
	unsigned char *packed = read_base64(text, length, &packed_size);
	size_t room = 1 << 16;
	unsigned char *bytes = malloc(room);
	z_stream stream = { .next_in = packed, .avail_in = (uInt)packed_size };
	int code = inflateInit(&stream);

	EXPECT_NOT_NULL(bytes);
	EXPECT_EQ(code, Z_OK);
	do {
		if (stream.total_out == room) {
			unsigned char *more = realloc(bytes, room * 2);

			EXPECT_NOT_NULL(more);
			bytes = more;
			room *= 2;
		}
		stream.next_out = bytes + stream.total_out;
		stream.avail_out = (uInt)(room - stream.total_out);
		code = inflate(&stream, Z_NO_FLUSH);
	} while (code == Z_OK);
	EXPECT_EQ(code, Z_STREAM_END);
	EXPECT_EQ(stream.avail_in, 0);
	*size = stream.total_out;
	inflateEnd(&stream);
	free(packed);
	return bytes;
}
