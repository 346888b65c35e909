/*
 * The options: each key, the values that it accepts and refuses, the source of
 * a value, and that a text with one mistake changes nothing. None of it calls
 * the driver.
 */
#include "allocator/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/meta.h"
#include "tests/support/command.h"
#include "tests/support/device.h"

static struct weir_option
option(const char *key)
{
	struct weir_option out;

	for (size_t i = 0; weir_option_at(i, &out) == WEIR_OK; i++)
		if (strcmp(out.key, key) == 0)
			return out;
	FAIL("there is no option %s: %s", key, weir_last_error());
}

static void
expect_value(const char *key, const char *value, enum weir_option_source source)
{
	struct weir_option found = option(key);

	EXPECT_STR_EQ(found.value, value);
	EXPECT_EQ(found.source, source);
}

/* Every option and its default, in the manual's order. */
static const char *const defaults[][2] = {
	{ "expandable_segments", "True" },
	{ "may_sleep", "False" },
	{ "sleep_folder", "none" },
	{ "pool_ranges", "none" },
	{ "large_segment_size_mb", "20" },
	{ "max_split_size_mb", "unlimited" },
	{ "max_non_split_rounding_mb", "20" },
	{ "garbage_collection_threshold", "0" },
	{ "roundup_power2_divisions", "0" },
	{ "per_process_memory_fraction", "1" },
	{ "memory_limit_mb", "unlimited" },
	{ "limit_counts", "weir" },
	{ "show_device", "limit" },
	{ "tcache", "64" },
	{ "handle_mb", "256" },
	{ "prefer", "balance" },
	{ "delay_percent", "1" },
	{ "decay_ms", "10000" },
	{ "group", "none" },
	{ "group_folder", "none" },
	{ "group_limit_mb", "unlimited" },
	{ "group_guarantee_mb", "0" },
	{ "group_priority", "100" },
	{ "lend", "False" },
	{ "lend_ms", "100" },
	{ "wait_ms", "0" },
	{ "pinned_use_cuda_host_register", "False" },
	{ "pinned_source", "handles" },
	{ "pinned_num_register_threads", "1" },
	{ "pinned_reserve_segment_size_mb", "0" },
	{ "pinned_use_background_threads", "False" },
	{ "pinned_limit_mb", "unlimited" },
	{ "pinned_idle_mb", "unlimited" },
	{ "plan", "none" },
	{ "history", "off" },
	{ "history_entries", "1000000" },
	{ "snapshot", "none" },
	{ "snapshot_signal", "off" },
	{ "watch", "False" },
	{ "guard", "0" },
	{ "reclaim_always", "False" },
};

enum { OPTIONS = sizeof(defaults) / sizeof(defaults[0]) };

TEST(every_option_has_its_documented_default)
{
	struct weir_option out;

	for (size_t i = 0; i < OPTIONS; i++) {
		EXPECT_OK(weir_option_at(i, &out));
		EXPECT_STR_EQ(out.key, defaults[i][0]);
		EXPECT_STR_EQ(out.value, defaults[i][1]);
		EXPECT_STR_EQ(out.fallback, defaults[i][1]);
		EXPECT_EQ(out.source, WEIR_OPTION_DEFAULT);
		EXPECT(strlen(out.type) > 0);
		EXPECT(strlen(out.range) > 0);
		EXPECT(strlen(out.help) > 0);
	}
	EXPECT_STATUS(weir_option_at(OPTIONS, &out), WEIR_EINVAL);
}

TEST(a_name_that_is_too_long_to_be_shown_shows_its_end)
{
	char conf[400];
	char *name = conf + strlen("snapshot:");

	strcpy(conf, "snapshot:");
	memset(name, 'd', 300);
	strcpy(name + 300, "/last.pickle");
	EXPECT_OK(weir_options_set(conf));
	EXPECT_STR_HAS(option("snapshot").value, "...d");
	EXPECT_STR_HAS(option("snapshot").value, "d/last.pickle");
	EXPECT_OK(weir_options_set("snapshot:/tmp/x"));
	expect_value("snapshot", "/tmp/x", WEIR_OPTION_CALL);
}

TEST(reading_and_setting_options_leaves_the_driver_alone)
{
	struct weir_option out;

	EXPECT_OK(weir_option_at(0, &out));
	conf("max_split_size_mb:100");
	EXPECT_STATUS(weir_options_set("nonsense:1"), WEIR_EINVAL);
	EXPECT_NULL(driver_peek());
}

TEST(the_i_th_option_needs_a_place_to_go)
{
	EXPECT_STATUS(weir_option_at(0, NULL), WEIR_EINVAL);
}

