/*
 * The program driver_steps under `weir run`, which makes single steps on
 * request.
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

/* Make a folder of the test's own the folder in which watchers and programs
 * meet. Returns its name. */
const char *runtime_folder(void);

/* The destination of the report of `weir run`; "" (at first) for none. */
extern const char *program_report;

/* Start the program under `weir run` with this flag. */
struct program program_start(const char *flag);
/* With up to 16 flags, the last of which is NULL. */
struct program program_start_with(const char *const *flags);

/* Start the program under `weir run --watch`, in a runtime folder of the test's
 * own, and let it allocate once. program_pid is its process id as text. */
struct program program_start_watched(void);
extern char program_pid[32];

/* The system's name of the program, which differs under valgrind. */
const char *program_name(const struct program *program);

/* Let the program make one step, and check its answer. */
void program_step(const struct program *program, char letter, int answer);

/* Let the program end. Returns its exit status. */
int program_finish(struct program *program);

#endif
