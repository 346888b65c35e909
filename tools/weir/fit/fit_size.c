#include "tools/weir/fit/fit_size.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/weir/fit/tuning.h"

/* Products of powers of the numbers: 1/x, x and x^2 of each, up to degree 3. */
enum { TERMS = 64 };

struct term {
	int power[FIT_NAMES];
	int cost; /* the lower, the simpler */
	double was[FIT_RUNS];
	double ask;
};

/* The recordings that have the quantity. */
struct finder {
	const struct fit_numbers *numbers;
	unsigned count;
	double seen[FIT_RUNS];
	unsigned run[FIT_RUNS];
	double grain;
	struct term terms[TERMS];
	unsigned term_count;
	struct fit_value *out;
};

static bool
varies(const struct finder *f, unsigned name)
{
	for (unsigned i = 1; i < f->count; i++)
		if (f->numbers->was[f->run[i]][name] !=
		    f->numbers->was[f->run[0]][name])
			return true;
	return false;
}

static double
product(const double *numbers, const int *power, unsigned names)
{
	double result = 1;

	for (unsigned i = 0; i < names; i++)
		result *= (double)powl(numbers[i], power[i]);
	return result;
}

static void
add_term(struct finder *f, const int *power)
{
	const struct fit_numbers *numbers = f->numbers;
	struct term *term = &f->terms[f->term_count];
	int cost = 0;

	if (f->term_count == TERMS)
		return;
	for (unsigned i = 0; i < numbers->names; i++) {
		static const int costs[] = { 5, 0, 1, 3 };

		/* Nothing is done a number of times that is a square, and a
		 * size is one only if all recordings say so: small sizes are
		 * often powers of two, whose ratio is a square by chance. */
		if (power[i] == 2 &&
		    (f->grain == 0 || f->count < numbers->runs))
			return;
		term->power[i] = power[i];
		cost += costs[power[i] + 1];
	}
	if (cost == 0 || cost > 6)
		return;
	term->cost = cost;
	for (unsigned i = 0; i < f->count; i++)
		term->was[i] =
		    product(numbers->was[f->run[i]], power, numbers->names);
	term->ask = product(numbers->ask, power, numbers->names);
	f->term_count++;
}

/* Make the terms of the numbers that vary, the simplest first. */
static void
make_terms(struct finder *f)
{
	int power[FIT_NAMES] = { 0 };
	unsigned names = f->numbers->names;

	for (unsigned code = 0; code < 1u << 2 * names; code++) {
		bool good = true;

		for (unsigned i = 0; i < names; i++) {
			power[i] = (int)(code >> 2 * i & 3) - 1;
			good &= power[i] == 0 || varies(f, i);
		}
		if (good)
			add_term(f, power);
	}
	for (unsigned i = 1; i < f->term_count; i++)
		for (unsigned k = i;
		     k > 0 && f->terms[k].cost < f->terms[k - 1].cost; k--) {
			struct term swapped = f->terms[k];

			f->terms[k] = f->terms[k - 1];
			f->terms[k - 1] = swapped;
		}
}

static void
write_term(const struct finder *f, const struct term *term, double factor,
    double constant)
{
	char *at = f->out->text;
	size_t left = sizeof(f->out->text);
	int n = 0;

	if (constant != 0)
		n = snprintf(at, left, "%.0f + ", constant);
	n += snprintf(at + n, left - (size_t)n, "%.6g", factor);
	for (unsigned i = 0; i < f->numbers->names; i++) {
		if (term->power[i] == 0 || (size_t)n >= left)
			continue;
		n += snprintf(at + n, left - (size_t)n, " %s %s%s",
		    term->power[i] < 0 ? "/" : "*", f->numbers->name[i],
		    term->power[i] == 2 ? "^2" : "");
	}
}

static void
answer_fit(struct finder *f, double value, double error, enum fit_grade grade)
{
	f->out->value = value < 0 ? 0 : value;
	f->out->error = error;
	f->out->grade = grade;
}

static bool
try_constant(struct finder *f)
{
	for (unsigned i = 1; i < f->count; i++)
		if (f->seen[i] != f->seen[0])
			return false;
	answer_fit(f, f->seen[0], 0, FIT_EXACT);
	snprintf(f->out->text, sizeof(f->out->text), "%.0f", f->seen[0]);
	return true;
}

