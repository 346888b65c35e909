/*
 * Copies the contents of suspended arenas to host memory or a file, and back.
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
 *
 * Note [Copies in a file]
 *
 * The option sleep_folder saves page-locked memory. Each thread has one small
 * buffer of it: it copies a piece to the buffer, waits for the copy, and writes
 * the buffer to the file, while other threads copy. Back likewise, once all
 * memory is mapped. The space of the file is reserved first, and the disk has
 * all bytes before any memory leaves the device: no later failure loses any.
 */
#include "graphs/suspend_copies.h"

#include <stdio.h>
#include <string.h>

#include <weir/host.h>

#include "allocator/api/host.h"
#include "allocator/host/reaper.h"
#include "allocator/memory/handle.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "graphs/suspend_file.h"
#include "graphs/tuning.h"
#include "streams/drain.h"
#include "streams/event.h"

enum { TEXT_SIZE = 512 };

struct piece {
	CUdeviceptr addr;
	uint64_t segment; /* of its range */
	size_t size;      /* 0: dropped */
	void *copy;       /* NULL: not copied yet, dropped, or in the file */
	void *host;       /* the host memory that it owns; or NULL */
	size_t range;     /* of the plan */
	size_t next;      /* the piece that follows it, or no_piece */
	uint64_t at;      /* in the file */
};

static const size_t no_piece = SIZE_MAX;

struct copies {
	/* Constant. */
	int device;
	CUcontext context;
	CUstream stream;
	struct suspend_file file;

