/*
 * Claims of memory outside weir, by device.
 */
#include "allocator/account/outside.h"
#include "allocator/account/totals.h"
#include "allocator/allocator.h"
#include "allocator/api/find.h"
#include "allocator/memory/arena.h"
#include "allocator/options.h"
#include "base/barrier.h"
#include "base/os.h"
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
	barrier_full();
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

/* ---- Contexts and modules ------------------------------------------------ */

enum {
	PROCESSES_READ = 64,
	STACK_FOR_NVML = 32 << 10 /* to load it and to list processes */
};

/* The bytes that NVML says this process has on a device. */
static size_t
measured_bytes(const struct driver *driver, int device)
{
	struct nvml_process list[PROCESSES_READ];
	char bus_id[32];

	if (driver->cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), device) !=
	    CUDA_SUCCESS)
		return 0;
	size_t n = nvml_processes(bus_id, list, PROCESSES_READ);
	for (size_t i = 0; i < n; i++)
		if (list[i].pid == os_process_id())
			return (size_t)list[i].used_bytes;
	return 0;
}

/* The bytes that are counted otherwise. */
static size_t
counted_otherwise(int device)
{
	struct weir_stats stats;
	struct arena *main = arena_peek(device);
	size_t held = 0;

	if (main != NULL) {
		lock_enter(&main->lock);
		held = device_held_by_weir(main);
		lock_leave(&main->lock);
	}
	outside_read(device, &stats);
	return held + outside_bytes(device) - stats.outside_contexts.current;
}

/* Memory that is on its way from or to the driver is in only one of the two
 * figures. The larger one of before and after is taken off, so that the rest is
 * too low for a moment and not too high. */
void
allocator_measure_contexts(int device)
{
	const struct driver *driver;

	ASSERT(device >= 0 && device < DEVICES_MAX);
	if (os_stack_left() < STACK_FOR_NVML || driver_get(&driver) != WEIR_OK)
		return;
	size_t before = counted_otherwise(device);
	size_t all = measured_bytes(driver, device);
	size_t after = counted_otherwise(device);
	size_t counted = before > after ? before : after;

	outside_set(
	    device, OUTSIDE_contexts, all > counted ? all - counted : 0);
}
