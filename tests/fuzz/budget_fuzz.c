/*
 * Reads a snapshot under a small budget: whatever the bytes, memory stays below
 * it, and all of it is freed. Then reads it again while an allocation fails;
 * the first two bytes are the number of allocations before that one.
 */
#include <stdlib.h>

#include "base/meta.h"
#include "tests/fuzz/fuzz.h"
#include "tools/weir/reading/snapshot_file.h"

struct input {
	const uint8_t *at;
	size_t left;
	size_t most; /* bytes allocated so far */
	size_t before;
};

static ptrdiff_t
read_some(void *user, void *buffer, size_t size)
{
	struct input *input = user;
	size_t n = input->left < 64 ? input->left : 64;

	if (meta_bytes() - input->before > input->most)
		input->most = meta_bytes() - input->before;
	if (n > size)
		n = size;
	__builtin_memcpy(buffer, input->at, n);
	input->at += n;
	input->left -= n;
	return (ptrdiff_t)n;
}

enum { ALLOWED = 1 << 20 };

static enum weir_status
read_within_budget(struct input input)
{
	struct snapshot *snapshot = NULL;
	struct budget budget = { .most = ALLOWED, .before = input.before };
	struct source source;
	enum weir_status status = source_open(&source, read_some, &input);

	if (status != WEIR_OK)
		return status;
	source.budget = &budget;
	status = snapshot_read(&source, &snapshot);
	if (status == WEIR_OK)
		snapshot_free(snapshot);
	source_close(&source);
	fuzz_expect(input.most <= ALLOWED, "the budget");
	fuzz_expect(meta_bytes() == input.before, "memory is left");
	return status;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, size, 0, meta_bytes() };
	unsigned long nth;

	read_within_budget(input);
	nth = 1 + (size > 0 ? data[0] : 0u) + (size > 1 ? data[1] : 0u);
	meta_fail(nth, 1);
	fuzz_expect(read_within_budget(input) != WEIR_OK || meta_faults() == 0,
	    "a snapshot although an allocation failed");
	meta_fail(0, 0);
	return 0;
}
