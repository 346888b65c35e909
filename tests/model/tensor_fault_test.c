/*
 * The fault sweep over tensors: fills, copies by the driver and by kernels,
 * within a device, between devices, and to and from the host; and over both
 * sides of shared memory.
 */
#include <weir/exchange.h>
#include <weir/graph.h>
#include <weir/ipc.h>
#include <weir/save.h>
#include <weir/tensor.h>

#include <stdio.h>
#include <unistd.h>

#include "driver/driver.h"
#include "tests/ipc/other.h"
#include "tests/model/sweep.h"
#include "tests/support/device.h"
#include "tests/support/test.h"

enum { MADE = 8 };

/* The tensors of a run. */
struct tensors {
	struct weir_tensor *made[MADE];
	int count;
};

static struct weir_place
place_of(enum weir_memory memory, int device, weir_stream stream)
{
	return (struct weir_place){ .struct_size = sizeof(struct weir_place),
		.memory = memory,
		.device = device,
		.stream = stream };
}

/* A tensor of 64 by 96 floats, filled; NULL: it could not be made. */
static struct weir_tensor *
filled(struct run *run, struct tensors *all, const struct weir_place *place)
{
	static const int64_t shape[] = { 64, 96 };
	struct weir_tensor **out = &all->made[all->count];
	float three = 3;

	if (!TRY(run, weir_tensor_empty(WEIR_FLOAT32, 2, shape, place, out)))
		return NULL;
	TRY(run, weir_tensor_fill(*out, WEIR_FLOAT32, &three, place->stream));
	return all->made[all->count++];
}

/* Copy a tensor to a place, or to another type. */
static struct weir_tensor *
moved(struct run *run, struct tensors *all, const struct weir_tensor *tensor,
    enum weir_dtype dtype, const struct weir_place *place, unsigned flags)
{
	struct weir_tensor **out = &all->made[all->count];

	if (tensor == NULL ||
	    !TRY(run, weir_tensor_to(tensor, dtype, place, flags, out)))
		return NULL;
	return all->made[all->count++];
}

static void
destroy_all(struct tensors *all)
{
	for (int i = 0; i < MADE; i++)
		weir_tensor_destroy(all->made[i]);
	run_expect_whole("weir_tensor_destroy");
}

static void
play_tensors(struct run *run)
{
	weir_stream on = stream(run, 0);
	struct weir_place place = place_of(WEIR_MEMORY_DEVICE, 0, on);
	struct tensors all = { .count = 0 };
	struct weir_tensor *turned = NULL;
	float zero = 0;

	run->is_compound = true;
	struct weir_tensor *tensor = filled(run, &all, &place);
	if (tensor != NULL)
		TRY(run, weir_tensor_fill(tensor, WEIR_FLOAT32, &zero, on));
	moved(run, &all, tensor, WEIR_FLOAT16, NULL, WEIR_COPY_DEFAULT);
	if (tensor != NULL &&
	    TRY(run, weir_tensor_transpose(tensor, 0, 1, &turned)) &&
	    TRY(run, weir_tensor_contiguous(turned, on, &all.made[all.count])))
		all.count++;
	weir_tensor_destroy(turned);
	destroy_all(&all);
}

static void
play_tensors_elsewhere(struct run *run)
{
	weir_stream on = stream(run, 0);
	struct weir_place place = place_of(WEIR_MEMORY_DEVICE, 0, on);
	struct weir_place host = place_of(WEIR_MEMORY_HOST, 0, on);
	struct weir_place other = place_of(WEIR_MEMORY_DEVICE, 1, NULL);
	struct tensors all = { .count = 0 };
	weir_stream there = NULL;

	run->is_compound = true;
	struct weir_tensor *tensor = filled(run, &all, &place);
	struct weir_tensor *read =
	    moved(run, &all, tensor, WEIR_DTYPE_NONE, &host, WEIR_COPY_DEFAULT);
	moved(run, &all, read, WEIR_DTYPE_NONE, &place, WEIR_COPY_DEFAULT);
	moved(
	    run, &all, tensor, WEIR_DTYPE_NONE, &host, WEIR_COPY_NON_BLOCKING);
	if (TRY(run, weir_stream_create(1, 0, &there)) &&
	    TRY(run, weir_stream_synchronize(on))) {
		other.stream = there;
		moved(
		    run, &all, tensor, WEIR_FLOAT16, &other, WEIR_COPY_DEFAULT);
	}
	destroy_all(&all);
	if (there != NULL && !TRY(run, weir_stream_destroy(there)))
		weir_stream_destroy(there);
}

