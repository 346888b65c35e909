#include "tools/weir/advise/advise_find.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/advise/advise_trial.h"
#include "tools/weir/advise/tuning.h"
#include "tools/weir/progress.h"
#include "tools/weir/reading/snapshot_moment.h"
#include "tools/weir/reading/snapshot_out.h"
#include "tools/weir/reading/snapshot_verdict.h"
#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/replay/trial.h"
#include "tools/weir/tool.h"
#include "tools/weir/torch/torch_replay.h"

enum { COST_TEXT = 512 };

/* Remedies of a lower price come first. */
enum advise_price {
	ADVISE_FREE,   /* the program runs as before */
	ADVISE_LITTLE, /* a small part of the time */
	ADVISE_TIME,   /* the program may take longer */
};

struct candidate {
	char what[VIEW_TEXT]; /* continues "With" */
	char setting[SETTINGS_LINE];
	char conf[SETTINGS_LINE];
	bool weir;
	bool fresh;             /* its replay has no older free memory */
	const char *known_cost; /* besides those that the replay shows; or "" */
	enum advise_price price;
	bool tried;
	bool serves; /* the failed request */
	int64_t gain;
	struct advise_figures whole;
	struct advise_figures limited; /* with the limit */
};

struct finder {
	const struct advise_request *request;
	struct advice *out;
	struct advise_case whole;
	struct advise_case limited; /* without a path if there is none */
	struct advise_figures base;
	struct advise_figures base_fresh; /* without older free memory */
	struct advise_figures base_limited;
	struct candidate items[ADVISE_CANDIDATES];
	unsigned count;
	struct progress progress;
	int64_t began_ms;
	int64_t longest_ms; /* of a candidate */
	bool weir_plays;
};

/* ---- The recording's own settings ------------------------------------ */

/* The settings of PyTorch's allocator that the snapshot has. Settings without a
 * model are left out. */
static void
find_torch_conf(const struct snapshot *snapshot, char conf[SETTINGS_LINE])
{
	const char *text = setting_value(
	    snapshot, "allocator_settings.PYTORCH_CUDA_ALLOC_CONF");
	char why[TORCH_CONF_WHY];
	struct torch_conf parsed;

	torch_conf_init(&parsed);
	conf[0] = '\0';
	if (text != NULL && strlen(text) < VIEW_TEXT &&
	    torch_conf_parse(text, &parsed, why))
		snprintf(conf, SETTINGS_LINE, "%s", text);
	if (!parsed.expandable && settings_expandable(snapshot))
		snprintf(conf + strlen(conf), SETTINGS_LINE - strlen(conf),
		    "%sexpandable_segments:True", conf[0] == '\0' ? "" : ",");
}

static void
find_own_settings(struct finder *f)
{
	struct advice *out = f->out;

	out->weir = settings_of_weir(f->request->snapshot);
	if (!out->weir)
		find_torch_conf(f->request->snapshot, out->conf);
	else if (!trial_conf_accepted("the settings of the file",
		     settings_replayed(
			 f->request->snapshot, NULL, NULL, out->conf)))
		out->conf[0] = '\0';
}

/* ---- Candidates ------------------------------------------------------ */

/* Add a candidate, whose setting is "export NAME=CONF". */
static struct candidate *
add_candidate(struct finder *f, const char *what, const char *setting,
    enum advise_price price, const char *known_cost)
{
	struct candidate *item = &f->items[f->count++];
	const char *equals = strchr(setting, '=');

	*item = (struct candidate){
		.weir = f->out->weir,
		.price = price,
		.known_cost = known_cost,
	};
	snprintf(item->what, sizeof(item->what), "%s", what);
	snprintf(item->setting, sizeof(item->setting), "%s", setting);
	snprintf(item->conf, sizeof(item->conf), "%s",
	    equals == NULL ? "" : equals + 1);
	return item;
}

static void
add_torch_option(struct finder *f, const char *option, enum advise_price price,
    const char *known_cost)
{
	char line[SETTINGS_LINE];
	char key[VIEW_TEXT];

	snprintf(
	    key, sizeof(key), "%.*s", (int)(strcspn(option, ":") + 1), option);
	if (strstr(f->out->conf, key) != NULL)
		return;
	add_candidate(f, option,
	    settings_torch_line(f->request->snapshot, option, line), price,
	    known_cost);
}

