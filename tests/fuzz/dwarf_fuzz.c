/*
 * Sections of DWARF that weir checks before libbacktrace reads them. The input
 * has the sizes of four sections in two bytes each, then their bytes; the rest
 * is the fifth. A line table that was repaired needs no repair.
 */
#include <stdlib.h>
#include <string.h>

#include "stacks/dwarf_info.h"
#include "stacks/dwarf_line.h"
#include "tests/fuzz/fuzz.h"

enum { INFO, ABBREVS, RANGES, RNGLISTS, LINE, SECTIONS };

/* Copy bytes of the input to separate memory. */
static unsigned char *
take_section(struct fuzz_steps *steps, size_t *size)
{
	size_t left = (size_t)(steps->end - steps->at);
	unsigned char *bytes;

	if (*size > left)
		*size = left;
	bytes = malloc(*size + 1);
	fuzz_expect(bytes != NULL, "no memory");
	memcpy(bytes, steps->at, *size);
	steps->at += *size;
	return bytes;
}

static void
repair_twice(unsigned char *lines, size_t size)
{
	unsigned char *once = malloc(size + 1);

	fuzz_expect(once != NULL, "no memory");
	dwarf_line_repair(lines, size);
	memcpy(once, lines, size);
	dwarf_line_repair(lines, size);
	fuzz_expect(memcmp(once, lines, size) == 0,
	    "a line table needs a second repair");
	free(once);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_steps steps = { data, data + size };
	unsigned char *bytes[SECTIONS];
	size_t sizes[SECTIONS] = { [LINE] = SIZE_MAX };

	for (int i = 0; i < LINE; i++)
		sizes[i] = (size_t)fuzz_number(&steps, 2);
	for (int i = 0; i < SECTIONS; i++)
		bytes[i] = take_section(&steps, &sizes[i]);
	repair_twice(bytes[LINE], sizes[LINE]);
	struct dwarf_sections sections = { .info = { bytes[INFO], sizes[INFO] },
		.abbrevs = { bytes[ABBREVS], sizes[ABBREVS] },
		.line = { bytes[LINE], sizes[LINE] },
		.ranges = { bytes[RANGES], sizes[RANGES] },
		.rnglists = { bytes[RNGLISTS], sizes[RNGLISTS] } };

	dwarf_info_is_sound(&sections);
	for (int i = 0; i < SECTIONS; i++)
		free(bytes[i]);
	return 0;
}
