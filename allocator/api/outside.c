/*
 * Claims of memory outside weir, by device.
 */
#include "allocator/memory/outside.h"
#include "allocator/allocator.h"
#include "allocator/api/find.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/totals.h"
#include "allocator/options.h"
#include "base/status.h"

/* The limit of a device that has no arena, which the options say. */
static size_t
limit_without_arena(int device)
{
	const struct driver *driver;
	const struct options *options;
	size_t total = SIZE_MAX;

	if (options_get(&options) != WEIR_OK ||
	    options->limit_counts != LIMIT_COUNTS_ALL)
		return SIZE_MAX;
	if (options->memory_fraction < 1 &&
	    (driver_get(&driver) != WEIR_OK ||
		driver->cuDeviceTotalMem(&total, device) != CUDA_SUCCESS))
		return options->memory_limit;
	return options_limit(options, total);
}

/*
 * Claim memory on a device that has no arena. One may be made meanwhile, whose
 * growth does not wait for this claim: it either sees the sum with the claim,
 * or the claim sees the arena afterwards (Dekker's handshake) and is made again
 * under its lock.
 */
static enum weir_status
claim_without_arena(int device, enum outside_kind kind, size_t bytes)
{
	size_t limit = limit_without_arena(device);

	if (!outside_claim(device, kind, bytes, limit))
		return totals_refuse_outside(device, bytes, 0, limit);
	atomic_thread_fence(memory_order_seq_cst);
	struct arena *main = arena_peek(device);
	if (main == NULL || !outside_counts())
		return WEIR_OK;
	outside_drop(device, kind, bytes);
	return totals_claim_outside(main, kind, bytes);
}

enum weir_status
allocator_claim_outside(int device, int kind, size_t bytes)
{
	struct arena *main = arena_peek(device);

	ASSERT(device >= 0 && device < DEVICES_MAX);
	ASSERT(kind >= 0 && kind < OUTSIDE_KINDS);
	return main != NULL ?
	    totals_claim_outside(main, (enum outside_kind)kind, bytes) :
	    claim_without_arena(device, (enum outside_kind)kind, bytes);
}