/* Offer weir in place of PyTorch's allocator. */
static void
add_weir(struct finder *f, const char *conf, enum advise_price price,
    const char *known_cost)
{
	char setting[SETTINGS_LINE];
	char what[VIEW_TEXT];
	struct candidate *item;
	bool plain = conf[0] == '\0';

	snprintf(what, sizeof(what), "weir%s%s in place of PyTorch's allocator",
	    plain ? "" : " and ", conf);
	snprintf(setting, sizeof(setting), "weir run --torch%s%s -- PROGRAM",
	    plain ? "" : " --conf ", conf);
	item = add_candidate(f, what, setting, price, known_cost);
	item->weir = true;
	item->fresh = true;
	snprintf(item->conf, sizeof(item->conf), "%s", conf);
}

static void
add_torch_candidates(struct finder *f)
{
	struct torch_conf conf;
	char why[TORCH_CONF_WHY];

	torch_conf_init(&conf);
	torch_conf_parse(f->out->conf, &conf, why);
	if (!conf.expandable) {
		add_torch_option(
		    f, "expandable_segments:True", ADVISE_FREE, "");
		f->items[f->count - 1].fresh = true;
	}
	add_weir(f, "", ADVISE_LITTLE, "about 1 % of the time");
	add_torch_option(f, "roundup_power2_divisions:8", ADVISE_FREE, "");
	add_torch_option(f, "max_split_size_mb:128", ADVISE_FREE, "");
	add_torch_option(f, "max_split_size_mb:512", ADVISE_FREE, "");
	if (f->limited.limit != UINT64_MAX)
		add_torch_option(f,
		    "garbage_collection_threshold:0.8,"
		    "per_process_memory_fraction:0.99",
		    ADVISE_TIME,
		    "time, because each collection waits for the device, and "
		    "memory that it frees is allocated anew");
	add_weir(f, "prefer:memory", ADVISE_TIME,
	    "time, where several streams are busy, because they wait for each "
	    "other");
}

static void
add_weir_option(struct finder *f, const char *key, const char *value,
    enum advise_price price, const char *known_cost)
{
	const char *old = settings_weir_option(f->request->snapshot, key);
	char line[SETTINGS_LINE];
	char what[VIEW_TEXT];
	struct candidate *item;

	if (old != NULL && strcmp(old, value) == 0)
		return;
	snprintf(what, sizeof(what), "%s:%s", key, value);
	item = add_candidate(f, what,
	    settings_weir_line(f->request->snapshot, key, value, line), price,
	    known_cost);
	settings_replayed(f->request->snapshot, key, value, item->conf);
}

static void
add_weir_candidates(struct finder *f)
{
	if (settings_weir_option(f->request->snapshot, "expandable_segments") !=
	    NULL)
		add_weir_option(
		    f, "expandable_segments", "True", ADVISE_FREE, "");
	if (settings_weir_option(f->request->snapshot, "handle_mb") == NULL)
		add_weir_option(f, "handle_mb", "2", ADVISE_LITTLE,
		    "more calls of the driver where memory is new");
	add_weir_option(f, "prefer", "memory", ADVISE_TIME,
	    "time, where several streams are busy, because they wait for each "
	    "other");
}

/* ---- Trials ---------------------------------------------------------- */

static bool
play_both(struct finder *f, const struct advise_allocator *allocator,
    struct advise_figures *whole, struct advise_figures *limited)
{
	return advise_play(&f->whole, allocator, whole) &&
	    (f->limited.path == NULL ||
		advise_play(&f->limited, allocator, limited));
}

/* The replay that a candidate is compared with. */
static const struct advise_figures *
base_of(const struct finder *f, const struct candidate *item)
{
	return item->fresh ? &f->base_fresh : &f->base;
}

/* The replay may show a higher price. */
static void
correct_price(const struct finder *f, struct candidate *item)
{
	const struct advise_figures *now = &item->whole;
	const struct advise_figures *base = base_of(f, item);
	double delay = (double)now->delay_us - (double)base->delay_us;

	if (item->price == ADVISE_FREE &&
	    now->calls > ADVISE_CALLS_TIMES * base->calls)
		item->price = ADVISE_LITTLE;
	if (delay > ADVISE_DELAY_SHARE * (double)now->duration_us ||
	    now->retries > base->retries ||
	    item->limited.retries > f->base_limited.retries)
		item->price = ADVISE_TIME;
}

