/*
 * The table of the program's own handles of memory: handles.c follows the calls
 * on them, and leaving.c lets their memory leave a device that sleeps.
 */
#ifndef PRELOAD_SERVING_HANDLES_H
#define PRELOAD_SERVING_HANDLES_H

#include "preload/lock.h"
#include "preload/serving/outside.h"
#include "preload/tuning.h"

struct leaving_batch;

/* Memory behind handles. */
struct handle_memory {
	int device;
	enum outside_kind kind;
	size_t bytes;
	CUmemAllocationProp prop;
	size_t names;    /* keys below: handles and mappings */
	size_t handles;  /* of them, handles */
	size_t mappings; /* of them, mappings */
	/* The latest mapping and handle, where walks look first. */
	CUdeviceptr mapped_at;
	CUmemGenericAllocationHandle number;
	bool shared; /* it has been exported or bound, and stays so */
	bool odd;    /* it has been mapped in part */
	/* The driver's handle for those that the program has: the memory has
	 * left and come back. 0: they are the driver's own. */
	CUmemGenericAllocationHandle real;

	/* leaving.c: */
	struct leaving_batch *batch; /* while it is away */
	size_t range;                /* in the batch's copies */
	CUdeviceptr spare;           /* mapped there to be filled; or 0 */
	unsigned long long access;   /* of its device, when it left */
	CUmemGenericAllocationHandle back;
	unsigned seen; /* the latest walk that has met it */
};

/* A handle, or the address of a mapping, that the memory lives by. */
struct handle_key {
	struct handle_key *next;
	struct handle_memory *memory;
	uint64_t name;
	size_t size;  /* of a mapping; 0: a handle */
	size_t times; /* that the handle must be released */
};

enum { BY_HANDLE, BY_ADDRESS, KEY_TABLES };

extern struct lock handles_lock; /* over all that follows */
extern bool handles_away;        /* the memory of some is away */
extern atomic_bool handles_left; /* it has been away */
extern struct handle_key *handles_keys[KEY_TABLES][OUTSIDE_BUCKETS];

/* A mapping of memory, and a handle; NULL: it has none. The caller holds the
 * lock. */
struct handle_key *handles_mapping_of(const struct handle_memory *memory)
    HOLDS(handles_lock);
struct handle_key *handles_handle_of(const struct handle_memory *memory)
    HOLDS(handles_lock);

/* Memory is exported, bound or registered by its address: it stays. The caller
 * does not hold the lock. */
void handles_share(CUdeviceptr ptr, size_t bytes);

/* Wait while memory of a range is away. False: it still is, and the call fails
 * with CUDA_ERROR_NOT_READY. The caller does not hold the lock. */
bool handles_wait(CUdeviceptr ptr, size_t bytes);

/* The function of leaving.c that is called when the last name of memory that is
 * away is gone. */
extern void (*handles_drop_away)(struct handle_memory *memory);

#endif
