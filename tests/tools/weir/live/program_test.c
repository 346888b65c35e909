/*
 * weir run and its program are one process to those who send signals.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

/* `weir run`, in a process group of its own, with the program "signals". */
struct running {
	pid_t pid;
	int to;
	int from;
	char text[1024];
	size_t used;
};

enum { GROUP_MAX = 16 };

static void
plain_environment(void)
{
	unsetenv("LD_PRELOAD");
	unsetenv("WEIR_CONF");
	unsetenv("WEIR_REPORT");
	setenv("ASAN_OPTIONS", "handle_segv=0", 1);
	setenv("TSAN_OPTIONS", "atexit_sleep_ms=0", 1);
}

static void
read_until(struct running *r, const char *text)
{
	while (strstr(r->text, text) == NULL) {
		ssize_t n = read(
		    r->from, r->text + r->used, sizeof(r->text) - 1 - r->used);

		if (n <= 0)
			FAIL("the program does not print %s", text);
		r->used += (size_t)n;
		r->text[r->used] = '\0';
	}
}

/* Become `weir run` with this program. */
static _Noreturn void
become_weir(const char *program, const char *argument)
{
	char *weir = test_build("bin/weir");

	execl(weir, "weir", "run", "--sim", "--", program, argument,
	    (char *)NULL);
	_exit(127);
}

static struct running
start_signals(void (*prepare)(void), const char *argument)
{
	struct running r = { 0 };
	char *program = test_build("tests/programs/signals");
	int to[2];
	int from[2];

	plain_environment();
	EXPECT_EQ(pipe2(to, O_CLOEXEC), 0);
	EXPECT_EQ(pipe2(from, O_CLOEXEC), 0);
	fflush(NULL);
	r.pid = fork();
	if (r.pid == 0) {
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		prepare();
		become_weir(program, argument);
	}
	close(to[0]);
	close(from[1]);
	r.to = to[1];
	r.from = from[0];
	if (argument == NULL)
		read_until(&r, "ready\n");
	free(program);
	return r;
}

static void
lead_group(void)
{
	setpgid(0, 0);
}

static void
lead_session(void)
{
	setsid();
}

/* Let the program end, and return what it counted. */
static const char *
counted(struct running *r)
{
	int status;

	close(r->to);
	EXPECT_EQ(waitpid(r->pid, &status, 0), r->pid);
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 7);
	for (ssize_t n = 1; n > 0; r->used += (size_t)n) {
		n = read(
		    r->from, r->text + r->used, sizeof(r->text) - 1 - r->used);
		EXPECT_GE(n, 0);
	}
	r->text[r->used] = '\0';
	close(r->from);
	return r->text + strlen("ready\n");
}

/* Longer than `weir run` takes to pass on a signal. */
static void
settle(void)
{
	usleep(500 * 1000);
}

/* The processes of a group. Returns their number. */
static size_t
find_group(pid_t group, pid_t found[GROUP_MAX])
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	size_t n = 0;

	EXPECT_NOT_NULL(proc);
	while ((entry = readdir(proc)) != NULL && n < GROUP_MAX) {
		pid_t pid = (pid_t)atoi(entry->d_name);

		if (pid > 0 && getpgid(pid) == group)
			found[n++] = pid;
	}
	closedir(proc);
	return n;
}

/* The process of the group that runs the program. */
static pid_t
program_of(const struct running *r)
{
	pid_t found[GROUP_MAX];
	size_t n = find_group(getpgid(r->pid), found);

	for (size_t i = 0; i < n; i++) {
		char path[64];
		char target[512];
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/%d/exe", (int)found[i]);
		length = readlink(path, target, sizeof(target) - 1);
		target[length > 0 ? length : 0] = '\0';
		if (strstr(target, "/tests/programs/signals") != NULL)
			return found[i];
	}
	FAIL("the program is not there");
}

static const struct {
	int number;
	const char *expected;
} all_signals[] = { { SIGTERM, "SIGTERM 1\n" }, { SIGINT, "SIGINT 1\n" },
	{ SIGHUP, "SIGHUP 1\n" }, { SIGQUIT, "SIGQUIT 1\n" },
	{ SIGUSR1, "SIGUSR1 1\n" }, { SIGUSR2, "SIGUSR2 1\n" },
	{ SIGALRM, "SIGALRM 1\n" }, { SIGPIPE, "SIGPIPE 1\n" },
	{ SIGABRT, "SIGABRT 1\n" }, { SIGWINCH, "SIGWINCH 1\n" },
	{ SIGCONT, "SIGCONT 1\n" }, { SIGXCPU, "SIGXCPU 1\n" } };

