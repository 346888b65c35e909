/*
 * Call sites that both recordings have equally often are anchors: the n-th
 * allocation of one is that of the other. Between anchors both lists are walked
 * side by side. Where they differ, the next place is
 * searched at which the following allocations agree again: first near by, and
 * then wherever the next few call sites occur. What is skipped has no match.
 */
#include "tools/weir/fit/fit_match.h"

#include <math.h>
#include <stdlib.h>

#include "tools/weir/fit/tuning.h"

struct gram {
	uint64_t hash;
	uint32_t at;
};

struct side {
	const struct fit_alloc *allocs;
	uint32_t count;
	uint32_t end;       /* of the part that is matched now */
	struct gram *grams; /* sorted */
};

/* The best sums of agreement from a place on. */
struct sum {
	int16_t match; /* behind a match */
	int16_t gap;   /* in a gap, whose cost is paid */
};

/* Two allocations that are one, by their call sites alone. */
struct anchor {
	uint32_t large;
	uint32_t small;
};

struct matcher {
	struct side large;
	struct side small;
	double ratios[MATCH_RATIOS];
	unsigned ratio_count;
	double least; /* of the ratios */
	double most;
	uint32_t *match;
	struct anchor *anchors;
	uint32_t anchor_count;
	struct sum *sums; /* of a part; rows are of the large list */
};

/* ---- Agreement ------------------------------------------------------- */

static void
find_ratios(struct matcher *m, const struct fit_numbers *numbers,
    unsigned large, unsigned small)
{
	unsigned names = numbers->names;

	m->least = 1;
	m->most = 1;
	for (unsigned code = 0; code < 1u << 2 * names; code++) {
		double ratio = 1;
		int degree = 0;

		for (unsigned i = 0; i < names; i++) {
			int power = (int)(code >> 2 * i & 3) - 1;

			degree += abs(power);
			ratio *= (double)powl(
			    numbers->was[large][i] / numbers->was[small][i],
			    power);
		}
		if (degree > 2 || m->ratio_count == MATCH_RATIOS)
			continue;
		m->ratios[m->ratio_count++] = ratio;
		if (ratio < m->least)
			m->least = ratio;
		if (ratio > m->most)
			m->most = ratio;
	}
}

/* True if two allocations live for as many others, and few. */
static bool
live_alike(const struct matcher *m, const struct fit_alloc *large,
    const struct fit_alloc *small)
{
	uint32_t life = large->end - (uint32_t)(large - m->large.allocs);

	return large->end != FIT_NEVER && small->end != FIT_NEVER &&
	    life == small->end - (uint32_t)(small - m->small.allocs) &&
	    life <= FIT_LONG_LIFE;
}

/* How well two allocations agree: 0; AGREE_ALL if the size does too. A call
 * site alone says less where stacks are empty, as in backward passes. There
 * lives tell allocations apart whose sizes depend on data. */
static unsigned
agreement(const struct matcher *m, const struct fit_alloc *large,
    const struct fit_alloc *small)
{
	double size = (double)large->bytes;

	if (large->key != small->key || large->older != small->older)
		return 0;
	for (unsigned i = 0; i < m->ratio_count; i++)
		if (fabs(size - m->ratios[i] * (double)small->bytes) <=
		    511 + size * 1e-3)
			return AGREE_ALL;
	if (!large->vague)
		return AGREE_STACK;
	if (live_alike(m, large, small))
		return AGREE_LIFE;
	if (size > m->most * (double)small->bytes + 4096 ||
	    size < m->least * (double)small->bytes - 4096)
		return 0;
	return AGREE_VAGUE;
}

/* The share of the next `ahead` allocations that agree. */
static double
score_of(const struct matcher *m, uint32_t i, uint32_t k, unsigned ahead)
{
	unsigned sum = 0;
	unsigned n = 0;

	for (; n < ahead && i + n < m->large.end && k + n < m->small.end; n++)
		sum += agreement(
		    m, &m->large.allocs[i + n], &m->small.allocs[k + n]);
	/* Two ends agree, and an end and more do not. */
	if (n < ahead && (i + n < m->large.end || k + n < m->small.end))
		return n == 0 ? 0 : 0.5 * sum / (AGREE_ALL * n);
	return n == 0 ? 1 : (double)sum / (AGREE_ALL * n);
}

static double
score(const struct matcher *m, uint32_t i, uint32_t k)
{
	return score_of(m, i, k, MATCH_AHEAD);
}

