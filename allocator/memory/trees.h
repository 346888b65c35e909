/*
 * The comparison functions of the trees pool->unmapped, pool->free, arena->pins
 * and segment->handles.
 */
#ifndef ALLOCATOR_MEMORY_TREES_H
#define ALLOCATOR_MEMORY_TREES_H

#include "base/tree.h"

int compare_address(const struct tree_node *a, const struct tree_node *b);
int compare_run_address(const struct tree_node *a, const struct tree_node *b);
int compare_pins(const struct tree_node *a, const struct tree_node *b);
int compare_handles(const struct tree_node *a, const struct tree_node *b);

#endif