static bool
try_candidate(struct finder *f, struct candidate *item)
{
	const struct advise_allocator allocator = { item->weir, item->conf };
	int64_t now = progress_clock_ms();

	if ((item->weir && !f->weir_plays) ||
	    now - f->began_ms + f->longest_ms >=
		(int64_t)f->request->seconds * 1000) {
		f->out->skipped++;
		return true;
	}
	if (progress_due(&f->progress))
		progress_show(&f->progress, "advise: %u of %u, %s",
		    f->out->tried + f->out->skipped + 1, f->count, item->what);
	if (!play_both(f, &allocator, &item->whole, &item->limited))
		return false;
	item->tried = true;
	item->gain =
	    (int64_t)base_of(f, item)->held - (int64_t)item->whole.held;
	item->serves = f->out->fails && item->limited.ooms == 0;
	if (f->out->fails)
		json_object_set_new(
		    f->out->serves, item->setting, json_boolean(item->serves));
	correct_price(f, item);
	f->out->tried++;
	now = progress_clock_ms() - now;
	if (now > f->longest_ms)
		f->longest_ms = now;
	return true;
}

static bool
try_all(struct finder *f)
{
	const struct advise_allocator own = { f->out->weir, f->out->conf };
	int64_t begin = progress_clock_ms();

	if (f->out->weir && !f->weir_plays) {
		f->out->unplayable = true;
		complain("weir is not installed with its simulated device, "
			 "which replays need");
		return false;
	}
	if (!play_both(f, &own, &f->base, &f->base_limited))
		return false;
	f->base_fresh = f->base;
	if (f->out->older_held > 0 && !f->out->weir &&
	    !advise_play_fresh(&f->whole, own.conf, &f->base_fresh))
		return false;
	if (f->base_fresh.held > f->base.held)
		f->base_fresh.held = f->base.held;
	f->longest_ms = progress_clock_ms() - begin;
	f->out->held = f->base.held;
	f->out->fails = f->base_limited.ooms > 0;
	if (f->out->weir)
		add_weir_candidates(f);
	else
		add_torch_candidates(f);
	for (unsigned i = 0; i < f->count; i++)
		if (!try_candidate(f, &f->items[i]))
			return false;
	return true;
}

/* ---- The choice ------------------------------------------------------ */

static int
compare_candidates(const void *a, const void *b)
{
	const struct candidate *first = a;
	const struct candidate *second = b;

	if (first->serves != second->serves)
		return first->serves ? -1 : 1;
	if (first->price != second->price)
		return first->price < second->price ? -1 : 1;
	if (first->gain != second->gain)
		return first->gain > second->gain ? -1 : 1;
	return strcmp(first->what, second->what);
}

static __attribute__((format(printf, 2, 3))) void
add_cost(char text[COST_TEXT], const char *format, ...)
{
	size_t n = strlen(text);
	va_list args;

	if (n > 0)
		n += (size_t)snprintf(text + n, COST_TEXT - n, "; ");
	va_start(args, format);
	vsnprintf(text + n, COST_TEXT - n, format, args);
	va_end(args);
}

/* Name what the replay has shown. */
static void
describe_costs(
    const struct finder *f, const struct candidate *item, char text[COST_TEXT])
{
	const struct advise_figures *now = &item->whole;
	const struct advise_figures *base = base_of(f, item);
	uint64_t waits = now->host_waits + now->gpu_waits;
	uint64_t retries = now->retries > item->limited.retries ?
	    now->retries :
	    item->limited.retries;
	char number[VIEW_TEXT];
	char before[VIEW_TEXT];

	text[0] = '\0';
	if (item->known_cost[0] != '\0')
		add_cost(text, "%s", item->known_cost);
	if (retries > 0)
		add_cost(text, "%" PRIu64 " %s, which wait%s for the device",
		    retries, retries == 1 ? "retry" : "retries",
		    retries == 1 ? "s" : "");
	if (waits > base->host_waits + base->gpu_waits)
		add_cost(text,
		    "%s between streams in place of %s, by which the replay "
		    "takes %.1f %% longer",
		    plural_text(waits, "wait", number),
		    count_text(base->host_waits + base->gpu_waits, before),
		    now->duration_us == 0 ?
			0.0 :
			100 * (double)now->delay_us / (double)now->duration_us);
	if (now->calls > base->calls)
		add_cost(text, "%s of the driver in place of %s",
		    plural_text(now->calls, "call", number),
		    count_text(base->calls, before));
	if (text[0] == '\0')
		add_cost(text,
		    "nothing that the replay shows: no waits, and no more "
		    "calls of the driver");
}