/* A product: seen = factor * term, with at most `slack` of difference. */
static bool
try_product(struct finder *f, double slack)
{
	unsigned last = f->count - 1;

	for (unsigned t = 0; t < f->term_count; t++) {
		const struct term *term = &f->terms[t];
		double factor = f->seen[last] / term->was[last];
		bool good = true;

		for (unsigned i = 0; i < f->count; i++)
			good &= fabs(f->seen[i] - factor * term->was[i]) <=
			    slack + 1e-9 * f->seen[i];
		if (!good)
			continue;
		answer_fit(f, factor * term->ask,
		    slack * term->ask / term->was[last],
		    slack == 0 ? FIT_EXACT : FIT_ROUNDED);
		write_term(f, term, factor, 0);
		return true;
	}
	return false;
}

/* True if the quantities leave one rest of whole pages, and not 0. Those of two
 * kernels seldom do. */
static bool
leave_one_rest(const struct finder *f)
{
	double rest = fmod(f->seen[0], FIT_PAGE);

	for (unsigned i = 1; i < f->count; i++)
		if (fmod(f->seen[i], FIT_PAGE) != rest)
			return false;
	return rest != 0 && f->grain > 0;
}

/* A constant of at least 0, and a product. */
static bool
try_linear(struct finder *f, double slack)
{
	unsigned last = f->count - 1;

	for (unsigned t = 0; t < f->term_count; t++) {
		const struct term *term = &f->terms[t];
		double run = term->was[last] - term->was[0];
		double factor;
		double constant;
		bool good = run != 0;

		if (!good)
			continue;
		factor = (f->seen[last] - f->seen[0]) / run;
		constant = f->seen[0] - factor * term->was[0];
		if (factor < 0 ||
		    (f->grain > 0 && constant < -slack - 1e-9 * f->seen[0]))
			continue;
		for (unsigned i = 0; i < f->count; i++)
			good &= fabs(f->seen[i] - constant -
				    factor * term->was[i]) <=
			    slack + 1e-9 * f->seen[i];
		if (!good)
			continue;
		answer_fit(f, constant + factor * term->ask,
		    slack * term->ask / term->was[last],
		    f->count == 2 && !leave_one_rest(f) ? FIT_GUESSED :
			slack == 0                      ? FIT_EXACT :
							  FIT_ROUNDED);
		write_term(f, term, factor, constant);
		return true;
	}
	return false;
}

/* Two products with factors above 0, which match two recordings, and any
 * others too. */
static bool
try_sum(struct finder *f, double slack)
{
	unsigned last = f->count - 1;

	for (unsigned a = 0; a < f->term_count; a++)
		for (unsigned b = a + 1; b < f->term_count; b++) {
			const struct term *x = &f->terms[a];
			const struct term *y = &f->terms[b];
			double det =
			    x->was[0] * y->was[last] - x->was[last] * y->was[0];
			double p = (f->seen[0] * y->was[last] -
				       f->seen[last] * y->was[0]) /
			    det;
			double q = (x->was[0] * f->seen[last] -
				       x->was[last] * f->seen[0]) /
			    det;
			bool good = det != 0 && p > 0 && q > 0;

			for (unsigned i = 0; good && i < f->count; i++)
				good = fabs(f->seen[i] - p * x->was[i] -
					   q * y->was[i]) <=
				    slack + 1e-9 * f->seen[i];
			if (!good)
				continue;
			answer_fit(f, p * x->ask + q * y->ask,
			    slack * y->ask / y->was[last], FIT_GUESSED);
			write_term(f, y, q, 0);
			return true;
		}
	return false;
}

/* Let growth go on as a power of the simplest term: as fast as at last, but not
 * faster than the term itself, unless all recordings say that it has always
 * been so. */
static void
guess_power(struct finder *f)
{
	unsigned last = f->count - 1;
	const struct term *term = &f->terms[0];
	double most = f->count < f->numbers->runs ? 1 : 2;
	double power = 0;
	double value = f->seen[last];

	for (unsigned i = last; f->term_count > 0 && i > 0; i--) {
		double from = f->seen[i - 1] < 1 ? 1 : f->seen[i - 1];
		double to = f->seen[i] < 1 ? 1 : f->seen[i];
		double run = term->was[i] / term->was[i - 1];
		double step =
		    run == 1 ? 0 : (double)logl(to / from) / (double)logl(run);

		if (i == last)
			power = step;
		else if (fabs(step - power) > 0.5)
			most = 1;
	}
	if (power < 0)
		power = 0;
	if (power > most)
		power = most;
	if (f->term_count > 0)
		value *= (double)powl(term->ask / term->was[last], power);
	answer_fit(f, value, fabs(value - f->seen[last]) / 4, FIT_UNKNOWN);
	snprintf(f->out->text, sizeof(f->out->text), "power %.2f", power);
}

