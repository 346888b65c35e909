/*
 * `weir diff` and `weir merge` of two snapshots of arbitrary bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tools/weir/tool.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool quiet;
	char first[64];
	char second[64];
	size_t cut;

	if (!quiet)
		quiet = freopen("/dev/null", "w", stdout) != NULL;
	if (size < 4)
		return 0;
	cut = 3 + (size_t)(data[1] | data[2] << 8) % (size - 2);
	if (cut > size)
		cut = size;
	snprintf(first, sizeof(first), "%s", fuzz_file(0, data + 3, cut - 3));
	snprintf(
	    second, sizeof(second), "%s", fuzz_file(1, data + cut, size - cut));
	/* If one file is given twice, both are valid most often. */
	char *argv[] = { NULL, first, data[0] & 2 ? first : second, NULL };
	const struct command *command =
	    commands_find(data[0] & 1 ? "merge" : "diff");
	int status = commands_run(command, 3, argv);
	fuzz_expect(status >= TOOL_DONE && status <= TOOL_FAILED, "the status");
	return 0;
}
