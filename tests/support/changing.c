/*
 * The file is changed at random, with pauses that are shorter than a read.
 */
#include "tests/support/changing.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test.h"

enum {
	READS = 200,
	READ_SECONDS = 10,
	MEMORY_MB = 1024, /* what a reader may need for such a small file */
};

struct content
content_of(const char *path)
{
	struct content content = { .bytes = malloc(CONTENT_MAX) };
	FILE *file = fopen(path, "rb");

	EXPECT_NOT_NULL(content.bytes);
	if (file == NULL)
		FAIL("%s: %s", path, strerror(errno));
	content.size = fread(content.bytes, 1, CONTENT_MAX, file);
	EXPECT_LT(content.size, CONTENT_MAX);
	fclose(file);
	return content;
}

/* ---- The process that changes the file ----------------------------------- */

static uint32_t
next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void
write_at(int fd, const void *bytes, size_t size, size_t offset)
{
	if (pwrite(fd, bytes, size, (off_t)offset) != (ssize_t)size)
		_exit(1);
}

static void
change_file(int fd, const struct content *content, uint32_t *random)
{
	enum { NOISE = 64 };
	const size_t place = next_random(random) % content->size;
	uint32_t noise[NOISE / 4];

	for (int i = 0; i < NOISE / 4; i++)
		noise[i] = next_random(random);
	switch (next_random(random) % 8) {
	case 0:
		if (ftruncate(fd, (off_t)place) != 0)
			_exit(1);
		break;
	case 1:
		write_at(fd, noise, 1 + next_random(random) % NOISE, place);
		break;
	case 2:
		write_at(fd, noise, NOISE, content->size + place);
		break;
	case 3: /* parts in another place */
		write_at(fd, content->bytes + place, content->size - place, 0);
		break;
	case 4:
		if (ftruncate(fd, 0) != 0)
			_exit(1);
		/* fall through */
	default:
		write_at(fd, content->bytes, content->size, 0);
	}
}

static pid_t
start_changing(const char *path, const struct content *content)
{
	pid_t parent = getpid();
	uint32_t random = 1 + test_offset();
	pid_t child = fork();
	int fd;

	EXPECT_NE(child, -1);
	if (child != 0)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || getppid() != parent)
		_exit(1);
	for (;;) {
		struct timespec pause = { 0,
			(long)(next_random(&random) % 200000) };

		change_file(fd, content, &random);
		nanosleep(&pause, NULL);
	}
}

static void
stop_changing(pid_t child)
{
	int status;

	/* It has changed the file all the time. */
	EXPECT_EQ(waitpid(child, &status, WNOHANG), 0);
	EXPECT_EQ(kill(child, SIGKILL), 0);
	EXPECT_EQ(waitpid(child, &status, 0), child);
}

/* ---- The process that reads it --------------------------------------------
 */

static double
seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Read the file again and again while it changes, and once as it was. */
void
changing_read(
    const char *path, const struct content *content, changing_reader *read)
{
	const uint64_t reads = test_effort(READS);
	pid_t child = start_changing(path, content);
	struct rusage before;
	struct rusage after;
	uint64_t good = 0;
	char why[1024];
	int fd;

	getrusage(RUSAGE_SELF, &before);
	for (uint64_t i = 0; i < reads; i++) {
		double start = seconds_now();

		why[0] = '\0';
		if (read(path, why, sizeof(why)))
			good++;
		else
			EXPECT_GT(strlen(why), 4);
		EXPECT_LT(seconds_now() - start, test_seconds(READ_SECONDS));
	}
	getrusage(RUSAGE_SELF, &after);
	EXPECT_LT((after.ru_maxrss - before.ru_maxrss) / 1024, MEMORY_MB);
	stop_changing(child);
	fprintf(stderr, "# %llu reads, %llu of them good\n",
	    (unsigned long long)reads, (unsigned long long)good);
	fd = open(path, O_RDWR | O_TRUNC | O_CLOEXEC);
	write_at(fd, content->bytes, content->size, 0);
	close(fd);
	if (!read(path, why, sizeof(why)))
		FAIL("%s is not read as it was: %s", path, why);
}