/* ---- What each key takes ----------------------------------------------- */

static const struct {
	const char *key;
	const char *text;
	const char *value;
} good[] = {
	{ "expandable_segments", "False", "False" },
	{ "expandable_segments", "True", "True" },
	{ "expandable_segments", "0", "False" },
	{ "expandable_segments", "on", "True" },
	{ "large_segment_size_mb", "11", "11" },
	{ "large_segment_size_mb", "20", "20" },
	{ "max_split_size_mb", "20", "20" },
	{ "max_split_size_mb", "4096", "4096" },
	{ "max_split_size_mb", "unlimited", "unlimited" },
	{ "max_split_size_mb", "17592186044416", "unlimited" },
	{ "max_non_split_rounding_mb", "20", "20" },
	{ "max_non_split_rounding_mb", "256", "256" },
	{ "garbage_collection_threshold", "0.8", "0.8" },
	{ "garbage_collection_threshold", "0", "0" },
	{ "garbage_collection_threshold", "0.999", "0.999" },
	{ "roundup_power2_divisions", "16", "16" },
	{ "roundup_power2_divisions", "0", "0" },
	{ "roundup_power2_divisions", "[256:1,512:2,>:4]",
	    "[256:1,512:2,>:4]" },
	{ "roundup_power2_divisions", "[256:1, 512:2 ,\t> : 4 ]",
	    "[256:1,512:2,>:4]" },
	{ "roundup_power2_divisions", "[>:2]", "[1:0,>:2]" },
	{ "roundup_power2_divisions", "[64:8]", "[64:8,>:0]" },
	{ "roundup_power2_divisions", "[1:8]", "[1:8,>:0]" },
	{ "roundup_power2_divisions", "[4:2,16:4]", "[4:2,8:0,16:4,>:0]" },
	{ "roundup_power2_divisions", "[16:2,4:4]", "[2:2,4:4,8:2,16:2,>:0]" },
	{ "roundup_power2_divisions", "[64:2,64:4]", "[32:2,64:4,>:0]" },
	{ "roundup_power2_divisions", "[64:2,>:1,128:4]", "[64:2,128:4,>:1]" },
	{ "roundup_power2_divisions", "[65536:2]", "2" },
	{ "roundup_power2_divisions", "[32768:2,>:4]", "2" },
	{ "roundup_power2_divisions", "[64:2,]", "[64:2,>:0]" },
	{ "roundup_power2_divisions", "[]", "0" },
	{ "roundup_power2_divisions", "9223372036854775808", "2147483648" },
	{ "per_process_memory_fraction", "0.25", "0.25" },
	{ "per_process_memory_fraction", "0", "0" },
	{ "per_process_memory_fraction", "1.0", "1" },
	{ "memory_limit_mb", "512", "512" },
	{ "memory_limit_mb", "0", "0" },
	{ "memory_limit_mb", "unlimited", "unlimited" },
	{ "handle_mb", "2", "2" },
	{ "handle_mb", "256", "256" },
	{ "prefer", "speed", "speed" },
	{ "prefer", "memory", "memory" },
	{ "prefer", "balance", "balance" },
	{ "decay_ms", "1", "1" },
	{ "decay_ms", "off", "off" },
	{ "pinned_use_cuda_host_register", "True", "True" },
	{ "pinned_num_register_threads", "128", "128" },
	{ "pinned_num_register_threads", "1", "1" },
	{ "pinned_reserve_segment_size_mb", "512", "512" },
	{ "pinned_reserve_segment_size_mb", "0", "0" },
	{ "pinned_use_background_threads", "True", "True" },
	{ "pinned_limit_mb", "100", "100" },
	{ "pinned_limit_mb", "unlimited", "unlimited" },
	{ "pinned_idle_mb", "0", "0" },
	{ "pinned_idle_mb", "unlimited", "unlimited" },
	{ "reclaim_always", "True", "True" },
	{ "reclaim_always", "False", "False" },
};

TEST(each_key_takes_the_values_of_its_range)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		char text[128];
		snprintf(
		    text, sizeof(text), "%s:%s", good[i].key, good[i].text);
		conf(text);
		expect_value(good[i].key, good[i].value, WEIR_OPTION_CALL);
	}
}

