/*
 * A part that the pattern has and a smaller recording lacks is a number of
 * rounds of a loop if it repeats the allocations before it. From there the loop
 * is followed to both sides as far as its allocations repeat.
 *
 * A block that begins in a round ends in the same loop, some rounds later; or
 * in another loop: in its own round of it, or counted from the end, as a
 * backward pass does; or in a place that is no loop.
 */
#include "tools/weir/fit/fit_loops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/fit/tuning.h"

/* ---- Finding --------------------------------------------------------- */

/* A list of allocations in which loops are searched. */
struct search {
	const struct fit_run *run;
	/* Sizes must be equal. Otherwise call sites must, or lives where sites
	 * say nothing. */
	bool strict;
	double likeness; /* the share of allocations that must repeat */
	uint32_t least;  /* the shortest period */
};

/* True if an allocation may be that of another round. */
static bool
repeats(const struct search *search, uint32_t a, uint32_t b)
{
	const struct fit_alloc *first = &search->run->allocs[a];
	const struct fit_alloc *second = &search->run->allocs[b];

	if (first->key != second->key || first->older != second->older)
		return false;
	if (first->bytes == second->bytes)
		return true;
	if (search->strict)
		return false;
	return !first->vague ||
	    (first->end != FIT_NEVER && first->end - a == second->end - b);
}

/* The share of `count` allocations from `at` on that are like those `shift`
 * places behind them; before them, if it is below 0. */
static double
likeness(
    const struct search *search, uint32_t at, uint32_t count, int64_t shift)
{
	uint32_t same = 0;

	for (uint32_t i = 0; i < count; i++) {
		int64_t other = (int64_t)at + i + shift;

		same += other >= 0 && other < search->run->count &&
		    repeats(search, at + i, (uint32_t)other);
	}
	return count == 0 ? 0 : (double)same / count;
}

/* True if the allocations of a round are not all of one kind, as those of a
 * list are. */
static bool
is_varied(const struct search *search, uint32_t at, uint32_t period)
{
	const struct fit_alloc *first = &search->run->allocs[at];
	uint32_t life = first->end - at;

	for (uint32_t i = at + 1; i < at + period; i++) {
		const struct fit_alloc *other = &search->run->allocs[i];

		if (other->key != first->key || other->end - i != life)
			return true;
	}
	return false;
}

/* The number of the next allocations that repeat others with a shift, up to the
 * first few that do not. */
static uint32_t
count_repeating(const struct search *search, uint32_t at, uint32_t count,
    uint32_t period, int64_t shift)
{
	uint32_t window = (LOOP_WINDOW + period - 1) / period * period;
	uint32_t done = 0;

	if (likeness(search, at, period < count ? period : count, shift) <
	    search->likeness)
		return 0;
	while (done < count) {
		uint32_t part = count - done < window ? count - done : window;

		if (likeness(search, at + done, part, shift) < search->likeness)
			break;
		done += part;
	}
	/* In whole rounds, or nearly so. */
	if (period - done % period > period / 8)
		done -= done % period;
	return done;
}

/* A loop that was found in what a recording lacks. */
struct found {
	uint32_t count; /* allocations from the first one on; 0: no loop */
	uint32_t period;
	bool ahead; /* the rounds that the recording has come after them */
};

/* Use a shorter period, if it does as well. */
static void
shorten_period(const struct search *search, uint32_t at, struct found *found)
{
	for (uint32_t p = search->least; p <= found->period / 2; p++) {
		int64_t shift = found->ahead ? (int64_t)p : -(int64_t)p;

		if (found->period % p != 0 ||
		    likeness(search, at, found->count, shift) <
			search->likeness ||
		    (!search->strict && !is_varied(search, at, p)))
			continue;
		found->period = p;
		return;
	}
}

/* Find the period with which most of the next `count` allocations repeat; the
 * shortest of nearly equal ones. */
static void
find_period(const struct search *search, uint32_t at, uint32_t count,
    struct found *best)
{
	unsigned tried = 0;

	for (uint32_t p = search->least; p <= count && tried < LOOP_PERIODS;
	     p++)
		for (int side = 0; side < 2; side++) {
			int64_t shift = side == 0 ? -(int64_t)p : (int64_t)p;
			uint32_t head = count < 6 ? count : 6;
			uint32_t done;

			if (likeness(search, at, head, shift) < 0.3 ||
			    (!search->strict && !is_varied(search, at, p)))
				continue;
			tried++;
			done = count_repeating(search, at, count, p, shift);
			if (done < p || done < count / 8 ||
			    done <= best->count + best->count / 4)
				continue;
			*best = (struct found){ done, p, side == 1 };
		}
}

