/*
 * The values of the options, and the texts that set them.
 *
 * A text is parsed into a copy of the values in force, and the copy is
 * published if the whole text is right. Readers take no lock: they load a
 * pointer to values that never change. A replaced set is kept, because a reader
 * may still use it; SETS_MAX bounds their number.
 */
#include "allocator/options.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/options/table.h"
#include "allocator/options/tuning.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/meta.h"
#include "base/nearest.h"
#include "base/os.h"
#include "base/status.h"

/* ---- Parsing a text ---------------------------------------------------- */

/* Cut the word that ends at one of `stops`, or at the text's end, off *at,
 * without the blanks around it. A stop within brackets does not count. */
static struct word
cut_word(const char **at, const char *stops)
{
	struct word word = { 0 };
	int depth = 0;

	while (word_blank(**at))
		(*at)++;
	word.at = *at;
	while (**at != '\0' && (depth > 0 || strchr(stops, **at) == NULL)) {
		depth += (**at == '[') - (**at == ']');
		(*at)++;
	}
	word.length = (size_t)(*at - word.at);
	while (word.length > 0 && word_blank(word.at[word.length - 1]))
		word.length--;
	return word;
}

/* Where a text came from, for its errors. */
struct origin {
	const char *name; /* "WEIR_CONF", "weir_options_set" */
	enum weir_option_source source;
	bool pytorch; /* read by the rules of PyTorch's parser */
	/* A wrong value of an option that PyTorch has is a warning, and the
	 * default holds. */
	bool lenient;
};

/* Refuse an unknown key. The error names the nearest key if at most a third of
 * the letters differ. */
static enum weir_status
refuse_key(const struct origin *origin, struct word key)
{
	const char *nearest = option_entries[0].key;

	for (size_t i = 1; i < option_entry_count; i++)
		if (nearest_distance(
			key.at, key.length, option_entries[i].key) <
		    nearest_distance(key.at, key.length, nearest))
			nearest = option_entries[i].key;
	if (nearest_distance(key.at, key.length, nearest) * 3 <= key.length)
		return status_set(WEIR_EINVAL,
		    "%s: unknown option '%.*s'; did you mean '%s'?",
		    origin->name, (int)key.length, key.at, nearest);
	return status_set(WEIR_EINVAL, "%s: unknown option '%.*s'",
	    origin->name, (int)key.length, key.at);
}

/* Find the word in a row's range that is nearest to a refused value, if at most
 * half of the value's letters differ; else an empty word. Numbers are not
 * proposed. */
static struct word
nearest_value(const struct entry *entry, struct word value)
{
	static const char between[] = " ,()";
	struct word nearest = { .at = "" };
	size_t least = value.length / 2 + 1;
	struct options scratch = { 0 };

	for (const char *at = entry->range; *at != '\0';) {
		struct word word = { .at = at, .length = strcspn(at, between) };
		char known[32];

		at += word.length;
		at += strspn(at, between);
		if (!word_copy(word, known, sizeof(known)) ||
		    (known[0] >= '0' && known[0] <= '9') ||
		    !entry_parse(entry, &scratch, word))
			continue;
		size_t distance =
		    nearest_distance(value.at, value.length, known);
		if (distance < least) {
			least = distance;
			nearest = word;
		}
	}
	return nearest;
}

static enum weir_status
refuse_value(
    const struct origin *origin, const struct entry *entry, struct word value)
{
	struct word nearest = nearest_value(entry, value);

	if (nearest.length > 0)
		return status_set(WEIR_EINVAL,
		    "%s: option %s is invalid: '%.*s' is not %s; did you mean "
		    "'%.*s'?",
		    origin->name, entry->key, (int)value.length, value.at,
		    entry->range, (int)nearest.length, nearest.at);
	return status_set(WEIR_EINVAL,
	    "%s: option %s is invalid: '%.*s' is not %s", origin->name,
	    entry->key, (int)value.length, value.at, entry->range);
}

/* The key of a path of <weir/ctl.h>, such as "option.tcache", or the text
 * itself. */