static const char *const bad[][2] = {
	{ "expandable_segments", "Maybe" },
	{ "expandable_segments", "" },
	{ "expandable_segments", "2" },
	{ "large_segment_size_mb", "10" },
	{ "large_segment_size_mb", "-20" },
	{ "large_segment_size_mb", "20x" },
	{ "large_segment_size_mb", "" },
	{ "large_segment_size_mb", "18446744073709551616" },
	{ "large_segment_size_mb", "unlimited" },
	{ "max_split_size_mb", "19" },
	{ "max_split_size_mb", "0" },
	{ "max_split_size_mb", "lots" },
	{ "max_split_size_mb", "1e3" },
	{ "max_non_split_rounding_mb", "19" },
	{ "max_non_split_rounding_mb", "" },
	{ "garbage_collection_threshold", "1" },
	{ "garbage_collection_threshold", "-0.1" },
	{ "garbage_collection_threshold", "nan" },
	{ "garbage_collection_threshold", "inf" },
	{ "garbage_collection_threshold", "0.5x" },
	{ "garbage_collection_threshold", "" },
	{ "roundup_power2_divisions", "3" },
	{ "roundup_power2_divisions", "-1" },
	{ "roundup_power2_divisions", "" },
	{ "roundup_power2_divisions", "[3:1]" },
	{ "roundup_power2_divisions", "[64:3]" },
	{ "roundup_power2_divisions", "[64:1" },
	{ "roundup_power2_divisions", "[64]" },
	{ "roundup_power2_divisions", "[:2]" },
	{ "roundup_power2_divisions", "[64:2,,128:4]" },
	{ "roundup_power2_divisions", "[,64:2]" },
	{ "roundup_power2_divisions", "[64:2:128:4]" },
	{ "roundup_power2_divisions", "[64:2]]" },
	{ "roundup_power2_divisions", "[64:2]8" },
	{ "roundup_power2_divisions", "[0:2]" },
	{ "roundup_power2_divisions", "[64MB:2]" },
	{ "per_process_memory_fraction", "1.5" },
	{ "per_process_memory_fraction", "-1" },
	{ "per_process_memory_fraction", "nan" },
	{ "per_process_memory_fraction", "half" },
	{ "memory_limit_mb", "-1" },
	{ "memory_limit_mb", "1.5" },
	{ "memory_limit_mb", "all" },
	{ "handle_mb", "1" },
	{ "handle_mb", "0" },
	{ "handle_mb", "2.5" },
	{ "decay_ms", "0" },
	{ "decay_ms", "-1" },
	{ "decay_ms", "31622400001" },
	{ "prefer", "" },
	{ "prefer", "Memory" },
	{ "prefer", "memory speed" },
	{ "prefer", "0" },
	{ "pinned_use_cuda_host_register", "perhaps" },
	{ "pinned_num_register_threads", "3" },
	{ "pinned_num_register_threads", "0" },
	{ "pinned_num_register_threads", "256" },
	{ "pinned_reserve_segment_size_mb", "unlimited" },
	{ "pinned_reserve_segment_size_mb", "18446744073709551615" },
	{ "pinned_use_background_threads", "" },
	{ "pinned_limit_mb", "none" },
	{ "pinned_idle_mb", "-1" },
	{ "reclaim_always", "sometimes" },
};

TEST(each_key_refuses_other_values_and_the_error_names_key_and_value)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char text[128];
		struct weir_option before = option(bad[i][0]);
		snprintf(text, sizeof(text), "%s:%s", bad[i][0], bad[i][1]);
		if (weir_options_set(text) != WEIR_EINVAL)
			FAIL("%s was taken", text);
		EXPECT_STR_HAS(weir_last_error(), bad[i][0]);
		EXPECT_STR_HAS(weir_last_error(), bad[i][1]);
		EXPECT_STR_HAS(weir_last_error(), before.range);
		expect_value(bad[i][0], before.value, WEIR_OPTION_DEFAULT);
	}
}

TEST(an_unknown_key_is_an_error_that_names_it)
{
	EXPECT_STATUS(weir_options_set("max_spilt_size_mb:100"), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "max_spilt_size_mb");
	EXPECT_STATUS(
	    weir_options_set("Expandable_Segments:True"), WEIR_EINVAL);
	EXPECT_STATUS(weir_options_set(":True"), WEIR_EINVAL);
	EXPECT_STATUS(weir_options_set("handle_mb"), WEIR_EINVAL);
}

TEST(a_text_with_one_mistake_changes_nothing)
{
	EXPECT_STATUS(
	    weir_options_set("handle_mb:7,max_split_size_mb:100,handle_mb:x"),
	    WEIR_EINVAL);
	expect_value("handle_mb", "256", WEIR_OPTION_DEFAULT);
	expect_value("max_split_size_mb", "unlimited", WEIR_OPTION_DEFAULT);
	EXPECT_STATUS(weir_options_set("handle_mb:7,unknown:1"), WEIR_EINVAL);
	expect_value("handle_mb", "256", WEIR_OPTION_DEFAULT);
}