/* Find a loop, most strictly first. */
static bool
try_searches(
    struct search *search, uint32_t at, uint32_t count, struct found *found)
{
	static const struct search searches[] = {
		{ .strict = true, .likeness = 0.8, .least = 1 },
		{ .strict = false, .likeness = 0.8, .least = 2 },
		{ .strict = false, .likeness = 0.55, .least = 16 },
	};

	*found = (struct found){ 0 };
	for (unsigned i = 0; i < 3; i++) {
		search->strict = searches[i].strict;
		search->likeness = searches[i].likeness;
		search->least = searches[i].least;
		find_period(search, at, count, found);
		if (found->count == 0)
			continue;
		shorten_period(search, at, found);
		return true;
	}
	return false;
}

/* Follow a loop to both sides. */
static struct fit_loop
follow_loop(const struct search *search, uint32_t at, struct found found)
{
	uint32_t period = found.period;
	int64_t shift = period;
	uint32_t first = found.ahead ? at : at - period;
	uint32_t last = at + found.count + (found.ahead ? period : 0);

	while (first >= period &&
	    likeness(search, first - period, period, shift) >= search->likeness)
		first -= period;
	while (first > 0 && likeness(search, first - 1, 1, shift) == 1)
		first--;
	while (last + period <= search->run->count &&
	    likeness(search, last, period, -shift) >= search->likeness)
		last += period;
	while (
	    last < search->run->count && likeness(search, last, 1, -shift) == 1)
		last++;
	return (struct fit_loop){ .first = first,
		.period = period,
		.rounds = (last - first) / period };
}

/* How often the loop goes round in each recording, from what they lack of it.
 */
static void
count_rounds(const struct fit_numbers *numbers, unsigned pattern,
    uint32_t *const *match, struct fit_loop *loop)
{
	for (unsigned r = 0; r < numbers->runs; r++) {
		uint32_t lacks = 0;

		for (uint32_t i = 0;
		     r != pattern && i < loop->rounds * loop->period; i++)
			lacks += match[r][loop->first + i] == FIT_UNMATCHED;
		loop->seen[r] =
		    loop->rounds - round((double)lacks / loop->period);
	}
}

/* The recording that is most like the pattern: the one with most allocations.
 */
static unsigned
nearest_run(const struct fit_numbers *numbers, uint32_t *const *match,
    uint32_t count, unsigned pattern)
{
	unsigned nearest = pattern;
	uint32_t most = 0;

	for (unsigned r = 0; r < numbers->runs; r++) {
		uint32_t matched = 0;

		if (r == pattern)
			continue;
		for (uint32_t i = 0; i < count; i++)
			matched += match[r][i] != FIT_UNMATCHED;
		if (nearest == pattern || matched > most) {
			nearest = r;
			most = matched;
		}
	}
	return nearest;
}

/* The number of the next allocations that have no match. Up to `few` together
 * that have one by chance are passed over. */
static uint32_t
count_lacking(const uint32_t *lacks, uint32_t most, uint32_t few)
{
	uint32_t count = 0;
	uint32_t at = 0;

	while (at < most && at - count <= few) {
		if (lacks[at] != FIT_UNMATCHED && count == 0)
			return 0;
		if (lacks[at++] == FIT_UNMATCHED)
			count = at;
	}
	return count;
}

/* The allocations of the other recording that stand in the place of `count`
 * ones from `at` on, and match none. */
static uint32_t
count_instead(const uint32_t *match, uint32_t all, uint32_t at, uint32_t count)
{
	uint32_t before = at;
	uint32_t after = at + count;
	uint32_t matched = 0;
	int64_t gap;

	while (before > 0 && match[before - 1] == FIT_UNMATCHED)
		before--;
	while (after < all && match[after] == FIT_UNMATCHED)
		after++;
	if (before == 0 || after == all)
		return 0;
	for (uint32_t i = at; i < at + count; i++)
		matched += match[i] != FIT_UNMATCHED;
	gap = (int64_t)match[after] - match[before - 1] - 1 - matched;
	return gap < 0 ? 0 : (uint32_t)gap;
}

