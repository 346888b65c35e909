/*
 * The option table, and the values.
 *
 * A text is parsed into a copy of the values in force; only when all of it is
 * right is the copy published. Readers take no lock: they load a pointer to
 * values that never change. What is replaced is kept, since a reader may still
 * look at it; options change a handful of times in a process.
 */
#include "allocator/options.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/meta.h"
#include "base/nearest.h"
#include "base/os.h"
#include "base/status.h"

#define MIB ((size_t)1 << 20)

/* A value in the text: [at, at + length), not terminated. */
struct word {
	const char *at;
	size_t length;
};

/* One row of the table. */
struct entry {
	const char *key;
	const char *type;
	const char *fallback;
	const char *range;
	const char *help;
	/* Set it from a word; false if the word is not in range. */
	bool (*parse)(struct options *options, struct word word);
	void (*print)(const struct options *options, char *text, size_t size);
};

/* ---- Words ------------------------------------------------------------- */

static bool
word_is(struct word word, const char *text)
{
	return strlen(text) == word.length &&
	    strncmp(word.at, text, word.length) == 0;
}

/* The word as a terminated string; false if it is too long for a value. */
static bool
word_copy(struct word word, char *text, size_t size)
{
	if (word.length == 0 || word.length >= size)
		return false;
	memcpy(text, word.at, word.length);
	text[word.length] = '\0';
	return true;
}

static bool
parse_bool(struct word word, bool *out)
{
	static const char *const yes[] = { "True", "true", "1", "on", "yes" };
	static const char *const no[] = { "False", "false", "0", "off", "no" };

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		if (word_is(word, yes[i]) || word_is(word, no[i])) {
			*out = word_is(word, yes[i]);
			return true;
		}
	}
	return false;
}

/* A whole number in decimal, nothing else. */
static bool
parse_count(struct word word, uint64_t *out)
{
	char text[32];
	char *end;

	if (!word_copy(word, text, sizeof(text)) ||
	    strspn(text, "0123456789") != word.length)
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return errno == 0;
}

static bool
parse_number(struct word word, double *out)
{
	char text[64];
	char *end;

	if (!word_copy(word, text, sizeof(text)))
		return false;
	*out = os_parse_real(text, &end);
	return *end == '\0' && isfinite(*out);
}

