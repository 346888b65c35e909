/*
 * The parts of other processes' memory that are open here.
 */
#include <stdatomic.h>

#include "base/meta.h"
#include "preload/lock.h"
#include "preload/serving/opened.h"

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_TABLE);
static struct opened *all; /* guarded by the lock */
static atomic_uint n_opened;

static struct opened **
opened_place_of(CUdeviceptr ptr) HOLDS(lock)
{
	struct opened **at = &all;

	while (*at != NULL && (*at)->ptr != ptr)
		at = &(*at)->next;
	return at;
}

/* Takes ownership of `fresh`. */
void
opened_remember(struct opened *fresh)
{
	struct opened *known;

	preload_lock(&lock);
	known = *opened_place_of(fresh->ptr);
	if (known != NULL) {
		known->times++;
	} else {
		fresh->times = 1;
		fresh->next = all;
		all = fresh;
		atomic_fetch_add(&n_opened, 1);
	}
	preload_unlock(&lock);
	if (known != NULL)
		meta_free(fresh, sizeof(*fresh));
}

bool
opened_any(void)
{
	return atomic_load_explicit(&n_opened, memory_order_relaxed) > 0 &&
	    gate_admits();
}

CUdeviceptr
opened_forget(CUdeviceptr ptr)
{
	CUdeviceptr base = ptr;
	struct opened *gone = NULL;
	struct opened **at;

	preload_lock(&lock);
	at = opened_place_of(ptr);
	if (*at != NULL)
		base = (*at)->base;
	if (*at != NULL && --(*at)->times == 0) {
		gone = *at;
		*at = gone->next;
		atomic_fetch_sub(&n_opened, 1);
	}
	preload_unlock(&lock);
	if (gone != NULL)
		meta_free(gone, sizeof(*gone));
	return base;
}

CUdeviceptr
opened_base(CUdeviceptr ptr)
{
	const struct opened *of;
	CUdeviceptr base = ptr;

	if (!opened_any())
		return ptr;
	preload_lock(&lock);
	of = *opened_place_of(ptr);
	if (of != NULL)
		base = of->base;
	preload_unlock(&lock);
	return base;
}

bool
opened_find(CUdeviceptr ptr, struct place *out)
{
	struct opened *o;

	if (!opened_any())
		return false;
	preload_lock(&lock);
	o = all;
	while (o != NULL && ptr - o->ptr >= o->size)
		o = o->next;
	if (o != NULL)
		*out = (struct place){
			.base = o->ptr, .size = o->size, .device = -1
		};
	preload_unlock(&lock);
	return o != NULL;
}
