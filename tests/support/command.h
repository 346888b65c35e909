/*
 * Running a program in a test, and finding what tests need beside them: the
 * weir command of the same build, and tests/data.
 */
#ifndef TESTS_SUPPORT_COMMAND_H
#define TESTS_SUPPORT_COMMAND_H

#include <stddef.h>

/* The end of a program and its output. */
struct command_result {
	int status; /* its exit status; -1 if a signal ended it */
	int signal; /* 0, or the signal that ended it */
	char *out;  /* stdout, NUL-terminated */
	char *err;  /* stderr */
};

/*
 * Run argv[0], looked for in PATH, with the environment of the test, and wait
 * for its end. Its stdin is empty. The test fails if the program cannot be
 * started.
 */
struct command_result command_run(const char *const argv[]);

/* Run a command, which must succeed, with a terminal for its stderr; the text
 * that it wrote there, of some kilobytes at most. The caller frees it. */
char *command_on_terminal(const char *const argv[]);

/* Run the weir command of this build, or that of WEIR_BIN, with these
 * arguments, which end with NULL. */
struct command_result command_weir(const char *argument, ...)
    __attribute__((sentinel));

void command_free(struct command_result *result);

/* The path of a file in tests/data. The caller frees it. */
char *test_data(const char *name);

/* The path of a part of this build, "bin/weir". The caller frees it. */
char *test_build(const char *part);

/* Write a file of the test's own, over one of the same name; it is removed
 * when the test ends. The caller frees the path. */
char *test_file(const char *name, const void *text, size_t length);

/* From now on printf() and strtod() have a comma where C has a point, as in a
 * program that follows its user's language. Skips the test where no such
 * language can be made. */
void use_comma(void);

#endif
