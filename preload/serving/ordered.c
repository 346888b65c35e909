/*
 * Stream-ordered memory: cuMemAllocAsync() and related calls.
 *
 * The memory comes from weir's heap of the stream, whichever memory pool of the
 * program it is counted in. An allocation in a stream that is being captured
 * becomes a node of the graph, so the driver serves it.
 *
 * Note [The short way]
 *
 * Each request raises three questions: may weir serve it, which device does its
 * stream belong to, and which memory pool does it use. The answers are mostly
 * the same as for the request before. A thread stores them for some of its
 * streams, together with the value of gate_changes at that time. While that
 * value is unchanged, a request goes straight to the thread cache; on a miss
 * there, the questions are asked again.
 *
 * A default stream belongs to the current context, which only the driver knows,
 * so the driver is asked each time. Any other stream belongs to one context,
 * and the driver is not asked. The driver might say that the program is ending,
 * so inside.c stores no answers once the program ends.
 */
#include <weir/stream.h>

#include "allocator/allocator.h"
#include "preload/serving/outside.h"
#include "preload/tuning.h"
#include "streams/stream.h"

/* ---- The short way ----------------------------------------------------- */

/* A thread's answers about a stream: Note [The short way]. */
struct known {
	weir_stream stream; /* an explicit handle */
	/* gate_change() at that time; 0: nothing is stored. */
	uint64_t change;
	CUcontext context; /* of a default stream, else NULL */
	/* A default pool; NULL: another pool, or the driver serves it. */
	struct mempool *pool;
	int device;
	struct report_place place;
};

static inline struct known *
known_place(weir_stream stream)
{
	static PRELOAD_THREAD struct known known[1 << ORDERED_KNOWN_BITS];
	uint32_t hash = (uint32_t)(uintptr_t)stream * UINT32_C(0x9e3779b1);

	return &known[hash >> (32 - ORDERED_KNOWN_BITS)];
}

static inline struct known *
known_default_place(weir_stream stream)
{
	static PRELOAD_THREAD struct known legacy;
	static PRELOAD_THREAD struct known per_thread;

	return stream == WEIR_STREAM_LEGACY ? &legacy : &per_thread;
}

/* The default stream that a handle names, or NULL if it names another stream.
 */
static weir_stream
default_named(CUstream handle, weir_stream of_null)
{
	if (handle == NULL)
		return of_null;
	return stream_is_default((weir_stream)handle) ? (weir_stream)handle :
							NULL;
}

/* `change` was read before the questions were asked. */
static void
remember_stream(weir_stream stream, int device, uint64_t change)
{
	struct known known = {
		.stream = stream, .change = change, .device = device
	};

	if (change == 0 || sites_wanted() || races_wanted())
		return;
	known.pool = mempool_serving(device, NULL, true);
	if (known.pool != NULL && !mempool_is_default(known.pool))
		known.pool = NULL;
	if (report_wanted())
		known.place = report_place(device, stream);
	if (!stream_is_default(stream))
		*known_place(stream) = known;
	else if (real_driver()->cuCtxGetCurrent(&known.context) == CUDA_SUCCESS)
		*known_default_place(stream) = known;
}

static inline bool
is_known(const struct known *known, weir_stream stream)
{
	return known->stream == stream &&
	    known->change ==
	    atomic_load_explicit(&gate_changes, memory_order_acquire) &&
	    gate_in_weir == 0;
}

/* is_known() for a default stream. */
static bool
is_known_default(const struct known *known, weir_stream stream)
{
	CUcontext current = NULL;

	return is_known(known, stream) &&
	    real_driver()->cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
	    current == known->context;
}

/* Allocate in the device's default pool; false if the long way has to be taken.
 */
static inline __attribute__((always_inline)) bool
allocate_known(const struct known *known, enum hook_id id, CUdeviceptr *out,
    size_t bytes, weir_stream stream, CUcontext context)
{
	CUdeviceptr ptr;

	if (known->pool == NULL || out == NULL)
		return false;
	ptr = (CUdeviceptr)(uintptr_t)allocator_malloc_cached(
	    known->device, bytes, stream, context);
	if (ptr == 0)
		return false;
	*out = ptr;
	mempool_allocated(known->pool, NULL, ptr, bytes);
	if (report_wanted())
		report_count_quick_malloc(id, known->place, bytes);
	return true;
}

static inline bool
allocate_short(
    enum hook_id id, CUdeviceptr *out, size_t bytes, weir_stream stream)
{
	const struct known *known = known_place(stream);

	return is_known(known, stream) &&
	    allocate_known(known, id, out, bytes, stream, NULL);
}

static bool
allocate_default(
    enum hook_id id, CUdeviceptr *out, size_t bytes, weir_stream stream)
{
	const struct known *known = known_default_place(stream);

