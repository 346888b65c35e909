/*
 * Virtual time.
 *
 * Durations are fixed when an operation is put on a stream, so its end is known
 * at once: the later of the stream's end and the call plus launch_ns, plus the
 * duration. Operations wait in a heap, sorted by their ends, and are executed
 * in that order as time passes. An operation without a known end (a wait for a
 * value in memory) blocks its stream: later operations are deferred until it is
 * resolved.
 *
 *	reached <= now		all operations that end by `reached` are done
 *
 * The two differ only while a host function is due. Host functions run on the
 * thread that waits, without the lock, and never during a call that only
 * queries. If a thread queries again and again, a helper thread runs them.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "simcuda/sim.h"
#include "simcuda/tuning.h"

static uint64_t now_ns = 1000000;
static uint64_t reached_ns = 1000000;
static uint64_t next_seq;

static struct op **heap;
static size_t heap_capacity, n_heap;

/* Waits for values that are not in memory yet. */
static struct op **polled;
static size_t polled_capacity, n_polled;

static bool executing; /* a host function runs, without the lock */
static pthread_cond_t executed = PTHREAD_COND_INITIALIZER;
static unsigned stalled; /* queries that found a host function due */
static bool helped;

uint64_t
time_now(void)
{
	return now_ns;
}

bool
time_reached(uint64_t ns)
{
	return ns <= reached_ns;
}

void
time_spend(uint64_t ns)
{
	now_ns += ns;
}

/* ---- the heap ----------------------------------------------------------- */

static bool
before(const struct op *a, const struct op *b)
{
	return a->end_ns < b->end_ns ||
	    (a->end_ns == b->end_ns && a->seq < b->seq);
}

