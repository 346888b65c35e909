/*
 * A program that holds memory when it ends in one of the ways that run no exit
 * handlers. It allocates ten blocks of 1 MiB, the last three in another thread,
 * and frees four.
 *
 *	abort, segv	by its own fault
 *	_exit		with status 5
 *	term, kill	by that signal, which it sends itself
 *	wait		prints "ready" and waits to be ended
 *	child		a child does all this and is killed; then it returns 0
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cuda.h"

enum { BLOCKS = 10, IN_THREAD = 3, FREED = 4, SIZE = 1 << 20 };

static struct cuda cuda;
static context primary;
static address blocks[BLOCKS];

static void *
allocate_last(void *unused)
{
	MUST(cuda.set_current(primary));
	for (int i = BLOCKS - IN_THREAD; i < BLOCKS; i++)
		MUST(cuda.mem_alloc(&blocks[i], SIZE));
	return unused;
}

static void
work(void)
{
	pthread_t thread;

	cuda_by_dlsym(&cuda);
	primary = cuda_start(&cuda);
	for (int i = 0; i < BLOCKS - IN_THREAD; i++)
		MUST(cuda.mem_alloc(&blocks[i], SIZE));
	if (pthread_create(&thread, NULL, allocate_last, NULL) != 0 ||
	    pthread_join(thread, NULL) != 0)
		exit(3);
	for (int i = 0; i < FREED; i++)
		MUST(cuda.mem_free(blocks[i]));
}

static void
end(const char *how)
{
	if (strcmp(how, "abort") == 0)
		abort();
	if (strcmp(how, "segv") == 0)
		signal(SIGSEGV, SIG_DFL), raise(SIGSEGV);
	if (strcmp(how, "_exit") == 0)
		_exit(5);
	if (strcmp(how, "term") == 0)
		kill(getpid(), SIGTERM);
	if (strcmp(how, "kill") == 0)
		kill(getpid(), SIGKILL);
	printf("ready\n");
	fflush(stdout);
	for (;;)
		pause();
}

int
main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "wait";
	pid_t child = 0;

	if (strcmp(how, "child") == 0) {
		child = fork();
		how = "kill";
	}
	if (child == 0) {
		work();
		end(how);
	}
	return waitpid(child, NULL, 0) == child ? 0 : 4;
}
