/*
 * Reading a snapshot under a small budget: whatever the bytes, memory stays
 * below it, and all is given back.
 */
#include <stdlib.h>

#include "base/meta.h"
#include "tests/fuzz/fuzz.h"
#include "tools/weir/snapshot_file.h"

struct input {
	const uint8_t *at;
	size_t left;
	size_t most; /* bytes taken so far */
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

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { ALLOWED = 1 << 20 };
	struct snapshot *snapshot = NULL;
	struct input input = { data, size, 0, meta_bytes() };
	struct budget budget = { .most = ALLOWED, .before = input.before };
	struct source source;

	fuzz_expect(
	    source_open(&source, read_some, &input) == WEIR_OK, "source_open");
	source.budget = &budget;
	if (snapshot_read(&source, &snapshot) == WEIR_OK)
		snapshot_free(snapshot);
	source_close(&source);
	fuzz_expect(input.most <= ALLOWED, "the budget");
	fuzz_expect(meta_bytes() == input.before, "memory is left");
	return 0;
}