static void
heap_push(struct op *op)
{
	size_t i = n_heap++;

	heap = sim_grow(heap, i, &heap_capacity, sizeof(*heap));
	while (i > 0 && before(op, heap[(i - 1) / 2])) {
		heap[i] = heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap[i] = op;
}

static struct op *
heap_pop(void)
{
	struct op *top = heap[0], *last = heap[--n_heap];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < n_heap) {
		if (child + 1 < n_heap && before(heap[child + 1], heap[child]))
			child++;
		if (!before(heap[child], last))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
	return top;
}

void
op_schedule(struct op *op, uint64_t end_ns)
{
	op->end_ns = end_ns;
	op->seq = next_seq++;
	heap_push(op);
}

/* ---- waits for values --------------------------------------------------- */

static void
poll_values(void)
{
	for (size_t i = 0; i < n_polled;) {
		struct op *op = polled[i];

		if (!value_holds(op)) {
			i++;
			continue;
		}
		polled[i] = polled[--n_polled];
		value_came(op);
		mark_resolve(op->action.value.mark,
		    op->end_ns > reached_ns ? op->end_ns : reached_ns);
		op_free(op);
	}
}

/* ---- doing what is due -------------------------------------------------- */

static void
run_host_function(struct op *op)
{
	struct thread *thread = thread_self();

	executing = true;
	thread->in_host_function = true;
	gate_unlock();
	op_execute(op);
	gate_lock();
	thread->in_host_function = false;
	executing = false;
	pthread_cond_broadcast(&executed);
}

static void
run_one(void)
{
	struct op *op = heap_pop();
	struct context *here = sim.here;

	if (op->end_ns > now_ns)
		now_ns = op->end_ns;
	/* Later operations are not visible while a host function runs. */
	if (op->action.kind == OP_HOST)
		run_host_function(op);
	if (op->end_ns > reached_ns)
		reached_ns = op->end_ns;
	if (op->action.kind == OP_WAIT_VALUE) {
		polled = sim_grow(
		    polled, n_polled, &polled_capacity, sizeof(*polled));
		polled[n_polled++] = op;
	} else {
		if (op->action.kind != OP_HOST)
			op_execute(op);
		op_free(op);
	}
	if (n_polled > 0)
		poll_values();
	sim.here = here;
}

static void *
help(void *unused)
{
	(void)unused;
	gate_lock();
	time_run(true);
	helped = false;
	gate_unlock();
	return NULL;
}

static void
start_helper(void)
{
	pthread_t thread;

	stalled = 0;
	if (helped || pthread_create(&thread, NULL, help, NULL) != 0)
		return;
	helped = true;
	pthread_detach(thread);
}

void
time_run(bool host)
{
	if (executing)
		return;
	while (n_heap > 0 && heap[0]->end_ns <= now_ns) {
		if (heap[0]->action.kind == OP_HOST && !host) {
			if (heap[0]->end_ns - 1 > reached_ns)
				reached_ns = heap[0]->end_ns - 1;
			if (++stalled > TIME_PATIENCE)
				start_helper();
			return;
		}
		run_one();
		if (executing)
			return;
	}
	reached_ns = now_ns;
	stalled = 0;
	if (n_polled > 0)
		poll_values();
}

/* Let time pass until an operation has happened or `limit_ns` is reached. */
static void
time_step(uint64_t limit_ns)
{
	if (executing) {
		gate_wait(&executed);
		return;
	}
	if (n_heap > 0 && heap[0]->end_ns <= limit_ns) {
		if (heap[0]->end_ns > now_ns)
			now_ns = heap[0]->end_ns;
		time_run(true);
	} else if (limit_ns != UINT64_MAX) {
		if (limit_ns > now_ns)
			now_ns = limit_ns;
		time_run(true);
	} else {
		/* Another thread or process must act first. */
		gate_pause();
		poll_values();
	}
}

static void
time_advance_to(uint64_t ns)
{
	do {
		time_step(ns);
	} while (!time_reached(ns));
}

void
time_wait_mark(struct mark *mark)
{
	mark->refs++;
	while (!mark->known || !time_reached(mark->visible_ns))
		time_step(mark->known ? mark->visible_ns : UINT64_MAX);
	mark_drop(mark);
}

void
time_wait_stream(struct stream *stream)
{
	stream->refs++;
	while (stream_busy(stream))
		time_step(
		    stream->blocker != NULL ? UINT64_MAX : stream->visible_ns);
	stream_drop(stream);
}

/* Wait until no operation is pending anywhere. */
static void
time_drain(void)
{
	while (n_heap > 0 || executing)
		time_step(n_heap > 0 ? heap[0]->end_ns : UINT64_MAX);
}

/* ---- marks -------------------------------------------------------------- */

struct mark *
mark_new(void)
{
	struct mark *mark = sim_alloc(sizeof(*mark));

	mark->refs = 1;
	return mark;
}

void
mark_drop(struct mark *mark)
{
	if (mark == NULL || --mark->refs > 0)
		return;
	free(mark->waiters);
	free(mark);
}

void
mark_resolve(struct mark *mark, uint64_t end_ns)
{
	mark->refs++;
	mark->known = true;
	mark->end_ns = end_ns;
	mark->visible_ns = end_ns + mark->hold_ns;
	for (size_t i = 0; i < mark->n_waiters; i++) {
		stream_resume(mark->waiters[i], end_ns);
		stream_drop(mark->waiters[i]);
	}
	mark->n_waiters = 0;
	mark_drop(mark);
}

void
mark_block(struct mark *mark, struct stream *stream)
{
	stream->blocker = mark;
	mark->refs++;
	mark->waiters = sim_grow(mark->waiters, mark->n_waiters,
	    &mark->waiters_capacity, sizeof(*mark->waiters));
	mark->waiters[mark->n_waiters++] = stream;
	stream->refs++;
}

/* ---- controls ----------------------------------------------------------- */

uint64_t
simcuda_now_ns(void)
{
	uint64_t ns;

	gate_lock();
	ns = now_ns;
	gate_unlock();
	return ns;
}

void
simcuda_advance_to_ns(uint64_t time_ns)
{
	gate_lock();
	if (sim.state == SIM_READY && time_ns > reached_ns)
		time_advance_to(time_ns);
	gate_unlock();
}

void
simcuda_advance_ns(uint64_t ns)
{
	gate_lock();
	if (sim.state == SIM_READY)
		time_advance_to(now_ns + ns);
	gate_unlock();
}

void
simcuda_finish(void)
{
	gate_lock();
	if (sim.state == SIM_READY)
		time_drain();
	gate_unlock();
}
