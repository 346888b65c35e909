/*
 * The median and the spread of samples.
 */
#include <stdlib.h>

#include "tools/bench/bench.h"

static int
compare_samples(const void *a, const void *b)
{
	const double *x = a;
	const double *y = b;

	return (*x > *y) - (*x < *y);
}

/* The quantile of sorted samples, interpolated between two of them. */
static double
quantile(const double *sorted, size_t count, double part)
{
	double place = part * (double)(count - 1);
	size_t below = (size_t)place;
	double rest = place - (double)below;

	if (below + 1 == count)
		return sorted[below];
	return sorted[below] + rest * (sorted[below + 1] - sorted[below]);
}

struct spread
spread_of(double *samples, size_t count)
{
	qsort(samples, count, sizeof(*samples), compare_samples);
	return (struct spread){
		.median = quantile(samples, count, 0.5),
		.p10 = quantile(samples, count, 0.1),
		.p90 = quantile(samples, count, 0.9),
	};
}