	return stream != NULL && is_known_default(known, stream) &&
	    allocate_known(known, id, out, bytes, stream, known->context);
}

/* allocate_known() in a pool that the program names. */
static bool
allocate_named(enum hook_id id, CUdeviceptr *out, size_t bytes,
    CUmemoryPool handle, CUstream stream)
{
	const struct known *known = known_place(stream);
	struct request request = { .bytes = bytes, .stream = stream };
	struct mempool_block *block;
	CUdeviceptr ptr;

	if (!is_known(known, stream) || out == NULL)
		return false;
	request.device = known->device;
	request.pool = mempool_serving(known->device, handle, false);
	if (request.pool == NULL || mempool_arena(request.pool) != NULL ||
	    !mempool_prepare(request.pool, &block))
		return false;
	ptr = (CUdeviceptr)(uintptr_t)allocator_malloc_cached(
	    known->device, bytes, stream, NULL);
	if (ptr == 0) {
		mempool_unprepare(block);
		return false;
	}
	*out = ptr;
	mempool_allocated(request.pool, block, ptr, bytes);
	if (report_wanted())
		report_count_quick_malloc(id, known->place, bytes);
	return true;
}

/* Free a block on a known stream; false if the long way has to be taken. */
static inline __attribute__((always_inline)) bool
free_known(const struct known *known, enum hook_id id, CUdeviceptr ptr,
    weir_stream stream, CUcontext context)
{
	struct mempool_block *block = mempool_take(ptr);
	size_t bytes;

	address_forget(ptr);
	if (!allocator_free_cached(
		(void *)(uintptr_t)ptr, stream, context, &bytes)) {
		mempool_put_back(block);
		return false;
	}
	mempool_freed(block, known->device, bytes);
	if (report_wanted())
		report_count_quick_free(id, known->place, bytes);
	return true;
}

static inline bool
free_short(enum hook_id id, CUdeviceptr ptr, weir_stream stream)
{
	const struct known *known = known_place(stream);

	return is_known(known, stream) &&
	    free_known(known, id, ptr, stream, NULL);
}

static bool
free_default(enum hook_id id, CUdeviceptr ptr, weir_stream stream)
{
	const struct known *known = known_default_place(stream);

	return stream != NULL && is_known_default(known, stream) &&
	    free_known(known, id, ptr, stream, known->context);
}

/* ---- Allocate ---------------------------------------------------------- */

/* A request of the program; `pool` counts unless it is `of_device`. */
struct wish {
	size_t bytes;
	CUmemoryPool pool;
	bool of_device;
	CUstream stream;
	bool per_thread;
};

static bool
allocate_ordered(const struct wish *wish, CUdeviceptr *out, CUresult *code)
{
	struct request request = { .bytes = wish->bytes };
	uint64_t change = gate_change();

	if (out == NULL || wish->bytes == 0 ||
	    !gate_stream(wish->stream, wish->per_thread, &request.device,
		&request.stream) ||
	    gate_capturing(request.stream))
		return false;
	if (request.stream != WEIR_STREAM_LEGACY)
		memory_other_stream();
	remember_stream(request.stream, request.device, change);
	request.pool =
	    mempool_serving(request.device, wish->pool, wish->of_device);
	return request.pool != NULL && memory_allocate(&request, out, code);
}

/* ---- Memory of the driver ---------------------------------------------- */

/* The program's request goes to the driver. In a captured stream it becomes a
 * node of the graph, whose memory the driver counts. */
static bool
begin_pooled(struct outside_claim *claim, const struct wish *wish,
    const CUdeviceptr *out, const char *call)
{
	weir_stream stream = (weir_stream)wish->stream;

	*claim = (struct outside_claim){ .device = -1 };
	if (out == NULL || !gate_admits())
		return true;
	if (stream == NULL)
		stream = wish->per_thread ? WEIR_STREAM_PER_THREAD :
					    WEIR_STREAM_LEGACY;
	if (gate_capturing(stream)) {
		outside_graphs_begin();
		return true;
	}
	return outside_begin(claim, OUTSIDE_pooled, wish->bytes, call);
}

/* The pool may be of another device than the current one, or of the host. Its
 * memory does not end with a context. */
static CUresult
end_pooled(struct outside_claim *claim, CUdeviceptr *out, CUresult code)
{
	unsigned type;
	int device;

	outside_graphs_changed();
	if (claim->device < 0 || out == NULL)
		return code;
	claim->context = NULL;
	if (code == CUDA_SUCCESS &&
	    REAL(cuPointerGetAttribute)(&device,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, *out) == CUDA_SUCCESS &&
	    REAL(cuPointerGetAttribute)(
		&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, *out) == CUDA_SUCCESS)
		outside_move(claim, type == CU_MEMORYTYPE_DEVICE ? device : -1);
	outside_end(
	    claim, OUTSIDE_ADDRESS, code == CUDA_SUCCESS ? *out : 0, code);
	return code;
}

