/*
 * Keeps events for reuse, because to create one costs several times a record.
 * There are two stacks for each context, of bounded depth: of events with
 * timing and without.
 */
#include "streams/event.h"

#include "base/lock.h"
#include "base/meta.h"
#include "base/status.h"
#include "streams/tuning.h"

struct event_stack {
	CUcontext context;
	bool timed;
	struct event_stack *next;
	size_t count;
	CUevent events[EVENTS_KEPT];
};

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_EVENTS);
static struct event_stack *stacks GUARDED_BY(lock);

static struct event_stack *
find_stack(CUcontext context, bool timed) HOLDS(lock)
{
	for (struct event_stack *s = stacks; s != NULL; s = s->next)
		if (s->context == context && s->timed == timed)
			return s;
	return NULL;
}

/* The stack of a context, made at the first event given back to it. */
static struct event_stack *
find_or_make_stack(CUcontext context, bool timed) HOLDS(lock)
{
	struct event_stack *stack = find_stack(context, timed);
	if (stack != NULL)
		return stack;
	stack = meta_alloc(sizeof(*stack));
	if (stack == NULL)
		return NULL;
	stack->context = context;
	stack->timed = timed;
	stack->count = 0;
	stack->next = stacks;
	stacks = stack;
	return stack;
}

static enum weir_status
pop_or_create(CUcontext context, bool timed, CUevent *out)
{
	unsigned flags = timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
	CUevent event = NULL;
	lock_enter(&lock);
	struct event_stack *stack = find_stack(context, timed);
	if (stack != NULL && stack->count > 0)
		event = stack->events[--stack->count];
	lock_leave(&lock);
	if (event == NULL) {
		CUresult code = driver_peek()->cuEventCreate(&event, flags);
		if (code != CUDA_SUCCESS)
			return driver_status(
			    code, "cuEventCreate(flags %u)", flags);
	}
	*out = event;
	return WEIR_OK;
}

enum weir_status
event_acquire(CUcontext context, CUevent *out)
{
	return pop_or_create(context, false, out);
}

enum weir_status
event_acquire_timed(CUcontext context, CUevent *out)
{
	return pop_or_create(context, true, out);
}

static void
push_or_destroy(CUcontext context, bool timed, CUevent event)
{
	lock_enter(&lock);
	struct event_stack *stack = find_or_make_stack(context, timed);
	bool kept = stack != NULL && stack->count < EVENTS_KEPT;
	if (kept)
		stack->events[stack->count++] = event;
	lock_leave(&lock);
	if (!kept)
		driver_peek()->cuEventDestroy(event);
}

void
event_release(CUcontext context, CUevent event)
{
	push_or_destroy(context, false, event);
}

void
event_release_timed(CUcontext context, CUevent event)
{
	push_or_destroy(context, true, event);
}

/* Most drivers answer whatever context is current. If one wants the event's
 * context, enter it. */
bool
event_met(CUcontext context, CUevent event)
{
	struct driver_guard guard;
	CUresult code = driver_peek()->cuEventQuery(event);

	if (code == CUDA_ERROR_INVALID_CONTEXT &&
	    driver_enter_unrelaxed(context, &guard) == WEIR_OK) {
		code = driver_peek()->cuEventQuery(event);
		driver_leave(&guard);
	}
	return code == CUDA_SUCCESS;
}

void
event_forget(CUcontext context)
{
	lock_enter(&lock);
	for (struct event_stack *s = stacks; s != NULL; s = s->next)
		if (s->context == context)
			s->count = 0;
	lock_leave(&lock);
}
