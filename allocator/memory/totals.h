/*
 * What the arenas of a device come to, and the limit that holds for all.
 */
#ifndef ALLOCATOR_MEMORY_TOTALS_H
#define ALLOCATOR_MEMORY_TOTALS_H

#include "allocator/memory/types.h"

/* What `size` more bytes may be got from the driver: they count as held from
 * now on, until arena_promised() when they are or have not come. WEIR_ENOMEM if
 * they would pass the limit; *need is then what is missing under it. */
enum weir_status arena_promise(struct arena *arena, size_t size, size_t *need);
void arena_promised(struct arena *arena, size_t size);

/* Begin to keep totals, or those of page-locked host memory. WEIR_EHOSTMEM.
 * Under the lock of the device's arena. */
enum weir_status totals_begin(struct arena *main);
enum weir_status totals_begin_host(struct arena *main);

/* How often they have changed; 0 if there are none (NULL). */
uint64_t totals_changes(struct totals *totals);

/* Of the device: bytes held or about to be, held, and with callers; what is
 * left of the limit, SIZE_MAX if there is none; and the limit. */
size_t device_held(const struct arena *arena);
size_t device_reserved(const struct arena *arena);
size_t device_live(const struct arena *arena);
size_t device_room(const struct arena *arena);
/* The limit, but at most what the device has; and what is left of that. */
size_t device_size(const struct arena *arena);
size_t device_left(const struct arena *arena);
size_t device_limit(const struct arena *arena);

/* Change a statistic of the totals. Takes their lock. */
void totals_change(struct totals *totals, enum pool_kind kind, enum stat3 which,
    int64_t delta);

#endif
