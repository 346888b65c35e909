/*
 * Other processes, by their numbers and by descriptors of them.
 *
 * The number of a process that has ended may be used again. A descriptor
 * (pidfd, Linux 5.3) stays valid; so does the pair of a number and the time at
 * which the process was started.
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Fields of /proc/PID/stat: proc(5). */
struct process_stat {
	char state;         /* 'R', 'T' (stopped), 'Z' (zombie), ... */
	uint64_t threads;   /* that have not ended */
	uint64_t started;   /* clock ticks after the system's start; never 0 */
	uint64_t arguments; /* address of the command line */
	uint64_t arguments_end; /* 0: hidden from this process */
};

/*
 * Read it.
 *
 * @return 0; ENOENT or ESRCH: there is no such process, or it is hidden from
 *         this one; EIO: the text is not understood; another number of errno:
 *         the process cannot be asked about, as EMFILE
 */
int process_read(uint64_t pid, struct process_stat *out);

/* When this process was started; 0: unknown. */
uint64_t process_own_start(void);

/* Has the process ended that was started at that time? Its descriptors are
 * closed then, and its memory of devices is gone. A process that cannot be
 * asked about has not ended. `started` 0: any process of that number. */
bool process_has_ended(uint64_t pid, uint64_t started);

/* ---- Descriptors -------------------------------------------------------- */

/* Open a descriptor of a process, which the caller closes; -1: see errno.
 * ENOSYS: this system has none. */
int process_open(pid_t pid);

/* Has the process ended, so that only its number is left? False for no
 * descriptor. */
bool process_fd_ended(int pidfd);

/* Copy a descriptor of another process; -1: see errno. */
int process_fetch(int pidfd, int fd);

#endif
