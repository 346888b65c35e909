/*
 * Each entry is found again, and has one number.
 */
#include "base/meta.h"
#include "snapshot/intern.h"
#include "tests/support/test.h"

struct words {
	const uint64_t *kept;
	uint64_t wanted;
};

static bool
same_word(const void *user, uint32_t entry)
{
	const struct words *words = user;

	return words->kept[entry] == words->wanted;
}

TEST(added_entries_are_found_and_no_others)
{
	enum { COUNT = 20000 };
	static uint64_t kept[COUNT];
	struct intern index = { 0 };
	uint64_t seed = intern_seed();
	uint32_t count = 0;

	for (uint64_t i = 0; i < 2 * (uint64_t)COUNT; i++) {
		struct words words = { kept, i % COUNT * 8 };
		uint32_t entry = count;
		uint32_t hash =
		    intern_hash(seed, &words.wanted, sizeof(words.wanted));

		if (count < COUNT)
			kept[count] = words.wanted;
		EXPECT_EQ(intern_find(&index, hash, same_word, &words, &entry),
		    WEIR_OK);
		EXPECT_EQ(entry, i % COUNT);
		if (entry == count)
			count++;
	}
	EXPECT_EQ(count, COUNT);
	EXPECT_EQ(index.used, COUNT);
	intern_drop(&index);
}

TEST(entries_of_one_hash_are_distinguished)
{
	static uint64_t kept[1000];
	struct intern index = { 0 };

	for (uint32_t i = 0; i < 1000; i++) {
		struct words words = { kept, i };
		uint32_t entry = i;

		kept[i] = i;
		EXPECT_EQ(
		    intern_find(&index, 7, same_word, &words, &entry), WEIR_OK);
		EXPECT_EQ(entry, i);
	}
	intern_drop(&index);
}

TEST(hashes_depend_on_every_byte_and_on_the_seed)
{
	unsigned char bytes[40] = { 0 };
	uint32_t all = intern_hash(1, bytes, sizeof(bytes));

	for (size_t i = 0; i < sizeof(bytes); i++) {
		bytes[i] = 1;
		EXPECT_NE(intern_hash(1, bytes, sizeof(bytes)), all);
		bytes[i] = 0;
	}
	EXPECT_NE(intern_hash(1, bytes, 39), all);
	EXPECT_NE(intern_hash(2, bytes, sizeof(bytes)), all);
	EXPECT_EQ(intern_hash(1, bytes, sizeof(bytes)), all);
}

TEST(without_host_memory_the_index_stays_as_it_was)
{
	static uint64_t kept[40];
	struct intern index = { 0 };
	struct words words = { kept, 0 };
	uint32_t entry;

	for (entry = 0; entry < 32;) {
		uint32_t now = entry;

		words.wanted = entry;
		kept[entry] = entry;
		EXPECT_EQ(intern_find(&index, entry, same_word, &words, &now),
		    WEIR_OK);
		entry++;
	}
	kept[32] = 32;
	words.wanted = 32;
	meta_fail(1, 1);
	EXPECT_EQ(
	    intern_find(&index, 32, same_word, &words, &entry), WEIR_EHOSTMEM);
	meta_fail(0, 0);
	EXPECT_EQ(index.used, 32);
	words.wanted = 5;
	entry = 99;
	EXPECT_EQ(intern_find(&index, 5, same_word, &words, &entry), WEIR_OK);
	EXPECT_EQ(entry, 5);
	intern_drop(&index);
}
