/*
 * Locks with a rank. A thread acquires locks only in rising rank, so they
 * cannot deadlock (invariant I-13); debug builds check this and report the two
 * ranks.
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
#define PROVES(...) LOCK_ATTRIBUTE(assert_capability(__VA_ARGS__))
/* The body of a function is not checked; its callers are. Only for the
 * functions that move a lock between the compiler's view and the word. */
#define UNCHECKED LOCK_ATTRIBUTE(no_thread_safety_analysis)
/* Documents which lock guards a field. */
#define GUARDED_BY(lock)

/* X(rank): in the order in which they may be acquired. */
#define LOCK_RANKS(X)                                                          \
	X(LOCK_RANK_HOOK)    /* the preload's, over driver calls */            \
	X(LOCK_RANK_EXPORT)  /* making exports */                              \
	X(LOCK_RANK_PASSED)  /* descriptors for PyTorch's handles */           \
	X(LOCK_RANK_LINK)    /* one owner's connection */                      \
	X(LOCK_RANK_LINKS)   /* the connections to owners */                   \
	X(LOCK_RANK_STORAGE) /* the streams that use a storage */              \
	X(LOCK_RANK_SHARED)  /* the shared streams that programs borrow */     \
	X(LOCK_RANK_HOST)    /* creating arenas of host memory */              \
	X(LOCK_RANK_STARTUP) /* beginning what options ask for */              \
	X(LOCK_RANK_INIT)    /* loading the driver, reading the environment */ \
	X(LOCK_RANK_OPTIONS) /* changing options */                            \
	X(LOCK_RANK_POOLS)   /* the list of pools */                           \
	X(LOCK_RANK_PEERS)   /* which devices may use whose memory */          \
	X(LOCK_RANK_IMPORTS) /* the mapped imports */                          \
	X(LOCK_RANK_ARENAS)  /* the list of arenas */                          \
	X(LOCK_RANK_ARENA)   /* one arena and everything in it */              \
	X(LOCK_RANK_ROUTES)  /* which requests go to which arena */            \
	X(LOCK_RANK_TOTALS)  /* the totals of a device's arenas */             \
	X(LOCK_RANK_OUTSIDE) /* counts of memory that weir does not hold */    \
	X(LOCK_RANK_MEMBER)  /* the lease of a device in its group */          \
	X(LOCK_RANK_DEPOT)   /* full magazines of one stream */                \
	X(LOCK_RANK_STREAM)  /* a stream, against its end */                   \
	X(LOCK_RANK_CAPTURE) /* calls that must not overlap with captures */   \
	X(LOCK_RANK_STREAMS) /* the table of streams */                        \
	X(LOCK_RANK_ORDER)   /* the order between streams */                   \
	X(LOCK_RANK_DELAY)   /* the lateness of streams because of waits */    \
	X(LOCK_RANK_EVENTS)  /* a pool of driver events */                     \
	X(LOCK_RANK_OBSERVE) /* the list of observers */                       \
	X(LOCK_RANK_HISTORY) /* the history's settings, and annotations */     \
	X(LOCK_RANK_TEXTS)   /* texts that events refer to */                  \
	X(LOCK_RANK_EXPORTS) /* the list of exports */                         \
	X(LOCK_RANK_TABLE)   /* a table of the preload */                      \
	X(LOCK_RANK_PAGES)   /* reserves of host memory */                     \
	X(LOCK_RANK_REPORT)  /* what the preload's report counts */            \
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

/*
 * The calling thread holds the lock: debug builds check it, trap if it is not
 * so, and clang takes it as proved from here on. Stands at the door of a
 * function that needs the lock, and where clang cannot see that two paths lead
 * to one lock (it takes heap->arena and block->arena for two arenas).
 */
static inline void lock_assert_held(const struct lock *lock) PROVES(*lock);

/*
 * A function that returns with a lock held on success only, such as
 * find_locked(), cannot say so in an attribute. It calls lock_hand_over() where
 * it returns with the lock, and its caller lock_take_over() where it has seen
 * the success; so clang checks both. Neither changes the lock, and debug builds
 * check that it is held.
 */
static inline void lock_hand_over(const struct lock *lock) LEAVES(*lock);
static inline void lock_take_over(const struct lock *lock) ENTERS(*lock);

/* Does the calling thread hold no lock? Always true in release builds. */
bool lock_none_held(void);

/* ---- The same for the compiler ----------------------------------------- */

/* lock->state. */
enum { LOCK_FREE, LOCK_HELD, LOCK_AWAITED };

/* The rank check. */
#if LOCK_CHECKED
void lock_check_enter(const struct lock *lock);
void lock_note_enter(const struct lock *lock);
void lock_note_leave(const struct lock *lock);
void lock_check_held(const struct lock *lock);
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

static inline void
lock_check_held(const struct lock *lock)
{
	(void)lock;
}
#endif

/* Acquire a lock that is held; wake a thread that waits. */
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

static inline void
lock_assert_held(const struct lock *lock)
{
	lock_check_held(lock);
}

static inline UNCHECKED void
lock_hand_over(const struct lock *lock)
{
	lock_check_held(lock);
}

static inline UNCHECKED void
lock_take_over(const struct lock *lock)
{
	lock_check_held(lock);
}

#endif
