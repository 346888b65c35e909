/*
 * Freeing a block, for those who do not come by a public call.
 */
#ifndef ALLOCATOR_API_FREE_H
#define ALLOCATOR_API_FREE_H

#include "allocator/memory/types.h"

/* End the life of a block, as by weir_free(): it is free, or pending if it is
 * used on other streams. */
void release_block(struct block *block);

#endif