static json_t *
sentence_json(
    const struct finder *f, const struct candidate *item, const char *costs)
{
	char change[VIEW_TEXT];
	char served[VIEW_TEXT] = "";
	const char *more = item->gain < 0 ? "more" : "less";
	uint64_t size = (uint64_t)(item->gain < 0 ? -item->gain : item->gain);
	uint64_t before = base_of(f, item)->held;

	if (size == 0)
		snprintf(change, sizeof(change), "as before");
	else
		snprintf(change, sizeof(change),
		    "in place of %s, %s (%.0f %%) %s", size_text(before),
		    size_text(size), 100 * (double)size / (double)before, more);
	if (item->serves && f->out->request != 0)
		snprintf(served, sizeof(served),
		    "the failed request of %s is served, and ",
		    size_text(f->out->request));
	else if (item->serves)
		snprintf(served, sizeof(served),
		    "no request fails within %s, and ",
		    size_text(f->out->limit));
	return json_sprintf("With %s %sthe whole recording holds %s at its "
			    "peak, %s%s. It costs %s.",
	    item->what, served, size_text(item->whole.held), change,
	    f->out->fails && !item->serves ?
		"; requests still fail within the limit" :
		"",
	    costs);
}

static void
add_advice(struct finder *f, const struct candidate *item)
{
	json_t *one = json_object();
	json_t *costs = json_object();
	char text[COST_TEXT];

	describe_costs(f, item, text);
	json_object_set_new(one, "allocator",
	    item->weir             ? json_string("weir") :
		item->conf[0] != 0 ? json_sprintf("torch,%s", item->conf) :
				     json_string("torch"));
	json_object_set_new(
	    one, "conf", item->weir ? json_of_text(item->conf) : json_null());
	json_object_set_new(one, "setting", json_of_text(item->setting));
	put_number(one, "peak_held_bytes", item->whole.held);
	put_number(one, "compared_held_bytes", base_of(f, item)->held);
	json_object_set_new(one, "gain_bytes", json_integer(item->gain));
	json_object_set_new(one, "serves",
	    f->out->fails ? json_boolean(item->serves) : json_null());
	put_number(costs, "driver_calls", item->whole.calls);
	put_number(costs, "driver_calls_before", base_of(f, item)->calls);
	put_number(costs, "retries", item->whole.retries);
	put_number(costs, "retries_within_limit", item->limited.retries);
	put_number(costs, "host_waits", item->whole.host_waits);
	put_number(costs, "gpu_waits", item->whole.gpu_waits);
	put_number(costs, "delay_us", item->whole.delay_us);
	put_number(costs, "duration_us", item->whole.duration_us);
	json_object_set_new(one, "costs", costs);
	json_object_set_new(one, "text", sentence_json(f, item, text));
	json_array_append_new(f->out->list, one);
}

/* List the cheapest remedy, and those that gain notably more. Where a request
 * has failed, only those that serve it count if there are any. */
static void
choose_candidates(struct finder *f)
{
	double least = ADVISE_GAIN_SHARE * (double)f->base.held;
	double best = 0;
	bool any_serves;

	if (least < ADVISE_GAIN_LEAST)
		least = ADVISE_GAIN_LEAST;
	qsort(f->items, f->count, sizeof(struct candidate), compare_candidates);
	any_serves = f->count > 0 && f->items[0].serves;
	for (unsigned i = 0;
	     i < f->count && json_array_size(f->out->list) < ADVISE_SENTENCES;
	     i++) {
		const struct candidate *item = &f->items[i];
		bool first = json_array_size(f->out->list) == 0;
		double more = ADVISE_MORE_SHARE * (double)f->base.held;

		if (!item->tried || item->serves != any_serves ||
		    (!any_serves && (double)item->gain < least) ||
		    (!first && (double)item->gain < best + more))
			continue;
		best = (double)item->gain;
		add_advice(f, item);
	}
}

/* ---- The call -------------------------------------------------------- */

/* Prepare the case with the limit: that of the request, or the last failed
 * request of the recording. */
