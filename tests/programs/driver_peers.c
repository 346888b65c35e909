/*
 * A program with two devices that work on each other's memory, and a context
 * of its own beside the primary one. With the argument "late" memory is freed
 * while another device or context works on it, which the driver's free waits
 * for, and used again at once.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda.h"

enum { ROUNDS = 50, WORDS = 1 << 18, NON_BLOCKING = 1 };

static struct cuda cuda;
static uint32_t host[WORDS];
static int late;

static void *
look_up(const char *name)
{
	void *symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);

	if (symbol == NULL)
		exit(3);
	return symbol;
}

static void
fetch(const char *name, void *place)
{
	void *symbol = look_up(name);

	memcpy(place, &symbol, sizeof(symbol));
}

/* `user` may use what `owner` has. */
static void
connect_contexts(context user, context owner)
{
	result (*enable)(context, unsigned);

	fetch("cuCtxEnablePeerAccess", &enable);
	MUST(cuda.set_current(user));
	printf(
	    "access: %d, once more: %d\n", enable(owner, 0), enable(owner, 0));
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

/* Memory of the default pool, from before and after the other device was given
 * access to it. */
static unsigned
try_pool(context owner, context user)
{
	struct {
		int type;
		int id;
		int flags;
	} access = { 1, 1, 3 };
	result (*set_access)(void *, const void *, size_t);
	result (*get_pool)(void **, int);
	address ptrs[4];
	unsigned wrong = 0;
	void *pool;

	fetch("cuMemPoolSetAccess", &set_access);
	fetch("cuDeviceGetDefaultMemPool", &get_pool);
	MUST(cuda.set_current(owner));
	MUST(get_pool(&pool, 0));
	for (int i = 0; i < 4; i++) {
		if (i == 2)
			MUST(set_access(pool, &access, 1));
		MUST(cuda.mem_alloc_async(&ptrs[i], sizeof(host), NULL));
	}
	MUST(cuda.synchronize());
	MUST(cuda.set_current(user));
	for (uint32_t i = 0; i < 4; i++)
		MUST(cuda.fill(ptrs[i], i, WORDS, NULL));
	MUST(cuda.synchronize());
	for (uint32_t i = 0; i < 4; i++)
		wrong += wrong_words(ptrs[i], i);
	MUST(cuda.set_current(owner));
	for (int i = 0; i < 4; i++)
		MUST(cuda.mem_free_async(ptrs[i], NULL));
	MUST(cuda.synchronize());
	access.flags = 0;
	MUST(set_access(pool, &access, 1));
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

	fetch("cuCtxCreate_v2", &create);
	fetch("cuCtxDestroy_v2", &destroy);
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
