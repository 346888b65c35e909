/*
 * weir group: the groups of processes that share devices by a limit, from their
 * ledgers, and changes of limits, guarantees and priorities.
 *
 * Idle memory is what each member has counted itself; members are rung for it
 * before they are printed.
 */
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#include "allocator/share/ledger_file.h"
#include "tools/weir/live/group_json.h"
#include "tools/weir/live/group_metrics.h"
#include "tools/weir/live/ledgers.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"

struct choices {
	const char *name; /* NULL: all groups */
	const char *folder;
	bool json;
	bool metrics;
	bool check;
	uint64_t limit; /* 0: it stays */
	uint64_t pid;   /* whose guarantee or priority is set; 0: nobody's */
	bool sets_guarantee;
	uint64_t guarantee;
	bool sets_priority;
	uint64_t priority;
};

enum { GROUP_CHECK = 256, GROUP_GUARANTEE, GROUP_METRICS, GROUP_PRIORITY };

static const struct argp_option flags[] = {
	{ "json", 'j', NULL, 0, "print one object", 0 },
	{ "metrics", GROUP_METRICS, NULL, 0, "print OpenMetrics text", 0 },
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
	if (choices->metrics + choices->json + choices->check > 1)
		argp_error(state, "one of --json, --metrics and --check");
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
	case GROUP_METRICS:
		choices->metrics = true;
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
	"members: what each holds, is guaranteed, has idle and waits for, and "
	"whether it sleeps. With flags, set limits of the group NAME.\v"
	"Examples: weir group\n"
	"          weir group serving --limit 24G\n"
	"          weir group serving --guarantee 4711=8G\n\n"
	"A process joins a group by 'weir run --group NAME' or by option group "
	"(docs/sharing.md). Exit status: 0 done, 1 --check found a fault, 2 "
	"trouble.",
	NULL, NULL, NULL };

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
set_ledger(const struct choices *choices, const struct found_ledger *found,
    bool *member)
{
	const struct ledger_file *file = &found->file;
	enum weir_status status = WEIR_OK;
	uint64_t limit = choices->limit;
	int setter = ledger_lock_setter(file);

	if (setter < 0) {
		complain(
		    "%s: another process has locked it for long", found->group);
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
		complain("%s: %s", found->group, weir_last_error());
	return status == WEIR_OK;
}

static bool
set_ledgers(const struct choices *choices, const struct found_ledger *list)
{
	bool member = false;
	bool done = true;

	if (choices->name != NULL && list == NULL) {
		complain("no group %s", choices->name);
		return false;
	}
	if (choices->limit == 0 && choices->pid == 0)
		return true;
	for (const struct found_ledger *f = list; f != NULL; f = f->next)
		done &= set_ledger(choices, f, &member);
	if (done && choices->pid != 0 && !member) {
		complain("process %llu is no member of group %s",
		    (unsigned long long)choices->pid, choices->name);
		return false;
	}
	return done;
}

/* ---- Printing ----------------------------------------------------------- */

static bool
print_groups_json(const struct found_ledger *list)
{
	json_t *ledgers = json_array();
	json_t *object = json_pack(
	    "{si so}", "format_version", JSON_VERSION, "ledgers", ledgers);
	bool printed;

	for (const struct found_ledger *f = list; f != NULL; f = f->next)
		json_array_append_new(ledgers, group_json(f));
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
	table_add(table, "%s", ledgers_state(slot));
	if (waits)
		table_add(table, "%s, %llu ms",
		    bytes_format(atomic_load(&slot->want), sizes[3], 32),
		    (unsigned long long)ledgers_wait_ns(slot) / 1000000);
	else
		table_add(table, "-");
}

static bool
print_group(const struct found_ledger *found)
{
	const struct ledger *ledger = found->file.ledger;
	static const char *const heading[] = { "PID", "program", "holds",
		"guaranteed", "idle", "priority", "state", "waits for" };
	struct table *table = table_new("rlrrrrlr");
	uint64_t limit = atomic_load(&ledger->limit);
	char a[32];
	char b[32];
	bool printed;

	printf("group %s, device %s: limit %s, held or guaranteed %s\n",
	    found->group, found->uuid,
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
print_groups(const struct found_ledger *list)
{
	bool printed = true;

	if (list == NULL)
		puts("no groups");
	for (const struct found_ledger *f = list; f != NULL && printed;
	     f = f->next) {
		printed = print_group(f);
		if (f->next != NULL)
			putchar('\n');
	}
	return printed;
}

static bool
print_metrics(const struct found_ledger *list)
{
	struct metrics_sample sample = { 0 };
	struct metrics_group *groups = group_metrics(list, &sample.group_count);

	if (groups == NULL)
		return false;
	sample.groups = groups;
	openmetrics_write(&sample, METRICS_OPENMETRICS, stdout);
	free(groups);
	return true;
}

/* Print in the form that is asked for. False without memory. */
static bool
print_list(const struct choices *choices, const struct found_ledger *list)
{
	if (choices->metrics)
		return print_metrics(list);
	ledgers_ring(list);
	return choices->json ? print_groups_json(list) : print_groups(list);
}

/* Print the faults of ledgers. A change under way may look like one, so a fault
 * counts if it stays. A ledger that was left out has one. */
static enum tool_exit
print_check(const struct found_ledger *list, bool left_out)
{
	enum tool_exit result = left_out ? TOOL_FOUND : TOOL_DONE;

	for (const struct found_ledger *f = list; f != NULL; f = f->next) {
		const struct ledger *ledger = f->file.ledger;
		const char *fault = ledger_fault(ledger);

		for (int i = 0; i < GROUP_CHECKS && fault != NULL; i++) {
			usleep(GROUP_CHECK_MS * 1000);
			fault = ledger_fault(ledger);
		}
		printf("group %s: %s\n", f->group,
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
	struct found_ledger *list = NULL;
	bool left_out;
	enum tool_exit result = TOOL_FAILED;

	argp_parse(&argp_group, argc, argv, 0, NULL, &choices);
	if (!ledgers_open(choices.folder, choices.name, &list, &left_out))
		return TOOL_FAILED;
	if ((!choices.check || !left_out) && !set_ledgers(&choices, list))
		goto drop;
	if (choices.check)
		result = print_check(list, left_out);
	else if (print_list(&choices, list))
		result = TOOL_DONE;
	else
		complain("cannot print: out of memory");

drop:
	ledgers_close(list);
	return result;
}
