/*
 * A program that starts under a condition and ends in some way, busy: one
 * argument "WAY/CONDITION", each by its name below. It prints the same lines
 * whoever serves its memory. Status 3: the driver could not serve it, and it
 * prints that; 4: wrong contents.
 *
 * A first process sets the condition and then runs the program again, so that
 * the condition holds from the start. The alarm outlives that: the program may
 * not hang.
 */
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/busy.h"
#include "common/cuda.h"

enum { THREADS = 3, WORDS = 3000, SECONDS = 240, UNSERVED = 3, WRONG = 4 };

static struct cuda cuda;
static context primary;
static char **arguments;

/* ---- Work -------------------------------------------------------------- */

static void
must_serve(result code, const char *what)
{
	if (code == SUCCESS)
		return;
	printf("%s: %d\n", what, code);
	fflush(stdout);
	_exit(UNSERVED);
}

/* Allocate, use and free some memory. */
static void
use(unsigned value)
{
	static const size_t sizes[] = { 700, WORDS * 4, 3 << 20 };
	unsigned words[WORDS];
	address ptrs[3];

	for (int i = 0; i < 3; i++)
		must_serve(cuda.mem_alloc(&ptrs[i], sizes[i]), "mem_alloc");
	must_serve(cuda.fill(ptrs[1], value, WORDS, NULL), "fill");
	must_serve(cuda.copy_out(words, ptrs[1], sizeof(words)), "copy_out");
	for (int i = 0; i < WORDS; i++)
		if (words[i] != value)
			_exit(WRONG);
	for (int i = 0; i < 3; i++)
		must_serve(cuda.mem_free(ptrs[i]), "mem_free");
}

static void
begin(void)
{
	int device;

	cuda_by_dlsym(&cuda);
	must_serve(cuda.init(0), "init");
	must_serve(cuda.device_get(&device, 0), "device_get");
	must_serve(cuda.retain(&primary, device), "retain");
	must_serve(cuda.set_current(primary), "set_current");
	use(1);
}

static void
start_threads(void)
{
	busy_start(&cuda, primary, THREADS);
}

/* ---- Ways to end -------------------------------------------------------- */

static int
by_return(void)
{
	return 0;
}

static int
by_exit(void)
{
	start_threads();
	exit(5);
}

static int
by_exit_at_once(void)
{
	start_threads();
	_exit(6);
}

static void
use_late(void)
{
	address ptr;

	if (cuda.mem_alloc(&ptr, 5000) == SUCCESS)
		cuda.mem_free(ptr);
}

static int
by_quick_exit(void)
{
	if (at_quick_exit(use_late) != 0)
		return UNSERVED;
	start_threads();
	quick_exit(7);
}

static int
by_abort(void)
{
	start_threads();
	abort();
}

static int
by_signal(void)
{
	start_threads();
	raise(SIGTERM);
	return 1;
}

static int
by_kill(void)
{
	start_threads();
	kill(getpid(), SIGKILL);
	return 1;
}

static int
wait_for(pid_t child)
{
	int status = -1;

	if (child < 0) {
		puts("no child");
		return UNSERVED;
	}
	waitpid(child, &status, 0);
	printf("child: %d\n", status);
	return 0;
}

/* The child of a program with threads has no device, and ends normally. */
static int
fork_and_exit(void)
{
	start_threads();
	fflush(stdout);
	pid_t child = fork();

	if (child == 0) {
		use_late();
		exit(0);
	}
	return wait_for(child);
}

static int
fork_and_exit_at_once(void)
{
	start_threads();
	fflush(stdout);
	pid_t child = fork();

	if (child == 0) {
		use_late();
		_exit(0);
	}
	return wait_for(child);
}

static int
fork_and_abort(void)
{
	start_threads();
	fflush(stdout);
	pid_t child = fork();

	if (child == 0)
		abort();
	return wait_for(child);
}

static int
by_vfork(void)
{
	start_threads();
	fflush(stdout);
	pid_t child = vfork(); /* NOLINT: the fault is the test */

	if (child == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(127);
	}
	return wait_for(child);
}

static int
by_spawn(void)
{
	char *const argv[] = { "true", NULL };
	pid_t child = -1;

	start_threads();
	fflush(stdout);
	if (posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ) != 0)
		child = -1;
	return wait_for(child);
}

