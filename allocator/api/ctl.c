/*
 * Values by name: the paths of <weir/ctl.h>.
 *
 * Note [Walking the paths]
 *
 * There is no tree. A walk makes the row of each path below a prefix, in the
 * header's order, and skips the parts that cannot hold the prefix. To read one
 * value is to walk to the row whose path equals the prefix. Therefore each path
 * that is listed can be read, and each path that can be read is listed.
 *
 * Statistics are read under each arena's lock, as weir_stats() reads them; no
 * visitor runs under the lock. No driver is called, because the agent's thread,
 * which answers `weir ctl`, walks too.
 */
#include "allocator/api/ctl.h"

#include <weir/ctl.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/host.h>
#include <weir/trace.h>

#include "allocator/account/totals.h"
#include "allocator/api/options.h"
#include "allocator/memory/arena.h"
#include "allocator/observe/auto_snapshot.h"
#include "allocator/observe/device_stats.h"
#include "allocator/options/table.h"
#include "allocator/private/sleeping.h"
#include "base/meta.h"
#include "base/nearest.h"
#include "base/os.h"
#include "base/status.h"
#include "trace/counters.h"
#include "trace/history.h"

typedef struct weir_ctl row;

struct walk {
	const char *prefix;
	weir_ctl_visitor visit;
	void *user;
	bool found;
};

/* ---- Rows -------------------------------------------------------------- */

/* Is `path` the prefix, or below it? */
static bool
is_below(const char *path, const char *prefix)
{
	size_t length = strlen(prefix);

	return length == 0 ||
	    (strncmp(path, prefix, length) == 0 &&
		(path[length] == '\0' || path[length] == '.'));
}

/* May there be a path that is below both `part` and the prefix? */
static bool
may_hold(const struct walk *walk, const char *part)
{
	return is_below(part, walk->prefix) || is_below(walk->prefix, part);
}

static row
begin_row(const char *path, enum weir_ctl_type type, const char *unit)
{
	row row = { .struct_size = sizeof(row),
		.type = type,
		.readable = true,
		.unit = unit,
		.accepted = "",
		.help = "" };

	snprintf(row.path, sizeof(row.path), "%s", path);
	return row;
}

static void
show_row(struct walk *walk, const row *row)
{
	if (!is_below(row->path, walk->prefix))
		return;
	walk->found = true;
	walk->visit(row, walk->user);
}

static void
set_number(row *row, uint64_t number)
{
	row->number = number;
	snprintf(row->text, sizeof(row->text), "%" PRIu64, number);
}

static void
show_number(struct walk *walk, const char *path, const char *unit,
    uint64_t number, const char *help)
{
	row row = begin_row(path, WEIR_CTL_TYPE_COUNT, unit);

	row.help = help;
	set_number(&row, number);
	show_row(walk, &row);
}

/* ---- Process ------------------------------------------------------------- */

static void
walk_process(struct walk *walk)
{
	row version = begin_row("version", WEIR_CTL_TYPE_TEXT, "");
	unsigned devices = 0;

	version.help = "The version of the library.";
	snprintf(version.text, sizeof(version.text), "%s", weir_version());
	show_row(walk, &version);
	for (int i = 0; i < DEVICES_MAX; i++)
		devices += arena_peek(i) != NULL;
	show_number(walk, "devices", "", devices,
	    "How many devices weir has memory of.");
	show_number(walk, "metadata", "bytes", meta_bytes(),
	    "Host memory that weir uses for itself.");
}

/* ---- Options ------------------------------------------------------------- */

static enum weir_ctl_type
type_of(const struct entry *entry)
{
	switch (entry->kind) {
	case OPTION_BOOL:
		return WEIR_CTL_TYPE_FLAG;
	case OPTION_REAL:
		return WEIR_CTL_TYPE_REAL;
	case OPTION_MIB:
	case OPTION_COUNT:
	case OPTION_POWER:
		return WEIR_CTL_TYPE_COUNT;
	case OPTION_WORD:
	case OPTION_FILE:
	case OPTION_ROUNDUP:
		return WEIR_CTL_TYPE_TEXT;
	}
	return WEIR_CTL_TYPE_TEXT;
}

static const char *
unit_of(const struct entry *entry)
{
	static const char *const units[] = { "MiB", "ms", "bytes" };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(entry->type, units[i]) == 0)
			return units[i];
	return "";
}

