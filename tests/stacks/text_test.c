/* Texts and their numbers. */
#include "stacks/text.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/meta.h"
#include "tests/support/device.h"

static uint32_t
number(const char *text)
{
	uint32_t id = 99999;

	EXPECT_OK(text_intern(text, &id));
	return id;
}

TEST(a_text_has_one_number_and_a_number_one_text)
{
	uint32_t one = number("one");
	uint32_t two = number("two");

	EXPECT_NE(one, two);
	EXPECT_EQ(number("one"), one);
	EXPECT_STR_EQ(text_get(one), "one");
	EXPECT_STR_EQ(text_get(two), "two");
	EXPECT_EQ(text_count(), two + 1);
}

TEST(no_text_is_the_empty_one)
{
	EXPECT_EQ(number(NULL), TEXT_NONE);
	EXPECT_EQ(number(""), TEXT_NONE);
	EXPECT_STR_EQ(text_get(TEXT_NONE), "");
}

TEST(the_text_is_copied)
{
	char text[] = "mine";
	uint32_t id = number(text);

	memset(text, 'x', sizeof(text) - 1);
	EXPECT_STR_EQ(text_get(id), "mine");
}

TEST(beyond_the_bound_texts_are_others)
{
	char text[32];

	for (uint32_t i = TEXT_FIRST; i < TEXTS_MAX; i++) {
		snprintf(text, sizeof(text), "text %u", i);
		EXPECT_EQ(number(text), i);
	}
	EXPECT_EQ(number("one more"), TEXT_OTHER);
	EXPECT_STR_EQ(text_get(TEXT_OTHER), "(too many texts)");
	EXPECT_EQ(number("text 77"), 77);
	EXPECT_STR_EQ(text_get(77), "text 77");
}

TEST(texts_have_a_bound_together)
{
	size_t size = 1 << 20;
	char *text = malloc(size);

	memset(text, 'a', size);
	text[size - 1] = '\0';
	for (int i = 0; i < TEXT_BYTES_MAX >> 20; i++) {
		text[0] = (char)('a' + i);
		EXPECT_NE(number(text), TEXT_OTHER);
	}
	EXPECT_EQ(number("no room"), TEXT_OTHER);
	free(text);
}

TEST(the_first_text_needs_memory)
{
	uint32_t id = 5;

	meta_fail(1, 1);
	EXPECT_STATUS(text_intern("text", &id), WEIR_EHOSTMEM);
	EXPECT_EQ(id, 5);
	EXPECT_EQ(number("text"), TEXT_FIRST);
	meta_fail(1, 1);
	EXPECT_EQ(number("another"), TEXT_FIRST + 1);
	meta_fail(0, 0);
}

static void *
intern_many(void *user)
{
	uint32_t *ids = user;
	char text[32];

	for (int i = 0; i < 500; i++) {
		snprintf(text, sizeof(text), "%d", i);
		EXPECT_OK(text_intern(text, &ids[i]));
		EXPECT_STR_EQ(text_get(ids[i]), text);
	}
	return NULL;
}

TEST(threads_agree_about_numbers)
{
	static uint32_t ids[4][500];
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		EXPECT_EQ(
		    pthread_create(&threads[i], NULL, intern_many, ids[i]), 0);
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(pthread_join(threads[i], NULL), 0);
	for (int i = 1; i < 4; i++)
		EXPECT_MEM_EQ(ids[i], ids[0], sizeof(ids[0]));
}
