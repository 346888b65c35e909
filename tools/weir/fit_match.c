/*
 * Both lists are walked side by side. Where they differ, the next place is
 * searched at which the following allocations agree again: first near by, and
 * then wherever the next few call sites occur. What is skipped has no match.
 */
#include "tools/weir/fit_match.h"

#include <math.h>
#include <stdlib.h>

enum {
	RATIOS = 64,
	AHEAD = 12, /* allocations that must agree after a difference */
	NEAR_BOTH = 40, /* ... in both lists */
	NEAR = 96,  /* allocations that are searched one by one */
	WINDOW = 128, /* allocations that are aligned at once */
	GRAM = 5,   /* call sites that are searched together */
	GRAM_TRIES = 32,
};

struct gram {
	uint64_t hash;
	uint32_t at;
};

struct side {
	const struct fit_alloc *allocs;
	uint32_t count;
	struct gram *grams; /* sorted */
};

struct matcher {
	struct side large;
	struct side small;
	double ratios[RATIOS];
	unsigned ratio_count;
	double least; /* of the ratios */
	double most;
	/* The best sums of agreement in a window, by allocations. */
	uint16_t sums[WINDOW + 1][WINDOW + 1];
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
			ratio *= pow(numbers->was[large][i] /
				numbers->was[small][i],
			    power);
		}
		if (degree > 2 || m->ratio_count == RATIOS)
			continue;
		m->ratios[m->ratio_count++] = ratio;
		if (ratio < m->least)
			m->least = ratio;
		if (ratio > m->most)
			m->most = ratio;
	}
}

enum { AGREE_STACK = 8, AGREE_VAGUE = 3, AGREE_ALL = 10 };

/* How well two allocations agree: 0; AGREE_ALL if the size does too. A call
 * site alone says less where stacks are empty, as in backward passes. */
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

	for (; n < ahead && i + n < m->large.count && k + n < m->small.count;
	     n++)
		sum += agreement(
		    m, &m->large.allocs[i + n], &m->small.allocs[k + n]);
	/* Two ends agree, and an end and more do not. */
	if (n < ahead &&
	    (i + n < m->large.count || k + n < m->small.count))
		return n == 0 ? 0 : 0.5 * sum / (AGREE_ALL * n);
	return n == 0 ? 1 : (double)sum / (AGREE_ALL * n);
}

static double
score(const struct matcher *m, uint32_t i, uint32_t k)
{
	return score_of(m, i, k, AHEAD);
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
gram_hash(const struct side *side, uint32_t at)
{
	uint64_t hash = 1;

	for (uint32_t i = at; i < at + GRAM && i < side->count; i++)
		hash = (hash ^ side->allocs[i].key) *
		    UINT64_C(0x9e3779b97f4a7c15);
	return hash;
}

static bool
make_grams(struct side *side)
{
	side->grams = calloc((size_t)side->count + 1, sizeof(*side->grams));
	if (side->grams == NULL)
		return false;
	for (uint32_t i = 0; i < side->count; i++) {
		side->grams[i].hash = gram_hash(side, i);
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

	for (uint32_t d = 1; d <= NEAR; d++)
		for (uint32_t a = 0; a <= d; a++) {
			double found;

			/* Far from here one list alone is skipped. */
			if (d > NEAR_BOTH && a != 0 && a != d)
				continue;
			if (*i + a > m->large.count ||
			    *k + d - a > m->small.count)
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
	uint64_t hash = gram_hash(what, at);
	uint32_t gram = find_gram(where, hash, from);
	unsigned tries = 0;

	for (; gram < where->count && where->grams[gram].hash == hash &&
	     tries < GRAM_TRIES;
	     gram++, tries++) {
		uint32_t found = where->grams[gram].at;
		unsigned ahead =
		    found - from < 4 * AHEAD ? AHEAD : 4 * AHEAD;
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
	    (far_large <= far_small ||
		m->large.count > m->small.count * 1.2)) {
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

/* Align the next allocations so that the sum of their agreements is greatest,
 * and match the first half of them. */
static void
align_window(
    struct matcher *m, uint32_t *i, uint32_t *k, uint32_t *match)
{
	uint32_t rows = m->large.count - *i;
	uint32_t columns = m->small.count - *k;
	uint32_t a = 0;
	uint32_t b = 0;

	if (rows > WINDOW)
		rows = WINDOW;
	if (columns > WINDOW)
		columns = WINDOW;
	for (uint32_t r = 0; r <= rows; r++)
		m->sums[r][columns] = 0;
	for (uint32_t c = 0; c <= columns; c++)
		m->sums[rows][c] = 0;
	for (uint32_t r = rows; r-- > 0;)
		for (uint32_t c = columns; c-- > 0;) {
			unsigned agrees =
			    agreement(m, &m->large.allocs[*i + r],
				&m->small.allocs[*k + c]);
			unsigned best = m->sums[r + 1][c];

			if (m->sums[r][c + 1] > best)
				best = m->sums[r][c + 1];
			if (agrees > 0 &&
			    m->sums[r + 1][c + 1] + agrees >= best)
				best = m->sums[r + 1][c + 1] + agrees;
			m->sums[r][c] = (uint16_t)best;
		}
	while (a < rows && b < columns &&
	    (a < WINDOW / 2 || rows < WINDOW || columns < WINDOW) &&
	    (b < WINDOW / 2 || rows < WINDOW || columns < WINDOW)) {
		unsigned agrees = agreement(m, &m->large.allocs[*i + a],
		    &m->small.allocs[*k + b]);

		if (agrees > 0 &&
		    m->sums[a][b] == m->sums[a + 1][b + 1] + agrees)
			match[*i + a++] = *k + b++;
		else if (m->sums[a][b] == m->sums[a + 1][b])
			a++;
		else
			b++;
	}
	*i += a;
	*k += b;
}

/* Go on behind a difference. */
static void
pass_difference(
    struct matcher *m, uint32_t *i, uint32_t *k, uint32_t *match)
{
	bool agrees =
	    agreement(m, &m->large.allocs[*i], &m->small.allocs[*k]) > 0;

	if (agrees && score(m, *i, *k) >= 0.75) {
		match[(*i)++] = (*k)++;
		return;
	}
	if (skip_near(m, i, k) || skip_far(m, i, k))
		return;
	align_window(m, i, k, match);
}

uint32_t *
fit_match(const struct fit_numbers *numbers, unsigned large,
    const struct fit_run *large_run, unsigned small,
    const struct fit_run *small_run)
{
	struct matcher *m = calloc(1, sizeof(*m));
	uint32_t *match = malloc((large_run->count + 1) * sizeof(*match));
	uint32_t i = 0;
	uint32_t k = 0;

	if (m == NULL || match == NULL)
		goto drop_match;
	m->large = (struct side){ large_run->allocs, large_run->count, NULL };
	m->small = (struct side){ small_run->allocs, small_run->count, NULL };
	if (!make_grams(&m->large) || !make_grams(&m->small))
		goto drop_match;
	find_ratios(m, numbers, large, small);
	for (uint32_t n = 0; n < large_run->count; n++)
		match[n] = FIT_UNMATCHED;
	while (i < m->large.count && k < m->small.count)
		if (agreement(m, &m->large.allocs[i], &m->small.allocs[k]) ==
		    AGREE_ALL)
			match[i++] = k++;
		else
			pass_difference(m, &i, &k, match);
	goto free_grams;

drop_match:
	free(match);
	match = NULL;
free_grams:
	if (m != NULL) {
		free(m->large.grams);
		free(m->small.grams);
	}
	free(m);
	return match;
}
