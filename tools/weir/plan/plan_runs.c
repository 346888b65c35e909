/*
 * Finds the runs across the middle of a part (Main and Lorentz): they follow
 * from how far the requests before and after it equal others. This is found in
 * one pass by what the pass has found so far (the Z algorithm).
 */
#include "tools/weir/plan/plan_runs.h"

#include <stddef.h>
#include <stdlib.h>

#include "tools/weir/plan/tuning.h"

/* Requests one after the other, in their order or backwards. */
struct row {
	const struct plan_request *first;
	int step;
	uint32_t length;
};

/* The search. The arrays have room for the requests of a part. */
struct runs {
	const struct plan_request *list;
	uint32_t count;
	uint32_t most;
	struct plan_run best;  /* of those whose first period ends in time */
	struct plan_run any;   /* of all */
	uint32_t *after;       /* how far requests after the middle, */
	uint32_t *before;      /* those before it, backwards, */
	uint32_t *part_after;  /* all of the part, */
	uint32_t *part_before; /* and all of it, backwards, equal the first
				  ones after or before the middle */
};

/* ---- Equal requests ---------------------------------------------------- */

static const struct plan_request *
in_row(const struct row *row, uint32_t i)
{
	return row->first + (ptrdiff_t)i * row->step;
}

/* How many requests of `a` from the i-th on equal those of `b` from the j-th
 * on? */
static uint32_t
equal_from(const struct row *a, uint32_t i, const struct row *b, uint32_t j)
{
	uint32_t n = 0;

	while (i + n < a->length && j + n < b->length) {
		const struct plan_request *x = in_row(a, i + n);
		const struct plan_request *y = in_row(b, j + n);

		if (x->size != y->size || x->stream != y->stream)
			break;
		n++;
	}
	return n;
}

/*
 * How many requests of `row` from each one on equal the first ones of `like`?
 * `known` answers that for `like` itself; while that is found out, it is `out`,
 * and the search begins with the second request.
 */
static void
match(const struct row *row, const struct row *like, const uint32_t *known,
    uint32_t *out)
{
	/* The requests from `from` to `until` equal the first ones. */
	uint32_t from = 0;
	uint32_t until = 0;

	for (uint32_t i = known == out; i < row->length; i++) {
		uint32_t n = 0;

		if (i < until) {
			n = known[i - from];
			if (n > until - i)
				n = until - i;
		}
		n += equal_from(row, i + n, like, n);
		out[i] = n;
		if (i + n > until) {
			from = i;
			until = i + n;
		}
	}
}

static void
match_itself(const struct row *row, uint32_t *out)
{
	out[0] = row->length;
	match(row, row, out, out);
}

/* ---- Runs -------------------------------------------------------------- */

static bool
is_better_run(const struct plan_run *a, const struct plan_run *b)
{
	return a->length != b->length ? a->length > b->length :
					a->period < b->period;
}

static void
note_run(struct runs *runs, uint32_t first, uint32_t length, uint32_t period)
{
	const struct plan_run run = { first, length, period };

	if (length / PLANNED_ROUNDS < period ||
	    (first + length < runs->count && length <= runs->count / 2))
		return;
	if (is_better_run(&run, &runs->any))
		runs->any = run;
	if (first + period <= runs->most && is_better_run(&run, &runs->best))
		runs->best = run;
}

/* Find the runs across `middle`, within `from` to `until`. */
static void
find_across(struct runs *runs, uint32_t from, uint32_t middle, uint32_t until)
{
	uint32_t left = middle - from;
	uint32_t right = until - middle;
	const struct row after = { runs->list + middle, 1, right };
	const struct row before = { runs->list + middle - 1, -1, left };
	const struct row part = { runs->list + from, 1, left + right };
	const struct row back = { runs->list + until - 1, -1, left + right };

	match_itself(&after, runs->after);
	match_itself(&before, runs->before);
	match(&part, &after, runs->after, runs->part_after);
	match(&back, &before, runs->before, runs->part_before);
	for (uint32_t p = 1; p <= right; p++) {
		uint32_t on = p < right ? runs->after[p] : 0;
		uint32_t back_by = runs->part_before[right - p];

		note_run(runs, middle - back_by, back_by + on + p, p);
	}
	for (uint32_t p = 1; p <= left; p++) {
		uint32_t on = runs->part_after[left - p];
		uint32_t back_by = p < left ? runs->before[p] : 0;

		note_run(runs, middle - p - back_by, back_by + on + p, p);
	}
}

/* A run of more than half of the requests lies across their middle, and one to
 * their end across that of the last half, quarter, and so on. */
static void
find_runs(struct runs *runs)
{
	uint32_t from = 0;

	while (runs->count - from >= PLANNED_ROUNDS &&
	    runs->count - from > runs->best.length) {
		uint32_t middle = from + (runs->count - from) / 2;

		find_across(runs, from, middle, runs->count);
		from = middle;
	}
}

bool
plan_longest_run(const struct plan_request *list, uint32_t count, uint32_t most,
    struct plan_run *out)
{
	size_t room = (size_t)count + 1;
	struct runs runs = {
		.list = list,
		.count = count,
		.most = most,
		.after = calloc(room, sizeof(uint32_t)),
		.before = calloc(room, sizeof(uint32_t)),
		.part_after = calloc(room, sizeof(uint32_t)),
		.part_before = calloc(room, sizeof(uint32_t)),
	};
	bool made = runs.after != NULL && runs.before != NULL &&
	    runs.part_after != NULL && runs.part_before != NULL;

	if (made)
		find_runs(&runs);
	*out = runs.best.length > 0 ? runs.best : runs.any;
	free(runs.after);
	free(runs.before);
	free(runs.part_after);
	free(runs.part_before);
	return made;
}
