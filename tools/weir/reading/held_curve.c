#include "tools/weir/reading/held_curve.h"

void
held_curve_begin(struct held_curve *curve, uint64_t span_us)
{
	*curve = (struct held_curve){ .span_us = span_us };
}

static unsigned
part_at(const struct held_curve *curve, uint64_t time_us)
{
	if (curve->span_us == 0 || time_us == 0)
		return 0;
	if (time_us >= curve->span_us)
		return HELD_CURVE_PARTS - 1;
	return (unsigned)((double)time_us / (double)curve->span_us *
	    HELD_CURVE_PARTS);
}

void
held_curve_add(struct held_curve *curve, uint64_t time_us, uint64_t bytes)
{
	unsigned part = part_at(curve, time_us);

	while (curve->part < part)
		curve->most[++curve->part] = curve->now;
	curve->now = bytes;
	if (bytes > curve->most[curve->part])
		curve->most[curve->part] = bytes;
}

json_t *
held_curve_json(const struct held_curve *curve)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < HELD_CURVE_PARTS; i++)
		json_array_append_new(list,
		    json_integer(
			(json_int_t)(i <= curve->part ? curve->most[i] :
							curve->now)));
	return list;
}
