/*
 * weir group: the groups of processes that share devices by a limit, from their
 * ledgers, and changes of limits, guarantees and priorities.
 *
 * A ledger is read while its members change it, so a line is what it said a
 * moment ago. Idle memory is what each member has counted itself; members are
 * rung for it before they are printed.
 */
#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#include "allocator/share/ledger_file.h"
#include "base/futex.h"
#include "base/os.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"

struct choices {
	const char *name; /* NULL: all groups */
	const char *folder;
	bool json;
	bool check;
	uint64_t limit; /* 0: it stays */
	uint64_t pid;   /* whose guarantee or priority is set; 0: nobody's */
	bool sets_guarantee;
	uint64_t guarantee;
	bool sets_priority;
	uint64_t priority;
};

enum { GROUP_CHECK = 256, GROUP_GUARANTEE, GROUP_PRIORITY };

static const struct argp_option flags[] = {
	{ "json", 'j', NULL, 0, "print one object", 0 },
	{ "folder", 'f', "FOLDER", 0,
	    "the folder of the ledgers, as option group_folder", 0 },
	{ "limit", 'l', "SIZE", 0,
	    "set the limit on each device; no lower than what members hold or "
	    "are guaranteed",
	    0 },
	{ "guarantee", GROUP_GUARANTEE, "PID=SIZE", 0,
	    "set what a member can always have", 0 },
	{ "priority", GROUP_PRIORITY, "PID=N", 0,
	    "set a member's priority: unused memory of lower ones is lent "
	    "first",
	    0 },
	{ "check", GROUP_CHECK, NULL, 0,
	    "say whether the ledgers are consistent", 0 },
	{ 0 },
};

/* Split PID=VALUE; returns the value. */
static const char *
parse_member(const char *flag, const char *text, struct argp_state *state)
{
	struct choices *choices = state->input;
	const char *equals = strchr(text, '=');
	char number[24];
	uint64_t pid = 0;

	if (equals != NULL && equals - text < (ptrdiff_t)sizeof(number)) {
		memcpy(number, text, (size_t)(equals - text));
		number[equals - text] = '\0';
		if (!count_parse(number, INT32_MAX, &pid))
			pid = 0;
	}
	if (pid == 0)
		argp_error(state, "--%s=%s: not PID=VALUE", flag, text);
	if (choices->pid != 0 && choices->pid != pid)
		argp_error(state, "one member at a time");
	choices->pid = pid;
	return equals != NULL ? equals + 1 : text;
}

static void
check_group_flags(const struct choices *choices, struct argp_state *state)
{
	if (choices->name == NULL && (choices->limit != 0 || choices->pid != 0))
		argp_error(state, "no NAME of the group to change");
}

