/*
 * The nearest known word.
 */
#include "tools/weir/guess.h"

#include "tests/support/test.h"

static const char *const words[] = { "stack", "size", "lifetime", NULL };

TEST(the_nearest_word_is_named)
{
	char text[GUESS_TEXT];

	EXPECT_STR_EQ(
	    guess_of("lifetme", words, text), "; did you mean 'lifetime'?");
	EXPECT_STR_EQ(guess_of("SIZE", words, text), "; did you mean 'size'?");
}

TEST(a_word_that_nothing_is_near_to_gets_none)
{
	char text[GUESS_TEXT];

	EXPECT_STR_EQ(guess_of("colour", words, text), "");
	EXPECT_STR_EQ(guess_of("", words, text), "");
}

static const struct argp_option flags[] = {
	{ "count", 'n', "N", 0, NULL, 0 },
	{ "sites", 's', "N", OPTION_ARG_OPTIONAL, NULL, 0 },
	{ "json", 'j', NULL, 0, NULL, 0 },
	{ 0 },
};
static const struct argp_option more_flags[] = {
	{ "device", 'd', "N", 0, NULL, 0 },
	{ 0 },
};
static const struct argp more = { .options = more_flags };
static const struct argp_child children[] = { { &more, 0, NULL, 0 }, { 0 } };
static const struct argp parser = { .options = flags, .children = children };

/* The first unknown flag of `program ARGUMENTS`, or "". */
static const char *
unknown(const char *a, const char *b, const char *c, bool in_order,
    char text[GUESS_TEXT])
{
	const char *argv[] = { "program", a, b, c, NULL };
	const char *flag =
	    guess_unknown_flag(&parser, (char **)argv, in_order, text);

	return flag == NULL ? "" : flag;
}

TEST(an_unknown_flag_is_found_with_the_nearest)
{
	char text[GUESS_TEXT];

	EXPECT_STR_EQ(
	    unknown("-j", "--cuont=3", NULL, false, text), "--cuont=3");
	EXPECT_STR_EQ(text, "; did you mean '--count'?");
	EXPECT_STR_EQ(unknown("--devise", NULL, NULL, false, text), "--devise");
	EXPECT_STR_EQ(text, "; did you mean '--device'?");
	EXPECT_STR_EQ(
	    unknown("--usag", "--colour", NULL, false, text), "--colour");
	EXPECT_STR_EQ(text, "");
}

TEST(values_are_no_flags)
{
	char text[GUESS_TEXT];

	EXPECT_STR_EQ(unknown("-n", "--x", NULL, false, text), "");
	EXPECT_STR_EQ(unknown("-jn", "--x", NULL, false, text), "");
	EXPECT_STR_EQ(unknown("--count", "--x", NULL, false, text), "");
	EXPECT_STR_EQ(unknown("--dev", "--x", NULL, false, text), "");
	/* These flags have their value in the same argument, or no value. */
	EXPECT_STR_EQ(unknown("-n3", "--x", NULL, false, text), "--x");
	EXPECT_STR_EQ(unknown("--count=3", "--x", NULL, false, text), "--x");
	EXPECT_STR_EQ(unknown("--sites", "--x", NULL, false, text), "--x");
	EXPECT_STR_EQ(unknown("-s", "--x", NULL, false, text), "--x");
	EXPECT_STR_EQ(unknown("-j", "--x", NULL, false, text), "--x");
}

TEST(flags_end_where_the_arguments_say)
{
	char text[GUESS_TEXT];

	EXPECT_STR_EQ(unknown("--", "--x", NULL, false, text), "");
	EXPECT_STR_EQ(unknown("-j", "echo", "--x", true, text), "");
	EXPECT_STR_EQ(unknown("-j", "file", "--x", false, text), "--x");
	EXPECT_STR_EQ(unknown("-", "--x", NULL, true, text), "");
}
