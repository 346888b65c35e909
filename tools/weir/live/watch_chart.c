#include "tools/weir/live/watch_chart.h"

#include <inttypes.h>
#include <string.h>

#include "tools/weir/tool.h"

void
watch_chart_add(
    struct watch_chart *chart, uint64_t time_ns, const struct counters *memory)
{
	struct chart_sample *samples = chart->samples;

	if (chart->count == CHART_COLUMNS) {
		memmove(&samples[0], &samples[1],
		    (CHART_COLUMNS - 1) * sizeof(*samples));
		chart->count--;
	}
	samples[chart->count++] = (struct chart_sample){ time_ns,
		memory->live_bytes, memory->pending_bytes, memory->held_bytes };
}

/* The letter of a sample at a height in bytes. */
static char
letter_at(const struct chart_sample *sample, double bytes)
{
	if (bytes < (double)sample->live)
		return '#';
	if (bytes < (double)(sample->live + sample->pending))
		return '~';
	return bytes < (double)sample->held ? '.' : ' ';
}

static uint64_t
most_held(const struct watch_chart *chart)
{
	uint64_t most = 0;

	for (unsigned i = 0; i < chart->count; i++)
		if (chart->samples[i].held > most)
			most = chart->samples[i].held;
	return most;
}

void
watch_chart_print(const struct watch_chart *chart, FILE *out)
{
	uint64_t most = most_held(chart);
	unsigned last = chart->count - 1;
	char text[SHOW_TEXT];

	if (chart->count < 2)
		return;
	for (unsigned row = CHART_ROWS; row-- > 0;) {
		double at = (row + 0.5) * (double)most / CHART_ROWS;

		fprintf(out, "  %10s |",
		    row == CHART_ROWS - 1 ?
			bytes_format(most, text, SHOW_TEXT) :
			"");
		for (unsigned i = 0; i < chart->count; i++)
			putc(letter_at(&chart->samples[i], at), out);
		putc('\n', out);
	}
	fprintf(out, "  %10s  %.1f s until now; # live, ~ pending, . cached\n",
	    "",
	    (double)(chart->samples[last].time_ns - chart->samples[0].time_ns) /
		1e9);
}
