/*
 * The data of the page of `weir view`, for any snapshot that can be read: the
 * snapshot is refused, or the data has characters of base64 only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/weir/export/page_data.h"
#include "tools/weir/reading/snapshot_file.h"

static void
expect_base64(const char *text, size_t length)
{
	static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "abcdefghijklmnopqrstuvwxyz0123456789+/=";

	for (size_t i = 0; i < length; i++)
		fuzz_expect(text[i] != '\0' && strchr(all, text[i]) != NULL,
		    "a character that is not of base64");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct snapshot *snapshot = NULL;
	struct page_data *page;
	struct source source;
	char *text = NULL;
	size_t length = 0;

	source_of_memory(&source, data, size);
	if (snapshot_read(&source, &snapshot) != WEIR_OK)
		return 0;
	page = page_data_new(snapshot, "fuzz");
	if (page != NULL) {
		FILE *out = open_memstream(&text, &length);

		fuzz_expect(page_data_write(page, out), "page_data_write");
		fclose(out);
		expect_base64(text, length);
		free(text);
	}
	page_data_free(page);
	snapshot_free(snapshot);
	return 0;
}