/* In a process that uses the device and has no terminal and no parent. */
static int
by_daemon(void)
{
	int ends[2];
	char byte;

	if (pipe(ends) != 0)
		return UNSERVED;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		setsid();
		if (fork() != 0)
			_exit(0);
		alarm(SECONDS);
		begin();
		start_threads();
		_exit(0);
	}
	close(ends[1]);
	int status = wait_for(child);
	while (read(ends[0], &byte, 1) > 0)
		;
	return status;
}

static int
by_dlclose(void)
{
	for (int i = 0; i < 5; i++) {
		void *library = dlopen("libcuda.so.1", RTLD_NOW);

		if (library != NULL)
			dlclose(library);
		use(2);
	}
	return 0;
}

static int
by_exec(void)
{
	char *argv[] = { arguments[0], "return/none", NULL };

	start_threads();
	fflush(stdout);
	execve(arguments[0], argv, environ);
	return 1;
}

static void *
end_all(void *unused)
{
	(void)unused;
	usleep(1000);
	must_serve(cuda.set_current(primary), "set_current");
	use(3);
	exit(8);
}

static int
by_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, end_all, NULL) != 0)
		return UNSERVED;
	pthread_exit(NULL);
}

static int
by_handlers(void)
{
	atexit(use_late);
	start_threads();
	return 9;
}

/* Close all descriptors, as daemons do. */
static int
by_closing_all(void)
{
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	return 0;
}

static const struct way {
	const char *name;
	int (*end)(void);
	int first; /* starts by itself */
} ways[] = {
	{ "return", by_return, 0 },
	{ "exit", by_exit, 0 },
	{ "_exit", by_exit_at_once, 0 },
	{ "quick_exit", by_quick_exit, 0 },
	{ "abort", by_abort, 0 },
	{ "signal", by_signal, 0 },
	{ "kill", by_kill, 0 },
	{ "fork", fork_and_exit, 0 },
	{ "fork_at_once", fork_and_exit_at_once, 0 },
	{ "fork_abort", fork_and_abort, 0 },
	{ "vfork", by_vfork, 0 },
	{ "spawn", by_spawn, 0 },
	{ "daemon", by_daemon, 1 },
	{ "dlclose", by_dlclose, 0 },
	{ "exec", by_exec, 0 },
	{ "thread", by_thread, 0 },
	{ "handlers", by_handlers, 0 },
	{ "close", by_closing_all, 0 },
};

/* ---- Conditions --------------------------------------------------------- */

static int
limit(int resource, rlim_t value)
{
	const struct rlimit both = { value, value };

	return setrlimit(resource, &both);
}

/* Make membarrier(2) fail as on a kernel without it. */
static int
without_membarrier(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		    offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 38),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0;
}

/* Only root can; other users keep the normal state. */
static int
without_proc(void)
{
	if (unshare(CLONE_NEWNS) == 0 &&
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
		(void)mount("none", "/proc", "tmpfs", 0, NULL);
	return 0;
}

static int
put_on(const char *condition)
{
	if (strcmp(condition, "files") == 0)
		return limit(RLIMIT_NOFILE, 16);
	if (strcmp(condition, "memory") == 0)
		return limit(RLIMIT_DATA, 48 << 20);
	if (strcmp(condition, "stack") == 0)
		return limit(RLIMIT_STACK, 128 << 10);
	if (strcmp(condition, "membarrier") == 0)
		return without_membarrier();
	if (strcmp(condition, "proc") == 0)
		return without_proc();
	return strcmp(condition, "none") != 0;
}

int
main(int argc, char **argv)
{
	char *slash = argc > 1 ? strchr(argv[1], '/') : NULL;

	arguments = argv;
	if (slash == NULL)
		return 2;
	alarm(SECONDS);
	limit(RLIMIT_CORE, 0);
	if (getenv("LIFE_BEGUN") == NULL) {
		setenv("LIFE_BEGUN", "1", 1);
		if (put_on(slash + 1) != 0)
			return 2;
		execv(argv[0], argv);
		return 2;
	}
	*slash = '\0';
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (strcmp(ways[i].name, argv[1]) != 0)
			continue;
		if (!ways[i].first)
			begin();
		puts("begun");
		fflush(stdout);
		return ways[i].end();
	}
	return 2;
}
