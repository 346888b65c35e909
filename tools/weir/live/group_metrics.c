/*
 * Metrics of groups.
 */
#include "tools/weir/live/group_metrics.h"

#include <stdlib.h>
#include <string.h>

static void
add_member_metrics(struct metrics_group *group, unsigned slot_number,
    const struct ledger_slot *slot)
{
	struct metrics_member *member = &group->members[group->member_count];
	uint64_t wait_ns = ledgers_wait_ns(slot);
	uint32_t state = atomic_load(&slot->state);

	*member = (struct metrics_member){ .slot = slot_number,
		.pid = atomic_load(&slot->pid),
		.held_bytes = atomic_load(&slot->lease),
		.guarantee_bytes = atomic_load(&slot->guarantee),
		.idle_bytes = atomic_load(&slot->idle),
		.priority = atomic_load(&slot->priority),
		.waits_for_bytes = wait_ns > 0 ? atomic_load(&slot->want) : 0,
		.wait_ns = wait_ns,
		.asleep = state < LEDGER_STATES ? state != LEDGER_AWAKE :
						  METRICS_NONE,
		.dozes = state < LEDGER_STATES ? state == LEDGER_DOZES :
						 METRICS_NONE };
	if (member->pid == 0)
		return;
	ledgers_program(slot, member->program);
	group->member_count++;
	group->held_bytes += member->held_bytes;
	group->waiting_count += wait_ns > 0;
}

static void
fill_group(struct metrics_group *group, const struct found_ledger *found)
{
	const struct ledger *ledger = found->file.ledger;
	uint64_t limit = atomic_load(&ledger->limit);

	memcpy(group->group, found->group, sizeof(group->group));
	memcpy(group->device_uuid, found->uuid, sizeof(group->device_uuid));
	group->limit_bytes = limit >= LEDGER_BYTES_MAX ? METRICS_NONE : limit;
	group->charged_bytes = ledger_charged(ledger);
	for (unsigned i = 0; i < LEDGER_MEMBERS; i++)
		add_member_metrics(group, i, &ledger->slots[i]);
}

struct metrics_group *
group_metrics(const struct found_ledger *list, size_t *count)
{
	struct metrics_group *groups;
	size_t ledgers = 0;

	for (const struct found_ledger *f = list; f != NULL; f = f->next)
		ledgers++;
	groups = calloc(ledgers + 1, sizeof(*groups));
	if (groups == NULL)
		return NULL;
	ledgers_ring(list);
	*count = 0;
	for (const struct found_ledger *f = list; f != NULL; f = f->next)
		fill_group(&groups[(*count)++], f);
	return groups;
}
