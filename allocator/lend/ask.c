/*
 * Help for a request that finds no memory: lender.c, Note [Lending].
 *
 * A member is asked for no more than its lease exceeds its guarantee by. It
 * could take the rest again at once, and in the group's account nothing would
 * be gained. If the device itself is full, a request within its own member's
 * guarantee may ask for all unused memory: the device then has less than the
 * members were promised.
 *
 * A member is asked to sleep (lender.c, Note [Dozing]) only if it holds more
 * than its guarantee, whatever is full: it has asked for the memory within its
 * guarantee, and might not get it back. Nobody is asked if all together cannot
 * give enough.
 */
#include "allocator/lend/ask.h"

#include <time.h>

#include "allocator/account/totals.h"
#include "allocator/lend/tuning.h"
#include "allocator/memory/arena.h"
#include "allocator/options.h"
#include "allocator/share/member.h"
#include "base/futex.h"
#include "base/os.h"

/* The request that has the member's place in the queue of each device. */
static atomic_bool queued[DEVICES_MAX];

/* ---- Asking ------------------------------------------------------------- */

/* The bytes that may be asked of a member. */
static uint64_t
may_ask(const struct ledger_slot *slot, bool all)
{
	uint64_t lease = atomic_load(&slot->lease);
	uint64_t guarantee = all ? 0 : atomic_load(&slot->guarantee);

	return lease > guarantee ? lease - guarantee : 0;
}

/* Should `a` be asked before `b`? */
static bool
is_before(const struct ledger_slot *a, const struct ledger_slot *b, bool doze)
{
	uint64_t first = atomic_load(&a->priority);
	uint64_t second = atomic_load(&b->priority);

	if (first != second)
		return first < second;
	return doze ? atomic_load(&a->used_ns) < atomic_load(&b->used_ns) :
		      atomic_load(&a->idle) > atomic_load(&b->idle);
}

/* List the members that hold something, in the order to ask them: with `doze`,
 * those that may be asked to sleep. */
static unsigned
list_lenders(const struct ledger_file *file, bool all, bool doze,
    struct ledger_slot *lenders[LEDGER_MEMBERS])
{
	unsigned n = 0;

	for (unsigned i = 0; i < LEDGER_MEMBERS; i++) {
		struct ledger_slot *slot = &file->ledger->slots[i];
		unsigned at = n;

		if ((int)i == file->slot || atomic_load(&slot->pid) == 0 ||
		    may_ask(slot, all) == 0 ||
		    (doze && atomic_load(&slot->used_ns) == 0))
			continue;
		for (; at > 0 && is_before(slot, lenders[at - 1], doze); at--)
			lenders[at] = lenders[at - 1];
		lenders[at] = slot;
		n++;
	}
	return n;
}

/* Ring a member's bell. Returns the number to be answered. */
static uint32_t
ring_bell(struct ledger_slot *slot)
{
	uint32_t bell = atomic_fetch_add(&slot->bell, 1) + 1;

	futex_shared_wake(&slot->bell);
	return bell;
}

/* Wait until a member has answered, which takes as long as it needs if it is
 * falling asleep, or has died. Returns the bytes that it, or a dead member, has
 * given. */
static uint64_t
await_answer(const struct ledger_file *file, struct ledger_slot *slot,
    uint32_t bell, uint64_t given, uint64_t until_ns)
{
	const uint64_t nap_ns = QUEUE_NAP_MS * UINT64_C(1000000);
	const uint64_t doze_ns = until_ns + DOZE_END_MS * UINT64_C(1000000);

	for (;;) {
		uint32_t answered = atomic_load(&slot->answered);
		uint64_t now_ns = os_monotonic_ns();
		uint64_t end_ns =
		    atomic_load(&slot->dozing) != 0 ? doze_ns : until_ns;

		if ((int32_t)(answered - bell) >= 0 || now_ns >= end_ns)
			return atomic_load(&slot->given) - given;
		futex_shared_wait(&slot->answered, answered,
		    end_ns - now_ns < nap_ns ? end_ns - now_ns : nap_ns);
		if (atomic_load(&slot->answered) != answered)
			continue;
		uint64_t dead = ledger_empty_dead(file);
		if (dead > 0)
			return dead;
	}
}

