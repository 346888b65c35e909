/*
 * Arbitrary text for weir_options_set(). It is refused with the key in the
 * error, and nothing changes; or it is accepted. Each value reads back as a
 * text that is accepted and means the same. Only the end of a long path can be
 * read back, after "...".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/options.h"
#include "tests/fuzz/fuzz.h"

enum { OPTIONS = 64 };

static size_t
read_all(struct weir_option found[OPTIONS])
{
	size_t n = 0;

	while (n < OPTIONS && weir_option_at(n, &found[n]) == WEIR_OK)
		n++;
	return n;
}

static void
expect_same(const struct weir_option *a, const struct weir_option *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fuzz_expect(strcmp(a[i].value, b[i].value) == 0, a[i].key);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned inputs;
	static struct weir_option before[OPTIONS];
	static struct weir_option after[OPTIONS];
	static struct weir_option again[OPTIONS];
	char *conf = fuzz_text(data, size);
	size_t n;

	/* A process may set 4,096 different sets of values; an input sets one
	 * for each option at most, and one more. */
	if (++inputs % (4096 / (OPTIONS + 2)) == 0)
		options_forget();
	n = read_all(before);
	enum weir_status status = weir_options_set(conf);

	free(conf);
	read_all(after);
	if (status != WEIR_OK) {
		fuzz_expect(
		    weir_last_error()[0] != '\0', "there is no error text");
		expect_same(before, after, n);
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		char one[2048];

		if (after[i].source != WEIR_OPTION_CALL ||
		    strcmp(after[i].key, "snapshot_signal") == 0 ||
		    strncmp(after[i].value, "...", 3) == 0)
			continue;
		snprintf(
		    one, sizeof(one), "%s:%s", after[i].key, after[i].value);
		fuzz_expect(weir_options_set(one) == WEIR_OK, one);
	}
	read_all(again);
	expect_same(after, again, n);
	return 0;
}
