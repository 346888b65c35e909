/*
 * Options, statistics and limits by name.
 */
#include "allocator/api/ctl.h"

#include <stdlib.h>
#include <string.h>

#include <weir/ctl.h>
#include <weir/host.h>
#include <weir/trace.h>

#include "tests/support/device.h"

static struct weir_ctl
get(const char *path)
{
	struct weir_ctl value = { .struct_size = sizeof(value) };

	EXPECT_OK(weir_ctl_get(path, &value));
	EXPECT_STR_EQ(value.path, path);
	return value;
}

static uint64_t
number(const char *path)
{
	struct weir_ctl value = get(path);

	EXPECT_EQ(value.type, WEIR_CTL_TYPE_COUNT);
	return value.number;
}

static void
expect_refused(const char *path, const char *text, enum weir_status status,
    const char *why)
{
	EXPECT_EQ(weir_ctl_set(path, text), status);
	EXPECT_STR_HAS(weir_last_error(), why);
}

TEST(statistics_are_those_of_weir_stats)
{
	void *kept = take(3 * MIB, NULL);
	struct weir_stats now = stats();

	EXPECT_EQ(number("stats.held"), now.reserved_bytes.all.current);
	EXPECT_EQ(number("stats.0.live"), 3 * MIB);
	EXPECT_EQ(number("stats.0.blocks"), 1);
	EXPECT_EQ(number("stats.0.allocated_bytes.large_pool.peak"), 3 * MIB);
	EXPECT_STR_EQ(get("stats.live").text, "3145728");
	EXPECT_STR_EQ(get("stats.live").unit, "bytes");
	EXPECT_STR_EQ(get("stats.blocks").unit, "");
	give(kept);
	EXPECT_EQ(number("stats.live"), 0);
	EXPECT_EQ(number("stats.live_peak"), 3 * MIB);
	EXPECT_EQ(number("stats.cached"), number("stats.held"));
	EXPECT_EQ(number("devices"), 1);
}

TEST(devices_are_added_up_and_listed_separately)
{
	device_need(2);
	void *one = weir_malloc_on(0, MIB, NULL);
	void *other = weir_malloc_on(1, 2 * MIB, NULL);

	EXPECT_EQ(number("stats.live"), 3 * MIB);
	EXPECT_EQ(number("stats.0.live"), MIB);
	EXPECT_EQ(number("stats.1.live"), 2 * MIB);
	EXPECT_EQ(number("devices"), 2);
	give(one);
	give(other);
}

TEST(pinned_memory_has_separate_statistics)
{
	take(MIB, NULL);
	EXPECT_NOT_NULL(weir_host_malloc(2 * MIB));
	EXPECT_EQ(number("pinned.live"), 2 * MIB);
	EXPECT_EQ(number("pinned.0.live"), 2 * MIB);
	EXPECT_EQ(number("stats.live"), MIB);
}

TEST(an_option_is_read_and_set_with_its_type)
{
	setenv("WEIR_CONF", "option.tcache:3,handle_mb:5", 1);
	EXPECT_EQ(number("option.tcache"), 3);
	EXPECT_EQ(number("option.handle_mb"), 5);
	EXPECT_STR_EQ(get("option.tcache").unit, "MiB");
	EXPECT_EQ(number("option.max_split_size_mb"), UINT64_MAX);
	EXPECT_STR_EQ(get("option.max_split_size_mb").text, "unlimited");
	EXPECT_OK(weir_ctl_set("option.decay_ms", "off"));
	EXPECT_EQ(number("option.decay_ms"), UINT64_MAX);
	EXPECT_EQ(get("option.expandable_segments").number, 1);
	EXPECT_OK(weir_ctl_set("option.expandable_segments", "no"));
	EXPECT_EQ(get("option.expandable_segments").number, 0);
	EXPECT_EQ(get("option.expandable_segments").type, WEIR_CTL_TYPE_FLAG);
	EXPECT_OK(weir_ctl_set("option.garbage_collection_threshold", "0.5"));
	EXPECT(get("option.garbage_collection_threshold").real == 0.5);
	EXPECT_OK(weir_ctl_set(
	    "option.roundup_power2_divisions", "[256:1,512:2,>:4]"));
}

/* One value is set, whatever it holds. */
TEST(a_value_sets_no_other_option)
{
	expect_refused("option.prefer", "speed,tcache:0", WEIR_EINVAL,
	    "weir_ctl_set: option prefer is invalid: 'speed,tcache:0' is not "
	    "speed, "
	    "balance or memory");
	EXPECT_EQ(number("option.tcache"), 64);
	EXPECT_OK(weir_ctl_set("option.snapshot", "a,b"));
	EXPECT_STR_EQ(get("option.snapshot").text, "a,b");
}

