/*
 * Starting the program of `weir run`.
 */
#ifndef TOOLS_WEIR_LIVE_PROGRAM_H
#define TOOLS_WEIR_LIVE_PROGRAM_H

/* Exit statuses that shells use if a program cannot be run, or does not
 * exist. */
enum { EXIT_NOT_RUNNABLE = 126, EXIT_NOT_FOUND = 127 };

/* Become the program. Returns an exit status if that fails. */
int program_become(char **program);

/* Run the program in a child process, and write the reports that it does not
 * write. Ends this process as the program ended. Returns an exit status if that
 * fails. */
int program_wait(char **program);

#endif