TEST(spaces_and_empty_items_between_options_mean_nothing)
{
	conf("");
	conf("  ");
	conf(" handle_mb : 9 ,, expandable_segments:\tFalse , ");
	expect_value("handle_mb", "9", WEIR_OPTION_CALL);
	expect_value("expandable_segments", "False", WEIR_OPTION_CALL);
}

TEST(a_list_s_commas_do_not_end_it)
{
	conf("roundup_power2_divisions:[64:8,128:4],handle_mb:3");
	expect_value(
	    "roundup_power2_divisions", "[64:8,128:4,>:0]", WEIR_OPTION_CALL);
	expect_value("handle_mb", "3", WEIR_OPTION_CALL);
}

TEST(options_not_named_keep_their_values)
{
	conf("max_split_size_mb:64");
	conf("handle_mb:12");
	expect_value("max_split_size_mb", "64", WEIR_OPTION_CALL);
	expect_value("handle_mb", "12", WEIR_OPTION_CALL);
	expect_value("large_segment_size_mb", "20", WEIR_OPTION_DEFAULT);
}

TEST(the_longest_list_is_read_back_whole)
{
	const char *text = "[1:2,2:4,4:2,8:4,16:2,32:4,64:2,128:4,256:2,512:4,"
			   "1024:2,2048:4,4096:2,8192:4,16384:2,32768:4]";
	char set[256];

	snprintf(set, sizeof(set), "roundup_power2_divisions:%s", text);
	conf(set);
	expect_value("roundup_power2_divisions", text, WEIR_OPTION_CALL);
}

TEST(null_is_no_text)
{
	EXPECT_STATUS(weir_options_set(NULL), WEIR_EINVAL);
}

TEST(bounds_that_another_option_sets_hold_in_whatever_order_they_come)
{
	conf("large_segment_size_mb:64");
	expect_value("max_non_split_rounding_mb", "64", WEIR_OPTION_DEFAULT);
	EXPECT_STATUS(weir_options_set("max_split_size_mb:63"), WEIR_EINVAL);
	conf("large_segment_size_mb:20");
	conf("max_split_size_mb:40");
	EXPECT_STATUS(
	    weir_options_set("large_segment_size_mb:100"), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "max_split_size_mb");
	expect_value("large_segment_size_mb", "20", WEIR_OPTION_CALL);
	conf("max_split_size_mb:100,large_segment_size_mb:100");
}

TEST(want_of_host_memory_changes_nothing)
{
	for (unsigned long nth = 1; nth <= 2; nth++) {
		meta_fail(nth, 1);
		EXPECT_STATUS(weir_init(), WEIR_EHOSTMEM);
		meta_fail(0, 0);
	}
	expect_value("handle_mb", "256", WEIR_OPTION_DEFAULT);
	for (unsigned long nth = 1; nth <= 2; nth++) {
		meta_fail(nth, 1);
		EXPECT_STATUS(weir_options_set("handle_mb:7"), WEIR_EHOSTMEM);
		meta_fail(0, 0);
		expect_value("handle_mb", "256", WEIR_OPTION_DEFAULT);
	}
}

/* ---- The environment --------------------------------------------------- */

TEST(weir_conf_sets_options_and_is_named_as_their_source)
{
	setenv("WEIR_CONF", "expandable_segments:False,handle_mb:5", 1);
	expect_value("expandable_segments", "False", WEIR_OPTION_ENVIRONMENT);
	expect_value("handle_mb", "5", WEIR_OPTION_ENVIRONMENT);
	expect_value("memory_limit_mb", "unlimited", WEIR_OPTION_DEFAULT);
	conf("handle_mb:6");
	expect_value("handle_mb", "6", WEIR_OPTION_CALL);
}

TEST(pytorch_s_variable_is_understood)
{
	setenv("PYTORCH_CUDA_ALLOC_CONF",
	    "expandable_segments:True,max_split_size_mb:128,"
	    "garbage_collection_threshold:0.6,"
	    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
	    1);
	expect_value("max_split_size_mb", "128", WEIR_OPTION_ENVIRONMENT);
	expect_value(
	    "garbage_collection_threshold", "0.6", WEIR_OPTION_ENVIRONMENT);
	expect_value("roundup_power2_divisions", "[256:1,512:2,1024:4,>:8]",
	    WEIR_OPTION_ENVIRONMENT);
}

TEST(pytorch_s_own_options_are_no_mistake_in_its_variable)
{
	setenv("PYTORCH_CUDA_ALLOC_CONF",
	    "backend:native,pinned_use_background_threads:True,"
	    "pinned_num_register_threads:8,release_lock_on_cudamalloc:True,"
	    "expandable_segments_reserve_by_class:[a:1,b:2],handle_mb:4",
	    1);
	EXPECT_OK(weir_init());
	expect_value("handle_mb", "4", WEIR_OPTION_ENVIRONMENT);
}

