/*
 * Memory pools, for the code that shares them (poolipc.c).
 */
#ifndef SIMCUDA_POOL_H
#define SIMCUDA_POOL_H

#include "simcuda/sim.h"

enum { POOL_BINS = 256 };

struct pool {
	struct pool *next; /* list of all pools */
	uint64_t handle;
	struct device *device;
	bool destroyed;
	size_t n_graph_ranges; /* memory of graphs that refers to it */
	CUmemPoolProps props;
	struct chunk *chunks;
	struct range *idle[POOL_BINS]; /* blocks, hashed by their size */
	uint64_t attributes[CU_MEMPOOL_ATTR_USED_MEM_HIGH + 1];
	uint32_t can_read, can_write; /* bits for devices */
	/* The other process that owns the pool; this process cannot allocate
	 * from it. */
	bool imported;
	int exporter_pid;
	uint64_t exporter_pool;
};

struct pool *pool_new(struct device *device);

/* Is it memory of another process's pool? */
bool pool_is_imported(const struct range *range);

/* The pool with a handle; NULL, and *why, if there is none. */
struct pool *pool_find(CUmemoryPool handle, CUresult *why);

#endif
