/*
 * Sleeping on a word of memory.
 */
#ifndef BASE_FUTEX_H
#define BASE_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/* Sleep while *word is `value`, until a thread calls futex_wake_one() or
 * futex_wake_all(); may also return without a reason. */
void futex_sleep_while(atomic_uint *word, unsigned value);
void futex_wake_one(atomic_uint *word);
void futex_wake_all(atomic_uint *word);

/* The word is in memory that several processes share: sleep while it is
 * `value`, for at most `most_ns`; wake all that do. */
void futex_shared_wait(
    _Atomic(uint32_t) *word, uint32_t value, uint64_t most_ns);
void futex_shared_wake(_Atomic(uint32_t) *word);

#endif
