/*
 * A program that counts the signals that it gets. It prints "ready", reads its
 * input to the end and prints each signal with its number, "SIGTERM 1". A
 * signal with a value (sigqueue) counts as many times as the value says.
 *
 *	stop	stops itself before it prints "ready"
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t counts[NSIG];

static void
count_signal(int number, siginfo_t *info, void *unused)
{
	(void)unused;
	counts[number] +=
	    info->si_code == SI_QUEUE ? info->si_value.sival_int : 1;
}

static void
read_all(void)
{
	char text[64];
	ssize_t n;

	do
		n = read(STDIN_FILENO, text, sizeof(text));
	while (n > 0 || (n < 0 && errno == EINTR));
}

int
main(int argc, char **argv)
{
	static const int uncounted[] = { SIGKILL, SIGSTOP, SIGCHLD, SIGTSTP,
		SIGTTIN, SIGTTOU, SIGSEGV, SIGBUS };
	struct sigaction action = { .sa_sigaction = count_signal,
		.sa_flags = SA_SIGINFO | SA_RESTART };

	for (int i = 1; i < NSIG; i++) {
		int leave = 0;

		for (size_t k = 0; k < sizeof(uncounted) / sizeof(int); k++)
			leave |= i == uncounted[k];
		if (!leave)
			sigaction(i, &action, NULL);
	}
	if (argc > 1 && strcmp(argv[1], "stop") == 0)
		raise(SIGSTOP);
	printf("ready\n");
	fflush(stdout);
	read_all();
	for (int i = 1; i < NSIG; i++) {
		if (counts[i] != 0 && sigabbrev_np(i) != NULL)
			printf("SIG%s %d\n", sigabbrev_np(i), (int)counts[i]);
		else if (counts[i] != 0)
			printf("signal %d %d\n", i, (int)counts[i]);
	}
	return 7;
}
