/*
 * Sleep in words: reasons, states, the text of sleep.state (<weir/ctl.h>),
 * which `weir sleep` and `weir wake` send, and the numbers of the latest sleep
 * and wake.
 *
 * A text is "asleep" or "awake", and options after commas:
 *
 *   asleep,discard=pool:3,discard=0x7f0000000000+4096,discard=kv_cache,live-only
 *   asleep,discard-all,fail
 *   awake,wait=1000
 */
#include <weir/sleep.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/options.h"
#include "allocator/private/sleeping.h"
#include "base/status.h"
#include "graphs/pool.h"
#include "graphs/sleep.h"
#include "graphs/tuning.h"
#include "streams/stream.h"

const char *
weir_sleep_reason_text(enum weir_sleep_reason reason)
{
	static const char *const texts[] = {
#define SLEEP_TEXT(name, text) text,
		WEIR_SLEEP_REASONS(SLEEP_TEXT)
#undef SLEEP_TEXT
	};

	return (unsigned)reason < WEIR_SLEEP_REASON_COUNT ? texts[reason] : "?";
}

bool
weir_is_asleep(int device)
{
	if (device == WEIR_DEVICE_ALL)
		return sleeping_any();
	return sleeping_any() && device_resolve(device, &device) == WEIR_OK &&
	    sleeping_is(device);
}

/* ---- Numbers ------------------------------------------------------------ */

/* The latest results, each number for itself. */
static struct latest {
	_Atomic(uint64_t) freed;
	_Atomic(uint64_t) copied;
	_Atomic(uint64_t) discarded;
	_Atomic(uint64_t) stays[WEIR_SLEEP_REASON_COUNT];
	_Atomic(uint64_t) asleep_ns; /* the time that the call took */
	_Atomic(uint64_t) mapped;
	_Atomic(uint64_t) restored;
	_Atomic(uint64_t) awake_ns;
} latest;

static const struct {
	struct sleeping_number number; /* without its value */
	_Atomic(uint64_t) *value;
} numbers[] = {
	{ { "freed", "bytes", "Given back to the driver.", 0 }, &latest.freed },
	{ { "copied", "bytes", "Copied to host memory or files.", 0 },
	    &latest.copied },
	{ { "discarded", "bytes", "Live, and not copied.", 0 },
	    &latest.discarded },
	{ { "stays_segment", "bytes",
	      "Stayed in segments of the driver (option may_sleep).", 0 },
	    &latest.stays[WEIR_SLEEP_SEGMENT] },
	{ { "stays_pinned", "bytes",
	      "Stayed because it is pinned, or exported to other processes.",
	      0 },
	    &latest.stays[WEIR_SLEEP_PINNED] },
	{ { "stays_refused", "bytes",
	      "Stayed because the driver did not release it.", 0 },
	    &latest.stays[WEIR_SLEEP_REFUSED] },
	{ { "stays_shared", "bytes",
	      "Stayed because the program has shared its own memory.", 0 },
	    &latest.stays[WEIR_SLEEP_SHARED] },
	{ { "stays_odd", "bytes",
	      "Stayed because the program has mapped its own memory in parts, "
	      "in several places or nowhere.",
	      0 },
	    &latest.stays[WEIR_SLEEP_ODD] },
	{ { "asleep_ns", "ns", "How long the latest sleep took to begin.", 0 },
	    &latest.asleep_ns },
	{ { "mapped", "bytes", "Taken from the driver at the latest wake.", 0 },
	    &latest.mapped },
	{ { "restored", "bytes", "Copied back at the latest wake.", 0 },
	    &latest.restored },
	{ { "awake_ns", "ns", "How long the latest wake took.", 0 },
	    &latest.awake_ns },
};

static bool
read_number(size_t n, struct sleeping_number *out)
{
	if (n >= sizeof(numbers) / sizeof(numbers[0]))
		return false;
	*out = numbers[n].number;
	out->value = atomic_load(numbers[n].value);
	return true;
}

static void
note_sleep(const struct weir_sleep_result *result)
{
	atomic_store(&latest.freed, result->freed_bytes);
	atomic_store(&latest.copied, result->copied_bytes);
	atomic_store(&latest.discarded, result->discarded_bytes);
	for (int i = 0; i < WEIR_SLEEP_REASON_COUNT; i++)
		atomic_store(&latest.stays[i], result->stays[i].bytes);
	atomic_store(&latest.asleep_ns,
	    result->wait_ns + result->copy_ns + result->unmap_ns);
}

static void
note_wake(const struct weir_wake_result *result)
{
	atomic_store(&latest.mapped, result->mapped_bytes);
	atomic_store(&latest.restored, result->copied_bytes);
	atomic_store(&latest.awake_ns, result->wait_ns + result->map_ns);
}

/* ---- Words --------------------------------------------------------------- */

struct sleep_words {
	struct weir_sleep_options options;
	uint64_t pools[SLEEP_WORDS];
	struct weir_sleep_range ranges[SLEEP_WORDS];
	const char *names[SLEEP_WORDS];
};

static enum weir_status
refuse_word(const char *word)
{
	return status_set(
	    WEIR_EINVAL, "sleep.state: '%.200s' is no option of it", word);
}