enum { ALL = sizeof(all_signals) / sizeof(*all_signals) };

/* Send each signal to a `weir run`, or to its group. */
static void
expect_each_once(bool group)
{
	struct running r[ALL];

	for (size_t i = 0; i < ALL; i++)
		r[i] = start_signals(lead_group, NULL);
	for (size_t i = 0; i < ALL; i++)
		EXPECT_EQ(
		    kill(group ? -r[i].pid : r[i].pid, all_signals[i].number),
		    0);
	settle();
	for (size_t i = 0; i < ALL; i++)
		EXPECT_STR_EQ(counted(&r[i]), all_signals[i].expected);
}

TEST(a_signal_to_the_group_comes_once)
{
	expect_each_once(true);
}

TEST(a_signal_to_run_alone_comes_once)
{
	expect_each_once(false);
}

/* As systemd and Slurm do with a control group, and pkill with a name. */
TEST(a_signal_to_each_process_comes_once)
{
	struct running r = start_signals(lead_session, NULL);
	pid_t found[GROUP_MAX];
	size_t n = find_group(r.pid, found);

	EXPECT_GE(n, 2);
	for (size_t i = 0; i < n; i++)
		EXPECT_EQ(kill(found[i], SIGTERM), 0);
	settle();
	for (size_t i = n; i-- > 0;)
		EXPECT_EQ(kill(found[i], SIGINT), 0);
	settle();
	EXPECT_STR_EQ(counted(&r), "SIGINT 1\nSIGTERM 1\n");
}

/* A part of a process's name or command line, for people and for pkill. */
static void
read_proc(pid_t pid, const char *part, char *text, size_t size)
{
	char path[64];
	int fd;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, part);
	fd = open(path, O_RDONLY);
	EXPECT_GE(fd, 0);
	n = read(fd, text, size - 1);
	text[n > 0 ? n : 0] = '\0';
	close(fd);
}

/* Has a process the same part as another one? The witness takes it a moment
 * after it has begun. */
static bool
looks_like(pid_t pid, pid_t other, const char *part)
{
	char text[512];
	char expected[512];

	read_proc(pid, part, text, sizeof(text));
	read_proc(other, part, expected, sizeof(expected));
	return strcmp(text, expected) == 0;
}

/* So that a signal by name comes to both or to neither. */
TEST(the_witness_has_the_look_of_the_program)
{
	struct running r = start_signals(lead_group, NULL);
	pid_t found[GROUP_MAX];
	size_t n = find_group(r.pid, found);
	pid_t program = program_of(&r);

	if (test_is_watched())
		SKIP("every process has the name of what watches it");
	EXPECT_EQ(n, 3);
	for (size_t i = 0; i < n; i++) {
		if (found[i] == r.pid || found[i] == program)
			continue;
		EXPECT_SOON(looks_like(found[i], program, "comm"));
		EXPECT_SOON(looks_like(found[i], program, "cmdline"));
	}
	EXPECT_STR_EQ(counted(&r), "");
}

TEST(a_signal_to_the_program_alone_comes_once)
{
	struct running r = start_signals(lead_group, NULL);

	EXPECT_EQ(kill(program_of(&r), SIGTERM), 0);
	settle();
	EXPECT_STR_EQ(counted(&r), "SIGTERM 1\n");
}

/* ThreadSanitizer hands a signal to the program's handler at the next call that
 * waits, and then several of one number as one. */
static void
need_prompt_signals(void)
{
#if defined(__SANITIZE_THREAD__)
	SKIP("ThreadSanitizer holds signals back");
#endif
}

TEST(signals_one_after_the_other_all_come)
{
	need_prompt_signals();
	struct running r = start_signals(lead_group, NULL);

	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(kill(r.pid, SIGUSR1), 0);
		settle();
		EXPECT_EQ(kill(-r.pid, SIGUSR1), 0);
		settle();
	}
	EXPECT_STR_EQ(counted(&r), "SIGUSR1 6\n");
}

