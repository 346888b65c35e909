/*
 * The steps by which a ledger is changed: ledger.h, Note [Ledger].
 */
#include "allocator/share/ledger.h"

#include <stddef.h>

#include "base/assert.h"

/* States of a change. Each has one access to the ledger. */
enum {
	TAKE_CLAIM,
	TAKE_GUARANTEE,
	OWN_SINCE,
	READ_LIMIT_WISH,
	READ_LIMIT,
	READ_SLOT,
	TAKE_STORE,
	TAKE_CLEAR,
	TAKE_WITHDRAW,
	GIVE_STORE,
	GUARANTEE_READ,
	GUARANTEE_WISH,
	GUARANTEE_STORE,
	GUARANTEE_CLEAR,
	GUARANTEE_WITHDRAW,
	LIMIT_READ,
	LIMIT_WISH,
	LIMIT_STORE,
	LIMIT_CLEAR,
	LIMIT_WITHDRAW,
	EMPTY_CLAIM,
	EMPTY_LEASE,
	EMPTY_GUARANTEE,
	EMPTY_WISH,
	EMPTY_SINCE,
	EMPTY_PID,
};

/* Cells of a slot, in the order in which they are read. */
enum {
	CELL_WISH,
	CELL_GUARANTEE,
	CELL_CLAIM,
	CELL_LEASE,
	CELL_SINCE,
	CELL_WANT,
	CELLS
};

static uint64_t
larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void
ledger_op_begin(struct ledger_op *op, struct ledger *ledger,
    enum ledger_change change, unsigned self, uint64_t amount)
{
	static const int first[] = { [LEDGER_TAKE] = TAKE_CLAIM,
		[LEDGER_GIVE] = GIVE_STORE,
		[LEDGER_GUARANTEE] = GUARANTEE_READ,
		[LEDGER_LIMIT] = LIMIT_READ,
		[LEDGER_EMPTY] = EMPTY_CLAIM };

	ASSERT(self < LEDGER_MEMBERS);
	ASSERT(change != LEDGER_LIMIT || amount > 0);
	*op = (struct ledger_op){ .ledger = ledger,
		.count = LEDGER_MEMBERS,
		.self = self,
		.change = change,
		.amount = amount,
		.state = first[change] };
}

/* ---- The sum ------------------------------------------------------------ */

/* Read one cell of one slot. */
static void
read_cell(struct ledger_op *op)
{
	struct ledger_slot *slot = &op->ledger->slots[op->slot];
	_Atomic(uint64_t) *const cells[CELLS] = { [CELL_WISH] = &slot->wish,
		[CELL_GUARANTEE] = &slot->guarantee,
		[CELL_CLAIM] = &slot->claim,
		[CELL_LEASE] = &slot->lease,
		[CELL_SINCE] = &slot->since_ns,
		[CELL_WANT] = &slot->want };
	uint64_t value = atomic_load(cells[op->cell]);

	if (op->cell == CELL_SINCE) {
		op->since = value;
		return;
	}
	if (value > LEDGER_BYTES_MAX)
		op->corrupt = true;
	if (op->cell == CELL_WANT) {
		if (op->since != 0 && op->slot != op->self &&
		    (op->own_since == 0 || op->since < op->own_since))
			op->older += value;
		return;
	}
	op->charge = larger(op->charge, value);
	if (op->cell == CELL_GUARANTEE || op->cell == CELL_LEASE)
		op->firm = larger(op->firm, value);
}

/* Add the slot that was read, and go on to the next one. */
static void
end_slot(struct ledger_op *op)
{
	if (op->slot != op->self && op->charge > op->firm)
		op->met = true;
	op->sum += op->charge;
	op->charge = 0;
	op->firm = 0;
	op->cell = 0;
	op->slot++;
}

/* Does the change fit under the limit, by all that was read? */
static bool
sum_fits(struct ledger_op *op)
{
	uint64_t limit = op->change == LEDGER_LIMIT ? op->amount : op->limit;
	uint64_t sum = op->sum;

	if (op->change == LEDGER_TAKE)
		sum += op->older;
	op->missing = sum > limit ? sum - limit : 0;
	return op->missing == 0 && !op->corrupt;
}

static void
read_slot(struct ledger_op *op)
{
	static const int next[][2] = { [LEDGER_TAKE] = { TAKE_WITHDRAW,
					   TAKE_STORE },
		[LEDGER_GUARANTEE] = { GUARANTEE_WITHDRAW, GUARANTEE_STORE },
		[LEDGER_LIMIT] = { LIMIT_WITHDRAW, LIMIT_STORE } };

	read_cell(op);
	if (++op->cell < CELLS)
		return;
	end_slot(op);
	if (op->slot == op->count)
		op->state = next[op->change][sum_fits(op)];
}

/* ---- Steps -------------------------------------------------------------- */

/* Store a value, and go on with the next state. */
static enum ledger_result
store(struct ledger_op *op, _Atomic(uint64_t) *at, uint64_t value, int next)
{
	atomic_store(at, value);
	op->state = next;
	return LEDGER_GOING;
}

/* Store the last value of a change. */
static enum ledger_result
store_last(_Atomic(uint64_t) *at, uint64_t value, enum ledger_result result)
{
	atomic_store(at, value);
	return result;
}

static enum ledger_result
refusal(const struct ledger_op *op)
{
	return op->corrupt ? LEDGER_CORRUPT : LEDGER_REFUSED;
}

