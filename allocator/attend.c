/*
 * History and snapshots that options ask for.
 */
#include "allocator/attend.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/trace.h>

#include "base/log.h"
#include "base/os.h"
#include "base/status.h"

/* Set by begin(), constant afterwards. The program may change its folder. */
static char pattern[PATH_MAX + OPTION_PATH]; /* "": no snapshots */
static unsigned process;

static atomic_bool begun;
/* A failure has been told of, and there is a snapshot of it. */
static atomic_bool oom_told;
static atomic_bool oom_kept;

/* What a fork has left of the process has nothing to tell. */
static bool
is_attended(void)
{
	return atomic_load(&begun) && !os_forked() &&
	    process == os_process_id();
}

/* ---- Snapshots --------------------------------------------------------- */

static const char *
word_of(enum attend_why why)
{
	static const char *const words[] = { "exit", "oom", "signal" };

	return words[why];
}

/* The name with "%p" and "%w" replaced. False: it is too long. */
static bool
name_of(enum attend_why why, char *path, size_t size)
{
	size_t used = 0;

	for (const char *c = pattern; *c != '\0' && used < size; c++) {
		int n;

		if (c[0] == '%' && c[1] == 'p')
			n = snprintf(path + used, size - used, "%u", process);
		else if (c[0] == '%' && c[1] == 'w')
			n = snprintf(
			    path + used, size - used, "%s", word_of(why));
		else
			n = snprintf(path + used, size - used, "%c", *c);
		c += c[0] == '%' && (c[1] == 'p' || c[1] == 'w');
		used += (size_t)n;
	}
	return used < size;
}

static enum weir_snapshot_format
format_of(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot != NULL && strcmp(dot, ".json") == 0 ? WEIR_SNAPSHOT_JSON :
							  WEIR_SNAPSHOT_PICKLE;
}

bool
attend_snapshot(enum attend_why why)
{
	char path[PATH_MAX];

	if (!is_attended() || pattern[0] == '\0')
		return false;
	if (!name_of(why, path, sizeof(path))) {
		log_write(LOG_ERROR, "snapshot: the name is too long");
		return false;
	}
	status_mute();
	bool written =
	    weir_snapshot_write(path, format_of(path), NULL) == WEIR_OK;
	if (!written)
		log_write(LOG_ERROR, "snapshot: %s", status_latest_text());
	else if (why != ATTEND_EXIT)
		log_write(
		    LOG_WARN, "snapshot (%s): wrote %s", word_of(why), path);
	status_unmute();
	return written;
}

void
attend_oom(void)
{
	if (is_attended() && !atomic_exchange(&oom_told, true))
		atomic_store(&oom_kept, attend_snapshot(ATTEND_OOM));
}

/* The driver may be gone; a snapshot asks it nothing. One of a failure stays
 * where both have one name. */
static void
at_exit(void)
{
	if (!atomic_load(&oom_kept) || strstr(pattern, "%w") != NULL)
		attend_snapshot(ATTEND_EXIT);
}

/* ---- Beginning --------------------------------------------------------- */

static void
begin_history(const struct options *asked)
{
	const struct weir_history history = { .struct_size = sizeof(history),
		.level = asked->history_level,
		.max_entries = asked->history_entries };

	if (asked->history && weir_history_start(&history) != WEIR_OK)
		log_write(LOG_ERROR, "history: %s", status_latest_text());
}

static void
begin_snapshots(const struct options *asked)
{
	char folder[PATH_MAX] = "";

	if (asked->snapshot[0] == '\0')
		return;
	if (asked->snapshot[0] != '/' &&
	    getcwd(folder, sizeof(folder)) == NULL) {
		log_write(LOG_ERROR, "snapshot: %s: cannot tell where that is",
		    asked->snapshot);
		return;
	}
	snprintf(pattern, sizeof(pattern), "%s%s%s", folder,
	    folder[0] != '\0' ? "/" : "", asked->snapshot);
	if (atexit(at_exit) != 0)
		log_write(LOG_ERROR, "snapshot: none at the end: no memory");
}

static void
begin(const struct options *asked)
{
	process = os_process_id();
	live_begin();
	status_mute();
	begin_history(asked);
	begin_snapshots(asked);
	atomic_store(&begun, true);
	serve_begin(asked);
	status_unmute();
}

void
attend_begin(const struct options *options)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	if (atomic_load_explicit(&begun, memory_order_acquire) || os_forked())
		return;
	pthread_mutex_lock(&mutex);
	if (!atomic_load(&begun))
		begin(options);
	pthread_mutex_unlock(&mutex);
}
