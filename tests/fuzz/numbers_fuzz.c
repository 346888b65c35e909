/*
 * Numbers as command lines write them: accepted or refused. The printed text of
 * a size is accepted again.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "tests/fuzz/fuzz.h"
#include "tools/weir/tool.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	char again[64];
	uint64_t bytes = 7;
	uint64_t count = 7;
	double real = 7;
	char *end;

	if (bytes_parse(text, &bytes)) {
		uint64_t twice;

		snprintf(
		    again, sizeof(again), "%llu", (unsigned long long)bytes);
		fuzz_expect(bytes_parse(again, &twice) && twice == bytes,
		    "a size reads otherwise");
	} else {
		fuzz_expect(bytes == 7, "a failed call has written");
	}
	if (count_parse(text, 1000, &count))
		fuzz_expect(count <= 1000, "a count above the most");
	else
		fuzz_expect(count == 7, "a failed call has written");
	if (number_parse(text, -10, 10, &real))
		fuzz_expect(real >= -10 && real <= 10, "a number out of range");
	else
		fuzz_expect(real == 7, "a failed call has written");
	real = os_parse_real(text, &end);
	fuzz_expect(end >= text && end <= text + strlen(text), "the end");
	if (isfinite(real)) {
		os_format_real(real, 17, again, sizeof(again));
		fuzz_expect(
		    os_parse_real(again, &end) == real && *end == '\0', again);
	}
	bytes_format(bytes, again, sizeof(again));
	os_format_bytes(bytes, again, 1 + size % sizeof(again));
	free(text);
	return 0;
}
