/*
 * Arbitrary text as SIMCUDA_CONF: it is refused, or each value in it is digits
 * within the bounds of its key, or the path of shared_device, and the machine
 * is the one that the text describes. A text of the values that were read is
 * accepted and describes the same machine.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simcuda/conf.h"
#include "tests/fuzz/fuzz.h"

/* Read a text as the environment's. The C library keeps each value of setenv()
 * for ever, but does not copy that of putenv(). */
static bool
read_as_environment(const char *text)
{
	char *variable;
	bool taken;

	fuzz_expect(asprintf(&variable, "SIMCUDA_CONF=%s", text) > 0 &&
		putenv(variable) == 0,
	    "no memory for a variable");
	taken = conf_read();
	unsetenv("SIMCUDA_CONF");
	free(variable);
	return taken;
}

static bool
within(uint64_t value, uint64_t min, uint64_t max)
{
	return min <= value && value <= max;
}

static void
expect_in_bounds(void)
{
#define IN_BOUNDS(name, value, min, max)                                       \
	fuzz_expect(within(conf.name, min, max),                               \
	    "a value beyond the bounds of " #name);
	CONF_KEYS(IN_BOUNDS)
#undef IN_BOUNDS
}

/* Check each pair of an accepted text by the rule of the manual, and not by the
 * code that read it. The last pair of a key counts. */
static void
expect_read(char *text)
{
	struct conf read = conf;
	const char *shared = NULL;
	char *rest = text;

	for (char *pair = strsep(&rest, ","); pair != NULL;
	     pair = strsep(&rest, ",")) {
		char *value = strchr(pair, ':');

		if (*pair == '\0')
			continue;
		fuzz_expect(value != NULL, "a pair without a value is taken");
		*value++ = '\0';
		/* The one value that is a path. */
		if (strcmp(pair, "shared_device") == 0) {
			shared = value;
			continue;
		}
		fuzz_expect(*value != '\0' &&
			value[strspn(value, "0123456789")] == '\0',
		    "a value is taken that is no number");
#define READ(name, otherwise, min, max)                                        \
	if (strcmp(pair, #name) == 0)                                          \
		read.name = strtoull(value, NULL, 10);
		CONF_KEYS(READ)
#undef READ
	}
	fuzz_expect(memcmp(&read, &conf, sizeof(conf)) == 0,
	    "the machine is another one than the text's");
	fuzz_expect(shared == NULL || strcmp(shared, conf_shared_device) == 0,
	    "the shared device is another one than the text's");
}

static void
expect_again(void)
{
	struct conf first = conf;
	char text[2048];
	int n = 0;

#define WRITE(name, value, min, max)                                           \
	n += snprintf(text + n, sizeof(text) - (size_t)n,                      \
	    #name ":%" PRIu64 ",", conf.name);
	CONF_KEYS(WRITE)
#undef WRITE
	fuzz_expect(
	    read_as_environment(text), "values that were read are refused");
	fuzz_expect(memcmp(&first, &conf, sizeof(conf)) == 0,
	    "values that were read change");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct conf defaults;
	static bool kept;
	char *text = fuzz_text(data, size);

	if (!kept)
		defaults = conf;
	kept = true;
	conf = defaults;
	if (read_as_environment(text)) {
		expect_in_bounds();
		expect_read(text);
		expect_again();
	}
	free(text);
	return 0;
}
