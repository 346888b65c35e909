/*
 * Measuring: the rounds of a sample, and the order of the peers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/bench/bench.h"
#include "tools/weir/tool.h"

enum {
	/* The number of samples if a sample takes long. */
	FEW = 3,
	/* The most rounds that calibration tries. */
	ROUNDS_MAX = 1 << 30,
};

uint64_t
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double
seconds_since(uint64_t start_ns)
{
	return (double)(now_ns() - start_ns) / 1e9;
}

/* Sebastiano Vigna's SplitMix64, which is in the public domain. */
uint64_t
dice_roll(struct dice *dice)
{
	uint64_t z = dice->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* ---- Samples ----------------------------------------------------------- */

static const char *
error_of(const struct session *session, const struct peer *peer)
{
	const char *text = session->why != NULL ? session->why :
	    peer->error != NULL                 ? peer->error() :
						  weir_last_error();

	return *text != '\0' ? text : "failed without a reason";
}

/* The seconds of `n` rounds. Less than 0 on failure, and result->error is
 * set. */
static double
run_sample(struct session *session, const struct bench_case *about,
    struct result *result, uint64_t n)
{
	const struct peer *peer = result->peer;
	struct sample sample = { session, about, peer, n };
	double seconds = -1;

	session->why = NULL;
	if (peer->enter == NULL || peer->enter()) {
		if (about->cold && peer->trim != NULL)
			peer->trim();
		seconds = about->run(&sample);
		if (peer->leave != NULL)
			peer->leave();
	}
	if (seconds < 0)
		snprintf(result->error, sizeof(result->error), "%s",
		    error_of(session, peer));
	return seconds;
}

/* Find the number of rounds whose time is that of a sample. This warms the peer
 * up too. */
static bool
calibrate(struct session *session, const struct bench_case *about,
    struct result *result)
{
	uint64_t n = 1;
	double before = 0; /* seconds of the same rounds just before */
	double seconds;

	result->rounds = result->peer->slow && about->rounds_slow != 0 ?
	    about->rounds_slow :
	    about->rounds;
	if (about->rounds != 0)
		return about->cold ||
		    run_sample(session, about, result, result->rounds) >= 0;
	for (;;) {
		double wanted;

		seconds = run_sample(session, about, result, n);
		if (seconds < 0)
			return false;
		if (n >= ROUNDS_MAX)
			break;
		if (seconds >= session->sample_s) {
			if (before >= session->sample_s)
				break;
			before = seconds; /* repeat: first rounds are slow */
			continue;
		}
		before = 0;
		/* Grow in steps: the first rounds are slow. */
		wanted = seconds > 0 ?
		    (double)n * 1.1 * session->sample_s / seconds :
		    16.0 * (double)n;
		if (wanted > 16.0 * (double)n)
			wanted = 16.0 * (double)n;
		n = (uint64_t)wanted + 1;
	}
	result->rounds = n;
	return true;
}

static double
in_unit(const struct bench_case *about, double seconds, uint64_t rounds)
{
	double ops = (double)rounds * (double)about->ops;

	switch (about->unit) {
	case UNIT_NS:
		return seconds * 1e9 / ops;
	case UNIT_MILLION:
		return ops / seconds / 1e6;
	case UNIT_PERCENT:
		return seconds * 100;
	case UNIT_GIB:
		return ops / seconds / (1 << 30);
	default:
		return seconds * 1e3 / (double)rounds;
	}
}

static void
measure_once(struct session *session, const struct bench_case *about,
    struct result *result)
{
	double seconds;

	/* Warm up again: other peers have used the processor's caches. */
	if (about->rounds == 0 &&
	    run_sample(session, about, result, result->rounds / 8 + 1) < 0)
		return;
	seconds = run_sample(session, about, result, result->rounds);
	if (seconds < 0)
		return;
	/* A time of 0 is below the resolution of the clock. */
	if (seconds == 0)
		seconds = 1e-9;
	result->samples[result->count++] =
	    in_unit(about, seconds, result->rounds);
}

static bool
suits(const struct bench_case *about, const struct peer *peer)
{
	return (about->kinds & peer->kind) != 0 &&
	    !(about->records && peer->record == NULL) &&
	    !(about->not_slow && peer->slow) &&
	    !(about->holds && peer->held == NULL);
}

/* Measure all peers in turns. Each turn begins with another peer. */
static void
measure_all(struct session *session, const struct bench_case *about,
    struct result *results, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!calibrate(session, about, &results[i]))
			session->failures++;
	for (unsigned turn = 0; turn < session->repeat; turn++) {
		for (size_t i = 0; i < count; i++) {
			struct result *result = &results[(i + turn) % count];

			bool few = about->few || result->peer->slow;

			if (result->error[0] != '\0' || (few && turn >= FEW))
				continue;
			measure_once(session, about, result);
			if (result->error[0] != '\0')
				session->failures++;
		}
	}
}

/* True if a higher value is better. */
static bool
is_rate(enum unit unit)
{
	return unit == UNIT_MILLION || unit == UNIT_GIB;
}

static void
summarize(const struct session *session, const struct bench_case *about,
    struct result *results, size_t count)
{
	double base = 0;

	for (size_t i = 0; i < count; i++) {
		double sorted[REPEAT_MAX];
		struct result *result = &results[i];

		if (result->error[0] != '\0')
			continue;
		memcpy(
		    sorted, result->samples, result->count * sizeof(*sorted));
		result->spread = spread_of(sorted, result->count);
		if (strcmp(result->peer->name, session->bench->base) == 0)
			base = result->spread.median;
	}
	for (size_t i = 0; i < count && base > 0; i++) {
		double median = results[i].spread.median;

		if (median > 0)
			results[i].ratio = is_rate(about->unit) ?
			    base / median :
			    median / base;
	}
}

bool
measure(struct session *session, const struct bench_case *about)
{
	struct result *results = calloc(PEERS_MAX, sizeof(*results));
	size_t count = 0;

	if (results == NULL)
		return false;
	for (size_t i = 0; i < session->peer_count; i++)
		if (suits(about, session->peers[i]))
			results[count++].peer = session->peers[i];
	pin(0);
	measure_all(session, about, results, count);
	summarize(session, about, results, count);
	for (size_t i = 0; i < count; i++) {
		report_add(session, about, &results[i]);
		if (results[i].peer->trim != NULL)
			results[i].peer->trim();
	}
	free(results);
	return true;
}
