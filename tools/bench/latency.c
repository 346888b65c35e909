/*
 * The longest calls. Most requests are short; these are the ones that have to
 * look for memory, give some back or fail. Their cost must depend on what they
 * ask for, and not on the number of live blocks or of unused spans.
 */
#include "tools/bench/latency.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weir/stream.h>
#include <weir/weir.h>

#include "simcuda/simcuda.h"

enum {
	LIVE = 20000, /* small live blocks */
	LIVE_SIZE = 4 << 10,
	SPANS = 2000, /* unused spans between live blocks of their size */
	SPAN = 4 << 20,
	LARGE = 64 << 20,
	/* Decay looks at the clock once in so many requests. */
	REQUESTS = 64,
	DECAY_MS = 200,
	STREAMS = 16,
	MANY = 10000 /* streams */
};

static struct {
	weir_stream stream;
	weir_stream streams[MANY]; /* the first is `stream` */
	size_t live_count;
	size_t span_count;
	void **live;
	void **spans; /* twice as many */
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

/* Allocate blocks of one size, on one stream after the other. */
static bool
make_blocks(void **blocks, size_t count, size_t size, unsigned streams)
{
	bool good = blocks != NULL;

	for (size_t i = 0; i < count && good; i++) {
		blocks[i] = weir_malloc(size, state.streams[i % streams]);
		good = blocks[i] != NULL;
	}
	return good;
}

/* Free every second block, so that they stay apart. */
static void
free_half(void *const *blocks, size_t count, unsigned streams)
{
	for (size_t i = 0; i < count; i++)
		if (i / streams % 2 == 0)
			weir_free(blocks[i]);
}

static bool
is_prepared(unsigned streams)
{
	bool good = true;

	for (unsigned i = 0; i < streams; i++)
		good = good &&
		    weir_stream_synchronize(state.streams[i]) == WEIR_OK;
	return good && read_stats(&state.before);
}

static bool
make_live(unsigned streams)
{
	return make_blocks(state.live, state.live_count, LIVE_SIZE, streams);
}

static bool
make_spans_of(unsigned streams)
{
	bool good =
	    make_blocks(state.spans, 2 * state.span_count, SPAN, streams);

	free_half(state.spans, good ? 2 * state.span_count : 0, streams);
	return good;
}

/* Make the live blocks, and unused spans between live ones. */
static bool
make_spans(void)
{
	return make_live(1) && make_spans_of(1) && is_prepared(1);
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
	weir_free(state.spans[state.span_count + 1]);
	state.result = state.spans[state.span_count + 1];
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

static bool limit_to_held(void);

static bool
prepare_limit(void)
{
	return make_spans() && limit_to_held();
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
limit_to_held(void)
{
	return weir_limit_set(0, state.before.reserved_bytes.all.current) ==
	    WEIR_OK;
}

static bool
make_pieces(unsigned streams)
{
	bool good = make_live(streams);

	free_half(state.live, good ? state.live_count : 0, streams);
	return good && is_prepared(streams);
}

static bool
prepare_pieces(void)
{
	return make_pieces(1) && limit_to_held();
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

	return spans > 0 && spans < state.span_count;
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
	return unmapped() >= state.span_count;
}

/* ---- Several streams ----------------------------------------------------- */

/* Keep a stream busy for longer than the measurement lasts. */
static bool
keep_busy(weir_stream stream, void *block)
{
	enum { SECONDS = 1000 };
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	CUresult (*delay)(CUstream, uint64_t);
	CUresult (*fill)(CUdeviceptr, unsigned char, size_t, CUstream);
	void *found[2] = { NULL, NULL };

	if (library != NULL) {
		found[0] = dlsym(library, "simcuda_delay_next");
		found[1] = dlsym(library, "cuMemsetD8Async");
	}
	if (found[0] == NULL || found[1] == NULL)
		return false;
	memcpy(&delay, &found[0], sizeof(found[0]));
	memcpy(&fill, &found[1], sizeof(found[1]));
	return delay(stream, (uint64_t)SECONDS * 1000000000) == CUDA_SUCCESS &&
	    fill((CUdeviceptr)(uintptr_t)block, 0, 1, stream) == CUDA_SUCCESS;
}

/* All unused memory is of one stream, which has been idle since. */
static bool
prepare_second(void)
{
	return make_pieces(1);
}

static void
run_small(unsigned long n)
{
	(void)n;
	state.result = weir_malloc(LIVE_SIZE, state.streams[STREAMS - 1]);
}

/* The second stream has made its first request. */
static bool
prepare_next(void)
{
	return make_pieces(1) &&
	    weir_malloc(LIVE_SIZE, state.streams[1]) != NULL;
}

/* The streams are busy with work before the frees. */
static bool
prepare_busy(void)
{
	bool good = make_live(STREAMS) &&
	    make_blocks(state.spans, 2 * state.span_count, SPAN, STREAMS);

	for (unsigned i = 0; i + 1 < STREAMS && good; i++)
		good = keep_busy(state.streams[i], state.spans[i]);
	if (!good)
		return false;
	free_half(state.live, state.live_count, STREAMS);
	free_half(state.spans, 2 * state.span_count, STREAMS);
	return read_stats(&state.before);
}

static void
run_beside(unsigned long n)
{
	(void)n;
	state.result = weir_malloc(LARGE, state.streams[STREAMS - 1]);
}

/* The spans of sixteen idle streams, at the limit. */
static bool
prepare_crowd(void)
{
	return make_live(STREAMS) && make_spans_of(STREAMS) &&
	    is_prepared(STREAMS) && limit_to_held();
}

/* As much is unused there, but in pieces. */
static bool
prepare_crowd_pieces(void)
{
	return make_pieces(STREAMS) && limit_to_held();
}

/* ---- Many streams, and the end of one ------------------------------------ */

/* Every stream has freed memory, and some has live blocks. */
static bool
prepare_many(void)
{
	for (unsigned i = STREAMS; i < MANY; i++)
		if (weir_stream_create(0, 0, &state.streams[i]) != WEIR_OK)
			return false;
	return make_live(MANY) && make_spans_of(MANY) && is_prepared(MANY);
}

static bool
prepare_many_limit(void)
{
	return prepare_many() && limit_to_held();
}

static void
run_end(unsigned long n)
{
	(void)n;
	state.result =
	    weir_stream_retire(state.stream) == WEIR_OK ? &state : NULL;
}

/* The stream has freed half of its blocks, and other streams have blocks. */
static bool
prepare_end(void)
{
	return make_spans_of(1) &&
	    weir_malloc(LIVE_SIZE, state.streams[1]) != NULL && make_pieces(1);
}

/* The stream has ended, and no request has noticed it yet. */
static bool
prepare_ended(void)
{
	return prepare_end() && weir_stream_retire(state.stream) == WEIR_OK;
}

/* Its work goes on, and a stream that may wait makes a request. */
static bool
prepare_ended_busy(void)
{
	bool good = make_live(1) &&
	    keep_busy(state.stream, state.live[state.live_count - 1]);

	free_half(state.live, good ? state.live_count : 0, 1);
	return good && weir_stream_retire(state.stream) == WEIR_OK &&
	    read_stats(&state.before) && limit_to_held();
}

/* ---- Statistics ---------------------------------------------------------- */

static void
run_stats(unsigned long n)
{
	(void)n;
	state.result = read_stats(&state.stats) ? &state : NULL;
}

static void
run_info(unsigned long n)
{
	struct weir_block_info info = { .struct_size = sizeof(info) };

	(void)n;
	state.result = weir_block_info(
			   state.live[state.live_count / 2], &info) == WEIR_OK ?
	    info.segment :
	    NULL;
}

static const char plain[] = "tcache:0,decay_ms:off";
static const char cached[] = "decay_ms:off";

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
	{ "latency-info", plain, make_spans, run_info, has_result },
	/* The first and second request of a second stream. */
	{ "latency-second", plain, prepare_second, run_small, has_result },
	{ "latency-next", plain, prepare_next, run_small, has_result },
	/* Beside 15 busy streams with freed memory. */
	{ "latency-busy-small", plain, prepare_busy, run_small, has_result },
	{ "latency-busy", plain, prepare_busy, run_beside, has_result },
	/* With 16 idle streams. */
	{ "latency-crowd", plain, prepare_crowd, run_large, has_result },
	{ "latency-crowd-fail", plain, prepare_crowd, run_too_large,
	    has_no_result },
	{ "latency-crowd-pieces", plain, prepare_crowd_pieces, run_in_pieces,
	    has_no_result },
	/* With 10,000 streams. */
	{ "latency-many-stats", cached, prepare_many, run_stats, has_result },
	{ "latency-many-end", cached, prepare_many, run_end, has_result },
	{ "latency-many-fail", plain, prepare_many_limit, run_too_large,
	    has_no_result },
	/* The end of a stream; the next request, once its work is done; one
	 * that uses its memory behind its end. */
	{ "latency-end", plain, prepare_end, run_end, has_result },
	{ "latency-end-cached", cached, prepare_end, run_end, has_result },
	{ "latency-ended", plain, prepare_ended, run_small, has_result },
	{ "latency-ended-busy", "tcache:0,decay_ms:off,prefer:memory",
	    prepare_ended_busy, run_small, has_result },
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
latency_begin(const struct latency *kind, unsigned long times)
{
	state.live_count = times * LIVE;
	state.span_count = times * SPANS;
	state.live = calloc(state.live_count, sizeof(*state.live));
	state.spans = calloc(2 * state.span_count, sizeof(*state.spans));
	for (unsigned i = 0; i < STREAMS; i++)
		if (weir_stream_create(0, 0, &state.streams[i]) != WEIR_OK)
			return false;
	state.stream = state.streams[0];
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
