#include "tests/stacks/named.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

static void
take_named_word(void *user, size_t i, const struct name_frame *frame,
    const struct name_place *places, size_t n)
{
	struct named *named = user;

	EXPECT_EQ(i, 0);
	EXPECT_EQ(named->n, 0);
	EXPECT_GT(n, 0);
	EXPECT_LE(n, NAME_PLACES_MAX);
	memcpy(named->places, places, n * sizeof(*places));
	named->n = n;
	snprintf(named->module, sizeof(named->module), "%s", frame->module);
	named->offset = frame->offset;
	named->asked = frame->asked;
}

struct named
name_word(const void *word)
{
	struct names names = { 0 };
	struct named named = { .n = 0 };
	char *command = test_build("bin/weir");

	setenv("WEIR_COMMAND", command, 0);
	names_find(&names, &word, 1, take_named_word, &named);
	EXPECT_GT(named.n, 0);
	free(command);
	return named;
}
