/*
 * Formulas are kept by the sizes that they were found from, because thousands
 * of allocations have equal ones.
 */
#include "tools/weir/fit/fit_sizes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/fit/fit_groups.h"
#include "tools/weir/fit/fit_reduction.h"
#include "tools/weir/fit/tuning.h"

struct known {
	uint64_t key;
	uint64_t bytes;
	uint32_t alloc;
};

struct kept {
	uint64_t seen[FIT_RUNS];
	unsigned mask; /* recordings that have it; 0: not in use */
	struct fit_value value;
};

struct fit_sizes {
	struct fit_numbers numbers;
	const struct fit_run *runs;
	unsigned pattern;
	uint32_t *const *match;
	struct known *by_site; /* matched allocations, by site and size */
	struct known *by_size; /* by size */
	uint32_t known_count;
	struct kept *kept;
	bool *data; /* by allocation of the pattern: its size is by chance */
	struct fit_groups groups[FIT_RUNS]; /* by site and life */
	struct fit_groups sites[FIT_RUNS];  /* by site alone */
};

static int
by_site_order(const void *a, const void *b)
{
	const struct known *first = a;
	const struct known *second = b;

	if (first->key != second->key)
		return first->key < second->key ? -1 : 1;
	if (first->bytes != second->bytes)
		return first->bytes < second->bytes ? -1 : 1;
	return 0;
}

static int
by_size_order(const void *a, const void *b)
{
	const struct known *first = a;
	const struct known *second = b;

	if (first->bytes != second->bytes)
		return first->bytes < second->bytes ? -1 : 1;
	return 0;
}

/* The recordings that have an allocation of the pattern, as bits, and its
 * sizes. */
static unsigned
sizes_seen(
    const struct fit_sizes *sizes, uint32_t alloc, uint64_t seen[FIT_RUNS])
{
	unsigned mask = 0;

	memset(seen, 0, FIT_RUNS * sizeof(*seen));
	for (unsigned r = 0; r < sizes->numbers.runs; r++) {
		uint32_t at = alloc;

		if (r != sizes->pattern)
			at = sizes->match[r][alloc];
		if (at == FIT_UNMATCHED)
			continue;
		seen[r] = sizes->runs[r].allocs[at].bytes;
		mask |= 1u << r;
	}
	return mask;
}

static bool
list_known(struct fit_sizes *sizes)
{
	const struct fit_run *run = &sizes->runs[sizes->pattern];
	uint64_t seen[FIT_RUNS];

	sizes->by_site = calloc(run->count + 1, sizeof(*sizes->by_site));
	sizes->by_size = calloc(run->count + 1, sizeof(*sizes->by_size));
	if (sizes->by_site == NULL || sizes->by_size == NULL)
		return false;
	for (uint32_t i = 0; i < run->count; i++) {
		unsigned mask = sizes_seen(sizes, i, seen);

		if ((mask & (mask - 1)) == 0)
			continue;
		sizes->by_site[sizes->known_count++] =
		    (struct known){ run->allocs[i].key, run->allocs[i].bytes,
			    i };
	}
	memcpy(sizes->by_size, sizes->by_site,
	    sizes->known_count * sizeof(*sizes->by_size));
	qsort(sizes->by_site, sizes->known_count, sizeof(*sizes->by_site),
	    by_site_order);
	qsort(sizes->by_size, sizes->known_count, sizeof(*sizes->by_size),
	    by_size_order);
	return true;
}

static void
find_kept(struct fit_sizes *sizes, const uint64_t seen[FIT_RUNS], unsigned mask,
    struct fit_value *out)
{
	uint64_t hash = mask;
	double values[FIT_RUNS];
	bool known[FIT_RUNS];
	struct kept *kept;

