/*
 * Streams: queues of operations, with their time and their order.
 *
 * The default stream of a context (0, "legacy") is ordered with all blocking
 * streams of the context: its work comes after all work that was queued on them
 * before, and their later work comes after it. Non-blocking streams are not
 * affected. Each thread has one more default stream, a blocking one.
 *
 * A destroyed stream accepts no more work; work that was queued is still
 * executed.
 */
#include <stdlib.h>

#include "simcuda/capture.h"
#include "simcuda/sim.h"

enum { PRIORITY_LEAST = 0, PRIORITY_GREATEST = -5 };

/* ---- life --------------------------------------------------------------- */

static struct stream *
stream_new(
    struct context *context, unsigned flags, int priority, bool with_handle)
{
	struct stream *stream = sim_alloc(sizeof(*stream));

	stream->id = ++sim.next_id;
	stream->refs = 1;
	stream->context = context;
	stream->flags = flags;
	stream->priority = priority;
	stream->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
	if (with_handle)
		stream->handle = handle_new(HANDLE_STREAM, stream);
	line_init(&stream->line, stream->id);
	stream->next = context->streams;
	context->streams = stream;
	return stream;
}

void
stream_drop(struct stream *stream)
{
	if (--stream->refs > 0)
		return;
	mark_drop(stream->blocker);
	free(stream->deps);
	free(stream->returned);
	free(stream);
}

static void
unlink_stream(struct stream **list, struct stream *stream)
{
	while (*list != stream)
		list = &(*list)->next;
	*list = stream->next;
}

/* ---- finding ------------------------------------------------------------ */

static void
end_own_streams(struct thread *thread)
{
	while (thread->own != NULL) {
		struct own_stream *own = thread->own;

		thread->own = own->next;
		if (own->stream->destroyed) {
			stream_drop(own->stream);
		} else {
			/* The context holds it too, until its end. */
			own->stream->refs--;
			stream_end(own->stream);
		}
		free(own);
	}
}

static struct stream *
stream_default(struct context *context, bool per_thread)
{
	struct thread *thread = thread_self();
	struct own_stream *own;

	if (!per_thread) {
		if (context->legacy == NULL) {
			context->legacy = stream_new(context, 0, 0, false);
			context->legacy->legacy = true;
			context->legacy->blocking = false;
		}
		return context->legacy;
	}
	for (own = thread->own; own != NULL; own = own->next) {
		if (own->context_id == context->id)
			return own->stream;
	}
	own = sim_alloc(sizeof(*own));
	own->context_id = context->id;
	own->stream = stream_new(context, 0, 0, false);
	own->stream->per_thread = true;
	own->stream->refs++;
	own->next = thread->own;
	thread->own = own;
	thread->on_end = end_own_streams;
	return own->stream;
}

struct stream *
stream_find(CUstream handle, CUresult *why)
{
	uint64_t bits = handle_bits(handle);
	struct stream *stream = NULL;
	struct context *context;

	if (bits <= handle_bits(CU_STREAM_PER_THREAD)) {
		context = context_current(why);
		if (context == NULL)
			return NULL;
		return stream_default(context, handle == CU_STREAM_PER_THREAD);
	}
	stream = handle_find(HANDLE_STREAM, bits);
	if (stream == NULL) {
		*why = CUDA_ERROR_INVALID_HANDLE;
		return NULL;
	}
	if (stream->context->sticky != CUDA_SUCCESS) {
		*why = stream->context->sticky;
		return NULL;
	}
	return stream;
}

/* ---- order -------------------------------------------------------------- */

static void
order_after(struct stream *stream, struct stream *other)
{
	struct point at = line_point(&other->line);

	line_join(&stream->line, &at);
	point_drop(&at);
	if (other->blocker != NULL) {
		struct mark *mark = stream_mark(other);

		stream_wait_mark(stream, mark);
		mark_drop(mark);
	} else if (other->tail_ns > stream->tail_ns) {
		stream_wait_ns(stream, other->tail_ns);
	}
}

static void
order_after_all(struct stream *stream, struct stream *list, bool blocking_only)
{
	for (struct stream *other = list; other != NULL; other = other->next) {
		if (other->blocking || !blocking_only)
			order_after(stream, other);
	}
}

/* A stream that only comes after others; the program has no handle of it. */
static struct stream *
stream_new_follower(struct context *context)
{
	struct stream *stream =
	    stream_new(context, CU_STREAM_NON_BLOCKING, 0, false);

	unlink_stream(&context->streams, stream);
	return stream;
}

/* No more work is queued. The stream's end becomes part of the follower of all
 * streams that were destroyed, so that their number does not matter later. */