TEST(the_value_of_a_signal_is_passed_on)
{
	need_prompt_signals();
	struct running r = start_signals(lead_group, NULL);

	EXPECT_EQ(
	    sigqueue(r.pid, SIGRTMIN + 2, (union sigval){ .sival_int = 40 }),
	    0);
	EXPECT_EQ(
	    sigqueue(r.pid, SIGRTMIN + 2, (union sigval){ .sival_int = 2 }), 0);
	settle();
	EXPECT_STR_HAS(counted(&r), " 42\n");
}

static void
set_alarm(void)
{
	const struct itimerval soon = { .it_value.tv_usec = 400 * 1000 };

	setitimer(ITIMER_REAL, &soon, NULL);
}

/* A timer outlives an exec, and belongs to the process that `weir run` is. */
TEST(the_alarm_of_the_caller_comes_to_the_program)
{
	need_prompt_signals();
	struct running r = start_signals(set_alarm, NULL);

	usleep(500 * 1000);
	settle();
	EXPECT_STR_EQ(counted(&r), "SIGALRM 1\n");
}

TEST(keys_of_a_terminal_come_once)
{
	char *program = test_build("tests/programs/signals");
	char text[256] = "";
	size_t used = 0;
	int terminal;
	int status;
	pid_t pid;

	plain_environment();
	fflush(NULL);
	pid = forkpty(&terminal, NULL, NULL, NULL);
	if (pid == 0)
		become_weir(program, NULL);
	EXPECT_GT(pid, 0);
	while (strstr(text, "ready") == NULL)
		used += (size_t)read(terminal, text + used, 8);
	EXPECT_EQ(write(terminal, "\003", 1), 1);
	settle();
	EXPECT_EQ(write(terminal, "\034", 1), 1);
	settle();
	EXPECT_EQ(ioctl(terminal, TIOCSWINSZ,
		      &(struct winsize){ .ws_row = 7, .ws_col = 9 }),
	    0);
	settle();
	EXPECT_EQ(write(terminal, "\004", 1), 1);
	for (ssize_t n = 1; n > 0; used += n > 0 ? (size_t)n : 0)
		n = read(terminal, text + used, sizeof(text) - 1 - used);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_STR_HAS(text, "SIGINT 1\r\nSIGQUIT 1\r\nSIGWINCH 1\r\n");
	free(program);
}

/* ---- Stopping ----------------------------------------------------------- */

static void
expect_stopped_by(const struct running *r, int number)
{
	int status;

	EXPECT_EQ(waitpid(r->pid, &status, WUNTRACED), r->pid);
	EXPECT(WIFSTOPPED(status));
	EXPECT_EQ(WSTOPSIG(status), number);
}

static void
expect_continued(const struct running *r)
{
	int status;

	EXPECT_EQ(waitpid(r->pid, &status, WCONTINUED), r->pid);
	EXPECT(WIFCONTINUED(status));
}

TEST(a_job_stops_and_goes_on)
{
	static const int stops[] = { SIGTSTP, SIGTTIN, SIGTTOU, SIGSTOP };

	for (size_t i = 0; i < sizeof(stops) / sizeof(*stops); i++) {
		struct running r = start_signals(lead_group, NULL);

		EXPECT_EQ(kill(-r.pid, stops[i]), 0);
		expect_stopped_by(&r, stops[i]);
		EXPECT_EQ(kill(-r.pid, SIGCONT), 0);
		expect_continued(&r);
		settle();
		EXPECT_STR_EQ(counted(&r), "SIGCONT 1\n");
	}
}

TEST(stopping_run_alone_stops_the_program)
{
	struct running r = start_signals(lead_group, NULL);

	EXPECT_EQ(kill(r.pid, SIGTSTP), 0);
	expect_stopped_by(&r, SIGTSTP);
	EXPECT_EQ(kill(r.pid, SIGCONT), 0);
	expect_continued(&r);
	settle();
	EXPECT_STR_EQ(counted(&r), "SIGCONT 1\n");
}