	for (unsigned r = 0; r < FIT_RUNS; r++) {
		hash = (hash ^ seen[r]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
		values[r] = (double)seen[r];
		known[r] = (mask >> r & 1) != 0;
	}
	kept = &sizes->kept[hash % SIZES_KEPT];
	if (kept->mask != mask ||
	    memcmp(kept->seen, seen, sizeof(kept->seen)) != 0) {
		kept->mask = mask;
		memcpy(kept->seen, seen, sizeof(kept->seen));
		fit_find(&sizes->numbers, values, known, 512, &kept->value);
	}
	*out = kept->value;
}

/* The group of an allocation of the pattern whose sizes show whether they
 * depend on data: that of its call site, or of its life, where the site says
 * nothing.
 */
static struct fit_group *
kin_of(const struct fit_sizes *sizes, uint32_t alloc)
{
	const struct fit_run *run = &sizes->runs[sizes->pattern];
	bool lives = run->allocs[alloc].vague;
	const struct fit_groups *groups = lives ? sizes->groups : sizes->sites;

	return fit_groups_find(
	    &groups[sizes->pattern], fit_place_of(run, alloc, lives));
}

/* Count in each group of the pattern which sizes have a formula. */
static void
count_agreed(struct fit_sizes *sizes)
{
	uint64_t seen[FIT_RUNS];

	for (uint32_t i = 0; i < sizes->runs[sizes->pattern].count; i++) {
		struct fit_group *group = kin_of(sizes, i);
		unsigned mask = sizes_seen(sizes, i, seen);
		struct fit_value value;

		if ((mask & (mask - 1)) == 0)
			continue;
		find_kept(sizes, seen, mask, &value);
		group->matched++;
		group->agreed += value.grade < FIT_GUESSED;
	}
}

/* The first of the sorted allocations that is not before a key. */
static uint32_t
known_from(const struct known *sorted, uint32_t count, const struct known *key,
    int (*order)(const void *, const void *))
{
	uint32_t low = 0;
	uint32_t high = count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (order(&sorted[middle], key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* True if the allocations of the pattern that have the site and the size of
 * this one have its exact formula, too. Of those by chance some have another
 * one. */
static bool
repeats_say_so(
    struct fit_sizes *sizes, uint32_t alloc, const struct fit_value *value)
{
	const struct fit_alloc *like =
	    &sizes->runs[sizes->pattern].allocs[alloc];
	struct known key = { like->key, like->bytes, 0 };
	uint32_t at =
	    known_from(sizes->by_site, sizes->known_count, &key, by_site_order);
	uint32_t repeats = 0;
	uint32_t agreed = 0;

	for (; at < sizes->known_count && repeats < SIZE_REPEATS_MOST &&
	     by_site_order(&sizes->by_site[at], &key) == 0;
	     at++, repeats++) {
		uint64_t seen[FIT_RUNS];
		unsigned mask =
		    sizes_seen(sizes, sizes->by_site[at].alloc, seen);
		struct fit_value other;

		find_kept(sizes, seen, mask, &other);
		agreed += other.grade == FIT_EXACT &&
		    fabs(other.value - value->value) < 1;
	}
	return agreed >= SIZE_REPEATS_LEAST &&
	    agreed >= SIZE_AGREED_SHARE * repeats;
}

/* True if an allocation's size depends on data: those of its group differ, and
 * few of them have a formula. Then a formula that it has holds by chance, which
 * the search for matches looks for; unless the size comes again and again, as
 * those do that are equal in each step. */
static bool
is_data(struct fit_sizes *sizes, uint32_t alloc, const struct fit_value *value)
{
	const struct fit_group *group = kin_of(sizes, alloc);

	if (group == NULL || group->count < SIZE_GROUP_LEAST ||
	    group->least == group->most ||
	    group->agreed >= SIZE_AGREED_SHARE * group->matched)
		return false;
	return value->grade != FIT_EXACT ||
	    !repeats_say_so(sizes, alloc, value);
}

/* Note which sizes depend on data. False without memory. */
static bool
note_data(struct fit_sizes *sizes)
{
	uint32_t count = sizes->runs[sizes->pattern].count;
	uint64_t seen[FIT_RUNS];

	sizes->data = calloc((size_t)count + 1, sizeof(*sizes->data));
	for (uint32_t i = 0; sizes->data != NULL && i < count; i++) {
		unsigned mask = sizes_seen(sizes, i, seen);
		struct fit_value value;

		find_kept(sizes, seen, mask, &value);
		sizes->data[i] = is_data(sizes, i, &value);
	}
	return sizes->data != NULL;
}

struct fit_sizes *
fit_sizes_new(const struct fit_numbers *numbers, const struct fit_run *runs,
    unsigned pattern, uint32_t *const *match)
{
	struct fit_sizes *sizes = calloc(1, sizeof(*sizes));

	if (sizes == NULL)
		return NULL;
	sizes->numbers = *numbers;
	sizes->runs = runs;
	sizes->pattern = pattern;
	sizes->match = match;
	sizes->kept = calloc(SIZES_KEPT, sizeof(*sizes->kept));
	for (unsigned r = 0; r < numbers->runs; r++)
		if (!fit_groups_make(&runs[r], true, &sizes->groups[r]) ||
		    !fit_groups_make(&runs[r], false, &sizes->sites[r])) {
			fit_sizes_free(sizes);
			return NULL;
		}
	if (sizes->kept == NULL || !list_known(sizes)) {
		fit_sizes_free(sizes);
		return NULL;
	}
	count_agreed(sizes);
	if (!note_data(sizes)) {
		fit_sizes_free(sizes);
		return NULL;
	}
	return sizes;
}

void
fit_sizes_free(struct fit_sizes *sizes)
{
	if (sizes == NULL)
		return;
	for (unsigned r = 0; r < FIT_RUNS; r++) {
		fit_groups_drop(&sizes->groups[r]);
		fit_groups_drop(&sizes->sites[r]);
	}
	free(sizes->by_site);
	free(sizes->by_size);
	free(sizes->kept);
	free(sizes->data);
	free(sizes);
}

void
fit_sizes_ask(struct fit_sizes *sizes, const double *ask)
{
	memcpy(sizes->numbers.ask, ask, sizeof(sizes->numbers.ask));
	memset(sizes->kept, 0, SIZES_KEPT * sizeof(*sizes->kept));
}

/* The share by which the mean of a group may be off by chance. */
static double
chance_of(const struct fit_group *group)
{
	return fit_group_spread(group) / sqrt(group->count) /
	    (group->sum / group->count);
}

/* If the sizes of an allocation's group differ, it grows as their mean does.
 * False if they do not, or if no other recording has the group. */
static bool
find_by_group(const struct fit_sizes *sizes, uint32_t alloc, bool lives,
    struct fit_value *out)
{
	const struct fit_groups *groups = lives ? sizes->groups : sizes->sites;
	const struct fit_run *run = &sizes->runs[sizes->pattern];
	uint64_t place = fit_place_of(run, alloc, lives);
	const struct fit_group *own =
	    fit_groups_find(&groups[sizes->pattern], place);
	double means[FIT_RUNS] = { 0 };
	bool known[FIT_RUNS] = { false };
	unsigned found = 0;
	double chance = 0;
	double growth;

	if (own == NULL || own->count < SIZE_GROUP_LEAST ||
	    own->least == own->most)
		return false;
	for (unsigned r = 0; r < sizes->numbers.runs; r++) {
		const struct fit_group *group =
		    fit_groups_find(&groups[r], place);

		if (group == NULL)
			continue;
		known[r] = true;
		means[r] = group->sum / group->count;
		chance = fmax(chance, chance_of(group));
		found++;
	}
	if (found < 2)
		return false;
	chance = SIZE_MEAN_CHANCES *
	    sqrt(chance * chance + chance_of(own) * chance_of(own));
	chance = fmin(chance, SIZE_MEAN_SLACK_MOST);
	fit_find_rough(
	    &sizes->numbers, means, known, fmax(SIZE_MEAN_SLACK, chance), out);
	growth = out->value / means[sizes->pattern];
	out->value = (double)run->allocs[alloc].bytes * growth;
	out->error = SIZE_MEAN_CHANCES * fit_group_spread(own) * growth /
	    sqrt(own->count);
	out->grade = FIT_GUESSED;
	return true;
}

static bool
find_by_mean(
    const struct fit_sizes *sizes, uint32_t alloc, struct fit_value *out)
{
	const struct fit_run *run = &sizes->runs[sizes->pattern];
	const struct fit_group *lives = fit_groups_find(
	    &sizes->groups[sizes->pattern], fit_place_of(run, alloc, true));

	/* Few sizes have a mean by chance. */
	if (!run->allocs[alloc].vague &&
	    (lives == NULL || lives->count < SIZE_GROUP_MANY) &&
	    find_by_group(sizes, alloc, false, out))
		return true;
	return find_by_group(sizes, alloc, true, out) ||
	    (!run->allocs[alloc].vague &&
		find_by_group(sizes, alloc, false, out));
}

/* Find the formula of another allocation of the same size, of the same site if
 * `site`, that is better known than `grade`. */
static bool
find_by_twin(struct fit_sizes *sizes, uint32_t alloc, bool site,
    enum fit_grade grade, struct fit_value *out)
{
	const struct fit_alloc *like =
	    &sizes->runs[sizes->pattern].allocs[alloc];
	const struct known *sorted = site ? sizes->by_site : sizes->by_size;
	int (*order)(const void *, const void *) =
	    site ? by_site_order : by_size_order;
	struct known key = { like->key, like->bytes, 0 };
	uint32_t at = known_from(sorted, sizes->known_count, &key, order);

	for (unsigned tries = 0; tries < SIZE_TWINS &&
	     at < sizes->known_count && order(&sorted[at], &key) == 0;
	     tries++, at++) {
		uint64_t seen[FIT_RUNS];
		unsigned mask = sizes_seen(sizes, sorted[at].alloc, seen);
		struct fit_value value;

		find_kept(sizes, seen, mask, &value);
		if (value.grade >= grade)
			continue;
		*out = value;
		return true;
	}
	return false;
}

/* Guess the value of an allocation that no recording has at its site. */
static void
guess_alone(struct fit_sizes *sizes, uint32_t alloc, struct fit_value *out)
{
	double bytes = (double)sizes->runs[sizes->pattern].allocs[alloc].bytes;

	if (!find_by_twin(sizes, alloc, false, FIT_GUESSED, out) &&
	    !find_by_twin(sizes, alloc, true, FIT_UNKNOWN, out))
		find_by_twin(sizes, alloc, false, FIT_UNKNOWN, out);
	out->alone = true;
	/* It may stay as it is, or grow more. */
	out->error = fmax(out->error, fabs(out->value - bytes) / 2);
}

/* Find the formula of an allocation of the pattern. */
static void
find_formula(struct fit_sizes *sizes, uint32_t alloc, struct fit_value *out)
{
	uint64_t seen[FIT_RUNS];
	unsigned mask = sizes_seen(sizes, alloc, seen);
	bool matched = (mask & (mask - 1)) != 0;

	find_kept(sizes, seen, mask, out);
	out->alone = false;
	if (sizes->data[alloc] && find_by_mean(sizes, alloc, out))
		return;
	if (matched && out->grade < FIT_GUESSED)
		return;
	if (!matched)
		out->error = out->value / 2;
	/* Where the site says nothing, sizes without a formula are those of
	 * different allocations. */
	if (out->grade == FIT_UNKNOWN &&
	    sizes->runs[sizes->pattern].allocs[alloc].vague)
		matched = false;
	if (!find_by_twin(sizes, alloc, true, FIT_GUESSED, out) &&
	    !find_by_mean(sizes, alloc, out) && !matched)
		guess_alone(sizes, alloc, out);
	if (out->grade < FIT_GUESSED)
		out->grade = FIT_GUESSED;
}

void
fit_sizes_find(struct fit_sizes *sizes, uint32_t alloc, struct fit_value *out)
{
	find_formula(sizes, alloc, out);
	out->value = fit_reduction_bytes(
	    &sizes->runs[sizes->pattern], alloc, out->value);
}
