#include "tools/weir/fit/fit_largest.h"

#include <inttypes.h>
#include <string.h>

#include "tools/weir/fit/tuning.h"
#include "tools/weir/progress.h"
#include "tools/weir/tool.h"

struct largest_search {
	struct fit_program *program;
	unsigned name;
	uint64_t limit;
	/* The least value that exceeds the limit by its live bytes, or whose
	 * forecast is too long, which makes the search `open`. */
	uint64_t ceiling;
	bool open;
	uint32_t length_max;   /* allocations of a forecast */
	uint64_t played_max;   /* allocations of all replays */
	const char *allocator; /* NULL: any */
	unsigned replays;
	uint64_t played; /* allocations */
	struct progress progress;
};

/* The ends of a bisection: `low` fits (or is 0) and `high` does not. */
struct value_range {
	uint64_t low;
	uint64_t high;
	uint64_t low_retries;
};

static void
show_value(struct largest_search *search, uint64_t value)
{
	if (!progress_due(&search->progress))
		return;
	progress_show(&search->progress, "fit: %s with %s=%" PRIu64,
	    search->allocator == NULL ? "forecast" : search->allocator,
	    search->program->numbers.name[search->name], value);
}

/* Set *more if the live bytes of a value exceed the limit, or if its forecast
 * would be too long. No replay is needed. */
static bool
exceeds_live(struct largest_search *search, uint64_t value, bool *more)
{
	struct fit_forecast made = { 0 };

	show_value(search, value);
	search->program->numbers.ask[search->name] = (double)value;
	*more = true;
	if (fit_forecast_length(search->program) > search->length_max) {
		search->open = true;
		return true;
	}
	if (!fit_forecast_make(search->program, &made))
		return false;
	*more = fit_live_peak(&made).value > search->limit;
	fit_forecast_drop(&made);
	return true;
}

/* Find the ceiling, FIT_VALUE_MAX at most. */
static bool
find_ceiling(struct largest_search *search, uint64_t asked)
{
	uint64_t low = 0;
	uint64_t high = asked == 0 ? 1 : asked;
	bool more = false;

	while (high < FIT_VALUE_MAX) {
		if (!exceeds_live(search, high, &more))
			return false;
		if (more)
			break;
		low = high;
		high *= 2;
	}
	if (!more) {
		search->open = true;
		search->ceiling = FIT_VALUE_MAX;
		return true;
	}
	/* Only the value at the ceiling says whether the search is open. */
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		search->open = false;
		if (!exceeds_live(search, middle, &more))
			return false;
		*(more ? &high : &low) = middle;
	}
	search->ceiling = high;
	return exceeds_live(search, high, &more);
}

/* The limit of a replay. What may be live more than is forecast is kept back,
 * but no more than makes an answer too low; and what weir may need more,
 * because its blocks lie elsewhere. */
static uint64_t
limit_of(
    const struct largest_search *search, const struct fit_forecast *forecast)
{
	struct fit_range live = fit_live_peak(forecast);
	uint64_t most = (uint64_t)(FIT_RESERVE_MOST * (double)search->limit);
	uint64_t reserve = live.high - live.value;

	if (reserve > most)
		reserve = most;
	if (strcmp(search->allocator, "weir") == 0)
		reserve += FIT_WEIR_PAGES;
	return reserve < search->limit ? search->limit - reserve : 0;
}

/* Replay a value under the limit. Set *fits if no request fails, and no more
 * than `retries_most` needed a retry. */
static bool
replay_value(struct largest_search *search, uint64_t value,
    uint64_t retries_most, uint64_t *retries, bool *fits)
{
	struct fit_setting setting = { .name = search->allocator };
	struct fit_forecast made = { 0 };
	bool good;

	show_value(search, value);
	search->replays++;
	search->played += fit_forecast_length(search->program);
	search->program->numbers.ask[search->name] = (double)value;
	good = fit_forecast_make(search->program, &made) &&
	    fit_judge_setting(&made, limit_of(search, &made), true, &setting);
	fit_forecast_drop(&made);
	*fits = good && setting.ooms == 0 && setting.retries <= retries_most;
	*retries = setting.retries;
	return good;
}

