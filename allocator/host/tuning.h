/*
 * The numbers of this room that were chosen and can be chosen otherwise.
 */
#ifndef ALLOCATOR_HOST_TUNING_H
#define ALLOCATOR_HOST_TUNING_H

/* Bytes by which a reserve of handles grows at a time, so that the program's
 * own requests need not wait long for the driver: some 20 ms. */
enum { RESERVE_STEP = 64 << 20 };

/* Threads, at most, that touch new pages. */
enum { TOUCHERS_MAX = 128 };

#endif