/* Set the value of a row from its text. */
static void
set_from_text(row *row)
{
	char *end;

	if (row->type == WEIR_CTL_TYPE_FLAG)
		row->number = strcmp(row->text, "True") == 0;
	else if (row->type == WEIR_CTL_TYPE_REAL)
		row->real = os_parse_real(row->text, &end);
	else if (row->type == WEIR_CTL_TYPE_COUNT)
		row->number = row->text[0] >= '0' && row->text[0] <= '9' ?
		    strtoull(row->text, NULL, 10) :
		    UINT64_MAX; /* unlimited, off */
}

static enum weir_status
walk_options(struct walk *walk)
{
	const struct options *options;
	enum weir_status status = options_get(&options);

	if (status != WEIR_OK || !may_hold(walk, "option"))
		return status;
	for (size_t i = 0; i < option_entry_count; i++) {
		const struct entry *entry = &option_entries[i];
		char path[WEIR_CTL_PATH];
		row row;

		snprintf(path, sizeof(path), "option.%s", entry->key);
		row = begin_row(path, type_of(entry), unit_of(entry));
		row.writable = true;
		row.accepted = entry->range;
		row.help = entry->help;
		option_text(i, row.text, sizeof(row.text));
		set_from_text(&row);
		show_row(walk, &row);
	}
	return WEIR_OK;
}

/* ---- History ------------------------------------------------------------- */

static const char *const levels[] = { "none", "state", "alloc", "all" };

static void
walk_history(struct walk *walk)
{
	row row = begin_row("history.level", WEIR_CTL_TYPE_TEXT, "");

	row.writable = true;
	row.accepted = "off, none, state, alloc or all";
	row.help = "Which events of the history have stacks; off: there is "
		   "no history. off forgets what was recorded.";
	snprintf(row.text, sizeof(row.text), "%s",
	    history_is_kept() ? levels[history_level()] : "off");
	show_row(walk, &row);
}

/* ---- Limits -------------------------------------------------------------- */

static void
walk_limits(struct walk *walk)
{
	for (int i = 0; i < DEVICES_MAX; i++) {
		const struct arena *main = arena_peek(i);
		char path[WEIR_CTL_PATH];

		if (main == NULL)
			continue;
		snprintf(path, sizeof(path), "limit.%d", i);
		row row = begin_row(path, WEIR_CTL_TYPE_COUNT, "bytes");
		row.writable = true;
		row.accepted = "a number of bytes, such as 8G, or unlimited";
		row.help = "The most memory that weir holds on the device.";
		set_number(&row, atomic_load(&main->account.limit));
		if (row.number == SIZE_MAX)
			snprintf(row.text, sizeof(row.text), "unlimited");
		show_row(walk, &row);
	}
}

/* ---- Sleep --------------------------------------------------------------- */

static void
walk_sleep(struct walk *walk)
{
	row row = begin_row("sleep.state", WEIR_CTL_TYPE_TEXT, "");
	const struct sleeping_calls *calls = sleeping_get_calls();
	struct sleeping_number number;
	char path[WEIR_CTL_PATH];

	if (calls == NULL || !may_hold(walk, "sleep"))
		return;
	row.writable = true;
	row.accepted = "asleep or awake, and options after it (docs/sleep.md)";
	row.help = "Whether the memory of all devices has left them.";
	snprintf(row.text, sizeof(row.text), "%s",
	    sleeping_any() ? "asleep" : "awake");
	show_row(walk, &row);
	for (size_t i = 0; calls->number(i, &number); i++) {
		snprintf(path, sizeof(path), "sleep.%s", number.name);
		show_number(walk, path, number.unit, number.value, number.help);
	}
}

static enum weir_status
set_sleep(const char *value)
{
	return sleeping_get_calls()->change(value);
}

/* ---- Statistics ---------------------------------------------------------- */

/* Show the statistics that have a short name. weir_stats_item() names all
 * others. */
static void
walk_short(struct walk *walk, const char *scope, const struct weir_stats *stats)
{
	struct counters counters;

	counters_read(&counters, stats, UINT64_MAX);
	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		const struct counter_row *row = &counter_rows[i];
		char path[WEIR_CTL_PATH];

		if (*row->path == '\0')
			continue;
		snprintf(path, sizeof(path), "%s.%s", scope, row->path);
		show_number(
		    walk, path, row->unit, counters.values[i], row->help);
	}
}