static bool
is_power_of_two(uint64_t n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

/* Mebibytes into bytes, at least `least` bytes. What is more than bytes can be
 * is the most that is a whole number of them, so that it reads back as one. */
static bool
parse_mib(struct word word, size_t least, size_t *out)
{
	uint64_t n;

	if (!parse_count(word, &n))
		return false;
	size_t bytes = (n < SIZE_MAX / MIB ? n : SIZE_MAX / MIB) * MIB;
	if (bytes < least)
		return false;
	*out = bytes;
	return true;
}

/* The same, or the word for no bound, which a huge number is too. */
static bool
parse_unlimited(struct word word, size_t *out)
{
	uint64_t n;

	if (!word_is(word, "unlimited") &&
	    !(parse_count(word, &n) && n > SIZE_MAX / MIB))
		return parse_mib(word, 0, out);
	*out = OPTION_UNLIMITED;
	return true;
}

static void
print_mib(size_t bytes, char *text, size_t size)
{
	if (bytes == OPTION_UNLIMITED)
		snprintf(text, size, "unlimited");
	else
		snprintf(text, size, "%zu", bytes / MIB);
}

/* ---- The options ------------------------------------------------------- */

static bool
set_expandable(struct options *o, struct word word)
{
	return parse_bool(word, &o->expandable_segments);
}

static void
print_expandable(const struct options *o, char *text, size_t size)
{
	snprintf(text, size, "%s", o->expandable_segments ? "True" : "False");
}

static bool
set_large_segment(struct options *o, struct word word)
{
	return parse_mib(word, 11 * MIB, &o->large_segment_size) &&
	    o->large_segment_size < (size_t)1 << 40;
}

static void
print_large_segment(const struct options *o, char *text, size_t size)
{
	print_mib(o->large_segment_size, text, size);
}

static bool
set_max_split(struct options *o, struct word word)
{
	return parse_unlimited(word, &o->max_split_size);
}

static void
print_max_split(const struct options *o, char *text, size_t size)
{
	print_mib(o->max_split_size, text, size);
}

static bool
set_non_split(struct options *o, struct word word)
{
	return parse_mib(word, 0, &o->max_non_split_rounding);
}

static void
print_non_split(const struct options *o, char *text, size_t size)
{
	print_mib(o->max_non_split_rounding, text, size);
}

static bool
set_gc(struct options *o, struct word word)
{
	double value;

	if (!parse_number(word, &value) || value < 0 || value >= 1)
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

	if (!parse_number(word, &value) || value < 0 || value > 1)
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
	return parse_unlimited(word, &o->memory_limit);
}

static void
print_limit(const struct options *o, char *text, size_t size)
{
	print_mib(o->memory_limit, text, size);
}

static bool
set_growth(struct options *o, struct word word)
{
	return parse_mib(word, 0, &o->growth_max);
}

static void
print_growth(const struct options *o, char *text, size_t size)
{
	print_mib(o->growth_max, text, size);
}

static bool
set_tcache(struct options *o, struct word word)
{
	return parse_mib(word, 0, &o->tcache);
}

static void
print_tcache(const struct options *o, char *text, size_t size)
{
	print_mib(o->tcache, text, size);
}

static bool
set_handle(struct options *o, struct word word)
{
	return parse_mib(word, 2 * MIB, &o->handle_max);
}

static void
print_handle(const struct options *o, char *text, size_t size)
{
	print_mib(o->handle_max, text, size);
}

static bool
set_guard(struct options *o, struct word word)
{
	uint64_t bytes;

	if (!parse_count(word, &bytes) || bytes > GUARD_MAX)
		return false;
	o->guard = (size_t)bytes;
	return true;
}

static void
print_guard(const struct options *o, char *text, size_t size)
{
	snprintf(text, size, "%zu", o->guard);
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

/* No longer than a year: times are counted in nanoseconds, and doubled. */
static bool
set_decay(struct options *o, struct word word)
{
	static const uint64_t most_ms = (uint64_t)366 * 24 * 3600 * 1000;
	uint64_t ms;

	if (word_is(word, "off")) {
		o->decay_ms = OPTION_OFF;
		return true;
	}
	if (!parse_count(word, &ms) || ms == 0 || ms > most_ms)
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
	return parse_bool(word, &o->reclaim_always);
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
	return parse_bool(word, &o->pinned_register);
}

static void
print_pinned_register(const struct options *o, char *text, size_t size)
{
	print_flag(o->pinned_register, text, size);
}

static bool
set_pinned_background(struct options *o, struct word word)
{
	return parse_bool(word, &o->pinned_background);
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

	if (!parse_count(word, &n) || n > 128 || !is_power_of_two(n))
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
	return parse_mib(word, 0, &o->pinned_reserve) &&
	    o->pinned_reserve < (size_t)1 << 60;
}

static void
print_pinned_reserve(const struct options *o, char *text, size_t size)
{
	print_mib(o->pinned_reserve, text, size);
}

static bool
set_pinned_limit(struct options *o, struct word word)
{
	return parse_unlimited(word, &o->pinned_limit);
}

static void
print_pinned_limit(const struct options *o, char *text, size_t size)
{
	print_mib(o->pinned_limit, text, size);
}

static bool
set_pinned_idle(struct options *o, struct word word)
{
	return parse_unlimited(word, &o->pinned_idle);
}

static void
print_pinned_idle(const struct options *o, char *text, size_t size)
{
	print_mib(o->pinned_idle, text, size);
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

/* 64 bytes each; so many that no host has them are a mistake. */
static bool
set_entries(struct options *o, struct word word)
{
	uint64_t n;

	if (!parse_count(word, &n) || n == 0 || n > (uint64_t)1 << 32)
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

/* Of what does not fit, the end is what tells. */
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
	return parse_bool(word, &o->watch);
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

	if (!parse_count(word, &mib) || !is_power_of_two(mib))
		return false;
	size_t log = (size_t)__builtin_ctzll(mib);
	*out = log < ROUNDUP_CLASSES ? log : ROUNDUP_CLASSES - 1;
	return true;
}

static bool
roundup_value(struct word word, uint32_t *out)
{
	uint64_t n;

	if (!parse_count(word, &n) || n > 1u << 20 ||
	    (n != 0 && !is_power_of_two(n)))
		return false;
	*out = (uint32_t)n;
	return true;
}

/* Take [at, end) up to `stop`, or all of it. */
static struct word
next_word(const char **at, const char *end, char stop)
{
	struct word word = { .at = *at };

	while (*at < end && **at != stop)
		(*at)++;
	word.length = (size_t)(*at - word.at);
	if (*at < end)
		(*at)++;
	return word;
}

/*
 * [256:1,512:2,>:4]: each key is the lower bound of a class in MiB. What is
 * below the first key has its value, what lies between two keys the lower
 * one's, and > is for all above the last.
 */
static bool
set_roundup_list(struct options *o, struct word word)
{
	const char *at = word.at + 1;
	const char *end = word.at + word.length - 1;
	uint32_t table[ROUNDUP_CLASSES];
	size_t from = 0; /* classes below it are settled */

	if (at == end)
		return false;
	while (at < end) {
		struct word key = next_word(&at, end, ':');
		struct word text = next_word(&at, end, ',');
		size_t class = from;
		uint32_t value;
		if (!roundup_value(text, &value))
			return false;
		if (word_is(key, ">")) {
			if (from == 0 || at < end)
				return false;
		} else if (!roundup_class(key, &class) ||
		    (from > 0 && class < from)) {
			return false;
		}
		for (size_t i = from; from > 0 && i < class; i++)
			table[i] = table[from - 1];
		for (size_t i = from == 0 ? 0 : class; i < ROUNDUP_CLASSES; i++)
			table[i] = value;
		from = class + 1;
		if (from > ROUNDUP_CLASSES)
			from = ROUNDUP_CLASSES;
	}
	memcpy(o->roundup, table, sizeof(table));
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
	bool list = word.length >= 2 && word.at[0] == '[' &&
	    word.at[word.length - 1] == ']';

	if (list ? !set_roundup_list(o, word) : !set_roundup_all(o, word))
		return false;
	o->rounds = false;
	for (size_t i = 0; i < ROUNDUP_CLASSES; i++)
		o->rounds = o->rounds || o->roundup[i] != 0;
	return true;
}

static void
print_roundup(const struct options *o, char *text, size_t size)
{
	size_t used = 0;
	bool same = true;

	for (size_t i = 1; i < ROUNDUP_CLASSES; i++)
		same = same && o->roundup[i] == o->roundup[0];
	if (same) {
		snprintf(text, size, "%u", o->roundup[0]);
		return;
	}
	/* Keys at which the value changes. */
	for (size_t i = 0; i < ROUNDUP_CLASSES && used < size; i++) {
		if (i > 0 && o->roundup[i] == o->roundup[i - 1])
			continue;
		used += (size_t)snprintf(text + used, size - used, "%s%zu:%u",
		    i == 0 ? "[" : ",", (size_t)1 << i, o->roundup[i]);
	}
	if (used < size)
		snprintf(text + used, size - used, "]");
}

/* ---- The table --------------------------------------------------------- */

static const struct entry entries[] = {
	{ "expandable_segments", "bool", "True", "True or False",
	    "Grow each stream's pool in one reserved range of addresses, "
	    "mapped "
	    "as it is needed.",
	    set_expandable, print_expandable },
	{ "large_segment_size_mb", "MiB", "20", "11 or more",
	    "Driver segments for requests from 1 to 10 MiB, where segments are "
	    "not expandable.",
	    set_large_segment, print_large_segment },
	{ "max_split_size_mb", "MiB", "unlimited",
	    "large_segment_size_mb or more, or unlimited",
	    "Blocks of driver segments from this size on are not cut.",
	    set_max_split, print_max_split },
	{ "max_non_split_rounding_mb", "MiB", "20",
	    "large_segment_size_mb or more",
	    "How much larger than the request a block that is not cut may be.",
	    set_non_split, print_non_split },
	{ "garbage_collection_threshold", "fraction", "0",
	    "0 (off) or more, below 1",
	    "Above this share of the limit, or of the device, memory unused "
	    "for "
	    "longer than the average goes back to the driver before more is "
	    "taken.",
	    set_gc, print_gc },
	{ "roundup_power2_divisions", "divisions", "0",
	    "0, a power of two, or a list [MiB:divisions,...,>:divisions]",
	    "Round requests up to one of so many steps between powers of two.",
	    set_roundup, print_roundup },
	{ "per_process_memory_fraction", "fraction", "1", "0 to 1",
	    "The limit of a device as a fraction of its memory; taken at its "
	    "first use.",
	    set_fraction, print_fraction },
	{ "memory_limit_mb", "MiB", "unlimited", "0 or more, or unlimited",
	    "The limit of each device; taken at its first use.", parse_limit,
	    print_limit },
	{ "growth_mb", "MiB", "8", "0 or more",
	    "How much an expandable segment is mapped ahead at most; where "
	    "several streams allocate, eight times as much.",
	    set_growth, print_growth },
	{ "tcache", "MiB", "64", "0 or more",
	    "How much a thread keeps of small blocks it has freed, for each "
	    "stream; it also keeps a few larger ones. 0 keeps nothing.",
	    set_tcache, print_tcache },
	{ "handle_mb", "MiB", "200", "2 or more",
	    "The largest piece of physical memory that is mapped into an "
	    "expandable segment, and taken out of one, as a whole; with one "
	    "stream, a fifth of it. Never more than a 1,024th of the limit, or "
	    "of the device's memory. With 2, a request fails only if it and "
	    "the granules of 2 MiB that live blocks lie in exceed the limit, "
	    "whenever that was set.",
	    set_handle, print_handle },
	{ "prefer", "word", "balance", "speed, balance or memory",
	    "What to do where memory is free but work on other streams is not "
	    "known to be done with it: take more from the driver (speed), or "
	    "wait on the device as long as there is any such memory (memory); "
	    "balance is between. With memory a large block is taken where it "
	    "fits best of all streams' memory, so that hardly more is held "
	    "than with one stream; streams that are always busy wait for each "
	    "other.",
	    set_prefer, print_prefer },
	{ "decay_ms", "ms", "10000", "1 to 31622400000, or off",
	    "Memory that has not been used for so long goes back to the "
	    "driver, when a request comes by that looks; the time doubles "
	    "each time it was needed again.",
	    set_decay, print_decay },
	{ "pinned_use_cuda_host_register", "bool", "False", "True or False",
	    "Take pages of page-locked host memory from the system and "
	    "register them, instead of allocating them with the driver: in "
	    "huge pages, near the device.",
	    set_pinned_register, print_pinned_register },
	{ "pinned_num_register_threads", "threads", "1",
	    "a power of two up to 128",
	    "How many threads touch the pages before they are registered.",
	    set_pinned_threads, print_pinned_threads },
	{ "pinned_reserve_segment_size_mb", "MiB", "0", "0 (off) or more",
	    "Page-locked host memory taken at once at the first request, which "
	    "then serves requests and is kept.",
	    set_pinned_reserve, print_pinned_reserve },
	{ "pinned_use_background_threads", "bool", "False", "True or False",
	    "A thread sees when freed page-locked host memory may be used "
	    "again, and gives back what has been unused for long.",
	    set_pinned_background, print_pinned_background },
	{ "pinned_limit_mb", "MiB", "unlimited", "0 or more, or unlimited",
	    "The most page-locked host memory held for each device.",
	    set_pinned_limit, print_pinned_limit },
	{ "pinned_idle_mb", "MiB", "unlimited", "0 or more, or unlimited",
	    "The most page-locked host memory kept unused, of each kind; a "
	    "free gives back what is beyond it.",
	    set_pinned_idle, print_pinned_idle },
	{ "history", "level", "off", "off, none, state, alloc or all",
	    "Keep the history from the first allocation on, with stacks as "
	    "enum weir_history_level has it.",
	    parse_history, print_history },
	{ "history_entries", "count", "1000000", "1 to 4294967296",
	    "Events of the history that are kept of each device, the latest.",
	    set_entries, print_entries },
	{ "snapshot", "file", "none", "a file's name without a comma, or none",
	    "Write a snapshot there when the process ends, and at the first "
	    "request that finds no memory, which then stays; %p is the "
	    "process, %w why: exit, oom or signal. JSON if it ends in .json. "
	    "Heeded at the first allocation.",
	    set_snapshot, print_snapshot },
	{ "snapshot_signal", "signal", "off", "off, USR1 or USR2",
	    "Write the snapshot at this signal too, unless the program has a "
	    "use for it. Heeded at the first allocation.",
	    set_signal, print_signal },
	{ "watch", "bool", "False", "True or False",
	    "Let 'weir watch' look at the process while it runs. Heeded at "
	    "the first allocation.",
	    set_watch, print_watch },
	{ "guard", "bytes", "0", "0 (off) to 1048576",
	    "For finding faults of the program: at least so many bytes before "
	    "and behind each block of device memory hold a pattern that is "
	    "looked at when it is freed, and freed memory is filled with 0xff. "
	    "Each allocation and free then waits for the device; thread caches "
	    "are off. Heeded at the first allocation.",
	    set_guard, print_guard },
	{ "reclaim_always", "bool", "False", "True or False",
	    "For tests: give all unused memory back before each allocation.",
	    set_reclaim, print_reclaim },
};

enum { ENTRIES = sizeof(entries) / sizeof(entries[0]) };

/* Options of PyTorch's that are about what weir does not have, or does
 * always; in its variable they are no mistake. */
static const char *const foreign_keys[] = {
	"backend",
	"release_lock_on_cudamalloc",
	"release_lock_on_hipmalloc",
	"pinned_use_hip_host_register",
	"pinned_free_catch_all",
	"pinned_max_round_threshold_mb",
	"pinned_max_cached_size_mb",
	"graph_capture_record_stream_reuse",
	"throw_on_cudamalloc_oom",
	"expandable_segments_reserve",
	"expandable_segments_reserve_by_class",
};

/* ---- Parsing a text ---------------------------------------------------- */

/* The word at *at that ends at `stop` or the text's end, spaces around it
 * dropped; brackets hide what is in them. */
static struct word
take_word(const char **at, const char *stops)
{
	struct word word;
	int depth = 0;

	while (**at == ' ' || **at == '\t')
		(*at)++;
	word.at = *at;
	while (**at != '\0' && (depth > 0 || strchr(stops, **at) == NULL)) {
		depth += (**at == '[') - (**at == ']');
		(*at)++;
	}
	word.length = (size_t)(*at - word.at);
	while (word.length > 0 &&
	    (word.at[word.length - 1] == ' ' ||
		word.at[word.length - 1] == '\t'))
		word.length--;
	return word;
}

static const struct entry *
find_entry(struct word key)
{
	for (size_t i = 0; i < ENTRIES; i++)
		if (word_is(key, entries[i].key))
			return &entries[i];
	return NULL;
}

static bool
is_foreign(struct word key)
{
	size_t n = sizeof(foreign_keys) / sizeof(foreign_keys[0]);

	for (size_t i = 0; i < n; i++)
		if (word_is(key, foreign_keys[i]))
			return true;
	return false;
}

/* Where a text came from, for its errors. */
struct origin {
	const char *name; /* "WEIR_CONF", "weir_options_set" */
	enum weir_option_source source;
	bool pytorch; /* foreign keys are understood */
};

/* With the key that may have been meant, if a third of it at most differs. */
static enum weir_status
refuse_key(const struct origin *origin, struct word key)
{
	const char *nearest = entries[0].key;

	for (size_t i = 1; i < ENTRIES; i++)
		if (nearest_distance(key.at, key.length, entries[i].key) <
		    nearest_distance(key.at, key.length, nearest))
			nearest = entries[i].key;
	if (nearest_distance(key.at, key.length, nearest) * 3 <= key.length)
		return status_set(WEIR_EINVAL,
		    "%s: unknown option '%.*s'; did you mean '%s'?",
		    origin->name, (int)key.length, key.at, nearest);
	return status_set(WEIR_EINVAL, "%s: unknown option '%.*s'",
	    origin->name, (int)key.length, key.at);
}

/* "option.tcache", the path of <weir/ctl.h>, is the key too. */
static struct word
key_of_path(struct word path)
{
	static const char part[] = "option.";
	const size_t length = sizeof(part) - 1;

	if (path.length <= length || strncmp(path.at, part, length) != 0)
		return path;
	return (struct word){ path.at + length, path.length - length };
}

static enum weir_status
apply(struct options *options, const struct origin *origin, struct word path,
    struct word value)
{
	const struct word key = key_of_path(path);
	const struct entry *entry = find_entry(key);

	if (entry == NULL && origin->pytorch && is_foreign(key)) {
		log_write(LOG_INFO, "%s: %.*s means nothing to weir",
		    origin->name, (int)key.length, key.at);
		return WEIR_OK;
	}
	if (entry == NULL)
		return refuse_key(origin, key);
	if (!entry->parse(options, value))
		return status_set(WEIR_EINVAL,
		    "%s: option %s: '%.*s' is not %s", origin->name, entry->key,
		    (int)value.length, value.at, entry->range);
	options->sources[entry - entries] = origin->source;
	return WEIR_OK;
}

static enum weir_status
check_bound(const struct options *options, const struct origin *origin,
    const char *key, size_t bytes)
{
	char value[32];
	const struct word word = { key, strlen(key) };

	if (bytes >= options->large_segment_size)
		return WEIR_OK;
	print_mib(bytes, value, sizeof(value));
	return status_set(WEIR_EINVAL, "%s: option %s: '%s' is not %s",
	    origin->name, key, value, find_entry(word)->range);
}

/* What large_segment_size_mb bounds, whatever came first in the text. */
static enum weir_status
check_bounds(struct options *options, const struct origin *origin)
{
	static const char non_split[] = "max_non_split_rounding_mb";
	const struct word word = { non_split, strlen(non_split) };

	if (options->sources[find_entry(word) - entries] == WEIR_OPTION_DEFAULT)
		options->max_non_split_rounding = options->large_segment_size;
	if (options->snapshot_signal != 0 && options->snapshot[0] == '\0')
		return status_set(WEIR_EINVAL,
		    "%s: option snapshot_signal: there is no option snapshot "
		    "to name the file",
		    origin->name);
	enum weir_status status = check_bound(
	    options, origin, "max_split_size_mb", options->max_split_size);
	if (status != WEIR_OK)
		return status;
	return check_bound(
	    options, origin, non_split, options->max_non_split_rounding);
}

static enum weir_status
parse(struct options *options, const struct origin *origin, const char *at)
{
	while (*at != '\0') {
		struct word key = take_word(&at, ":,");
		struct word value = { .at = "", .length = 0 };
		if (*at == ':') {
			at++;
			value = take_word(&at, ",");
		}
		if (*at == ',')
			at++;
		if (key.length == 0 && value.length == 0)
			continue; /* an empty item, as after a last comma */
		enum weir_status status = apply(options, origin, key, value);
		if (status != WEIR_OK)
			return status;
	}
	return check_bounds(options, origin);
}

/* ---- Values in force --------------------------------------------------- */

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_OPTIONS);
_Atomic(const struct options *) options_current;   /* written under lock */
static struct options *published GUARDED_BY(lock); /* all, latest first */

static struct options *
options_copy(const struct options *from)
{
	struct options *copy = meta_zalloc(sizeof(*copy));
	enum weir_option_source *sources =
	    meta_zalloc(ENTRIES * sizeof(*sources));

	if (copy == NULL || sources == NULL) {
		meta_free(copy, sizeof(*copy));
		meta_free(sources, ENTRIES * sizeof(*sources));
		return NULL;
	}
	if (from != NULL) {
		*copy = *from;
		memcpy(sources, from->sources, ENTRIES * sizeof(*sources));
	}
	copy->sources = sources;
	return copy;
}

static void
options_delete(struct options *options)
{
	meta_free(options->sources, ENTRIES * sizeof(*options->sources));
	meta_free(options, sizeof(*options));
}

/* Does each option have the same value, and from the same source? Texts tell
 * values apart, but for numbers with more digits than are printed. */
static bool
is_same(const struct options *a, const struct options *b)
{
	char one[OPTION_PATH];
	char other[OPTION_PATH];

	if (a->garbage_collection_threshold !=
		b->garbage_collection_threshold ||
	    a->memory_fraction != b->memory_fraction)
		return false;
	for (size_t i = 0; i < ENTRIES; i++) {
		if (a->sources[i] != b->sources[i])
			return false;
		entries[i].print(a, one, sizeof(one));
		entries[i].print(b, other, sizeof(other));
		if (strcmp(one, other) != 0)
			return false;
	}
	return true;
}

/* Values that were in force before, the same as these. Readers may still look
 * at any, so none is freed; but a program that goes to and fro keeps no more.
 */
static const struct options *
find_known(const struct options *options) HOLDS(lock)
{
	const struct options *known = published;

	while (known != NULL && !is_same(options, known))
		known = known->previous;
	return known;
}

static enum weir_status
no_memory(void)
{
	return status_set(WEIR_EHOSTMEM, "no host memory for options");
}

static enum weir_status
parse_defaults(struct options *options)
{
	const struct origin origin = { .name = "defaults" };

	for (size_t i = 0; i < ENTRIES; i++) {
		struct word key = { entries[i].key, strlen(entries[i].key) };
		struct word value = { entries[i].fallback,
			strlen(entries[i].fallback) };
		enum weir_status status = apply(options, &origin, key, value);
		if (status != WEIR_OK)
			return status;
	}
	return WEIR_OK;
}

/* WEIR_CONF speaks last, so that it can correct what PyTorch's variables say;
 * of those the first that is set counts, as in PyTorch. */
static enum weir_status
parse_environment(struct options *options)
{
	static const char *const theirs[] = { "PYTORCH_CUDA_ALLOC_CONF",
		"PYTORCH_ALLOC_CONF" };
	const char *ours = getenv("WEIR_CONF");

	for (size_t i = 0; i < 2; i++) {
		const char *text = getenv(theirs[i]);
		if (text == NULL)
			continue;
		struct origin origin = { theirs[i], WEIR_OPTION_ENVIRONMENT,
			true };
		enum weir_status status = parse(options, &origin, text);
		if (status != WEIR_OK)
			return status;
		break;
	}
	if (ours == NULL)
		return WEIR_OK;
	struct origin origin = { "WEIR_CONF", WEIR_OPTION_ENVIRONMENT, false };
	return parse(options, &origin, ours);
}

static enum weir_status
load(const struct options **out) HOLDS(lock)
{
	struct options *options = options_copy(NULL);
	if (options == NULL)
		return no_memory();
	enum weir_status status = parse_defaults(options);
	if (status == WEIR_OK)
		status = parse_environment(options);
	if (status != WEIR_OK) {
		options_delete(options);
		return status;
	}
	published = options;
	atomic_store_explicit(&options_current, options, memory_order_release);
	*out = options;
	return WEIR_OK;
}

enum weir_status
options_get_first(const struct options **out)
{
	enum weir_status status = WEIR_OK;

	lock_enter(&lock);
	const struct options *options = atomic_load(&options_current);
	if (options == NULL)
		status = load(&options);
	lock_leave(&lock);
	if (status == WEIR_OK)
		*out = options;
	return status;
}

struct change {
	struct origin origin;
	const char *key; /* NULL: the value is a text of options */
	const char *value;
};

static enum weir_status
apply_change(struct options *options, const struct change *change)
{
	if (change->key == NULL)
		return parse(options, &change->origin, change->value);
	enum weir_status status = apply(options, &change->origin,
	    (struct word){ change->key, strlen(change->key) },
	    (struct word){ change->value, strlen(change->value) });
	if (status != WEIR_OK)
		return status;
	return check_bounds(options, &change->origin);
}

static enum weir_status
make_change(const struct change *change)
{
	const struct options *before;
	enum weir_status status = options_get(&before);
	if (status != WEIR_OK)
		return status;
	lock_enter(&lock);
	before = atomic_load(&options_current);
	struct options *options = options_copy(before);
	if (options == NULL) {
		lock_leave(&lock);
		return no_memory();
	}
	status = apply_change(options, change);
	const struct options *known =
	    status == WEIR_OK ? find_known(options) : NULL;
	if (status == WEIR_OK && known == NULL) {
		options->previous = published;
		published = options;
	}
	if (status == WEIR_OK)
		atomic_store_explicit(&options_current,
		    known != NULL ? known : options, memory_order_release);
	lock_leave(&lock);
	if (status != WEIR_OK || known != NULL)
		options_delete(options);
	return status;
}

enum weir_status
options_set(const char *caller, const char *conf)
{
	const struct change change = {
		.origin = { caller, WEIR_OPTION_CALL, false },
		.value = conf,
	};

	return make_change(&change);
}

enum weir_status
option_set(const char *caller, const char *key, const char *value)
{
	const struct change change = {
		.origin = { caller, WEIR_OPTION_CALL, false },
		.key = key,
		.value = value,
	};

	return make_change(&change);
}

enum weir_status
option_text(size_t i, char *text, size_t size)
{
	const struct options *options;
	enum weir_status status = options_get(&options);
	if (status != WEIR_OK)
		return status;
	entries[i].print(options, text, size);
	return WEIR_OK;
}

enum weir_status
weir_option_at(size_t i, struct weir_option *out)
{
	const struct options *options;

	if (out == NULL || i >= ENTRIES)
		return status_set(WEIR_EINVAL, "weir_option_at: %s",
		    out == NULL ? "out is NULL" : "there is no such option");
	enum weir_status status = options_get(&options);
	if (status != WEIR_OK)
		return status;
	*out = (struct weir_option){
		.key = entries[i].key,
		.type = entries[i].type,
		.fallback = entries[i].fallback,
		.range = entries[i].range,
		.help = entries[i].help,
		.source = options->sources[i],
	};
	entries[i].print(options, out->value, sizeof(out->value));
	return WEIR_OK;
}
