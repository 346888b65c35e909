/*
 * Arbitrary text is made harmless: it is plain and not longer than its buffer.
 * Its escaped form is JSON and, if the text was UTF-8, the same text.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tests/fuzz/fuzz.h"
#include "tools/weir/reading/snapshot_out.h"
#include "tools/weir/tool.h"

static bool
is_utf8(const char *text)
{
	size_t left = strlen(text);
	uint32_t code;

	for (size_t n; left > 0; text += n, left -= n) {
		n = utf8_next(text, left, &code);
		if (n == 0)
			return false;
	}
	return true;
}

static void
expect_escaped(const char *text)
{
	char *json = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&json, &length);
	json_t *value;

	fuzz_expect(out != NULL, "no memory");
	json_text(text, out);
	fclose(out);
	fuzz_expect_plain(json, length, "json");
	value = json_loadb(json, length, JSON_DECODE_ANY, NULL);
	fuzz_expect(json_is_string(value), json);
	if (is_utf8(text))
		fuzz_expect(
		    strcmp(json_string_value(value), text) == 0, "it differs");
	json_decref(value);
	free(json);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char plain[64];
	char *text;

	if (size == 0)
		return 0;
	text = fuzz_text(data + 1, size - 1);
	size_t room = 1 + data[0] % sizeof(plain);
	size_t n = utf8_copy_plain(plain, room, text);
	fuzz_expect(n < room && strlen(plain) == n, "the length");
	fuzz_expect_plain(plain, n, "plain");
	expect_escaped(text);
	free(text);
	return 0;
}
