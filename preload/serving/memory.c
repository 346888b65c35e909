/*
 * Device-scope memory: cuMemAlloc(), cuMemAllocPitch() and cuMemFree().
 *
 * weir allocates a block only when all earlier work on it is done on all
 * streams, and its free does not wait. If weir cannot serve a request for any
 * reason but a full device, the driver serves it. If weir does not know a
 * pointer that is freed, the free is the driver's.
 *
 * Note [What a free waits for]
 *
 * The driver's cuMemFree() waits for the device, and programs rely on it: work
 * on any stream, of this context or another device's, may be using the memory.
 *
 *   strict    the call waits in the same way; then the memory is free. During a
 *             capture, when waiting is not allowed, it behaves as deferred.
 *   deferred  the call does not wait: events over all contexts say when the
 *             memory is free. A program that relied on cuMemFree() to wait for
 *             something else must use another call for that.
 *   fast      while the legacy default stream is the only one, it orders all
 *             work and so all uses of memory: cuMemAlloc() and cuMemFree() act
 * as cuMemAllocAsync() and cuMemFreeAsync() on it. When the program creates its
 * first other stream, weir waits for the device once, and behaves as deferred
 * from then on.
 */
#include <limits.h>
#include <stdatomic.h>

#include "allocator/allocator.h"
#include "preload/ends.h"
#include "preload/lock.h"
#include "preload/serving/outside.h"
#include "preload/tuning.h"
#include "streams/capture.h"

static void *
pointer_of(CUdeviceptr address)
{
	return (void *)(uintptr_t)address;
}

/* ---- One order --------------------------------------------------------- */

static atomic_bool other_streams;

static bool
in_one_order(void)
{
	return gate_free_mode() == FREE_FAST && !atomic_load(&other_streams);
}

void
memory_other_stream(void)
{
	const struct real *real;

	if (gate_free_mode() != FREE_FAST ||
	    atomic_exchange(&other_streams, true) || !gate_started())
		return;
	real = real_driver();
	if (real != NULL && !capture_any())
		real->cuCtxSynchronize();
}

/* ---- Allocate ---------------------------------------------------------- */

static void *
allocate_of(const struct request *request)
{
	struct arena *arena =
	    request->pool != NULL ? mempool_arena(request->pool) : NULL;
	void *memory = NULL;

	if (arena == NULL)
		return allocator_malloc_for_driver(
		    request->device, request->bytes, request->stream);
	(void)allocator_malloc_in(
	    arena, request->bytes, request->stream, &memory);
	return memory;
}

bool
memory_allocate(const struct request *request, CUdeviceptr *out, CUresult *code)
{
	struct mempool_block *block = NULL;
	enum weir_status status;
	void *memory;

	if (request->pool != NULL && !mempool_prepare(request->pool, &block))
		return false;
	gate_enter_weir();
	memory = allocate_of(request);
	status = memory == NULL ? weir_last_status() : WEIR_OK;
	gate_leave_weir();
	if (memory == NULL) {
		if (block != NULL)
			mempool_unprepare(block);
		*code = gate_result(status);
		return status == WEIR_ENOMEM;
	}
	*out = (CUdeviceptr)(uintptr_t)memory;
	if (request->pool != NULL)
		mempool_allocated(request->pool, block, *out, request->bytes);
	report_allocated(request, *out);
	races_allocated(*out, request->bytes, request->stream);
	*code = CUDA_SUCCESS;
	return true;
}

static bool
allocate_plain(int device, size_t bytes, CUdeviceptr *out, CUresult *code)
{
	struct request request = {
		.device = device, .bytes = bytes, .stream = WEIR_STREAM_ANY
	};

	if (in_one_order()) {
		request.pool = mempool_serving(device, NULL, true);
		if (request.pool != NULL)
			request.stream = WEIR_STREAM_LEGACY;
	}
	if (!memory_allocate(&request, out, code))
		return false;
	/* The program knows this memory as device-scope. */
	if (*code == CUDA_SUCCESS && request.stream != WEIR_STREAM_ANY)
		races_allocated(*out, bytes, WEIR_STREAM_ANY);
	return true;
}