/* ---- Grams ----------------------------------------------------------- */

static int
compare_grams(const void *a, const void *b)
{
	const struct gram *first = a;
	const struct gram *second = b;

	if (first->hash != second->hash)
		return first->hash < second->hash ? -1 : 1;
	return first->at < second->at ? -1 : first->at > second->at;
}

static uint64_t
gram_hash(const struct side *side, uint32_t at, uint32_t length)
{
	uint64_t hash = 1;

	for (uint32_t i = at; i < at + length && i < side->count; i++)
		hash =
		    (hash ^ side->allocs[i].key) * UINT64_C(0x9e3779b97f4a7c15);
	return hash;
}

static bool
make_grams(struct side *side, uint32_t length)
{
	free(side->grams);
	side->grams = calloc((size_t)side->count + 1, sizeof(*side->grams));
	if (side->grams == NULL)
		return false;
	for (uint32_t i = 0; i < side->count; i++) {
		side->grams[i].hash = gram_hash(side, i, length);
		side->grams[i].at = i;
	}
	qsort(side->grams, side->count, sizeof(*side->grams), compare_grams);
	return true;
}

/* The number of the first gram of a hash from a place on; `count` if none. */
static uint32_t
find_gram(const struct side *side, uint64_t hash, uint32_t from)
{
	struct gram key = { hash, from };
	uint32_t low = 0;
	uint32_t high = side->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (compare_grams(&side->grams[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < side->count && side->grams[low].hash == hash ? low :
								    side->count;
}

/* ---- Differences ----------------------------------------------------- */

/* Search the next place near by at which the lists agree. */
static bool
skip_near(const struct matcher *m, uint32_t *i, uint32_t *k)
{
	double best = 0.93;
	uint32_t best_i = 0;
	uint32_t best_k = 0;

	for (uint32_t d = 1; d <= MATCH_NEAR; d++)
		for (uint32_t a = 0; a <= d; a++) {
			double found;

			/* Far from here one list alone is skipped. */
			if (d > MATCH_NEAR_BOTH && a != 0 && a != d)
				continue;
			if (*i + a > m->large.end || *k + d - a > m->small.end)
				continue;
			found = score(m, *i + a, *k + d - a) - 0.002 * d;
			if (found > best) {
				best = found;
				best_i = a;
				best_k = d - a;
			}
		}
	*i += best_i;
	*k += best_k;
	return best_i + best_k > 0;
}

/* Search the allocations at `at` in the other list, from `from` on. The
 * distance, or UINT32_MAX. `swap` tells which list is the large one. */
static uint32_t
find_far(const struct matcher *m, bool in_large, uint32_t at, uint32_t from)
{
	const struct side *where = in_large ? &m->large : &m->small;
	const struct side *what = in_large ? &m->small : &m->large;
	uint64_t hash = gram_hash(what, at, MATCH_GRAM);
	uint32_t gram = find_gram(where, hash, from);
	unsigned tries = 0;

	for (; gram < where->count && where->grams[gram].hash == hash &&
	     where->grams[gram].at < where->end && tries < MATCH_GRAM_TRIES;
	     gram++, tries++) {
		uint32_t found = where->grams[gram].at;
		unsigned ahead = found - from < 4 * MATCH_AHEAD ?
		    MATCH_AHEAD :
		    4 * MATCH_AHEAD;
		double good = in_large ? score_of(m, found, at, ahead) :
					 score_of(m, at, found, ahead);

		if (good >= 0.75)
			return found - from;
	}
	return UINT32_MAX;
}

/* Go on behind a part of any length that one list alone has. */
static bool
skip_far(const struct matcher *m, uint32_t *i, uint32_t *k)
{
	uint32_t far_large = find_far(m, true, *k, *i + 1);
	uint32_t far_small = find_far(m, false, *i, *k + 1);

	/* If loops are longer in the large recording, look there first. */
	if (far_large != UINT32_MAX &&
	    (far_large <= far_small || m->large.count > m->small.count * 1.2)) {
		*i += far_large + 1;
		return true;
	}
	if (far_small != UINT32_MAX) {
		*k += far_small + 1;
		return true;
	}
	return false;
}

/* ---- Alignment ------------------------------------------------------- */

/* The best sums from a place of both parts on, behind a match and in a gap. */
static void
sum_places(
    struct matcher *m, uint32_t i, uint32_t k, uint32_t rows, uint32_t columns)
{
	size_t width = (size_t)columns + 1;

	for (uint32_t r = rows + 1; r-- > 0;)
		for (uint32_t c = columns + 1; c-- > 0;) {
			struct sum *sum = &m->sums[r * width + c];
			int agrees = 0;
			int match = INT16_MIN;
			int gap = INT16_MIN;

			if (r == rows && c == columns) {
				*sum = (struct sum){ 0, 0 };
				continue;
			}
			if (r < rows && c < columns)
				agrees =
				    (int)agreement(m, &m->large.allocs[i + r],
					&m->small.allocs[k + c]);
			if (agrees > 0)
				match = sum[width + 1].match + agrees;
			if (r < rows)
				gap = sum[width].gap;
			if (c < columns && sum[1].gap > gap)
				gap = sum[1].gap;
			if (match > gap)
				gap = match;
			if (gap - MATCH_GAP_COST > match)
				match = gap - MATCH_GAP_COST;
			*sum = (struct sum){ (int16_t)match, (int16_t)gap };
		}
}

/* Align parts so that the sum of their agreements is greatest, with few gaps,
 * and match the first `most` allocations of either. */
static void
align_part(struct matcher *m, uint32_t *i, uint32_t *k, uint32_t rows,
    uint32_t columns, uint32_t most)
{
	size_t width = (size_t)columns + 1;
	bool in_gap = false;
	uint32_t a = 0;
	uint32_t b = 0;

	sum_places(m, *i, *k, rows, columns);
	while (a < rows && b < columns && a < most && b < most) {
		const struct sum *sum = &m->sums[a * width + b];
		int agrees = (int)agreement(
		    m, &m->large.allocs[*i + a], &m->small.allocs[*k + b]);

		if (agrees > 0 &&
		    sum[width + 1].match + agrees ==
			(in_gap ? sum->gap : sum->match)) {
			m->match[*i + a++] = *k + b++;
			in_gap = false;
			continue;
		}
		in_gap = true;
		if (sum->gap == sum[width].gap)
			a++;
		else
			b++;
	}
	*i += a;
	*k += b;
}

/* Align the rest of a part, or as much as is aligned at once. */
static void
align_rest(struct matcher *m, uint32_t *i, uint32_t *k)
{
	uint32_t rows = m->large.end - *i;
	uint32_t columns = m->small.end - *k;

	if (rows < MATCH_ALIGNED && columns < MATCH_ALIGNED) {
		align_part(m, i, k, rows, columns, UINT32_MAX);
		*i = m->large.end;
		return;
	}
	align_part(m, i, k, rows < MATCH_WINDOW ? rows : MATCH_WINDOW,
	    columns < MATCH_WINDOW ? columns : MATCH_WINDOW, MATCH_WINDOW / 2);
}

/* Go on behind a difference. */
static void
pass_difference(struct matcher *m, uint32_t *i, uint32_t *k)
{
	bool agrees =
	    agreement(m, &m->large.allocs[*i], &m->small.allocs[*k]) > 0;

	if (agrees && score(m, *i, *k) >= 0.75) {
		m->match[(*i)++] = (*k)++;
		return;
	}
	if (m->large.end - *i < MATCH_ALIGNED &&
	    m->small.end - *k < MATCH_ALIGNED) {
		align_rest(m, i, k);
		return;
	}
	if (!skip_near(m, i, k) && !skip_far(m, i, k))
		align_rest(m, i, k);
}

/* Match all up to the ends of the current part. */
static void
match_part(struct matcher *m, uint32_t i, uint32_t k)
{
	while (i < m->large.end && k < m->small.end)
		if (agreement(m, &m->large.allocs[i], &m->small.allocs[k]) ==
		    AGREE_ALL)
			m->match[i++] = k++;
		else
			pass_difference(m, &i, &k);
}

/* ---- Anchors --------------------------------------------------------- */

static int
compare_anchors(const void *a, const void *b)
{
	const struct anchor *first = a;
	const struct anchor *second = b;

	return first->large < second->large ? -1 : first->large > second->large;
}

/* The place behind the grams of one hash. Grams here have one call site. */
static uint32_t
gram_run(const struct side *side, uint32_t from)
{
	uint32_t at = from;

	while (
	    at < side->count && side->grams[at].hash == side->grams[from].hash)
		at++;
	return at;
}

/* Pair the allocations of call sites that both recordings have equally often.
 */
static void
pair_sites(struct matcher *m)
{
	const struct side *large = &m->large;
	const struct side *small = &m->small;
	uint32_t i = 0;
	uint32_t k = 0;

	while (i < large->count && k < small->count) {
		uint32_t i_end = gram_run(large, i);
		uint32_t k_end = gram_run(small, k);

		if (large->grams[i].hash == small->grams[k].hash) {
			uint32_t n = i_end - i;

			if (n == k_end - k && n <= MATCH_ANCHORS &&
			    !large->allocs[large->grams[i].at].vague)
				for (; i < i_end; i++, k++)
					m->anchors[m->anchor_count++] =
					    (struct anchor){ large->grams[i].at,
						    small->grams[k].at };
			i = i_end;
			k = k_end;
		} else if (large->grams[i].hash < small->grams[k].hash) {
			i = i_end;
		} else {
			k = k_end;
		}
	}
	qsort(
	    m->anchors, m->anchor_count, sizeof(*m->anchors), compare_anchors);
}

/* Keep the longest list of anchors that are in order in both recordings. False
 * without memory. */
static bool
order_anchors(struct matcher *m)
{
	uint32_t n = m->anchor_count;
	uint32_t *last = calloc((size_t)n + 1, sizeof(*last));
	uint32_t *before = calloc((size_t)n + 1, sizeof(*before));
	uint32_t length = 0;
	uint32_t at;

	if (last == NULL || before == NULL) {
		free(last);
		free(before);
		return false;
	}
	/* last[l]: the anchor with the least place in the small recording that
	 * ends a list of l + 1. */
	for (uint32_t i = 0; i < n; i++) {
		uint32_t low = 0;
		uint32_t high = length;

		while (low < high) {
			uint32_t middle = low + (high - low) / 2;

			if (m->anchors[last[middle]].small <
			    m->anchors[i].small)
				low = middle + 1;
			else
				high = middle;
		}
		before[i] = low > 0 ? last[low - 1] : UINT32_MAX;
		last[low] = i;
		if (low == length)
			length++;
	}
	at = length > 0 ? last[length - 1] : UINT32_MAX;
	for (uint32_t l = length; l-- > 0; at = before[at])
		last[l] = at;
	for (uint32_t l = 0; l < length; l++)
		m->anchors[l] = m->anchors[last[l]];
	m->anchor_count = length;
	free(last);
	free(before);
	return true;
}

/* Match the parts between the anchors, and these. */
static void
match_parts(struct matcher *m)
{
	uint32_t i = 0;
	uint32_t k = 0;

	for (uint32_t n = 0; n <= m->anchor_count; n++) {
		bool last = n == m->anchor_count;

		m->large.end = last ? m->large.count : m->anchors[n].large;
		m->small.end = last ? m->small.count : m->anchors[n].small;
		match_part(m, i, k);
		if (last)
			break;
		m->match[m->anchors[n].large] = m->anchors[n].small;
		i = m->anchors[n].large + 1;
		k = m->anchors[n].small + 1;
	}
}

static bool
make_room_to_match(struct matcher *m)
{
	m->match = malloc(((size_t)m->large.count + 1) * sizeof(*m->match));
	m->anchors = calloc((size_t)m->large.count + 1, sizeof(*m->anchors));
	m->sums =
	    calloc((size_t)MATCH_ALIGNED * MATCH_ALIGNED, sizeof(*m->sums));
	if (m->match == NULL || m->anchors == NULL || m->sums == NULL)
		return false;
	for (uint32_t n = 0; n < m->large.count; n++)
		m->match[n] = FIT_UNMATCHED;
	return true;
}

uint32_t *
fit_match(const struct fit_numbers *numbers, unsigned large,
    const struct fit_run *large_run, unsigned small,
    const struct fit_run *small_run)
{
	struct matcher m = {
		.large = { large_run->allocs, large_run->count, 0, NULL },
		.small = { small_run->allocs, small_run->count, 0, NULL },
	};
	bool good = make_room_to_match(&m) && make_grams(&m.large, 1) &&
	    make_grams(&m.small, 1);

	if (good) {
		find_ratios(&m, numbers, large, small);
		pair_sites(&m);
		good = order_anchors(&m) && make_grams(&m.large, MATCH_GRAM) &&
		    make_grams(&m.small, MATCH_GRAM);
	}
	if (good)
		match_parts(&m);
	free(m.large.grams);
	free(m.small.grams);
	free(m.anchors);
	free(m.sums);
	if (!good) {
		free(m.match);
		return NULL;
	}
	return m.match;
}
