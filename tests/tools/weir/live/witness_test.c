/*
 * The witness of signals: when it continues the process that it serves.
 */
#include "tools/weir/live/witness.h"

#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test.h"

/* Wait for SIGCONT, which is blocked. Returns its sender, or 0: none came. */
static pid_t
continued_by(long ms)
{
	const struct timespec most = { .tv_sec = ms / 1000,
		.tv_nsec = ms % 1000 * 1000000 };
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCONT);
	return sigtimedwait(&set, &info, &most) == SIGCONT ? info.si_pid : 0;
}

static void
await_answer(struct witness *witness, uint32_t number)
{
	struct witness_report report = { 0 };

	while (report.asked != number) {
		struct pollfd polled = { .fd = witness->fd, .events = POLLIN };

		poll(&polled, 1, -1);
		witness_read(witness, &report);
		EXPECT_GE(witness->fd, 0);
	}
}

TEST(after_its_answer_a_witness_continues_nobody)
{
	enum { ROUNDS = 20 };
	char name[] = "program";
	char *program[] = { name, NULL };
	sigset_t all;

	sigfillset(&all);
	EXPECT_EQ(sigprocmask(SIG_BLOCK, &all, NULL), 0);
	fflush(NULL);
	pid_t child = fork();
	if (child == 0)
		for (;;)
			pause();
	struct witness witness = witness_start(program);
	EXPECT_GE(witness.fd, 0);
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		/* The child runs, so the witness sends one after the other. */
		witness_watch_stopped(&witness, child);
		EXPECT_EQ(continued_by(10 * 1000), witness.pid);
		EXPECT_EQ(continued_by(10 * 1000), witness.pid);
		witness_forget_stopped(&witness, i);
		await_answer(&witness, i);
		continued_by(0); /* sent before the answer */
		EXPECT_EQ(continued_by(3 * WITNESS_LOOK_MS), 0);
	}
	witness_end(&witness);
	EXPECT_EQ(kill(child, SIGKILL), 0);
	EXPECT_EQ(waitpid(child, NULL, 0), child);
}
