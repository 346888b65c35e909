/*
 * Opening ledgers, and finding their members.
 */
#include "tools/weir/live/ledgers.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#include "base/futex.h"
#include "base/os.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"

/* ---- Opening ------------------------------------------------------------ */

static int
compare_found(const struct found_ledger *a, const struct found_ledger *b)
{
	int order = strcmp(a->group, b->group);

	return order != 0 ? order : strcmp(a->uuid, b->uuid);
}

/* Insert a ledger, in the order of groups and devices. */
static void
insert_found(struct found_ledger **list, struct found_ledger *new)
{
	while (*list != NULL && compare_found(*list, new) < 0)
		list = &(*list)->next;
	new->next = *list;
	*list = new;
}

/* Take the group and the device from the name of a ledger's file, which is
 * GROUP.UUID.ledger. */
static void
name_found(struct found_ledger *found, const char *name)
{
	size_t length = strlen(name) - strlen(".ledger") - 2 * LEDGER_UUID - 1;
	const char *digits = name + length + 1;
	char *uuid = found->uuid;

	memcpy(found->group, name, length);
	for (int i = 0; i < 2 * LEDGER_UUID; i++) {
		if (i == 8 || i == 12 || i == 16 || i == 20)
			*uuid++ = '-';
		*uuid++ = digits[i];
	}
}

/* Is the name of a ledger's file that of one of the group? */
static bool
may_be_of(const char *name, const char *group)
{
	size_t length = group != NULL ? strlen(group) : 0;

	return group == NULL ||
	    (strncmp(name, group, length) == 0 && name[length] == '.');
}

/* Open a ledger, if it is one of the group. False, with a complaint: it cannot
 * be used. */
static bool
open_found(const struct ledger_folder *folder, const char *name,
    const char *group, struct found_ledger **list)
{
	struct found_ledger *found = calloc(1, sizeof(*found));
	enum weir_status status;

	if (found == NULL || !may_be_of(name, group)) {
		free(found);
		return true;
	}
	status = ledger_file_named(folder, name, &found->file);
	if (status == WEIR_EINVAL)
		complain("%s", weir_last_error());
	if (status != WEIR_OK) {
		free(found);
		return status != WEIR_EINVAL;
	}
	name_found(found, name);
	if (group != NULL && strcmp(group, found->group) != 0) {
		ledger_file_close(&found->file);
		free(found);
		return true;
	}
	found->several = folder->several;
	ledger_empty_dead(&found->file);
	insert_found(list, found);
	return true;
}

bool
ledgers_open(const char *given, const char *group, struct found_ledger **list,
    bool *left_out)
{
	bool ignored = false;
	struct ledger_folder folder;
	struct dirent *entry;
	DIR *dir;
	enum weir_status status =
	    ledger_folder_open(given != NULL ? given : "", false, &folder);

	*list = NULL;
	left_out = left_out != NULL ? left_out : &ignored;
	*left_out = false;
	if (status == WEIR_ENOTSUP)
		return true;
	if (status != WEIR_OK) {
		complain("%s", weir_last_error());
		return false;
	}
	dir = fdopendir(folder.fd);
	if (dir == NULL) {
		complain("%s: %s", folder.path, strerror(errno));
		close(folder.fd);
		return false;
	}
	while ((entry = readdir(dir)) != NULL)
		*left_out |= !open_found(&folder, entry->d_name, group, list);
	closedir(dir);
	return true;
}

void
ledgers_close(struct found_ledger *list)
{
	while (list != NULL) {
		struct found_ledger *next = list->next;

		ledger_file_close(&list->file);
		free(list);
		list = next;
	}
}

/* ---- Members ------------------------------------------------------------ */

void
ledgers_ring(const struct found_ledger *list)
{
	const uint64_t end_ns =
	    os_monotonic_ns() + GROUP_ANSWER_MS * UINT64_C(1000000);

	for (const struct found_ledger *f = list; f != NULL; f = f->next)
		for (int i = 0; i < LEDGER_MEMBERS; i++) {
			struct ledger_slot *slot = &f->file.ledger->slots[i];

			if (atomic_load(&slot->pid) == 0)
				continue;
			atomic_fetch_add(&slot->bell, 1);
			futex_shared_wake(&slot->bell);
		}
	for (const struct found_ledger *f = list; f != NULL; f = f->next)
		for (int i = 0; i < LEDGER_MEMBERS; i++) {
			struct ledger_slot *slot = &f->file.ledger->slots[i];
			uint32_t answered = atomic_load(&slot->answered);
			uint64_t now_ns = os_monotonic_ns();

			if (atomic_load(&slot->pid) != 0 && now_ns < end_ns &&
			    answered != atomic_load(&slot->bell))
				futex_shared_wait(
				    &slot->answered, answered, end_ns - now_ns);
		}
}

void
ledgers_program(const struct ledger_slot *slot, char program[LEDGER_PROGRAM])
{
	memcpy(program, slot->program, LEDGER_PROGRAM);
	program[LEDGER_PROGRAM - 1] = '\0';
}

uint64_t
ledgers_wait_ns(const struct ledger_slot *slot)
{
	uint64_t since_ns = atomic_load(&slot->since_ns);
	uint64_t now_ns = os_monotonic_ns();

	return since_ns == 0 ? 0 : now_ns > since_ns ? now_ns - since_ns : 1;
}

const char *
ledgers_state(const struct ledger_slot *slot)
{
	static const char *const states[LEDGER_STATES] = { [LEDGER_AWAKE] =
							       "awake",
		[LEDGER_DOZES] = "dozing",
		[LEDGER_ASLEEP] = "asleep" };
	uint32_t state = atomic_load(&slot->state);

	return state < LEDGER_STATES ? states[state] : "unknown";
}

/* Add a slot to the member whose it is, or as a new one. A number that no
 * process can have is left out. */
static void
add_slot(struct group_member *members, size_t *count,
    const struct found_ledger *found, unsigned number,
    const struct ledger_slot *slot)
{
	uint64_t pid = atomic_load(&slot->pid);
	uint64_t priority = atomic_load(&slot->priority);
	bool foreign = !ledger_slot_is_here(slot);
	struct group_member *at = members;

	if (pid == 0 || pid > INT_MAX)
		return;
	while (at < members + *count &&
	    (at->pid != (pid_t)pid || at->foreign != foreign))
		at++;
	if (at == members + *count) {
		*at = (struct group_member){ .pid = (pid_t)pid,
			.foreign = foreign };
		ledgers_program(slot, at->program);
		++*count;
	}
	if (at->priority < priority)
		at->priority = priority;
	at->ledgers |= UINT64_C(1) << number % 64;
	at->several = at->several || found->several;
}

static int
compare_members(const void *a, const void *b)
{
	const struct group_member *x = a;
	const struct group_member *y = b;

	if (x->priority != y->priority)
		return x->priority > y->priority ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

bool
ledgers_members(const struct found_ledger *list, struct group_member **members,
    size_t *count)
{
	size_t ledgers = 0;
	unsigned number = 0;

	for (const struct found_ledger *f = list; f != NULL; f = f->next)
		ledgers++;
	*count = 0;
	*members = calloc(ledgers * LEDGER_MEMBERS + 1, sizeof(**members));
	if (*members == NULL)
		return false;
	for (const struct found_ledger *f = list; f != NULL;
	     f = f->next, number++)
		for (int i = 0; i < LEDGER_MEMBERS; i++)
			add_slot(*members, count, f, number,
			    &f->file.ledger->slots[i]);
	qsort(*members, *count, sizeof(**members), compare_members);
	return true;
}
