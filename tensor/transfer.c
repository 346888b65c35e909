/*
 * Moves pieces between a file and memory (tensor/transfer.h).
 */
#include "tensor/transfer.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weir/host.h>
#include <weir/stream.h>

#include "base/os.h"
#include "base/quiet.h"
#include "base/status.h"
#include "streams/drain.h"
#include "tensor/tensor.h"
#include "tensor/tuning.h"

enum { ERROR_TEXT = 512 };

/* Data that all threads share. */
struct job {
	const struct transfer *transfer;
	uint64_t total;
	/* Bytes of the pieces, in order, that were taken. */
	_Atomic(uint64_t) taken;
	_Atomic(uint64_t) done;
	/* The first failure: the thread that sets `failed` writes the rest. */
	atomic_bool failed;
	enum weir_status status;
	char text[ERROR_TEXT];
};

/* One thread. */
struct worker {
	struct job *job;
	pthread_t thread;
	bool started;
	/* For one device at a time; created at the first chunk of a device. The
	 * stream is the thread's own: a program may capture one of the pool. */
	int device; /* -1: none yet */
	weir_stream stream;
	char *buffers[TRANSFER_BUFFERS];
	/* The last copy from each buffer. */
	struct weir_event *events[TRANSFER_BUFFERS];
	unsigned next;
	size_t joined; /* the piece that the stream is ordered after, + 1 */
};

static void
job_fail(struct job *job, enum weir_status status)
{
	if (atomic_exchange(&job->failed, true))
		return;
	job->status = status;
	snprintf(job->text, sizeof(job->text), "%s", weir_last_error());
}

/* ---- The file ----------------------------------------------------------- */

/* `error` is an errno, or 0 at the end of the file. */
static enum weir_status
file_failed(const struct transfer *t, size_t bytes, uint64_t at, int error)
{
	status_set(WEIR_EFILE, "%s: %s %zu bytes at %llu: %s", t->path,
	    t->to_file ? "writing" : "reading", bytes, (unsigned long long)at,
	    error != 0 ? strerror(error) : "the file has ended");
	return status_errno(WEIR_EFILE, error);
}

static ssize_t
write_quietly(int file, const char *memory, size_t bytes, uint64_t at)
{
	struct quiet quiet;
	ssize_t n;

	quiet_begin(&quiet);
	n = pwrite(file, memory, bytes, (off_t)at);
	quiet_end(&quiet);
	return n;
}

