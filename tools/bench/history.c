/*
 * The history: the time of a pair with the history on, the cost of an event
 * that follows from it, and the time to write a full history as a snapshot.
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
	/* So few that all entries are overwritten before the measurement. */
	ENTRIES_PAIR = 3000,
	TURNS = 10, /* pairs with and without history alternate so often */
};

/* ---- The peers --------------------------------------------------------- */

static void
history_free(void *block, weir_stream stream)
{
	(void)stream;
	weir_free(block);
}

const struct peer peer_history = {
	.name = "weir-history",
	.what = "weir with its history on, without stacks",
	.kind = PEER_HISTORY,
	.malloc = weir_malloc,
	.free = history_free,
};

const struct peer peer_stacks = {
	.name = "weir-stacks",
	.what = "weir with its history on, level all, with stacks of C",
	.kind = PEER_HISTORY,
	.malloc = weir_malloc,
	.free = history_free,
};

/* ---- Pairs ------------------------------------------------------------- */

/* Begin a history of `entries` entries, and fill it. */
static bool
fill_history(const struct sample *sample, size_t entries)
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

/* Pairs, with a full history if the peer keeps one. */
static double
run_recorded_pairs(const struct sample *sample)
{
	bool recorded = sample->peer->kind == PEER_HISTORY;
	double seconds = -1;

	if (!recorded || fill_history(sample, ENTRIES_PAIR))
		seconds = run_pairs(sample);
	if (recorded)
		weir_history_stop();
	return seconds;
}

/* ---- Events ------------------------------------------------------------ */

/* Pairs without a history. The first thousand are not counted. */
static double
run_plain_pairs(const struct sample *sample)
{
	struct sample first = *sample;

	first.n = ENTRIES_PAIR / EVENTS_A_PAIR;
	return run_pairs(&first) >= 0 ? run_pairs(sample) : -1;
}

/* The time that the history adds to pairs: the time of pairs with it less that
 * of pairs without. Both alternate, so that a slow moment of the machine
 * affects both. */
static double
run_events(const struct sample *sample)
{
	struct sample turn = *sample;
	double seconds = 0;

	for (uint64_t rest = sample->n; rest > 0; rest -= turn.n) {
		turn.n = sample->n / TURNS + 1;
		if (turn.n > rest)
			turn.n = rest;
		double plain = run_plain_pairs(&turn);
		double recorded = plain >= 0 ? run_recorded_pairs(&turn) : -1;
		if (recorded < 0)
			return -1;
		seconds += recorded - plain;
	}
	return seconds > 0 ? seconds : 0;
}

/* ---- Snapshots --------------------------------------------------------- */

/* Write a history of `count` events as a snapshot. */
static double
run_write(const struct sample *sample)
{
	char path[] = "/tmp/weir-bench-XXXXXX";
	int fd = mkstemp(path);
	double seconds = -1;

	if (fd < 0) {
		sample->session->why = "cannot create a file in /tmp";
		return -1;
	}
	if (fill_history(sample, sample->about->count)) {
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
		.run = run_recorded_pairs,
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
