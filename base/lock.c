/*
 * A pthread mutex and, in debug builds, the rank check: each thread keeps the
 * stack of the locks it holds, and takes only one whose rank is above them
 * all. Two locks of one rank are never held together (no thread needs two
 * arenas at once), which also finds a lock taken twice.
 *
 * A breach is our fault and not the caller's: debug builds tell both ranks
 * and trap. Release builds check nothing.
 */
#include "base/lock.h"

#include <stddef.h>

#include "base/log.h"

#if LOCK_CHECKED

enum { HELD_MAX = 16 };

static _Thread_local struct {
	const struct lock *locks[HELD_MAX]; /* ranks rise */
	int n;
} held;

static const char *
rank_name(enum lock_rank rank)
{
	static const char *const names[] = {
#define RANK_NAME(rank) #rank,
		LOCK_RANKS(RANK_NAME)
#undef RANK_NAME
	};

	return (size_t)rank < sizeof(names) / sizeof(names[0]) ? names[rank] :
								 "?";
}

static void
check_enter(const struct lock *lock)
{
	const struct lock *top;

	if (held.n == 0)
		return;
	top = held.locks[held.n - 1];
	if (lock->rank > top->rank && held.n < HELD_MAX)
		return;
	log_write(LOG_ERROR,
	    "lock of %s (%d) taken while one of %s (%d) is held",
	    rank_name(lock->rank), (int)lock->rank, rank_name(top->rank),
	    (int)top->rank);
	__builtin_trap();
}

static void
note_enter(const struct lock *lock)
{
	held.locks[held.n++] = lock;
}

/* Locks may be left in any order. */
static void
note_leave(const struct lock *lock)
{
	int i = held.n;

	while (i > 0 && held.locks[i - 1] != lock)
		i--;
	if (i == 0) {
		log_write(LOG_ERROR,
		    "lock of %s (%d) left by a thread that does not hold it",
		    rank_name(lock->rank), (int)lock->rank);
		__builtin_trap();
	}
	for (; i < held.n; i++)
		held.locks[i - 1] = held.locks[i];
	held.n--;
}

bool
lock_none_held(void)
{
	return held.n == 0;
}

#else

static void
check_enter(const struct lock *lock)
{
	(void)lock;
}

static void
note_enter(const struct lock *lock)
{
	(void)lock;
}

static void
note_leave(const struct lock *lock)
{
	(void)lock;
}

bool
lock_none_held(void)
{
	return true;
}

#endif

void
lock_init(struct lock *lock, enum lock_rank rank)
{
	pthread_mutex_init(&lock->mutex, NULL);
	lock->rank = rank;
}

void
lock_destroy(struct lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

UNCHECKED void
lock_enter(struct lock *lock)
{
	check_enter(lock);
	pthread_mutex_lock(&lock->mutex);
	note_enter(lock);
}

UNCHECKED void
lock_leave(struct lock *lock)
{
	note_leave(lock);
	pthread_mutex_unlock(&lock->mutex);
}
