/*
 * Suspending an arena: its physical memory goes back to the driver, its
 * addresses and blocks stay.
 */
#ifndef GRAPHS_SUSPEND_H
#define GRAPHS_SUSPEND_H

#include "allocator/memory/types.h"

/*
 * Wait for all work of the device, then give the physical memory of the arena
 * back. Nothing can be allocated in it until it is resumed; freeing can. A
 * piece that the driver does not unmap stays. Holds no lock.
 *
 * @param copy   keep what is in it, in page-locked host memory
 * @param freed  bytes given back
 * @return WEIR_EINVAL     it is suspended, or pages of it are pinned
 *         WEIR_ENOTSUP    it has segments of the driver, whose addresses would
 *                         be lost
 *         WEIR_ENOTREADY  memory is being mapped
 *         WEIR_ECAPTURE, WEIR_EHOSTMEM, WEIR_EDRIVER. Nothing has changed then
 */
enum weir_status arena_suspend(struct arena *arena, bool copy, size_t *freed);

/*
 * Map physical memory at the same addresses again, with its contents if copies
 * were kept. Holds no lock.
 */
enum weir_status arena_resume(struct arena *arena);

#endif
