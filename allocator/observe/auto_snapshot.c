/*
 * Snapshots that options ask for.
 */
#include "allocator/observe/auto_snapshot.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <weir/trace.h>

#include "base/log.h"
#include "base/os.h"
#include "base/status.h"

/* Set by auto_snapshot_begin(), constant afterwards. The path is absolute: the
 * program may change its working directory. */
static char pattern[PATH_MAX + OPTION_PATH]; /* "": no snapshots */
static unsigned process;
static uint64_t began_ns; /* since 1970 */

static atomic_bool begun;
/* An out-of-memory failure was reported; its snapshot was written. */
static atomic_bool oom_reported;
static atomic_bool oom_kept;
/* The file that this process wrote last; 0: none. */
static _Atomic uint64_t own_inode;

/* Is this the process that began, and not a child that it forked? A child has
 * no device memory and writes no snapshot. */
static bool
is_attended(void)
{
	return atomic_load(&begun) && !os_forked() &&
	    process == os_process_id();
}

/* ---- Snapshots --------------------------------------------------------- */

static const char *
word_of_why(enum auto_snapshot_why why)
{
	static const char *const words[] = { "exit", "oom", "signal" };

	return words[why];
}

/* Write the snapshot's path, with "%p" and "%w" replaced. False: it is too
 * long. */
static bool
path_of_snapshot(enum auto_snapshot_why why, char *path, size_t size)
{
	size_t used = 0;

	for (const char *c = pattern; *c != '\0' && used < size; c++) {
		int n;

		if (c[0] == '%' && c[1] == 'p')
			n = snprintf(path + used, size - used, "%u", process);
		else if (c[0] == '%' && c[1] == 'w')
			n = snprintf(
			    path + used, size - used, "%s", word_of_why(why));
		else
			n = snprintf(path + used, size - used, "%c", *c);
		c += c[0] == '%' && (c[1] == 'p' || c[1] == 'w');
		used += (size_t)n;
	}
	return used < size;
}

/*
 * Has another process of this run written the file at this path? A program
 * inherits the options of its parent and would replace the parent's snapshot. A
 * file is replaced if it is older than the run: older than the start of `weir
 * run` (WEIR_RUN_START, in ns since 1970) or, without that, older than the
 * start of this process.
 */
static bool
is_anothers(const char *path)
{
	struct stat about;
	const char *run = getenv("WEIR_RUN_START");
	uint64_t start =
	    run != NULL && *run != '\0' ? strtoull(run, NULL, 10) : began_ns;

	if (strstr(pattern, "%p") != NULL || stat(path, &about) != 0 ||
	    !S_ISREG(about.st_mode) || about.st_ino == atomic_load(&own_inode))
		return false;
	return (uint64_t)about.st_mtim.tv_sec * 1000000000 +
	    (uint64_t)about.st_mtim.tv_nsec >=
	    start;
}

/* Insert the process's number before the ending: "a.pickle" is
 * "a.4711.pickle". */
static bool
add_process(char *path, size_t size)
{
	char name[PATH_MAX];
	const char *slash = strrchr(path, '/');
	const char *dot = strrchr(slash != NULL ? slash : path, '.');
	size_t stem = dot != NULL ? (size_t)(dot - path) : strlen(path);
	int n = snprintf(name, sizeof(name), "%.*s.%u%s", (int)stem, path,
	    process, path + stem);

	if (n < 0 || (size_t)n >= sizeof(name) || (size_t)n >= size)
		return false;
	memcpy(path, name, (size_t)n + 1);
	return true;
}

static void
remember_own(const char *path)
{
	struct stat about;

	if (stat(path, &about) == 0)
		atomic_store(&own_inode, (uint64_t)about.st_ino);
}

static enum weir_snapshot_format
format_of(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot != NULL && strcmp(dot, ".json") == 0 ? WEIR_SNAPSHOT_JSON :
							  WEIR_SNAPSHOT_PICKLE;
}

static __attribute__((noinline)) bool
write_asked_snapshot(enum auto_snapshot_why why)
{
	char path[PATH_MAX];
	bool named = path_of_snapshot(why, path, sizeof(path));
	bool moved = named && is_anothers(path);

	if (!named || (moved && !add_process(path, sizeof(path)))) {
		log_write(LOG_ERROR, "snapshot: the name is too long");
		return false;
	}
	status_mute();
	bool written =
	    weir_snapshot_write(path, format_of(path), NULL) == WEIR_OK;
	if (!written)
		log_write(LOG_ERROR, "snapshot: %s", status_latest_text());
	else if (why != AUTO_SNAPSHOT_EXIT || moved)
		log_write(LOG_WARN, "snapshot (%s): wrote %s", word_of_why(why),
		    path);
	status_unmute();
	if (written)
		remember_own(path);
	return written;
}

struct order {
	enum auto_snapshot_why why;
	bool written;
};

static void *
run_order(void *argument)
{
	struct order *order = argument;

	order->written = write_asked_snapshot(order->why);
	return NULL;
}

/* A thread with too little stack starts another one to write it. */
bool
auto_snapshot_write(enum auto_snapshot_why why)
{
	struct order order = { .why = why };
	pthread_t thread;

	if (!is_attended() || pattern[0] == '\0')
		return false;
	if (os_stack_left() >= AUTO_SNAPSHOT_STACK)
		return write_asked_snapshot(why);
	if (!os_thread_start(&thread, run_order, &order)) {
		log_write(LOG_ERROR, "snapshot: no thread to write it");
		return false;
	}
	pthread_join(thread, NULL);
	return order.written;
}

void
auto_snapshot_oom(void)
{
	if (is_attended() && !atomic_exchange(&oom_reported, true))
		atomic_store(&oom_kept, auto_snapshot_write(AUTO_SNAPSHOT_OOM));
}

/* The driver may have been unloaded; a snapshot does not call it. Without "%w"
 * the snapshot of a failure has the same path and is kept. */
void
auto_snapshot_exit(void)
{
	if (!atomic_load(&oom_kept) || strstr(pattern, "%w") != NULL)
		auto_snapshot_write(AUTO_SNAPSHOT_EXIT);
}

/* ---- Beginning --------------------------------------------------------- */

static void
begin_snapshots(const struct options *asked)
{
	size_t used = 0;

	if (asked->snapshot[0] == '\0')
		return;
	if (asked->snapshot[0] != '/') {
		if (getcwd(pattern, PATH_MAX) == NULL) {
			pattern[0] = '\0';
			log_write(LOG_ERROR,
			    "snapshot: %s: cannot tell where that is",
			    asked->snapshot);
			return;
		}
		used = strlen(pattern);
	}
	snprintf(pattern + used, sizeof(pattern) - used, "%s%s",
	    used > 0 ? "/" : "", asked->snapshot);
	if (atexit(auto_snapshot_exit) != 0)
		log_write(LOG_ERROR, "snapshot: none at the end: no memory");
}

void
auto_snapshot_begin(const struct options *asked)
{
	struct timespec now;

	process = os_process_id();
	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	began_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	begin_snapshots(asked);
	atomic_store(&begun, true);
}

bool
auto_snapshot_has_begun(void)
{
	return atomic_load(&begun);
}
