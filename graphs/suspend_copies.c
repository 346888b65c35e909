/*
 * Copies the contents of suspended arenas to host memory and back.
 *
 * Note [Copies]
 *
 * To get page-locked memory takes several times as long as to fill it, because
 * the system makes the pages and the driver then registers them. Therefore the
 * memory is cut into pieces, and several threads take one piece after the
 * other: they allocate host memory for it and queue its copy on a stream of its
 * own. Thus the pages of one piece are made while another is registered, which
 * the driver does one at a time, and others are copied.
 *
 * The copies are in page-locked memory like any caller's: statistics and limits
 * count it, free memory serves it, and it is cached when it is freed, so that
 * the next suspension finds it. reaper.c gives it back if it stays unused. To
 * give it back takes as long as to get it, so a resume does not wait for that.
 *
 * Pieces have one size, except at the end of a run of handles, and do not
 * follow the sizes of handles: thus host memory that held the copies of one
 * pool fits those of another.
 */
#include "graphs/suspend_copies.h"

#include <stdio.h>

#include <weir/host.h>

#include "allocator/api/host.h"
#include "allocator/host/reaper.h"
#include "allocator/memory/handle.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "graphs/tuning.h"
#include "streams/drain.h"
#include "streams/event.h"

enum { TEXT_SIZE = 512 };

struct piece {
	CUdeviceptr addr;
	size_t size;
	void *copy; /* NULL: not copied yet */
};

struct copies {
	/* Constant. */
	int device;
	CUcontext context;
	CUstream stream;
	size_t n;

	size_t queued; /* pieces that are queued to be copied back */
	struct piece pieces[];
};

/* ---- Pieces ------------------------------------------------------------ */

/* Find the end of a run of adjacent handles; returns the handle after it. */
static struct handle *
run_end(const struct handle *first, CUdeviceptr *end)
{
	struct handle *h = handles_next(first);

	*end = first->addr + first->size;
	for (; h != NULL && h->segment == first->segment && h->addr == *end;
	     h = handles_next(h))
		*end += h->size;
	return h;
}

/* Cut a range into pieces, or only count them if `pieces` is NULL. */
static size_t
cut_range(CUdeviceptr addr, size_t size, struct piece *pieces)
{
	size_t n = 0;

	ASSERT(size > 0);
	for (size_t at = 0; at < size; at += SUSPEND_PIECE, n++)
		if (pieces != NULL)
			pieces[n] = (struct piece){ .addr = addr + at,
				.size = size - at < SUSPEND_PIECE ?
				    size - at :
				    SUSPEND_PIECE };
	return n;
}

/* Cut all mapped memory, likewise. */
static size_t
cut_all(const struct arena *arena, struct piece *pieces)
{
	struct handle *next;
	size_t n = 0;

	for (struct handle *h = handles_first(arena); h != NULL; h = next) {
		CUdeviceptr end;
		next = run_end(h, &end);
		n += cut_range(
		    h->addr, end - h->addr, pieces != NULL ? pieces + n : NULL);
	}
	return n;
}

/* Cut ranges, or all memory if `ranges` is NULL. */
static size_t
cut_pieces(const struct arena *arena, const struct copy_range *ranges,
    size_t range_count, struct piece *pieces)
{
	size_t n = 0;

	if (ranges == NULL)
		return cut_all(arena, pieces);
	for (size_t i = 0; i < range_count; i++)
		n += cut_range(ranges[i].addr, ranges[i].size,
		    pieces != NULL ? pieces + n : NULL);
	return n;
}

static size_t
bytes_for(size_t n)
{
	return sizeof(struct copies) + n * sizeof(struct piece);
}

static void
free_pieces(struct copies *copies)
{
	/* After a reset of the device these calls fail, which is no error. */
	status_mute();
	for (size_t i = 0; i < copies->n; i++)
		weir_host_free(copies->pieces[i].copy);
	host_reap_freed();
	status_unmute();
}

/* ---- The stream -------------------------------------------------------- */

static enum weir_status
make_stream(struct copies *copies)
{
	return driver_status(driver_peek()->cuStreamCreateWithPriority(
				 &copies->stream, CU_STREAM_NON_BLOCKING, 0),
	    "cuStreamCreateWithPriority(non-blocking)");
}

/* Destroy the stream; on failure try once more, since no later call will. */
static void
drop_stream(const struct copies *copies)
{
	if (driver_peek()->cuStreamDestroy(copies->stream) != CUDA_SUCCESS)
		driver_peek()->cuStreamDestroy(copies->stream);
}

enum weir_status
copies_wait(const struct copies *copies)
{
	return driver_status(drain_stream(copies->context, copies->stream),
	    "cuStreamSynchronize(copies)");
}

/* ---- Out --------------------------------------------------------------- */

/* The state that the copying threads share. */
struct saving {
	struct copies *copies;
	atomic_size_t next; /* the next piece */
	atomic_bool failed;
	enum weir_status status; /* of the first failure */
	char text[TEXT_SIZE];
};

