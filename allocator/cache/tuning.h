/*
 * The numbers of this room that were chosen and can be chosen otherwise.
 * lab/one-layout.md has the experiments unless another one is named.
 */
#ifndef ALLOCATOR_CACHE_TUNING_H
#define ALLOCATOR_CACHE_TUNING_H

/* Cached blocks of a thread above the bins' sizes. */
enum { TCACHE_SLOTS = 16 };

/* Streams that a thread finds by one load. */
enum { TCACHE_WAYS = 64 };

/* A class gets an extra block for so many misses. */
enum { MISSES_A_BLOCK = 4 };

/* For each cache of another thread, the pools serve so many requests before all
 * are stopped again for an inspection. */
enum { REQUESTS_A_LOOK = 64 };

/* tcache.h, Note [Places]: claims to the place of a cache that is not used,
 * after which the cache is out of use. An exchange costs about as much as five
 * requests of the pools; fewer claims than this are reached by chance. */
enum { CLAIMS = 64 };

#endif
