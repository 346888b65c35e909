/*
 * Formulas of sizes and counts in named numbers, such as batch and length.
 */
#ifndef TOOLS_WEIR_FIT_FIT_SIZE_H
#define TOOLS_WEIR_FIT_FIT_SIZE_H

#include <stdbool.h>

enum {
	FIT_RUNS = 8,  /* recordings, at most */
	FIT_NAMES = 4, /* named numbers, at most */
};

/* The named numbers of the recordings. */
struct fit_numbers {
	unsigned runs;
	unsigned names;
	const char *name[FIT_NAMES];
	double was[FIT_RUNS][FIT_NAMES]; /* each above 0 */
	double ask[FIT_NAMES];
};

/* How well a formula is known, best first. */
enum fit_grade {
	FIT_EXACT,   /* all recordings agree, and a simpler one does not */
	FIT_ROUNDED, /* they agree within the rounding of sizes */
	FIT_GUESSED, /* another formula would do as well */
	FIT_UNKNOWN, /* no formula; the value is a power of the growth */
};

struct fit_value {
	double value; /* for the numbers that are asked */
	double error; /* the most that it may be off, as a guess */
	enum fit_grade grade;
	bool alone;    /* no other recording has its like at its call site */
	char text[64]; /* the formula: "4096 * batch" */
};

/*
 * Find the simplest formula for a quantity and its value for what is asked: a
 * constant, a product of powers of the numbers, a constant with one, and a sum
 * of two.
 *
 * @param seen    the quantity in each recording, at least 0
 * @param known   which recordings have it; at least one
 * @param grain   bytes that sizes are rounded to; 0 for counts, which may have
 * a constant below 0
 */
void fit_find(const struct fit_numbers *numbers, const double *seen,
    const bool *known, double grain, struct fit_value *out);

/* Find a formula for means of quantities that depend on data: a constant or a
 * product that is right within a share of `slack`, or a power. */
void fit_find_rough(const struct fit_numbers *numbers, const double *seen,
    const bool *known, double slack, struct fit_value *out);

#endif
