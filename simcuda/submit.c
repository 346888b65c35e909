/*
 * From a call to an operation on a stream.
 *
 * The order (happens-before) is fixed here, in program order. The time is fixed
 * as soon as the stream's time is known. After an operation without a known
 * time, further operations are deferred, and started when it is resolved.
 */
#include <stdlib.h>

#include "simcuda/capture.h"
#include "simcuda/sim.h"

/* Record the use at each piece of memory, for checks when it is unmapped or
 * freed. */
static void
note_uses(const struct op *op)
{
	struct access accesses[SIM_ACCESSES];
	size_t n = action_accesses(&op->action, accesses);

	for (size_t i = 0; i < n; i++)
		memory_use(&accesses[i], &op->at);
}

struct op *
op_new(struct stream *stream, const struct action *action)
{
	struct op *op = sim_alloc(sizeof(*op));

	op->action = *action;
	op->context = stream->context;
	op->stream = stream;
	stream->refs++;
	if (action->kind == OP_ALLOC || action->kind == OP_FREE)
		graph_memory_hold(action->range);
	return op;
}

void
op_free(struct op *op)
{
	struct action *action = &op->action;

	if (action->kind == OP_COPY)
		free(action->copy.staged);
	else if (action->kind == OP_MARK)
		mark_drop(action->mark);
	else if (action->kind == OP_WAIT)
		mark_drop(action->wait.mark);
	else if (action->kind == OP_WAIT_VALUE)
		mark_drop(action->value.mark);
	else if (action->kind == OP_GRAPH)
		launch_free(action->launch);
	else if (action->kind == OP_ALLOC || action->kind == OP_FREE)
		graph_memory_drop(action->range);
	if (op->exec != NULL)
		exec_drop(op->exec);
	point_drop(&op->at);
	stream_drop(op->stream);
	free(op);
}

void
op_place(struct op *op, struct line *line)
{
	line_step(line);
	op->at = line_point(line);
	note_uses(op);
}

void
stream_defer(struct stream *stream, struct op *op)
{
	op->next = NULL;
	if (stream->deferred == NULL)
		stream->deferred = op;
	else
		stream->deferred_last->next = op;
	stream->deferred_last = op;
}

/* The stream is free: give the operation its time, or block the stream. */
static void
op_start(struct stream *stream, struct op *op)
{
	struct action *action = &op->action;
	uint64_t start_ns =
	    stream->tail_ns > op->end_ns ? stream->tail_ns : op->end_ns;

	switch (action->kind) {
	case OP_MARK:
		mark_resolve(action->mark, start_ns);
		stream_wait_ns(stream, action->mark->visible_ns);
		stream->tail_ns = start_ns;
		op_free(op);
		break;
	case OP_WAIT:
		stream_start_wait(stream, &action->wait, start_ns);
		op_free(op);
		break;
	case OP_WAIT_VALUE:
		action->value.mark = mark_new();
		mark_block(action->value.mark, stream);
		op_schedule(op, start_ns);
		break;
	case OP_GRAPH:
		wait_note_work(stream, op->end_ns);
		stream_wait_ns(stream, launch_start(action->launch, start_ns));
		op_free(op);
		break;
	default:
		wait_note_work(stream, op->end_ns);
		stream_wait_ns(stream, start_ns + action->duration_ns);
		op_schedule(op, start_ns + action->duration_ns);
		break;
	}
}

void
stream_resume(struct stream *stream, uint64_t ns)
{
	mark_drop(stream->blocker);
	stream->blocker = NULL;
	if (stream->wait_counted) {
		wait_count(stream->wait_ns, ns);
		wait_hold(stream, ns);
	} else {
		wait_pass(stream, ns);
	}
	stream->wait_counted = false;
	stream_wait_ns(stream, ns);
	while (stream->blocker == NULL && stream->deferred != NULL) {
		struct op *op = stream->deferred;

		stream->deferred = op->next;
		op_start(stream, op);
	}
}

void
op_append(struct stream *stream, struct op *op)
{
	op->end_ns = time_now() + conf.launch_ns;
	op->action.duration_ns += stream->delay_ns;
	stream->delay_ns = 0;
	if (stream->blocker != NULL)
		stream_defer(stream, op);
	else
		op_start(stream, op);
}

void
op_submit(struct stream *stream, const struct action *action)
{
	struct op *op;

	stream_order(stream);
	op = op_new(stream, action);
	op_place(op, &stream->line);
	op_append(stream, op);
}

CUresult
submit(struct stream *stream, const struct action *action)
{
	if (stream->capture != NULL)
		return capture_add(stream, action);
	op_submit(stream, action);
	return CUDA_SUCCESS;
}