/* The unit of a statistic, by its flat name. */
static const char *
stat_unit(const char *name)
{
	size_t length = strlen(name);

	if (strstr(name, "bytes") != NULL)
		return "bytes";
	return length > 3 && strcmp(name + length - 3, "_ns") == 0 ? "ns" : "";
}

static void
walk_stats(struct walk *walk, const char *scope, const struct weir_stats *stats)
{
	const char *name;
	uint64_t value;

	walk_short(walk, scope, stats);
	for (size_t i = 0; weir_stats_item(stats, i, &name, &value); i++) {
		char path[WEIR_CTL_PATH];

		/* These are not sums over devices, and have paths of their
		 * own. */
		if (strcmp(name, "max_split_size") == 0 ||
		    strcmp(name, "metadata_bytes") == 0)
			continue;
		snprintf(path, sizeof(path), "%s.%s", scope, name);
		show_number(walk, path, stat_unit(name), value,
		    "A statistic of struct weir_stats, by its flat name.");
	}
}

/* Add all members but the first, which are 64-bit numbers. */
static void
add_stats(struct weir_stats *to, const struct weir_stats *from)
{
	enum { NUMBERS = sizeof(*to) / sizeof(uint64_t) };
	uint64_t a[NUMBERS];
	uint64_t b[NUMBERS];

	ASSERT(to != from);
	memcpy(a, to, sizeof(a));
	memcpy(b, from, sizeof(b));
	for (size_t i = 1; i < NUMBERS; i++)
		a[i] += b[i];
	memcpy(to, a, sizeof(a));
}

static void
walk_memory(struct walk *walk, const char *part,
    void (*read)(struct arena *main, struct weir_stats *out))
{
	struct weir_stats all = { .struct_size = sizeof(all) };

	if (!may_hold(walk, part))
		return;
	for (int i = 0; i < DEVICES_MAX; i++) {
		struct weir_stats stats = { .struct_size = sizeof(stats) };
		struct arena *main = arena_peek(i);

		if (main == NULL)
			continue;
		read(main, &stats);
		add_stats(&all, &stats);
	}
	walk_stats(walk, part, &all);
	for (int i = 0; i < DEVICES_MAX; i++) {
		struct weir_stats stats = { .struct_size = sizeof(stats) };
		struct arena *main = arena_peek(i);
		char scope[32];

		snprintf(scope, sizeof(scope), "%s.%d", part, i);
		if (main == NULL || !may_hold(walk, scope))
			continue;
		read(main, &stats);
		walk_stats(walk, scope, &stats);
	}
}

/* ---- Resets -------------------------------------------------------------- */

static void
walk_resets(struct walk *walk)
{
	static const char *const paths[] = { "reset.peaks", "reset.sums" };
	static const char *const help[] = {
		"Make every peak equal to its current value.",
		"Zero the counts and the sums of allocations and frees.",
	};

	for (int i = 0; i < 2; i++) {
		row row = begin_row(paths[i], WEIR_CTL_TYPE_TEXT, "");

		row.readable = false;
		row.writable = true;
		row.accepted = "a device's number, or all";
		row.help = help[i];
		show_row(walk, &row);
	}
}

/* ---- Reading ------------------------------------------------------------- */

static enum weir_status
walk_all(struct walk *walk)
{
	enum weir_status status;

	walk_process(walk);
	status = walk_options(walk);
	if (status != WEIR_OK)
		return status;
	walk_history(walk);
	walk_limits(walk);
	walk_sleep(walk);
	walk_memory(walk, "stats", device_stats);
	walk_memory(walk, "pinned", device_host_stats);
	walk_resets(walk);
	return WEIR_OK;
}

/* The existing path that is nearest to a path that does not exist. */
struct guess {
	const char *path;
	size_t distance;
	char nearest[WEIR_CTL_PATH];
};

static void
guess_visit(const row *row, void *user)
{
	struct guess *guess = user;
	size_t distance =
	    nearest_distance(guess->path, strlen(guess->path), row->path);

	if (distance >= guess->distance)
		return;
	guess->distance = distance;
	memcpy(guess->nearest, row->path, sizeof(guess->nearest));
}

