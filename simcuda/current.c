/*
 * Threads, the context that is current in each, and finding contexts.
 */
#include <pthread.h>

#include "simcuda/sim.h"

static _Thread_local struct thread self;
static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static uint64_t next_thread;

/* When a thread ends, its default streams end too. */
static void
thread_end(void *data)
{
	struct thread *thread = data;

	gate_lock();
	if (thread->on_end != NULL)
		thread->on_end(thread);
	gate_unlock();
}

static void
make_thread_key(void)
{
	pthread_key_create(&thread_key, thread_end);
}

struct thread *
thread_self(void)
{
	if (self.id == 0) {
		pthread_once(&thread_once, make_thread_key);
		pthread_setspecific(thread_key, &self);
		self.id = __atomic_add_fetch(&next_thread, 1, __ATOMIC_RELAXED);
	}
	return &self;
}

struct context *
context_find(CUcontext handle, CUresult *why)
{
	uint64_t bits = handle_bits(handle);
	struct context *context = handle_find(HANDLE_CONTEXT, bits);

	if (context == NULL)
		*why = handle_known(HANDLE_CONTEXT, bits) ?
		    CUDA_ERROR_CONTEXT_IS_DESTROYED :
		    CUDA_ERROR_INVALID_CONTEXT;
	else if (!context->active)
		*why = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	else if (context->sticky != CUDA_SUCCESS)
		*why = context->sticky;
	else
		return context;
	return NULL;
}

struct context *
context_by_id(uint64_t id)
{
	struct context *context = sim.contexts;

	while (context != NULL && context->id != id)
		context = context->next;
	return context;
}

struct context *
context_current(CUresult *why)
{
	struct thread *thread = thread_self();

	if (thread->depth == 0) {
		*why = CUDA_ERROR_INVALID_CONTEXT;
		return NULL;
	}
	return context_find(
	    handle_pointer(thread->stack[thread->depth - 1]), why);
}

bool
context_reaches(const struct context *context, int device)
{
	return context->device->ordinal == device ||
	    (context->peers & 1u << device) != 0;
}
