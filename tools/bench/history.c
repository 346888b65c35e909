/*
 * The history: a pair with it on, what an event costs by that, and how long a
 * full one takes to be written as a snapshot.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/trace.h>

#include "tools/bench/bench.h"
#include "tools/bench/gpu.h"

enum {
	KIB = 1 << 10,
	EVENTS_A_PAIR = 3, /* alloc, free_requested, free_completed */
	/* So few that all have been written over before the clock is read. */
	ENTRIES_PAIR = 3000,
	TURNS = 10, /* of pairs with it and without, in a sample of events */
};

/* ---- The peers --------------------------------------------------------- */

static void
plain_free(void *block, weir_stream stream)
{
	(void)stream;
	weir_free(block);
}

const struct peer peer_history = {
	.name = "weir-history",
	.what = "weir with its history on, without stacks",
	.kind = PEER_HISTORY,
	.malloc = weir_malloc,
	.free = plain_free,
};

const struct peer peer_stacks = {
	.name = "weir-stacks",
	.what = "weir with its history on, level all: stacks of C",
	.kind = PEER_HISTORY,
	.malloc = weir_malloc,
	.free = plain_free,
};

/* ---- Pairs ------------------------------------------------------------- */

/* Begin a history of so many entries, and fill it. */
static bool
fill(const struct sample *sample, size_t entries)
{
	const struct weir_history history = {
		.struct_size = sizeof(history),
		.level = sample->peer == &peer_stacks ? WEIR_HISTORY_ALL :
							WEIR_HISTORY_NONE,
		.max_entries = entries,
		.clear = true,
	};
	struct sample pairs = *sample;

	pairs.n = entries / EVENTS_A_PAIR + 1;
	return weir_history_start(&history) == WEIR_OK &&
	    run_pairs(&pairs) >= 0;
}

static double
run_told_pairs(const struct sample *sample)
{
	bool told = sample->peer->kind == PEER_HISTORY;
	double seconds =
	    !told || fill(sample, ENTRIES_PAIR) ? run_pairs(sample) : -1;

	if (told)
		weir_history_stop();
	return seconds;
}

/* ---- Events ------------------------------------------------------------ */

/* Pairs with no history on; the first thousand are not counted. */
static double
run_plain_pairs(const struct sample *sample)
{
	struct sample first = *sample;

	first.n = ENTRIES_PAIR / EVENTS_A_PAIR;
	return run_pairs(&first) >= 0 ? run_pairs(sample) : -1;
}

/* The time that the history adds to pairs: pairs with it less pairs without,
 * measured in turns, so that a slow moment of the machine is in both. */
static double
run_events(const struct sample *sample)
{
	struct sample turn = *sample;
	double seconds = 0;

	for (uint64_t left = sample->n; left > 0; left -= turn.n) {
		turn.n = sample->n / TURNS + 1;
		if (turn.n > left)
			turn.n = left;
		double plain = run_plain_pairs(&turn);
		double told = plain >= 0 ? run_told_pairs(&turn) : -1;
		if (told < 0)
			return -1;
		seconds += told - plain;
	}
	return seconds > 0 ? seconds : 0;
}

/* ---- Snapshots --------------------------------------------------------- */

/* `count` events. */
static double
run_write(const struct sample *sample)
{
	char path[] = "/tmp/weir-bench-XXXXXX";
	int fd = mkstemp(path);
	double seconds = -1;

	if (fd < 0) {
		sample->session->why = "no file can be made in /tmp";
		return -1;
	}
	if (fill(sample, sample->about->count)) {
		uint64_t start = now_ns();
		if (weir_snapshot_write(path, WEIR_SNAPSHOT_PICKLE, NULL) ==
		    WEIR_OK)
			seconds = seconds_since(start);
	}
	weir_history_stop();
	close(fd);
	unlink(path);
	return seconds;
}

/* ---- All --------------------------------------------------------------- */

bool
bench_history(struct session *session)
{
	const struct bench_case pair = {
		.name = "pair, 64 KiB",
		.run = run_told_pairs,
		.kinds = PEER_WEIR | PEER_HISTORY,
		.ops = 1,
		.size = 64 * KIB,
	};
	const struct bench_case event = {
		.name = "an event of that",
		.run = run_events,
		.kinds = PEER_HISTORY,
		.ops = EVENTS_A_PAIR,
		.size = 64 * KIB,
	};
	const struct bench_case write = {
		.name = session->quick ? "write 3,000 events" :
					 "write 1,000,000 events",
		.run = run_write,
		.kinds = PEER_HISTORY,
		.few = true,
		.rounds = 1,
		.unit = UNIT_MS,
		.size = 64 * KIB,
		.count = session->quick ? 3000 : 1000000,
	};

	return measure(session, &pair) && measure(session, &event) &&
	    measure(session, &write);
}
