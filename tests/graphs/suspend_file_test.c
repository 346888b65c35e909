/*
 * Devices that sleep with their contents in files (option sleep_folder). The
 * calls on files are this program's, so that they fail when a test wants it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/host.h>
#include <weir/sleep.h>

#include "allocator/allocator.h"
#include "graphs/suspend_file.h"
#include "graphs/tuning.h"
#include "tests/support/device.h"

/* ---- Calls that fail ---------------------------------------------------- */

enum { OPEN, RESERVE, WRITE, READ, FLUSH, FILE_CALLS };

/* From the nth call on, `count` calls fail with an errno. -1: they move only
 * half of the bytes; of one byte, all. */
static struct fault {
	atomic_uint calls;
	unsigned nth;
	unsigned count;
	int error;
} faults[FILE_CALLS];

static void
fail_file(int call, unsigned nth, unsigned count, int error)
{
	memset(faults, 0, sizeof(faults));
	faults[call].nth = nth;
	faults[call].count = count;
	faults[call].error = error;
}

/* Is this call to fail? Returns an errno, or -1 for half of the bytes. */
static int
fault_now(int call)
{
	struct fault *fault = &faults[call];
	unsigned n = atomic_fetch_add(&fault->calls, 1) + 1;

	return fault->nth != 0 && n >= fault->nth &&
		n - fault->nth < fault->count ?
	    fault->error :
	    0;
}

/* The folder that a test sleeps in; "" before test_folder(). */
static char folder[64];

/* The C library's names of parameters are reserved.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

int
open(const char *path, int flags, ...)
{
	va_list list;
	int error = (flags & O_TMPFILE) == O_TMPFILE ? fault_now(OPEN) : 0;

	va_start(list, flags);
	unsigned mode =
	    (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, unsigned) : 0;
	va_end(list);
	if (error != 0) {
		errno = error;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int
posix_fallocate(int fd, off_t at, off_t n)
{
	int error = fault_now(RESERVE);

	if (error != 0)
		return error;
	return syscall(SYS_fallocate, fd, 0, at, n) == 0 ? 0 : errno;
}

/* The bytes to move, or 0 with errno. */
static size_t
bytes_now(int call, size_t n)
{
	int error = fault_now(call);

	if (error == -1)
		return n > 1 ? n / 2 : n;
	errno = error;
	return error == 0 ? n : 0;
}

ssize_t
pwrite(int fd, const void *bytes, size_t n, off_t at)
{
	n = bytes_now(WRITE, n);
	return n != 0 ? syscall(SYS_pwrite64, fd, bytes, n, at) : -1;
}

ssize_t
pread(int fd, void *bytes, size_t n, off_t at)
{
	n = bytes_now(READ, n);
	return n != 0 ? syscall(SYS_pread64, fd, bytes, n, at) : -1;
}

