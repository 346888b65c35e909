/*
 * Words of an option's text: the values that each form accepts and refuses.
 */
#include "allocator/options/words.h"

#include <string.h>

#include "allocator/options.h"
#include "tests/support/test.h"

static struct word
word(const char *text)
{
	return (struct word){ .at = text, .length = strlen(text) };
}

TEST(a_word_ends_at_its_length)
{
	const struct word part = { .at = "expandable:1", .length = 10 };
	char text[11];

	EXPECT(word_is(part, "expandable"));
	EXPECT(!word_is(part, "expandable:1"));
	EXPECT(!word_is(part, "expand"));
	EXPECT(word_copy(part, text, sizeof(text)));
	EXPECT_STR_EQ(text, "expandable");
	EXPECT(!word_copy(part, text, sizeof(text) - 1));
	EXPECT(!word_copy(word(""), text, sizeof(text)));
}

TEST(truth_has_several_words)
{
	static const char *const yes[] = { "True", "true", "1", "on", "yes" };
	static const char *const no[] = { "False", "false", "0", "off", "no" };
	bool is = false;

	for (size_t i = 0; i < 5; i++) {
		EXPECT(word_bool(word(yes[i]), &is) && is);
		EXPECT(word_bool(word(no[i]), &is) && !is);
	}
	EXPECT(!word_bool(word("TRUE"), &is));
	EXPECT(!word_bool(word(""), &is));
	EXPECT(!is);
}

TEST(a_count_is_digits_alone)
{
	uint64_t n = 7;

	EXPECT(word_count(word("18446744073709551615"), &n));
	EXPECT_EQ(n, UINT64_MAX);
	EXPECT(word_count(word("007"), &n));
	EXPECT_EQ(n, 7);
	EXPECT(!word_count(word("18446744073709551616"), &n));
	EXPECT(!word_count(word("-1"), &n));
	EXPECT(!word_count(word("+1"), &n));
	EXPECT(!word_count(word("0x10"), &n));
	EXPECT(!word_count(word("1 "), &n));
	EXPECT(!word_count(word(""), &n));
}

TEST(a_number_is_finite)
{
	double number = 0;

	EXPECT(word_number(word("0.5"), &number));
	EXPECT(number == 0.5);
	EXPECT(!word_number(word("inf"), &number));
	EXPECT(!word_number(word("nan"), &number));
	EXPECT(!word_number(word("1e999"), &number));
	EXPECT(!word_number(word("0.5x"), &number));
	EXPECT(!word_number(word(""), &number));
}

TEST(a_size_reads_back_as_it_was_printed)
{
	static const char *const sizes[] = { "0", "1", "20",
		"18446744073709551615", "unlimited" };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t bytes = 1;
		size_t again = 2;
		char text[32];

		EXPECT(word_unlimited(word(sizes[i]), &bytes));
		word_print_mib(bytes, text, sizeof(text));
		EXPECT(word_unlimited(word(text), &again));
		EXPECT_EQ(bytes, again);
	}
}

TEST(a_size_has_a_least)
{
	size_t bytes = 0;

	EXPECT(word_mib(word("11"), 11 * MIB, &bytes));
	EXPECT_EQ(bytes, 11 * MIB);
	EXPECT(!word_mib(word("10"), 11 * MIB, &bytes));
	EXPECT_EQ(bytes, 11 * MIB);
	EXPECT(!word_mib(word("unlimited"), 0, &bytes));
	EXPECT(word_mib(word("18446744073709551615"), 0, &bytes));
	EXPECT_EQ(bytes % MIB, 0);
	EXPECT(bytes < OPTION_UNLIMITED);
}

static struct word
pytorch(const char *text)
{
	struct word made = word(text);

	made.pytorch = true;
	return made;
}

TEST(pytorch_reads_the_number_that_a_word_begins_with)
{
	static const struct {
		const char *text;
		uint64_t n;
	} counts[] = { { "100", 100 }, { "100MB", 100 }, { "+7", 7 },
		{ "0x10", 0 }, { "1e3", 1 }, { "2.5", 2 }, { "-1", UINT64_MAX },
		{ "-0", 0 }, { "18446744073709551615", UINT64_MAX } };
	static const char *const none[] = { "", "-", "+", "--1", "MB", "]",
		"18446744073709551616", "99999999999999999999" };
	uint64_t n = 0;

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		EXPECT(word_count(pytorch(counts[i].text), &n));
		EXPECT_EQ(n, counts[i].n);
	}
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		EXPECT(!word_count(pytorch(none[i]), &n));
}

TEST(pytorch_reads_fractions_alike)
{
	double value = 0;

	EXPECT(word_number(pytorch("0.5x"), &value));
	EXPECT(value == 0.5);
	EXPECT(word_number(pytorch(".25"), &value));
	EXPECT(value == 0.25);
	EXPECT(!word_number(pytorch("x0.5"), &value));
	EXPECT(!word_number(pytorch(""), &value));
	EXPECT(!word_number(pytorch("nan"), &value));
}

TEST(pytorch_has_two_words_for_truth)
{
	bool is = false;

	EXPECT(word_bool(pytorch("True"), &is) && is);
	EXPECT(word_bool(pytorch("False"), &is) && !is);
	EXPECT(!word_bool(pytorch("true"), &is));
	EXPECT(!word_bool(pytorch("1"), &is));
	EXPECT(!word_bool(pytorch("off"), &is));
}

TEST(blanks_are_squeezed_out_of_a_word)
{
	char text[8];
	struct word out;

	EXPECT(word_squeeze(word(" 1\t2\n 3 "), text, sizeof(text), &out));
	EXPECT(word_is(out, "123"));
	EXPECT(word_squeeze(word("12345678"), text, sizeof(text), &out));
	EXPECT(!word_squeeze(word("123456789"), text, sizeof(text), &out));
}
