/*
 * Starting the programs of tests/programs for the preload's tests, bare and
 * with libweir_preload.so.
 */
#ifndef TESTS_TOOLS_START_H
#define TESTS_TOOLS_START_H

#include <jansson.h>
#include <stdbool.h>

#include "tests/support/command.h"

/* How to start a program. NULL and 0 where nothing is wanted. */
struct start {
	const char *program; /* of tests/programs, "doors" */
	const char *argument;
	bool preload;
	const char *before;   /* a library to preload before weir's */
	const char *after;    /* and one behind it */
	const char *variable; /* "WEIR_CONF=..." */
	const char *second;   /* another */
	const char *report;   /* where WEIR_REPORT is to go */
	const char *machine;  /* what else the simulated one is, "devices:2" */
};

/* The test is skipped where the machine lacks a library of the program. */
struct command_result start(const struct start *how);

/* True where the programs are to run on the simulated device. */
bool start_simulated(void);

/* A file of the test's own that is not there yet. The caller frees the path.*/
char *report_path(void);

/* The report in a file, which must be one. */
json_t *report_read(const char *path);

/* A whole number of a report. */
long long report_number(const json_t *report, const char *key);

/*
 * Run a program bare and preloaded: both must succeed with the same output and
 * no complaint, and weir must have served it. The report is the caller's.
 */
json_t *start_twice(const char *program, const char *argument);

/* start_twice() for a program that is started so; `variable` and `second` are
 * for the preloaded run. */
json_t *start_twice_as(struct start how);

/* start_twice(); weir must have served memory, and none may be left. */
void serves(const char *program, const char *argument);
void serves_as(struct start how);

#endif
