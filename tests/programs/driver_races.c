/* Streams that use a block with or without an order; the argument selects the
 * case. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../support/kernels.ptx.h"
#include "common/cuda.h"

enum { BYTES = 4096, NON_BLOCKING = 1, DISABLE_TIMING = 2 };

typedef struct event_st *event;
typedef struct module_st *module;
typedef struct function_st *function;

static struct cuda cuda;
static stream a;
static stream b;
static event mark;

static result (*event_create)(event *out, unsigned flags);
static result (*event_record)(event event, stream on);
static result (*event_synchronize)(event event);
static result (*stream_wait)(stream on, event event, unsigned flags);
static result (*copy_async)(address to, address from, size_t n, stream on);
static result (*module_load)(module *out, const void *image);
static result (*module_function)(
    function *out, module module, const char *name);
static result (*launch)(function function, unsigned gx, unsigned gy,
    unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
    stream on, void **parameters, void **extra);

static void
find(void *slot, const char *name)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	void *found = library != NULL ? dlsym(library, name) : NULL;

	must(found == NULL, name);
	memcpy(slot, &found, sizeof(found));
}

static void
start(void)
{
	cuda_by_dlsym(&cuda);
	cuda_start(&cuda);
	find(&event_create, "cuEventCreate");
	find(&event_record, "cuEventRecord");
	find(&event_synchronize, "cuEventSynchronize");
	find(&stream_wait, "cuStreamWaitEvent");
	find(&copy_async, "cuMemcpyDtoDAsync_v2");
	find(&module_load, "cuModuleLoadData");
	find(&module_function, "cuModuleGetFunction");
	find(&launch, "cuLaunchKernel");
	MUST(cuda.stream_create(&a, NON_BLOCKING, 0));
	MUST(cuda.stream_create(&b, NON_BLOCKING, 0));
	MUST(event_create(&mark, DISABLE_TIMING));
}

static void
order(stream first, stream second)
{
	MUST(event_record(mark, first));
	MUST(stream_wait(second, mark, 0));
}

/* A kernel that fills a block. */
static void
fill_by_kernel(address ptr, stream on)
{
	uint32_t value = 5;
	uint64_t n = BYTES / 4;
	void *parameters[] = { &ptr, &value, &n };
	module loaded;
	function found;

	MUST(module_load(&loaded, kernels_ptx));
	MUST(module_function(&found, loaded, "weir_fill_u32"));
	MUST(launch(found, 1, 1, 1, 256, 1, 1, 0, on, parameters, NULL));
}

/* A kernel with a structure that has an address near its end: all parameters
 * separate, or in one buffer. */
static void
pass_in_structure(const char *how, address ptr, stream on)
{
	bool huge = strstr(how, "huge") != NULL;
	address words[4000 / sizeof(address)] = { 0 };
	size_t size = huge ? 4000 : 128;
	void *parameters[] = { words };
	void *extra[] = { (void *)1, words, (void *)2, &size, NULL };
	bool packed = strstr(how, "packed") != NULL;
	module loaded;
	function found;

	words[size / sizeof(address) - 2] = ptr;
	MUST(module_load(&loaded, kernels_ptx));
	MUST(module_function(
	    &found, loaded, huge ? "weir_ignore_4000" : "weir_ignore_128"));
	MUST(launch(found, 1, 1, 1, 1, 1, 1, 0, on, packed ? NULL : parameters,
	    packed ? extra : NULL));
}

static void
use(const char *how, address ptr, address other, stream on)
{
	if (strstr(how, "structure") != NULL)
		pass_in_structure(how, ptr, on);
	else if (strstr(how, "kernel") != NULL)
		fill_by_kernel(ptr, on);
	else if (strstr(how, "copy") != NULL)
		MUST(copy_async(other, ptr + 512, 512, on));
	else
		MUST(cuda.fill(ptr, 3, BYTES / 4, on));
}

/* The legacy default stream and a blocking stream wait for each other. */
static void
use_legacy(void)
{
	stream blocking;
	address ptr;

	MUST(cuda.stream_create(&blocking, 0, 0));
	MUST(cuda.mem_alloc_async(&ptr, BYTES, blocking));
	MUST(cuda.fill(ptr, 3, BYTES / 4, NULL));
	MUST(cuda.mem_free_async(ptr, blocking));
	MUST(cuda.mem_alloc_async(&ptr, BYTES, NULL));
	MUST(cuda.fill(ptr, 3, BYTES / 4, blocking));
	MUST(cuda.mem_free_async(ptr, NULL));
	MUST(cuda.stream_destroy(blocking));
}

/* More streams, one after the other, than weir remembers at once. */
static void
use_many(void)
{
	for (int i = 0; i < 300; i++) {
		stream own;
		address ptr;

		MUST(cuda.stream_create(&own, NON_BLOCKING, 0));
		MUST(cuda.mem_alloc_async(&ptr, BYTES, own));
		MUST(cuda.fill(ptr, 3, BYTES / 4, own));
		order(own, b);
		MUST(cuda.mem_free_async(ptr, b));
		MUST(cuda.stream_destroy(own));
	}
}

int
main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "ordered";
	address ptr;
	address other;

	start();
	if (strstr(how, "legacy") != NULL)
		use_legacy();
	if (strstr(how, "many") != NULL)
		use_many();
	MUST(cuda.mem_alloc_async(&other, BYTES, b));
	MUST(cuda.mem_alloc_async(&ptr, BYTES, a));
	if (strstr(how, "unordered") == NULL)
		order(a, b);
	use(how, ptr, other, b);
	if (strstr(how, "waited") != NULL) {
		MUST(event_record(mark, b));
		MUST(event_synchronize(mark));
	} else if (strstr(how, "early") == NULL) {
		order(b, a);
	}
	MUST(cuda.mem_free_async(ptr, a));
	if (strstr(how, "late") != NULL)
		use(how, ptr, other, a);
	MUST(cuda.mem_free_async(other, b));
	MUST(cuda.synchronize());
	printf("done\n");
	return 0;
}