static enum weir_status
refuse_path(const char *caller, const char *path)
{
	struct guess guess = { .path = path, .distance = SIZE_MAX };
	struct walk walk = {
		.prefix = "", .visit = guess_visit, .user = &guess
	};

	walk_all(&walk);
	if (guess.distance * 3 <= strlen(path))
		return status_set(WEIR_EINVAL,
		    "%s: there is no path '%.127s'; did you mean '%s'?", caller,
		    path, guess.nearest);
	return status_set(
	    WEIR_EINVAL, "%s: there is no path '%.127s'", caller, path);
}

/* Finds the row whose path equals the prefix. */
struct find {
	const char *path;
	row row;
	bool found;
};

static void
find_visit(const row *row, void *user)
{
	struct find *find = user;

	if (strcmp(row->path, find->path) != 0)
		return;
	find->row = *row;
	find->found = true;
}

static enum weir_status
find_path(const char *caller, const char *path, row *out)
{
	struct find find = { .path = path };
	struct walk walk = {
		.prefix = path, .visit = find_visit, .user = &find
	};

	if (path == NULL)
		return status_set(WEIR_EINVAL, "%s: path is NULL", caller);
	enum weir_status status = walk_all(&walk);
	if (status != WEIR_OK)
		return status;
	if (!find.found)
		return refuse_path(caller, path);
	*out = find.row;
	return WEIR_OK;
}

enum weir_status
weir_ctl_get(const char *path, struct weir_ctl *out)
{
	if (os_forked())
		return status_forked("weir_ctl_get");
	row row;

	if (out == NULL || out->struct_size < sizeof(*out))
		return status_set(WEIR_EINVAL,
		    "weir_ctl_get: out is NULL or its struct_size is not set");
	enum weir_status status = find_path("weir_ctl_get", path, &row);
	if (status != WEIR_OK)
		return status;
	if (!row.readable)
		return status_set(
		    WEIR_EINVAL, "weir_ctl_get: %s can only be set", row.path);
	row.struct_size = out->struct_size;
	*out = row;
	return WEIR_OK;
}

enum weir_status
weir_ctl_list(const char *prefix, weir_ctl_visitor visitor, void *user)
{
	if (os_forked())
		return status_forked("weir_ctl_list");
	struct walk walk = { .prefix = prefix != NULL ? prefix : "",
		.visit = visitor,
		.user = user };

	if (visitor == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_ctl_list: visitor is NULL");
	enum weir_status status = walk_all(&walk);
	if (status == WEIR_OK && !walk.found)
		return refuse_path("weir_ctl_list", walk.prefix);
	return status;
}

/* ---- Setting ------------------------------------------------------------- */

static enum weir_status
refuse_ctl_value(const row *row, const char *value)
{
	return status_set(WEIR_EINVAL, "weir_ctl_set: %s: '%.200s' is not %s",
	    row->path, value, row->accepted);
}

static enum weir_status
set_option(const row *row, const char *value)
{
	const char *key = row->path + strlen("option.");
	const char *instead =
	    entry_find((struct word){ .at = key, .length = strlen(key) })
		->instead;

	if (instead != NULL && auto_snapshot_has_begun())
		return status_set(WEIR_ENOTSUP,
		    "weir_ctl_set: %s is heeded before the first allocation "
		    "only%s%s",
		    row->path, *instead == '\0' ? "" : "; set ", instead);
	return option_change("weir_ctl_set", key, value);
}

static enum weir_status
set_history(const row *row, const char *value)
{
	struct weir_history history = { .struct_size = sizeof(history) };
	const struct options *options;
	enum weir_status status = options_get(&options);

	if (status != WEIR_OK)
		return status;
	if (strcmp(value, "off") == 0)
		return weir_history_stop();
	history.max_entries = options->history_entries;
	for (int i = 0; i <= WEIR_HISTORY_ALL; i++)
		if (strcmp(value, levels[i]) == 0) {
			history.level = (enum weir_history_level)i;
			return weir_history_start(&history);
		}
	return refuse_ctl_value(row, value);
}

/* Parse a number of bytes: digits, and perhaps one of K, M, G and T. */
static bool
parse_size(const char *text, uint64_t *out)
{
	static const char letters[] = "KMGT";
	char *end;
	const char *letter;
	uint64_t n;
	unsigned shift = 0;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno != 0)
		return false;
	if (*end != '\0') {
		letter = strchr(letters, *end);
		if (letter == NULL || end[1] != '\0')
			return false;
		shift = 10 * (unsigned)(letter - letters + 1);
	}
	if (n > UINT64_MAX >> shift)
		return false;
	*out = n << shift;
	return true;
}

