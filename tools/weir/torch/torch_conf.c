/*
 * PyTorch drops all white space, and lists stand in brackets:
 *
 *	max_split_size_mb:64,roundup_power2_divisions:[256:1,512:2,>:4]
 */
#include "tools/weir/torch/torch_conf.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/guess.h"

#define MIB UINT64_C(1048576)

enum { WORD = 64 };

struct reader {
	const char *at;
	char key[WORD];
	char *why; /* TORCH_CONF_WHY bytes */
};

void
torch_conf_init(struct torch_conf *conf)
{
	*conf = (struct torch_conf){
		.large_segment = 20 * MIB,
		.max_split = UINT64_MAX,
		.max_non_split_rounding = 20 * MIB,
		.memory_fraction = 1,
	};
}

static __attribute__((format(printf, 2, 3))) bool
refuse_conf(struct reader *r, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(r->why, TORCH_CONF_WHY, format, args);
	va_end(args);
	return false;
}

/* Read a word up to the next of ",:[]". Longer words are cut. */
static void
conf_word(struct reader *r, char word[WORD])
{
	size_t n = 0;

	for (; *r->at != '\0' && strchr(",:[]", *r->at) == NULL; r->at++)
		if (!isspace((unsigned char)*r->at) && n + 1 < WORD)
			word[n++] = *r->at;
	word[n] = '\0';
	while (isspace((unsigned char)*r->at))
		r->at++;
}

static bool
conf_skip(struct reader *r, char c)
{
	if (*r->at != c)
		return false;
	for (r->at++; isspace((unsigned char)*r->at); r->at++)
		;
	return true;
}

/* Read a whole number from `least` to `most`. */
static bool
conf_whole(struct reader *r, uint64_t least, uint64_t most, uint64_t *out)
{
	char word[WORD];
	char *end;

	conf_word(r, word);
	*out = strtoull(word, &end, 10);
	if (!isdigit((unsigned char)word[0]) || *end != '\0' || *out < least ||
	    *out > most)
		return refuse_conf(r,
		    "%s is a whole number, at least %" PRIu64 ", not '%s'",
		    r->key, least, word);
	return true;
}

static bool
conf_mb(struct reader *r, uint64_t least_mb, uint64_t *bytes)
{
	uint64_t mb;

	if (!conf_whole(r, least_mb, UINT64_MAX, &mb))
		return false;
	*bytes = mb > UINT64_MAX / MIB ? UINT64_MAX : mb * MIB;
	return true;
}

static bool
conf_real(struct reader *r, bool zero, double *out)
{
	char word[WORD];
	char *end;

	conf_word(r, word);
	*out = strtod(word, &end);
	if (word[0] == '\0' || *end != '\0' || !(*out >= 0 && *out <= 1) ||
	    (!zero && (*out == 0 || *out == 1)))
		return refuse_conf(r, "%s is a number %s, not '%s'", r->key,
		    zero ? "from 0 to 1" : "between 0 and 1", word);
	return true;
}

static bool
conf_bool(struct reader *r, bool *out)
{
	char word[WORD];

	conf_word(r, word);
	*out = strcmp(word, "True") == 0;
	if (!*out && strcmp(word, "False") != 0)
		return refuse_conf(
		    r, "%s is True or False, not '%s'", r->key, word);
	return true;
}

