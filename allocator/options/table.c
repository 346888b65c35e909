/*
 * The table of all options. CONTRIBUTING.md has the recipe for a new one.
 */
#include "allocator/options/table.h"

#include <assert.h>
#include <signal.h>
#include <string.h>

#include <weir/host.h>

#include "allocator/options/tuning.h"

/* ---- Words ------------------------------------------------------------- */

static const struct option_word prefer_words[] = { { "speed", PREFER_SPEED },
	{ "balance", PREFER_BALANCE }, { "memory", PREFER_MEMORY }, { 0 } };

static const struct option_word counts_words[] = {
	{ "weir", LIMIT_COUNTS_WEIR }, { "all", LIMIT_COUNTS_ALL }, { 0 }
};

static const struct option_word show_words[] = { { "limit", SHOW_LIMIT },
	{ "real", SHOW_REAL }, { 0 } };

static const struct option_word source_words[] = { { "handles",
						       WEIR_HOST_FROM_HANDLES },
	{ "system", WEIR_HOST_FROM_SYSTEM },
	{ "driver", WEIR_HOST_FROM_DRIVER }, { 0 } };

static const struct option_word history_words[] = { { "off", HISTORY_OFF },
	{ "none", WEIR_HISTORY_NONE }, { "state", WEIR_HISTORY_STATE },
	{ "alloc", WEIR_HISTORY_ALLOC }, { "all", WEIR_HISTORY_ALL }, { 0 } };

static const struct option_word signal_words[] = { { "off", 0 },
	{ "USR1", SIGUSR1 }, { "USR2", SIGUSR2 }, { 0 } };

/* ---- Types of rows ----------------------------------------------------- */

