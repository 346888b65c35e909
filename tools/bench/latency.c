/*
 * The longest calls. Most requests are short; these are the ones that have to
 * look for memory, give some back or fail. Their cost must depend on what they
 * ask for, and not on the number of live blocks or of unused spans.
 */
#include "tools/bench/latency.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weir/weir.h>

enum {
	LIVE = 20000, /* small live blocks */
	LIVE_SIZE = 4 << 10,
	SPANS = 2000, /* unused spans between live blocks of their size */
	SPAN = 4 << 20,
	LARGE = 64 << 20,
	/* Decay looks at the clock once in so many requests. */
	REQUESTS = 64,
	DECAY_MS = 200
};

static struct {
	weir_stream stream;
	void *live[LIVE];
	void *spans[2 * SPANS];
	void *result;
	size_t keep;
	struct weir_stats before;
	struct weir_stats stats;
} state;

static bool
read_stats(struct weir_stats *out)
{
	out->struct_size = sizeof(*out);
	return weir_stats(0, out) == WEIR_OK;
}

static void
nap(unsigned ms)
{
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000,
		      .tv_nsec = (long)(ms % 1000) * 1000000 },
	    NULL);
}

static bool
make_live(void)
{
	bool good = true;

	for (size_t i = 0; i < LIVE; i++) {
		state.live[i] = weir_malloc(LIVE_SIZE, state.stream);
		good = good && state.live[i] != NULL;
	}
	return good;
}

/* Make the live blocks, and unused spans between live ones. */
static bool
make_spans(void)
{
	bool good = make_live();

	for (size_t i = 0; i < 2 * (size_t)SPANS; i++) {
		state.spans[i] = weir_malloc(SPAN, state.stream);
		good = good && state.spans[i] != NULL;
	}
	for (size_t i = 0; i < 2 * (size_t)SPANS; i += 2)
		weir_free(state.spans[i]);
	return good && weir_stream_synchronize(state.stream) == WEIR_OK &&
	    read_stats(&state.before);
}

static size_t
unused_bytes(void)
{
	return state.before.reserved_bytes.all.current -
	    state.before.allocated_bytes.all.current;
}

static bool
has_result(void)
{
	return state.result != NULL;
}

static bool
has_no_result(void)
{
	return state.result == NULL && weir_last_status() == WEIR_ENOMEM;
}

static uint64_t
unmapped(void)
{
	read_stats(&state.stats);
	return state.stats.num_unmap_calls - state.before.num_unmap_calls;
}

/* ---- Malloc and free ----------------------------------------------------- */

static void
run_malloc(unsigned long n)
{
	(void)n;
	state.result = weir_malloc(SPAN, state.stream);
}

static void
run_free(unsigned long n)
{
	(void)n;
	weir_free(state.spans[SPANS + 1]);
	state.result = state.spans[SPANS + 1];
}

/* ---- New memory, where many pieces have left holes ----------------------- */

static bool
prepare_holes(void)
{
	return make_spans() && weir_trim(0, 0, NULL) == WEIR_OK;
}

static void
run_grow(unsigned long n)
{
	(void)n;
	state.result = weir_malloc(SPAN + SPAN / 2, state.stream);
}

/* ---- Memory moved together, at the limit --------------------------------- */

static bool
prepare_limit(void)
{
	return make_spans() &&
	    weir_limit_set(0, state.before.reserved_bytes.all.current) ==
	    WEIR_OK;
}

static void
run_large(unsigned long n)
{
	(void)n;
	state.result = weir_malloc(LARGE, state.stream);
}

/* ---- Requests that fail -------------------------------------------------- */

/* More than there is beside the live blocks. */
static void
run_too_large(unsigned long n)
{
	(void)n;
	state.result = weir_malloc(unused_bytes() + SPAN, state.stream);
}

/* As much is unused, but in pieces that a live block holds. */
static bool
prepare_pieces(void)
{
	bool good = make_live();

	for (size_t i = 0; i < LIVE; i += 2)
		weir_free(state.live[i]);
	return good && weir_stream_synchronize(state.stream) == WEIR_OK &&
	    read_stats(&state.before) &&
	    weir_limit_set(0, state.before.reserved_bytes.all.current) ==
	    WEIR_OK;
}

static void
run_in_pieces(unsigned long n)
{
	(void)n;
	state.result = weir_malloc(unused_bytes() / 2, state.stream);
}

/* ---- Giving back --------------------------------------------------------- */

static void
run_requests(unsigned long n)
{
	(void)n;
	for (unsigned i = 0; i < REQUESTS; i++)
		weir_free(weir_malloc(LIVE_SIZE, state.stream));
}

static bool
prepare_decay(void)
{
	bool good = make_spans();

	nap(DECAY_MS / 2);
	run_requests(1); /* notes the time */
	nap(2 * DECAY_MS);
	return good && read_stats(&state.before);
}

static bool
has_decayed(void)
{
	uint64_t spans = unmapped();

	return spans > 0 && spans < SPANS;
}

static bool
prepare_trim(void)
{
	bool good = make_spans();

	state.keep = unused_bytes() - SPAN;
	return good;
}

static void
run_trim(unsigned long n)
{
	(void)n;
	weir_trim(0, state.keep, NULL);
}

static bool
has_trimmed_one(void)
{
	return unmapped() == 1;
}

static bool
has_trimmed_all(void)
{
	return unmapped() >= SPANS;
}

/* ---- Statistics ---------------------------------------------------------- */

static void
run_stats(unsigned long n)
{
	(void)n;
	state.result = read_stats(&state.stats) ? &state : NULL;
}

static const char plain[] = "tcache:0,decay_ms:off";

static const struct latency kinds[] = {
	{ "latency-malloc", plain, make_spans, run_malloc, has_result },
	{ "latency-free", plain, make_spans, run_free, has_result },
	{ "latency-grow", plain, prepare_holes, run_grow, has_result },
	/* 64 MiB out of 16 spans. */
	{ "latency-move", plain, prepare_limit, run_large, has_result },
	{ "latency-fail", plain, prepare_limit, run_too_large, has_no_result },
	{ "latency-fail-pieces", plain, prepare_pieces, run_in_pieces,
	    has_no_result },
	/* With 64 other requests. */
	{ "latency-decay", "tcache:0,decay_ms:200", prepare_decay, run_requests,
	    has_decayed },
	{ "latency-trim", plain, prepare_trim, run_trim, has_trimmed_one },
	/* All 2,000 spans. */
	{ "latency-trim-all", plain, make_spans, run_trim, has_trimmed_all },
	{ "latency-stats", plain, make_spans, run_stats, has_result },
};

const struct latency *
latency_find(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

bool
latency_begin(const struct latency *kind, weir_stream stream)
{
	state.stream = stream;
	return kind->prepare();
}

uint64_t
latency_driver_calls(uint64_t (*calls)(const char *entry))
{
	static const char *const names[] = { "cuMemCreate", "cuMemMap",
		"cuMemUnmap", "cuMemRelease", "cuMemSetAccess",
		"cuMemAddressReserve", "cuMemAddressFree", "cuMemAlloc",
		"cuMemFree", "cuMemGetInfo", "cuEventCreate", "cuEventRecord",
		"cuEventQuery", "cuEventSynchronize", "cuStreamQuery",
		"cuStreamWaitEvent", "cuStreamSynchronize",
		"cuStreamIsCapturing" };
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		sum += calls(names[i]);
	return sum;
}
