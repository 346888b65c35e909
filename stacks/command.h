/*
 * Where the `weir` command is.
 */
#ifndef STACKS_COMMAND_H
#define STACKS_COMMAND_H

#include <limits.h>
#include <stdbool.h>

/*
 * Find the command: the file that the environment's WEIR_COMMAND names, or else
 * the one that was built or installed with this library; never along PATH.
 * False if there is none, if WEIR_COMMAND is empty, and in a program with more
 * rights than its user (AT_SECURE).
 */
bool command_find(char path[PATH_MAX]);

#endif