TEST(pytorch_s_own_options_are_a_mistake_elsewhere)
{
	EXPECT_STATUS(weir_options_set("backend:native"), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "backend");
}

TEST(pytorch_s_own_options_are_a_mistake_in_weir_conf)
{
	setenv("WEIR_CONF", "backend:native", 1);
	EXPECT_STATUS(weir_init(), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "WEIR_CONF");
	EXPECT_STR_HAS(weir_last_error(), "backend");
}

TEST(the_first_of_pytorch_s_variables_that_is_set_counts)
{
	setenv("PYTORCH_CUDA_ALLOC_CONF", "handle_mb:12", 1);
	setenv("PYTORCH_ALLOC_CONF", "handle_mb:2,nonsense:3", 1);
	expect_value("handle_mb", "12", WEIR_OPTION_ENVIRONMENT);
}

TEST(pytorch_s_second_variable_counts_without_the_first)
{
	setenv("PYTORCH_ALLOC_CONF", "handle_mb:2", 1);
	expect_value("handle_mb", "2", WEIR_OPTION_ENVIRONMENT);
}

TEST(weir_conf_corrects_pytorch_s_variable)
{
	setenv(
	    "PYTORCH_CUDA_ALLOC_CONF", "handle_mb:12,max_split_size_mb:64", 1);
	setenv("WEIR_CONF", "handle_mb:2", 1);
	expect_value("handle_mb", "2", WEIR_OPTION_ENVIRONMENT);
	expect_value("max_split_size_mb", "64", WEIR_OPTION_ENVIRONMENT);
}

TEST(a_mistake_in_the_environment_is_reported_by_every_call_that_needs_options)
{
	struct weir_option out;
	struct weir_stats s = { .struct_size = sizeof(s) };

	setenv("WEIR_CONF", "handle_mb:-3", 1);
	for (int i = 0; i < 2; i++) {
		EXPECT_STATUS(weir_init(), WEIR_EINVAL);
		EXPECT_STR_HAS(weir_last_error(), "WEIR_CONF");
		EXPECT_STR_HAS(weir_last_error(), "handle_mb");
		EXPECT_STR_HAS(weir_last_error(), "-3");
	}
	EXPECT_NO_MEMORY(weir_malloc(512, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "handle_mb");
	EXPECT_STATUS(weir_option_at(0, &out), WEIR_EINVAL);
	EXPECT_STATUS(weir_stats(0, &s), WEIR_EINVAL);
	EXPECT_STATUS(weir_options_set("handle_mb:3"), WEIR_EINVAL);
	EXPECT_NULL(driver_peek());
}

/* The library calls this function in place of libc's. */
static bool has_more_rights;

char *
secure_getenv(const char *name)
{
	return has_more_rights ? NULL : getenv(name);
}

/* The file would be replaced with the rights of the program's owner. */
TEST(a_setuid_program_writes_no_file_that_its_caller_names)
{
	has_more_rights = true;
	setenv("WEIR_CONF", "handle_mb:16,snapshot:/tmp/of-another", 1);
	EXPECT_STATUS(weir_init(), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "snapshot:/tmp/of-another");
	setenv("WEIR_CONF", "handle_mb:16", 1);
	expect_value("handle_mb", "16", WEIR_OPTION_ENVIRONMENT);
}

/* Values that PyTorch's parser takes, some of them against its manual, and the
 * values that it reads. */
static const struct {
	const char *text;
	const char *key;
	const char *value;
} theirs[] = {
	{ "roundup_power2_divisions:[>:1]", "roundup_power2_divisions",
	    "[1:0,>:1]" },
	{ "roundup_power2_divisions:[256:1, 512:2, >:4]",
	    "roundup_power2_divisions", "[256:1,512:2,>:4]" },
	{ "roundup_power2_divisions:[]", "roundup_power2_divisions", "0" },
	{ "roundup_power2_divisions:[64MB:+8,128:2]",
	    "roundup_power2_divisions", "[64:8,128:2,>:0]" },
	{ "roundup_power2_divisions:[64,8,128,2]", "roundup_power2_divisions",
	    "[64:8,128:2,>:0]" },
	{ "roundup_power2_divisions:4,roundup_power2_divisions:[1:2]",
	    "roundup_power2_divisions", "[1:2,>:4]" },
	{ "max_split_size_mb:100MB", "max_split_size_mb", "100" },
	{ "max_split_size_mb:-1", "max_split_size_mb", "unlimited" },
	{ "max_split_size_mb:+1 00", "max_split_size_mb", "100" },
	{ "max_split_size_mb:\n64,\n", "max_split_size_mb", "64" },
	{ "max_split_size_mb:64,max_split_size_mb:128", "max_split_size_mb",
	    "128" },
	{ "max_split_size_mb:40,large_segment_size_mb:30", "max_split_size_mb",
	    "40" },
	{ "large_segment_size_mb:30", "max_non_split_rounding_mb", "30" },
	{ "max_split_ size_mb:64,", "max_split_size_mb", "64" },
	{ "garbage_collection_threshold:0.75%", "garbage_collection_threshold",
	    "0.75" },
	{ "expandable_segments:False", "expandable_segments", "False" },
	{ "expandable_segments:Fal se", "expandable_segments", "False" },
	{ "pinned_use_hip_host_register:True", "pinned_use_cuda_host_register",
	    "True" },
	{ ",pinned_num_register_threads:8,,", "pinned_num_register_threads",
	    "8" },
	{ "per_process_memory_fraction:0.5", "per_process_memory_fraction",
	    "0.5" },
};

TEST(pytorch_s_variable_is_read_as_its_parser_reads_it)
{
	for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++) {
		options_forget();
		setenv("PYTORCH_CUDA_ALLOC_CONF", theirs[i].text, 1);
		if (strcmp(option(theirs[i].key).value, theirs[i].value) != 0)
			FAIL("%s: %s is %s", theirs[i].text, theirs[i].key,
			    option(theirs[i].key).value);
	}
}

