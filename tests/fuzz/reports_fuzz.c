/*
 * Each command that reports on a snapshot, for arbitrary bytes: it ends with
 * one of its statuses, and prints no control character.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tools/weir/tool.h"

static const char *const commands[] = { "show", "stats", "top", "oom", "frag",
	"leaks", "trace", "check" };

/* Send the output to a file in memory. */
static int
capture_output(void)
{
	static int file;

	if (file == 0) {
		file = memfd_create("out", MFD_CLOEXEC);
		fuzz_expect(dup2(file, STDOUT_FILENO) >= 0, "dup2");
	}
	fuzz_expect(ftruncate(file, 0) == 0 && lseek(file, 0, SEEK_SET) == 0,
	    "the output");
	return file;
}

static void
expect_plain_output(int file, const char *name)
{
	off_t size = lseek(file, 0, SEEK_END);
	char *text;

	if (size <= 0)
		return;
	text = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, file, 0);
	fuzz_expect(text != MAP_FAILED, "the output");
	fuzz_expect_plain(text, (size_t)size, name);
	munmap(text, (size_t)size);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char json[] = "--json";
	char *argv[4] = { NULL };
	int argc = 0;
	char path[64];
	int file;

	if (size == 0)
		return 0;
	unsigned which = data[0] % (sizeof(commands) / sizeof(commands[0]));
	const struct command *command = commands_find(commands[which]);
	fuzz_expect(command != NULL, commands[which]);
	snprintf(path, sizeof(path), "%s", fuzz_file(0, data + 1, size - 1));
	argv[argc++] = (char *)commands[which];
	argv[argc++] = path;
	if (data[0] & 0x80)
		argv[argc++] = json;
	file = capture_output();
	int status = commands_run(command, argc, argv);
	fflush(stdout);
	fuzz_expect(status >= TOOL_DONE && status <= TOOL_FAILED, "the status");
	expect_plain_output(file, commands[which]);
	return 0;
}
