/*
 * Memory pools, for those who share them (poolipc.c).
 */
#ifndef DRIVER_SIM_POOL_H
#define DRIVER_SIM_POOL_H

#include "driver/sim/sim.h"

enum { POOL_BINS = 256 };

struct pool {
	struct pool *next; /* of all */
	uint64_t handle;
	struct device *device;
	bool destroyed;
	CUmemPoolProps props;
	struct chunk *chunks;
	struct range *idle[POOL_BINS]; /* blocks, by a hash of their size */
	uint64_t attributes[CU_MEMPOOL_ATTR_USED_MEM_HIGH + 1];
	uint32_t can_read, can_write; /* devices */
	/* The other process it belongs to: it has no memory to allocate. */
	bool imported;
	int exporter_pid;
	uint64_t exporter_pool;
};

struct pool *pool_new(struct device *device);

/* Memory of a pool of another process. */
bool pool_is_imported(const struct range *range);

/* The pool of a handle; NULL, and *why, if there is none. */
struct pool *pool_find(CUmemoryPool handle, CUresult *why);

#endif