/* Ask one member, and wait for its answer until `until_ns`. Returns the bytes
 * that it has given meanwhile. */
static uint64_t
ask_member(const struct ledger_file *file, struct ledger_slot *slot,
    uint64_t want, uint64_t until_ns)
{
	uint64_t given = atomic_load(&slot->given);

	ASSERT(want > 0);
	atomic_fetch_add(&slot->asked, want);
	return await_answer(file, slot, ring_bell(slot), given, until_ns);
}

/* Ask the members one after the other, each for its share of the time. */
static uint64_t
ask_members(
    const struct ledger_file *file, uint64_t want, bool all, uint64_t time_ns)
{
	struct ledger_slot *lenders[LEDGER_MEMBERS];
	unsigned n = list_lenders(file, all, false, lenders);
	uint64_t end_ns = os_monotonic_ns() + time_ns;
	uint64_t sum = 0;

	for (unsigned i = 0; i < n && sum < want; i++) {
		uint64_t now_ns = os_monotonic_ns();
		uint64_t most = may_ask(lenders[i], all);
		if (now_ns >= end_ns)
			break;
		if (most > want - sum)
			most = want - sum;
		if (most > 0)
			sum += ask_member(file, lenders[i], most,
			    now_ns + (end_ns - now_ns) / (n - i));
	}
	return sum;
}

/* ---- Asking members to sleep -------------------------------------------- */

/* Ask one member to sleep, if it is idle, until `until_ns`. */
static uint64_t
ask_to_sleep(
    const struct ledger_file *file, struct ledger_slot *slot, uint64_t until_ns)
{
	uint64_t given = atomic_load(&slot->given);
	uint64_t until = atomic_load(&slot->doze_until_ns);

	/* If two ask, the later time holds. */
	while (until < until_ns &&
	    !atomic_compare_exchange_weak(
		&slot->doze_until_ns, &until, until_ns))
		;
	return await_answer(file, slot, ring_bell(slot), given, until_ns);
}

/* Ask idle members to sleep, one after the other. */
static uint64_t
ask_sleepers(const struct ledger_file *file, uint64_t want, uint64_t time_ns)
{
	struct ledger_slot *sleepers[LEDGER_MEMBERS];
	unsigned n = list_lenders(file, false, true, sleepers);
	uint64_t end_ns = os_monotonic_ns() + time_ns;
	uint64_t most = 0;
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		most += may_ask(sleepers[i], false);
	for (unsigned i = 0; i < n && sum < want && most >= want; i++) {
		uint64_t now_ns = os_monotonic_ns();

		if (now_ns >= end_ns)
			break;
		if (may_ask(sleepers[i], false) > 0)
			sum += ask_to_sleep(file, sleepers[i],
			    now_ns + (end_ns - now_ns) / (n - i));
	}
	return sum;
}

/* Has any member memory that it does not use, of what may be asked of it? Work
 * in flight may use it yet, which ends. */
static bool
is_idle_memory(const struct ledger_file *file, bool all)
{
	struct ledger_slot *lenders[LEDGER_MEMBERS];
	unsigned n = list_lenders(file, all, false, lenders);

	for (unsigned i = 0; i < n; i++)
		if (atomic_load(&lenders[i]->idle) > 0)
			return true;
	return false;
}

/* ---- The queue ---------------------------------------------------------- */

/* Stand in the queue, for the member. Others of its requests have no place of
 * their own while one stands there. */
static void
enter_queue(
    struct help *help, struct ledger_file *file, int device, size_t want)
{
	struct ledger_slot *slot = ledger_own_slot(file);

