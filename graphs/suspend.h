/*
 * Suspends arenas: the physical memory of an arena goes back to the driver, and
 * its addresses and blocks stay.
 */
#ifndef GRAPHS_SUSPEND_H
#define GRAPHS_SUSPEND_H

#include "allocator/state.h"

/*
 * Wait for all work of the device, then give the physical memory of the arena
 * back. Until it is resumed, blocks can be freed but not allocated. A handle
 * that the driver does not unmap stays. The caller holds no lock.
 *
 * @param copy copy its contents to page-locked host memory
 * @param freed  bytes given back
 * @return WEIR_EINVAL it is suspended already, or pages of it are pinned
 *         WEIR_ENOTSUP it has segments of the driver, whose addresses would
 *                         be lost
 *         WEIR_ENOTREADY  memory is being mapped
 *         WEIR_ECAPTURE, WEIR_EHOSTMEM, WEIR_EDRIVER. Nothing has changed then
 */
enum weir_status arena_suspend(struct arena *arena, bool copy, size_t *freed);

/*
 * Map physical memory at the same addresses again, with its contents if they
 * were copied. The caller holds no lock.
 */
enum weir_status arena_resume(struct arena *arena);

#endif
