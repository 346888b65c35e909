/*
 * Starting the programs of tests/programs for the preload's tests, bare and
 * with libweir_preload.so.
 */
#ifndef TESTS_SUPPORT_START_H
#define TESTS_SUPPORT_START_H

#include <jansson.h>
#include <stdbool.h>

#include "tests/support/command.h"

/* How to start a program. Fields that are not needed are NULL or 0. */
struct start {
	const char *program; /* of tests/programs, "doors" */
	const char *argument;
	bool preload;
	const char *before;   /* a library that is preloaded before weir's */
	const char *after;    /* and one that is preloaded after it */
	const char *variable; /* "WEIR_CONF=..." */
	const char *second;   /* another variable */
	const char *report;   /* the file for WEIR_REPORT */
	const char *machine;  /* settings of simcuda, "devices:2" */
};

/* The test is skipped if the machine lacks a library of the program. */
struct command_result start(const struct start *how);

/* True if the programs run on the simulated device. */
bool start_simulated(void);

/* The path of a file that does not exist yet, for this test only. The caller
 * frees it. */
char *report_path(void);

/* Read the report in a file, which must be valid. */
json_t *report_read(const char *path);

/* Read a whole number of a report. */
long long report_number(const json_t *report, const char *key);

/*
 * Run a program bare and preloaded. Both runs must succeed with the same output
 * and no complaint, and weir must have served the program. The caller owns the
 * report.
 */
json_t *start_twice(const char *program, const char *argument);

/* Run a program with these settings like start_twice(). `variable` and `second`
 * are for the preloaded run. */
json_t *start_twice_as(struct start how);

/* Call start_twice(). weir must have served memory, and none may be left. */
void serves(const char *program, const char *argument);
void serves_as(struct start how);

#endif
