/*
 * <weir/graph.h>: checkpoints of a pool.
 */
#include "allocator/private/checkpoint.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "graphs/pool.h"

struct weir_checkpoint {
	struct checkpoint *checkpoint;
	uint64_t pool; /* its number */
};

static enum weir_status
check_arguments(const void *a, const void *b, const char *call)
{
	if (a == NULL || b == NULL)
		return status_set(WEIR_EINVAL, "%s: an argument is NULL", call);
	return WEIR_OK;
}

enum weir_status
weir_checkpoint_take(struct weir_pool *pool, struct weir_checkpoint **out)
{
	if (os_forked())
		return status_forked("weir_checkpoint_take");
	enum weir_status status =
	    check_arguments(pool, out, "weir_checkpoint_take");
	if (status != WEIR_OK)
		return status;
	struct weir_checkpoint *made = meta_zalloc(sizeof(*made));
	if (made == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "weir_checkpoint_take: no host memory");
	status = checkpoint_take(pool->arena, &made->checkpoint);
	if (status != WEIR_OK) {
		meta_free(made, sizeof(*made));
		return status;
	}
	made->pool = pool->id;
	*out = made;
	return WEIR_OK;
}

/* The caller gets the lists as they are, because an address is a pointer. */
_Static_assert(sizeof(CUdeviceptr) == sizeof(void *), "64-bit pointers");

enum weir_status
weir_checkpoint_restore(struct weir_pool *pool,
    const struct weir_checkpoint *checkpoint, struct weir_restored *out)
{
	if (os_forked())
		return status_forked("weir_checkpoint_restore");
	static const char call[] = "weir_checkpoint_restore";
	struct restored restored;
	enum weir_status status = check_arguments(pool, checkpoint, call);
	if (status != WEIR_OK)
		return status;
	if (out == NULL || out->struct_size < sizeof(*out))
		return status_set(WEIR_EINVAL,
		    "%s: out is NULL or its struct_size is not set", call);
	if (checkpoint->pool != pool->id)
		return status_set(WEIR_EINVAL,
		    "%s: it is a checkpoint of pool %llu, not of pool %llu",
		    call, (unsigned long long)checkpoint->pool,
		    (unsigned long long)pool->id);
	status =
	    checkpoint_restore(pool->arena, checkpoint->checkpoint, &restored);
	if (status != WEIR_OK)
		return status;
	out->freed = (void **)restored.freed;
	out->n_freed = restored.n_freed;
	out->live = (void **)restored.live;
	out->n_live = restored.n_live;
	return WEIR_OK;
}

void
weir_restored_drop(struct weir_restored *restored)
{
	if (restored == NULL)
		return;
	struct restored lists = { .freed = (CUdeviceptr *)restored->freed,
		.n_freed = restored->n_freed,
		.live = (CUdeviceptr *)restored->live,
		.n_live = restored->n_live };
	restored_drop(&lists);
	restored->freed = NULL;
	restored->n_freed = 0;
	restored->live = NULL;
	restored->n_live = 0;
}

void
weir_checkpoint_drop(struct weir_checkpoint *checkpoint)
{
	if (checkpoint == NULL || os_forked())
		return;
	checkpoint_drop(checkpoint->checkpoint);
	meta_free(checkpoint, sizeof(*checkpoint));
}
