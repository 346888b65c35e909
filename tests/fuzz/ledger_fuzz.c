/*
 * Arbitrary bytes in the ledger that other processes write. Reports of them are
 * written in bounded time, and are text and JSON.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tools/report/ledger.h"

static int file = -1;
static size_t ledger_size;

/* The bytes lie at places that the input chooses, beginning with a process. */
static void
scribble(struct fuzz_steps *steps)
{
	uint8_t *bytes = mmap(
	    NULL, ledger_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

	fuzz_expect(bytes != MAP_FAILED, "mmap");
	while (fuzz_more(steps)) {
		size_t at = fuzz_number(steps, 3) % ledger_size;
		size_t n = fuzz_byte(steps);

		/* The reader writes the head itself, so the input does not
		 * change it. */
		if (at < 64)
			at += 64;
		for (size_t i = 0; i < n && at + i < ledger_size; i++)
			bytes[at + i] = (uint8_t)fuzz_byte(steps);
	}
	munmap(bytes, ledger_size);
}

static void
expect_report(const struct report *report)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	json_t *json;

	report_write_json(out, report);
	fclose(out);
	json = json_loadb(text, length, 0, NULL);
	fuzz_expect(json != NULL, "the report is no JSON");
	json_decref(json);
	free(text);
	out = open_memstream(&text, &length);
	report_write_text(out, report, false);
	fclose(out);
	fuzz_expect_plain(text, length, "the report");
	free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_steps steps = { data, data + size };
	static struct report report;
	struct ledger *ledger;
	struct ledger_process *process;
	char name[sizeof(process->program)];
	struct stat about;

	if (file >= 0)
		close(file);
	file = ledger_make();
	fuzz_expect(file >= 0 && fstat(file, &about) == 0, "ledger_make");
	ledger_size = (size_t)about.st_size;
	ledger = ledger_map(file);
	fuzz_expect(ledger != NULL, "ledger_map");
	uint32_t slot = ledger_acquire_process(ledger, getpid());
	uint32_t thread = ledger_acquire_thread(ledger, getpid());
	atomic_store(&ledger_process(ledger, slot)->threads, thread);
	scribble(&steps);
	for (uint32_t i = 0; i < 4; i++) {
		process = ledger_process(ledger, i);
		if (process == NULL)
			continue;
		ledger_report(ledger, process, &report);
		snprintf(name, sizeof(name), "%.*s", (int)sizeof(name) - 1,
		    process->program);
		report.program = name;
		expect_report(&report);
	}
	munmap(ledger, ledger_size);
	return 0;
}
