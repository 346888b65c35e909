/*
 * Sleeping on a word of memory.
 */
#ifndef BASE_FUTEX_H
#define BASE_FUTEX_H

#include <stdatomic.h>

/* Sleep while *word is `value`, until a thread calls futex_wake_one() or
 * futex_wake_all(); may also return without a reason. */
void futex_sleep_while(atomic_uint *word, unsigned value);
void futex_wake_one(atomic_uint *word);
void futex_wake_all(atomic_uint *word);

#endif