static enum weir_status
move_bytes(const struct transfer *t, char *memory, size_t bytes, uint64_t at)
{
	while (bytes > 0) {
		ssize_t n = t->to_file ?
		    write_quietly(t->file, memory, bytes, at) :
		    pread(t->file, memory, bytes, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return file_failed(t, bytes, at, n < 0 ? errno : 0);
		memory += n;
		at += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return WEIR_OK;
}

/* ---- Chunks ------------------------------------------------------------- */

struct chunk {
	size_t piece;
	uint64_t offset; /* in the piece */
	size_t bytes;
};

/* The piece with a byte, which is one of the pieces together. By halving: files
 * have a hundred thousand tensors. */
static size_t
piece_with(const struct transfer *t, uint64_t at)
{
	size_t low = 0, high = t->n_pieces;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (t->pieces[middle].before <= at)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Take the next chunk. Chunks end at multiples of TRANSFER_CHUNK of all pieces
 * together, and at the end of each piece. False: no chunk is left, or a thread
 * has failed. */
static bool
next_chunk(struct job *job, struct chunk *out)
{
	const struct transfer *t = job->transfer;
	uint64_t at = atomic_load(&job->taken), start, bytes;
	size_t i;

	do {
		if (at >= job->total || atomic_load(&job->failed))
			return false;
		i = piece_with(t, at);
		start = at - t->pieces[i].before;
		bytes = t->pieces[i].bytes - start;
		if (bytes > TRANSFER_CHUNK)
			bytes = TRANSFER_CHUNK;
	} while (!atomic_compare_exchange_weak(&job->taken, &at, at + bytes));
	*out = (struct chunk){ i, start, (size_t)bytes };
	return true;
}

static void
drop_stream(struct worker *w)
{
	if (w->stream != NULL)
		weir_stream_destroy(w->stream);
	w->stream = NULL;
}

/* Move the thread to another device, when its copies on the last are done. */
static enum weir_status
worker_move(struct worker *w, int device)
{
	enum weir_status status = WEIR_OK;

	if (w->stream != NULL)
		status = weir_stream_synchronize(w->stream);
	if (status != WEIR_OK)
		return status;
	drop_stream(w);
	status = weir_stream_create(device, 0, &w->stream);
	if (status != WEIR_OK)
		return status;
	w->device = device;
	for (int i = 0; i < TRANSFER_BUFFERS; i++) {
		weir_event_destroy(w->events[i]);
		w->events[i] = NULL;
		status = weir_event_create(0, &w->events[i]);
		if (status != WEIR_OK)
			return status;
		if (w->buffers[i] == NULL)
			w->buffers[i] =
			    weir_host_malloc_on(device, TRANSFER_CHUNK, 0);
		if (w->buffers[i] == NULL)
			return weir_last_status();
	}
	return WEIR_OK;
}

static enum weir_status
worker_ready(struct worker *w, const struct weir_tensor *tensor, size_t piece)
{
	int device = tensor->storage->device;
	enum weir_status status =
	    w->device == device ? WEIR_OK : worker_move(w, device);

	if (status != WEIR_OK)
		return status;
	if (w->joined == piece + 1)
		return WEIR_OK;
	w->joined = piece + 1;
	return weir_tensor_join(tensor, w->stream);
}

/* Move a chunk through a buffer. A copy to the device runs while the next chunk
 * is read. A copy for the file is waited for, while the other threads go on. */
static enum weir_status
move_by_buffer(struct worker *w, const struct chunk *chunk)
{
	const struct transfer *t = w->job->transfer;
	const struct piece *piece = &t->pieces[chunk->piece];
	unsigned i = w->next++ % TRANSFER_BUFFERS;
	char *memory = tensor_data(piece->tensor) + chunk->offset;
	char *buffer;
	struct stream *stream;
	struct driver_guard guard;
	enum weir_status status = worker_ready(w, piece->tensor, chunk->piece);

	if (status == WEIR_OK)
		status = weir_event_synchronize(w->events[i]);
	if (status != WEIR_OK)
		return status;
	buffer = w->buffers[i];
	if (!t->to_file)
		status = move_bytes(
		    t, buffer, chunk->bytes, piece->at + chunk->offset);
	if (status == WEIR_OK)
		status = stream_find(w->device, w->stream, &stream);
	if (status != WEIR_OK)
		return status;
	status = driver_enter(stream->context, &guard);
	if (status == WEIR_OK) {
		char *to = t->to_file ? buffer : memory;
		char *from = t->to_file ? memory : buffer;

		status = driver_status(
		    driver_peek()->cuMemcpyAsync((CUdeviceptr)(uintptr_t)to,
			(CUdeviceptr)(uintptr_t)from, chunk->bytes,
			stream->handle),
		    "cuMemcpyAsync(%p, %p, %zu bytes)", (void *)to,
		    (void *)from, chunk->bytes);
		driver_leave(&guard);
	}
	stream_put(stream);
	if (status == WEIR_OK)
		status = weir_event_record(w->events[i], w->stream);
	if (status != WEIR_OK || !t->to_file)
		return status;
	status = weir_event_synchronize(w->events[i]);
	if (status != WEIR_OK)
		return status;
	return move_bytes(t, buffer, chunk->bytes, piece->at + chunk->offset);
}

static enum weir_status
move_chunk(struct worker *w, const struct chunk *chunk)
{
	const struct transfer *t = w->job->transfer;
	const struct piece *piece = &t->pieces[chunk->piece];

	if (!memory_is_host(piece->tensor->storage->memory))
		return move_by_buffer(w, chunk);
	return move_bytes(t, tensor_data(piece->tensor) + chunk->offset,
	    chunk->bytes, piece->at + chunk->offset);
}

/* ---- Threads ------------------------------------------------------------ */

/* Wait for the copies, also if the driver refuses to wait: their buffers, and
 * after a failure the tensors, are freed next. */
static void
finish_copies(const struct worker *w)
{
	enum weir_status status = weir_stream_synchronize(w->stream);
	CUcontext context = driver_context_peek(w->device);
	struct driver_guard guard;

	if (status == WEIR_OK)
		return;
	job_fail(w->job, status);
	if (context == NULL)
		return; /* no copy was made */
	status_mute();
	bool entered = driver_enter(context, &guard) == WEIR_OK;
	drain_stream(context, w->stream);
	if (entered)
		driver_leave(&guard);
	status_unmute();
}

static void
transfer_chunks(struct worker *w, bool tells)
{
	struct job *job = w->job;
	const struct transfer *t = job->transfer;
	struct chunk chunk;
	enum weir_status status = WEIR_OK;

	while (status == WEIR_OK && next_chunk(job, &chunk)) {
		status = move_chunk(w, &chunk);
		if (status != WEIR_OK)
			break;
		uint64_t done =
		    atomic_fetch_add(&job->done, chunk.bytes) + chunk.bytes;
		if (tells && t->progress != NULL && done < job->total)
			t->progress(t->closure, done, job->total);
	}
	if (status != WEIR_OK)
		job_fail(job, status);
	if (w->stream != NULL)
		finish_copies(w);
	for (int i = 0; i < TRANSFER_BUFFERS; i++) {
		weir_event_destroy(w->events[i]);
		weir_host_free(w->buffers[i]);
	}
	drop_stream(w);
}

static void *
run_thread(void *argument)
{
	transfer_chunks(argument, false);
	return NULL;
}

static unsigned
thread_count(uint64_t total)
{
	uint64_t chunks = (total + TRANSFER_CHUNK - 1) / TRANSFER_CHUNK;
	unsigned n = os_processors();

	if (n > TRANSFER_THREADS)
		n = TRANSFER_THREADS;
	/* With one processor, one thread reads while the other waits. */
	if (n < 2)
		n = 2;
	return chunks < n ? (unsigned)chunks : n;
}

enum weir_status
transfer_run(const struct transfer *transfer)
{
	struct job job = { .transfer = transfer };
	struct worker workers[TRANSFER_THREADS];
	unsigned n;

	for (size_t i = 0; i < transfer->n_pieces; i++) {
		transfer->pieces[i].before = job.total;
		job.total += transfer->pieces[i].bytes;
	}
	n = thread_count(job.total);
	for (unsigned i = 0; i < TRANSFER_THREADS; i++)
		workers[i] = (struct worker){ .job = &job, .device = -1 };
	/* If a thread cannot be started, the others do its work. */
	for (unsigned i = 1; i < n; i++)
		workers[i].started = os_thread_start(
		    &workers[i].thread, run_thread, &workers[i]);
	transfer_chunks(&workers[0], true);
	for (unsigned i = 1; i < n; i++) {
		if (workers[i].started)
			pthread_join(workers[i].thread, NULL);
	}
	if (atomic_load(&job.failed))
		return status_set(job.status, "%s", job.text);
	if (transfer->progress != NULL)
		transfer->progress(transfer->closure, job.total, job.total);
	return WEIR_OK;
}
