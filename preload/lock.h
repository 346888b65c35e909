/*
 * The locks of the preload: those of base/lock.h, in the same order of ranks,
 * since the preload has weir in it.
 *
 * Hooks enter them on behalf of the program, which holds no lock of weir.
 *
 *	LOCK_RANK_HOOK    held across calls of the driver and of weir; comes
 *	                  before all locks of weir
 *	LOCK_RANK_TABLE   a table, with nothing but metadata acquired inside
 *	LOCK_RANK_REPORT  such a table, too, which the report is made from. weir
 *	                  counts its driver calls there while it holds its own
 *	                  locks, and a forked child makes the lock anew
 *
 * No hook holds two of one rank. ThreadSanitizer, which would see a mutex of
 * the C library, is told of these locks: tsan.c.
 */
#ifndef PRELOAD_LOCK_H
#define PRELOAD_LOCK_H

#include "base/lock.h"
#include "preload/preload.h"

static inline void
preload_lock(struct lock *lock) ENTERS(*lock)
{
	lock_enter(lock);
	if (__builtin_expect(tsan_is_there, false))
		tsan_entered(lock);
}

static inline void
preload_unlock(struct lock *lock) LEAVES(*lock)
{
	if (__builtin_expect(tsan_is_there, false))
		tsan_leaves(lock);
	lock_leave(lock);
}

#endif
