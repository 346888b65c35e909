/*
 * Begins the history, the snapshots and the agent that options ask for.
 */
#include "allocator/observe/startup.h"

#include <pthread.h>
#include <stdbool.h>

#include <weir/trace.h>

#include "allocator/observe/agent.h"
#include "allocator/observe/auto_snapshot.h"
#include "allocator/observe/live_stats.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/os.h"
#include "base/status.h"

static void
begin_history(const struct options *asked)
{
	const struct weir_history history = { .struct_size = sizeof(history),
		.level = (enum weir_history_level)asked->history,
		.max_entries = asked->history_entries };

	if (asked->history != HISTORY_OFF &&
	    weir_history_start(&history) != WEIR_OK)
		log_write(LOG_ERROR, "history: %s", status_latest_text());
}

static void
begin_all(const struct options *asked)
{
	live_begin();
	status_mute();
	begin_history(asked);
	auto_snapshot_begin(asked);
	agent_begin(asked);
	status_unmute();
}

static void *
run_begin(void *asked)
{
	begin_all(asked);
	return NULL;
}

/* A thread with too little stack starts another one to do it. */
static void
begin_with_stack(const struct options *asked)
{
	pthread_t thread;

	if (os_stack_left() < AUTO_SNAPSHOT_STACK &&
	    os_thread_start(&thread, run_begin, (void *)(uintptr_t)asked))
		pthread_join(thread, NULL);
	else
		begin_all(asked);
}

void
startup_begin(const struct options *options)
{
	static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_STARTUP);

	if (auto_snapshot_has_begun() || os_forked())
		return;
	lock_enter(&lock);
	if (!auto_snapshot_has_begun())
		begin_with_stack(options);
	lock_leave(&lock);
}
