/*
 * The observers are small arrays, one for each kind. They are copied under the
 * lock and called without it, so that an observer may add, remove or allocate.
 */
#include "trace/observe.h"

#include <stdbool.h>
#include <string.h>

#include "base/lock.h"
#include "base/os.h"
#include "base/status.h"
#include "trace/tuning.h"

union call {
	weir_oom_observer oom;
	weir_memory_observer memory;
	weir_trace_callback trace;
};

struct observer {
	union call call;
	void *user;
};

atomic_uint observe_counts[OBSERVE_KINDS]; /* written under the lock */

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_OBSERVE);
static struct observer observers[OBSERVE_KINDS][OBSERVERS_MAX] GUARDED_BY(lock);

static bool
same_observer(unsigned kind, union call a, union call b)
{
	if (kind == OBSERVE_MEMORY)
		return a.memory == b.memory;
	return kind == OBSERVE_OOM ? a.oom == b.oom : a.trace == b.trace;
}

/* The observer's index, or the count if there is none. */
static unsigned
find_observer(unsigned kind, union call call, const void *user) HOLDS(lock)
{
	unsigned count = atomic_load(&observe_counts[kind]);
	unsigned i = 0;

	while (i < count &&
	    (!same_observer(kind, observers[kind][i].call, call) ||
		observers[kind][i].user != user))
		i++;
	return i;
}

static enum weir_status
add_observer(unsigned kind, union call call, void *user, const char *name)
{
	const char *fault = NULL;

	lock_enter(&lock);
	unsigned count = atomic_load(&observe_counts[kind]);
	if (find_observer(kind, call, user) < count) {
		fault = "it is there already";
	} else if (count == OBSERVERS_MAX) {
		fault = "there are 64 already";
	} else {
		observers[kind][count] = (struct observer){ call, user };
		atomic_store(&observe_counts[kind], count + 1);
	}
	lock_leave(&lock);
	if (fault != NULL)
		return status_set(WEIR_EINVAL, "%s: %s", name, fault);
	return WEIR_OK;
}

static enum weir_status
drop_observer(
    unsigned kind, union call call, const void *user, const char *name)
{
	lock_enter(&lock);
	unsigned count = atomic_load(&observe_counts[kind]);
	unsigned i = find_observer(kind, call, user);
	bool found = i < count;
	if (found) {
		struct observer *at = &observers[kind][i];
		memmove(at, at + 1, (count - i - 1) * sizeof(*at));
		atomic_store(&observe_counts[kind], count - 1);
	}
	lock_leave(&lock);
	if (!found)
		return status_set(WEIR_EINVAL, "%s: it was not added", name);
	return WEIR_OK;
}

static unsigned
copy_all(unsigned kind, struct observer *copy)
{
	lock_enter(&lock);
	unsigned n = atomic_load(&observe_counts[kind]);
	memcpy(copy, observers[kind], n * sizeof(*copy));
	lock_leave(&lock);
	return n;
}

/* ---- Out of memory ----------------------------------------------------- */

enum weir_status
weir_oom_observer_add(weir_oom_observer observer, void *user)
{
	if (os_forked())
		return status_forked("weir_oom_observer_add");
	if (observer == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_oom_observer_add: observer is NULL");
	return add_observer(OBSERVE_OOM, (union call){ .oom = observer }, user,
	    "weir_oom_observer_add");
}

enum weir_status
weir_oom_observer_remove(weir_oom_observer observer, void *user)
{
	if (os_forked())
		return status_forked("weir_oom_observer_remove");
	return drop_observer(OBSERVE_OOM, (union call){ .oom = observer }, user,
	    "weir_oom_observer_remove");
}

void
observe_oom(const struct weir_oom *oom)
{
	struct observer copy[OBSERVERS_MAX];
	unsigned n = copy_all(OBSERVE_OOM, copy);

	for (unsigned i = 0; i < n; i++)
		copy[i].call.oom(oom, copy[i].user);
}

/* ---- Events of the history --------------------------------------------- */

enum weir_status
observe_memory_add(weir_memory_observer observer, void *user)
{
	if (observer == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_memory_observer_add: observer is NULL");
	return add_observer(OBSERVE_MEMORY, (union call){ .memory = observer },
	    user, "weir_memory_observer_add");
}

enum weir_status
observe_memory_remove(weir_memory_observer observer, void *user)
{
	return drop_observer(OBSERVE_MEMORY, (union call){ .memory = observer },
	    user, "weir_memory_observer_remove");
}

void
observe_memory(const struct weir_memory_event *event)
{
	struct observer copy[OBSERVERS_MAX];
	unsigned n = copy_all(OBSERVE_MEMORY, copy);

	for (unsigned i = 0; i < n; i++)
		copy[i].call.memory(event, copy[i].user);
}

/* ---- All else ---------------------------------------------------------- */

static enum weir_status
check_kind(unsigned kind, const char *name)
{
	if (kind >= WEIR_TRACE_KINDS)
		return status_set(
		    WEIR_EINVAL, "%s: unknown kind %u", name, kind);
	return WEIR_OK;
}

enum weir_status
observe_add(enum weir_trace_kind kind, weir_trace_callback callback, void *user)
{
	static const char name[] = "weir_trace_callback_add";
	enum weir_status status = check_kind(kind, name);
	if (status != WEIR_OK)
		return status;
	if (callback == NULL)
		return status_set(WEIR_EINVAL, "%s: callback is NULL", name);
	return add_observer(
	    kind, (union call){ .trace = callback }, user, name);
}

enum weir_status
observe_remove(
    enum weir_trace_kind kind, weir_trace_callback callback, void *user)
{
	static const char name[] = "weir_trace_callback_remove";
	enum weir_status status = check_kind(kind, name);
	if (status != WEIR_OK)
		return status;
	return drop_observer(
	    kind, (union call){ .trace = callback }, user, name);
}

void
observe(struct weir_trace trace)
{
	struct observer copy[OBSERVERS_MAX];
	unsigned n = copy_all(trace.kind, copy);

	trace.struct_size = sizeof(trace);
	for (unsigned i = 0; i < n; i++)
		copy[i].call.trace(&trace, copy[i].user);
}