void
stream_end(struct stream *stream)
{
	struct context *context = stream->context;
	struct stream **ended = &context->ended[stream->blocking];

	capture_forget_stream(stream);
	if (stream->handle != 0)
		handle_drop(HANDLE_STREAM, stream->handle);
	stream->destroyed = true;
	unlink_stream(&context->streams, stream);
	if (*ended == NULL)
		*ended = stream_new_follower(context);
	order_after(*ended, stream);
	line_fini(&stream->line);
	stream_drop(stream);
}

void
context_end_streams(struct context *context)
{
	struct stream *next;

	for (struct stream *s = context->streams; s != NULL; s = next) {
		next = s->next;
		stream_end(s);
	}
	context->legacy = NULL;
}

/* A stream after all work that is queued in the context now. */
struct stream *
context_gather(struct context *context)
{
	struct stream *all = context->gather;

	if (all == NULL) {
		all = stream_new_follower(context);
		context->gather = all;
	}
	line_join_host(&all->line);
	order_after_all(all, context->streams, false);
	for (int i = 0; i < 2; i++) {
		if (context->ended[i] != NULL)
			order_after(all, context->ended[i]);
	}
	return all;
}

void
stream_order(struct stream *stream)
{
	struct context *context = stream->context;

	if (stream->legacy) {
		order_after_all(stream, context->streams, true);
		if (context->ended[true] != NULL)
			order_after(stream, context->ended[true]);
	} else if (stream->blocking && context->legacy != NULL) {
		order_after(stream, context->legacy);
	}
}

/* A mark at the current end of the stream. */
struct mark *
stream_mark(struct stream *stream)
{
	struct mark *mark = mark_new();

	if (stream->blocker == NULL) {
		mark_resolve(mark, stream->tail_ns);
	} else {
		struct action action = { .kind = OP_MARK, .mark = mark };

		mark->refs++;
		stream_defer(stream, op_new(stream, &action));
	}
	return mark;
}

void
stream_wait_ns(struct stream *stream, uint64_t ns)
{
	struct mark *mark;

	if (stream->blocker == NULL) {
		if (stream->tail_ns < ns)
			stream->tail_ns = ns;
		if (stream->visible_ns < ns)
			stream->visible_ns = ns;
		return;
	}
	mark = mark_new();
	mark_resolve(mark, ns);
	stream_wait_mark(stream, mark);
	mark_drop(mark);
}

void
stream_start_wait(struct stream *stream, const struct wait *wait, uint64_t ns)
{
	struct mark *mark = wait->mark;

	if (mark->known) {
		if (wait->counted) {
			wait_count(ns, mark->end_ns);
			wait_hold(stream, mark->end_ns);
		} else {
			wait_pass(stream, mark->end_ns);
		}
		stream_wait_ns(stream, mark->end_ns);
	} else {
		mark_block(mark, stream);
		stream->wait_counted = wait->counted;
		stream->wait_ns = ns;
	}
}

void
stream_wait_event(struct stream *stream, struct mark *mark, bool counted)
{
	struct action action = { .kind = OP_WAIT,
		.wait = { .mark = mark, .counted = counted } };
	uint64_t now = time_now();

	if (stream->blocker == NULL) {
		stream_start_wait(stream, &action.wait,
		    now > stream->tail_ns ? now : stream->tail_ns);
	} else {
		struct op *op = op_new(stream, &action);

		op->end_ns = now;
		mark->refs++;
		stream_defer(stream, op);
	}
}

void
stream_wait_mark(struct stream *stream, struct mark *mark)
{
	stream_wait_event(stream, mark, false);
}

bool
stream_busy(const struct stream *stream)
{
	return stream->blocker != NULL || !time_reached(stream->visible_ns);
}

void
stream_wait(struct stream *stream)
{
	struct point at;

	if (stream->legacy)
		stream_order(stream);
	at = line_point(&stream->line);
	time_wait_stream(stream);
	host_join(&at);
	point_drop(&at);
}

void
context_wait(struct context *context)
{
	stream_wait(context_gather(context));
	pool_synced();
}

/* ---- calls -------------------------------------------------------------- */

CUresult
cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	CUresult code = gate_enter(E_cuStreamCreateWithPriority);

	if (code == CUDA_SUCCESS &&
	    (stream == NULL || flags > CU_STREAM_NON_BLOCKING))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS) {
		if (priority > PRIORITY_LEAST)
			priority = PRIORITY_LEAST;
		if (priority < PRIORITY_GREATEST)
			priority = PRIORITY_GREATEST;
		*stream = handle_pointer(
		    stream_new(sim.here, flags, priority, true)->handle);
	}
	return gate_leave(code);
}

