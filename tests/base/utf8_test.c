/*
 * Texts from outside, made harmless.
 */
#include <string.h>

#include "base/utf8.h"
#include "tests/support/test.h"

static void
expect_plain(const char *text, const char *expected)
{
	char plain[64];
	size_t n = utf8_copy_plain(plain, sizeof(plain), text);

	EXPECT_STR_EQ(plain, expected);
	EXPECT_EQ(n, strlen(expected));
}

TEST(a_harmless_text_stays_as_it_is)
{
	expect_plain("", "");
	expect_plain("train.py:12 f()", "train.py:12 f()");
	expect_plain("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
	    "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
}

TEST(control_characters_of_terminals_are_replaced)
{
	expect_plain("\033[2J", "?[2J");
	expect_plain("a\nb\tc\x7f", "a?b?c?");
	/* U+009B is the introducer of a command in one character. */
	expect_plain("\xc2\x9b"
		     "31m",
	    "?31m");
}

TEST(characters_that_reorder_a_line_are_replaced)
{
	expect_plain("a\xe2\x80\xae"
		     "b",
	    "a?b");
	expect_plain("\xe2\x81\xa6x\xe2\x81\xa9", "?x?");
	expect_plain("\xe2\x80\x8e\xd8\x9c\xe2\x80\xa8", "???");
	expect_plain("\xf3\xa0\x81\x81", "?");
}

TEST(invalid_utf8_is_replaced_byte_by_byte)
{
	expect_plain("a\xff\xfe"
		     "b",
	    "a??b");
	expect_plain("\xc0\x80x", "??x");           /* a long form of 0 */
	expect_plain("\xed\xa0\x80x", "???x");      /* half of a pair */
	expect_plain("\xf4\x90\x80\x80x", "????x"); /* above U+10FFFF */
	expect_plain("\xe2\x82x", "??x");
}

TEST(no_character_is_cut)
{
	char to[4];

	/* There is space for the first and for one byte of the second. */
	EXPECT_EQ(utf8_copy_plain(to, sizeof(to), "\xc3\xa9\xc3\xa9"), 2);
	EXPECT_STR_EQ(to, "\xc3\xa9");
	/* The text was cut before. */
	expect_plain("ab\xc3", "ab");
	expect_plain("ab\xe2\x82", "ab");
	EXPECT_EQ(utf8_copy_plain(to, 1, "abc"), 0);
	EXPECT_STR_EQ(to, "");
}

static void
expect_escape(uint32_t code, const char *expected)
{
	char text[UTF8_ESCAPE + 1] = "";
	size_t n = utf8_escape_json(text, code);

	EXPECT_STR_EQ(text, expected);
	EXPECT_EQ(n, strlen(expected));
}

TEST(json_escapes_all_that_is_not_seen)
{
	expect_escape('a', "");
	expect_escape(0x20ac, "");
	expect_escape('"', "\\\"");
	expect_escape('\\', "\\\\");
	expect_escape('\n', "\\u000a");
	expect_escape(0x7f, "\\u007f");
	expect_escape(0x9b, "\\u009b");
	expect_escape(0x202e, "\\u202e");
	expect_escape(0xe0041, "\\udb40\\udc41");
}
