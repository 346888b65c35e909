/*
 * Note [Requests of others]
 *
 * A library that PyTorch calls asks for memory on PyTorch's thread: cuBLAS when
 * it makes a handle, with cudaMalloc(), which weir may serve, or CuPy. PyTorch
 * expects none of it in its pools. It compares the blocks that live in a pool
 * with the tensors that it knows, and when it restores a pool it frees all
 * others. So a filter is asked about requests that are PyTorch's.
 *
 * A stream that is captured is the exception, whoever asks. What the capture
 * frees must serve no one else as long as the graph lives, and the graph's pool
 * holds it for so long. Memory for WEIR_STREAM_ANY is of no stream, and the
 * functions of CUDA that filters call do not know that handle.
 */
#include "plugins/torch/filter.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "plugins/torch/tuning.h"

struct filter_slot {
	atomic_bool open;
	atomic_uint calls; /* number of running calls */
	struct weir_torch_filter filter;
	struct filter_slot *next; /* list, while the slot is closed */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Closed slots, the longest closed first; guarded by the lock. */
static struct filter_slot *oldest;
static struct filter_slot *latest;
static unsigned closed;

static struct filter_slot *
reuse_slot(void)
{
	struct filter_slot *slot = NULL;

	pthread_mutex_lock(&lock);
	if (closed > FILTER_SLOTS_KEPT) {
		slot = oldest;
		oldest = slot->next;
		closed--;
	}
	pthread_mutex_unlock(&lock);
	return slot;
}

struct filter_slot *
filter_open(const struct weir_torch_filter *filter)
{
	struct filter_slot *slot = reuse_slot();

	if (slot == NULL)
		slot = calloc(1, sizeof(*slot));
	if (slot == NULL)
		return NULL;
	slot->filter = *filter;
	slot->next = NULL;
	atomic_store(&slot->open, true);
	return slot;
}

/* ---- Requests ---------------------------------------------------------- */

static _Thread_local unsigned requests; /* of PyTorch, under way */

void
filter_request_begin(void)
{
	requests++;
}

void
filter_request_end(void)
{
	requests--;
}

typedef int is_capturing(weir_stream stream, int *status);

bool
filter_captured(weir_stream stream)
{
	/* The driver's cuStreamIsCapturing(), once it is loaded. */
	static _Atomic(is_capturing *) found;
	is_capturing *ask = atomic_load_explicit(&found, memory_order_relaxed);
	int status = 0;

	if (ask == NULL) {
		void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
		if (driver != NULL)
			*(void **)&ask = dlsym(driver, "cuStreamIsCapturing");
		atomic_store_explicit(&found, ask, memory_order_relaxed);
	}
	return ask != NULL && stream != NULL && stream != WEIR_STREAM_ANY &&
	    ask(stream, &status) == 0 && status == 1;
}

/* Both sides write before they read, in sequentially consistent order (Dekker's
 * handshake). So either the closing thread sees the call, or the call sees that
 * the slot is closed. */
bool
filter_ask(weir_stream stream, void *closure)
{
	struct filter_slot *slot = closure;
	bool matches = false;

	if (stream == WEIR_STREAM_ANY ||
	    (requests == 0 && !filter_captured(stream)))
		return false;
	if (stream == WEIR_STREAM_LEGACY)
		stream = NULL;
	atomic_fetch_add(&slot->calls, 1);
	if (atomic_load(&slot->open))
		matches = slot->filter.matches(slot->filter.closure, stream);
	atomic_fetch_sub(&slot->calls, 1);
	return matches;
}

void
filter_disown(struct filter_slot *slot)
{
	slot->filter.drop = NULL;
}

void
filter_close(struct filter_slot *slot)
{
	if (slot == NULL)
		return;
	atomic_store(&slot->open, false);
	while (atomic_load(&slot->calls) > 0)
		sched_yield();
	if (slot->filter.drop != NULL)
		slot->filter.drop(slot->filter.closure);
	pthread_mutex_lock(&lock);
	if (closed++ == 0)
		oldest = slot;
	else
		latest->next = slot;
	latest = slot;
	pthread_mutex_unlock(&lock);
}