/* Where a field is, which must have the size of this type. */
#define AT(type, field)                                                        \
	offsetof(struct options, field) + 0 * sizeof(struct {                  \
		static_assert(                                                 \
		    sizeof(((struct options *)0)->field) == sizeof(type),      \
		    #field);                                                   \
		char none;                                                     \
	})

/* type, kind, offset, least, most, words, other */
#define BOOL(field) "bool", OPTION_BOOL, AT(bool, field), 0, 1, NULL, NULL
#define SIZE_MIB(field, least, most)                                           \
	"MiB", OPTION_MIB, AT(size_t, field), least, most, NULL, NULL
#define SIZE_OR_UNLIMITED(field)                                               \
	"MiB", OPTION_MIB, AT(size_t, field), 0, ANY_MIB, NULL, "unlimited"
#define REAL(type, field, most)                                                \
	type, OPTION_REAL, AT(double, field), 0, most, NULL, NULL
#define COUNT(type, field, least, most)                                        \
	type, OPTION_COUNT, AT(uint64_t, field), least, most, NULL, NULL
#define COUNT_OR_OFF(type, field, least, most)                                 \
	type, OPTION_COUNT, AT(uint64_t, field), least, most, NULL, "off"
#define POWER_OF_TWO(type, field, most)                                        \
	type, OPTION_POWER, AT(uint64_t, field), 1, most, NULL, NULL
#define WORD(type, field, words)                                               \
	type, OPTION_WORD, AT(int, field), 0, 0, words, NULL
#define PATH(field)                                                            \
	"file", OPTION_FILE, offsetof(struct options, field), 0,               \
	    sizeof(((struct options *)0)->field), NULL, "none"
#define ROUNDUP "divisions", OPTION_ROUNDUP, 0, 0, 0, NULL, NULL

/* Bounds. A year keeps a time in range, which is counted in nanoseconds and
 * doubled. */
#define ANY_MIB 0x1p64
#define BELOW_1 0x1.fffffffffffffp-1
#define YEAR_MS (366.0 * 24 * 3600 * 1000)

/* ---- The table --------------------------------------------------------- */

const struct entry option_entries[] = {
	{ "expandable_segments", BOOL(expandable_segments), "True",
	    "True or False",
	    .help =
		"Grow each stream's pool in one reserved range of addresses, "
		"mapped as it is needed.",
	    .pytorch = true },
	{ "may_sleep", BOOL(may_sleep), "False", "True or False",
	    .help =
		"Take plain cudaMalloc memory (WEIR_STREAM_ANY) from mapped "
		"handles, as memory of streams is, so that it leaves the "
		"device "
		"when the process sleeps (weir sleep, weir_sleep()). Under "
		"weir run --may-sleep the process may be put to sleep, while "
		"it is idle, for other members of its group. Such "
		"memory has no cudaIpcGetMemHandle() and no access for peers "
		"by cudaDeviceEnablePeerAccess() other than weir's." },
	{ "sleep_folder", PATH(sleep_folder), "none", "a folder, or none",
	    .help =
		"Where contents are kept while the process sleeps: in files "
		"without a name in this folder, in place of page-locked memory "
		"(docs/sleep.md). Of that, 32 MiB are used at a time then. The "
		"next sleep heeds a change." },
	{ "pool_ranges", PATH(pool_ranges), "none",
	    "names with semicolons between them, or none",
	    .help =
		"What a thread asks for, also of the driver, within a pushed "
		"NVTX range of such a name is in a pool of that name, so that "
		"weir sleep --discard NAME finds it. For programs under weir "
		"run (docs/sleep.md)." },
	{ "large_segment_size_mb",
	    SIZE_MIB(large_segment_size, 11, (1 << 20) - 1), "20", "11 or more",
	    .help =
		"Most bytes of a driver segment for requests from 1 to 10 MiB, "
		"where segments are not expandable. A segment fits a number of "
		"blocks of the request's size.",
	    .pytorch = true },
	{ "max_split_size_mb", SIZE_OR_UNLIMITED(max_split_size), "unlimited",
	    "large_segment_size_mb or more, or unlimited",
	    .help = "Blocks of driver segments from this size on are not cut.",
	    .pytorch = true },
	{ "max_non_split_rounding_mb",
	    SIZE_MIB(max_non_split_rounding, 0, ANY_MIB), "20",
	    "large_segment_size_mb or more",
	    .help = "The most by which a block that is not cut may exceed the "
		    "request.",
	    .pytorch = true },
	{ "garbage_collection_threshold",
	    REAL("fraction", garbage_collection_threshold, BELOW_1), "0",
	    "0 (off) or more, below 1",
	    .help = "If more than this share of the limit, or of the device, "
		    "is held, "
		    "memory that was unused for longer than the average goes "
		    "back to "
		    "the driver before more is taken.",
	    .pytorch = true },
	{ "roundup_power2_divisions", ROUNDUP, "0",
	    "0, a power of two, or a list [MiB:divisions,...,>:divisions]",
	    .help = "Round requests up to one of this many steps between two "
		    "powers of "
		    "two.",
	    .pytorch = true },
	{ "per_process_memory_fraction", REAL("fraction", memory_fraction, 1),
	    "1", "0 to 1",
	    .help = "The limit of a device as a fraction of its memory; taken "
		    "at its "
		    "first use.",
	    .pytorch = true, .instead = "limit.DEVICE" },
	{ "memory_limit_mb", SIZE_OR_UNLIMITED(memory_limit), "unlimited",
	    "0 or more, or unlimited",
	    .help = "The limit of each device; taken at its first use.",
	    .instead = "limit.DEVICE" },
	{ "limit_counts", WORD("word", limit_counts, counts_words), "weir",
	    "weir or all",
	    .help =
		"What the limit of a device covers: the memory that weir holds "
		"(weir), or also what the program has from the driver itself "
		"under `weir run` (all): cuMemCreate(), managed memory, "
		"arrays, pools that the driver serves, graphs, contexts. A "
		"request of either beyond it fails with "
		"CUDA_ERROR_OUT_OF_MEMORY, and the driver is not asked." },
	{ "show_device", WORD("word", show_device, show_words), "limit",
	    "limit or real",
	    .help =
		"What a program with a limit sees when it asks how much memory "
		"a device has, by cuMemGetInfo(), cudaMemGetInfo() or NVML: "
		"the limit and what it has used of it, as in a container of "
		"that size (limit), or the device (real)." },
	{ "tcache", SIZE_MIB(tcache, 0, ANY_MIB), "64", "0 or more",
	    .help =
		"How much memory of small freed blocks a thread keeps, for "
		"each "
		"stream; it also keeps a few larger blocks. 0 keeps nothing." },
	{ "handle_mb", SIZE_MIB(handle_max, 2, ANY_MIB), "256", "2 or more",
	    .help =
		"The largest piece of physical memory that is mapped into an "
		"expandable segment, and taken out of it, as a whole. A piece "
		"is "
		"an eighth of the request that it is made for, or 8 MiB if "
		"that is "
		"more, but no more than a 1,024th of the limit and a 128th of "
		"the "
		"device's memory. With 2, a request fails only if it and the "
		"granules of 2 MiB that live blocks lie in exceed the limit, "
		"whenever that was set." },
	{ "prefer", WORD("word", prefer, prefer_words), "balance",
	    "speed, balance or memory",
	    .help =
		"Whether a stream waits on the device for free memory that "
		"work on "
		"other streams may still use: never, and more is taken from "
		"the "
		"driver (speed); always, as long as there is such memory "
		"(memory); "
		"balance is between. With memory, a large block is taken where "
		"it "
		"fits best among all streams' memory, so that hardly more is "
		"held "
		"than with one stream. The price is time: streams that are "
		"always "
		"busy wait for each other, as if they were one, and a program "
		"of "
		"several busy streams lasted up to 2.7 times as long, one that "
		"only copies beside its computation 1.1 times. A program of "
		"one "
		"stream waits for nothing." },
	{ "delay_percent", REAL("percent", delay_percent, 100), "1", "0 to 100",
	    .help =
		"By how much waits on the device may delay the program. weir "
		"measures how late its waits have made each stream; within "
		"this "
		"part of the time a stream waits where memory is dear, beyond "
		"it "
		"only where that seems to cost nothing, and beyond twice this "
		"part "
		"not at all. For prefer:balance; speed waits never, memory "
		"always. "
		"Half of it is for moving memory." },
	{ "decay_ms", COUNT_OR_OFF("ms", decay_ms, 1, YEAR_MS), "10000",
	    "1 to 31622400000, or off",
	    .help =
		"Memory that has been unused for this time goes back to the "
		"driver, at a later request that looks for it; the time "
		"doubles "
		"each time the memory was needed again." },
	{ "group", PATH(group), "none", "a name, or none",
	    .help =
		"The group whose processes share the memory of each device by "
		"one limit (docs/sharing.md). Set it before the first "
		"allocation.",
	    .instead = "" },
	{ "group_folder", PATH(group_folder), "none", "a folder, or none",
	    .help =
		"The folder of the groups' ledgers, for processes in several "
		"containers. Default: $XDG_RUNTIME_DIR/weir, or "
		"/dev/shm/weir-UID. Set it before the first allocation.",
	    .instead = "" },
	{ "group_limit_mb", SIZE_OR_UNLIMITED(group_limit), "unlimited",
	    "1 or more, or unlimited",
	    .help =
		"The limit of the group on each device, if this process is its "
		"first one; 'weir group' changes it. Unlimited is the device's "
		"memory. Set it before the first allocation.",
	    .instead = "" },
	{ "group_guarantee_mb", SIZE_MIB(group_guarantee, 0, ANY_MIB), "0",
	    "0 or more",
	    .help = "What this process can always have of the group's limit: "
		    "others "
		    "get none of it. Set it before the first allocation.",
	    .instead = "" },
	{ "group_priority", COUNT("number", group_priority, 0, 1000), "100",
	    "0 to 1000",
	    .help =
		"Whose unused memory others are lent first: that of the lowest "
		"number. Set it before the first allocation.",
	    .instead = "" },
	{ "lend", BOOL(lend), "False", "True or False",
	    .help =
		"Without a group: give unused memory to other processes of "
		"this "
		"user that have the option too, and find none on the device. "
		"Set it before the first allocation.",
	    .instead = "" },
	{ "lend_ms", COUNT("ms", lend_ms, 0, 60000), "100", "0 to 60000",
	    .help =
		"How long a request that finds no memory waits for the unused "
		"memory of other members, and until idle ones begin to sleep; "
		"0 asks none." },
	{ "wait_ms", COUNT("ms", wait_ms, 0, YEAR_MS), "0", "0 to 31622400000",
	    .help =
		"How long such a request then waits in the queue of its group, "
		"the oldest first, before it fails." },
	{ "pinned_use_cuda_host_register", BOOL(pinned_register), "False",
	    "True or False",
	    .help = "PyTorch's, for pages that are allocated faster. It has no "
		    "effect: "
		    "pinned_source says where pages come from.",
	    .pytorch = true },
	{ "pinned_source", WORD("word", pinned_source, source_words), "handles",
	    "handles, system or driver",
	    .help =
		"Where page-locked host memory comes from: handles of the "
		"driver, "
		"which are mapped where they are needed; pages of the system "
		"that "
		"are registered, also where the driver has no such handles; or "
		"cuMemHostAlloc()." },
	{ "pinned_num_register_threads",
	    POWER_OF_TWO("threads", pinned_threads, 128), "1",
	    "a power of two up to 128",
	    .help =
		"How many threads touch the pages before they are registered.",
	    .pytorch = true },
	{ "pinned_reserve_segment_size_mb",
	    SIZE_MIB(pinned_reserve, 0, (1LL << 40) - 1), "0",
	    "0 (off) or more",
	    .help =
		"Page-locked host memory that is allocated in one piece at the "
		"first request; it serves requests and is kept.",
	    .pytorch = true },
	{ "pinned_use_background_threads", BOOL(pinned_background), "False",
	    "True or False",
	    .help =
		"A thread checks when freed page-locked host memory may be "
		"used "
		"again, and gives back memory that has been unused for long.",
	    .pytorch = true },
	{ "pinned_limit_mb", SIZE_OR_UNLIMITED(pinned_limit), "unlimited",
	    "0 or more, or unlimited",
	    .help = "The most page-locked host memory held for each device." },
	{ "pinned_idle_mb", SIZE_OR_UNLIMITED(pinned_idle), "unlimited",
	    "0 or more, or unlimited",
	    .help =
		"The most page-locked host memory kept unused, of each kind; a "
		"free gives back memory beyond it." },
	{ "plan", PATH(plan), "none", "a file's name without a comma, or none",
	    .help =
		"Place the large requests of each device by this plan, which "
		"'weir plan' has made from a recording. Set it before the "
		"first "
		"allocation.",
	    .instead = "" },
	{ "history", WORD("level", history, history_words), "off",
	    "off, none, state, alloc or all",
	    .help =
		"Keep the history from the first allocation on. The level says "
		"where stacks are taken (enum weir_history_level).",
	    .instead = "history.level" },
	{ "history_entries", COUNT("count", history_entries, 1, 0x1p32),
	    "1000000", "1 to 4294967296",
	    .help =
		"How many events of each device the history keeps, the latest.",
	    .instead = "history.level" },
	{ "snapshot", PATH(snapshot), "none",
	    "a file's name without a comma, or none",
	    .help =
		"Write a snapshot to this file when the process ends, and at "
		"the "
		"first request that finds no memory, which the end does not "
		"overwrite. %p in the name is the process, %w is exit, oom or "
		"signal. JSON if the name ends in .json. Set it before the "
		"first "
		"allocation.",
	    .instead = "" },
	{ "snapshot_signal", WORD("signal", snapshot_signal, signal_words),
	    "off", "off, USR1 or USR2",
	    .help = "Write the snapshot at this signal too, unless the program "
		    "has a "
		    "use for the signal. Set it before the first allocation.",
	    .instead = "" },
	{ "watch", BOOL(watch), "False", "True or False",
	    .help = "Let 'weir watch' look at the process while it runs. Set "
		    "it before "
		    "the first allocation.",
	    .instead = "" },
	{ "guard", COUNT("bytes", guard, 0, GUARD_MAX), "0",
	    "0 (off) to 1048576",
	    .help =
		"For finding faults of the program: at least this many bytes "
		"before and behind each block of device memory hold a pattern, "
		"which is checked when the block is freed, and freed memory is "
		"filled with 0xff. Each allocation and free then waits for the "
		"device; thread caches are off. Set it before the first "
		"allocation." },
	{ "reclaim_always", BOOL(reclaim_always), "False", "True or False",
	    .help = "For tests: give all unused memory back before each "
		    "allocation." },
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

bool
entry_is_foreign(struct word key)
{
	for (size_t i = 0; i < sizeof(foreign_keys) / sizeof(foreign_keys[0]);
	     i++)
		if (word_is(key, foreign_keys[i]))
			return true;
	return false;
}
