/*
 * A program that allocates, puts a line into a buffered file and ends with
 * status 7, and that before has done something to its process:
 *
 *	driver_odd FILE [HOW]
 *
 *	reuse	closes stderr and opens FILE in its place
 *	redirect	opens FILE.log for appending as stderr
 *	filter	forbids itself all system calls but those of stdio and exit()
 *	limit	lets no file grow
 *	folder	changes its folder
 *	comma	takes the locale of its user, and rounds upwards
 */
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <locale.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cuda.h"

static void
filter_calls(void)
{
#define ALLOW(name)                                                            \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1),                 \
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
	struct sock_filter code[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					  offsetof(struct seccomp_data, nr)),
		ALLOW(write), ALLOW(close), ALLOW(fstat), ALLOW(newfstatat),
		ALLOW(futex), ALLOW(munmap), ALLOW(exit_group), ALLOW(brk),
		ALLOW(lseek),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS) };
	struct sock_fprog filter = { sizeof(code) / sizeof(*code), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
		_exit(77);
}

static void
put_on_stderr(const char *path, int flags)
{
	close(STDERR_FILENO);
	if (open(path, O_WRONLY | O_CREAT | flags, 0600) != STDERR_FILENO)
		exit(6);
}

/* Do it. Returns the file that the line goes into. */
static FILE *
prepare(const char *path, const char *how)
{
	static const struct rlimit small = { 64, 64 };
	char log[4096];
	FILE *file;

	if (strcmp(how, "reuse") == 0) {
		put_on_stderr(path, O_TRUNC);
		return fdopen(STDERR_FILENO, "w");
	}
	file = fopen(path, "w");
	if (strcmp(how, "redirect") == 0) {
		snprintf(log, sizeof(log), "%s.log", path);
		put_on_stderr(log, O_APPEND);
	}
	if (strcmp(how, "limit") == 0 && setrlimit(RLIMIT_FSIZE, &small) != 0)
		exit(6);
	if (strcmp(how, "folder") == 0 && chdir("/") != 0)
		exit(6);
	if (strcmp(how, "comma") == 0) {
		setlocale(LC_ALL, "");
		setlocale(LC_NUMERIC, "comma");
		fesetround(FE_UPWARD);
	}
	return file;
}

int
main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[2] : "";
	struct cuda cuda;
	FILE *file;
	address ptr;

	if (argc < 2)
		return 5;
	cuda_by_dlsym(&cuda);
	cuda_start(&cuda);
	MUST(cuda.mem_alloc(&ptr, 3 << 20));
	file = prepare(argv[1], how);
	if (file == NULL)
		return 4;
	if (strcmp(how, "reuse") == 0) /* a message, and later the report */
		cuda.mem_alloc(&ptr, (size_t)1 << 50);
	MUST(cuda.mem_alloc(&ptr, 1 << 20));
	fprintf(file, "the result\n");
	if (strcmp(how, "filter") == 0)
		filter_calls();
	return 7;
}
