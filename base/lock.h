/*
 * Locks with a rank. A thread takes locks in rising rank only, so they cannot
 * deadlock (invariant I-13); debug builds check it and report the two ranks.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

#if defined(__clang__)
#define LOCK_ATTRIBUTE(x) __attribute__((x))
#else
#define LOCK_ATTRIBUTE(x)
#endif
/* Checked by clang -Wthread-safety. */
#define CAPABILITY LOCK_ATTRIBUTE(capability("mutex"))
#define HOLDS(...) LOCK_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define ENTERS(...) LOCK_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define LEAVES(...) LOCK_ATTRIBUTE(release_capability(__VA_ARGS__))
#define UNCHECKED LOCK_ATTRIBUTE(no_thread_safety_analysis)
/* For the reader: which lock a field is under. */
#define GUARDED_BY(lock)

/* X(rank): in the order they may be taken. */
#define LOCK_RANKS(X)                                                          \
	X(LOCK_RANK_STORAGE) /* which streams use a storage */                 \
	X(LOCK_RANK_SHARED)  /* the streams lent to everybody */               \
	X(LOCK_RANK_HOST)    /* making arenas of host memory */                \
	X(LOCK_RANK_INIT)    /* loading the driver, reading the environment */ \
	X(LOCK_RANK_OPTIONS) /* changing options */                            \
	X(LOCK_RANK_POOLS)   /* the list of pools */                           \
	X(LOCK_RANK_ARENAS)  /* the list of arenas */                          \
	X(LOCK_RANK_ARENA)   /* one arena and all it holds */                  \
	X(LOCK_RANK_ROUTES)  /* who goes to which arena */                     \
	X(LOCK_RANK_TOTALS)  /* what the arenas of a device come to */         \
	X(LOCK_RANK_DEPOT)   /* full magazines of one stream */                \
	X(LOCK_RANK_STREAM)  /* one stream against its end */                  \
	X(LOCK_RANK_CAPTURE) /* calls that captures must not meet */           \
	X(LOCK_RANK_STREAMS) /* the table of streams */                        \
	X(LOCK_RANK_ORDER)   /* which stream comes after which */              \
	X(LOCK_RANK_DELAY)   /* how late waits have made streams */            \
	X(LOCK_RANK_EVENTS)  /* a pool of driver events */                     \
	X(LOCK_RANK_OBSERVE) /* the list of observers */                       \
	X(LOCK_RANK_HISTORY) /* how the history is kept, and annotations */    \
	X(LOCK_RANK_TEXTS)   /* texts that events name */                      \
	X(LOCK_RANK_PAGES)   /* reserves of host memory */                     \
	X(LOCK_RANK_LOOKUP)  /* growing the address table */                   \
	X(LOCK_RANK_META)    /* metadata */                                    \
	X(LOCK_RANK_LOG)

enum lock_rank {
#define LOCK_RANK_ENUM(rank) rank,
	LOCK_RANKS(LOCK_RANK_ENUM)
#undef LOCK_RANK_ENUM
};

/* 1 in builds that check ranks. */
#if defined(WEIR_DEBUG)
#define LOCK_CHECKED 1
#else
#define LOCK_CHECKED 0
#endif

struct CAPABILITY lock {
	atomic_uint state;
	enum lock_rank rank; /* constant */
};

#define LOCK_INITIALIZER(rank)                                                 \
	{                                                                      \
		0, rank                                                        \
	}

void lock_init(struct lock *lock, enum lock_rank rank);
void lock_destroy(struct lock *lock);
static inline void lock_enter(struct lock *lock) ENTERS(*lock);
static inline void lock_leave(struct lock *lock) LEAVES(*lock);

/* True if the calling thread holds no lock at all. Always true in release
 * builds. */
bool lock_none_held(void);

/* ---- The same for the compiler ----------------------------------------- */

/* lock->state. */
enum { LOCK_FREE, LOCK_HELD, LOCK_AWAITED };

/* The rank check. */
#if LOCK_CHECKED
void lock_check_enter(const struct lock *lock);
void lock_note_enter(const struct lock *lock);
void lock_note_leave(const struct lock *lock);
#else
static inline void
lock_check_enter(const struct lock *lock)
{
	(void)lock;
}

static inline void
lock_note_enter(const struct lock *lock)
{
	(void)lock;
}

static inline void
lock_note_leave(const struct lock *lock)
{
	(void)lock;
}
#endif

/* Take a lock that is held; wake one who waits. */
void lock_wait(struct lock *lock);
void lock_wake(struct lock *lock);

static inline bool
lock_try(struct lock *lock)
{
	unsigned state = LOCK_FREE;

	return atomic_compare_exchange_strong_explicit(&lock->state, &state,
	    LOCK_HELD, memory_order_acquire, memory_order_relaxed);
}

static inline UNCHECKED void
lock_enter(struct lock *lock)
{
	lock_check_enter(lock);
	if (__builtin_expect(!lock_try(lock), 0))
		lock_wait(lock);
	lock_note_enter(lock);
}

static inline UNCHECKED void
lock_leave(struct lock *lock)
{
	lock_note_leave(lock);
	if (__builtin_expect(atomic_exchange_explicit(&lock->state, LOCK_FREE,
				 memory_order_release) == LOCK_AWAITED,
		0))
		lock_wake(lock);
}

#endif
