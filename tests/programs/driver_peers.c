/*
 * A program with two devices that work on each other's memory, and another
 * context beside the primary one. With the argument "late" memory is freed
 * while another device or context works on it, which the driver's free waits
 * for, and reused at once. With "pool" the devices have access to a memory pool
 * only, and the program gives and takes it; with "pool first" the pool is
 * opened to a device that has no context yet.
 */
#include <stdio.h>
#include <string.h>

#include "common/cuda.h"

enum { ROUNDS = 50, WORDS = 1 << 18, NON_BLOCKING = 1 };

static struct cuda cuda;
static uint32_t host[WORDS];
static int late;

/* Let `user` access the memory of `owner`. */
static void
connect_contexts(context user, context owner)
{
	result (*enable)(context, unsigned);

	cuda_fetch("cuCtxEnablePeerAccess", &enable);
	MUST(cuda.set_current(user));
	printf("access: %d", enable(owner, 0));
	printf(", once more: %d\n", enable(owner, 0));
}

static unsigned
wrong_words(address ptr, uint32_t value)
{
	unsigned wrong = 0;

	MUST(cuda.copy_out(host, ptr, sizeof(host)));
	for (int i = 0; i < WORDS; i++)
		wrong += host[i] != value;
	return wrong;
}

/* Memory of `owner` that `user` fills on its stream. */
static unsigned
work_across(context owner, context user, stream on)
{
	unsigned wrong = 0;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		address kept;
		address ptr;

		MUST(cuda.set_current(owner));
		MUST(cuda.mem_alloc(&ptr, sizeof(host)));
		MUST(cuda.set_current(user));
		MUST(cuda.fill(ptr, i, WORDS, on));
		if (!late) {
			MUST(cuda.stream_synchronize(on));
			wrong += wrong_words(ptr, i);
		}
		MUST(cuda.set_current(owner));
		MUST(cuda.mem_free(ptr));
		MUST(cuda.mem_alloc(&kept, sizeof(host)));
		MUST(cuda.fill(kept, ~i, WORDS, NULL));
		wrong += wrong_words(kept, ~i);
		MUST(cuda.mem_free(kept));
	}
	return wrong;
}

/* Give device 1 access to the default pool of device 0, or take it. */
static void
open_pool(int flags)
{
	struct {
		int type;
		int id;
		int flags;
	} access = { 1, 1, flags };
	result (*set_access)(void *, const void *, size_t);
	result (*get_pool)(void **, int);
	void *pool;

	cuda_fetch("cuMemPoolSetAccess", &set_access);
	cuda_fetch("cuDeviceGetDefaultMemPool", &get_pool);
	MUST(get_pool(&pool, 0));
	MUST(set_access(pool, &access, 1));
}

enum { POOLED = 4 };
static address pooled[POOLED];

/* Memory of the default pool, from before and after the other device got access
 * to it. */
static void
make_pooled(context owner)
{
	MUST(cuda.set_current(owner));
	for (int i = 0; i < POOLED; i++) {
		if (i == POOLED / 2)
			open_pool(3);
		MUST(cuda.mem_alloc_async(&pooled[i], sizeof(host), NULL));
	}
	MUST(cuda.synchronize());
}

static unsigned
use_pooled(context user, uint32_t value)
{
	unsigned wrong = 0;

	MUST(cuda.set_current(user));
	for (uint32_t i = 0; i < POOLED; i++)
		MUST(cuda.fill(pooled[i], value + i, WORDS, NULL));
	MUST(cuda.synchronize());
	for (uint32_t i = 0; i < POOLED; i++)
		wrong += wrong_words(pooled[i], value + i);
	return wrong;
}

static void
free_pooled(context owner)
{
	MUST(cuda.set_current(owner));
	for (int i = 0; i < POOLED; i++)
		MUST(cuda.mem_free_async(pooled[i], NULL));
	MUST(cuda.synchronize());
	open_pool(0);
}

static unsigned
try_pool(context owner, context user)
{
	unsigned wrong;

	make_pooled(owner);
	wrong = use_pooled(user, 1);
	free_pooled(owner);
	return wrong;
}

/* The access to the pool is independent of the contexts' access, which is given
 * and taken. */
static unsigned
try_pool_alone(context owner, int before_the_context)
{
	result (*disable)(context);
	unsigned wrong;
	context user;

	cuda_fetch("cuCtxDisablePeerAccess", &disable);
	if (!before_the_context)
		MUST(cuda.retain(&user, 1));
	make_pooled(owner);
	if (before_the_context)
		MUST(cuda.retain(&user, 1));
	wrong = use_pooled(user, 1);
	printf("not to be closed: %d\n", disable(owner));
	connect_contexts(user, owner);
	wrong += use_pooled(user, 10);
	printf("closed: %d", disable(owner));
	printf(", once more: %d\n", disable(owner));
	wrong += use_pooled(user, 20);
	free_pooled(owner);
	MUST(cuda.release(1));
	return wrong;
}

static unsigned
try_own_context(context primary)
{
	result (*create)(context *, unsigned, int);
	result (*destroy)(context);
	unsigned wrong;
	context own;
	stream on;

	cuda_fetch("cuCtxCreate_v2", &create);
	cuda_fetch("cuCtxDestroy_v2", &destroy);
	MUST(create(&own, 0, 1));
	connect_contexts(own, primary);
	MUST(cuda.stream_create(&on, NON_BLOCKING, 0));
	wrong = work_across(primary, own, on);
	MUST(cuda.set_current(own));
	MUST(cuda.synchronize());
	MUST(destroy(own));
	return wrong;
}

int
main(int argc, char **argv)
{
	context primary[2];
	stream on;
	unsigned wrong;

	late = argc > 1 && strcmp(argv[1], "late") == 0;
	cuda_by_dlsym(&cuda);
	primary[0] = cuda_start(&cuda);
	if (argc > 1 && strncmp(argv[1], "pool", 4) == 0) {
		wrong = try_pool_alone(
		    primary[0], strcmp(argv[1], "pool first") == 0);
		printf("wrong words: %u\n", wrong);
		return wrong != 0;
	}
	MUST(cuda.retain(&primary[1], 1));
	connect_contexts(primary[1], primary[0]);
	connect_contexts(primary[0], primary[1]);
	MUST(cuda.set_current(primary[1]));
	MUST(cuda.stream_create(&on, NON_BLOCKING, 0));
	wrong = work_across(primary[0], primary[1], on);
	MUST(cuda.stream_destroy(on));
	MUST(cuda.set_current(primary[0]));
	MUST(cuda.stream_create(&on, NON_BLOCKING, 0));
	wrong += work_across(primary[1], primary[0], on);
	MUST(cuda.stream_destroy(on));
	wrong += try_own_context(primary[0]);
	wrong += try_pool(primary[0], primary[1]);
	printf("wrong words: %u\n", wrong);
	return wrong != 0;
}
