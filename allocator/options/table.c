/*
 * The table of all options, with the functions that parse and print each.
 */
#include "allocator/options/table.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/os.h"

static bool
is_power_of_two(uint64_t n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

static bool
set_expandable(struct options *o, struct word word)
{
	return word_bool(word, &o->expandable_segments);
}

static void
print_expandable(const struct options *o, char *text, size_t size)
{
	snprintf(text, size, "%s", o->expandable_segments ? "True" : "False");
}

static bool
set_large_segment(struct options *o, struct word word)
{
	return word_mib(word, 11 * MIB, &o->large_segment_size) &&
	    o->large_segment_size < (size_t)1 << 40;
}

static void
print_large_segment(const struct options *o, char *text, size_t size)
{
	word_print_mib(o->large_segment_size, text, size);
}

static bool
set_max_split(struct options *o, struct word word)
{
	return word_unlimited(word, &o->max_split_size);
}

static void
print_max_split(const struct options *o, char *text, size_t size)
{
	word_print_mib(o->max_split_size, text, size);
}

static bool
set_non_split(struct options *o, struct word word)
{
	return word_mib(word, 0, &o->max_non_split_rounding);
}

static void
print_non_split(const struct options *o, char *text, size_t size)
{
	word_print_mib(o->max_non_split_rounding, text, size);
}

static bool
set_gc(struct options *o, struct word word)
{
	double value;

	if (!word_number(word, &value) || value < 0 || value >= 1)
		return false;
	o->garbage_collection_threshold = value;
	return true;
}

static void
print_gc(const struct options *o, char *text, size_t size)
{
	os_format_real(o->garbage_collection_threshold, 6, text, size);
}

static bool
set_fraction(struct options *o, struct word word)
{
	double value;

	if (!word_number(word, &value) || value < 0 || value > 1)
		return false;
	o->memory_fraction = value;
	return true;
}

static void
print_fraction(const struct options *o, char *text, size_t size)
{
	os_format_real(o->memory_fraction, 6, text, size);
}

static bool
parse_limit(struct options *o, struct word word)
{
	return word_unlimited(word, &o->memory_limit);
}

static void
print_limit(const struct options *o, char *text, size_t size)
{
	word_print_mib(o->memory_limit, text, size);
}

static bool
set_tcache(struct options *o, struct word word)
{
	return word_mib(word, 0, &o->tcache);
}

static void
print_tcache(const struct options *o, char *text, size_t size)
{
	word_print_mib(o->tcache, text, size);
}

static bool
set_handle(struct options *o, struct word word)
{
	return word_mib(word, 2 * MIB, &o->handle_max);
}

static void
print_handle(const struct options *o, char *text, size_t size)
{
	word_print_mib(o->handle_max, text, size);
}

static bool
set_guard(struct options *o, struct word word)
{
	uint64_t bytes;

	if (!word_count(word, &bytes) || bytes > GUARD_MAX)
		return false;
	o->guard = (size_t)bytes;
	return true;
}

static void
print_guard(const struct options *o, char *text, size_t size)
{
	snprintf(text, size, "%zu", o->guard);
}

static bool
set_delay(struct options *o, struct word word)
{
	double value;

	if (!word_number(word, &value) || value < 0 || value > 100)
		return false;
	o->delay_percent = value;
	return true;
}

static void
print_delay(const struct options *o, char *text, size_t size)
{
	os_format_real(o->delay_percent, 6, text, size);
}

static const char *const prefer_names[] = { "speed", "balance", "memory" };

static bool
set_prefer(struct options *o, struct word word)
{
	for (int i = 0; i < 3; i++)
		if (word_is(word, prefer_names[i])) {
			o->prefer = (enum prefer)i;
			return true;
		}
	return false;
}

static void
print_prefer(const struct options *o, char *text, size_t size)
{
	snprintf(text, size, "%s", prefer_names[o->prefer]);
}

/* The bound of a year keeps the time in range, which is counted in nanoseconds
 * and doubled. */
static bool
set_decay(struct options *o, struct word word)
{
	static const uint64_t most_ms = (uint64_t)366 * 24 * 3600 * 1000;
	uint64_t ms;

	if (word_is(word, "off")) {
		o->decay_ms = OPTION_OFF;
		return true;
	}
	if (!word_count(word, &ms) || ms == 0 || ms > most_ms)
		return false;
	o->decay_ms = ms;
	return true;
}

static void
print_decay(const struct options *o, char *text, size_t size)
{
	if (o->decay_ms == OPTION_OFF)
		snprintf(text, size, "off");
	else
		snprintf(text, size, "%llu", (unsigned long long)o->decay_ms);
}

static bool
set_reclaim(struct options *o, struct word word)
{
	return word_bool(word, &o->reclaim_always);
}

static void
print_reclaim(const struct options *o, char *text, size_t size)
{
	snprintf(text, size, "%s", o->reclaim_always ? "True" : "False");
}

/* ---- Page-locked host memory -------------------------------------------- */

static void
print_flag(bool value, char *text, size_t size)
{
	snprintf(text, size, "%s", value ? "True" : "False");
}

static bool
set_pinned_register(struct options *o, struct word word)
{
	return word_bool(word, &o->pinned_register);
}

static void
print_pinned_register(const struct options *o, char *text, size_t size)
{
	print_flag(o->pinned_register, text, size);
}

/* In the order of enum weir_host_source. */
static const char *const pinned_sources[] = { "handles", "system", "driver" };

const char *
options_source_name(unsigned source)
{
	return source < 3 ? pinned_sources[source] : NULL;
}

static bool
set_pinned_source(struct options *o, struct word word)
{
	for (unsigned i = 0; i < 3; i++)
		if (word_is(word, pinned_sources[i])) {
			o->pinned_source = i;
			return true;
		}
	return false;
}

static void
print_pinned_source(const struct options *o, char *text, size_t size)
{
	snprintf(text, size, "%s", pinned_sources[o->pinned_source]);
}

static bool
set_pinned_background(struct options *o, struct word word)
{
	return word_bool(word, &o->pinned_background);
}

static void
print_pinned_background(const struct options *o, char *text, size_t size)
{
	print_flag(o->pinned_background, text, size);
}

static bool
set_pinned_threads(struct options *o, struct word word)
{
	uint64_t n;

	if (!word_count(word, &n) || n > 128 || !is_power_of_two(n))
		return false;
	o->pinned_threads = (unsigned)n;
	return true;
}

static void
print_pinned_threads(const struct options *o, char *text, size_t size)
{
	snprintf(text, size, "%u", o->pinned_threads);
}

static bool
set_pinned_reserve(struct options *o, struct word word)
{
	return word_mib(word, 0, &o->pinned_reserve) &&
	    o->pinned_reserve < (size_t)1 << 60;
}

static void
print_pinned_reserve(const struct options *o, char *text, size_t size)
{
	word_print_mib(o->pinned_reserve, text, size);
}

static bool
set_pinned_limit(struct options *o, struct word word)
{
	return word_unlimited(word, &o->pinned_limit);
}

static void
print_pinned_limit(const struct options *o, char *text, size_t size)
{
	word_print_mib(o->pinned_limit, text, size);
}

static bool
set_pinned_idle(struct options *o, struct word word)
{
	return word_unlimited(word, &o->pinned_idle);
}

static void
print_pinned_idle(const struct options *o, char *text, size_t size)
{
	word_print_mib(o->pinned_idle, text, size);
}

/* ---- History, snapshots, watchers --------------------------------------- */

static const char *const level_names[] = { "none", "state", "alloc", "all" };

static bool
parse_history(struct options *o, struct word word)
{
	o->history = !word_is(word, "off");
	o->history_level = WEIR_HISTORY_NONE;
	for (int i = 0; i <= WEIR_HISTORY_ALL; i++)
		if (word_is(word, level_names[i])) {
			o->history_level = (enum weir_history_level)i;
			return true;
		}
	return !o->history;
}

static void
print_history(const struct options *o, char *text, size_t size)
{
	snprintf(text, size, "%s",
	    o->history ? level_names[o->history_level] : "off");
}

/* An entry takes 64 bytes. The bound refuses a number that no host has memory
 * for. */
static bool
set_entries(struct options *o, struct word word)
{
	uint64_t n;

	if (!word_count(word, &n) || n == 0 || n > (uint64_t)1 << 32)
		return false;
	o->history_entries = n;
	return true;
}

static void
print_entries(const struct options *o, char *text, size_t size)
{
	snprintf(text, size, "%zu", o->history_entries);
}

static bool
set_snapshot(struct options *o, struct word word)
{
	if (!word_is(word, "none"))
		return word_copy(word, o->snapshot, sizeof(o->snapshot));
	o->snapshot[0] = '\0';
	return true;
}

/* Print the path of the snapshot. If it does not fit, print its end, by which
 * paths differ. */
static void
print_snapshot(const struct options *o, char *text, size_t size)
{
	size_t length = strlen(o->snapshot);

	if (length == 0)
		snprintf(text, size, "none");
	else if (length < size)
		snprintf(text, size, "%s", o->snapshot);
	else
		snprintf(
		    text, size, "...%s", o->snapshot + length - (size - 4));
}

static const struct {
	const char *name;
	int number;
} signals[] = { { "off", 0 }, { "USR1", SIGUSR1 }, { "USR2", SIGUSR2 } };

static bool
set_signal(struct options *o, struct word word)
{
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (word_is(word, signals[i].name)) {
			o->snapshot_signal = signals[i].number;
			return true;
		}
	return false;
}

static void
print_signal(const struct options *o, char *text, size_t size)
{
	size_t i = 0;

	while (signals[i].number != o->snapshot_signal)
		i++;
	snprintf(text, size, "%s", signals[i].name);
}

static bool
set_watch(struct options *o, struct word word)
{
	return word_bool(word, &o->watch);
}

static void
print_watch(const struct options *o, char *text, size_t size)
{
	print_flag(o->watch, text, size);
}

/* ---- Divisions of powers of two ---------------------------------------- */

/* The class of a key in MiB. */
static bool
roundup_class(struct word word, size_t *out)
{
	uint64_t mib;

	if (!word_count(word, &mib) || !is_power_of_two(mib))
		return false;
	size_t log = (size_t)__builtin_ctzll(mib);
	*out = log < ROUNDUP_CLASSES ? log : ROUNDUP_CLASSES - 1;
	return true;
}

/* More divisions than `most` round no size of a device up. */
static bool
roundup_value(struct word word, uint32_t *out)
{
	static const uint32_t most = UINT32_C(1) << 31;
	uint64_t n;

	if (!word_count(word, &n) || (n != 0 && !is_power_of_two(n)))
		return false;
	*out = n < most ? (uint32_t)n : most;
	return true;
}

/* Cut the next token of a list off *rest: one of "[]:,", or the text up to
 * the next of them, without the blanks around it. Empty at the end. */
static struct word
next_token(struct word *rest)
{
	struct word token = *rest;
	size_t blanks = 0;
	size_t n = 0;

	while (blanks < rest->length && word_blank(rest->at[blanks]))
		blanks++;
	token.at += blanks;
	token.length -= blanks;
	while (n < token.length && strchr("[]:,", token.at[n]) == NULL)
		n++;
	if (n == 0 && token.length > 0)
		n = 1;
	*rest = token;
	rest->at += n;
	rest->length -= n;
	token.length = n;
	while (n > 0 && word_blank(token.at[n - 1]))
		token.length = --n;
	return token;
}

/* Apply one entry of a list, "key:value", to the classes. *last is the class of
 * the entry before, or ROUNDUP_CLASSES for the first entry that has a class. */
static bool
set_roundup_entry(
    uint32_t *classes, struct word key, struct word text, size_t *last)
{
	size_t first = *last % ROUNDUP_CLASSES + 1;
	size_t class;
	uint32_t value;

	if (!roundup_value(text, &value))
		return false;
	if (word_is(key, ">")) {
		for (size_t i = first; i < ROUNDUP_CLASSES; i++)
			classes[i] = value;
		return true;
	}
	if (!roundup_class(key, &class))
		return false;
	for (size_t i = 0; *last == ROUNDUP_CLASSES && i < class; i++)
		classes[i] = value;
	classes[class] = value;
	*last = class;
	return true;
}

/*
 * [256:1,512:2,>:4]: each key is the lower bound of a class in MiB. Sizes below
 * the first key have its value, and > has the value for all classes above the
 * last key, or above 1 MiB if there is none. Classes that no entry names are
 * not rounded; in PyTorch's variable they keep the value that an earlier list
 * gave them. So reads PyTorch's parser, whatever its manual says; it does not
 * look at the separators either.
 */
static bool
set_roundup_list(struct options *o, struct word word)
{
	uint32_t classes[ROUNDUP_CLASSES] = { 0 };
	size_t last = ROUNDUP_CLASSES;
	struct word rest = word;

	if (word.pytorch)
		memcpy(classes, o->roundup, sizeof(classes));
	next_token(&rest); /* the bracket */
	for (;;) {
		struct word key = next_token(&rest);
		if (word_is(key, "]"))
			break;
		struct word colon = next_token(&rest);
		struct word value = next_token(&rest);
		if ((!word.pytorch && !word_is(colon, ":")) ||
		    !set_roundup_entry(classes, key, value, &last))
			return false;
		struct word after = rest;
		struct word comma = next_token(&after);
		if (word_is(comma, "]"))
			continue;
		if (!word.pytorch && !word_is(comma, ","))
			return false;
		rest = after;
	}
	if (next_token(&rest).length != 0)
		return false;
	memcpy(o->roundup, classes, sizeof(classes));
	return true;
}

static bool
set_roundup_all(struct options *o, struct word word)
{
	uint32_t value;

	if (!roundup_value(word, &value))
		return false;
	for (size_t i = 0; i < ROUNDUP_CLASSES; i++)
		o->roundup[i] = value;
	return true;
}

static bool
set_roundup(struct options *o, struct word word)
{
	bool list = word.length > 0 && word.at[0] == '[';

	if (list ? !set_roundup_list(o, word) : !set_roundup_all(o, word))
		return false;
	o->rounds = false;
	for (size_t i = 0; i < ROUNDUP_CLASSES; i++)
		o->rounds = o->rounds || o->roundup[i] != 0;
	return true;
}

/* Print the list that sets the classes. The first entry stands for all classes
 * up to its own, and > for the last ones. */
static void
print_roundup(const struct options *o, char *text, size_t size)
{
	const uint32_t *classes = o->roundup;
	size_t first = 0;
	size_t tail = ROUNDUP_CLASSES - 1;

	while (first < tail && classes[first + 1] == classes[0])
		first++;
	while (tail > 0 && classes[tail - 1] == classes[ROUNDUP_CLASSES - 1])
		tail--;
	if (tail == 0) {
		snprintf(text, size, "%u", classes[0]);
		return;
	}
	size_t used = (size_t)snprintf(
	    text, size, "[%zu:%u", (size_t)1 << first, classes[0]);
	for (size_t i = first + 1; i < ROUNDUP_CLASSES && used < size; i++) {
		bool rest = i == tail && tail < ROUNDUP_CLASSES - 1;

		used += rest ? (size_t)snprintf(text + used, size - used,
				   ",>:%u", classes[i]) :
			       (size_t)snprintf(text + used, size - used,
				   ",%zu:%u", (size_t)1 << i, classes[i]);
		if (rest)
			break;
	}
	if (used < size)
		snprintf(text + used, size - used, "]");
}

/* ---- The table --------------------------------------------------------- */

const struct entry option_entries[] = {
	{ "expandable_segments", "bool", "True", "True or False",
	    "Grow each stream's pool in one reserved range of addresses, "
	    "mapped "
	    "as it is needed.",
	    set_expandable, print_expandable },
	{ "large_segment_size_mb", "MiB", "20", "11 or more",
	    "Most bytes of a driver segment for requests from 1 to 10 MiB, "
	    "where segments are not expandable. A segment fits a number of "
	    "blocks of the request's size.",
	    set_large_segment, print_large_segment },
	{ "max_split_size_mb", "MiB", "unlimited",
	    "large_segment_size_mb or more, or unlimited",
	    "Blocks of driver segments from this size on are not cut.",
	    set_max_split, print_max_split },
	{ "max_non_split_rounding_mb", "MiB", "20",
	    "large_segment_size_mb or more",
	    "The most by which a block that is not cut may exceed the "
	    "request.",
	    set_non_split, print_non_split },
	{ "garbage_collection_threshold", "fraction", "0",
	    "0 (off) or more, below 1",
	    "If more than this share of the limit, or of the device, is "
	    "held, memory that was unused for longer than the average "
	    "goes back to the driver before more is taken.",
	    set_gc, print_gc },
	{ "roundup_power2_divisions", "divisions", "0",
	    "0, a power of two, or a list [MiB:divisions,...,>:divisions]",
	    "Round requests up to one of this many steps between two "
	    "powers of two.",
	    set_roundup, print_roundup },
	{ "per_process_memory_fraction", "fraction", "1", "0 to 1",
	    "The limit of a device as a fraction of its memory; taken at its "
	    "first use.",
	    set_fraction, print_fraction },
	{ "memory_limit_mb", "MiB", "unlimited", "0 or more, or unlimited",
	    "The limit of each device; taken at its first use.", parse_limit,
	    print_limit },
	{ "tcache", "MiB", "64", "0 or more",
	    "How much memory of small freed blocks a thread keeps, for "
	    "each stream; it also keeps a few larger blocks. 0 keeps "
	    "nothing.",
	    set_tcache, print_tcache },
	{ "handle_mb", "MiB", "256", "2 or more",
	    "The largest piece of physical memory that is mapped into "
	    "an expandable segment, and taken out of it, as a whole. A "
	    "piece is an eighth of the request that it is made for, or "
	    "8 MiB if that is more, but no more than a 1,024th of the "
	    "limit and a 128th of the device's memory. With 2, a "
	    "request fails only if it and the granules of 2 MiB that "
	    "live blocks lie in exceed the limit, whenever that was "
	    "set.",
	    set_handle, print_handle },
	{ "prefer", "word", "balance", "speed, balance or memory",
	    "Whether a stream waits on the device for free memory that "
	    "work on other streams may still use: never, and more is "
	    "taken from the driver (speed); always, as long as there is "
	    "such memory (memory); balance is between. With memory, a "
	    "large block is taken where it fits best among all streams' "
	    "memory, so that hardly more is held than with one stream. "
	    "The price is time: streams that are always busy wait for "
	    "each other, as if they were one, and a program of several "
	    "busy streams lasted up to 2.7 times as long, one that only "
	    "copies beside its computation 1.1 times. A program of one "
	    "stream waits for nothing.",
	    set_prefer, print_prefer },
	{ "delay_percent", "percent", "1", "0 to 100",
	    "By how much waits on the device may delay the program. weir "
	    "measures how late its waits have made each stream; within this "
	    "part of the time a stream waits where memory is dear, beyond it "
	    "only where that seems to cost nothing, and beyond twice "
	    "this part not at all. For prefer:balance; speed waits "
	    "never, memory always. Half of it is for moving memory.",
	    set_delay, print_delay },
	{ "decay_ms", "ms", "10000", "1 to 31622400000, or off",
	    "Memory that has been unused for this time goes back to the "
	    "driver, at a later request that looks for it; the time "
	    "doubles each time the memory was needed again.",
	    set_decay, print_decay },
	{ "pinned_use_cuda_host_register", "bool", "False", "True or False",
	    "PyTorch's, for pages that are allocated faster. It has no "
	    "effect: pinned_source says where pages come from.",
	    set_pinned_register, print_pinned_register },
	{ "pinned_source", "word", "handles", "handles, system or driver",
	    "Where page-locked host memory comes from: handles of the "
	    "driver, which are mapped where they are needed; pages of the "
	    "system that are registered, also where the driver has no such "
	    "handles; or cuMemHostAlloc().",
	    set_pinned_source, print_pinned_source },
	{ "pinned_num_register_threads", "threads", "1",
	    "a power of two up to 128",
	    "How many threads touch the pages before they are registered.",
	    set_pinned_threads, print_pinned_threads },
	{ "pinned_reserve_segment_size_mb", "MiB", "0", "0 (off) or more",
	    "Page-locked host memory that is allocated in one piece at "
	    "the first request; it serves requests and is kept.",
	    set_pinned_reserve, print_pinned_reserve },
	{ "pinned_use_background_threads", "bool", "False", "True or False",
	    "A thread checks when freed page-locked host memory may be "
	    "used again, and gives back memory that has been unused for "
	    "long.",
	    set_pinned_background, print_pinned_background },
	{ "pinned_limit_mb", "MiB", "unlimited", "0 or more, or unlimited",
	    "The most page-locked host memory held for each device.",
	    set_pinned_limit, print_pinned_limit },
	{ "pinned_idle_mb", "MiB", "unlimited", "0 or more, or unlimited",
	    "The most page-locked host memory kept unused, of each "
	    "kind; a free gives back memory beyond it.",
	    set_pinned_idle, print_pinned_idle },
	{ "history", "level", "off", "off, none, state, alloc or all",
	    "Keep the history from the first allocation on. The level "
	    "says where stacks are taken (enum weir_history_level).",
	    parse_history, print_history },
	{ "history_entries", "count", "1000000", "1 to 4294967296",
	    "How many events of each device the history keeps, the "
	    "latest.",
	    set_entries, print_entries },
	{ "snapshot", "file", "none", "a file's name without a comma, or none",
	    "Write a snapshot to this file when the process ends, and "
	    "at the first request that finds no memory, which the end "
	    "does not overwrite. %p in the name is the process, %w is "
	    "exit, oom or signal. JSON if the name ends in .json. Set "
	    "it before the first allocation.",
	    set_snapshot, print_snapshot },
	{ "snapshot_signal", "signal", "off", "off, USR1 or USR2",
	    "Write the snapshot at this signal too, unless the program "
	    "has a use for the signal. Set it before the first "
	    "allocation.",
	    set_signal, print_signal },
	{ "watch", "bool", "False", "True or False",
	    "Let 'weir watch' look at the process while it runs. Set it "
	    "before the first allocation.",
	    set_watch, print_watch },
	{ "guard", "bytes", "0", "0 (off) to 1048576",
	    "For finding faults of the program: at least this many "
	    "bytes before and behind each block of device memory hold a "
	    "pattern, which is checked when the block is freed, and "
	    "freed memory is filled with 0xff. Each allocation and free "
	    "then waits for the device; thread caches are off. Set it "
	    "before the first allocation.",
	    set_guard, print_guard },
	{ "reclaim_always", "bool", "False", "True or False",
	    "For tests: give all unused memory back before each allocation.",
	    set_reclaim, print_reclaim },
};

const size_t option_entry_count =
    sizeof(option_entries) / sizeof(option_entries[0]);

/* PyTorch's options for features that weir does not have or has always. In
 * PyTorch's variable they are no mistake. */
static const char *const foreign_keys[] = {
	"backend",
	"release_lock_on_cudamalloc",
	"release_lock_on_hipmalloc",
	"pinned_free_catch_all",
	"pinned_max_round_threshold_mb",
	"pinned_max_cached_size_mb",
	"graph_capture_record_stream_reuse",
	"throw_on_cudamalloc_oom",
	"expandable_segments_reserve",
	"expandable_segments_reserve_by_class",
	"svm",
};

/* Options that weir and PyTorch have. */
static const char *const pytorch_keys[] = {
	"expandable_segments",
	"large_segment_size_mb",
	"max_split_size_mb",
	"max_non_split_rounding_mb",
	"garbage_collection_threshold",
	"roundup_power2_divisions",
	"per_process_memory_fraction",
	"pinned_use_cuda_host_register",
	"pinned_num_register_threads",
	"pinned_reserve_segment_size_mb",
	"pinned_use_background_threads",
};

const struct entry *
entry_find(struct word key)
{
	for (size_t i = 0; i < option_entry_count; i++)
		if (word_is(key, option_entries[i].key))
			return &option_entries[i];
	return NULL;
}

const struct entry *
entry_find_pytorch(struct word key)
{
	static const char name[] = "pinned_use_cuda_host_register";

	if (!word_is(key, "pinned_use_hip_host_register"))
		return entry_find(key);
	return entry_find((struct word){ .at = name, .length = strlen(name) });
}

static bool
is_one_of(struct word key, const char *const *keys, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (word_is(key, keys[i]))
			return true;
	return false;
}

bool
entry_is_pytorch(const struct entry *entry)
{
	struct word key = { .at = entry->key, .length = strlen(entry->key) };

	return is_one_of(
	    key, pytorch_keys, sizeof(pytorch_keys) / sizeof(pytorch_keys[0]));
}

bool
entry_is_foreign(struct word key)
{
	return is_one_of(
	    key, foreign_keys, sizeof(foreign_keys) / sizeof(foreign_keys[0]));
}
