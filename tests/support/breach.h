/*
 * Breaks a rule that debug builds check, in a child process.
 */
#ifndef TESTS_SUPPORT_BREACH_H
#define TESTS_SUPPORT_BREACH_H

#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

/* Run `breach` in a child with stderr in `text`; returns its wait status. */
static inline int
breach_run(void (*breach)(void), char *text, size_t size)
{
	int ends[2];
	int status;
	size_t length = 0;
	ssize_t n;
	pid_t child;

	EXPECT_EQ(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		breach();
		_exit(0);
	}
	close(ends[1]);
	/* The text may come in pieces. */
	while ((n = read(ends[0], text + length, size - 1 - length)) > 0)
		length += (size_t)n;
	text[length] = '\0';
	close(ends[0]);
	EXPECT_EQ(waitpid(child, &status, 0), child);
	return status;
}

#endif