	/* From the first by ->next in the order of the plan; a piece that was
	 * cut off another lies behind all that were made before. */
	struct piece *pieces;
	size_t n;
	size_t capacity;
	size_t turn; /* the piece from which the next call goes on */
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

/* Cut a range into pieces of at most `most` bytes, or only count them if
 * `pieces` is NULL. */
static size_t
cut_range(const struct copy_range *range, size_t most, struct piece *pieces)
{
	size_t size = range->size;
	size_t n = 0;

	ASSERT(size > 0);
	for (size_t at = 0; at < size; at += most, n++)
		if (pieces != NULL)
			pieces[n] = (struct piece){ .addr = range->addr + at,
				.segment = range->segment,
				.size = size - at < most ? size - at : most };
	return n;
}

/* Cut all mapped memory, likewise. */
static size_t
cut_all(const struct arena *arena, size_t most, struct piece *pieces)
{
	struct handle *next;
	size_t n = 0;

	for (struct handle *h = handles_first(arena); h != NULL; h = next) {
		CUdeviceptr end;
		next = run_end(h, &end);
		const struct copy_range range = { .addr = h->addr,
			.size = end - h->addr,
			.segment = h->segment->index };
		n +=
		    cut_range(&range, most, pieces != NULL ? pieces + n : NULL);
	}
	return n;
}

/* Cut the ranges of a plan, or all memory if it has none. */
static size_t
cut_pieces(const struct copy_plan *plan, struct piece *pieces)
{
	size_t most = plan->folder == NULL ? SUSPEND_PIECE : SLEEP_FILE_PIECE;
	size_t n = 0;

	if (plan->ranges == NULL)
		return cut_all(plan->arena, most, pieces);
	for (size_t i = 0; i < plan->range_count; i++) {
		size_t begin = n;
		n += cut_range(
		    &plan->ranges[i], most, pieces != NULL ? pieces + n : NULL);
		for (size_t k = begin; k < n && pieces != NULL; k++)
			pieces[k].range = i;
	}
	return n;
}

/* Let each of the pieces be followed by the next in the array. */
static void
link_pieces(struct copies *copies)
{
	for (size_t i = 0; i < copies->n; i++)
		copies->pieces[i].next = i + 1 < copies->n ? i + 1 : no_piece;
}

static struct piece *
piece_in_turn(const struct copies *copies)
{
	return copies->turn != no_piece ? &copies->pieces[copies->turn] : NULL;
}

/* Make room for `more` pieces. */
static bool
grow_pieces(struct copies *copies, size_t more)
{
	size_t capacity = copies->n + more;
	struct piece *pieces;

	if (capacity <= copies->capacity)
		return true;
	if (capacity < 2 * copies->capacity)
		capacity = 2 * copies->capacity;
	pieces = meta_zalloc(capacity * sizeof(*pieces));
	if (pieces == NULL)
		return false;
	if (copies->pieces != NULL) {
		memcpy(pieces, copies->pieces, copies->n * sizeof(*pieces));
		meta_free(copies->pieces, copies->capacity * sizeof(*pieces));
	}
	copies->pieces = pieces;
	copies->capacity = capacity;
	return true;
}

/* Free the structures. */
static void
drop_pieces(struct copies *copies)
{
	if (copies->pieces != NULL)
		meta_free(
		    copies->pieces, copies->capacity * sizeof(*copies->pieces));
	meta_free(copies, sizeof(*copies));
}

static void
free_pieces(struct copies *copies)
{
	/* After a reset of the device these calls fail, which is no error. */
	status_mute();
	for (size_t i = 0; i < copies->n; i++)
		weir_host_free(copies->pieces[i].host);
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

/* ---- Threads ----------------------------------------------------------- */

/* The state that the copying threads share. */
struct moving {
	struct copies *copies;
	/* Move pieces, one after the other, until there are no more. */
	enum weir_status (*some)(struct moving *moving);
	bool back;
	atomic_size_t next; /* the next piece */
	atomic_bool failed;
	enum weir_status status; /* of the first failure */
	int error;               /* its errno; 0: none */
	char text[TEXT_SIZE];
};

/* Keep the first failure for the thread that began the copies and returns
 * it. */
static void
note_failure(struct moving *moving, enum weir_status status, int error)
{
	if (status == WEIR_OK || atomic_exchange(&moving->failed, true))
		return;
	moving->status = status;
	moving->error = error;
	snprintf(
	    moving->text, sizeof(moving->text), "%s", status_latest_text());
}

static struct piece *
next_piece(struct moving *moving)
{
	struct copies *copies = moving->copies;
	size_t i = atomic_load(&moving->failed) ?
	    copies->n :
	    atomic_fetch_add(&moving->next, 1);

	return i < copies->n ? &copies->pieces[i] : NULL;
}

/* The body of a copying thread. If host memory is short, the thread ends and
 * leaves its piece to the thread that began the copies. */
static void *
run_moving(void *argument)
{
	struct moving *moving = argument;

	status_mute();
	enum weir_status status = moving->some(moving);
	if (status != WEIR_EHOSTMEM)
		note_failure(moving, status, 0);
	status_unmute();
	return NULL;
}

/* Run `some` on several threads if they can be started. */
static void
run_threads(struct moving *moving, size_t most)
{
	pthread_t threads[SUSPEND_THREADS];
	unsigned processors = os_processors();
	size_t n = 0;

	ASSERT(most <= SUSPEND_THREADS);
	while (n + 1 < most && n + 1 < processors &&
	    n + 1 < moving->copies->n &&
	    os_thread_start(&threads[n], run_moving, moving))
		n++;
	run_moving(moving);
	while (n > 0)
		pthread_join(threads[--n], NULL);
}

/* Report the first failure, if there was one. */
static enum weir_status
moving_status(const struct moving *moving)
{
	if (!atomic_load(&moving->failed))
		return WEIR_OK;
	status_set(moving->status, "%s: %s",
	    moving->back ? "resuming" : "suspending", moving->text);
	return moving->error != 0 ?
	    status_errno(moving->status, moving->error) :
	    moving->status;
}

/* ---- Out, to host memory ------------------------------------------------ */

static enum weir_status
save(const struct copies *copies, struct piece *piece)
{
	void *memory;
	enum weir_status status =
	    host_get(copies->device, piece->size, &memory);
	if (status != WEIR_OK)
		return status;
	piece->copy = memory;
	piece->host = memory;
	return driver_status(driver_peek()->cuMemcpyDtoHAsync(memory,
				 piece->addr, piece->size, copies->stream),
	    "cuMemcpyDtoHAsync(%zu bytes)", piece->size);
}

static enum weir_status
save_some(struct moving *moving)
{
	struct copies *copies = moving->copies;
	struct driver_guard guard;
	struct piece *piece;
	enum weir_status status = driver_enter(copies->context, &guard);
	if (status != WEIR_OK)
		return status;
	while (status == WEIR_OK && (piece = next_piece(moving)) != NULL)
		status = save(copies, piece);
	driver_leave(&guard);
	return status;
}

/* Copy the remaining pieces. A thread may have run out of memory while another
 * was just giving some back; now no other thread runs. */
static void
save_rest(struct moving *moving)
{
	struct copies *copies = moving->copies;

	status_mute();
	for (size_t i = 0; i < copies->n && !atomic_load(&moving->failed); i++)
		if (copies->pieces[i].copy == NULL)
			note_failure(
			    moving, save(copies, &copies->pieces[i]), 0);
	status_unmute();
}

static enum weir_status
save_all(struct copies *copies)
{
	struct moving moving = { .copies = copies, .some = save_some };

	run_threads(&moving, SUSPEND_THREADS);
	save_rest(&moving);
	enum weir_status waited = copies_wait(copies);
	enum weir_status status = moving_status(&moving);
	return status != WEIR_OK ? status : waited;
}

/* ---- To a file and back ------------------------------------------------- */

static bool
in_file(const struct copies *copies)
{
	return copies->file.fd >= 0;
}

/* Note that the file failed: by an errno, or -1 at its end. */
static enum weir_status
file_failed(struct moving *moving, const char *what, int error)
{
	status_set(WEIR_EFILE, "%s the file in sleep_folder: %s", what,
	    error > 0 ? strerror(error) : "it has been cut off");
	note_failure(moving, WEIR_EFILE, error > 0 ? error : 0);
	return WEIR_EFILE;
}

/* Copy a piece between the device and a buffer, and wait. */
static enum weir_status
copy_staged(const struct copies *copies, const struct piece *piece,
    void *buffer, bool back)
{
	const struct driver *driver = driver_peek();
	CUresult code = back ? driver->cuMemcpyHtoDAsync(piece->addr, buffer,
				   piece->size, copies->stream) :
			       driver->cuMemcpyDtoHAsync(buffer, piece->addr,
				   piece->size, copies->stream);
	enum weir_status status = driver_status(code,
	    "cuMemcpy%sAsync(%zu bytes)", back ? "HtoD" : "DtoH", piece->size);
	enum weir_status waited = copies_wait(copies);

	return status != WEIR_OK ? status : waited;
}

static enum weir_status
move_staged(struct moving *moving, const struct piece *piece, void *buffer)
{
	const struct copies *copies = moving->copies;
	const struct suspend_file *file = &copies->file;
	int error = 0;

	if (piece->size == 0)
		return WEIR_OK;
	if (moving->back)
		error = suspend_file_read(file, buffer, piece->size, piece->at);
	if (error != 0)
		return file_failed(moving, "reading", error);
	enum weir_status status =
	    copy_staged(copies, piece, buffer, moving->back);
	if (status != WEIR_OK || moving->back)
		return status;
	error = suspend_file_write(file, buffer, piece->size, piece->at);
	return error == 0 ? WEIR_OK : file_failed(moving, "writing", error);
}

static enum weir_status
stage_some(struct moving *moving)
{
	struct copies *copies = moving->copies;
	struct driver_guard guard;
	struct piece *piece;
	void *buffer;
	enum weir_status status =
	    host_get(copies->device, SLEEP_FILE_PIECE, &buffer);
	if (status != WEIR_OK)
		return status;
	status = driver_enter(copies->context, &guard);
	if (status == WEIR_OK) {
		while (
		    status == WEIR_OK && (piece = next_piece(moving)) != NULL)
			status = move_staged(moving, piece, buffer);
		driver_leave(&guard);
	}
	weir_host_free(buffer);
	return status;
}

/* Move all pieces to the file or back. */
static enum weir_status
stage_all(struct copies *copies, bool back)
{
	struct moving moving = {
		.copies = copies, .some = stage_some, .back = back
	};

	run_threads(&moving, SLEEP_FILE_THREADS);
	/* No thread had memory for a buffer. */
	status_mute();
	if (atomic_load(&moving.next) < copies->n &&
	    !atomic_load(&moving.failed))
		note_failure(&moving, stage_some(&moving), 0);
	int error = back || atomic_load(&moving.failed) ?
	    0 :
	    suspend_file_flush(&copies->file);
	if (error != 0)
		file_failed(&moving, "writing", error);
	status_unmute();
	host_reap_freed();
	return moving_status(&moving);
}

static enum weir_status
save_in_file(struct copies *copies, const char *folder)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < copies->n; i++) {
		copies->pieces[i].at = bytes;
		bytes += copies->pieces[i].size;
	}
	enum weir_status status =
	    suspend_file_make(folder, bytes, &copies->file);
	return status == WEIR_OK ? stage_all(copies, false) : status;
}

