/*
 * Sorts the addresses of each round, which gives the bytes that it lay in.
 */
#include "tools/weir/plan/plan_steady.h"

#include <stdlib.h>
#include <string.h>

#include "tools/weir/plan/tuning.h"
#include "tools/weir/tool.h"

struct steady_range {
	uint64_t begin;
	uint64_t end;
};

struct steady_round {
	uint64_t begin_us; /* of its first request */
	uint64_t us;       /* to that of the next round */
	uint64_t bytes;
	uint32_t moved; /* requests that the next round has elsewhere */
};

struct steady {
	uint32_t length; /* of a round, in requests */
	uint32_t count;  /* of the rounds that have a next one */
	struct steady_round *rounds;
	uint64_t *addrs;             /* of the round under way and the last */
	struct steady_range *ranges; /* of the round under way */
	uint64_t median_us;
	uint64_t most_us; /* that a round may take */
};

static int
compare_ranges(const void *one, const void *other)
{
	const struct steady_range *a = one;
	const struct steady_range *b = other;

	return (a->begin > b->begin) - (a->begin < b->begin);
}

/* The bytes that ranges have together. */
static uint64_t
bytes_of(struct steady_range *ranges, uint32_t count)
{
	uint64_t bytes = 0;
	uint64_t end = 0;

	qsort(ranges, count, sizeof(*ranges), compare_ranges);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t begin = ranges[i].begin > end ? ranges[i].begin : end;

		if (ranges[i].end <= begin)
			continue;
		bytes += ranges[i].end - begin;
		end = ranges[i].end;
	}
	return bytes;
}

/* Compare a request of a round with that of the round before. */
static void
pass_next(struct steady *steady, const struct trace *trace, size_t row,
    uint32_t round, uint32_t place)
{
	struct steady_round *before = &steady->rounds[round - 1];

	if (place == 0)
		before->us = trace->rows[row].time_us - before->begin_us;
	before->moved += steady->addrs[place] != trace->addrs[row];
}

/* Pass a request of the rounds, the `made`-th. */
static void
pass_steady(
    struct steady *steady, const struct trace *trace, size_t row, uint64_t made)
{
	uint32_t round = (uint32_t)(made / steady->length);
	uint32_t place = (uint32_t)(made % steady->length);
	uint64_t addr = trace->addrs[row];

	if (round > 0)
		pass_next(steady, trace, row, round, place);
	steady->addrs[place] = addr;
	if (round == steady->count)
		return;
	if (place == 0)
		steady->rounds[round].begin_us = trace->rows[row].time_us;
	steady->ranges[place] =
	    (struct steady_range){ addr, addr + trace->rows[row].size };
	if (place == steady->length - 1)
		steady->rounds[round].bytes =
		    bytes_of(steady->ranges, steady->length);
}

static void
pass_rounds(struct steady *steady, const struct trace *trace,
    const struct plan_requests *requests)
{
	uint64_t most = (steady->count + UINT64_C(1)) * steady->length;

	for (size_t i = 0; i < trace->row_count; i++) {
		const struct trace_row *row = &trace->rows[i];
		uint32_t request;

		if (row->action != 'a')
			continue;
		request = requests->of_block[row->block];
		if (request != PLAN_NO_REQUEST && request >= requests->round &&
		    request - requests->round < most)
			pass_steady(
			    steady, trace, i, request - requests->round);
	}
}

/* ---- The choice -------------------------------------------------------- */

static int
compare_times(const void *one, const void *other)
{
	const struct steady_round *a = one;
	const struct steady_round *b = other;

	return (a->us > b->us) - (a->us < b->us);
}

static bool
is_steady(const struct steady *steady, const struct steady_round *round)
{
	uint64_t most = steady->median_us / PLANNED_STEADY_SHARE;

	return round->us + most >= steady->median_us &&
	    round->us <= steady->median_us + most;
}

/* Find how long rounds take. False without memory. */
static bool
measure_rounds(struct steady *steady)
{
	size_t bytes = steady->count * sizeof(*steady->rounds);
	struct steady_round *sorted = malloc(bytes);
	uint64_t count = 0;
	uint64_t sum = 0;

	if (sorted == NULL)
		return false;
	memcpy(sorted, steady->rounds, bytes);
	qsort(sorted, steady->count, sizeof(*sorted), compare_times);
	steady->median_us = sorted[steady->count / 2].us;
	free(sorted);
	for (uint32_t i = 0; i < steady->count; i++)
		if (is_steady(steady, &steady->rounds[i])) {
			sum += steady->rounds[i].us;
			count++;
		}
	steady->most_us = count > 0 ? sum / count : steady->median_us;
	steady->most_us += steady->most_us / PLANNED_COST_SHARE;
	return true;
}

static bool
is_worth(const struct steady *steady, const struct steady_round *round)
{
	return is_steady(steady, round) && round->us <= steady->most_us &&
	    round->moved <= steady->length / PLANNED_MOVED_SHARE;
}

static uint32_t
choose_steady(const struct steady *steady)
{
	uint32_t best = steady->count - 1;
	bool found = false;

	for (uint32_t i = 0; i < steady->count; i++)
		if (is_worth(steady, &steady->rounds[i]) &&
		    (!found ||
			steady->rounds[i].bytes <=
			    steady->rounds[best].bytes)) {
			best = i;
			found = true;
		}
	return best;
}

bool
plan_steady_round(const struct trace *trace,
    const struct plan_requests *requests, uint32_t *out)
{
	struct steady steady = {
		.length = requests->length,
		.count =
		    (requests->count - requests->round) / requests->length - 1,
	};
	bool made;

	steady.rounds = calloc(steady.count, sizeof(*steady.rounds));
	steady.addrs = calloc(steady.length, sizeof(*steady.addrs));
	steady.ranges = calloc(steady.length, sizeof(*steady.ranges));
	made = steady.rounds != NULL && steady.addrs != NULL &&
	    steady.ranges != NULL;
	if (made)
		pass_rounds(&steady, trace, requests);
	made = made && measure_rounds(&steady);
	if (made)
		*out = choose_steady(&steady);
	else
		complain("out of memory");
	free(steady.rounds);
	free(steady.addrs);
	free(steady.ranges);
	return made;
}
