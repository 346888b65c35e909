/*
 * Observers are a small array, copied under its lock and called without it,
 * so that an observer may add, remove or allocate.
 */
#include "trace/observe.h"

#include <stdbool.h>
#include <string.h>

#include "base/lock.h"
#include "base/status.h"

enum { OBSERVERS_MAX = 64 };

struct observer {
	weir_oom_observer call;
	void *user;
};

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_OBSERVE);
static struct observer observers[OBSERVERS_MAX] GUARDED_BY(lock);
static size_t count GUARDED_BY(lock);

/* Its place, or `count`. */
static size_t
find(weir_oom_observer call, const void *user) HOLDS(lock)
{
	size_t i = 0;

	while (i < count &&
	    (observers[i].call != call || observers[i].user != user))
		i++;
	return i;
}

enum weir_status
weir_oom_observer_add(weir_oom_observer observer, void *user)
{
	const char *fault = NULL;

	if (observer == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_oom_observer_add: observer is NULL");
	lock_enter(&lock);
	if (find(observer, user) < count)
		fault = "it is there already";
	else if (count == OBSERVERS_MAX)
		fault = "there are 64 already";
	else
		observers[count++] = (struct observer){ observer, user };
	lock_leave(&lock);
	if (fault != NULL)
		return status_set(
		    WEIR_EINVAL, "weir_oom_observer_add: %s", fault);
	return WEIR_OK;
}

enum weir_status
weir_oom_observer_remove(weir_oom_observer observer, void *user)
{
	lock_enter(&lock);
	size_t i = find(observer, user);
	bool found = i < count;
	if (found) {
		count--;
		memmove(&observers[i], &observers[i + 1],
		    (count - i) * sizeof(observers[0]));
	}
	lock_leave(&lock);
	if (!found)
		return status_set(WEIR_EINVAL,
		    "weir_oom_observer_remove: "
		    "it was not added");
	return WEIR_OK;
}

void
observe_oom(const struct weir_oom *oom)
{
	struct observer copy[OBSERVERS_MAX];

	lock_enter(&lock);
	size_t n = count;
	memcpy(copy, observers, n * sizeof(copy[0]));
	lock_leave(&lock);
	for (size_t i = 0; i < n; i++)
		copy[i].call(oom, copy[i].user);
}
