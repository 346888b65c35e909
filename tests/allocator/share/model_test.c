/*
 * A model of the ledger: three processes change it, each in steps of one access
 * (ledger.h), and all orders of their steps are tried, with a death at each
 * step. The steps are those that the library makes.
 *
 * A state is what is in the ledger and where each process is in its change. The
 * search visits each state once, and checks in each that the charges are within
 * the limit.
 */
#include <stdlib.h>
#include <string.h>

#include "allocator/share/ledger.h"
#include "tests/support/test.h"

enum { SLOTS = 3, ACTORS = 4, SETTER = 3, KEY = 96, TABLE = 1 << 24 };

/* A process: the members of slots 0 to 2, and one that changes settings. */
struct actor {
	struct ledger_op op;
	bool busy;
	bool dead;
	bool emptying;  /* another process empties its slot */
	unsigned left;  /* changes that it may still begin */
	uint64_t lease; /* what it was granted */
};

struct state {
	uint64_t limit, limit_wish;
	uint64_t cells[SLOTS][4]; /* wish, guarantee, claim, lease */
	struct actor actors[ACTORS];
	unsigned deaths; /* that may still happen */
};

static struct ledger ledger;
static uint64_t *table; /* fingerprints of the states that were visited */
static uint64_t visited;
static struct state *stack;
static size_t depth;
static size_t capacity;

/* ---- States ------------------------------------------------------------- */

static void
put_state(const struct state *state)
{
	atomic_store(&ledger.limit, state->limit);
	atomic_store(&ledger.limit_wish, state->limit_wish);
	for (int i = 0; i < SLOTS; i++) {
		struct ledger_slot *slot = &ledger.slots[i];

		atomic_store(&slot->wish, state->cells[i][0]);
		atomic_store(&slot->guarantee, state->cells[i][1]);
		atomic_store(&slot->claim, state->cells[i][2]);
		atomic_store(&slot->lease, state->cells[i][3]);
	}
}

static void
get_state(struct state *state)
{
	state->limit = atomic_load(&ledger.limit);
	state->limit_wish = atomic_load(&ledger.limit_wish);
	for (int i = 0; i < SLOTS; i++) {
		struct ledger_slot *slot = &ledger.slots[i];

		state->cells[i][0] = atomic_load(&slot->wish);
		state->cells[i][1] = atomic_load(&slot->guarantee);
		state->cells[i][2] = atomic_load(&slot->claim);
		state->cells[i][3] = atomic_load(&slot->lease);
	}
}

static uint64_t
mix(uint64_t hash, uint64_t value)
{
	hash ^= value + UINT64_C(0x9e3779b97f4a7c15);
	hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
	return hash ^ hash >> 31;
}

static uint64_t
mix_op(uint64_t hash, const struct ledger_op *op)
{
	hash = mix(hash, (uint64_t)op->state << 8 | (uint64_t)op->change);
	hash = mix(hash, (uint64_t)op->slot << 8 | op->cell);
	hash = mix(hash, op->amount << 8 | (uint64_t)op->met);
	hash = mix(hash, op->limit << 16 | op->sum);
	return mix(hash, op->charge << 16 | op->firm);
}

static uint64_t
fingerprint(const struct state *state)
{
	uint64_t hash =
	    mix(state->limit << 16 | state->limit_wish, state->deaths);

	for (int i = 0; i < SLOTS; i++)
		for (int j = 0; j < 4; j++)
			hash = mix(hash, state->cells[i][j]);
	for (int i = 0; i < ACTORS; i++) {
		const struct actor *a = &state->actors[i];

		hash = mix(hash,
		    (uint64_t)a->busy | (uint64_t)a->dead << 1 |
			(uint64_t)a->emptying << 2 | a->left << 3 |
			a->lease << 8);
		if (a->busy)
			hash = mix_op(hash, &a->op);
	}
	return hash != 0 ? hash : 1;
}

