/*
 * Running the weir command on a snapshot, and reading its answer.
 */
#ifndef TESTS_TOOLS_WEIR_ANSWER_H
#define TESTS_TOOLS_WEIR_ANSWER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/support/command.h"

/* Paths that stay until the test's process ends: of the snapshot
 * "train4.pickle" of tests/data/snapshots, of another file there, and of a file
 * that test_file() makes. */
const char *train(void);
const char *snapshot_data(const char *name);
const char *written(const char *name, const void *text, size_t length);

/* Skip the test if the build is without the page of `weir view`. */
void need_page(void);

/* Run `weir COMMAND SNAPSHOT FLAG VALUE`; NULL leaves an argument out. The
 * command must end with this status and complain of nothing. The caller frees
 * the result. */
struct command_result ask(int status, const char *command, const char *path,
    const char *flag, const char *value);

/* Run the command with --json. Returns its answer, which the caller releases.
 */
json_t *ask_json(int status, const char *command, const char *path,
    const char *flag, const char *value);

/* The value at a path such as "rows.0.site". The test fails if there is none.
 */
const json_t *value_at(const json_t *json, const char *path);
uint64_t number_at(const json_t *json, const char *path);
const char *text_at(const json_t *json, const char *path);

/* The text must begin with `begin`. */
void expect_begin(const char *text, const char *begin);

/* `weir COMMAND PATH` must fail with status 2, print nothing to stdout, and
 * complain of `path` with this text. */
void expect_refused(const char *command, const char *path, const char *why);

#endif
