/*
 * The options, in one table that drives the environment, the calls, `weir
 * options` and the manual.
 */
#ifndef ALLOCATOR_OPTIONS_H
#define ALLOCATOR_OPTIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/trace.h>

/* The devices that weir serves: the first ones. */
enum { DEVICES_MAX = 128 };

enum {
	ROUNDUP_CLASSES = 16,
	OPTION_PATH = 1024,
	OPTION_FOLDER = 256,
	OPTION_GROUP = 48
};

/* The choice between waiting on the device and holding more memory. */
enum prefer { PREFER_SPEED, PREFER_BALANCE, PREFER_MEMORY };

/* The memory that the limit of a device covers, and the memory that programs
 * see when they ask about the device. */
enum limit_counts { LIMIT_COUNTS_WEIR, LIMIT_COUNTS_ALL };
enum show_device { SHOW_LIMIT, SHOW_REAL };

/* The "off" of `history`. */
enum { HISTORY_OFF = -1 };

/* A set of option values. Immutable once published; a change publishes another
 * set. */
struct options {
	bool expandable_segments;
	bool may_sleep;                      /* device-scope memory is mapped */
	char sleep_folder[OPTION_FOLDER];    /* "": page-locked memory */
	char pool_ranges[OPTION_FOLDER];     /* names and semicolons */
	size_t max_split_size;               /* bytes; SIZE_MAX: no bound */
	size_t max_non_split_rounding;       /* bytes */
	size_t large_segment_size;           /* bytes */
	double garbage_collection_threshold; /* 0: off */
	double memory_fraction;              /* of each device; 1: no limit */
	size_t memory_limit; /* bytes a device; SIZE_MAX: none */
	enum limit_counts limit_counts;
	enum show_device show_device;
	uint32_t roundup[ROUNDUP_CLASSES]; /* divisions; 0: none */
	bool rounds;                       /* one of them is not 0 */
	bool reclaim_always;
	size_t tcache;     /* bytes of a thread's small blocks of a stream */
	size_t handle_max; /* bytes of one physical handle at most */
	enum prefer prefer;
	double delay_percent;    /* the most that waits may delay the program */
	uint64_t decay_ms;       /* OPTION_OFF: never */
	bool pinned_register;    /* PyTorch's; has no effect */
	int pinned_source;       /* enum weir_host_source: the best */
	bool pinned_background;  /* a thread polls freed memory */
	uint64_t pinned_threads; /* threads that touch pages to register */
	size_t pinned_reserve;   /* bytes, at the first request; 0: none */
	size_t pinned_limit;     /* bytes a device; SIZE_MAX: none */
	size_t pinned_idle;      /* bytes a kind; SIZE_MAX: no cap */
	char group[OPTION_GROUP];         /* its name; "": none */
	char group_folder[OPTION_FOLDER]; /* "": the user's own */
	size_t group_limit;               /* bytes a device; SIZE_MAX: none */
	size_t group_guarantee;           /* bytes a device */
	uint64_t group_priority;
	char plan[OPTION_PATH]; /* the file's name; "": none */
	bool lend;              /* to others without a group */
	uint64_t lend_ms;
	uint64_t wait_ms;
	/* Options of observe/startup.h. */
	int history;              /* enum weir_history_level, or HISTORY_OFF */
	uint64_t history_entries; /* of a device */
	char snapshot[OPTION_PATH]; /* the file's name; "": none */
	int snapshot_signal;        /* 0: none */
	bool watch;
	uint64_t guard; /* bytes of a zone, about; 0: none */

	enum weir_option_source *sources; /* one an option */
	uint64_t hash;                    /* of the texts and the sources */
	struct options *previous; /* kept, because a reader may still use it */
};

/* Get the values in force. The first call reads the environment. WEIR_EINVAL,
 * at each call, if the environment holds a mistake other than a wrong value in
 * a variable of PyTorch's, which is a warning; WEIR_EHOSTMEM. */
static inline enum weir_status options_get(const struct options **out);
enum weir_status options_get_first(const struct options **out);

/* For tests: forget all values, so that the next call reads the environment
 * again. No thread may read them meanwhile. */
void options_forget(void);

/* The values in force; NULL before the first options_get(). */
#pragma GCC visibility push(hidden)
extern _Atomic(const struct options *) options_current;
#pragma GCC visibility pop

static inline const struct options *
options_peek(void)
{
	return atomic_load_explicit(&options_current, memory_order_acquire);
}

static inline enum weir_status
options_get(const struct options **out)
{
	const struct options *options = options_peek();

	if (__builtin_expect(options == NULL, 0))
		return options_get_first(out);
	*out = options;
	return WEIR_OK;
}

/* The limit of a device with this memory, as the options ask for it. SIZE_MAX:
 * none. An arena begins with it; until then it is what a query answers. */
static inline size_t
options_limit(const struct options *options, size_t total_bytes)
{
	size_t limit = options->memory_limit;

	if (options->memory_fraction < 1) {
		size_t bytes =
		    (size_t)(options->memory_fraction * (double)total_bytes);
		limit = bytes < limit ? bytes : limit;
	}
	return limit;
}

/* Set options by a text, or one option; the value may have commas. `caller`
 * begins the error's text; `pytorch` says that the text is for PyTorch's
 * parser. Fails as weir_options_set(). Thread caches follow the options that
 * they were made with: api/options.c makes them again. */
enum weir_status options_set(
    const char *caller, const char *conf, bool pytorch);
enum weir_status option_set(
    const char *caller, const char *key, const char *value);

/* Print the whole value of the i-th option, which must exist. */
enum weir_status option_text(size_t i, char *text, size_t size);

/* A word of `pinned_source`; NULL if there is no such enum weir_host_source. */
const char *options_source_name(unsigned source);

/* The "16,777,216 TiB is unlimited" of a size option. */
#define OPTION_UNLIMITED SIZE_MAX
/* The "off" of a time option. */
#define OPTION_OFF UINT64_MAX

#endif
