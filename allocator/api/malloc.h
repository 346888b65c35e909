/*
 * Counting and freeing blocks, for those who do not come by a public call.
 */
#ifndef ALLOCATOR_API_MALLOC_H
#define ALLOCATOR_API_MALLOC_H

#include "allocator/memory/types.h"

/* Count a block that has just been handed out; end the life of one, as by
 * weir_free(). */
void malloc_count(const struct options *options, struct block *block);
void malloc_release(struct block *block);

#endif