/* The recording with the smallest or the largest program. */
static unsigned
end_of_range(const struct finder *f, bool largest)
{
	unsigned end = 0;

	for (unsigned i = 1; i < f->count; i++)
		if ((f->terms[0].was[i] > f->terms[0].was[end]) == largest)
			end = i;
	return end;
}

/* Answer without a recording. False, and no answer, if the others have no
 * simple formula. */
static bool
answer_without(struct finder *f, unsigned omitted, struct fit_value *out)
{
	struct finder fewer = *f;

	fewer.out = out;
	fewer.count--;
	for (unsigned i = omitted; i < fewer.count; i++) {
		fewer.seen[i] = f->seen[i + 1];
		fewer.run[i] = f->run[i + 1];
	}
	fewer.term_count = 0;
	make_terms(&fewer);
	if (try_constant(&fewer) || try_product(&fewer, 0) ||
	    try_product(&fewer, f->grain)) {
		out->grade = FIT_GUESSED;
		return true;
	}
	return leave_one_rest(&fewer) && try_linear(&fewer, 0);
}

/* Forget the smallest recording, which may be of another kind: a small program
 * gets other kernels. If the largest one is of another kind as well as that,
 * the value may be off by what the smaller ones say. */
static bool
try_without_smallest(struct finder *f)
{
	struct fit_value other;

	if (f->count < 3 || !answer_without(f, end_of_range(f, false), f->out))
		return false;
	if (answer_without(f, end_of_range(f, true), &other))
		f->out->error += fabs(other.value - f->out->value) / 2;
	return true;
}

void
fit_find(const struct fit_numbers *numbers, const double *seen,
    const bool *known, double grain, struct fit_value *out)
{
	struct finder finder = {
		.numbers = numbers, .grain = grain, .out = out
	};

	for (unsigned i = 0; i < numbers->runs; i++)
		if (known[i]) {
			finder.seen[finder.count] = seen[i];
			finder.run[finder.count++] = i;
		}
	if (try_constant(&finder)) {
		if (finder.count < numbers->runs)
			out->grade = FIT_GUESSED;
		return;
	}
	make_terms(&finder);
	/* With two recordings any line matches, so that a product within the
	 * rounding is the simpler answer. */
	if (grain == 0 &&
	    (try_product(&finder, 0) || try_linear(&finder, 0) ||
		try_product(&finder, 1.01) || try_linear(&finder, 1.01)))
		return;
	if (try_product(&finder, 0) ||
	    (finder.count > 2 && try_linear(&finder, 0)) ||
	    try_product(&finder, grain) || try_without_smallest(&finder) ||
	    try_linear(&finder, 0) || try_linear(&finder, grain) ||
	    try_sum(&finder, 0) || try_sum(&finder, grain))
		return;
	guess_power(&finder);
}

/* True if all quantities are those of a term within a share of `slack`. */
static bool
is_rough(const struct finder *f, const struct term *term, double slack)
{
	double least = INFINITY;
	double most = 0;

	for (unsigned i = 0; i < f->count; i++) {
		double part = f->seen[i] / (term == NULL ? 1 : term->was[i]);

		least = fmin(least, part);
		most = fmax(most, part);
	}
	return most <= least * (1 + slack);
}

void
fit_find_rough(const struct fit_numbers *numbers, const double *seen,
    const bool *known, double slack, struct fit_value *out)
{
	struct finder finder = { .numbers = numbers, .grain = 1, .out = out };
	unsigned last;

	for (unsigned i = 0; i < numbers->runs; i++)
		if (known[i]) {
			finder.seen[finder.count] = seen[i];
			finder.run[finder.count++] = i;
		}
	last = finder.count - 1;
	if (is_rough(&finder, NULL, slack)) {
		answer_fit(&finder, finder.seen[last],
		    slack * finder.seen[last], FIT_GUESSED);
		snprintf(out->text, sizeof(out->text), "about constant");
		return;
	}
	make_terms(&finder);
	for (unsigned t = 0; t < finder.term_count; t++) {
		const struct term *term = &finder.terms[t];

		if (!is_rough(&finder, term, slack))
			continue;
		answer_fit(&finder,
		    finder.seen[last] * term->ask / term->was[last],
		    slack * finder.seen[last], FIT_GUESSED);
		write_term(
		    &finder, term, finder.seen[last] / term->was[last], 0);
		return;
	}
	guess_power(&finder);
}