/* Keep a state to go on from, unless it was visited before. */
static void
push_state(const struct state *state)
{
	uint64_t hash = fingerprint(state);
	size_t at = hash % TABLE;

	while (table[at] != 0 && table[at] != hash)
		at = (at + 1) % TABLE;
	if (table[at] == hash)
		return;
	table[at] = hash;
	visited++;
	EXPECT_LT(visited, TABLE / 4 * 3);
	if (depth == capacity) {
		capacity = capacity == 0 ? 1024 : 2 * capacity;
		struct state *larger =
		    realloc(stack, capacity * sizeof(*stack));
		EXPECT_NOT_NULL(larger);
		stack = larger;
	}
	stack[depth++] = *state;
}

/* ---- Checks ------------------------------------------------------------- */

static uint64_t
firm_sum(const struct state *state)
{
	uint64_t sum = 0;

	for (int i = 0; i < SLOTS; i++)
		sum += state->cells[i][1] > state->cells[i][3] ?
		    state->cells[i][1] :
		    state->cells[i][3];
	return sum;
}

/* When all is done nothing is left behind, and leases are what was granted. A
 * setter that has died leaves a wish, which the next one clears. */
static void
check_end(const struct state *state)
{
	for (int i = 0; i < SLOTS; i++) {
		const struct actor *a = &state->actors[i];

		EXPECT_EQ(state->cells[i][2], 0);
		EXPECT_EQ(state->cells[i][3], a->dead ? 0 : a->lease);
		if (!state->actors[SETTER].dead)
			EXPECT_EQ(state->cells[i][0], 0);
	}
	if (!state->actors[SETTER].dead)
		EXPECT_EQ(state->limit_wish, 0);
}

/* A change has ended. */
static void
finish(struct state *state, int who, enum ledger_result result)
{
	struct actor *a = &state->actors[who];

	EXPECT_NE(result, LEDGER_CORRUPT);
	a->busy = false;
	if (who == SETTER || a->emptying) {
		a->emptying = false;
		return;
	}
	/* Guarantees of members that the setter does not touch hold. */
	if (a->op.change == LEDGER_TAKE && who == 2 &&
	    a->op.amount <= state->cells[2][1])
		EXPECT_EQ(result, LEDGER_DONE);
	if (result == LEDGER_DONE)
		a->lease = a->op.amount;
}

/* ---- The search --------------------------------------------------------- */

/* The next access is to something that nobody writes in this model, or only
 * this process. It commutes with the steps of all others, so no order of them
 * has to be tried. */
static bool
is_quiet(const struct ledger_op *op)
{
	enum { CELL_FIRST_QUIET = 4 };

	return op->slot < SLOTS && op->cell >= CELL_FIRST_QUIET;
}

static void
step_actor(const struct state *from, int who)
{
	struct state state = *from;
	struct actor *a = &state.actors[who];
	enum ledger_result result;

	put_state(&state);
	do
		result = ledger_step(&a->op);
	while (result == LEDGER_GOING && is_quiet(&a->op));
	get_state(&state);
	if (result != LEDGER_GOING)
		finish(&state, who, result);
	push_state(&state);
}

static void
begin_change(const struct state *from, int who, enum ledger_change change,
    unsigned slot, uint64_t amount)
{
	struct state state = *from;
	struct actor *a = &state.actors[who];

	a->left--;
	a->busy = true;
	ledger_op_begin(&a->op, &ledger, change, slot, amount);
	a->op.count = SLOTS;
	push_state(&state);
}

/* Begin each change that the process may make now. */
static void
begin_any(const struct state *state, int who)
{
	const struct actor *a = &state->actors[who];

	if (who == SETTER) {
		begin_change(state, who, LEDGER_GUARANTEE, 0, 0);
		begin_change(state, who, LEDGER_GUARANTEE, 1, 2);
		begin_change(state, who, LEDGER_LIMIT, 0, state->limit - 1);
		begin_change(state, who, LEDGER_LIMIT, 0, state->limit + 1);
		return;
	}
	for (uint64_t more = 1; more <= 2; more++)
		begin_change(
		    state, who, LEDGER_TAKE, (unsigned)who, a->lease + more);
	if (a->lease > 0)
		begin_change(state, who, LEDGER_GIVE, (unsigned)who, 0);
}

/* Let a process die where it is. */
static void
kill_actor(const struct state *from, int who)
{
	struct state state = *from;

	state.deaths--;
	state.actors[who].dead = true;
	state.actors[who].busy = false;
	state.actors[who].left = 0;
	push_state(&state);
}

