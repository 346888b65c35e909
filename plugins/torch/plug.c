/*
 * The functions of a pluggable allocator, used when there is no compiler.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plugins/torch/filter.h"
#include "plugins/torch/weir_torch.h"

void *
weir_torch_plug_alloc(size_t size, int device, weir_stream stream)
{
	if (size == 0)
		return NULL;
	void *ptr = weir_torch_malloc(device, size, stream);
	if (ptr == NULL)
		fprintf(stderr, "weir: %s\n", weir_last_error());
	return ptr;
}

void
weir_torch_plug_free(void *ptr, size_t size, int device, weir_stream stream)
{
	(void)size;
	(void)device;
	(void)stream;
	if (weir_free(ptr) != WEIR_OK)
		fprintf(stderr, "weir: %s\n", weir_last_error());
}

void
weir_torch_plug_init(int device_count)
{
	(void)device_count;
	if (weir_init() != WEIR_OK)
		fprintf(stderr, "weir: %s\n", weir_last_error());
}

void
weir_torch_plug_reset(void)
{
	(void)weir_torch_empty((struct weir_torch_id){ 0, 0 });
}

void
weir_torch_plug_fraction(double fraction, int device)
{
	if (weir_fraction_set(device, fraction) != WEIR_OK)
		fprintf(stderr, "weir: %s\n", weir_last_error());
}

void *
weir_torch_plug_base(void *ptr, size_t *size)
{
	struct weir_block_info info = { .struct_size = sizeof(info) };

	if (weir_block_info(ptr, &info) != WEIR_OK)
		return ptr;
	if (size != NULL)
		*size = info.segment_size;
	return info.segment;
}

/* Record a use on a default stream of another device than the current one. */
static enum weir_status
record_default_of(int device, const void *ptr, weir_stream stream)
{
	int current;
	enum weir_status status = weir_get_device(&current);

	if (status != WEIR_OK || current == device)
		return status;
	status = weir_set_device(device);
	if (status != WEIR_OK)
		return status;
	status = weir_record_stream(ptr, stream);
	enum weir_status restored = weir_set_device(current);
	return status != WEIR_OK ? status : restored;
}

/* The default streams of all devices have one handle, and PyTorch does not say
 * of which device the stream is. So the block waits for that of the current
 * device and for that of its own. */
void
weir_torch_plug_record(void *ptr, weir_stream stream)
{
	struct weir_block_info info = { .struct_size = sizeof(info) };
	bool is_default = stream == NULL || stream == WEIR_STREAM_LEGACY ||
	    stream == WEIR_STREAM_PER_THREAD;
	enum weir_status status;

	if (ptr == NULL)
		return;
	status = weir_record_stream(ptr, stream);
	if (status == WEIR_OK && is_default) {
		status = weir_block_info(ptr, &info);
		if (status == WEIR_OK)
			status = record_default_of(info.device, ptr, stream);
	}
	if (status != WEIR_OK)
		fprintf(stderr, "weir: %s\n", weir_last_error());
}

/* ---- Pools ------------------------------------------------------------- */

static bool
plug_matches(void *closure, weir_stream stream)
{
	return (long)(intptr_t)closure == syscall(SYS_gettid) ||
	    filter_captured(stream);
}

void
weir_torch_plug_begin(int device, struct weir_torch_id id, void *unused)
{
	struct weir_torch_filter filter = { .matches = plug_matches,
		.closure = (void *)(intptr_t)syscall(SYS_gettid) };

	(void)unused;
	if (weir_torch_pool_begin(device, id, &filter) != WEIR_OK)
		fprintf(stderr, "weir: cannot route to pool (%llu, %llu)\n",
		    (unsigned long long)id.graph, (unsigned long long)id.user);
}

void
weir_torch_plug_end(int device, struct weir_torch_id id)
{
	(void)weir_torch_pool_end(device, id);
}

void
weir_torch_plug_release(int device, struct weir_torch_id id)
{
	(void)weir_torch_pool_release(device, id);
}