static bool
add_loop(struct fit_loops *out, struct fit_loop loop)
{
	void *moved =
	    realloc(out->items, (out->count + 1) * sizeof(*out->items));

	if (moved == NULL)
		return false;
	out->items = moved;
	out->items[out->count++] = loop;
	return true;
}

/* Find the loop that has the next allocations without a match. *count is their
 * number. */
static bool
find_loop(const struct fit_run *run, const uint32_t *lacks, uint32_t at,
    struct fit_loop *loop, uint32_t *count)
{
	struct search search = { .run = run };
	uint32_t before = 0;

	for (uint32_t few = 0; few <= LOOP_FEW; few++) {
		struct found found;

		*count = count_lacking(lacks + at, run->count - at, few);
		if (*count == before)
			continue;
		before = *count;
		/* Other allocations in the same place are no rounds. */
		if (3 * count_instead(lacks, run->count, at, *count) > *count ||
		    !try_searches(&search, at, *count, &found))
			continue;
		*loop = follow_loop(&search, at, found);
		*count = found.count;
		return true;
	}
	return false;
}

/* True if allocations of two loops are alike: by their sites, or by their lives
 * where sites say nothing. */
static bool
is_alike(const struct fit_run *run, uint32_t a, uint32_t b)
{
	const struct fit_alloc *first = &run->allocs[a];
	const struct fit_alloc *second = &run->allocs[b];

	return first->key == second->key &&
	    (!first->vague || first->end - a == second->end - b);
}

/* The offset in the rounds of a loop at which a round of `leader` begins;
 * UINT32_MAX if the loops are of different shapes. */
static uint32_t
phase_of(const struct fit_run *run, const struct fit_loop *leader,
    const struct fit_loop *loop)
{
	uint32_t period = loop->period;

	for (uint32_t phase = 0; phase < period && phase < LOOP_PHASES;
	     phase++) {
		uint32_t differ = 0;

		for (uint32_t i = 0; i < period && differ <= period / 8; i++)
			differ += !is_alike(
			    run, leader->first + i, loop->first + phase + i);
		if (differ <= period / 8)
			return phase;
	}
	return UINT32_MAX;
}

/* The mean of the bytes of a loop's rounds, and its variance. */
static void
mean_round(const struct fit_run *run, uint32_t start, uint32_t rounds,
    uint32_t period, double *mean, double *variance)
{
	double sum = 0;
	double squares = 0;

	for (uint32_t i = 0; i < rounds; i++) {
		double bytes = 0;

		for (uint32_t k = 0; k < period; k++)
			bytes +=
			    (double)run->allocs[start + i * period + k].bytes;
		sum += bytes;
		squares += bytes * bytes;
	}
	*mean = sum / rounds;
	*variance = fmax(0, squares / rounds - *mean * *mean) / rounds;
}

/* True if the rounds of two loops of one shape differ by no more than chance
 * lets them. */
static bool
is_one_kind(const struct fit_run *run, const struct fit_loop *leader,
    const struct fit_loop *loop, uint32_t phase)
{
	uint32_t rounds = loop->rounds - (phase > 0);
	double means[2];
	double variances[2];

	mean_round(run, leader->start, leader->turns, leader->period, &means[0],
	    &variances[0]);
	mean_round(run, loop->first + phase, rounds, loop->period, &means[1],
	    &variances[1]);
	return fabs(means[0] - means[1]) <=
	    SIZE_MEAN_CHANCES * sqrt(variances[0] + variances[1]);
}

/* Put a loop into the circle of the first loop that has its shape and whose
 * rounds are of one kind with its own. */
static void
join_shape(
    const struct fit_run *run, const struct fit_loops *loops, uint32_t index)
{
	struct fit_loop *loop = &loops->items[index];

	loop->next = index;
	loop->start = loop->first;
	loop->turns = loop->rounds;
	for (uint32_t i = 0; i < index && i < LOOP_SHAPES; i++) {
		struct fit_loop *leader = &loops->items[i];
		uint32_t phase;

		if (leader->period != loop->period ||
		    leader->start != leader->first)
			continue;
		phase = phase_of(run, leader, loop);
		if (phase == UINT32_MAX ||
		    !is_one_kind(run, leader, loop, phase))
			continue;
		loop->start += phase;
		loop->turns -= phase > 0;
		loop->next = leader->next;
		leader->next = index;
		return;
	}
}

