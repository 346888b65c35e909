/*
 * Other processes: whether they have ended.
 */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/os.h"
#include "tests/support/test.h"

/* A process that waits until it is killed, and the time of its start. */
static pid_t
start_child(uint64_t *started)
{
	struct process_stat stat;
	pid_t pid = fork();

	if (pid == 0) {
		for (;;)
			pause();
	}
	EXPECT_EQ(process_read((uint64_t)pid, &stat), 0);
	*started = stat.started;
	return pid;
}

static void
end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	EXPECT_EQ(waitpid(pid, NULL, 0), pid);
}

/* Kill it, and leave its number. */
static void
make_zombie(pid_t pid)
{
	siginfo_t info;

	kill(pid, SIGKILL);
	EXPECT_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

/* Use up all descriptors but `left`. */
static void
use_up_descriptors(unsigned left)
{
	struct rlimit few = { .rlim_cur = 64, .rlim_max = 64 };
	int last = -1;

	EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0;)
		last = fd;
	EXPECT_EQ(errno, EMFILE);
	while (left-- > 0)
		close(last--);
}

TEST(a_running_process_has_not_ended_and_a_killed_one_has)
{
	uint64_t started;
	pid_t pid = start_child(&started);

	EXPECT_GT(started, 0);
	EXPECT(!process_has_ended((uint64_t)pid, started));
	EXPECT(!process_has_ended((uint64_t)pid, 0));
	make_zombie(pid);
	EXPECT(process_has_ended((uint64_t)pid, started));
	EXPECT(process_has_ended((uint64_t)pid, 0));
	end_child(pid);
	EXPECT(process_has_ended((uint64_t)pid, started));
}

TEST(a_stopped_process_has_not_ended)
{
	struct process_stat stat;
	uint64_t started;
	pid_t pid = start_child(&started);
	siginfo_t info;

	kill(pid, SIGSTOP);
	EXPECT_EQ(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
	EXPECT(!process_has_ended((uint64_t)pid, started));
	EXPECT_EQ(process_read((uint64_t)pid, &stat), 0);
	EXPECT_EQ(stat.state, 'T');
	end_child(pid);
}

TEST(a_process_with_the_number_of_an_ended_one_is_another_one)
{
	uint64_t started;
	pid_t pid = start_child(&started);

	EXPECT(process_has_ended((uint64_t)pid, started - 1));
	end_child(pid);
}

TEST(a_process_that_cannot_be_asked_about_has_not_ended)
{
	struct process_stat stat;
	uint64_t started;

	if (test_is_watched())
		SKIP("valgrind does not let the limit of descriptors change");
	pid_t pid = start_child(&started);

	/* With one descriptor left there is a pidfd, and no file of /proc. */
	use_up_descriptors(1);
	EXPECT(!process_has_ended((uint64_t)pid, started));
	int last = open("/dev/null", O_RDONLY);
	EXPECT_GE(last, 0);
	EXPECT_EQ(process_read((uint64_t)pid, &stat), EMFILE);
	EXPECT(!process_has_ended((uint64_t)pid, started));
	make_zombie(pid);
	close(last);
	EXPECT(process_has_ended((uint64_t)pid, started));
	end_child(pid);
}

TEST(a_name_with_parentheses_and_spaces_is_no_state)
{
	struct process_stat stat;
	uint64_t started;
	pid_t pid;

	prctl(PR_SET_NAME, ") Z 1 (");
	pid = start_child(&started);
	EXPECT_EQ(process_read((uint64_t)pid, &stat), 0);
	EXPECT_EQ(stat.threads, 1);
	EXPECT_NE(stat.state, 'Z');
	EXPECT_EQ(process_read(os_process_id(), &stat), 0);
	EXPECT_LT(stat.arguments, stat.arguments_end);
	EXPECT_EQ(stat.started, process_own_start());
	EXPECT(started >= process_own_start());
	end_child(pid);
}

TEST(a_descriptor_tells_the_end_of_its_process)
{
	uint64_t started;
	pid_t pid = start_child(&started);
	int pidfd = process_open(pid);

	if (pidfd < 0 && errno == ENOSYS)
		SKIP("this kernel has no pidfd_open()");
	EXPECT(!process_fd_ended(pidfd));
	make_zombie(pid);
	EXPECT(process_fd_ended(pidfd));
	end_child(pid);
	EXPECT(process_fd_ended(pidfd));
	EXPECT(!process_fd_ended(-1));
	close(pidfd);
}

/* ---- Words in shared memory --------------------------------------------- */

TEST(a_wait_on_a_shared_word_ends_by_a_wake_of_another_process)
{
	_Atomic(uint32_t) *word = mmap(NULL, sizeof(*word),
	    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	EXPECT(word != MAP_FAILED);
	pid_t pid = fork();

	if (pid == 0) {
		usleep(50 * 1000);
		atomic_store(word, 1);
		futex_shared_wake(word);
		_exit(0);
	}
	while (atomic_load(word) == 0)
		futex_shared_wait(word, 0, UINT64_C(60000000000));
	EXPECT_EQ(waitpid(pid, NULL, 0), pid);
}

TEST(a_wait_on_a_shared_word_ends_after_its_time_or_at_once)
{
	_Atomic(uint32_t) word = 0;
	uint64_t began_ns = os_monotonic_ns();

	futex_shared_wait(&word, 0, 20 * 1000000);
	EXPECT_GE(os_monotonic_ns() - began_ns, 20 * 1000000);
	errno = 7;
	futex_shared_wait(&word, 1, UINT64_C(60000000000));
	EXPECT_EQ(errno, 7);
}
