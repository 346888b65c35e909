/*
 * A program of ours under `weir run` that does what it is told: driver_steps.
 */
#ifndef TESTS_TOOLS_WEIR_STEPPED_H
#define TESTS_TOOLS_WEIR_STEPPED_H

#include <stdio.h>
#include <sys/types.h>

struct program {
	pid_t pid;
	FILE *to;
	FILE *from;
};

/* Make a folder of the test's own the place where watchers and programs meet;
 * its name. */
const char *runtime_folder(void);

/* Where the report of `weir run` goes; "" (at first): there is none. */
extern const char *program_report;

/* Start it under `weir run` with this flag. */
struct program program_start(const char *flag);

/* Start it under `weir run --watch`, in a runtime folder of the test's own, and
 * have it allocate once. program_pid is its process id as text. */
struct program program_start_watched(void);
extern char program_pid[32];

/* Its name for the system, which is another one under valgrind. */
const char *program_name(const struct program *program);

/* Have it do one thing; its answer is checked. */
void program_step(const struct program *program, char letter, int answer);

/* Let it end; its exit status. */
int program_finish(struct program *program);

#endif