static CUresult
allocate_by_driver(CUdeviceptr *out, size_t bytes)
{
	struct outside_claim claim;
	CUresult code;

	if (out == NULL)
		return REAL(cuMemAlloc_v2)(out, bytes);
	if (!outside_begin(&claim, OUTSIDE_plain, bytes, "cuMemAlloc"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	code = REAL(cuMemAlloc_v2)(out, bytes);
	outside_end(
	    &claim, OUTSIDE_ADDRESS, code == CUDA_SUCCESS ? *out : 0, code);
	return code;
}

CUresult
cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
	CUresult code;
	int device;

	report_call(HOOK_cuMemAlloc_v2);
	if (out == NULL || bytes == 0 || gate_ipc() || !gate_context(&device) ||
	    !allocate_plain(device, bytes, out, &code))
		return allocate_by_driver(out, bytes);
	report_served(HOOK_cuMemAlloc_v2, code);
	return code;
}

/* ---- Rows -------------------------------------------------------------- */

/* A row that weir allocated to find out the driver's pitch and that the driver
 * failed to free, by device; and the number of such rows. */
static _Atomic(CUdeviceptr) rows_left[PRELOAD_DEVICES];
static atomic_int n_rows_left;

static void
free_row(int device, CUdeviceptr row)
{
	if (REAL(cuMemFree_v2)(row) == CUDA_SUCCESS)
		return;
	atomic_store(&rows_left[device], row);
	atomic_fetch_add(&n_rows_left, 1);
}

static CUdeviceptr
take_probe_row(int device)
{
	CUdeviceptr row = 0;

	if (atomic_load(&rows_left[device]) != 0)
		row = atomic_exchange(&rows_left[device], 0);
	if (row != 0)
		atomic_fetch_sub(&n_rows_left, 1);
	return row;
}

/* Free such rows when the program frees memory: cuMemFree() waits for the
 * device. */
static void
free_rows_left(void)
{
	if (atomic_load_explicit(&n_rows_left, memory_order_relaxed) == 0 ||
	    capture_any())
		return;
	for (int i = 0; i < PRELOAD_DEVICES; i++) {
		CUdeviceptr row = take_probe_row(i);

		if (row != 0)
			free_row(i, row);
	}
}

void
memory_device_ends(int device)
{
	if (device >= 0 && device < PRELOAD_DEVICES)
		(void)take_probe_row(device);
}

/* Ask the driver for the pitch of one short row, one thread at a time. */
static size_t
ask_row_step(int device, atomic_size_t *known)
{
	static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_HOOK);
	CUdeviceptr row;
	size_t step;

	preload_lock(&lock);
	step = atomic_load(known);
	if (step == 0 &&
	    REAL(cuMemAllocPitch_v2)(&row, &step, 1, 1, 4) == CUDA_SUCCESS) {
		free_row(device, row);
		atomic_store(known, step);
	}
	preload_unlock(&lock);
	return atomic_load(known);
}

/* The number of bytes that every pitch is a multiple of; 0 if it cannot be
 * found now. */
static size_t
row_step(int device)
{
	static atomic_size_t steps[PRELOAD_DEVICES];
	size_t step;

	if (device < 0 || device >= PRELOAD_DEVICES || capture_any())
		return 0;
	step = atomic_load(&steps[device]);
	return step != 0 ? step : ask_row_step(device, &steps[device]);
}

/* The driver refuses other element sizes, empty rows and larger rows. */
static bool
rows_are_plain(size_t width, size_t height, unsigned element)
{
	return (element == 4 || element == 8 || element == 16) && width > 0 &&
	    height > 0 && width <= INT_MAX / 2 &&
	    height <= WEIR_SIZE_MAX / INT_MAX;
}

static bool
allocate_rows(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
    CUresult *code)
{
	size_t step;
	size_t row;
	int device;

	if (gate_ipc() || !gate_context(&device))
		return false;
	step = row_step(device);
	if (step == 0)
		return false;
	row = (width + step - 1) / step * step;
	if (!allocate_plain(device, row * height, out, code))
		return false;
	if (*code == CUDA_SUCCESS)
		*pitch = row;
	return true;
}