int
fdatasync(int fd)
{
	int error = fault_now(FLUSH);

	if (error == 0)
		return (int)syscall(SYS_fdatasync, fd);
	errno = error;
	return -1;
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

/* ---- What is there ------------------------------------------------------ */

enum { LIVE = 60 * MIB };

/* Live memory whose every MiB has another value. */
static unsigned char *
take_live(weir_stream stream)
{
	unsigned char *live = take(LIVE, stream);

	fill_parts(live, LIVE, LIVE / MIB, stream);
	finish(stream);
	return live;
}

static void
expect_live(const unsigned char *live, weir_stream stream)
{
	expect_parts(live, LIVE, LIVE / MIB, stream);
}

static void
make_folder(void)
{
	strcpy(folder, "/tmp/weir-sleep-test-XXXXXX");
	EXPECT(mkdtemp(folder) != NULL);
}

/* Sleep in the folder from now on. */
static void
use_folder(void)
{
	char text[128];

	snprintf(text, sizeof(text), "may_sleep:True,sleep_folder:%s", folder);
	conf(text);
}

static void
test_folder(void)
{
	make_folder();
	use_folder();
}

/* The entries of the folder. */
static int
count_entries(void)
{
	DIR *dir = opendir(folder);
	int n = 0;

	EXPECT(dir != NULL);
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n - 2;
}

/* The descriptor of a file in the folder; -1: there is none. */
static int
find_descriptor(struct stat *about)
{
	struct stat home;

	EXPECT_EQ(stat(folder, &home), 0);
	for (int fd = 3; fd < 1024; fd++)
		if (fstat(fd, about) == 0 && S_ISREG(about->st_mode) &&
		    about->st_nlink == 0 && about->st_dev == home.st_dev &&
		    about->st_size == LIVE)
			return fd;
	return -1;
}

/* A sleep fails because of a file, and nothing has changed. */
static void
expect_refused(
    const unsigned char *live, weir_stream stream, const char *reason)
{
	struct stat about;
	uint64_t held = reserved();

	EXPECT_STATUS(weir_sleep(0, NULL, NULL), WEIR_EFILE);
	EXPECT_STR_HAS(weir_last_error(), "sleep_folder");
	EXPECT_STR_HAS(weir_last_error(), reason);
	EXPECT(!weir_is_asleep(0));
	EXPECT_EQ(reserved(), held);
	EXPECT_EQ(host_stats().allocated_bytes.all.current, 0);
	EXPECT_EQ(find_descriptor(&about), -1);
	EXPECT_EQ(count_entries(), 0);
	expect_live(live, stream);
	expect_healthy();
}

/* Sleep and wake work. */
static void
expect_sleep(const unsigned char *live, weir_stream stream)
{
	EXPECT_OK(weir_sleep(0, NULL, NULL));
	EXPECT_EQ(reserved(), 0);
	EXPECT_OK(weir_wake(0, 0, NULL));
	expect_live(live, stream);
	expect_healthy();
}

/* ---- Contents ----------------------------------------------------------- */

TEST(contents_are_in_a_file_without_a_name_and_come_back)
{
	weir_stream stream = new_stream();
	struct weir_sleep_result slept = { .struct_size = sizeof(slept) };
	struct weir_wake_result woken = { .struct_size = sizeof(woken) };
	struct stat about;

	test_folder();
	unsigned char *live = take_live(stream);
	unsigned char *small = take(1000, stream);
	fill(small, 1000, 77, stream);
	for (int i = 0; i < 3; i++) {
		EXPECT_OK(weir_sleep(0, NULL, &slept));
		EXPECT_EQ(slept.copied_bytes, LIVE + 1024);
		EXPECT_EQ(reserved(), 0);
		EXPECT_EQ(host_stats().allocated_bytes.all.current, 0);
		EXPECT_EQ(count_entries(), 0);
		expect_healthy();
		EXPECT_OK(weir_wake(0, 0, &woken));
		EXPECT_EQ(woken.copied_bytes, slept.copied_bytes);
		expect_live(live, stream);
		expect_filled(small, 1000, 77, stream);
		EXPECT_EQ(find_descriptor(&about), -1);
	}
	EXPECT_LE(host_stats().reserved_bytes.all.peak,
	    SLEEP_FILE_THREADS * SLEEP_FILE_PIECE);
	give(live);
	give(small);
	expect_healthy();
	rmdir(folder);
}

TEST(only_the_user_reads_the_file)
{
	weir_stream stream = new_stream();
	struct stat about;

	test_folder();
	unsigned char *live = take_live(stream);
	for (int i = 0; i < 2; i++) {
		/* The second file is made where there is no O_TMPFILE. */
		fail_file(OPEN, (unsigned)i, 1, EOPNOTSUPP);
		EXPECT_OK(weir_sleep(0, NULL, NULL));
		EXPECT_EQ(count_entries(), 0);
		int fd = find_descriptor(&about);
		EXPECT_GE(fd, 3);
		EXPECT_EQ(about.st_mode & 07777, 0600);
		EXPECT_EQ(about.st_blocks * 512 >= LIVE, 1);
		EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
		EXPECT_OK(weir_wake(0, 0, NULL));
		expect_live(live, stream);
		EXPECT_EQ(find_descriptor(&about), -1);
	}
	rmdir(folder);
}

TEST(the_option_is_heeded_by_the_next_sleep)
{
	weir_stream stream = new_stream();

	test_folder();
	unsigned char *live = take_live(stream);
	EXPECT_OK(weir_sleep(0, NULL, NULL));
	conf("sleep_folder:none");
	EXPECT_OK(weir_wake(0, 0, NULL));
	expect_live(live, stream);
	EXPECT_OK(weir_sleep(0, NULL, NULL));
	EXPECT_EQ(host_stats().allocated_bytes.all.current, LIVE);
	use_folder();
	EXPECT_OK(weir_wake(0, 0, NULL));
	expect_live(live, stream);
	expect_sleep(live, stream);
	rmdir(folder);
}

/* ---- Failures ----------------------------------------------------------- */

TEST(a_folder_that_is_not_there_refuses_the_sleep)
{
	weir_stream stream = new_stream();

	test_folder();
	unsigned char *live = take_live(stream);
	conf("sleep_folder:/tmp/no/such/folder");
	expect_refused(live, stream, "No such file or directory");
	conf("sleep_folder:none");
	expect_sleep(live, stream);
	rmdir(folder);
}

TEST(a_limit_on_files_refuses_the_sleep_and_sends_no_signal)
{
	weir_stream stream = new_stream();
	struct rlimit before;

	test_folder();
	unsigned char *live = take_live(stream);
	EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
	struct rlimit small = { .rlim_cur = LIVE - MIB,
		.rlim_max = before.rlim_max };
	EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
	expect_refused(live, stream, "File too large");
	EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
	expect_sleep(live, stream);
	rmdir(folder);
}

TEST(a_full_disk_refuses_the_sleep)
{
	if (unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0)
		SKIP("no file system can be mounted here");
	make_folder();
	EXPECT_EQ(mount("none", folder, "tmpfs", 0, "size=40m"), 0);
	use_folder();
	weir_stream stream = new_stream();
	unsigned char *live = take_live(stream);
	expect_refused(live, stream, "No space left on device");
	EXPECT_EQ(faults[WRITE].calls, 0);
	give(live);
	unsigned char *less = take(20 * MIB, stream);
	fill(less, 20 * MIB, 3, stream);
	EXPECT_OK(weir_sleep(0, NULL, NULL));
	EXPECT_OK(weir_wake(0, 0, NULL));
	expect_filled(less, 20 * MIB, 3, stream);
	EXPECT_EQ(umount(folder), 0);
	rmdir(folder);
}

TEST(short_and_interrupted_calls_go_on)
{
	weir_stream stream = new_stream();

	test_folder();
	unsigned char *live = take_live(stream);
	for (unsigned nth = 1; nth < 4; nth++) {
		fail_file(WRITE, nth, 20, -1);
		expect_sleep(live, stream);
		fail_file(WRITE, nth, 3, EINTR);
		expect_sleep(live, stream);
		fail_file(READ, nth, 20, -1);
		expect_sleep(live, stream);
		fail_file(READ, nth, 3, EINTR);
		expect_sleep(live, stream);
	}
	fail_file(FLUSH, 1, 3, EINTR);
	expect_sleep(live, stream);
	fail_file(RESERVE, 1, 3, EINTR);
	expect_sleep(live, stream);
	rmdir(folder);
}

TEST(each_call_on_the_file_may_fail_once_or_from_then_on)
{
	static const unsigned counts[] = { 1, 1000000 };
	static const int before_sleep[] = { RESERVE, WRITE, FLUSH };
	weir_stream stream = new_stream();

	test_folder();
	unsigned char *live = take_live(stream);
	for (unsigned i = 0; i < 6; i++)
		for (unsigned nth = 1; nth < 8; nth += 3) {
			int call = before_sleep[i / 2];
			if (call != WRITE && nth > 1)
				continue;
			fail_file(call, nth, counts[i % 2], EIO);
			expect_refused(live, stream, "Input/output error");
			EXPECT_EQ(faults[READ].calls, 0);
			fail_file(call, 0, 0, 0);
			expect_sleep(live, stream);
		}
	for (unsigned i = 0; i < 2; i++)
		for (unsigned nth = 1; nth < 8; nth += 3) {
			EXPECT_OK(weir_sleep(0, NULL, NULL));
			fail_file(READ, nth, counts[i], EIO);
			EXPECT_STATUS(weir_wake(0, 0, NULL), WEIR_EFILE);
			EXPECT_STR_HAS(weir_last_error(), "Input/output error");
			EXPECT(weir_is_asleep(0));
			EXPECT_EQ(reserved(), 0);
			expect_healthy();
			fail_file(READ, 0, 0, 0);
			EXPECT_OK(weir_wake(0, 0, NULL));
			expect_live(live, stream);
		}
	rmdir(folder);
}

TEST(a_wake_is_repeated_when_there_is_memory)
{
	size_t total = device_total(0);

	device_need_sim("the device's memory is changed");
	weir_stream stream = new_stream();
	test_folder();
	unsigned char *live = take_live(stream);
	EXPECT_OK(weir_sleep(0, NULL, NULL));
	size_t used = sim()->memory_used(0);
	EXPECT_EQ(sim()->set_memory(0, used + 20 * MIB), CUDA_SUCCESS);
	for (int i = 0; i < 2; i++) {
		EXPECT_STATUS(weir_wake(0, 0, NULL), WEIR_ENOMEM);
		EXPECT(weir_is_asleep(0));
		EXPECT_EQ(sim()->memory_used(0), used);
	}
	EXPECT_EQ(sim()->set_memory(0, total), CUDA_SUCCESS);
	EXPECT_OK(weir_wake(0, 0, NULL));
	expect_live(live, stream);
	rmdir(folder);
}

TEST(a_wake_without_host_memory_fails_and_is_repeated)
{
	weir_stream stream = new_stream();

	test_folder();
	unsigned char *live = take_live(stream);
	conf("pinned_limit_mb:0");
	EXPECT_STATUS(weir_sleep(0, NULL, NULL), WEIR_EHOSTMEM);
	EXPECT(!weir_is_asleep(0));
	/* One buffer is enough. */
	conf("pinned_limit_mb:12");
	expect_sleep(live, stream);
	EXPECT_OK(weir_sleep(0, NULL, NULL));
	EXPECT_OK(weir_host_trim(WEIR_DEVICE_ALL, 0, NULL));
	conf("pinned_limit_mb:0");
	EXPECT_STATUS(weir_wake(0, 0, NULL), WEIR_EHOSTMEM);
	EXPECT(weir_is_asleep(0));
	EXPECT_EQ(reserved(), 0);
	conf("pinned_limit_mb:unlimited");
	EXPECT_OK(weir_wake(0, 0, NULL));
	expect_live(live, stream);
	rmdir(folder);
}

/* ---- Other owners of the descriptor ------------------------------------- */

TEST(a_file_that_the_program_opens_under_its_number_is_not_touched)
{
	weir_stream stream = new_stream();
	struct stat about;
	char bytes[16] = { 0 };

	test_folder();
	take_live(stream);
	EXPECT_OK(weir_sleep(0, NULL, NULL));
	int fd = find_descriptor(&about);
	EXPECT_GE(fd, 3);
	int kept = dup(fd);
	int own[2];
	EXPECT_EQ(pipe(own), 0);
	EXPECT_EQ(dup2(own[0], fd), fd);
	EXPECT_STATUS(weir_wake(0, 0, NULL), WEIR_EFILE);
	EXPECT_STR_HAS(weir_last_error(), "Bad file descriptor");
	EXPECT(weir_is_asleep(0));
	EXPECT_EQ(write(own[1], "still here", 11), 11);
	EXPECT_EQ(read(fd, bytes, sizeof(bytes)), 11);
	EXPECT_STR_EQ(bytes, "still here");
	EXPECT_EQ(dup2(kept, fd), fd);
	EXPECT_OK(weir_wake(0, 0, NULL));
	rmdir(folder);
}

TEST(a_forked_child_does_not_keep_the_space)
{
	weir_stream stream = new_stream();
	struct stat about;
	int status = 0;
	int go[2];
	char byte = 0;

	test_folder();
	unsigned char *live = take_live(stream);
	EXPECT_OK(weir_sleep(0, NULL, NULL));
	int fd = find_descriptor(&about);
	EXPECT_EQ(pipe(go), 0);
	pid_t child = fork();
	if (child == 0) {
		bool told = read(go[0], &byte, 1) == 1;
		_exit(told && fstat(fd, &about) == 0 && about.st_size == 0 ? 0 :
									     1);
	}
	EXPECT_OK(weir_wake(0, 0, NULL));
	EXPECT_EQ(write(go[1], "x", 1), 1);
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
	expect_live(live, stream);
	rmdir(folder);
}

TEST(a_reset_of_the_device_ends_the_file)
{
	struct stat about;

	device_need_sim("the device is reset");
	weir_stream stream = new_stream();
	test_folder();
	take_live(stream);
	EXPECT_OK(weir_sleep(0, NULL, NULL));
	EXPECT_GE(find_descriptor(&about), 3);
	allocator_forget_device(0);
	EXPECT_EQ(find_descriptor(&about), -1);
	rmdir(folder);
}
