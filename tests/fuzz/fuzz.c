/*
 * Support for the fuzz programs: fuzz.h.
 */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/utf8.h"

/*
 * libFuzzer's files are written beside the program, which is under build/,
 * unless the call names another place. They are never written into the current
 * folder.
 */
__attribute__((visibility("default"))) int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static char place[4096] = "-artifact_prefix=";
	static char *more[64];
	size_t used = strlen(place);
	int n = *argc;

	for (int i = 1; i < n; i++)
		if (strncmp((*argv)[i], place, used) == 0)
			return 0;
	ssize_t length =
	    readlink("/proc/self/exe", place + used, sizeof(place) - used - 2);
	fuzz_expect(length > 0 && n + 2 < (int)(sizeof(more) / sizeof(*more)),
	    "nowhere to keep what is found");
	strcpy(place + used + length, "-");
	memcpy(more, *argv, (size_t)n * sizeof(*more));
	more[n++] = place;
	*argc = n;
	*argv = more;
	return 0;
}

_Noreturn void
fuzz_fail(const char *what)
{
	fprintf(stderr, "fuzz: %s; %s\n", what, weir_last_error());
	abort();
}

const char *
fuzz_file(unsigned slot, const void *data, size_t size)
{
	static int files[FUZZ_FILES];
	static char paths[FUZZ_FILES][32];

	if (files[slot] == 0)
		files[slot] = memfd_create("fuzz", MFD_CLOEXEC);
	fuzz_expect(files[slot] > 0 && ftruncate(files[slot], 0) == 0 &&
		pwrite(files[slot], data, size, 0) == (ssize_t)size,
	    "no file in memory");
	snprintf(
	    paths[slot], sizeof(paths[slot]), "/proc/self/fd/%d", files[slot]);
	return paths[slot];
}

char *
fuzz_text(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);

	fuzz_expect(text != NULL, "no memory for a text");
	return text;
}

void
fuzz_expect_plain(const char *text, size_t length, const char *what)
{
	while (length > 0) {
		uint32_t code;
		size_t n = utf8_next(text, length, &code);

		fuzz_expect(n > 0, what);
		fuzz_expect(
		    code == '\n' || code == '\t' || !utf8_is_control(code),
		    what);
		text += n;
		length -= n;
	}
}

bool
fuzz_more(const struct fuzz_steps *steps)
{
	return steps->at < steps->end;
}

unsigned
fuzz_byte(struct fuzz_steps *steps)
{
	return fuzz_more(steps) ? *steps->at++ : 0;
}

uint64_t
fuzz_number(struct fuzz_steps *steps, unsigned bytes)
{
	uint64_t number = 0;

	for (unsigned i = 0; i < bytes; i++)
		number = number << 8 | fuzz_byte(steps);
	return number;
}

void
fuzz_device(void)
{
	static bool ready;

	if (ready)
		return;
	setenv("SIMCUDA_CONF", "abort:1", 0);
	fuzz_expect(weir_init() == WEIR_OK, "weir_init");
	ready = true;
}

void
fuzz_expect_healthy(void)
{
	char report[4096] = "";

	fuzz_expect(weir_check(report, sizeof(report)) == 0, report);
}
