/*
 * The memory at an address, and the devices that may access it.
 *
 * Device memory is memory that the driver has allocated. Host memory is known
 * if it was pinned or registered; all other host memory is pageable, and
 * devices cannot access it. An operation is checked when it is executed: its
 * device must have read or write access to every byte.
 */
#include "simcuda/sim.h"

struct range *
memory_find(uint64_t address)
{
	return tree_find(&sim.memory, address);
}

bool
memory_covers(uint64_t address, size_t size)
{
	uint64_t end = address + size;

	if (end < address)
		return false;
	while (address < end) {
		struct range *range = memory_find(address);

		if (range == NULL)
			return false;
		address = range->start + range->size;
	}
	return true;
}

bool
memory_is_pageable(uint64_t address, size_t size)
{
	/* Addresses of programs end here. */
	const uint64_t end = UINT64_C(1) << 48;

	return address < end && size <= end - address &&
	    memory_find(address) == NULL &&
	    tree_find(&sim.reservations, address) == NULL;
}

bool
range_is_released(const struct range *range)
{
	return range->graph_memory ? !range->graph_live : range->released;
}

bool
range_is_host(const struct range *range)
{
	return range->kind == RANGE_HOST || range->kind == RANGE_REGISTERED ||
	    (range->kind == RANGE_MAPPING && phys_is_host(range->phys));
}

/* ---- operands ----------------------------------------------------------- */

struct operand
memory_operand(uint64_t address)
{
	const struct range *range = memory_find(address);
	struct operand operand = { .kind = RANGE_KINDS, .device = -1 };

	if (range == NULL)
		return operand;
	operand.kind = range_is_host(range) ? RANGE_HOST : range->kind;
	/* Memory without a context is one kind. */
	if (range->graph_memory || operand.kind == RANGE_POOLED)
		operand.kind = RANGE_MAPPING;
	if (range->phys != NULL)
		operand.device = range->phys->device->ordinal;
	if (!range_is_host(range) && range->context != NULL)
		operand.context_id = range->context->id;
	operand.can_read = range->can_read;
	operand.can_write = range->can_write;
	return operand;
}

bool
operand_equals(const struct operand *a, const struct operand *b)
{
	return a->kind == b->kind && a->context_id == b->context_id &&
	    a->device == b->device && a->can_read == b->can_read &&
	    a->can_write == b->can_write;
}

/* ---- checks ------------------------------------------------------------- */

/* Why the context's device may not access the range; NULL if it may. Without a
 * context the device is the one that the memory belongs to. */
static const char *
range_check(const struct range *range, enum access_mode mode,
    const struct context *context)
{
	uint32_t bit;

	if (range->freed)
		return "that was freed before";
	if (range->kind == RANGE_HOST || range->kind == RANGE_REGISTERED ||
	    range->kind == RANGE_MANAGED)
		return NULL;
	if (context == NULL && range_is_host(range))
		return NULL;
	bit = 1u << (context != NULL ? context->device->ordinal :
				       range->phys->device->ordinal);
	if (range->kind == RANGE_MAPPING || range->kind == RANGE_POOLED) {
		if ((range->can_read & bit) == 0)
			return "that its device has no access to";
		if (mode != ACCESS_READ && (range->can_write & bit) == 0)
			return "that its device may only read";
		return NULL;
	}
	if (context != NULL &&
	    !context_reaches(context, range->phys->device->ordinal))
		return "of another device, without peer access";
	return NULL;
}

static const char *
row_check(const struct access *access, const struct context *context)
{
	uint64_t address = access->address, end = address + access->size;

	while (address < end) {
		struct range *range = memory_find(address);
		const char *wrong;

		if (range == NULL)
			return "where there is no memory (any more)";
		wrong = range_check(range, access->mode, context);
		if (wrong != NULL)
			return wrong;
		address = range->start + range->size;
	}
	return NULL;
}

const char *
memory_check(const struct access *access, const struct context *context)
{
	const char *wrong = NULL;
	size_t n = access_rows(access);

	for (size_t i = 0; i < n && wrong == NULL; i++) {
		struct access row = access_row(access, i);

		wrong = row_check(&row, context);
	}
	return wrong;
}

static void
row_use(const struct access *access, const struct point *at)
{
	uint64_t address = access->address, end = address + access->size;

	while (address < end) {
		struct range *range = tree_at_or_after(&sim.memory, address);

		if (range == NULL || range->start >= end)
			return;
		range_use(range, at);
		address = range->start + range->size;
	}
}

void
memory_use(const struct access *access, const struct point *at)
{
	size_t n = access_rows(access);

	for (size_t i = 0; i < n; i++) {
		struct access row = access_row(access, i);

		row_use(&row, at);
	}
}

static void
row_touch(const struct access *access, const struct op *op)
{
	uint64_t address = access->address, end = address + access->size;

	while (address < end) {
		struct range *range = memory_find(address);
		uint64_t stop = range->start + range->size;
		size_t into = address - range->start;
		struct access part = *access;

		if (stop > end)
			stop = end;
		part.address = address;
		part.size = stop - address;
		if (range->phys != NULL) {
			range->phys->touched = true;
			race_access(range->phys->space,
			    range->phys->race_offset + range->phys_offset +
				into,
			    &part, op);
		} else {
			race_access(SPACE_HOST, address, &part, op);
		}
		address = stop;
	}
}

void
memory_touch(const struct access *access, const struct op *op)
{
	size_t n = access_rows(access);

	for (size_t i = 0; i < n; i++) {
		struct access row = access_row(access, i);

		row_touch(&row, op);
	}
}

void
simcuda_host_touch(const void *address, size_t size, int write)
{
	struct op op = { .action.kind = OP_TOUCH };
	struct access access = { .address = handle_bits(address),
		.size = size,
		.mode = write ? ACCESS_WRITE : ACCESS_READ };

	gate_lock();
	if (sim.state == SIM_READY && size > 0 &&
	    memory_covers(access.address, size)) {
		op.at = host_step();
		memory_touch(&access, &op);
		point_drop(&op.at);
	}
	gate_unlock();
}

void
ipc_close(struct range *range)
{
	address_release(range->start - range->phys_offset, range->phys->size);
	range_free(range);
}
