/*
 * The comparison functions of the trees.
 */
#include "allocator/memory/trees.h"

#include "allocator/memory/handle.h"
#include "allocator/memory/pin.h"

int
compare_address(const struct tree_node *a, const struct tree_node *b)
{
	CUdeviceptr x = CONTAINER_OF(a, struct block, node)->addr;
	CUdeviceptr y = CONTAINER_OF(b, struct block, node)->addr;

	return (x > y) - (x < y);
}

int
compare_run_address(const struct tree_node *a, const struct tree_node *b)
{
	size_t x = CONTAINER_OF(a, struct block, node)->run;
	size_t y = CONTAINER_OF(b, struct block, node)->run;

	if (x != y)
		return x < y ? -1 : 1;
	return compare_address(a, b);
}

int
compare_pins(const struct tree_node *a, const struct tree_node *b)
{
	CUdeviceptr x = CONTAINER_OF(a, struct pin, node)->addr;
	CUdeviceptr y = CONTAINER_OF(b, struct pin, node)->addr;

	return (x > y) - (x < y);
}

int
compare_handles(const struct tree_node *a, const struct tree_node *b)
{
	CUdeviceptr x = CONTAINER_OF(a, struct handle, node)->addr;
	CUdeviceptr y = CONTAINER_OF(b, struct handle, node)->addr;

	return (x > y) - (x < y);
}
