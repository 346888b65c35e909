/*
 * The name of an action, and the memory that it accesses.
 */
#include "simcuda/sim.h"

struct layout
layout_of(const struct shape *shape)
{
	return (struct layout){ shape->width, shape->width * shape->rows };
}

struct access
access_to_shape(uint64_t address, const struct shape *shape,
    const struct layout *layout, enum access_mode mode)
{
	struct access access = { address, shape->width, mode, shape->rows,
		shape->slices, *layout };

	if (access.rows > 1 && layout->pitch == access.size) {
		access.size *= access.rows;
		access.rows = 1;
	}
	if (access.rows == 1 && access.slices > 1 &&
	    layout->slice == access.size) {
		access.size *= access.slices;
		access.slices = 1;
	}
	return access;
}

size_t
access_rows(const struct access *access)
{
	size_t rows = access->rows == 0 ? 1 : access->rows;

	return access->slices == 0 ? rows : rows * access->slices;
}

struct access
access_row(const struct access *access, size_t i)
{
	size_t rows = access->rows == 0 ? 1 : access->rows;

	return (struct access){ .address = access->address +
		    i / rows * access->layout.slice +
		    i % rows * access->layout.pitch,
		.size = access->size,
		.mode = access->mode };
}

size_t
access_bytes(const struct access *access)
{
	return access->size * access_rows(access);
}

const char *
action_name(const struct action *action)
{
	switch (action->kind) {
	case OP_COPY:
		return "copy";
	case OP_FILL:
		return "fill";
	case OP_KERNEL:
		return action->kernel.kernel->name;
	case OP_HOST:
		return "host function";
	case OP_TOUCH:
		return "the host";
	case OP_WRITE_VALUE:
		return "write value";
	case OP_WAIT_VALUE:
		return "wait for value";
	case OP_GRAPH:
		return "graph";
	default:
		return "event";
	}
}

static struct access
fill_access(const struct fill *fill)
{
	struct shape shape = { fill->n * fill->width, fill->rows, 1 };
	struct layout layout = { fill->pitch, 0 };

	return access_to_shape(fill->to, &shape, &layout, ACCESS_WRITE);
}

size_t
action_accesses(const struct action *action, struct access *out)
{
	size_t n = 0;

	switch (action->kind) {
	case OP_COPY:
		if (!action->copy.from_pageable)
			out[n++] = access_to_shape(action->copy.from,
			    &action->copy.shape, &action->copy.from_layout,
			    ACCESS_READ);
		if (!action->copy.to_pageable)
			out[n++] = access_to_shape(action->copy.to,
			    &action->copy.shape, &action->copy.to_layout,
			    ACCESS_WRITE);
		return n;
	case OP_FILL:
		out[0] = fill_access(&action->fill);
		return 1;
	case OP_KERNEL:
		return action->kernel.kernel->accesses(
		    action->kernel.params, out);
	case OP_WRITE_VALUE:
		out[0] = (struct access){ .address = action->value.address,
			.size = action->value.width,
			.mode = ACCESS_ATOMIC };
		return 1;
	default:
		return 0;
	}
}
