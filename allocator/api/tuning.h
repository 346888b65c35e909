/*
 * The numbers of this room that were chosen and can be chosen otherwise.
 */
#ifndef ALLOCATOR_API_TUNING_H
#define ALLOCATOR_API_TUNING_H

/* VACATED blocks that one request unmaps, at most. */
enum { UNMAPPED_AT_ONCE = 4 };

#endif