/* ---- Out --------------------------------------------------------------- */

enum weir_status
copies_take(int device, CUcontext context, const struct copy_plan *plan,
    struct copies **out)
{
	size_t n = cut_pieces(plan, NULL);
	struct copies *copies = meta_zalloc(sizeof(*copies));
	if (copies == NULL || !grow_pieces(copies, n)) {
		if (copies != NULL)
			meta_free(copies, sizeof(*copies));
		return status_set(WEIR_EHOSTMEM,
		    "suspending: no host memory for %zu copies", n);
	}
	copies->device = device;
	copies->context = context;
	copies->file.fd = -1;
	if (n > 0)
		copies->n = cut_pieces(plan, copies->pieces);
	link_pieces(copies);
	enum weir_status status = make_stream(copies);
	if (status != WEIR_OK)
		goto drop_copies;
	status = plan->folder == NULL ? save_all(copies) :
					save_in_file(copies, plan->folder);
	if (status != WEIR_OK)
		goto drop_stream;
	*out = copies;
	return WEIR_OK;

drop_stream:
	free_pieces(copies);
	suspend_file_drop(&copies->file);
	drop_stream(copies);
drop_copies:
	drop_pieces(copies);
	return status;
}

/* ---- Back -------------------------------------------------------------- */

void
copies_begin(struct copies *copies)
{
	copies->turn = copies->n > 0 ? 0 : no_piece;
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
	const struct piece *piece;

	if (in_file(copies))
		return WEIR_OK;
	while (
	    (piece = piece_in_turn(copies)) != NULL && code == CUDA_SUCCESS) {
		if (piece->size > 0 && !ends_in(piece, handle))
			break;
		if (piece->size > 0)
			code = driver_peek()->cuMemcpyHtoDAsync(piece->addr,
			    piece->copy, piece->size, copies->stream);
		copies->turn = piece->next;
	}
	return driver_status(
	    code, "resuming: cuMemcpyHtoDAsync(%#llx)", handle->addr);
}

