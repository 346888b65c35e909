/*
 * A client of NVTX that is written from the interface's description: it asks
 * the tool of NVTX_INJECTION64_PATH for the calls that the tool wants, and
 * makes those.
 */
#ifndef TESTS_PROGRAMS_NVTX_H
#define TESTS_PROGRAMS_NVTX_H

enum { NVTX_CORE = 1, NVTX_DOMAINS = 5, NVTX_CALLS = 17 };

/* The tool's functions by module and number; NULL for those it has not. */
extern void (*nvtx_functions[7][NVTX_CALLS])(void);

/* Load the tool. Returns its answer, -1 if there is none. */
int nvtx_load(void);

/* Push and pop ranges of this thread, with the tool's answers. */
int nvtx_push(const char *text);
int nvtx_pop(void);

#endif
