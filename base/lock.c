/*
 * A lock is one word; system calls are made only if a thread has to sleep or to
 * be woken. A free lock is acquired in a few instructions. A thread that finds
 * it held spins for as long as most holders take, and then sleeps.
 *
 * Debug builds check ranks: each thread has a stack of the locks that it holds,
 * and may acquire only a lock with a higher rank than all of these. Two locks
 * of one rank are never held together (no thread needs two arenas at once), so
 * the check also finds a lock that is acquired twice.
 *
 * Note [Forked children]
 *
 * A forked child has one thread. A lock that another thread of the parent held
 * at the fork is never released in the child, and what the lock guards may be
 * half changed. So a child of a process that uses the driver acquires no lock:
 * each public call that needs one asks os_forked() first, and refuses by
 * status_forked() or does nothing. Debug builds check this, too. A child
 * acquires three kinds of locks only: the log's, which a fork waits for
 * (pthread_atfork()); those of the preload's report, which are made anew in
 * the child; and those of memory, which jemalloc and the C library keep usable.
 *
 * A violation is a fault of weir and not of the caller: debug builds report
 * both ranks and trap. Release builds do not check.
 */
#include "base/lock.h"

#include <stddef.h>

#include "base/futex.h"
#include "base/log.h"
#include "base/os.h"
#include "base/tuning.h"

#if LOCK_CHECKED

static _Thread_local struct {
	const struct lock *locks[LOCK_HELD_MAX]; /* in rising rank */
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

/* Note [Forked children]. */
static void
check_fork(const struct lock *lock)
{
	if (!os_forked() || lock->rank == LOCK_RANK_LOG ||
	    lock->rank == LOCK_RANK_REPORT)
		return;
	log_write(LOG_ERROR, "lock of %s (%d) acquired in a forked child",
	    rank_name(lock->rank), (int)lock->rank);
	__builtin_trap();
}

void
lock_check_enter(const struct lock *lock)
{
	const struct lock *top;

	check_fork(lock);
	if (held.n == 0)
		return;
	top = held.locks[held.n - 1];
	if (lock->rank > top->rank && held.n < LOCK_HELD_MAX)
		return;
	log_write(LOG_ERROR,
	    "lock of %s (%d) acquired while one of %s (%d) is held",
	    rank_name(lock->rank), (int)lock->rank, rank_name(top->rank),
	    (int)top->rank);
	__builtin_trap();
}

void
lock_note_enter(const struct lock *lock)
{
	held.locks[held.n++] = lock;
}

/* Locks may be released in any order. */
void
lock_note_leave(const struct lock *lock)
{
	int i = held.n;

	while (i > 0 && held.locks[i - 1] != lock)
		i--;
	if (i == 0) {
		log_write(LOG_ERROR,
		    "lock of %s (%d) released by a thread that does not hold "
		    "it",
		    rank_name(lock->rank), (int)lock->rank);
		__builtin_trap();
	}
	for (; i < held.n; i++)
		held.locks[i - 1] = held.locks[i];
	held.n--;
}

void
lock_check_held(const struct lock *lock)
{
	for (int i = held.n; i > 0; i--)
		if (held.locks[i - 1] == lock)
			return;
	log_write(LOG_ERROR,
	    "lock of %s (%d) is not held by a thread that needs it",
	    rank_name(lock->rank), (int)lock->rank);
	__builtin_trap();
}

bool
lock_none_held(void)
{
	return held.n == 0;
}

#else

bool
lock_none_held(void)
{
	return true;
}

#endif

void
lock_init(struct lock *lock, enum lock_rank rank)
{
	atomic_init(&lock->state, LOCK_FREE);
	lock->rank = rank;
}

void
lock_destroy(struct lock *lock)
{
	(void)lock;
}

UNCHECKED void
lock_wait(struct lock *lock)
{
	for (int i = 0; i < LOCK_LOOKS; i++) {
		os_relax();
		if (atomic_load_explicit(&lock->state, memory_order_relaxed) ==
			LOCK_FREE &&
		    lock_try(lock))
			return;
	}
	/* A thread that has slept cannot know whether other threads sleep. */
	while (atomic_exchange_explicit(&lock->state, LOCK_AWAITED,
		   memory_order_acquire) != LOCK_FREE)
		futex_sleep_while(&lock->state, LOCK_AWAITED);
}

void
lock_wake(struct lock *lock)
{
	futex_wake_one(&lock->state);
}