TEST(a_long_value_is_not_cut)
{
	char name[900];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	EXPECT_OK(weir_ctl_set("option.snapshot", name));
	EXPECT_STR_EQ(get("option.snapshot").text, name);
}

TEST(a_setting_that_would_have_no_effect_is_refused)
{
	static const char *const late[][2] = {
		{ "option.watch", "True" },
		{ "option.snapshot", "x" },
		{ "option.history", "all" },
		{ "option.history_entries", "9" },
		{ "option.memory_limit_mb", "64" },
		{ "option.per_process_memory_fraction", "0.5" },
	};

	EXPECT_OK(weir_ctl_set("option.memory_limit_mb", "unlimited"));
	take(MIB, NULL);
	for (size_t i = 0; i < sizeof(late) / sizeof(late[0]); i++)
		expect_refused(late[i][0], late[i][1], WEIR_ENOTSUP,
		    "is heeded before the first allocation only");
	expect_refused(
	    "option.memory_limit_mb", "64", WEIR_ENOTSUP, "; set limit.DEVICE");
}

TEST(a_limit_is_set_by_name)
{
	size_t limit;

	take(MIB, NULL);
	EXPECT_EQ(number("limit.0"), UINT64_MAX);
	EXPECT_STR_EQ(get("limit.0").text, "unlimited");
	EXPECT_OK(weir_ctl_set("limit.0", "64M"));
	EXPECT_OK(weir_limit_get(0, &limit));
	EXPECT_EQ(limit, 64 * MIB);
	EXPECT_EQ(number("limit.0"), 64 * MIB);
	EXPECT_NULL(weir_malloc(128 * MIB, NULL));
	EXPECT_EQ(number("stats.ooms"), 1);
	expect_refused("limit.0", "64X", WEIR_EINVAL,
	    "limit.0: '64X' is not a number of bytes, such as 8G");
	expect_refused("limit.0", "99999999999T", WEIR_EINVAL, "is not");
	expect_refused("limit.0", "", WEIR_EINVAL, "is not");
	expect_refused("limit.0", "-1", WEIR_EINVAL, "is not");
	EXPECT_EQ(number("limit.0"), 64 * MIB);
	EXPECT_OK(weir_ctl_set("limit.0", "unlimited"));
	EXPECT_NOT_NULL(weir_malloc(128 * MIB, NULL));
}

TEST(the_history_is_turned_on_while_a_program_runs)
{
	struct weir_history_info info = { .struct_size = sizeof(info) };

	take(MIB, NULL);
	EXPECT_STR_EQ(get("history.level").text, "off");
	EXPECT_OK(weir_ctl_set("history.level", "alloc"));
	EXPECT_STR_EQ(get("history.level").text, "alloc");
	take(MIB, NULL);
	EXPECT_OK(weir_history_info(0, &info));
	EXPECT(info.on);
	EXPECT_GT(info.recorded, 0);
	EXPECT_EQ(info.level, WEIR_HISTORY_ALLOC);
	expect_refused(
	    "history.level", "much", WEIR_EINVAL, "off, none, state, alloc");
	EXPECT_OK(weir_ctl_set("history.level", "off"));
	EXPECT_OK(weir_history_info(0, &info));
	EXPECT(!info.on);
}

TEST(peaks_and_sums_are_reset_by_name)
{
	struct weir_ctl value = { .struct_size = sizeof(value) };

	give(take(4 * MIB, NULL));
	EXPECT_EQ(number("stats.live_peak"), 4 * MIB);
	EXPECT_OK(weir_ctl_set("reset.peaks", "all"));
	EXPECT_EQ(number("stats.live_peak"), 0);
	EXPECT_EQ(number("stats.allocations"), 1);
	EXPECT_OK(weir_ctl_set("reset.sums", "0"));
	EXPECT_EQ(number("stats.allocations"), 0);
	expect_refused("reset.sums", "7", WEIR_EINVAL, "a device's number");
	EXPECT_EQ(weir_ctl_get("reset.sums", &value), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "reset.sums can only be set");
}