	if (help->queued || atomic_exchange(&queued[device], true))
		return;
	help->queued = true;
	atomic_store(&slot->want, want);
	atomic_store(&slot->since_ns, os_monotonic_ns());
}

static void
wait_for_turn(struct ledger *ledger, uint32_t turn, uint64_t most_ns)
{
	const uint64_t nap_ns = QUEUE_NAP_MS * UINT64_C(1000000);

	atomic_fetch_add(&ledger->waiting, 1);
	futex_shared_wait(
	    &ledger->turn, turn, most_ns < nap_ns ? most_ns : nap_ns);
	atomic_fetch_sub(&ledger->waiting, 1);
}

/* Ask the members for unused memory and, if they have none, to sleep. True:
 * some was given. */
static bool
ask_group(struct help *help, const struct ledger_file *file, size_t want,
    bool all, uint64_t lend_ns)
{
	struct ledger_slot *sleepers[LEDGER_MEMBERS];
	bool asks = os_monotonic_ns() < help->asks_until_ns || help->queued;
	/* The time is for both questions. */
	uint64_t half_ns = lend_ns / 2;

	if (lend_ns == 0)
		return false;
	if (list_lenders(file, false, true, sleepers) == 0)
		half_ns = 0;
	/* Others may take the memory that is given: that does not go on for
	 * ever. */
	if (asks && ask_members(file, want, all, lend_ns - half_ns) > 0)
		return true;
	if (half_ns == 0 || (!asks && help->asked_sleepers))
		return false;
	help->asked_sleepers = true;
	return ask_sleepers(file, want, half_ns) > 0;
}

bool
help_request(struct help *help, struct arena *arena, size_t want)
{
	struct ledger_file *file =
	    arena_is_leased(arena) ? member_file(arena->device) : NULL;
	const struct options *options;

	ASSERT(want > 0);
	if (file == NULL || options_get(&options) != WEIR_OK)
		return false;
	struct ledger_slot *slot = ledger_own_slot(file);
	uint64_t now_ns = os_monotonic_ns();
	uint32_t turn = atomic_load(&file->ledger->turn);
	size_t missing = member_take_missing(arena->device);
	/* The device is full, and not the group. */
	bool all = missing == 0 &&
	    atomic_load(&slot->lease) + want <= atomic_load(&slot->guarantee);

	if (!help->begun) {
		help->begun = true;
		help->asks_until_ns =
		    now_ns + options->lend_ms * UINT64_C(1000000);
		help->ends_ns = now_ns + options->wait_ms * UINT64_C(1000000);
	}
	if (ledger_empty_dead(file) > 0)
		return true;
	if (ask_group(help, file, missing > 0 ? missing : want, all,
		options->lend_ms * UINT64_C(1000000)))
		return true;
	now_ns = os_monotonic_ns();
	/* A member may have given to another one that asked, since the request
	 * was refused, and have no more. */
	if (now_ns < help->asks_until_ns && missing > 0 &&
	    member_has_more_room(arena->device))
		return true;
	if (now_ns < help->asks_until_ns && is_idle_memory(file, all)) {
		wait_for_turn(file->ledger, turn, help->asks_until_ns - now_ns);
		return true;
	}
	if (now_ns >= help->ends_ns)
		return false;
	enter_queue(help, file, arena->device, want);
	wait_for_turn(file->ledger, turn, help->ends_ns - now_ns);
	return true;
}

void
help_end(struct help *help, const struct arena *arena)
{
	struct ledger_file *file;

	if (!help->queued)
		return;
	help->queued = false;
	file = member_file(arena->device);
	if (file != NULL) {
		struct ledger_slot *slot = ledger_own_slot(file);
		atomic_store(&slot->since_ns, 0);
		atomic_store(&slot->want, 0);
		ledger_ring_turn(file->ledger);
	}
	atomic_store(&queued[arena->device], false);
}
