/*
 * Packed bytes can be unpacked, for any size and any size of the pieces.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/tools/weir/packed.h"
#include "tools/weir/export/packer.h"

static struct packer packer;

/* Pack `size` bytes in pieces of `step`, and unpack them. */
static void
round_trip(const unsigned char *bytes, size_t size, size_t step)
{
	char *text;
	size_t length;
	size_t read;
	unsigned char *back;
	FILE *out = open_memstream(&text, &length);

	EXPECT_NOT_NULL(out);
	EXPECT(packer_open(&packer, out));
	for (size_t at = 0; at < size; at += step)
		packer_add(
		    &packer, bytes + at, size - at < step ? size - at : step);
	packer_close(&packer);
	EXPECT_EQ(fclose(out), 0);
	back = packed_read(text, length, &read);
	EXPECT_EQ(read, size);
	EXPECT_MEM_EQ(back, bytes, size);
	free(back);
	free(text);
}

TEST(bytes_of_any_number_come_back)
{
	enum { MOST = (1 << 20) + 77 };
	static const size_t sizes[] = { 0, 1, 2, 3, 4, 5, 1000, PACKER_OUT,
		PACKER_IN - 1, PACKER_IN, PACKER_IN + 1, MOST };
	unsigned char *bytes = malloc(MOST);
	uint32_t random = 1;

	EXPECT_NOT_NULL(bytes);
	/* Half of the bytes can be compressed, the other half cannot. */
	for (size_t i = 0; i < MOST; i++) {
		random = random * 1664525 + 1013904223;
		bytes[i] = i % 8192 < 4096 ? (unsigned char)(random >> 24) : 7;
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		round_trip(bytes, sizes[i], 1 << 20);
		round_trip(bytes, sizes[i], sizes[i] < 100000 ? 1 : 4099);
	}
	free(bytes);
}

TEST(alignment_adds_zeros_up_to_a_multiple_of_eight)
{
	static const unsigned char expected[24] = "abc\0\0\0\0\0"
						  "12345678";
	char *text;
	size_t length;
	size_t read;
	unsigned char *back;
	FILE *out = open_memstream(&text, &length);

	EXPECT(packer_open(&packer, out));
	packer_align(&packer);
	packer_add(&packer, "abc", 3);
	packer_align(&packer);
	packer_add(&packer, "12345678", 8);
	packer_align(&packer);
	packer_close(&packer);
	EXPECT_EQ(fclose(out), 0);
	back = packed_read(text, length, &read);
	EXPECT_EQ(read, 16);
	EXPECT_MEM_EQ(back, expected, 16);
	free(back);
	free(text);
}
