/*
 * Copies the contents of a suspended arena to page-locked host memory or to a
 * file, and back.
 */
#ifndef GRAPHS_SUSPEND_COPIES_H
#define GRAPHS_SUSPEND_COPIES_H

#include "allocator/memory/handle.h"

struct copies;

/* A range to copy, within one segment. */
struct copy_range {
	CUdeviceptr addr;
	size_t size;
	uint64_t segment; /* its index; for copies_leave_out() alone */
};

/* The ranges to copy, and where to. */
struct copy_plan {
	/* In the order of handles_next() if copies_queue() or
	 * copies_leave_out() is called, mapped throughout; NULL: all memory of
	 * an arena. */
	const struct copy_range *ranges;
	const struct arena *arena;
	size_t range_count;
	const char *folder; /* of the file; NULL: to page-locked memory */
};

/*
 * Copy ranges of a device's memory, and wait for the copies. All work on the
 * memory must be done, and its handles must not change. Between driver_enter()
 * and driver_leave(); the caller holds no lock.
 *
 * @return WEIR_EHOSTMEM, WEIR_EFILE, WEIR_EDRIVER: all is released then
 */
enum weir_status copies_take(int device, CUcontext context,
    const struct copy_plan *plan, struct copies **out);

/* Bytes of the contents. */
size_t copies_bytes(const struct copies *copies);

/*
 * Copy back while memory is mapped again. Call copies_begin(); then
 * copies_queue() for each handle that has been mapped, in the order of
 * handles_next(), which queues the pieces that the handle completes; when all
 * memory is mapped copies_read(), which reads the file, if there is one; then
 * copies_wait(), also after a failure, until no copy is under way. This may be
 * repeated. All but copies_begin() are called between driver_enter() and
 * driver_leave().
 */
void copies_begin(struct copies *copies);
enum weir_status copies_queue(
    struct copies *copies, const struct handle *handle);
enum weir_status copies_read(struct copies *copies);
enum weir_status copies_wait(const struct copies *copies);

/* Copy all ranges back, and wait, between driver_enter() and driver_leave().
 * For memory that no handle of an arena describes: in place of the calls above.
 */
enum weir_status copies_load(struct copies *copies);

/* Copy the nth range of the plan back to another address from now on; 0: drop
 * its contents. */
void copies_move(struct copies *copies, size_t range, CUdeviceptr to);

/* Copy nothing back to a range from now on, which lies in memory without a
 * mapping. The host memory is kept. Call copies_begin(); then this for some
 * ranges in the order of handles_next(), which lie apart. False: no host
 * memory, and nothing has changed. */
bool copies_leave_out(struct copies *copies, const struct copy_range *range);

/* Free the host memory, which is then cached: Note [Copies]; and the file. NULL
 * does nothing. The caller holds no lock. */
void copies_drop(struct copies *copies);

/* Free the structure and the file, when the context is gone, and host memory
 * with it. */
void copies_forget(struct copies *copies);

#endif
