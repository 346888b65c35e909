/*
 * Recorded traces, which `weir replay` plays in a process of its own. Its time
 * includes the statistics that it reads after each row.
 */
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench.h"
#include "tools/weir/tool.h"

/* Play a trace at full speed. *events is the number of its events, and *seconds
 * the time of the playback. */
static bool
replay_trace(const char *trace, bool cached, double *seconds, size_t *events)
{
	char weir[TOOL_PATH];
	char *argv[] = { weir, "replay", "--json", "--speed", "1000000",
		(char *)trace, NULL, NULL, NULL };
	struct child child;
	json_t *figures;
	bool good = false;

	if (!cached) {
		argv[6] = "--conf";
		argv[7] = "tcache:0";
	}
	/* The command lies beside the library folder. */
	if (!locate("../bin/weir", weir) || !child_start(&child, argv))
		return false;
	figures = json_loadf(child.from, JSON_DISABLE_EOF_CHECK, NULL);
	if (child_end(&child) == 0) {
		*seconds = json_real_value(json_object_get(figures, "seconds"));
		*events = (size_t)json_integer_value(
		    json_object_get(figures, "events"));
		good = *events > 0;
	}
	json_decref(figures);
	return good;
}

/* Play the trace `data` `n` times. */
static double
run_replay(const struct sample *sample)
{
	bool cached = strcmp(sample->peer->name, "weir") == 0;
	double sum = 0;

	for (uint64_t i = 0; i < sample->n; i++) {
		double seconds;
		size_t events;

		if (!replay_trace(
			sample->about->data, cached, &seconds, &events))
			return -1;
		sum += seconds;
	}
	return sum;
}

bool
bench_replay(struct session *session)
{
	if (*session->traces == NULL)
		complain("replay is left out: no --trace is given");
	for (const char *const *path = session->traces; *path != NULL; path++) {
		char *copy = strdup(*path);
		double seconds;
		size_t events;
		struct bench_case about = {
			.run = run_replay,
			.kinds = PEER_WEIR,
			/* Each process begins without memory. */
			.cold = true,
			.few = true,
			.rounds = 1,
			.unit = UNIT_MILLION,
			.data = *path,
		};
		bool done = copy != NULL;

		if (done && replay_trace(*path, true, &seconds, &events)) {
			about.name = basename(copy);
			about.ops = events;
			done = measure(session, &about);
		} else if (done) {
			session->failures++;
		}
		free(copy);
		if (!done)
			return false;
	}
	return true;
}
