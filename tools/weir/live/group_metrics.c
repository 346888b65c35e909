/*
 * Metrics of groups.
 *
 * A ledger does not say who sleeps. So each member of this user is asked, all
 * at the same time; one that is stopped, or cannot be watched, has no answer.
 */
#include "tools/weir/live/group_metrics.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/weir/live/sleep_answer.h"
#include "tools/weir/live/watch_link.h"
#include "tools/weir/progress.h"
#include "tools/weir/tuning.h"

/* ---- Asking who sleeps -------------------------------------------------- */

/* The members of a list, and what they have answered. */
struct sleepers {
	struct group_member *members;
	size_t count;
	struct pollfd *polled; /* as many; -1: not asked, or answered */
	bool *sent;
	uint64_t *asleep; /* 0, 1 or METRICS_NONE */
};

static void
ask_member(struct sleepers *all, size_t i)
{
	const struct watch_ctl_request request = sleep_list_request();
	const struct group_member *member = &all->members[i];
	char why[WATCH_TEXT];
	int fd;

	all->asleep[i] = METRICS_NONE;
	all->polled[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
	if (member->foreign || !watch_connect(member->pid, 0, &fd, why))
		return;
	all->polled[i].fd = fd;
	all->sent[i] = watch_send_values(fd, &request);
}

static void
hear_member(struct sleepers *all, size_t i)
{
	static struct watch_ctl_reply reply;
	const struct watch_ctl_request request = sleep_list_request();

	if (watch_receive_values(all->polled[i].fd, &request, all->sent[i],
		&reply) == WATCH_ANSWERED)
		all->asleep[i] = sleep_is_asleep(&reply);
	close(all->polled[i].fd);
	all->polled[i].fd = -1;
}

static void
hear_members(struct sleepers *all)
{
	int64_t end_ms = progress_clock_ms() + METRICS_ANSWER_MS;
	size_t open = 0;

	for (size_t i = 0; i < all->count; i++)
		open += all->polled[i].fd >= 0;
	while (open > 0) {
		int64_t left_ms = end_ms - progress_clock_ms();

		if (left_ms <= 0 ||
		    poll(all->polled, all->count, (int)left_ms) < 0)
			break;
		for (size_t i = 0; i < all->count; i++) {
			if (all->polled[i].fd < 0 ||
			    all->polled[i].revents == 0)
				continue;
			hear_member(all, i);
			open--;
		}
	}
	for (size_t i = 0; i < all->count; i++)
		if (all->polled[i].fd >= 0)
			close(all->polled[i].fd);
}

static void
free_sleepers(struct sleepers *all)
{
	free(all->members);
	free(all->polled);
	free(all->sent);
	free(all->asleep);
}

/* Ask all members of a list. False without memory; nothing is kept then. */
static bool
find_sleepers(const struct found_ledger *list, struct sleepers *all)
{
	*all = (struct sleepers){ .count = 0 };
	if (!ledgers_members(list, &all->members, &all->count))
		return false;
	all->polled = calloc(all->count + 1, sizeof(*all->polled));
	all->sent = calloc(all->count + 1, sizeof(*all->sent));
	all->asleep = calloc(all->count + 1, sizeof(*all->asleep));
	if (all->polled == NULL || all->sent == NULL || all->asleep == NULL) {
		free_sleepers(all);
		return false;
	}
	for (size_t i = 0; i < all->count; i++)
		ask_member(all, i);
	hear_members(all);
	return true;
}

static uint64_t
asleep_of(const struct sleepers *all, const struct ledger_slot *slot)
{
	uint64_t pid = atomic_load(&slot->pid);

	for (size_t i = 0; i < all->count; i++)
		if ((uint64_t)all->members[i].pid == pid &&
		    all->members[i].foreign == !ledger_slot_is_here(slot))
			return all->asleep[i];
	return METRICS_NONE;
}

/* ---- Groups ------------------------------------------------------------- */

static void
add_member_metrics(struct metrics_group *group, unsigned slot_number,
    const struct ledger_slot *slot, const struct sleepers *all)
{
	struct metrics_member *member = &group->members[group->member_count];
	uint64_t wait_ns = ledgers_wait_ns(slot);

	*member = (struct metrics_member){ .slot = slot_number,
		.pid = atomic_load(&slot->pid),
		.held_bytes = atomic_load(&slot->lease),
		.guarantee_bytes = atomic_load(&slot->guarantee),
		.idle_bytes = atomic_load(&slot->idle),
		.priority = atomic_load(&slot->priority),
		.waits_for_bytes = wait_ns > 0 ? atomic_load(&slot->want) : 0,
		.wait_ns = wait_ns,
		.asleep = asleep_of(all, slot) };
	if (member->pid == 0)
		return;
	ledgers_program(slot, member->program);
	group->member_count++;
	group->held_bytes += member->held_bytes;
	group->waiting_count += wait_ns > 0;
}

static void
fill_group(struct metrics_group *group, const struct found_ledger *found,
    const struct sleepers *all)
{
	const struct ledger *ledger = found->file.ledger;
	uint64_t limit = atomic_load(&ledger->limit);

	memcpy(group->group, found->group, sizeof(group->group));
	memcpy(group->device_uuid, found->uuid, sizeof(group->device_uuid));
	group->limit_bytes = limit >= LEDGER_BYTES_MAX ? METRICS_NONE : limit;
	group->charged_bytes = ledger_charged(ledger);
	for (unsigned i = 0; i < LEDGER_MEMBERS; i++)
		add_member_metrics(group, i, &ledger->slots[i], all);
}

struct metrics_group *
group_metrics(const struct found_ledger *list, size_t *count)
{
	struct metrics_group *groups;
	struct sleepers all;
	size_t ledgers = 0;

	for (const struct found_ledger *f = list; f != NULL; f = f->next)
		ledgers++;
	groups = calloc(ledgers + 1, sizeof(*groups));
	if (groups == NULL || !find_sleepers(list, &all)) {
		free(groups);
		return NULL;
	}
	ledgers_ring(list);
	*count = 0;
	for (const struct found_ledger *f = list; f != NULL; f = f->next)
		fill_group(&groups[(*count)++], f, &all);
	free_sleepers(&all);
	return groups;
}
