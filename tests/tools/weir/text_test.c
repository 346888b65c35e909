/*
 * Sizes as text, in both directions.
 */
#include "tests/support/test.h"
#include "tools/weir/tool.h"

static void
expect_bytes(const char *text, uint64_t bytes)
{
	uint64_t value = 1;

	if (!bytes_parse(text, &value))
		FAIL("'%s' is not taken", text);
	EXPECT_EQ(value, bytes);
}

static void
expect_refused(const char *text)
{
	uint64_t value = 77;

	if (bytes_parse(text, &value))
		FAIL("'%s' is taken", text);
	EXPECT_EQ(value, 77);
}

TEST(counts_are_whole_and_in_digits)
{
	static const char *const wrong[] = { "", "-1", "+1", " 1", "1 ", "1.5",
		"1e3", "0x10", "one", "11", "18446744073709551616" };
	uint64_t value = 7;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (count_parse(wrong[i], 10, &value) || value != 7)
			FAIL(
			    "'%s' was read as %ju", wrong[i], (uintmax_t)value);
	EXPECT(count_parse("10", 10, &value) && value == 10);
	EXPECT(count_parse("0", 10, &value) && value == 0);
	EXPECT(count_parse("18446744073709551615", UINT64_MAX, &value));
	EXPECT_EQ(value, UINT64_MAX);
}

TEST(numbers_are_read_within_their_bounds)
{
	static const char *const wrong[] = { "", "x", "1x", "1 ", "nan", "inf",
		"-inf", "0.49", "2.01", "-1", "1e999" };
	double value;

	EXPECT(number_parse("0.5", 0.5, 2, &value) && value == 0.5);
	EXPECT(number_parse("2", 0.5, 2, &value) && value == 2);
	EXPECT(number_parse("1.25e0", 0.5, 2, &value) && value == 1.25);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (number_parse(wrong[i], 0.5, 2, &value) || value != 1.25)
			FAIL("'%s' is taken", wrong[i]);
}

TEST(sizes_are_read_with_and_without_units)
{
	expect_bytes("0", 0);
	expect_bytes("512", 512);
	expect_bytes("512B", 512);
	expect_bytes("4K", 4096);
	expect_bytes("4k", 4096);
	expect_bytes("4KB", 4096);
	expect_bytes("20M", 20971520);
	expect_bytes("20MiB", 20971520);
	expect_bytes("8G", UINT64_C(8) << 30);
	expect_bytes("1T", UINT64_C(1) << 40);
	expect_bytes("18446744073709551615", UINT64_MAX);
	expect_bytes("16777215T", UINT64_C(16777215) << 40);
}

TEST(an_invalid_size_is_refused)
{
	expect_refused("");
	expect_refused("G");
	expect_refused("-1");
	expect_refused("+1");
	expect_refused(" 1");
	expect_refused("1 ");
	expect_refused("1.5G");
	expect_refused("1X");
	expect_refused("1Gi B");
	expect_refused("1GG");
	expect_refused("1iB");
	expect_refused("0x10");
}

TEST(sizes_above_64_bits_are_refused)
{
	expect_refused("18446744073709551616");
	expect_refused("99999999999999999999999");
	expect_refused("16777216T");
	expect_refused("18446744073709551615K");
}

TEST(sizes_are_printed_in_the_largest_unit_below_them)
{
	char text[32];

	EXPECT_STR_EQ(bytes_format(0, text, sizeof(text)), "0 bytes");
	EXPECT_STR_EQ(bytes_format(1023, text, sizeof(text)), "1023 bytes");
	EXPECT_STR_EQ(bytes_format(1024, text, sizeof(text)), "1.00 KiB");
	EXPECT_STR_EQ(bytes_format(1536, text, sizeof(text)), "1.50 KiB");
	EXPECT_STR_EQ(bytes_format(20971520, text, sizeof(text)), "20.00 MiB");
	EXPECT_STR_EQ(
	    bytes_format(UINT64_C(1) << 60, text, sizeof(text)), "1.00 EiB");
	EXPECT_STR_EQ(
	    bytes_format(UINT64_MAX, text, sizeof(text)), "16.00 EiB");
}

TEST(a_size_that_does_not_fit_its_text_is_cut)
{
	char text[5] = "....";

	EXPECT_STR_EQ(bytes_format(20971520, text, sizeof(text)), "20.0");
}