static error_t
parse_group_word(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'j':
		choices->json = true;
		return 0;
	case 'f':
		choices->folder = value;
		return 0;
	case 'l':
		if (!bytes_parse(value, &choices->limit) || choices->limit == 0)
			argp_error(state, "--limit=%s: not a size", value);
		return 0;
	case GROUP_GUARANTEE:
		choices->sets_guarantee = true;
		value = (char *)parse_member("guarantee", value, state);
		if (!bytes_parse(value, &choices->guarantee))
			argp_error(state, "--guarantee: %s: not a size", value);
		return 0;
	case GROUP_PRIORITY:
		choices->sets_priority = true;
		value = (char *)parse_member("priority", value, state);
		if (!count_parse(value, 1000, &choices->priority))
			argp_error(state,
			    "--priority: %s: not a number from 0 to 1000",
			    value);
		return 0;
	case GROUP_CHECK:
		choices->check = true;
		return 0;
	case ARGP_KEY_ARG:
		if (choices->name != NULL)
			argp_error(state, "more than one NAME");
		choices->name = value;
		return 0;
	case ARGP_KEY_END:
		check_group_flags(choices, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_group = { flags, parse_group_word, "[NAME]",
	"Print the groups of programs that share devices by a limit, with "
	"their "
	"members: what each holds, is guaranteed, has idle and waits for. With "
	"flags, set limits of the group NAME.\v"
	"Examples: weir group\n"
	"          weir group serving --limit 24G\n"
	"          weir group serving --guarantee 4711=8G\n\n"
	"A process joins a group by 'weir run --group NAME' or by option group "
	"(docs/sharing.md). Exit status: 0 done, 1 --check found a fault, 2 "
	"trouble.",
	NULL, NULL, NULL };

/* ---- Ledgers ------------------------------------------------------------ */

/* A ledger that is open, in a list. */
struct found {
	struct found *next;
	struct ledger_file file;
};

static int
compare_found(const struct ledger *a, const struct ledger *b)
{
	int order = strcmp(a->group, b->group);

	return order != 0 ? order : memcmp(a->uuid, b->uuid, LEDGER_UUID);
}

/* Insert a ledger, in the order of groups and devices. */
static void
insert_found(struct found **list, struct found *new)
{
	while (*list != NULL &&
	    compare_found((*list)->file.ledger, new->file.ledger) < 0)
		list = &(*list)->next;
	new->next = *list;
	*list = new;
}

/* Open a ledger, if it is one of the group that is asked for. */
static void
open_found(const struct choices *choices, const struct ledger_folder *folder,
    const char *name, struct found **list)
{
	struct found *found = calloc(1, sizeof(*found));
	enum weir_status status;

	if (found == NULL)
		return;
	status = ledger_file_named(folder, name, &found->file);
	if (status == WEIR_EINVAL)
		complain("%s", weir_last_error());
	if (status != WEIR_OK) {
		free(found);
		return;
	}
	if (choices->name != NULL &&
	    strcmp(choices->name, found->file.ledger->group) != 0) {
		ledger_file_close(&found->file);
		free(found);
		return;
	}
	ledger_empty_dead(&found->file);
	insert_found(list, found);
}

/* Open all ledgers. False, with a complaint, if the folder cannot be read. */
static bool
open_ledgers(const struct choices *choices, struct found **list)
{
	struct ledger_folder folder;
	struct dirent *entry;
	DIR *dir;
	enum weir_status status = ledger_folder_open(
	    choices->folder != NULL ? choices->folder : "", false, &folder);

	if (status == WEIR_ENOTSUP)
		return true;
	if (status != WEIR_OK) {
		complain("%s", weir_last_error());
		return false;
	}
	dir = fdopendir(dup(folder.fd));
	if (dir == NULL) {
		complain("%s: %s", folder.path, strerror(errno));
		close(folder.fd);
		return false;
	}
	while ((entry = readdir(dir)) != NULL)
		open_found(choices, &folder, entry->d_name, list);
	closedir(dir);
	close(folder.fd);
	return true;
}

static void
close_ledgers(struct found *list)
{
	while (list != NULL) {
		struct found *next = list->next;

		ledger_file_close(&list->file);
		free(list);
		list = next;
	}
}

/* Ring the members, so that they count their idle memory, and wait a moment for
 * them. */
static void
ring_members(const struct found *list)
{
	const uint64_t end_ns =
	    os_monotonic_ns() + GROUP_ANSWER_MS * UINT64_C(1000000);

	for (const struct found *f = list; f != NULL; f = f->next)
		for (int i = 0; i < LEDGER_MEMBERS; i++) {
			struct ledger_slot *slot = &f->file.ledger->slots[i];

			if (atomic_load(&slot->pid) == 0)
				continue;
			atomic_fetch_add(&slot->bell, 1);
			futex_shared_wake(&slot->bell);
		}
	for (const struct found *f = list; f != NULL; f = f->next)
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

/* ---- Setting ------------------------------------------------------------ */

/* Set what the flags say of a member. False if this ledger has no such one. */
static bool
set_member(const struct choices *choices, const struct ledger_file *file,
    enum weir_status *status)
{
	for (unsigned i = 0; i < LEDGER_MEMBERS; i++) {
		struct ledger_slot *slot = &file->ledger->slots[i];

		if (atomic_load(&slot->pid) != choices->pid)
			continue;
		if (choices->sets_priority)
			atomic_store(&slot->priority, choices->priority);
		if (choices->sets_guarantee)
			*status =
			    ledger_set_guarantee(file, i, choices->guarantee);
		return true;
	}
	return false;
}

/* Set what the flags say, in one ledger. */
static bool
set_ledger(
    const struct choices *choices, const struct ledger_file *file, bool *member)
{
	enum weir_status status = WEIR_OK;
	uint64_t limit = choices->limit;
	int setter = ledger_lock_setter(file);

	if (setter < 0) {
		complain("%s: another process has locked it for long",
		    file->ledger->group);
		return false;
	}
	if (limit > file->ledger->total_bytes)
		limit = file->ledger->total_bytes;
	if (limit != 0)
		status = ledger_set_limit(file, limit);
	if (status == WEIR_OK && choices->pid != 0)
		*member |= set_member(choices, file, &status);
	close(setter);
	if (status != WEIR_OK)
		complain("%s: %s", file->ledger->group, weir_last_error());
	return status == WEIR_OK;
}

static bool
set_ledgers(const struct choices *choices, const struct found *list)
{
	bool member = false;
	bool done = true;

	if (choices->limit == 0 && choices->pid == 0)
		return true;
	if (list == NULL) {
		complain("no group %s", choices->name);
		return false;
	}
	for (const struct found *f = list; f != NULL; f = f->next)
		done &= set_ledger(choices, &f->file, &member);
	if (done && choices->pid != 0 && !member) {
		complain("process %llu is no member of group %s",
		    (unsigned long long)choices->pid, choices->name);
		return false;
	}
	return done;
}

/* ---- Printing ----------------------------------------------------------- */

static void
uuid_text(const struct ledger *ledger, char text[40])
{
	int n = 0;

	for (int i = 0; i < LEDGER_UUID; i++)
		n += snprintf(text + n, (size_t)(40 - n), "%s%02x",
		    i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
		    ledger->uuid[i]);
}

static uint64_t
wait_ms_of(const struct ledger_slot *slot)
{
	uint64_t since_ns = atomic_load(&slot->since_ns);
	uint64_t now_ns = os_monotonic_ns();

	return since_ns != 0 && now_ns > since_ns ?
	    (now_ns - since_ns) / 1000000 :
	    0;
}

static json_t *
member_json(const struct ledger_slot *slot)
{
	bool waits = atomic_load(&slot->since_ns) != 0;

	return json_pack("{sI so sI sI sI sI sI sI}", "pid",
	    (json_int_t)atomic_load(&slot->pid), "program",
	    json_of_text(slot->program), "priority",
	    (json_int_t)atomic_load(&slot->priority), "lease_bytes",
	    (json_int_t)atomic_load(&slot->lease), "guarantee_bytes",
	    (json_int_t)atomic_load(&slot->guarantee), "idle_bytes",
	    (json_int_t)atomic_load(&slot->idle), "waits_for_bytes",
	    (json_int_t)(waits ? atomic_load(&slot->want) : 0), "waits_ms",
	    (json_int_t)wait_ms_of(slot));
}

static json_t *
ledger_json(const struct ledger *ledger)
{
	json_t *members = json_array();
	char uuid[40];

	uuid_text(ledger, uuid);
	for (int i = 0; i < LEDGER_MEMBERS; i++)
		if (atomic_load(&ledger->slots[i].pid) != 0)
			json_array_append_new(
			    members, member_json(&ledger->slots[i]));
	return json_pack("{ss ss sI sI sI so}", "group", ledger->group,
	    "device_uuid", uuid, "device_bytes",
	    (json_int_t)ledger->total_bytes, "limit_bytes",
	    (json_int_t)atomic_load(&ledger->limit), "charged_bytes",
	    (json_int_t)ledger_charged(ledger), "members", members);
}

static bool
print_groups_json(const struct found *list)
{
	json_t *ledgers = json_array();
	json_t *object = json_pack(
	    "{si so}", "format_version", JSON_VERSION, "ledgers", ledgers);
	bool printed;

	for (const struct found *f = list; f != NULL; f = f->next)
		json_array_append_new(ledgers, ledger_json(f->file.ledger));
	printed = json_print(object, JSON_INDENT(2), stdout);
	putchar('\n');
	json_decref(object);
	return printed;
}

static void
add_member(struct table *table, const struct ledger_slot *slot)
{
	char sizes[4][32];
	bool waits = atomic_load(&slot->since_ns) != 0;

	table_add(table, "%llu", (unsigned long long)atomic_load(&slot->pid));
	table_add(table, "%.*s", LEDGER_PROGRAM - 1, slot->program);
	table_add(
	    table, "%s", bytes_format(atomic_load(&slot->lease), sizes[0], 32));
	table_add(table, "%s",
	    bytes_format(atomic_load(&slot->guarantee), sizes[1], 32));
	table_add(
	    table, "%s", bytes_format(atomic_load(&slot->idle), sizes[2], 32));
	table_add(
	    table, "%llu", (unsigned long long)atomic_load(&slot->priority));
	if (waits)
		table_add(table, "%s, %llu ms",
		    bytes_format(atomic_load(&slot->want), sizes[3], 32),
		    (unsigned long long)wait_ms_of(slot));
	else
		table_add(table, "-");
}

static bool
print_group(const struct ledger *ledger)
{
	static const char *const heading[] = { "PID", "program", "holds",
		"guaranteed", "idle", "priority", "waits for" };
	struct table *table = table_new("rlrrrrr");
	uint64_t limit = atomic_load(&ledger->limit);
	char uuid[40];
	char a[32];
	char b[32];
	bool printed;

	uuid_text(ledger, uuid);
	printf("group %s, device %s: limit %s, held or guaranteed %s\n",
	    ledger->group, uuid,
	    limit == LEDGER_BYTES_MAX ? "none" :
					bytes_format(limit, a, sizeof(a)),
	    bytes_format(ledger_charged(ledger), b, sizeof(b)));
	for (size_t i = 0; i < sizeof(heading) / sizeof(heading[0]); i++)
		table_add(table, "%s", heading[i]);
	for (int i = 0; i < LEDGER_MEMBERS; i++)
		if (atomic_load(&ledger->slots[i].pid) != 0)
			add_member(table, &ledger->slots[i]);
	printed = table_print(table, true);
	table_free(table);
	return printed;
}

static bool
print_groups(const struct found *list)
{
	bool printed = true;

	if (list == NULL)
		puts("no groups");
	for (const struct found *f = list; f != NULL && printed; f = f->next) {
		printed = print_group(f->file.ledger);
		if (f->next != NULL)
			putchar('\n');
	}
	return printed;
}

/* Print the faults of ledgers. A change under way may look like one, so a fault
 * counts if it stays. */
static enum tool_exit
print_check(const struct found *list)
{
	enum tool_exit result = TOOL_DONE;

	for (const struct found *f = list; f != NULL; f = f->next) {
		const struct ledger *ledger = f->file.ledger;
		const char *fault = ledger_fault(ledger);

		for (int i = 0; i < GROUP_CHECKS && fault != NULL; i++) {
			usleep(GROUP_CHECK_MS * 1000);
			fault = ledger_fault(ledger);
		}
		printf("group %s: %s\n", ledger->group,
		    fault != NULL ? fault : "consistent");
		if (fault != NULL)
			result = TOOL_FOUND;
	}
	return result;
}

int
cmd_group(int argc, char **argv)
{
	struct choices choices = { 0 };
	struct found *list = NULL;
	enum tool_exit result = TOOL_FAILED;

	argp_parse(&argp_group, argc, argv, 0, NULL, &choices);
	if (!open_ledgers(&choices, &list) || !set_ledgers(&choices, list))
		goto drop;
	ring_members(list);
	if (choices.check) {
		result = print_check(list);
	} else if (choices.json ? print_groups_json(list) :
				  print_groups(list)) {
		result = TOOL_DONE;
	} else {
		complain("cannot print: out of memory");
	}

drop:
	close_ledgers(list);
	return result;
}
