/*
 * The Levenshtein distance, computed with one row of its table.
 */
#include "base/nearest.h"

#include <string.h>

#include "base/tuning.h"

size_t
nearest_distance(const char *word, size_t length, const char *other)
{
	size_t row[NEAREST_LONGEST + 1];
	size_t width = strlen(other);
	size_t rest = length > NEAREST_LONGEST ? length - NEAREST_LONGEST : 0;
	size_t other_rest =
	    width > NEAREST_LONGEST ? width - NEAREST_LONGEST : 0;
	size_t beyond =
	    rest > other_rest ? rest - other_rest : other_rest - rest;

	length -= rest;
	width -= other_rest;
	for (size_t j = 0; j <= width; j++)
		row[j] = j;
	for (size_t i = 1; i <= length; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= width; j++) {
			size_t best = diagonal + (word[i - 1] != other[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[width] + beyond;
}
