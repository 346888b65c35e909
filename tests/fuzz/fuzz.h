/*
 * Support for the fuzz programs. A program is one function that libFuzzer calls
 * with bytes. It aborts if a promise is broken.
 *
 * Memory and time are promises too: scripts/fuzz limits both for each input,
 * and fuzz_bound_memory() checks the tighter limit for readers of files.
 * tests/fuzz/NAME.seeds has the seeds of NAME, tests/fuzz/NAME.dict the words
 * of its language.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Abort with a text. */
_Noreturn void fuzz_fail(const char *what);

/* Fail unless `holds`. */
static inline void
fuzz_expect(bool holds, const char *what)
{
	if (!holds)
		fuzz_fail(what);
}

/* Return the path of a file in memory that holds these bytes. There are FILES
 * slots; the path is valid until the next call for the slot. */
enum { FUZZ_FILES = 4 };
const char *fuzz_file(unsigned slot, const void *data, size_t size);

/* Return a text of these bytes, up to the first NUL; free() it. */
char *fuzz_text(const uint8_t *data, size_t size);

/* Aborts unless a text is UTF-8 with no controls but newlines and tabs. */
void fuzz_expect_plain(const char *text, size_t length, const char *what);

/* The bytes of an input are the steps of a program: each call takes some, and
 * returns 0 if none are left. */
struct fuzz_steps {
	const uint8_t *at;
	const uint8_t *end;
};
bool fuzz_more(const struct fuzz_steps *steps);
unsigned fuzz_byte(struct fuzz_steps *steps);
uint64_t fuzz_number(struct fuzz_steps *steps, unsigned bytes);

/* Start the simulated device, once; it aborts on misuse. */
void fuzz_device(void);

/* Abort if weir_check() finds a fault. */
void fuzz_expect_healthy(void);

#endif