/* Search down from range->high in growing steps until a value fits, and bisect
 * between it and the value above it. */
static bool
search_down(struct largest_search *search, uint64_t retries_most,
    struct value_range *range)
{
	uint64_t step = 1;

	while (range->high > range->low + 1 &&
	    search->replays < FIT_REPLAYS_MAX &&
	    search->played < search->played_max) {
		uint64_t span = range->high - range->low;
		uint64_t value = range->low + span / 2;
		uint64_t retries;
		bool fits;

		if (range->low == 0 && step < span)
			value = range->high - step;
		step *= 2;
		if (!replay_value(search, value, retries_most, &retries, &fits))
			return false;
		if (fits) {
			range->low = value;
			range->low_retries = retries;
		} else {
			range->high = value;
		}
	}
	return true;
}

/* Replay the values just below one that fits. If one fails, the range begins
 * there again: where fragmentation makes some values fail and others fit, one
 * that fits has luck, which a program may not have. */
static bool
check_below(struct largest_search *search, struct value_range *range)
{
	uint64_t count = range->low / FIT_BELOW_SHARE + 1;

	for (uint64_t i = 1; i <= count && i < range->low &&
	     search->replays < FIT_REPLAYS_MAX &&
	     search->played < search->played_max;
	     i++) {
		uint64_t retries;
		bool fits;

		if (!replay_value(
			search, range->low - i, UINT64_MAX, &retries, &fits))
			return false;
		if (!fits) {
			range->high = range->low - i;
			range->low = 0;
			return true;
		}
	}
	return true;
}

/* Find the largest value that fits with those just below it. */
static bool
search_largest(struct largest_search *search, struct value_range *range)
{
	uint64_t found;

	do {
		if (!search_down(search, UINT64_MAX, range))
			return false;
		found = range->low;
		if (!check_below(search, range))
			return false;
	} while (range->low < found);
	return true;
}

static bool
search_setting(struct largest_search *search, struct fit_setting *setting)
{
	struct value_range range = { 0 };
	struct value_range calm = { 0 };

	search->allocator = setting->name;
	search->replays = 0;
	search->played = 0;
	range.high = search->ceiling;
	if (!search_largest(search, &range))
		return false;
	setting->largest = range.low;
	setting->largest_retries = range.low_retries;
	setting->largest_calm = range.low;
	setting->largest_open = range.high - range.low > 1 ||
	    (search->open && range.high == search->ceiling);
	if (range.low_retries == 0)
		return true;
	calm.high = range.low;
	if (!search_down(search, 0, &calm))
		return false;
	setting->largest_calm = calm.low;
	return true;
}

static void
bound_search(struct largest_search *search)
{
	uint64_t asked = fit_forecast_length(search->program);
	uint64_t most = asked * FIT_SEARCHED_TIMES;

	if (asked < FIT_SEARCHED_MAX)
		asked = FIT_SEARCHED_MAX;
	if (most < FIT_SEARCHED_MAX)
		most = FIT_SEARCHED_MAX;
	if (most > FIT_FORECAST_MAX)
		most = FIT_FORECAST_MAX;
	search->length_max = (uint32_t)most;
	search->played_max = FIT_PLAYED_TIMES * asked;
}

bool
fit_largest(struct fit_program *program, unsigned name, uint64_t limit,
    struct fit_judgement *judged)
{
	double asked = program->numbers.ask[name];
	struct largest_search search = {
		.program = program,
		.name = name,
		.limit = limit,
	};
	bool good;

	bound_search(&search);
	progress_begin(&search.progress, PROGRESS_AFTER_MS);
	good = find_ceiling(&search, (uint64_t)asked);
	for (unsigned i = 0; good && i < judged->setting_count; i++)
		good = search_setting(&search, &judged->settings[i]);
	progress_end(&search.progress);
	program->numbers.ask[name] = asked;
	return good;
}