TEST(a_wrong_path_gets_the_nearest_one)
{
	struct weir_ctl value = { .struct_size = sizeof(value) };

	EXPECT_EQ(weir_ctl_get("stats.hold", &value), WEIR_EINVAL);
	EXPECT_STR_EQ(weir_last_error(),
	    "weir_ctl_get: there is no path 'stats.hold'; did you mean "
	    "'stats.held'?");
	EXPECT_EQ(weir_ctl_get("", &value), WEIR_EINVAL);
	EXPECT_EQ(weir_ctl_get("stats", &value), WEIR_EINVAL);
	EXPECT_EQ(weir_ctl_get("stats.held.", &value), WEIR_EINVAL);
	EXPECT_EQ(weir_ctl_get("stats.0", &value), WEIR_EINVAL);
	EXPECT_EQ(weir_ctl_get("limit.-1", &value), WEIR_EINVAL);
	EXPECT_EQ(weir_ctl_get(NULL, &value), WEIR_EINVAL);
	expect_refused("option.tcahe", "1", WEIR_EINVAL, "'option.tcache'?");
	expect_refused("version", "2", WEIR_EINVAL, "version can only be read");
	EXPECT_EQ(weir_ctl_set("limit.0", NULL), WEIR_EINVAL);
	value.struct_size = 8;
	EXPECT_EQ(weir_ctl_get("version", &value), WEIR_EINVAL);
}

struct seen {
	unsigned count;
	unsigned options;
	unsigned bad;
};

/* Each path that is listed can be read, and has what its type needs. */
static void
visit(const struct weir_ctl *value, void *user)
{
	struct weir_ctl again = { .struct_size = sizeof(again) };
	struct seen *seen = user;

	seen->count++;
	seen->options += strncmp(value->path, "option.", 7) == 0;
	if (value->readable &&
	    (weir_ctl_get(value->path, &again) != WEIR_OK ||
		again.type != value->type || again.text[0] == '\0'))
		seen->bad++;
	seen->bad += value->help[0] == '\0';
	seen->bad += value->writable != (value->accepted[0] != '\0');
}

TEST(every_path_that_is_listed_can_be_read)
{
	struct weir_option option;
	struct seen all = { 0 };
	struct seen part = { 0 };
	struct seen one = { 0 };
	unsigned options = 0;

	take(MIB, NULL);
	EXPECT_OK(weir_ctl_list(NULL, visit, &all));
	while (weir_option_at(options, &option) == WEIR_OK)
		options++;
	EXPECT_EQ(all.options, options);
	EXPECT_EQ(all.bad, 0);
	EXPECT_OK(weir_ctl_list("option", visit, &part));
	EXPECT_EQ(part.count, options);
	EXPECT_OK(weir_ctl_list("stats.live", visit, &one));
	EXPECT_EQ(one.count, 1);
	EXPECT_EQ(weir_ctl_list("optio", visit, &one), WEIR_EINVAL);
	EXPECT_EQ(weir_ctl_list("stats", NULL, NULL), WEIR_EINVAL);
}

TEST(a_wrong_environment_is_reported)
{
	struct weir_ctl value = { .struct_size = sizeof(value) };

	setenv("WEIR_CONF", "option.wrong:1", 1);
	EXPECT_EQ(weir_ctl_get("option.tcache", &value), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "WEIR_CONF: unknown option 'wrong'");
	EXPECT_EQ(weir_ctl_set("option.tcache", "1"), WEIR_EINVAL);
}

/* ---- What watchers are answered --------------------------------------- */

TEST(a_list_is_answered_in_pages)
{
	static struct watch_ctl_reply reply;
	struct watch_ctl_request request = { WATCH_MAGIC, WATCH_VERSION,
		WATCH_LIST, 0, "option", "" };
	char text[WATCH_TEXT];
	uint32_t rows = 0;

	do {
		memset(&reply, 0, sizeof(reply));
		request.from = rows;
		EXPECT(ctl_answer(&request, &reply, text));
		EXPECT_GT(reply.row_count, 0);
		EXPECT_LE(reply.row_count, WATCH_CTL_ROWS);
		rows += reply.row_count;
	} while (rows < reply.rows_all);
	EXPECT_EQ(rows, reply.rows_all);
	EXPECT_GT(rows, WATCH_CTL_ROWS);
	request.from = UINT32_MAX;
	memset(&reply, 0, sizeof(reply));
	EXPECT(ctl_answer(&request, &reply, text));
	EXPECT_EQ(reply.row_count, 0);
}

TEST(a_watcher_gets_the_reason_without_the_name_of_a_call)
{
	static struct watch_ctl_reply reply;
	struct watch_ctl_request request = { WATCH_MAGIC, WATCH_VERSION,
		WATCH_SET, 0, "option.prefer", "haste" };
	char text[WATCH_TEXT];

	EXPECT(!ctl_answer(&request, &reply, text));
	EXPECT_STR_EQ(text,
	    "option prefer is invalid: 'haste' is not speed, balance or "
	    "memory");
}