static struct word
key_of_path(struct word path)
{
	static const char part[] = "option.";
	const size_t length = sizeof(part) - 1;

	if (path.length <= length || strncmp(path.at, part, length) != 0)
		return path;
	return (struct word){ .at = path.at + length,
		.length = path.length - length };
}

static struct word
word_of(const char *text)
{
	return (struct word){ .at = text, .length = strlen(text) };
}

static void
reset_entry(struct options *options, const struct entry *entry)
{
	entry_parse(entry, options, word_of(entry->fallback));
	options->sources[entry - option_entries] = WEIR_OPTION_DEFAULT;
}

/* A value of an option of PyTorch's was refused, muted: keep the default. */
static void
keep_default(struct options *options, const struct entry *entry)
{
	log_write(LOG_WARN, "%s; the default holds: %s", status_latest_text(),
	    entry->fallback);
	status_unmute();
	reset_entry(options, entry);
}

static enum weir_status
apply_value(struct options *options, const struct origin *origin,
    const struct entry *entry, struct word value)
{
	const bool pytorch = origin->pytorch && entry->pytorch;
	char text[OPTION_PATH];
	struct word parsed = value;

	parsed.pytorch = pytorch;
	if ((!pytorch || word_squeeze(parsed, text, sizeof(text), &parsed)) &&
	    entry_parse(entry, options, parsed)) {
		options->sources[entry - option_entries] = origin->source;
		return WEIR_OK;
	}
	if (!pytorch || !origin->lenient)
		return refuse_value(origin, entry, value);
	status_mute();
	refuse_value(origin, entry, value);
	keep_default(options, entry);
	return WEIR_OK;
}

static enum weir_status
apply(struct options *options, const struct origin *origin, struct word path,
    struct word value)
{
	struct word key = key_of_path(path);
	const struct entry *entry;
	char text[64];

	if (origin->pytorch) {
		/* A longer key is nobody's. */
		word_squeeze(key, text, sizeof(text), &key);
		entry = entry_find_pytorch(key);
	} else {
		entry = entry_find(key);
	}
	if (entry == NULL && origin->pytorch && entry_is_foreign(key)) {
		log_write(LOG_INFO, "%s: %.*s means nothing to weir",
		    origin->name, (int)key.length, key.at);
		return WEIR_OK;
	}
	if (entry == NULL)
		return refuse_key(origin, key);
	return apply_value(options, origin, entry, value);
}

static enum weir_status
check_bound(const struct options *options, const struct origin *origin,
    const char *key, size_t bytes)
{
	char value[32];

	if (bytes >= options->large_segment_size)
		return WEIR_OK;
	word_print_mib(bytes, value, sizeof(value));
	return status_set(WEIR_EINVAL,
	    "%s: option %s is invalid: '%s' is not %s", origin->name, key,
	    value, entry_find(word_of(key))->range);
}

/* Check a bound that another option sets. In a variable of PyTorch's a value
 * out of bounds is a warning, like other wrong values. */
static enum weir_status
check_or_reset(struct options *options, const struct origin *origin,
    const char *key, size_t bytes)
{
	if (!origin->lenient)
		return check_bound(options, origin, key, bytes);
	status_mute();
	if (check_bound(options, origin, key, bytes) == WEIR_OK)
		status_unmute();
	else
		keep_default(options, entry_find(word_of(key)));
	return WEIR_OK;
}

/* The default of max_non_split_rounding_mb is large_segment_size_mb. */
static void
follow_large_segment(struct options *options)
{
	const struct entry *entry =
	    entry_find(word_of("max_non_split_rounding_mb"));

	if (options->sources[entry - option_entries] == WEIR_OPTION_DEFAULT)
		options->max_non_split_rounding = options->large_segment_size;
}

