/*
 * Tells the parts, in order, that a context begins or ends.
 *
 * contexts.c, which is below these parts, sees it first. The linker fills in
 * the table, so that it is there before any constructor runs.
 */
#include "preload/ends.h"

#include "allocator/allocator.h"
#include "preload/serving/outside.h"

static void
context_ended(CUcontext context)
{
	lifetime_context_ended(context);
	outside_context_ends(context);
}

static void
memory_gone(int device)
{
	access_device_ends(device);
	memory_device_ends(device);
	outside_device_ends(device);
	leaving_device_ends(device);
}

static void
primary_began(int device)
{
	access_primary_begins(device);
	outside_measure(device, true);
}

static void
device_ended(int device)
{
	report_device_ends(device);
	sites_device_ends(device);
	mempool_device_ends(device);
	address_device_ends(device);
	allocator_forget_device(device);
}

const struct contexts_calls contexts_calls = {
	.primary_began = primary_began,
	.context_ended = context_ended,
	.memory_gone = memory_gone,
	.device_ended = device_ended,
};