/* Begin to empty the slot of a process that has died. */
static void
empty_slot_of(const struct state *from, int who)
{
	struct state state = *from;
	struct actor *a = &state.actors[who];

	a->busy = true;
	a->emptying = true;
	ledger_op_begin(&a->op, &ledger, LEDGER_EMPTY, (unsigned)who, 0);
	a->op.count = SLOTS;
	push_state(&state);
}

static bool
is_empty(const struct state *state, int who)
{
	for (int j = 0; j < 4; j++)
		if (state->cells[who][j] != 0)
			return false;
	return true;
}

/* Go on from a state in each way. */
static void
visit(const struct state *state)
{
	bool ended = true;

	EXPECT_LE(firm_sum(state), state->limit);
	for (int who = 0; who < ACTORS; who++) {
		const struct actor *a = &state->actors[who];

		if (a->busy)
			step_actor(state, who);
		else if (a->dead && who != SETTER && !is_empty(state, who))
			empty_slot_of(state, who);
		else if (!a->dead && a->left > 0)
			begin_any(state, who);
		else
			continue;
		ended = false;
		if (!a->dead && state->deaths > 0)
			kill_actor(state, who);
	}
	if (ended)
		check_end(state);
}

static void
explore(const struct state *first)
{
	table = calloc(TABLE, sizeof(*table));
	EXPECT_NOT_NULL(table);
	push_state(first);
	while (depth > 0) {
		struct state state = stack[--depth];

		visit(&state);
	}
	free(table);
}

/* A limit, and for each member a guarantee and a lease. */
static struct state
state_of(uint64_t limit, const uint64_t guarantees[SLOTS],
    const uint64_t leases[SLOTS])
{
	struct state state = { .limit = limit };

	for (int i = 0; i < SLOTS; i++) {
		state.cells[i][1] = guarantees[i];
		state.cells[i][3] = leases[i];
		state.actors[i].lease = leases[i];
	}
	return state;
}

TEST_TIMEOUT(three_members_that_grow_at_once_stay_within_the_limit, 300)
{
	struct state state =
	    state_of(4, (uint64_t[]){ 0, 1, 2 }, (uint64_t[]){ 1, 0, 0 });

	for (int i = 0; i < SLOTS; i++)
		state.actors[i].left = 1;
	explore(&state);
	EXPECT_GE(visited, 10000);
}

TEST_TIMEOUT(members_that_grow_and_give_back_stay_within_the_limit, 300)
{
	struct state state =
	    state_of(3, (uint64_t[]){ 0, 0, 1 }, (uint64_t[]){ 1, 1, 0 });

	state.actors[0].left = 2;
	state.actors[1].left = 2;
	explore(&state);
	EXPECT_GE(visited, 1000);
}

TEST_TIMEOUT(a_member_that_dies_at_any_step_leaves_nothing, 300)
{
	struct state state =
	    state_of(4, (uint64_t[]){ 1, 0, 2 }, (uint64_t[]){ 1, 1, 0 });

	state.actors[0].left = 1;
	state.actors[1].left = 1;
	state.actors[2].left = 1;
	state.deaths = 1;
	explore(&state);
	EXPECT_GE(visited, 10000);
}

TEST_TIMEOUT(settings_that_change_meanwhile_keep_the_limit, 300)
{
	struct state state =
	    state_of(4, (uint64_t[]){ 2, 0, 1 }, (uint64_t[]){ 0, 1, 0 });

	state.actors[0].left = 1;
	state.actors[1].left = 1;
	state.actors[SETTER].left = 2;
	explore(&state);
	EXPECT_GE(visited, 10000);
}

TEST_TIMEOUT(a_setter_that_dies_keeps_the_limit, 300)
{
	struct state state =
	    state_of(4, (uint64_t[]){ 2, 0, 1 }, (uint64_t[]){ 0, 1, 0 });

	state.actors[0].left = 1;
	state.actors[2].left = 1;
	state.actors[SETTER].left = 1;
	state.deaths = 1;
	explore(&state);
	EXPECT_GE(visited, 10000);
}