/* Check the options that depend on others, whatever their order in the text. */
static enum weir_status
check_bounds(struct options *options, const struct origin *origin)
{
	follow_large_segment(options);
	if (options->snapshot_signal != 0 && options->snapshot[0] == '\0')
		return status_set(WEIR_EINVAL,
		    "%s: option snapshot_signal: there is no option snapshot "
		    "to name the file",
		    origin->name);
	enum weir_status status = check_or_reset(
	    options, origin, "max_split_size_mb", options->max_split_size);
	if (status == WEIR_OK)
		status =
		    check_or_reset(options, origin, "max_non_split_rounding_mb",
			options->max_non_split_rounding);
	follow_large_segment(options);
	return status;
}

/* PyTorch's parser sets these to their defaults before it reads a text. */
static void
reset_pytorch(struct options *options)
{
	static const char *const keys[] = { "max_split_size_mb",
		"max_non_split_rounding_mb", "garbage_collection_threshold",
		"roundup_power2_divisions" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		reset_entry(options, entry_find(word_of(keys[i])));
}

static enum weir_status
parse(struct options *options, const struct origin *origin, const char *at)
{
	if (origin->pytorch)
		reset_pytorch(options);
	while (*at != '\0') {
		struct word key = cut_word(&at, ":,");
		struct word value = { .at = "", .length = 0 };
		if (*at == ':') {
			at++;
			value = cut_word(&at, ",");
		}
		if (*at == ',')
			at++;
		if (key.length == 0 && value.length == 0)
			continue; /* an empty item, for instance after a last
				     comma */
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
static unsigned set_count GUARDED_BY(lock);        /* of them */

static struct options *
options_copy(const struct options *from)
{
	struct options *copy = meta_zalloc(sizeof(*copy));
	enum weir_option_source *sources =
	    meta_zalloc(option_entry_count * sizeof(*sources));

	if (copy == NULL || sources == NULL) {
		meta_free(copy, sizeof(*copy));
		meta_free(sources, option_entry_count * sizeof(*sources));
		return NULL;
	}
	if (from != NULL) {
		*copy = *from;
		memcpy(sources, from->sources,
		    option_entry_count * sizeof(*sources));
	}
	copy->sources = sources;
	return copy;
}

static void
options_delete(struct options *options)
{
	meta_free(
	    options->sources, option_entry_count * sizeof(*options->sources));
	meta_free(options, sizeof(*options));
}

/* FNV-1a, over the text and the source of each option. */
static uint64_t
hash_options(const struct options *options)
{
	char text[OPTION_PATH];
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < option_entry_count; i++) {
		entry_print(&option_entries[i], options, text, sizeof(text));
		for (const char *c = text; *c != '\0'; c++)
			hash = (hash ^ (unsigned char)*c) *
			    UINT64_C(0x100000001b3);
		hash = (hash ^ (uint64_t)options->sources[i]) *
		    UINT64_C(0x100000001b3);
	}
	return hash;
}

static bool
is_same(const struct options *a, const struct options *b)
{
	if (a->hash != b->hash)
		return false;
	for (size_t i = 0; i < option_entry_count; i++)
		if (a->sources[i] != b->sources[i] ||
		    !entry_is_same(&option_entries[i], a, b))
			return false;
	return true;
}

/* Find an earlier set with equal values, or NULL. No set is ever freed, so a
 * program that switches between two sets must use them again. */
static const struct options *
find_known(const struct options *options) HOLDS(lock)
{
	const struct options *known = published;

	while (known != NULL && !is_same(options, known))
		known = known->previous;
	return known;
}

static enum weir_status
no_options_memory(void)
{
	return status_set(WEIR_EHOSTMEM, "no host memory for options");
}

static enum weir_status
parse_defaults(struct options *options)
{
	const struct origin origin = { .name = "defaults" };

	for (size_t i = 0; i < option_entry_count; i++) {
		enum weir_status status =
		    apply(options, &origin, word_of(option_entries[i].key),
			word_of(option_entries[i].fallback));
		if (status != WEIR_OK)
			return status;
	}
	return WEIR_OK;
}

/* A setuid program must not replace a file that its caller names. */
static enum weir_status
check_privileged(const struct options *options, const char *variable)
{
	if (options->snapshot[0] == '\0' || getenv(variable) == NULL ||
	    secure_getenv(variable) != NULL)
		return WEIR_OK;
	return status_set(WEIR_EINVAL,
	    "%s: snapshot:%s: this program has more rights than its caller, "
	    "who may not name a file",
	    variable, options->snapshot);
}

/* Parse the environment. WEIR_CONF comes last, so that it overrides PyTorch's
 * variables. Of those the first that is set counts, as in PyTorch. */
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
		const struct origin origin = { .name = theirs[i],
			.source = WEIR_OPTION_ENVIRONMENT,
			.pytorch = true,
			.lenient = true };
		enum weir_status status = parse(options, &origin, text);
		if (status == WEIR_OK)
			status = check_privileged(options, theirs[i]);
		if (status != WEIR_OK)
			return status;
		break;
	}
	if (ours == NULL)
		return WEIR_OK;
	const struct origin origin = { .name = "WEIR_CONF",
		.source = WEIR_OPTION_ENVIRONMENT };
	enum weir_status status = parse(options, &origin, ours);
	return status == WEIR_OK ? check_privileged(options, "WEIR_CONF") :
				   status;
}