CUresult
cuStreamCreate(CUstream *stream, unsigned int flags)
{
	CUresult code = gate_enter(E_cuStreamCreate);

	if (code == CUDA_SUCCESS &&
	    (stream == NULL || flags > CU_STREAM_NON_BLOCKING))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		*stream = handle_pointer(
		    stream_new(sim.here, flags, 0, true)->handle);
	return gate_leave(code);
}

CUresult
cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	CUresult code = gate_enter(E_cuCtxGetStreamPriorityRange);

	if (code == CUDA_SUCCESS && least != NULL)
		*least = PRIORITY_LEAST;
	if (code == CUDA_SUCCESS && greatest != NULL)
		*greatest = PRIORITY_GREATEST;
	return gate_leave(code);
}

CUresult
cuStreamDestroy_v2(CUstream handle)
{
	CUresult code = gate_enter(E_cuStreamDestroy_v2);

	if (code == CUDA_SUCCESS) {
		struct stream *stream =
		    handle_find(HANDLE_STREAM, handle_bits(handle));

		if (stream == NULL)
			code = CUDA_ERROR_INVALID_HANDLE;
		else
			stream_end(stream);
	}
	return gate_leave(code);
}

CUresult
cuStreamQuery(CUstream handle)
{
	CUresult code = gate_enter(E_cuStreamQuery);
	struct stream *stream;

	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	stream = stream_find(handle, &code);
	if (stream == NULL)
		return gate_leave(code);
	code = capture_refuse(stream);
	if (code == CUDA_SUCCESS) {
		if (stream->legacy)
			stream_order(stream);
		if (stream_busy(stream))
			code = CUDA_ERROR_NOT_READY;
		else
			stream_wait(stream);
	}
	return gate_leave(code);
}

CUresult
cuStreamSynchronize(CUstream handle)
{
	CUresult code = gate_enter(E_cuStreamSynchronize);
	struct stream *stream;

	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	stream = stream_find(handle, &code);
	if (stream == NULL)
		return gate_leave(code);
	code = capture_refuse(stream);
	if (code == CUDA_SUCCESS) {
		struct context *context = stream->context;

		stream_wait(stream);
		code = context->sticky;
		pool_synced();
	}
	return gate_leave(code);
}

/* Begin a query of a stream that writes to `out`; the caller ends it by
 * gate_leave(). NULL: the reason is in `*code`. */
static struct stream *
enter_query(
    enum sim_entry entry, CUstream handle, const void *out, CUresult *code)
{
	*code = gate_enter(entry);
	if (*code == CUDA_SUCCESS && out == NULL)
		*code = CUDA_ERROR_INVALID_VALUE;
	return *code == CUDA_SUCCESS ? stream_find(handle, code) : NULL;
}

CUresult
cuStreamGetCtx(CUstream handle, CUcontext *context)
{
	CUresult code;
	struct stream *stream =
	    enter_query(E_cuStreamGetCtx, handle, context, &code);

	if (stream != NULL)
		*context = handle_pointer(stream->context->handle);
	return gate_leave(code);
}

CUresult
cuStreamGetDevice(CUstream handle, CUdevice *device)
{
	CUresult code;
	struct stream *stream =
	    enter_query(E_cuStreamGetDevice, handle, device, &code);

	if (stream != NULL)
		*device = stream->context->device->ordinal;
	return gate_leave(code);
}

CUresult
cuStreamGetId(CUstream handle, unsigned long long *id)
{
	CUresult code;
	struct stream *stream = enter_query(E_cuStreamGetId, handle, id, &code);

	if (stream != NULL)
		*id = stream->id;
	return gate_leave(code);
}

CUresult
cuStreamGetPriority(CUstream handle, int *priority)
{
	CUresult code;
	struct stream *stream =
	    enter_query(E_cuStreamGetPriority, handle, priority, &code);

	if (stream != NULL)
		*priority = stream->priority;
	return gate_leave(code);
}

CUresult
cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
	CUresult code;
	struct stream *stream =
	    enter_query(E_cuStreamGetFlags, handle, flags, &code);

	if (stream != NULL) {
		code = capture_refuse(stream);
		if (code == CUDA_SUCCESS)
			*flags = stream->flags;
	}
	return gate_leave(code);
}

CUresult
simcuda_delay_next(CUstream handle, uint64_t ns)
{
	CUresult code = CUDA_SUCCESS;
	struct stream *stream;

	gate_lock();
	stream = stream_find(handle, &code);
	if (stream != NULL)
		stream->delay_ns += ns;
	gate_unlock();
	return code;
}
