/*
 * The numbers of this room that were chosen and can be chosen otherwise.
 * lab/one-layout.md has the experiments unless another one is named.
 */
#ifndef ALLOCATOR_MAGAZINES_TUNING_H
#define ALLOCATOR_MAGAZINES_TUNING_H

/* Blocks in a magazine, and bytes, at most; and magazines of one class in a
 * depot. */
enum { TCACHE_BATCH = 64 };
enum { TCACHE_MAGAZINE = 1 << 20 };
enum { TCACHE_DEPOT = 256 };

#endif