static char warned[4096];

static void
note_warning(enum weir_log_level level, const char *text, void *user)
{
	(void)level;
	(void)user;
	snprintf(warned, sizeof(warned), "%s", text);
}

/* Values that PyTorch refuses. The key is the option that has its default. */
static const char *const wrong[][2] = {
	{ "max_split_size_mb:2", "max_split_size_mb" },
	{ "max_split_size_mb:unlimited", "" },
	{ "max_split_size_mb:lots", "max_split_size_mb" },
	{ "max_split_size_mb:", "max_split_size_mb" },
	{ "max_split_size_mb", "max_split_size_mb" },
	{ "max_split_size_mb:[100]", "max_split_size_mb" },
	{ "max_split_size_mb:40,large_segment_size_mb:50",
	    "max_split_size_mb" },
	{ "max_non_split_rounding_mb:19", "max_non_split_rounding_mb" },
	{ "large_segment_size_mb:10", "large_segment_size_mb" },
	{ "garbage_collection_threshold:1.0", "garbage_collection_threshold" },
	{ "garbage_collection_threshold:high", "garbage_collection_threshold" },
	{ "roundup_power2_divisions:3", "roundup_power2_divisions" },
	{ "roundup_power2_divisions:[64:8", "roundup_power2_divisions" },
	{ "roundup_power2_divisions:[3:8]", "roundup_power2_divisions" },
	{ "roundup_power2_divisions:[64:8]8", "roundup_power2_divisions" },
	{ "expandable_segments:false", "expandable_segments" },
	{ "expandable_segments:1", "expandable_segments" },
	{ "per_process_memory_fraction:1.5", "per_process_memory_fraction" },
	{ "pinned_num_register_threads:3", "pinned_num_register_threads" },
	{ "pinned_use_cuda_host_register:yes",
	    "pinned_use_cuda_host_register" },
	{ "pinned_reserve_segment_size_mb:x",
	    "pinned_reserve_segment_size_mb" },
	{ "pinned_use_background_threads:TRUE",
	    "pinned_use_background_threads" },
};

TEST(a_wrong_value_in_pytorch_s_variable_is_a_warning_and_the_default_holds)
{
	char text[128];

	weir_log_set(WEIR_LOG_WARN, note_warning, NULL);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const char *key = wrong[i][1];

		warned[0] = '\0';
		options_forget();
		snprintf(text, sizeof(text), "handle_mb:4,%s", wrong[i][0]);
		setenv("PYTORCH_CUDA_ALLOC_CONF", text, 1);
		expect_value("handle_mb", "4", WEIR_OPTION_ENVIRONMENT);
		if (key[0] == '\0') {
			EXPECT_STR_EQ(warned, "");
			continue;
		}
		EXPECT_STR_HAS(warned, "PYTORCH_CUDA_ALLOC_CONF: option");
		EXPECT_STR_HAS(warned, key);
		EXPECT_STR_HAS(warned, "the default holds: ");
		EXPECT_EQ(option(key).source, WEIR_OPTION_DEFAULT);
		if (strstr(text, "large_segment_size_mb:50") == NULL)
			EXPECT_STR_EQ(option(key).value, option(key).fallback);
	}
}

