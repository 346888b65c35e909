/*
 * A program that asks for memory near a limit of 256 MiB on all that it has.
 *
 *	driver_refused one	requests in turn, and their codes
 *	driver_refused threads	threads at once, by cuMemAlloc() and
 *				cuMemCreate(), and whether they stayed within it
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/handles.h"

enum { MIB = 1 << 20, LIMIT = 256 };

static const struct handle_wish on_device = { .type = 1, .location = { 1, 0 } };

static struct cuda cuda;
static context primary;
static result (*create)(
    handle *, size_t, const struct handle_wish *, unsigned long long);
static result (*give_handle)(handle);
static result (*managed)(address *, size_t, unsigned);

static result
take_handle(handle *out, size_t mib)
{
	return create(out, mib * MIB, &on_device, 0);
}

static int
one(void)
{
	handle held;
	handle other;
	address ptr = 0;
	address small = 0;

	printf("cuMemCreate beside it: %d\n", take_handle(&held, 100));
	result code = take_handle(&other, 200);
	printf("cuMemCreate beyond it: %d\n", code);
	if (code == SUCCESS)
		MUST(give_handle(other));
	code = managed(&ptr, (size_t)200 * MIB, 1);
	printf("cuMemAllocManaged beyond it: %d\n", code);
	if (code == SUCCESS)
		MUST(cuda.mem_free(ptr));
	code = cuda.mem_alloc(&ptr, (size_t)200 * MIB);
	printf("cuMemAlloc beyond it: %d\n", code);
	if (code == SUCCESS)
		MUST(cuda.mem_free(ptr));
	printf("cuMemAlloc within it: %d\n",
	    cuda.mem_alloc(&small, (size_t)100 * MIB));
	/* weir keeps the memory, and gives it back for this. */
	MUST(cuda.mem_free(small));
	printf("cuMemCreate after a free: %d\n", take_handle(&other, 150));
	MUST(give_handle(other));
	MUST(give_handle(held));
	code = take_handle(&held, LIMIT);
	printf("cuMemCreate after a release: %d\n", code);
	if (code == SUCCESS)
		MUST(give_handle(held));
	return 0;
}

/* ---- Threads ------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 60 };

static atomic_size_t held_mib;
static atomic_size_t most_mib;
static atomic_uint served;
static atomic_uint strange;

static void
hold(size_t mib)
{
	size_t now = atomic_fetch_add(&held_mib, mib) + mib;
	size_t most = atomic_load(&most_mib);

	while (
	    now > most && !atomic_compare_exchange_weak(&most_mib, &most, now))
		;
	atomic_fetch_add(&served, 1);
}

static void *
take_turns(void *number)
{
	unsigned seed = (unsigned)(uintptr_t)number * 7919 + 1;

	MUST(cuda.set_current(primary));
	for (int i = 0; i < ROUNDS; i++) {
		size_t mib =
		    2 * (1 + (seed = seed * 1664525 + 1013904223) % 61);
		address ptr;
		handle made;
		result code;

		if (seed >> 31 == 0) {
			code = take_handle(&made, mib);
			if (code == SUCCESS) {
				hold(mib);
				atomic_fetch_sub(&held_mib, mib);
				MUST(give_handle(made));
			}
		} else {
			code = cuda.mem_alloc(&ptr, mib * MIB);
			if (code == SUCCESS) {
				hold(mib);
				atomic_fetch_sub(&held_mib, mib);
				MUST(cuda.mem_free(ptr));
			}
		}
		if (code != SUCCESS && code != OUT_OF_MEMORY)
			atomic_fetch_add(&strange, 1);
	}
	return NULL;
}

static int
threads(void)
{
	pthread_t all[THREADS];
	handle whole;

	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&all[i], NULL, take_turns, (void *)i) != 0)
			return 3;
	for (int i = 0; i < THREADS; i++)
		pthread_join(all[i], NULL);
	printf("%s\n",
	    atomic_load(&most_mib) <= LIMIT && atomic_load(&strange) == 0 &&
		    atomic_load(&served) > THREADS * ROUNDS / 4 ?
		"within the limit" :
		"beyond it");
	/* All of it can be had again. */
	MUST(cuda.synchronize());
	printf("%s\n",
	    take_handle(&whole, LIMIT) == SUCCESS ? "nothing left" :
						    "something left");
	return 0;
}

int
main(int argc, char **argv)
{
	cuda_by_dlsym(&cuda);
	cuda_fetch("cuMemCreate", &create);
	cuda_fetch("cuMemRelease", &give_handle);
	cuda_fetch("cuMemAllocManaged", &managed);
	primary = cuda_start(&cuda);
	return argc > 1 && strcmp(argv[1], "threads") == 0 ? threads() : one();
}
