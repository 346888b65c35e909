/*
 * The time that the driver's calls for page-locked memory take.
 *
 * Note [Time of page-locked memory]
 *
 * Memory that a program needs for the first time has to be pinned, whoever
 * allocates it. That is not weir's delay. All other time is: to give memory
 * back, to pin as much again as was given back, and to map it elsewhere. This
 * delay is rationed as moves of device memory are (policy.h, Note [Wait or
 * grow]), by its real time. While it is not paid for, the arena gives nothing
 * back and holds more instead.
 */
#ifndef ALLOCATOR_MEMORY_PIN_TIME_H
#define ALLOCATOR_MEMORY_PIN_TIME_H

#include "allocator/state.h"

/* The time before calls; 0 if the arena's memory is not page-locked. Takes no
 * lock. */
uint64_t pin_time_now(const struct arena *arena);

/* Account for calls since `began`, under the arena's lock: that pinned `bytes`,
 * with which `held` are held; that gave memory back; or that only mapped
 * memory elsewhere. */
void pin_time_took(struct arena *arena, uint64_t began_ns, size_t bytes,
    size_t held) HOLDS(arena->lock);
void pin_time_gave(struct arena *arena, uint64_t began_ns) HOLDS(arena->lock);
void pin_time_moved(struct arena *arena, uint64_t ns) HOLDS(arena->lock);

/* The time that it takes to pin so many bytes, as far as is known. */
uint64_t pin_time_for(const struct arena *arena, size_t bytes);
/* The time that it takes to move so many bytes of handles. */
uint64_t pin_time_for_moves(size_t bytes);

#endif