/* A tensor in a file, written and read; so small that one thread does it. */
static void
play_files(struct run *run)
{
	static const int64_t shape[] = { MEGABYTE / 4 };
	struct weir_place place =
	    place_of(WEIR_MEMORY_DEVICE, 0, stream(run, 0));
	struct weir_load_options how = { .struct_size = sizeof(how),
		.place = &place };
	struct weir_named named = { "t", NULL };
	struct weir_tensor *tensor = NULL;
	struct weir_loaded *loaded = NULL;
	float zero = 0;
	char path[64];

	run->is_compound = true;
	snprintf(path, sizeof(path), "/tmp/weir_fault_test.%d.safetensors",
	    (int)getpid());
	if (TRY(run,
		weir_tensor_empty(WEIR_FLOAT32, 1, shape, &place, &tensor))) {
		named.tensor = tensor;
		TRY(run,
		    weir_tensor_fill(
			tensor, WEIR_FLOAT32, &zero, place.stream));
		if (TRY(run, weir_save(path, &named, 1, NULL)) &&
		    TRY(run, weir_load(path, &how, &loaded)))
			weir_loaded_drop(loaded);
		weir_tensor_destroy(tensor);
	}
	unlink(path);
	run_expect_whole("weir_tensor_destroy");
}

/* Memory that another library owns, for the fault sweep a block of the run. */
static void
play_foreign_arrays(struct run *run)
{
	weir_stream on = stream(run, 0);
	void *block = allocate(run, 3 * MEGABYTE, on);
	struct weir_array_interface array = { .struct_size = sizeof(array),
		.version = 3,
		.typestr = "<f4",
		.ndim = 1,
		.shape = { 1000 },
		.data = block,
		.has_stream = true,
		.stream = (uint64_t)(uintptr_t)on };
	struct weir_tensor *tensor = NULL;

	if (block != NULL && on != NULL &&
	    TRY(run,
		weir_tensor_from_array_interface(
		    &array, WEIR_DEVICE_CURRENT, on, NULL, &tensor)))
		weir_tensor_destroy(tensor);
	run_expect_whole("weir_tensor_destroy");
	release(run, block);
}

static void
play_event_exports(struct run *run)
{
	struct weir_ipc_export *shared = NULL;
	struct weir_event *event = NULL;

	run->is_compound = true;
	if (TRY(run, weir_event_create(WEIR_EVENT_INTERPROCESS, &event)) &&
	    TRY(run, weir_event_record(event, stream(run, 0))))
		TRY(run, weir_ipc_export_event(event, &shared));
	if (shared != NULL)
		weir_ipc_release(shared); /* destroys the event */
	else
		TRY(run, weir_event_destroy(event));
	run_expect_whole("weir_ipc_release");
}

/* An export owns its block. */
static void
end_export(struct run *run, struct weir_ipc_export *shared, void *block)
{
	if (shared == NULL) {
		release(run, block);
	} else {
		weir_ipc_release(shared); /* frees the block */
		for (int i = 0; i < RUN_BLOCKS; i++)
			if (run->blocks[i] == block)
				run->blocks[i] = NULL;
	}
	run_expect_whole("weir_ipc_release");
}

static void
play_exports(struct run *run)
{
	weir_stream on = stream(run, 0);
	void *block = allocate(run, 3 * MEGABYTE, on);
	struct weir_ipc_export *shared = NULL;
	struct weir_ipc_handle handle;

	run->is_compound = true;
	if (block != NULL && TRY(run, weir_ipc_export(block, on, &shared)) &&
	    TRY(run, weir_ipc_handle_of(shared, &handle)))
		EXPECT_EQ(weir_ipc_peers(shared), 0);
	end_export(run, shared, block);
}

/* The block lies in a segment of the driver. */
static void
play_driver_exports(struct run *run)
{
	TRY(run, weir_options_set("expandable_segments:False"));
	play_exports(run);
	TRY(run, weir_options_set("expandable_segments:True"));
}

/* Write a handle as PyTorch's, with descriptors or with a fabric handle, and
 * open it in the same process. */
static void
open_torch_handle(
    struct run *run, struct weir_ipc_export *shared, bool has_fabric)
{
	char bytes[256];
	size_t length;
	size_t offset;

	if (TRY(run,
		has_fabric ? weir_ipc_torch_fabric_handle(shared, bytes,
				 sizeof(bytes), &length, &offset) :
			     weir_ipc_torch_handle(shared, bytes, sizeof(bytes),
				 &length, &offset)) &&
	    TRY(run,
		weir_ipc_torch_open(
		    bytes, length, offset, 3 * MEGABYTE, 0, &run->import)) &&
	    TRY(run, weir_ipc_close(run->import, stream(run, 0))))
		run->import = NULL;
}

