#include "plugins/torch/table.h"

#include <stdlib.h>

#include "tests/support/test.h"

enum { ADDRESSES = 5000 };

static unsigned dropped;

static void
drop(void *pointer)
{
	(void)pointer;
	dropped++;
}

TEST(a_table_has_the_entries_that_were_put_and_not_taken)
{
	static void *model[ADDRESSES];
	struct table table = { 0 };
	unsigned seed = 7;
	size_t count = 0;

	EXPECT_NULL(table_get(&table, 512));
	EXPECT_NULL(table_take(&table, 512));
	for (int step = 0; step < 200000; step++) {
		seed = seed * 1103515245 + 12345;
		unsigned i = (seed >> 8) % ADDRESSES;
		uint64_t address = 0x7f0000000000u + (uint64_t)i * 512;
		EXPECT_EQ(table_get(&table, address), model[i]);
		if (model[i] != NULL) {
			EXPECT_EQ(table_take(&table, address), model[i]);
			model[i] = NULL;
			count--;
		} else {
			model[i] = (void *)(uintptr_t)(step + 1);
			EXPECT(table_put(&table, address, model[i]));
			count++;
		}
		EXPECT_EQ(table.count, count);
	}
	table_clear(&table, drop);
	EXPECT_EQ(dropped, count);
	EXPECT_NULL(table_get(&table, 0x7f0000000000u));
}