TEST(run_is_stopped_while_its_program_is)
{
	struct running r = start_signals(lead_group, "stop");
	pid_t program;
	int status;

	expect_stopped_by(&r, SIGSTOP);
	program = program_of(&r);
	EXPECT_EQ(kill(program, SIGCONT), 0);
	expect_continued(&r);
	read_until(&r, "ready\n");
	EXPECT_EQ(kill(program, SIGSTOP), 0);
	expect_stopped_by(&r, SIGSTOP);
	EXPECT_EQ(kill(program, SIGKILL), 0);
	/* It goes on to its own end, which a waiting process that is late sees
	 * in place of the continuation. */
	EXPECT_EQ(waitpid(r.pid, &status, 0), r.pid);
	EXPECT(WIFSIGNALED(status));
	EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

/* The process of the group that is neither `weir run` nor its program. */
static pid_t
witness_of(const struct running *r, pid_t program)
{
	pid_t found[GROUP_MAX];
	size_t n = find_group(r->pid, found);

	for (size_t i = 0; i < n; i++)
		if (found[i] != r->pid && found[i] != program)
			return found[i];
	FAIL("there is no witness");
}

/* Else a witness that is late would continue it while its program is stopped.
 */
TEST(run_stops_again_when_its_witness_knows_that_it_went_on)
{
	struct running r = start_signals(lead_group, "stop");
	int status;

	expect_stopped_by(&r, SIGSTOP);
	pid_t program = program_of(&r);
	pid_t witness = witness_of(&r, program);
	EXPECT_EQ(kill(witness, SIGSTOP), 0);
	EXPECT_EQ(kill(program, SIGCONT), 0);
	read_until(&r, "ready\n");
	EXPECT_EQ(kill(r.pid, SIGCONT), 0);
	expect_continued(&r);
	EXPECT_EQ(kill(program, SIGSTOP), 0);
	usleep(200 * 1000);
	EXPECT_EQ(waitpid(r.pid, &status, WUNTRACED | WNOHANG), 0);
	EXPECT_EQ(kill(witness, SIGCONT), 0);
	expect_stopped_by(&r, SIGSTOP);
	EXPECT_EQ(kill(program, SIGKILL), 0);
	EXPECT_EQ(waitpid(r.pid, &status, 0), r.pid);
	EXPECT(WIFSIGNALED(status));
}

/* ---- Ends --------------------------------------------------------------- */

/* Run a shell's command under `weir run`. */
static int
status_of(const char *command)
{
	struct command_result result;
	int status;

	plain_environment();
	result = command_weir("run", "--sim", "sh", "-c", command, NULL);
	status = result.signal != 0 ? 128 + result.signal : result.status;
	command_free(&result);
	return status;
}

TEST(any_status_and_signal_of_the_program_is_that_of_run)
{
	char command[64];

	/* Under nohup the program would ignore it. */
	signal(SIGHUP, SIG_DFL);
	EXPECT_EQ(status_of("exit 0"), 0);
	EXPECT_EQ(status_of("exit 1"), 1);
	EXPECT_EQ(status_of("exit 200"), 200);
	for (int i = 1; i < 32; i++) {
		if (i == SIGCHLD || i == SIGCONT || i == SIGTSTP ||
		    i == SIGTTIN || i == SIGTTOU || i == SIGURG ||
		    i == SIGWINCH || i == SIGSTOP)
			continue;
		/* A tool ends the program by its own report. */
		if (test_is_watched() &&
		    (i == SIGSEGV || i == SIGBUS || i == SIGFPE || i == SIGILL))
			continue;
		snprintf(
		    command, sizeof(command), "ulimit -c 0; kill -%d $$", i);
		EXPECT_EQ(status_of(command), 128 + i);
	}
}

/* A limit that the ledger does not fit below. */
TEST(a_small_limit_for_files_leaves_the_status)
{
	const struct rlimit small = { .rlim_cur = 4096, .rlim_max = 4096 };

	EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
	EXPECT_EQ(status_of("exit 7"), 7);
}

TEST(nothing_stays_behind)
{
	struct running r = start_signals(lead_group, NULL);
	pid_t group = r.pid;
	pid_t found[GROUP_MAX];

	EXPECT_GE(find_group(group, found), 2);
	EXPECT_STR_EQ(counted(&r), "");
	EXPECT_EQ(find_group(group, found), 0);
	r = start_signals(lead_group, NULL);
	group = r.pid;
	EXPECT_EQ(kill(r.pid, SIGKILL), 0);
	EXPECT_EQ(waitpid(r.pid, &(int){ 0 }, 0), r.pid);
	for (int i = 0; i < 500 && find_group(group, found) > 0; i++)
		usleep(10 * 1000);
	EXPECT_EQ(find_group(group, found), 0);
}