static bool
is_power2(uint64_t n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

/* The class of sizes of n MiB, which is a power of two. */
static unsigned
class_of_mb(uint64_t mb)
{
	unsigned log = 63u - (unsigned)__builtin_clzll(mb);

	return log < TORCH_CLASSES ? log : TORCH_CLASSES - 1;
}

/* One "MB:DIVISIONS" of a list. `last` is the class of the pair before, or -1.
 */
static bool
conf_division(struct reader *r, struct torch_conf *conf, int *last)
{
	bool rest = conf_skip(r, '>');
	uint64_t mb = 1;
	uint64_t divisions;
	unsigned class;

	if (!rest && !conf_whole(r, 1, UINT64_MAX, &mb))
		return false;
	if (!is_power2(mb))
		return refuse_conf(r,
		    "%s: the interval %" PRIu64 " is not a power of 2", r->key,
		    mb);
	if (!conf_skip(r, ':'))
		return refuse_conf(r, "%s: ':' is missing in the list", r->key);
	if (!conf_whole(r, 0, UINT64_MAX, &divisions))
		return false;
	if (divisions != 0 && !is_power2(divisions))
		return refuse_conf(r,
		    "%s: %" PRIu64 " divisions are not a power of 2", r->key,
		    divisions);
	class = rest ? TORCH_CLASSES - 1 : class_of_mb(mb);
	if (rest || *last < 0)
		for (int i = *last + 1; i < (int)class; i++)
			conf->divisions[i] = divisions;
	if (!rest || *last < TORCH_CLASSES - 1)
		conf->divisions[class] = divisions;
	*last = (int)class;
	return true;
}

static bool
conf_divisions(struct reader *r, struct torch_conf *conf)
{
	uint64_t divisions;
	int last = -1;

	memset(conf->divisions, 0, sizeof(conf->divisions));
	if (!conf_skip(r, '[')) {
		if (!conf_whole(r, 1, UINT64_MAX, &divisions))
			return false;
		if (!is_power2(divisions))
			return refuse_conf(r,
			    "%s: %" PRIu64 " is not a power of 2", r->key,
			    divisions);
		for (unsigned i = 0; i < TORCH_CLASSES; i++)
			conf->divisions[i] = divisions;
		return true;
	}
	do
		if (!conf_division(r, conf, &last))
			return false;
	while (conf_skip(r, ','));
	if (!conf_skip(r, ']'))
		return refuse_conf(r, "%s: ']' is missing", r->key);
	return true;
}

static bool
conf_backend(struct reader *r)
{
	char word[WORD];

	conf_word(r, word);
	if (strcmp(word, "native") == 0)
		return true;
	return refuse_conf(r,
	    strcmp(word, "cudaMallocAsync") == 0 ?
		"backend:%s is not modelled; only native is" :
		"backend is native or cudaMallocAsync, not '%s'",
	    word);
}

/* Keys without an effect on the device memory that is held. */
static const char *const without_effect[] = { "pinned_use_background_threads",
	"pinned_use_cuda_host_register", "pinned_use_hip_host_register",
	"pinned_num_register_threads", "pinned_reserve_segment_size_mb",
	"release_lock_on_cudamalloc", "release_lock_on_hipmalloc",
	"graph_capture_record_stream_reuse", NULL };

static bool
conf_other(struct reader *r)
{
	static const char *const keys[] = { "backend", "expandable_segments",
		"garbage_collection_threshold", "large_segment_size_mb",
		"max_non_split_rounding_mb", "max_split_size_mb",
		"per_process_memory_fraction", "roundup_power2_divisions",
		NULL };
	char nearest[GUESS_TEXT];
	char word[WORD];

	for (const char *const *key = without_effect; *key != NULL; key++)
		if (strcmp(r->key, *key) == 0) {
			conf_word(r, word);
			return true;
		}
	return refuse_conf(r,
	    "PyTorch's allocator has no setting '%s', or it is not modelled%s",
	    r->key, guess_of(r->key, keys, nearest));
}

static bool
conf_value(struct reader *r, struct torch_conf *conf)
{
	uint64_t least = conf->large_segment / MIB;

	if (strcmp(r->key, "expandable_segments") == 0)
		return conf_bool(r, &conf->expandable);
	if (strcmp(r->key, "max_split_size_mb") == 0)
		return conf_mb(r, least, &conf->max_split);
	if (strcmp(r->key, "max_non_split_rounding_mb") == 0)
		return conf_mb(r, least, &conf->max_non_split_rounding);
	if (strcmp(r->key, "large_segment_size_mb") == 0) {
		if (!conf_mb(r, 11, &conf->large_segment))
			return false;
		conf->max_non_split_rounding = conf->large_segment;
		return true;
	}
	if (strcmp(r->key, "garbage_collection_threshold") == 0)
		return conf_real(r, false, &conf->gc_threshold);
	if (strcmp(r->key, "per_process_memory_fraction") == 0)
		return conf_real(r, true, &conf->memory_fraction);
	if (strcmp(r->key, "roundup_power2_divisions") == 0)
		return conf_divisions(r, conf);
	if (strcmp(r->key, "backend") == 0)
		return conf_backend(r);
	return conf_other(r);
}

bool
torch_conf_parse(
    const char *text, struct torch_conf *conf, char why[TORCH_CONF_WHY])
{
	struct reader reader = { .at = text, .why = why };

	while (isspace((unsigned char)*reader.at))
		reader.at++;
	while (*reader.at != '\0') {
		conf_word(&reader, reader.key);
		if (!conf_skip(&reader, ':'))
			return refuse_conf(&reader,
			    "PyTorch's settings are key:value, not '%s'",
			    reader.key);
		if (!conf_value(&reader, conf))
			return false;
		if (*reader.at == '\0')
			break;
		if (!conf_skip(&reader, ','))
			return refuse_conf(&reader,
			    "'%c' after the value of %s", *reader.at,
			    reader.key);
	}
	return true;
}

/* ---- Sizes ----------------------------------------------------------- */

/* Round to a multiple of an n-th of the power of two below. */
static uint64_t
round_division(uint64_t bytes, uint64_t divisions)
{
	unsigned log = 63u - (unsigned)__builtin_clzll(bytes);
	uint64_t floor = UINT64_C(1) << log;
	uint64_t step = floor / divisions;

	if (is_power2(bytes))
		return bytes;
	if (step == 0)
		return 2 * floor;
	return (bytes + step - 1) / step * step;
}

uint64_t
torch_round_size(const struct torch_conf *conf, uint64_t bytes)
{
	uint64_t divisions;
	unsigned class = 0;

	if (bytes < 512)
		return 512;
	if (bytes >= 2 * MIB)
		class = class_of_mb(bytes / MIB);
	divisions = conf->divisions[class];
	if (divisions > 1 && bytes > 512 * divisions)
		return round_division(bytes, divisions);
	return (bytes + 511) / 512 * 512;
}