static enum ledger_result
step_take(struct ledger_op *op)
{
	struct ledger_slot *slot = &op->ledger->slots[op->self];

	switch (op->state) {
	case TAKE_CLAIM:
		return store(op, &slot->claim, op->amount, TAKE_GUARANTEE);
	case TAKE_GUARANTEE:
		op->state = op->amount <= atomic_load(&slot->guarantee) ?
		    TAKE_STORE :
		    OWN_SINCE;
		return LEDGER_GOING;
	case OWN_SINCE:
		op->own_since = atomic_load(&slot->since_ns);
		op->state = READ_LIMIT_WISH;
		return LEDGER_GOING;
	case TAKE_STORE:
		return store(op, &slot->lease, op->amount, TAKE_CLEAR);
	case TAKE_CLEAR:
		return store_last(&slot->claim, 0, LEDGER_DONE);
	case TAKE_WITHDRAW:
		return store_last(&slot->claim, 0, refusal(op));
	default:
		return store_last(&slot->lease, op->amount, LEDGER_DONE);
	}
}

static enum ledger_result
step_guarantee(struct ledger_op *op)
{
	struct ledger_slot *slot = &op->ledger->slots[op->self];

	switch (op->state) {
	case GUARANTEE_READ:
		op->state = op->amount <= atomic_load(&slot->guarantee) ?
		    GUARANTEE_STORE :
		    GUARANTEE_WISH;
		return LEDGER_GOING;
	case GUARANTEE_WISH:
		return store(op, &slot->wish, op->amount, READ_LIMIT_WISH);
	case GUARANTEE_STORE:
		return store(op, &slot->guarantee, op->amount, GUARANTEE_CLEAR);
	case GUARANTEE_CLEAR:
		return store_last(&slot->wish, 0, LEDGER_DONE);
	default:
		return store_last(&slot->wish, 0, refusal(op));
	}
}

static enum ledger_result
step_limit(struct ledger_op *op)
{
	struct ledger *ledger = op->ledger;

	switch (op->state) {
	case LIMIT_READ:
		op->state = op->amount >= atomic_load(&ledger->limit) ?
		    LIMIT_STORE :
		    LIMIT_WISH;
		return LEDGER_GOING;
	case LIMIT_WISH:
		/* The limit itself plays no part in the sum that follows. */
		return store(op, &ledger->limit_wish, op->amount, READ_SLOT);
	case LIMIT_STORE:
		return store(op, &ledger->limit, op->amount, LIMIT_CLEAR);
	case LIMIT_CLEAR:
		return store_last(&ledger->limit_wish, 0, LEDGER_DONE);
	default:
		return store_last(&ledger->limit_wish, 0, refusal(op));
	}
}

static enum ledger_result
step_empty(struct ledger_op *op)
{
	struct ledger_slot *slot = &op->ledger->slots[op->self];

	switch (op->state) {
	case EMPTY_CLAIM:
		return store(op, &slot->claim, 0, EMPTY_LEASE);
	case EMPTY_LEASE:
		return store(op, &slot->lease, 0, EMPTY_GUARANTEE);
	case EMPTY_GUARANTEE:
		return store(op, &slot->guarantee, 0, EMPTY_WISH);
	case EMPTY_WISH:
		return store(op, &slot->wish, 0, EMPTY_SINCE);
	case EMPTY_SINCE:
		return store(op, &slot->since_ns, 0, EMPTY_PID);
	default:
		return store_last(&slot->pid, 0, LEDGER_DONE);
	}
}

enum ledger_result
ledger_step(struct ledger_op *op)
{
	switch (op->state) {
	case READ_LIMIT_WISH:
		op->limit = atomic_load(&op->ledger->limit_wish);
		op->state = READ_LIMIT;
		return LEDGER_GOING;
	case READ_LIMIT: {
		uint64_t limit = atomic_load(&op->ledger->limit);

		if (op->limit == 0 || limit < op->limit)
			op->limit = limit;
		op->state = READ_SLOT;
		return LEDGER_GOING;
	}
	case READ_SLOT:
		read_slot(op);
		return LEDGER_GOING;
	default:
		break;
	}
	switch (op->change) {
	case LEDGER_GUARANTEE:
		return step_guarantee(op);
	case LEDGER_LIMIT:
		return step_limit(op);
	case LEDGER_EMPTY:
		return step_empty(op);
	default:
		return step_take(op);
	}
}

enum ledger_result
ledger_run(struct ledger_op *op)
{
	enum ledger_result result;

	do
		result = ledger_step(op);
	while (result == LEDGER_GOING);
	return result;
}

/* ---- Looking at it ------------------------------------------------------ */

static uint64_t
firm_charge(const struct ledger_slot *slot)
{
	return larger(atomic_load(&slot->lease), atomic_load(&slot->guarantee));
}

uint64_t
ledger_charged(const struct ledger *ledger)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < LEDGER_MEMBERS; i++) {
		const struct ledger_slot *slot = &ledger->slots[i];
		uint64_t tried =
		    larger(atomic_load(&slot->wish), atomic_load(&slot->claim));

		sum += larger(tried, firm_charge(slot));
	}
	return sum;
}

const char *
ledger_fault(const struct ledger *ledger)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < LEDGER_MEMBERS; i++) {
		const struct ledger_slot *slot = &ledger->slots[i];

		if (firm_charge(slot) > LEDGER_BYTES_MAX)
			return "a lease or guarantee is too large to be right";
		if (atomic_load(&slot->claim) != 0)
			return "a claim was left behind";
		if (atomic_load(&slot->wish) != 0)
			return "a wish for a guarantee was left behind";
		if (atomic_load(&slot->pid) == 0 && firm_charge(slot) != 0)
			return "a slot without a member has a charge";
		if (atomic_load(&slot->state) >= LEDGER_STATES)
			return "a member is in a state that there is not";
		sum += firm_charge(slot);
	}
	if (atomic_load(&ledger->limit_wish) != 0)
		return "a wish for a limit was left behind";
	return sum > atomic_load(&ledger->limit) ?
	    "the charges are more than the limit" :
	    NULL;
}