/* Two roads, one parser: the adapter passes PyTorch's own text on. */
TEST(a_text_of_pytorch_s_is_set_by_a_call_too_where_a_wrong_value_is_an_error)
{
	conf("max_split_size_mb:64,garbage_collection_threshold:0.5,tcache:2");
	EXPECT_OK(weir_options_set_pytorch(
	    "roundup_power2_divisions:[256:1, >:4], backend:native"));
	expect_value(
	    "roundup_power2_divisions", "[256:1,>:4]", WEIR_OPTION_CALL);
	expect_value("max_split_size_mb", "unlimited", WEIR_OPTION_DEFAULT);
	expect_value("garbage_collection_threshold", "0", WEIR_OPTION_DEFAULT);
	expect_value("tcache", "2", WEIR_OPTION_CALL);
	EXPECT_STATUS(
	    weir_options_set_pytorch("tcache:3,expandable_segments:false"),
	    WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "weir_options_set_pytorch");
	EXPECT_STR_HAS(weir_last_error(), "expandable_segments");
	EXPECT_STATUS(weir_options_set_pytorch(
			  "max_split_size_mb:30,large_segment_size_mb:40"),
	    WEIR_EINVAL);
	EXPECT_STATUS(weir_options_set_pytorch(NULL), WEIR_EINVAL);
	expect_value("tcache", "2", WEIR_OPTION_CALL);
}

TEST(a_wrong_value_of_weir_s_own_option_is_a_mistake_in_any_variable)
{
	setenv("PYTORCH_CUDA_ALLOC_CONF", "handle_mb:1", 1);
	EXPECT_STATUS(weir_init(), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "PYTORCH_CUDA_ALLOC_CONF");
	EXPECT_STR_HAS(weir_last_error(), "handle_mb");
}

TEST(an_unknown_key_in_pytorch_s_variable_is_a_mistake)
{
	setenv("PYTORCH_CUDA_ALLOC_CONF", "max_spilt_size_mb:64", 1);
	EXPECT_STATUS(weir_init(), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "PYTORCH_CUDA_ALLOC_CONF");
	EXPECT_STR_HAS(weir_last_error(), "max_spilt_size_mb");
}

/* ---- Language ---------------------------------------------------------- */

TEST(fractions_have_a_point_in_programs_that_write_a_comma)
{
	use_comma();
	conf("garbage_collection_threshold:0.75");
	expect_value("garbage_collection_threshold", "0.75", WEIR_OPTION_CALL);
	EXPECT_STATUS(
	    weir_options_set("garbage_collection_threshold:0;5"), WEIR_EINVAL);
}

static const char *
value_of(const char *key)
{
	static struct weir_option found;

	for (size_t i = 0; weir_option_at(i, &found) == WEIR_OK; i++)
		if (strcmp(found.key, key) == 0)
			return found.value;
	FAIL("there is no option %s", key);
}

/* Readers may still use earlier values, so these are kept, each once. */
TEST(options_that_go_to_and_fro_keep_no_more_memory)
{
	size_t before;

	EXPECT_OK(weir_options_set("handle_mb:7"));
	EXPECT_OK(weir_options_set("handle_mb:8"));
	before = meta_bytes();
	for (int i = 0; i < 1000; i++) {
		EXPECT_OK(weir_options_set(
		    i % 2 == 0 ? "handle_mb:7" : "handle_mb:8"));
		EXPECT_STR_EQ(value_of("handle_mb"), i % 2 == 0 ? "7" : "8");
	}
	EXPECT_EQ(meta_bytes(), before);
}

static enum weir_status
set_limit(int mb)
{
	char text[64];

	snprintf(text, sizeof(text), "memory_limit_mb:%d", mb);
	return weir_options_set(text);
}

/* Each new set of values is kept, and compared with all earlier ones. */
TEST(options_with_ever_new_values_keep_a_bounded_number_of_bytes)
{
	enum { MOST_SETS = 4096, MOST_BYTES = 14 << 20 };
	const int sets = MOST_SETS + (int)test_effort(100000 - MOST_SETS);
	size_t before = meta_bytes();
	int taken = 0;

	for (int i = 1; i <= sets; i++) {
		enum weir_status status = set_limit(i);

		if (status == WEIR_OK)
			taken = i;
		else
			EXPECT_EQ(status, WEIR_EHOSTMEM);
	}
	EXPECT_LE(meta_bytes() - before, MOST_BYTES);
	/* <weir/weir.h> promises 4,096 sets of values; the defaults are one. */
	EXPECT_EQ(taken, 4095);
	EXPECT_STR_HAS(weir_last_error(),
	    "weir_options_set: 4096 different sets of values");
	EXPECT_STR_EQ(value_of("memory_limit_mb"), "4095");
}

