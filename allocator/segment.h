/*
 * Physical memory: the one place that calls the driver for it.
 */
#ifndef ALLOCATOR_SEGMENT_H
#define ALLOCATOR_SEGMENT_H

#include "allocator/arena.h"

/*
 * Physical memory is mapped in handles of at most HANDLE_MAX, so that a free
 * range inside a large mapping can go back to the driver. Each costs the
 * driver 35 us to make accessible and to unmap, whatever its size.
 */
#define HANDLE_MAX ((size_t)64 << 20)

/*
 * Create and map physical memory at [addr, addr + size) of a segment, readable
 * and writable by its device. All or nothing.
 */
enum weir_status handles_map(
    struct segment *segment, CUdeviceptr addr, size_t size);

/*
 * Unmap and release the handles that tile [addr, addr + size).
 *
 * @return false, and all of it stays mapped, if the driver refuses
 */
bool handles_unmap(struct segment *segment, CUdeviceptr addr, size_t size);

/* The largest range of whole handles within [addr, addr + size); 0 bytes if
 * there is none. */
size_t handles_within(const struct segment *segment, CUdeviceptr addr,
    size_t size, CUdeviceptr *start);

/* The last handle that starts at or below addr, or NULL. */
struct handle *handle_floor(const struct segment *segment, CUdeviceptr addr);

int compare_handles(const struct tree_node *a, const struct tree_node *b);

#endif