/* Parse a whole number, in hexadecimal after 0x, up to `end`. */
static bool
parse_whole(const char *text, char end, uint64_t *out)
{
	char *rest;

	errno = 0;
	if (*text < '0' || *text > '9')
		return false;
	*out = strtoull(text, &rest, 0);
	return errno == 0 && *rest == end;
}

static enum weir_status
parse_discard(struct sleep_words *words, const char *value, const char *word)
{
	struct weir_sleep_options *options = &words->options;
	const char *plus = strchr(value, '+');
	uint64_t addr;
	uint64_t size;

	if (options->discard_pool_count + options->discard_range_count +
		options->discard_name_count ==
	    SLEEP_WORDS)
		return status_set(WEIR_EINVAL,
		    "sleep.state: more than %d pools and ranges", SLEEP_WORDS);
	if (pool_is_name(value)) {
		words->names[options->discard_name_count++] = value;
		return WEIR_OK;
	}
	if (strncmp(value, "pool:", 5) == 0) {
		if (!parse_whole(value + 5, '\0',
			&words->pools[options->discard_pool_count]))
			return refuse_word(word);
		options->discard_pool_count++;
		return WEIR_OK;
	}
	if (plus == NULL || !parse_whole(value, '+', &addr) ||
	    !parse_whole(plus + 1, '\0', &size))
		return refuse_word(word);
	words->ranges[options->discard_range_count++] =
	    (struct weir_sleep_range){ (const void *)(uintptr_t)addr,
		    (size_t)size };
	return WEIR_OK;
}

static enum weir_status
parse_sleep_word(struct sleep_words *words, const char *word)
{
	if (strncmp(word, "discard=", 8) == 0)
		return parse_discard(words, word + 8, word);
	if (strcmp(word, "live-only") == 0)
		words->options.flags |= WEIR_SLEEP_LIVE_ONLY;
	else if (strcmp(word, "fail") == 0)
		words->options.flags |= WEIR_SLEEP_FAIL;
	else if (strcmp(word, "discard-all") == 0)
		words->options.flags |= WEIR_SLEEP_DISCARD_ALL;
	else
		return refuse_word(word);
	return WEIR_OK;
}

static enum weir_status
sleep_by_words(char *rest)
{
	struct sleep_words words = { .options = {
					 .struct_size = sizeof(words.options),
					 .discard_pools = words.pools,
					 .discard_ranges = words.ranges,
					 .discard_names = words.names } };
	struct weir_sleep_result result = { .struct_size = sizeof(result) };
	const struct options *options;
	enum weir_status status = options_get(&options);
	char *word;

	if (status == WEIR_OK && !options->may_sleep)
		return status_set(WEIR_ENOTSUP,
		    "the program does not hold its launches while it sleeps: "
		    "start it with weir run --may-sleep");
	while (status == WEIR_OK && (word = strsep(&rest, ",")) != NULL)
		status = parse_sleep_word(&words, word);
	if (status == WEIR_OK)
		status = weir_sleep(WEIR_DEVICE_ALL, &words.options, &result);
	if (status == WEIR_OK)
		note_sleep(&result);
	return status;
}

static enum weir_status
wake_by_words(char *rest)
{
	struct weir_wake_result result = { .struct_size = sizeof(result) };
	enum weir_status status = WEIR_OK;
	uint64_t wait_ms = 0;
	const char *word;

	while (status == WEIR_OK && (word = strsep(&rest, ",")) != NULL)
		if (strncmp(word, "wait=", 5) != 0 ||
		    !parse_whole(word + 5, '\0', &wait_ms))
			status = refuse_word(word);
	if (status == WEIR_OK)
		status = weir_wake(WEIR_DEVICE_ALL, wait_ms, &result);
	if (status == WEIR_OK)
		note_wake(&result);
	return status;
}

static enum weir_status
change_by_words(const char *text)
{
	char copy[1024];
	char *rest = copy;

	if (strlen(text) >= sizeof(copy))
		return status_set(
		    WEIR_EINVAL, "sleep.state: the text is too long");
	strcpy(copy, text);
	const char *state = strsep(&rest, ",");
	if (strcmp(state, "asleep") == 0)
		return sleep_by_words(rest);
	if (strcmp(state, "awake") == 0)
		return wake_by_words(rest);
	return status_set(WEIR_EINVAL,
	    "sleep.state: '%.200s' is neither asleep nor awake", state);
}

/* ---- Dozing -------------------------------------------------------------- */

static enum weir_status
doze_and_note(int device, size_t *freed_bytes)
{
	struct weir_sleep_result result = { .struct_size = sizeof(result) };
	enum weir_status status = sleep_doze(device, &result);

	if (status == WEIR_OK) {
		note_sleep(&result);
		*freed_bytes = result.freed_bytes;
	}
	return status;
}

static enum weir_status
wake_and_note(int device)
{
	struct weir_wake_result result = { .struct_size = sizeof(result) };
	enum weir_status status = sleep_end_doze(device, &result);

	if (status == WEIR_OK)
		note_wake(&result);
	return status;
}

static __attribute__((constructor)) void
offer_sleep(void)
{
	static const struct sleeping_calls calls = { change_by_words,
		read_number, doze_and_note, wake_and_note };

	sleeping_set_calls(&calls);
}