TEST(values_that_were_in_force_before_may_always_be_set_again)
{
	size_t before;

	for (int i = 1; set_limit(i) == WEIR_OK; i++)
		;
	before = meta_bytes();
	for (uint64_t i = test_effort(50000); i > 0; i--) {
		EXPECT_OK(set_limit(7));
		EXPECT_OK(set_limit(8));
	}
	EXPECT_STR_EQ(value_of("memory_limit_mb"), "8");
	EXPECT_EQ(meta_bytes(), before);
	EXPECT_STATUS(weir_options_set("memory_limit_mb:x"), WEIR_EINVAL);
}

/* They print alike, and yet they are different values. */
TEST(fractions_that_differ_in_the_seventh_digit_are_both_in_force_in_turn)
{
	for (int i = 0; i < 4; i++) {
		bool odd = i % 2 != 0;

		EXPECT_OK(weir_options_set(odd ?
			"garbage_collection_threshold:0.1234567" :
			"garbage_collection_threshold:0.1234568"));
		EXPECT(options_peek()->garbage_collection_threshold ==
		    (odd ? 0.1234567 : 0.1234568));
		EXPECT_OK(weir_options_set(odd ?
			"per_process_memory_fraction:0.7654321" :
			"per_process_memory_fraction:0.7654322"));
		EXPECT(options_peek()->memory_fraction ==
		    (odd ? 0.7654321 : 0.7654322));
		EXPECT_OK(weir_options_set(odd ? "delay_percent:1.2345671" :
						 "delay_percent:1.2345672"));
		EXPECT(options_peek()->delay_percent ==
		    (odd ? 1.2345671 : 1.2345672));
	}
}

TEST(a_huge_size_reads_back_as_a_value_that_is_accepted)
{
	static const char *const keys[] = { "tcache", "handle_mb",
		"max_split_size_mb", "memory_limit_mb",
		"pinned_reserve_segment_size_mb", "pinned_idle_mb" };
	static const char *const huge[] = { "17592186044415", "17592186044416",
		"18446744073709551615" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		for (size_t k = 0; k < 3; k++) {
			char conf[128];
			char once[64];

			snprintf(conf, sizeof(conf), "%s:%s", keys[i], huge[k]);
			if (weir_options_set(conf) != WEIR_OK)
				continue;
			snprintf(once, sizeof(once), "%s", value_of(keys[i]));
			snprintf(conf, sizeof(conf), "%s:%s", keys[i], once);
			EXPECT_OK(weir_options_set(conf));
			EXPECT_STR_EQ(value_of(keys[i]), once);
		}
}

TEST(an_unknown_option_is_refused_with_a_similar_one)
{
	EXPECT_EQ(weir_options_set("prefr:speed"), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(),
	    "unknown option 'prefr'; did you mean 'prefer'?");
	EXPECT_EQ(weir_options_set("memory_limit:64"), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "did you mean 'memory_limit_mb'?");
	EXPECT_EQ(weir_options_set("colour:red"), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "unknown option 'colour'");
	EXPECT_NULL(strstr(weir_last_error(), "did you mean"));
	char longest[300];

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	EXPECT_EQ(weir_options_set(longest), WEIR_EINVAL);
	EXPECT_NULL(strstr(weir_last_error(), "did you mean"));
}

TEST(a_misspelt_value_is_refused_with_a_similar_one)
{
	static const char *const pairs[][2] = {
		{ "prefer:spede", "'speed'" },
		{ "memory_limit_mb:unlimitd", "'unlimited'" },
		{ "history:stat", "'state'" },
		{ "watch:Treu", "'True'" },
		{ "decay_ms:of", "'off'" },
		{ "snapshot_signal:USR", "'USR1'" },
	};
	static const char *const far[] = { "prefer:haste",
		"prefer:", "handle_mb:1", "handle_mb:mor",
		"decay_ms:3162240000x", "pinned_num_register_threads:powr" };
	char wanted[64];

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		EXPECT_EQ(weir_options_set(pairs[i][0]), WEIR_EINVAL);
		snprintf(
		    wanted, sizeof(wanted), "; did you mean %s?", pairs[i][1]);
		EXPECT_STR_HAS(weir_last_error(), wanted);
	}
	for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
		EXPECT_EQ(weir_options_set(far[i]), WEIR_EINVAL);
		EXPECT_NULL(strstr(weir_last_error(), "did you mean"));
	}
	EXPECT_STR_EQ(value_of("prefer"), "balance");
}