/* The rows are as long as the driver makes them, which it says afterwards. */
static CUresult
allocate_rows_by_driver(CUdeviceptr *out, size_t *pitch, size_t width,
    size_t height, unsigned element)
{
	struct outside_claim claim;
	CUresult code;

	if (out == NULL || pitch == NULL)
		return REAL(cuMemAllocPitch_v2)(
		    out, pitch, width, height, element);
	if (!outside_begin(&claim, OUTSIDE_plain,
		height <= WEIR_SIZE_MAX / INT_MAX && width <= INT_MAX ?
		    width * height :
		    0,
		"cuMemAllocPitch"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	code = REAL(cuMemAllocPitch_v2)(out, pitch, width, height, element);
	if (retry_is_due(code))
		code = REAL(cuMemAllocPitch_v2)(
		    out, pitch, width, height, element);
	if (code == CUDA_SUCCESS)
		outside_resize(&claim, *pitch * height);
	outside_end(
	    &claim, OUTSIDE_ADDRESS, code == CUDA_SUCCESS ? *out : 0, code);
	return code;
}

CUresult
cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
    unsigned element)
{
	CUresult code;

	report_call(HOOK_cuMemAllocPitch_v2);
	if (out != NULL && pitch != NULL &&
	    rows_are_plain(width, height, element) &&
	    allocate_rows(out, pitch, width, height, &code)) {
		report_served(HOOK_cuMemAllocPitch_v2, code);
		return code;
	}
	return allocate_rows_by_driver(out, pitch, width, height, element);
}

/* ---- Free -------------------------------------------------------------- */

enum memory_owner
memory_hold(CUdeviceptr ptr, struct held *held)
{
	struct allocator_block block;

	if (ptr == 0 || !gate_started())
		return OTHERS;
	if (!allocator_find(pointer_of(ptr), &block))
		return allocator_owns(ptr) ? UNUSED : OTHERS;
	if (block.host) /* these calls do not free host memory */
		return OTHERS;
	*held = (struct held){ .ptr = ptr,
		.device = block.device,
		.bytes = block.requested_bytes,
		.ordered = !block.of_no_stream,
		.site = sites_take(ptr) };
	if (held->ordered)
		held->block = mempool_take(ptr);
	address_forget(ptr);
	return LIVE;
}

void
memory_keep(const struct held *held)
{
	mempool_put_back(held->block);
	sites_put_back(held->site);
}

CUresult
memory_let_go(const struct held *held, enum weir_status status)
{
	if (status == WEIR_OK) {
		report_freed(held->device, held->bytes);
		sites_freed(held->site);
		if (held->ordered)
			mempool_freed(held->block, held->device, held->bytes);
		return CUDA_SUCCESS;
	}
	memory_keep(held);
	/* A driver that is ending frees the memory itself. */
	return status == WEIR_EEXIT ? CUDA_SUCCESS : gate_result(status);
}

/* See Note [What a free waits for]. For stream-ordered memory, the caller must
 * have waited. */
static enum weir_status
free_plain(const struct held *held)
{
	void *ptr = pointer_of(held->ptr);

	if (held->ordered) {
		if (gate_free_mode() != FREE_FAST)
			return weir_free(ptr);
		watch_free();
		if (in_one_order())
			return weir_free(ptr);
		return weir_free_async(ptr, WEIR_STREAM_ANY);
	}
	if (gate_free_mode() == FREE_STRICT && contexts_wait(held->device)) {
		watch_wait();
		return allocator_free_done(ptr);
	}
	watch_free();
	if (contexts_several())
		contexts_use(held->ptr, held->device);
	return weir_free(ptr);
}

static CUresult
free_by_driver(CUdeviceptr ptr)
{
	struct outside_record *record = outside_take(OUTSIDE_ADDRESS, ptr);
	CUresult code = REAL(cuMemFree_v2)(ptr);

	outside_taken(record, code);
	return code;
}

CUresult
cuMemFree_v2(CUdeviceptr ptr)
{
	enum weir_status status;
	struct held held;
	CUresult code;

	report_call(HOOK_cuMemFree_v2);
	switch (memory_hold(ptr, &held)) {
	case OTHERS:
		watch_wait();
		return free_by_driver(ptr);
	case UNUSED:
		return CUDA_ERROR_INVALID_VALUE;
	case LIVE:
		break;
	}
	races_freed(ptr, WEIR_STREAM_ANY);
	free_rows_left();
	gate_enter_weir();
	status = free_plain(&held);
	gate_leave_weir();
	code = memory_let_go(&held, status);
	report_served(HOOK_cuMemFree_v2, code);
	return code;
}

/* ---- How much there is ------------------------------------------------- */

CUresult
cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	enum weir_status status;
	CUresult code;
	size_t available;
	size_t total;
	int device;

	report_call(HOOK_cuMemGetInfo_v2);
	code = REAL(cuMemGetInfo_v2)(free_bytes, total_bytes);
	if (code != CUDA_SUCCESS || !gate_context(&device))
		return code;
	gate_enter_weir();
	status = weir_memory_info(device, &available, &total);
	gate_leave_weir();
	if (status != WEIR_OK)
		return code;
	report_served(HOOK_cuMemGetInfo_v2, code);
	*free_bytes = available;
	*total_bytes = total;
	return code;
}
