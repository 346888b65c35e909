/*
 * Executes operations when their time has come. Memory is really read and
 * written, after two checks: that the device may access it, and that the
 * program has ordered this operation with all others on the same bytes.
 */
#include <string.h>

#include "simcuda/capture.h"
#include "simcuda/sim.h"

static void
do_copy(const struct copy *copy)
{
	uint64_t from = copy->from;
	struct layout from_layout = copy->from_layout;

	if (copy->staged != NULL) {
		from = handle_bits(copy->staged);
		from_layout = layout_of(&copy->shape);
	}
	for (size_t z = 0; z < copy->shape.slices; z++) {
		for (size_t y = 0; y < copy->shape.rows; y++)
			memmove(handle_pointer(copy->to +
				    z * copy->to_layout.slice +
				    y * copy->to_layout.pitch),
			    handle_pointer(from + z * from_layout.slice +
				y * from_layout.pitch),
			    copy->shape.width);
	}
}

static void
fill_row(uint64_t address, const struct fill *fill)
{
	void *row = handle_pointer(address);

	if (fill->width == 1) {
		memset(row, (int)fill->value, fill->n);
	} else if (fill->width == 2) {
		uint16_t *to = row;

		for (size_t i = 0; i < fill->n; i++)
			to[i] = (uint16_t)fill->value;
	} else {
		uint32_t *to = row;

		for (size_t i = 0; i < fill->n; i++)
			to[i] = fill->value;
	}
}

static void
do_fill(const struct fill *fill)
{
	for (size_t y = 0; y < fill->rows; y++)
		fill_row(fill->to + y * fill->pitch, fill);
}

static uint64_t
load_value(const struct value_call *call)
{
	const void *address = (const void *)(uintptr_t)call->address;

	if (call->width == sizeof(uint32_t))
		return __atomic_load_n(
		    (const uint32_t *)address, __ATOMIC_ACQUIRE);
	return __atomic_load_n((const uint64_t *)address, __ATOMIC_ACQUIRE);
}

static void
store_value(const struct value_call *call)
{
	void *address = (void *)(uintptr_t)call->address;

	if (call->width == sizeof(uint32_t))
		__atomic_store_n((uint32_t *)address, (uint32_t)call->value,
		    __ATOMIC_RELEASE);
	else
		__atomic_store_n(
		    (uint64_t *)address, call->value, __ATOMIC_RELEASE);
}

bool
value_holds(const struct op *op)
{
	const struct value_call *call = &op->action.value;
	struct access access = { .address = call->address,
		.size = call->width,
		.mode = ACCESS_ATOMIC };
	uint64_t value;

	/* Memory that is gone would never get the value. */
	if (memory_check(&access, op->context) != NULL)
		return true;
	value = load_value(call);
	switch (call->flags & CU_STREAM_WAIT_VALUE_NOR) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		if (call->width == sizeof(uint32_t))
			return (int32_t)((uint32_t)value -
				   (uint32_t)call->value) >= 0;
		return (int64_t)(value - call->value) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return value == call->value;
	case CU_STREAM_WAIT_VALUE_AND:
		return (value & call->value) != 0;
	default:
		value = ~(value | call->value);
		return call->width == sizeof(uint32_t) ? (uint32_t)value != 0 :
							 value != 0;
	}
}

/* ---- who wrote a value -------------------------------------------------- */

/* The last operation that wrote a value, by address. */
static struct writer {
	uint64_t address;
	struct point at;
} * writers;
static size_t writers_capacity, n_writers;

static struct writer *
writer_find(uint64_t address)
{
	for (size_t i = 0; i < n_writers; i++) {
		if (writers[i].address == address)
			return &writers[i];
	}
	return NULL;
}

static void
remember_writer(const struct op *op)
{
	uint64_t address = op->action.value.address;
	struct writer *writer = writer_find(address);

	if (writer == NULL) {
		writers = sim_grow(
		    writers, n_writers, &writers_capacity, sizeof(*writers));
		writer = &writers[n_writers++];
		writer->address = address;
	}
	point_drop(&writer->at);
	writer->at = point_copy(&op->at);
}

/* The host may have written it too, so all that the host knows now counts. */
void
value_came(const struct op *op)
{
	struct writer *writer = writer_find(op->action.value.address);
	struct point host = host_point();

	if (writer != NULL)
		clock_late_join(op->at.slot, op->at.epoch, &writer->at);
	clock_late_join(op->at.slot, op->at.epoch, &host);
	point_drop(&host);
}

/* ---- doing it ----------------------------------------------------------- */

/* Report what is wrong with the accessed memory; false if anything is. */
static bool
op_accesses_are_valid(const struct op *op)
{
	struct access accesses[SIM_ACCESSES];
	size_t n = action_accesses(&op->action, accesses);
	/* Copies and fills reach the memory of all devices. */
	bool everywhere =
	    op->action.kind == OP_COPY || op->action.kind == OP_FILL;

	for (size_t i = 0; i < n; i++) {
		const char *wrong = memory_check(&accesses[i], op->context);

		if (wrong != NULL && everywhere)
			wrong = memory_check(&accesses[i], NULL);
		if (wrong == NULL)
			continue;
		violation("%s on stream %llu %s %zu bytes at %#llx: %s",
		    action_name(&op->action),
		    (unsigned long long)slot_label(op->at.slot),
		    accesses[i].mode == ACCESS_READ ? "reads" : "writes",
		    access_bytes(&accesses[i]),
		    (unsigned long long)accesses[i].address, wrong);
		op->context->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
		return false;
	}
	for (size_t i = 0; i < n; i++)
		memory_touch(&accesses[i], op);
	return true;
}

static void
do_host(const struct host_call *call)
{
	if (call->callback != NULL)
		call->callback(
		    handle_pointer(call->stream), CUDA_SUCCESS, call->data);
	else
		call->function(call->data);
}

void
op_execute(struct op *op)
{
	const struct action *action = &op->action;

	/* After an illegal access a context executes nothing any more. */
	if (action->kind == OP_HOST) {
		do_host(&action->host);
		return;
	}
	if (op->context->sticky != CUDA_SUCCESS || !op_accesses_are_valid(op))
		return;
	switch (action->kind) {
	case OP_COPY:
		do_copy(&action->copy);
		break;
	case OP_FILL:
		do_fill(&action->fill);
		break;
	case OP_KERNEL:
		action->kernel.kernel->run(action->kernel.params);
		break;
	case OP_WRITE_VALUE:
		store_value(&action->value);
		remember_writer(op);
		break;
	case OP_ALLOC:
		action->range->freed = false;
		break;
	case OP_FREE:
		action->range->freed = true;
		break;
	default:
		break;
	}
}