static enum weir_status
set_limit(const row *row, const char *value)
{
	int device = atoi(row->path + strlen("limit."));
	uint64_t bytes;

	if (strcmp(value, "unlimited") == 0)
		bytes = SIZE_MAX;
	else if (!parse_size(value, &bytes))
		return refuse_ctl_value(row, value);
	device_set_limit(arena_peek(device), (size_t)bytes);
	return WEIR_OK;
}

static enum weir_status
set_reset(const row *row, const char *value)
{
	bool peaks = strcmp(row->path, "reset.peaks") == 0;
	bool all = strcmp(value, "all") == 0;
	uint64_t device = 0;

	if (!all &&
	    (!parse_size(value, &device) || device >= DEVICES_MAX ||
		arena_peek((int)device) == NULL))
		return refuse_ctl_value(row, value);
	for (int i = 0; i < DEVICES_MAX; i++) {
		if (arena_peek(i) == NULL || (!all && i != (int)device))
			continue;
		if (peaks) {
			weir_stats_reset_peak(i);
			weir_host_stats_reset_peak(i);
		} else {
			weir_stats_reset_accumulated(i);
			weir_host_stats_reset_accumulated(i);
		}
	}
	return WEIR_OK;
}

enum weir_status
weir_ctl_set(const char *path, const char *value)
{
	if (os_forked())
		return status_forked("weir_ctl_set");
	row row;

	if (value == NULL)
		return status_set(WEIR_EINVAL, "weir_ctl_set: value is NULL");
	enum weir_status status = find_path("weir_ctl_set", path, &row);
	if (status != WEIR_OK)
		return status;
	if (!row.writable)
		return status_set(
		    WEIR_EINVAL, "weir_ctl_set: %s can only be read", row.path);
	if (is_below(row.path, "option"))
		return set_option(&row, value);
	if (is_below(row.path, "history"))
		return set_history(&row, value);
	if (is_below(row.path, "limit"))
		return set_limit(&row, value);
	if (is_below(row.path, "sleep"))
		return set_sleep(value);
	return set_reset(&row, value);
}

/* ---- Watchers ------------------------------------------------------------ */

struct page {
	struct watch_ctl_reply *reply;
	uint32_t from;
};

static void
page_visit(const row *row, void *user)
{
	struct page *page = user;
	struct watch_ctl_reply *reply = page->reply;
	struct watch_ctl_row *out = &reply->rows[reply->row_count];

	if (reply->rows_all++ < page->from ||
	    reply->row_count == WATCH_CTL_ROWS)
		return;
	reply->row_count++;
	memset(out, 0, sizeof(*out));
	out->type = (uint32_t)row->type;
	out->readable = row->readable;
	out->writable = row->writable;
	snprintf(out->unit, sizeof(out->unit), "%s", row->unit);
	snprintf(out->path, sizeof(out->path), "%s", row->path);
	snprintf(out->text, sizeof(out->text), "%s", row->text);
	snprintf(out->accepted, sizeof(out->accepted), "%s", row->accepted);
	snprintf(out->help, sizeof(out->help), "%s", row->help);
}

bool
ctl_answer(const struct watch_ctl_request *request,
    struct watch_ctl_reply *reply, char text[WATCH_TEXT])
{
	struct page page = { reply, request->from };
	enum weir_status status = request->kind == WATCH_SET ?
	    weir_ctl_set(request->path, request->value) :
	    weir_ctl_list(request->path, page_visit, &page);

	const char *why = status_latest_text();
	const char *colon = strstr(why, ": ");

	/* Leave out the name of the call. */
	if (status != WEIR_OK)
		snprintf(text, WATCH_TEXT, "%s",
		    strncmp(why, "weir_ctl_", 9) == 0 && colon != NULL ?
			colon + 2 :
			why);
	return status == WEIR_OK;
}