static CUresult
served(enum hook_id id, CUresult code)
{
	report_served(id, code);
	return code;
}

static __attribute__((noinline)) CUresult
allocate_async(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	struct wish wish = { bytes, NULL, true, stream, false };
	struct outside_claim claim;
	CUresult code;

	if (allocate_default(HOOK_cuMemAllocAsync, out, bytes,
		default_named(stream, WEIR_STREAM_LEGACY)))
		return CUDA_SUCCESS;
	report_call(HOOK_cuMemAllocAsync);
	if (allocate_ordered(&wish, out, &code))
		return served(HOOK_cuMemAllocAsync, code);
	if (!begin_pooled(&claim, &wish, out, "cuMemAllocAsync"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	code = REAL(cuMemAllocAsync)(out, bytes, stream);
	if (retry_is_due(code))
		code = REAL(cuMemAllocAsync)(out, bytes, stream);
	return end_pooled(&claim, out, code);
}

CUresult
cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	return allocate_short(HOOK_cuMemAllocAsync, out, bytes, stream) ?
	    CUDA_SUCCESS :
	    allocate_async(out, bytes, stream);
}

static __attribute__((noinline)) CUresult
allocate_async_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	struct wish wish = { bytes, NULL, true, stream, true };
	struct outside_claim claim;
	CUresult code;

	if (allocate_default(HOOK_cuMemAllocAsync_ptsz, out, bytes,
		default_named(stream, WEIR_STREAM_PER_THREAD)))
		return CUDA_SUCCESS;
	report_call(HOOK_cuMemAllocAsync_ptsz);
	if (allocate_ordered(&wish, out, &code))
		return served(HOOK_cuMemAllocAsync_ptsz, code);
	if (!begin_pooled(&claim, &wish, out, "cuMemAllocAsync"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	code = REAL(cuMemAllocAsync_ptsz)(out, bytes, stream);
	if (retry_is_due(code))
		code = REAL(cuMemAllocAsync_ptsz)(out, bytes, stream);
	return end_pooled(&claim, out, code);
}

CUresult
cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	return allocate_short(HOOK_cuMemAllocAsync_ptsz, out, bytes, stream) ?
	    CUDA_SUCCESS :
	    allocate_async_ptsz(out, bytes, stream);
}

CUresult
cuMemAllocFromPoolAsync(
    CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	struct wish wish = { bytes, pool, false, stream, false };
	struct outside_claim claim;
	CUresult code;

	if (allocate_named(
		HOOK_cuMemAllocFromPoolAsync, out, bytes, pool, stream))
		return CUDA_SUCCESS;
	report_call(HOOK_cuMemAllocFromPoolAsync);
	if (allocate_ordered(&wish, out, &code))
		return served(HOOK_cuMemAllocFromPoolAsync, code);
	if (!begin_pooled(&claim, &wish, out, "cuMemAllocFromPoolAsync"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	code = REAL(cuMemAllocFromPoolAsync)(out, bytes, pool, stream);
	if (retry_is_due(code))
		code = REAL(cuMemAllocFromPoolAsync)(out, bytes, pool, stream);
	return end_pooled(&claim, out, code);
}

CUresult
cuMemAllocFromPoolAsync_ptsz(
    CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	struct wish wish = { bytes, pool, false, stream, true };
	struct outside_claim claim;
	CUresult code;

	if (allocate_named(
		HOOK_cuMemAllocFromPoolAsync_ptsz, out, bytes, pool, stream))
		return CUDA_SUCCESS;
	report_call(HOOK_cuMemAllocFromPoolAsync_ptsz);
	if (allocate_ordered(&wish, out, &code))
		return served(HOOK_cuMemAllocFromPoolAsync_ptsz, code);
	if (!begin_pooled(&claim, &wish, out, "cuMemAllocFromPoolAsync"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	code = REAL(cuMemAllocFromPoolAsync_ptsz)(out, bytes, pool, stream);
	if (retry_is_due(code))
		code = REAL(cuMemAllocFromPoolAsync_ptsz)(
		    out, bytes, pool, stream);
	return end_pooled(&claim, out, code);
}

/* ---- Free -------------------------------------------------------------- */

/*
 * Free a block on a stream that weir cannot give it to: one of another device,
 * or of a context that is not primary. The call waits for the stream instead.
 */
static CUresult
free_after(const struct held *held, CUstream stream)
{
	enum weir_status status;
	CUresult code = real_driver()->cuStreamSynchronize(stream);

	if (code != CUDA_SUCCESS) {
		memory_keep(held);
		return code;
	}
	gate_enter_weir();
	status = weir_free((void *)(uintptr_t)held->ptr);
	gate_leave_weir();
	return memory_let_go(held, status);
}

/* weir refuses a stream if the driver does not name its context. Then the
 * driver is asked why, and its error goes to the program. */
static CUresult
free_in_order(const struct held *held, weir_stream stream)
{
	void *ptr = (void *)(uintptr_t)held->ptr;
	enum weir_status status;
	CUcontext context;
	CUresult code;

	gate_enter_weir();
	status = weir_free_async(ptr, stream);
	gate_leave_weir();
	if (status != WEIR_EINVAL || stream_is_default(stream))
		return memory_let_go(held, status);
	code = real_driver()->cuStreamGetCtx((CUstream)stream, &context);
	if (code != CUDA_SUCCESS) {
		memory_keep(held);
		return code;
	}
	gate_enter_weir();
	status = weir_free_async(ptr, stream);
	gate_leave_weir();
	return memory_let_go(held, status);
}

/* In a captured stream only memory of the graph may be freed, and weir's memory
 * is none. */
static CUresult
free_on(const struct held *held, CUstream handle, bool per_thread)
{
	uint64_t change = gate_change();
	weir_stream stream;
	bool capturing;
	CUresult code;
	int device;

	if (!gate_stream(handle, per_thread, &device, &stream)) {
		if (handle == NULL && per_thread)
			handle = (CUstream)WEIR_STREAM_PER_THREAD;
		return free_after(held, handle);
	}
	code = gate_ask_capturing(stream, &capturing);
	if (code != CUDA_SUCCESS || capturing) {
		memory_keep(held);
		return capturing ? CUDA_ERROR_INVALID_VALUE : code;
	}
	if (device != held->device)
		return free_after(held, (CUstream)stream);
	if (stream != WEIR_STREAM_LEGACY)
		memory_other_stream();
	remember_stream(stream, device, change);
	races_freed(held->ptr, stream);
	return free_in_order(held, stream);
}

/* Free the memory if it is weir's; false if the driver must do it. */
static bool
free_ordered(CUdeviceptr ptr, CUstream handle, bool per_thread, CUresult *code)
{
	struct held held;

	switch (memory_hold(ptr, &held)) {
	case OTHERS:
		return false;
	case UNUSED:
		*code = CUDA_ERROR_INVALID_VALUE;
		return true;
	case LIVE:
		break;
	}
	*code = free_on(&held, handle, per_thread);
	return true;
}

/* The driver has the memory back when the stream comes to it. */
static CUresult
free_pooled(
    cuMemFreeAsync_function *by_driver, CUdeviceptr ptr, CUstream stream)
{
	struct outside_record *record = outside_take(OUTSIDE_ADDRESS, ptr);
	CUresult code = by_driver(ptr, stream);

	outside_taken(record, code);
	return code;
}

static __attribute__((noinline)) CUresult
free_async(CUdeviceptr ptr, CUstream stream)
{
	CUresult code;

	if (free_default(HOOK_cuMemFreeAsync, ptr,
		default_named(stream, WEIR_STREAM_LEGACY)))
		return CUDA_SUCCESS;
	report_call(HOOK_cuMemFreeAsync);
	if (!free_ordered(ptr, stream, false, &code))
		return free_pooled(REAL(cuMemFreeAsync), ptr, stream);
	return served(HOOK_cuMemFreeAsync, code);
}

CUresult
cuMemFreeAsync(CUdeviceptr ptr, CUstream stream)
{
	return free_short(HOOK_cuMemFreeAsync, ptr, stream) ?
	    CUDA_SUCCESS :
	    free_async(ptr, stream);
}

static __attribute__((noinline)) CUresult
free_async_ptsz(CUdeviceptr ptr, CUstream stream)
{
	CUresult code;

	if (free_default(HOOK_cuMemFreeAsync_ptsz, ptr,
		default_named(stream, WEIR_STREAM_PER_THREAD)))
		return CUDA_SUCCESS;
	report_call(HOOK_cuMemFreeAsync_ptsz);
	if (!free_ordered(ptr, stream, true, &code))
		return free_pooled(REAL(cuMemFreeAsync_ptsz), ptr, stream);
	return served(HOOK_cuMemFreeAsync_ptsz, code);
}

CUresult
cuMemFreeAsync_ptsz(CUdeviceptr ptr, CUstream stream)
{
	return free_short(HOOK_cuMemFreeAsync_ptsz, ptr, stream) ?
	    CUDA_SUCCESS :
	    free_async_ptsz(ptr, stream);
}
