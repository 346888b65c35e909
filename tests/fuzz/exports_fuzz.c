/*
 * Each export of a snapshot that can be read is valid: JSON can be parsed,
 * folded stacks are lines with a number, and CSV can be read as a trace. None
 * has control characters.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/weir/reading/snapshot_file.h"
#include "tools/weir/reading/snapshot_out.h"
#include "tools/weir/reading/trace_file.h"

struct text {
	char *at;
	size_t length;
};

static void
expect_json(const struct text *text, const char *what)
{
	json_error_t error;
	json_t *json = json_loadb(text->at, text->length,
	    JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &error);

	fuzz_expect(json != NULL, error.text);
	fuzz_expect_plain(text->at, text->length, what);
	json_decref(json);
}

static void
expect_folded(const struct text *text)
{
	char *line = text->at;

	fuzz_expect_plain(text->at, text->length, "folded");
	for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		char *blank = memrchr(line, ' ', (size_t)(end - line));

		fuzz_expect(blank != NULL && blank + 1 < end, "a folded line");
		for (char *c = blank + 1; c < end; c++)
			fuzz_expect(*c >= '0' && *c <= '9', "a folded number");
	}
}

static void
expect_trace(const struct text *text)
{
	struct trace_error error = { "" };
	struct trace trace;

	fuzz_expect_plain(text->at, text->length, "csv");
	if (trace_read(fuzz_file(1, text->at, text->length), &trace, &error))
		trace_drop(&trace);
	else
		fuzz_expect(error.text[0] != '\0', "there is no error text");
}

static void export(const struct snapshot *snapshot, int format)
{
	const struct snapshot_part part = { .snapshot = snapshot };
	uint32_t device = snapshot_traced_device(snapshot, 0);
	struct text text = { NULL, 0 };
	FILE *out = open_memstream(&text.at, &text.length);

	fuzz_expect(out != NULL, "no memory");
	if (format == 0)
		snapshot_out_json(&part, 1, out);
	else if (format == 1)
		snapshot_out_chrome(snapshot, NULL, out);
	else if (format == 2)
		snapshot_out_folded(snapshot, out);
	else if (device != UINT32_MAX)
		snapshot_out_csv(snapshot, device, "fuzz", out);
	fclose(out);
	if (format < 2)
		expect_json(&text, format == 0 ? "json" : "chrome");
	else if (format == 2)
		expect_folded(&text);
	else if (device != UINT32_MAX)
		expect_trace(&text);
	free(text.at);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct snapshot *snapshot = NULL;
	struct source source;

	source_of_memory(&source, data, size);
	if (snapshot_read(&source, &snapshot) != WEIR_OK)
		return 0;
	for (int format = 0; format < 4; format++)
		export(snapshot, format);
	snapshot_free(snapshot);
	return 0;
}
