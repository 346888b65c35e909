/*
 * Memory of the device that the driver serves to the program: counted when the
 * driver gives it, until the driver has it back.
 *
 * A hook claims the bytes first (outside_begin()), asks the driver, and then
 * says what became of it (outside_end()). A limit that covers such memory
 * (`limit_counts:all`) refuses the claim, and the driver is not asked. So two
 * threads never pass the limit together. handles.c does the same for
 * cuMemCreate(), whose memory lives as long as a handle or a mapping does.
 */
#ifndef PRELOAD_SERVING_OUTSIDE_H
#define PRELOAD_SERVING_OUTSIDE_H

#include "allocator/account/outside.h"
#include "preload/preload.h"

/* The kinds of names by which the program gives memory back. */
enum outside_space {
	OUTSIDE_ADDRESS,
	OUTSIDE_ARRAY,
	OUTSIDE_MIPMAP,
	OUTSIDE_EXTERNAL
};

struct outside_record;

/* Bytes that are counted, and that the driver is being asked for. */
struct outside_claim {
	int device; /* -1: not counted */
	enum outside_kind kind;
	size_t bytes;
	CUcontext context; /* the memory ends with it; NULL: with no context */
	struct outside_record *record;
};

/* Claim memory in the current context. `call` is the name of the program's
 * call, for the message. False: the limit refuses it, and the call fails with
 * CUDA_ERROR_OUT_OF_MEMORY. */
bool outside_begin(struct outside_claim *claim, enum outside_kind kind,
    size_t bytes, const char *call);

/* outside_claim() within the limit, after weir has made room if need be. False:
 * the limit refuses the call, which is logged. */
bool outside_reserve(
    int device, enum outside_kind kind, size_t bytes, const char *call);

/* The driver has answered: remember the memory by its name, or take the claim
 * back. */
void outside_end(struct outside_claim *claim, enum outside_space space,
    uint64_t name, CUresult code);

/* The driver has given another size than was claimed; the memory is another
 * device's, or none's (-1). Before outside_end(). */
void outside_resize(struct outside_claim *claim, size_t bytes);
void outside_move(struct outside_claim *claim, int device);

/* Memory of another process is open at an address, once more: it is counted as
 * imported. Its size is the driver's.
 * Called after `call` has opened it. */
void outside_opened(CUdeviceptr ptr, const char *call);

/* Before a free, take the record of the memory; NULL if there is none. After
 * it, say how it ended. */
struct outside_record *outside_take(enum outside_space space, uint64_t name);
void outside_taken(struct outside_record *record, CUresult code);

/* Free unused memory of weir on a device for a request of the driver that ran
 * out of it or passed the limit. True if any was freed. Freeing waits for
 * streams, which would break a capture. */
bool outside_make_room(int device);

/* The memory of contexts and modules may have changed, in the current context
 * or on a device: measure it if a limit covers it, at most each
 * OUTSIDE_MEASURE_MS unless `now`. */
void outside_contexts_changed(void);
void outside_measure(int device, bool now);

/* The program's graphs have memory of their own from now on; that memory may
 * have changed. */
void outside_graphs_begin(void);
void outside_graphs_changed(void);

#endif
