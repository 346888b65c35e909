/*
 * Hooks around a sleep. A slot is claimed by a compare-and-swap, so that no
 * lock is held while a function of the program runs.
 */
#include "graphs/sleep_hooks.h"

#include <stdatomic.h>

#include "allocator/private/asleep.h"
#include "base/status.h"
#include "graphs/tuning.h"

enum slot_state { SLOT_FREE, SLOT_CHANGING, SLOT_USED };

static struct slot {
	_Atomic(enum slot_state) state;
	struct weir_sleep_hook hook;
} slots[SLEEP_HOOKS];

/* `before` has been called, and `after` not yet. */
static atomic_bool entered;

enum weir_status
weir_sleep_hook_add(const struct weir_sleep_hook *hook)
{
	if (hook == NULL || hook->struct_size < sizeof(*hook))
		return status_set(WEIR_EINVAL,
		    "weir_sleep_hook_add: the hook has no struct_size");
	for (int i = 0; i < SLEEP_HOOKS; i++) {
		enum slot_state unused = SLOT_FREE;
		if (!atomic_compare_exchange_strong(
			&slots[i].state, &unused, SLOT_CHANGING))
			continue;
		slots[i].hook = *hook;
		atomic_store(&slots[i].state, SLOT_USED);
		return WEIR_OK;
	}
	return status_set(WEIR_EHOSTMEM,
	    "weir_sleep_hook_add: there are %d hooks already", SLEEP_HOOKS);
}

static bool
is_same(const struct weir_sleep_hook *a, const struct weir_sleep_hook *b)
{
	return a->before == b->before && a->after == b->after &&
	    a->user == b->user;
}

enum weir_status
weir_sleep_hook_remove(const struct weir_sleep_hook *hook)
{
	for (int i = 0; hook != NULL && i < SLEEP_HOOKS; i++) {
		if (atomic_load(&slots[i].state) != SLOT_USED ||
		    !is_same(&slots[i].hook, hook))
			continue;
		atomic_store(&slots[i].state, SLOT_FREE);
		return WEIR_OK;
	}
	return status_set(
	    WEIR_EINVAL, "weir_sleep_hook_remove: there is no such hook");
}

/* Call `after` of the first n hooks, the latest first. */
static void
call_after(int n)
{
	while (n-- > 0)
		if (atomic_load(&slots[n].state) == SLOT_USED &&
		    slots[n].hook.after != NULL)
			slots[n].hook.after(slots[n].hook.user);
}

enum weir_status
sleep_hooks_before(void)
{
	if (atomic_exchange(&entered, true))
		return WEIR_OK;
	for (int i = 0; i < SLEEP_HOOKS; i++) {
		const struct weir_sleep_hook *hook = &slots[i].hook;
		if (atomic_load(&slots[i].state) != SLOT_USED ||
		    hook->before == NULL)
			continue;
		enum weir_status status = hook->before(hook->user);
		if (status == WEIR_OK)
			continue;
		call_after(i);
		atomic_store(&entered, false);
		return status_set(
		    status, "weir_sleep: a hook of the program refuses it");
	}
	return WEIR_OK;
}

void
sleep_hooks_after(void)
{
	if (sleeping_any() || !atomic_exchange(&entered, false))
		return;
	call_after(SLEEP_HOOKS);
}