/* True if a round's size at an offset is not that of the round before. The
 * first and the last round may be of another kind. */
static bool
changes_size(
    const struct fit_run *run, const struct fit_loop *loop, uint32_t offset)
{
	const struct fit_alloc *at = &run->allocs[loop->start + offset];

	for (uint32_t i = 2; i + 1 < loop->turns; i++)
		if (at[(size_t)i * loop->period].bytes !=
		    at[(size_t)(i - 1) * loop->period].bytes)
			return true;
	return false;
}

/* Find the offsets at which sizes differ in a loop of the shape, for all loops
 * of a circle. False without memory. */
static bool
find_chance(
    const struct fit_run *run, const struct fit_loops *loops, uint32_t index)
{
	uint32_t period = loops->items[index].period;
	bool *chance = calloc(period, sizeof(*chance));
	uint32_t i = index;

	if (chance == NULL)
		return false;
	do {
		struct fit_loop *loop = &loops->items[i];

		for (uint32_t k = 0; k < period; k++)
			chance[k] |= changes_size(run, loop, k);
		loop->chance = chance;
		i = loop->next;
	} while (i != index);
	return true;
}

/* Free them. */
static void
drop_chance(const struct fit_loops *loops, uint32_t index)
{
	uint32_t i = index;

	free(loops->items[index].chance);
	do {
		loops->items[i].chance = NULL;
		i = loops->items[i].next;
	} while (i != index);
}

void
fit_loops_drop(struct fit_loops *loops)
{
	for (uint32_t i = 0; i < loops->count; i++)
		if (loops->items[i].chance != NULL)
			drop_chance(loops, i);
	free(loops->items);
	*loops = (struct fit_loops){ 0 };
}

bool
fit_loops_find(const struct fit_numbers *numbers, const struct fit_run *runs,
    unsigned pattern, uint32_t *const *match, struct fit_loops *out)
{
	const struct fit_run *run = &runs[pattern];
	const uint32_t *lacks =
	    match[nearest_run(numbers, match, run->count, pattern)];
	uint32_t free_from = 0; /* the end of the loop before */

	*out = (struct fit_loops){ 0 };
	for (uint32_t at = 0; lacks != NULL && at < run->count; at++) {
		struct fit_loop loop;
		uint32_t count;

		if (at < free_from || lacks[at] != FIT_UNMATCHED ||
		    !find_loop(run, lacks, at, &loop, &count))
			continue;
		if (loop.first < free_from) {
			loop.rounds -=
			    (free_from - loop.first + loop.period - 1) /
			    loop.period;
			loop.first = free_from;
		}
		count_rounds(numbers, pattern, match, &loop);
		if (loop.rounds > 1 && loop.rounds < UINT32_MAX / 2) {
			if (!add_loop(out, loop))
				return false;
			free_from = loop.first + loop.rounds * loop.period;
		}
		at += count - 1;
		if (free_from > at + 1)
			at = free_from - 1;
	}
	for (uint32_t i = 0; i < out->count; i++)
		join_shape(run, out, i);
	for (uint32_t i = 0; i < out->count; i++)
		if (out->items[i].chance == NULL && !find_chance(run, out, i))
			return false;
	return true;
}

/* ---- Forecasts ------------------------------------------------------- */

/* The change of rounds that most allocations in loops have. */
static int64_t
common_change(const struct fit_loops *loops)
{
	int64_t common = 0;
	uint64_t most = 0;

	for (uint32_t i = 0; i < loops->count && i < LOOPS_COMPARED; i++) {
		int64_t change =
		    (int64_t)loops->items[i].asked - loops->items[i].rounds;
		uint64_t sum = 0;

		for (uint32_t k = 0; k < loops->count && k < LOOPS_COMPARED;
		     k++) {
			const struct fit_loop *loop = &loops->items[k];

			if ((int64_t)loop->asked - loop->rounds == change)
				sum += (uint64_t)loop->rounds * loop->period;
		}
		if (sum > most) {
			most = sum;
			common = change;
		}
	}
	return common;
}

/* Loops of one cause go round equally often. A loop whose rounds differ, as
 * those over data do, is seen to have fewer of them; its change is that of the
 * others if it is near. */