/* Queue all copies back. */
static enum weir_status
queue_all(const struct copies *copies)
{
	CUresult code = CUDA_SUCCESS;

	for (size_t i = 0; i < copies->n && code == CUDA_SUCCESS; i++) {
		const struct piece *piece = &copies->pieces[i];
		if (piece->copy != NULL && piece->size > 0)
			code = driver_peek()->cuMemcpyHtoDAsync(piece->addr,
			    piece->copy, piece->size, copies->stream);
	}
	return driver_status(code, "resuming: cuMemcpyHtoDAsync()");
}

enum weir_status
copies_load(struct copies *copies)
{
	enum weir_status status =
	    in_file(copies) ? stage_all(copies, true) : queue_all(copies);
	enum weir_status waited = copies_wait(copies);

	return status != WEIR_OK ? status : waited;
}

void
copies_move(struct copies *copies, size_t range, CUdeviceptr to)
{
	for (size_t i = 0; i < copies->n; i++) {
		struct piece *piece = &copies->pieces[i];
		if (piece->range != range)
			continue;
		piece->addr = to;
		to += piece->size;
		if (piece->addr != 0)
			continue;
		to = 0;
		piece->size = 0;
		weir_host_free(piece->host);
		piece->copy = NULL;
		piece->host = NULL;
	}
}

/* Does a piece lie before a range, in the order of the plan? */
static bool
lies_before(const struct piece *piece, const struct copy_range *range)
{
	return piece->segment != range->segment ?
	    piece->segment < range->segment :
	    piece->addr + piece->size <= range->addr;
}

/* Cut a piece in two if the address lies inside; false: it does not. There is
 * room for the second part. The first owns the host memory of both. */
static bool
cut_piece(struct copies *copies, struct piece *piece, CUdeviceptr addr)
{
	size_t first = addr - piece->addr;
	struct piece *second = &copies->pieces[copies->n];

	if (addr <= piece->addr || first >= piece->size)
		return false;
	ASSERT(copies->n < copies->capacity);
	*second = *piece;
	second->addr = addr;
	second->size -= first;
	second->at += first;
	second->host = NULL;
	if (second->copy != NULL)
		second->copy = (char *)second->copy + first;
	piece->size = first;
	piece->next = copies->n++;
	return true;
}

bool
copies_leave_out(struct copies *copies, const struct copy_range *range)
{
	struct piece *piece;

	ASSERT(range->size > 0);
	if (!grow_pieces(copies, 2))
		return false;
	while ((piece = piece_in_turn(copies)) != NULL &&
	    lies_before(piece, range))
		copies->turn = piece->next;
	if (piece != NULL && cut_piece(copies, piece, range->addr))
		copies->turn = piece->next;
	while ((piece = piece_in_turn(copies)) != NULL &&
	    piece->addr - range->addr < range->size) {
		cut_piece(copies, piece, range->addr + range->size);
		piece->size = 0;
		copies->turn = piece->next;
	}
	return true;
}

enum weir_status
copies_read(struct copies *copies)
{
	return in_file(copies) ? stage_all(copies, true) : WEIR_OK;
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
	copies_forget(copies);
}

void
copies_forget(struct copies *copies)
{
	suspend_file_drop(&copies->file);
	drop_pieces(copies);
}

size_t
copies_bytes(const struct copies *copies)
{
	size_t bytes = 0;

	for (size_t i = 0; i < copies->n; i++)
		bytes += copies->pieces[i].size;
	return bytes;
}