static enum weir_status
load(const struct options **out) HOLDS(lock)
{
	struct options *options = options_copy(NULL);
	if (options == NULL)
		return no_options_memory();
	enum weir_status status = parse_defaults(options);
	if (status == WEIR_OK)
		status = parse_environment(options);
	if (status != WEIR_OK) {
		options_delete(options);
		return status;
	}
	options->hash = hash_options(options);
	published = options;
	set_count = 1;
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

void
options_forget(void)
{
	lock_enter(&lock);
	atomic_store(&options_current, NULL);
	while (published != NULL) {
		struct options *options = published;

		published = options->previous;
		options_delete(options);
	}
	set_count = 0;
	lock_leave(&lock);
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
	    word_of(change->key), word_of(change->value));
	if (status != WEIR_OK)
		return status;
	return check_bounds(options, &change->origin);
}

static enum weir_status
too_many(const struct origin *origin)
{
	return status_set(WEIR_EHOSTMEM,
	    "%s: %d different sets of values were in force, and no more are "
	    "kept; those may be set again",
	    origin->name, SETS_MAX);
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
		return no_options_memory();
	}
	status = apply_change(options, change);
	options->hash = hash_options(options);
	const struct options *known =
	    status == WEIR_OK ? find_known(options) : NULL;
	if (status == WEIR_OK && known == NULL && set_count == SETS_MAX)
		status = too_many(&change->origin);
	if (status == WEIR_OK && known == NULL) {
		options->previous = published;
		published = options;
		set_count++;
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
options_set(const char *caller, const char *conf, bool pytorch)
{
	const struct change change = {
		.origin = { .name = caller,
		    .source = WEIR_OPTION_CALL,
		    .pytorch = pytorch },
		.value = conf,
	};

	return make_change(&change);
}

enum weir_status
option_set(const char *caller, const char *key, const char *value)
{
	const struct change change = {
		.origin = { .name = caller, .source = WEIR_OPTION_CALL },
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
	entry_print(&option_entries[i], options, text, size);
	return WEIR_OK;
}

enum weir_status
weir_option_at(size_t i, struct weir_option *out)
{
	if (os_forked())
		return status_forked("weir_option_at");
	const struct options *options;

	if (out == NULL || i >= option_entry_count)
		return status_set(WEIR_EINVAL, "weir_option_at: %s",
		    out == NULL ? "out is NULL" : "there is no such option");
	enum weir_status status = options_get(&options);
	if (status != WEIR_OK)
		return status;
	*out = (struct weir_option){
		.key = option_entries[i].key,
		.type = option_entries[i].type,
		.fallback = option_entries[i].fallback,
		.range = option_entries[i].range,
		.help = option_entries[i].help,
		.source = options->sources[i],
	};
	entry_print(
	    &option_entries[i], options, out->value, sizeof(out->value));
	return WEIR_OK;
}