static void
agree_on_changes(struct fit_loops *loops)
{
	int64_t common = common_change(loops);

	for (uint32_t i = 0; i < loops->count; i++) {
		struct fit_loop *loop = &loops->items[i];
		int64_t change = (int64_t)loop->asked - loop->rounds;

		if (common > 0 &&
		    4 * change >= (loop->doubtful ? 2 : 3) * common &&
		    change < 2 * common)
			loop->asked = (uint32_t)(loop->rounds + common);
		else if (loop->doubtful)
			loop->asked = loop->rounds;
	}
}

static uint32_t
whole_rounds(double rounds)
{
	if (!(rounds > 0))
		return 0;
	return rounds < UINT32_MAX ? (uint32_t)(rounds + 0.5) : UINT32_MAX;
}

uint32_t
fit_loops_ask(struct fit_loops *loops, const struct fit_numbers *numbers,
    const struct fit_run *pattern)
{
	bool known[FIT_RUNS];
	int64_t shift = 0;

	for (unsigned r = 0; r < FIT_RUNS; r++)
		known[r] = r < numbers->runs;
	for (uint32_t i = 0; i < loops->count; i++) {
		struct fit_loop *loop = &loops->items[i];
		struct fit_value rounds;

		fit_find(numbers, loop->seen, known, 0, &rounds);
		loop->asked = whole_rounds(rounds.value);
		loop->doubtful =
		    rounds.grade == FIT_ROUNDED || rounds.grade == FIT_UNKNOWN;
	}
	agree_on_changes(loops);
	for (uint32_t i = 0; i < loops->count; i++) {
		struct fit_loop *loop = &loops->items[i];

		loop->begin = (uint32_t)(loop->first + shift);
		shift += ((int64_t)loop->asked - loop->rounds) * loop->period;
	}
	shift += pattern->count;
	return shift < 0       ? 0 :
	    shift > UINT32_MAX ? UINT32_MAX :
				 (uint32_t)shift;
}

/* The round of the pattern that a round of a forecast is like: the first and
 * the last ones are those of the pattern. */
static uint32_t
pattern_round(const struct fit_loop *loop, uint32_t round)
{
	uint32_t head = loop->rounds / 2;
	uint32_t tail = loop->rounds - head;

	if (round < head)
		return round;
	if (loop->asked - round <= tail)
		return loop->rounds - (loop->asked - round);
	return head;
}

/* The number of loops that begin at or before a place of the forecast, or of
 * the pattern. */