static bool
prepare_limited(struct finder *f)
{
	const struct advise_request *request = f->request;
	struct verdict failure;

	f->limited.limit = UINT64_MAX;
	f->out->limit = UINT64_MAX;
	if (request->limit != UINT64_MAX) {
		f->out->limit = request->limit;
		return advise_case_whole(&f->limited, request->snapshot,
		    request->device, f->whole.path, request->limit);
	}
	if (!verdict_last_failure(
		request->snapshot, (int)request->device, &failure))
		return true;
	f->out->request = failure.bytes;
	if (!advise_case_failure(&f->limited, request->snapshot, failure.event))
		return false;
	f->out->limit = f->limited.limit;
	return true;
}

bool
advise_find(const struct advise_request *request, struct advice *out)
{
	struct finder f = { .request = request, .out = out };
	char part[TOOL_PATH];
	bool good;

	*out = (struct advice){ .list = json_array(), .serves = json_object() };
	f.began_ms = progress_clock_ms();
	f.weir_plays =
	    locate_quietly("sim/libcuda.so.1", part) && use_simulated_if(true);
	out->recorded_held =
	    moment_held_peak(request->snapshot, request->device);
	progress_begin(&f.progress, PROGRESS_AFTER_MS);
	trial_forget_environment();
	find_own_settings(&f);
	good = out->list != NULL && out->serves != NULL &&
	    advise_case_whole(&f.whole, request->snapshot, request->device,
		request->path, UINT64_MAX);
	/* A trace in CSV has one device, without a number. */
	if (good && request->path != NULL &&
	    request->device == snapshot_traced_device(request->snapshot, 0))
		f.whole.device = -1;
	good = good && prepare_limited(&f);
	if (good && f.limited.path == f.whole.path)
		f.limited.device = f.whole.device;
	if (good) {
		out->older_held = advise_older_held(&f.whole);
		out->empty =
		    !advise_has_request(&f.whole) && f.limited.path == NULL;
	}
	good = good && (out->empty || try_all(&f));
	progress_end(&f.progress);
	if (good)
		choose_candidates(&f);
	advise_case_drop(&f.whole);
	advise_case_drop(&f.limited);
	return good;
}

void
advice_drop(struct advice *advice)
{
	json_decref(advice->list);
	json_decref(advice->serves);
	advice->list = NULL;
	advice->serves = NULL;
}

/* ---- Output ---------------------------------------------------------- */

void
advice_print(const struct advice *advice, const char *all)
{
	const json_t *one;
	size_t i;

	json_array_foreach(advice->list, i, one)
	{
		printf("- %s\n      %s\n",
		    json_string_value(json_object_get(one, "text")),
		    json_string_value(json_object_get(one, "setting")));
	}
	if (advice->empty)
		puts("nothing: the history has no request, so that there is "
		     "nothing to replay");
	else if (json_array_size(advice->list) == 0)
		puts("nothing: no setting that was tried holds notably less");
	if (!advice->empty && !advice->weir && advice->older_held > 0)
		printf("The recording begins in the middle: %s of the %s were "
		       "held before. A recording that begins with the program "
		       "may show more.\n",
		    size_text(advice->older_held), size_text(advice->held));
	if (advice->skipped > 0)
		printf("%u settings were not tried; %s tries all\n",
		    advice->skipped, all);
}

json_t *
advice_json(const struct advice *advice)
{
	json_t *json = json_object();

	json_object_set_new(
	    json, "allocator", json_string(advice->weir ? "weir" : "torch"));
	json_object_set_new(json, "conf", json_of_text(advice->conf));
	put_number(json, "peak_held_bytes", advice->held);
	json_object_set_new(json, "recorded_held_bytes",
	    advice->recorded_held == 0 ?
		json_null() :
		json_integer((json_int_t)advice->recorded_held));
	put_number(json, "older_held_bytes", advice->older_held);
	json_object_set_new(json, "failed_request_bytes",
	    advice->request == 0 ? json_null() :
				   json_integer((json_int_t)advice->request));
	json_object_set_new(json, "limit_bytes",
	    advice->limit == UINT64_MAX ?
		json_null() :
		json_integer((json_int_t)advice->limit));
	json_object_set_new(json, "fails",
	    advice->limit == UINT64_MAX ? json_null() :
					  json_boolean(advice->fails));
	put_number(json, "tried", advice->tried);
	put_number(json, "skipped", advice->skipped);
	json_object_set(json, "advice", advice->list);
	return json;
}
