/*
 * Arbitrary bytes as an xz file: read as text and as a snapshot, or refused
 * with a reason, within the memory budget of readers.
 */
#include <stdlib.h>
#include <string.h>

#include "base/meta.h"
#include "tests/fuzz/fuzz.h"
#include "tools/weir/reading/file_text.h"
#include "tools/weir/reading/snapshot_file.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char magic[6] = { '\xfd', '7', 'z', 'X', 'Z', '\0' };
	struct budget budget = file_text_budget();
	size_t before = meta_bytes();
	char why[256] = "";
	char *text;
	size_t length;
	const char *path;
	uint8_t *bytes = malloc(size + sizeof(magic));

	/* Half of all inputs begin with xz's magic. */
	size_t head = size > 0 && (data[0] & 1) ? sizeof(magic) : 0;
	fuzz_expect(bytes != NULL, "no memory");
	memcpy(bytes, magic, head);
	memcpy(bytes + head, data, size);
	path = fuzz_file(0, bytes, size + head);
	free(bytes);
	if (file_text_read(path, &budget, &text, &length, why, sizeof(why))) {
		fuzz_expect(length <= budget_limit(&budget), "the budget");
		fuzz_expect(text[length] == '\0', "no end");
		free(text);
	} else {
		fuzz_expect(why[0] != '\0', "there is no reason");
	}
	snapshot_free(snapshot_load(path));
	fuzz_expect(meta_bytes() == before, "memory is left");
	return 0;
}