static uint32_t
loops_before(const struct fit_loops *loops, uint32_t at, bool forecast)
{
	uint32_t low = 0;
	uint32_t high = loops->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct fit_loop *loop = &loops->items[middle];

		if ((forecast ? loop->begin : loop->first) <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The allocations that a forecast has more than the pattern up to the end of
 * the first `count` loops. */
static int64_t
shift_behind(const struct fit_loops *loops, uint32_t count)
{
	const struct fit_loop *loop;

	if (count == 0)
		return 0;
	loop = &loops->items[count - 1];
	return (int64_t)loop->begin - loop->first +
	    ((int64_t)loop->asked - loop->rounds) * loop->period;
}

struct fit_place
fit_loops_place(const struct fit_loops *loops, uint32_t at)
{
	uint32_t count = loops_before(loops, at, true);
	struct fit_place place = {
		.alloc = (uint32_t)(at - shift_behind(loops, count)),
		.loop = UINT32_MAX,
	};

	if (count > 0) {
		const struct fit_loop *in = &loops->items[count - 1];
		uint32_t round = (at - in->begin) / in->period;

		if (round < in->asked) {
			place.alloc = in->first +
			    pattern_round(in, round) * in->period +
			    (at - in->begin) % in->period;
			place.loop = count - 1;
			place.round = round;
		}
	}
	return place;
}

/* The first allocation of the round of the pattern that gives a round its
 * sizes. From both ends the rounds of the loop take turns, and then those of
 * its shape's other loops, so that a backward pass has the sizes of its forward
 * pass. */
static uint32_t
turn_of(const struct fit_loops *loops, uint32_t index, uint32_t round)
{
	const struct fit_loop *loop = &loops->items[index];
	bool front = round < loop->asked / 2;
	uint32_t turn = front ? round : loop->asked - 1 - round;
	uint32_t all = loop->turns;

	for (uint32_t i = loop->next; i != index; i = loops->items[i].next)
		all += loops->items[i].turns;
	for (turn %= all; turn >= loop->turns; loop = &loops->items[loop->next])
		turn -= loop->turns;
	if (!front)
		turn = loop->turns - 1 - turn;
	return loop->start + turn * loop->period;
}

uint32_t
fit_loops_sized(const struct fit_loops *loops, struct fit_place place)
{
	const struct fit_loop *loop;
	uint32_t offset;
	uint32_t before;

	if (place.loop == UINT32_MAX)
		return place.alloc;
	loop = &loops->items[place.loop];
	offset = (place.alloc - loop->first) % loop->period;
	/* From the start of the shape's round. */
	before = loop->start - loop->first;
	offset =
	    offset < before ? offset + loop->period - before : offset - before;
	if (!loop->chance[offset])
		return place.alloc;
	return turn_of(loops, place.loop, place.round) + offset;
}

/* The loop whose rounds have a gap of the pattern; UINT32_MAX if none. The gap
 * before the first allocation is not in the loop; that after the last one is.
 */
static uint32_t
loop_of_gap(const struct fit_loops *loops, uint32_t gap)
{
	uint32_t count = gap == 0 ? 0 : loops_before(loops, gap - 1, false);
	const struct fit_loop *loop;

	if (count == 0)
		return UINT32_MAX;
	loop = &loops->items[count - 1];
	return gap <= loop->first + loop->rounds * loop->period ? count - 1 :
								  UINT32_MAX;
}

/* A gap of the pattern that is in no loop, in the forecast. */
static uint32_t
shifted_gap(const struct fit_loops *loops, uint32_t gap)
{
	uint32_t count = gap == 0 ? 0 : loops_before(loops, gap - 1, false);

	return (uint32_t)(gap + shift_behind(loops, count));
}

/* A round of the pattern in the forecast, counted from the nearer end. */
static int64_t
nearer_round(const struct fit_loop *loop, int64_t round)
{
	if (round < loop->rounds / 2)
		return round;
	return (int64_t)loop->asked - (loop->rounds - round);
}

/* The rounds of the other loop by which the end moves from one round to the
 * next: 1, 0 or -1. 2 if it is none of these. */
static int
round_step(const struct fit_loops *loops, const struct fit_run *pattern,
    uint32_t alloc, const struct fit_loop *from, uint32_t to, int64_t round)
{
	const struct fit_loop *loop = &loops->items[to];
	int found = 2;

	for (int side = -1; side <= 1; side += 2) {
		int64_t other = (int64_t)alloc + side * (int64_t)from->period;
		uint32_t end;
		int64_t step;

		if (other < from->first ||
		    other >= from->first + from->rounds * from->period)
			continue;
		end = pattern->allocs[other].end;
		if (end == FIT_NEVER || loop_of_gap(loops, end) != to)
			continue;
		step =
		    ((int64_t)(end - loop->first - 1) / loop->period - round) *
		    side;
		if (step >= -1 && step <= 1)
			found = (int)step;
	}
	return found;
}

uint32_t
fit_loops_end(const struct fit_loops *loops, const struct fit_run *pattern,
    struct fit_place place, uint32_t at, uint32_t end)
{
	uint32_t to = loops->count == 0 ? UINT32_MAX : loop_of_gap(loops, end);
	const struct fit_loop *loop;
	const struct fit_loop *from;
	int64_t round;
	int64_t offset;
	int64_t gap;

	if (to == UINT32_MAX) {
		gap = shifted_gap(loops, end);
		return gap <= at ? at + 1 : (uint32_t)gap;
	}
	if (to == place.loop)
		return at + (end - place.alloc);
	loop = &loops->items[to];
	/* Gap n is after allocation n - 1. */
	round = (end - loop->first - 1) / loop->period;
	offset = (end - loop->first - 1) % loop->period;
	if (place.loop == UINT32_MAX) {
		round = nearer_round(loop, round);
	} else {
		from = &loops->items[place.loop];
		int64_t own = (place.alloc - from->first) / from->period;
		int step =
		    round_step(loops, pattern, place.alloc, from, to, round);

		if (step == 1)
			round += (int64_t)place.round - own;
		else if (step == -1)
			round += ((int64_t)loop->asked - loop->rounds) -
			    ((int64_t)place.round - own);
		else
			round = nearer_round(loop, round);
	}
	if (round < 0)
		round = 0;
	if (round >= loop->asked)
		round = (int64_t)loop->asked - 1;
	gap = loop->begin + round * loop->period + offset + 1;
	return gap <= at ? at + 1 : (uint32_t)gap;
}