static enum weir_status
save(const struct copies *copies, struct piece *piece)
{
	void *memory;
	enum weir_status status =
	    host_get(copies->device, piece->size, &memory);
	if (status != WEIR_OK)
		return status;
	piece->copy = memory;
	return driver_status(driver_peek()->cuMemcpyDtoHAsync(memory,
				 piece->addr, piece->size, copies->stream),
	    "cuMemcpyDtoHAsync(%zu bytes)", piece->size);
}

static enum weir_status
save_some(struct saving *saving)
{
	struct copies *copies = saving->copies;
	struct driver_guard guard;
	enum weir_status status = driver_enter(copies->context, &guard);
	if (status != WEIR_OK)
		return status;
	while (status == WEIR_OK && !atomic_load(&saving->failed)) {
		size_t i = atomic_fetch_add(&saving->next, 1);
		if (i >= copies->n)
			break;
		status = save(copies, &copies->pieces[i]);
	}
	driver_leave(&guard);
	return status;
}

/* Keep the first failure for the thread that began the copies and returns
 * it. */
static void
note_failure(struct saving *saving, enum weir_status status)
{
	if (status == WEIR_OK || atomic_exchange(&saving->failed, true))
		return;
	saving->status = status;
	snprintf(
	    saving->text, sizeof(saving->text), "%s", status_latest_text());
}

/* The body of a copying thread. If host memory is short, the thread ends and
 * leaves its piece to save_rest(). */
static void *
run_saving(void *argument)
{
	struct saving *saving = argument;

	status_mute();
	enum weir_status status = save_some(saving);
	if (status != WEIR_EHOSTMEM)
		note_failure(saving, status);
	status_unmute();
	return NULL;
}

/* Copy the remaining pieces. A thread may have run out of memory while another
 * was just giving some back; now no other thread runs. */
static void
save_rest(struct saving *saving)
{
	struct copies *copies = saving->copies;

	status_mute();
	for (size_t i = 0; i < copies->n && !atomic_load(&saving->failed); i++)
		if (copies->pieces[i].copy == NULL)
			note_failure(saving, save(copies, &copies->pieces[i]));
	status_unmute();
}

/* Copy all pieces, by several threads if they can be started. */
static enum weir_status
save_all(struct copies *copies)
{
	struct saving saving = { .copies = copies };
	pthread_t threads[SUSPEND_THREADS];
	unsigned processors = os_processors();
	size_t n = 0;

	while (n + 1 < SUSPEND_THREADS && n + 1 < processors &&
	    n + 1 < copies->n &&
	    os_thread_start(&threads[n], run_saving, &saving))
		n++;
	run_saving(&saving);
	while (n > 0)
		pthread_join(threads[--n], NULL);
	save_rest(&saving);
	enum weir_status status = copies_wait(copies);
	return atomic_load(&saving.failed) ?
	    status_set(saving.status, "suspending: %s", saving.text) :
	    status;
}

enum weir_status
copies_take(const struct arena *arena, const struct copy_range *ranges,
    size_t range_count, struct copies **out)
{
	size_t n = cut_pieces(arena, ranges, range_count, NULL);
	struct copies *copies = meta_zalloc(bytes_for(n));
	if (copies == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "suspending: no host memory for %zu copies", n);
	copies->device = arena->device;
	copies->context = arena->context;
	copies->n = cut_pieces(arena, ranges, range_count, copies->pieces);
	enum weir_status status = make_stream(copies);
	if (status != WEIR_OK)
		goto drop_copies;
	status = save_all(copies);
	if (status != WEIR_OK)
		goto drop_stream;
	*out = copies;
	return WEIR_OK;

drop_stream:
	free_pieces(copies);
	drop_stream(copies);
drop_copies:
	meta_free(copies, bytes_for(n));
	return status;
}

/* ---- Back -------------------------------------------------------------- */

void
copies_begin(struct copies *copies)
{
	copies->queued = 0;
}

/* Does a piece end in the memory of a handle? */
static bool
ends_in(const struct piece *piece, const struct handle *handle)
{
	return piece->addr + piece->size - handle->addr - 1 < handle->size;
}

enum weir_status
copies_queue(struct copies *copies, const struct handle *handle)
{
	CUresult code = CUDA_SUCCESS;

	for (; copies->queued < copies->n && code == CUDA_SUCCESS;
	     copies->queued++) {
		const struct piece *piece = &copies->pieces[copies->queued];
		if (!ends_in(piece, handle))
			break;
		code = driver_peek()->cuMemcpyHtoDAsync(
		    piece->addr, piece->copy, piece->size, copies->stream);
	}
	return driver_status(
	    code, "resuming: cuMemcpyHtoDAsync(%#llx)", handle->addr);
}

/* ---- Over -------------------------------------------------------------- */

void
copies_drop(struct copies *copies)
{
	struct driver_guard guard;

	if (copies == NULL)
		return;
	free_pieces(copies);
	status_mute();
	if (driver_enter(copies->context, &guard) == WEIR_OK) {
		drop_stream(copies);
		driver_leave(&guard);
	}
	status_unmute();
	meta_free(copies, bytes_for(copies->n));
}

size_t
copies_size(const struct copies *copies)
{
	return bytes_for(copies->n);
}

size_t
copies_bytes(const struct copies *copies)
{
	size_t bytes = 0;

	for (size_t i = 0; i < copies->n; i++)
		bytes += copies->pieces[i].size;
	return bytes;
}