/* Memory with a fabric handle. */
static void
play_torch_handles(struct run *run)
{
	struct weir_ipc_export *shared = NULL;
	struct weir_route *route = NULL;
	struct weir_pool *pool = NULL;
	void *block = NULL;

	run_on("fabric", 1);
	run->is_compound = true;
	weir_stream on = stream(run, 0);
	if (TRY(run, weir_pool_create(0, NULL, WEIR_POOL_REGISTRABLE, &pool)) &&
	    TRY(run, weir_route_thread(pool, &route)))
		block = allocate(run, 3 * MEGABYTE, on);
	weir_route_end(route);
	if (block != NULL && TRY(run, weir_ipc_export(block, on, &shared)))
		for (int i = 0; i < 2 && run->import == NULL; i++)
			open_torch_handle(run, shared, i == 1);
	end_export(run, shared, block);
	weir_pool_release(pool);
	run_expect_whole("weir_pool_release");
}

static void
where_memory_is_shared(
    const struct scenario *scenario, void (*sweep)(const struct scenario *))
{
	device_need_sharing();
	sweep(scenario);
}

SCENARIO_TESTS(tensors)
SCENARIO_UNDOING(tensors)
SCENARIO_TESTS(tensors_elsewhere)
SCENARIO_TESTS(files)

SCENARIO_TESTS(foreign_arrays)
SCENARIO_TESTS_WHERE(exports, where_memory_is_shared)
SCENARIO_TESTS_WHERE(driver_exports, where_memory_is_shared)
SCENARIO_TESTS_WHERE(event_exports, where_memory_is_shared)
SCENARIO_TESTS_WHERE(torch_handles, where_memory_is_shared)
SCENARIO_UNDOING(torch_handles)
SCENARIO_UNDOING(exports)
SCENARIO_UNDOING(driver_exports)
SCENARIO_UNDOING(event_exports)

/* ---- Memory of another process ----------------------------------------- */

static struct weir_ipc_handle handle_of_other;

static void
import_on(struct run *run, int device, weir_stream on)
{
	struct weir_ipc_info info = { .struct_size = sizeof(info) };

	run->is_compound = true;
	if (!TRY(
		run, weir_ipc_open(&handle_of_other, device, on, &run->import)))
		return;
	TRY(run, weir_ipc_info(run->import, &info));
	/* An import that could not be closed stays open. */
	if (TRY(run, weir_ipc_close(run->import, on)))
		run->import = NULL;
}

static void
play_imports(struct run *run)
{
	import_on(run, 0, stream(run, 0));
}

static void
play_driver_imports(struct run *run)
{
	import_on(run, 0, stream(run, 0));
}

/* On another device than the memory's. */
static void
play_peer_imports(struct run *run)
{
	import_on(run, 1, WEIR_STREAM_ANY);
}

/* Share a block until the test is done with it. */
static void
own(int fd)
{
	struct weir_ipc_handle handle;
	weir_stream on = new_stream();
	struct weir_ipc_export *shared =
	    share(take(3 * MEGABYTE, on), on, &handle);

	tell(fd, &handle, sizeof(handle));
	meet(fd);
	weir_ipc_release(shared);
}

static void
own_of_driver(int fd)
{
	EXPECT_OK(weir_options_set("expandable_segments:False"));
	own(fd);
}

/* A sweep beside another process that shares memory. */
static void
beside(void (*owner)(int fd), const struct scenario *scenario,
    void (*sweep)(const struct scenario *))
{
	struct other other = other_start(owner);

	hear(other.fd, &handle_of_other, sizeof(handle_of_other));
	sweep(scenario);
	meet(other.fd);
	other_end(&other);
}

static void
beside_owner(
    const struct scenario *scenario, void (*sweep)(const struct scenario *))
{
	beside(own, scenario, sweep);
}

static void
beside_owner_of_driver_memory(
    const struct scenario *scenario, void (*sweep)(const struct scenario *))
{
	beside(own_of_driver, scenario, sweep);
}

SCENARIO_TESTS_WHERE(imports, beside_owner)
SCENARIO_UNDOING(imports)
SCENARIO_TESTS_WHERE(driver_imports, beside_owner_of_driver_memory)
SCENARIO_UNDOING(driver_imports)
SCENARIO_TESTS_WHERE(peer_imports, beside_owner)
SCENARIO_UNDOING(peer_imports)

TEST_TIMEOUT(each_driver_entry_is_reached_or_has_a_reason, 300)
{
	sweep_reach("tensor_fault_test");
}
