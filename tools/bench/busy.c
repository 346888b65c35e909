/*
 * Five busy streams that hand blocks to each other. The benchmark measures the
 * time of all work, which waits on the device delay, and the memory that is
 * held.
 *
 * A step frees a random live block, allocates a block for one of the streams
 * and launches a kernel there. In three of ten steps, another stream waits for
 * that kernel and uses the block with a kernel of its own. The host runs at
 * most a few hundred steps ahead of the device, as the queue of a driver
 * allows.
 */
#include <stdlib.h>

#include <weir/stream.h>

#include "tools/bench/bench.h"
#include "tools/bench/gpu.h"

enum {
	STREAMS = 5,
	LIVE = 30,
	HANDED_PERCENT = 30,
	SIZE_LOG_LEAST = 16, /* 64 KiB to 64 MiB, all powers equally likely */
	SIZE_LOG_MOST = 26,
	AHEAD = 256, /* steps */
	FENCES = 8,  /* events within AHEAD steps */
	STEPS = 20000,
	STEPS_QUICK = 400,
};

static const uint64_t kernel_ns[] = { 10000, 20000, 40000, 80000, 200000 };

struct live_block {
	void *block;
	weir_stream stream;
	size_t size;
};

struct busy {
	const struct peer *peer;
	struct dice dice;
	struct live_block live[LIVE];
	struct weir_event *fences[FENCES];
	size_t live_bytes;
	size_t most_live;
	uint64_t most_held;
};

static weir_stream
any_stream(struct busy *busy)
{
	return gpu.streams[dice_roll(&busy->dice) % STREAMS];
}

static uint64_t
any_kernel(struct busy *busy)
{
	return kernel_ns[dice_roll(&busy->dice) %
	    (sizeof(kernel_ns) / sizeof(kernel_ns[0]))];
}

static size_t
any_size(struct busy *busy)
{
	unsigned power = SIZE_LOG_LEAST +
	    (unsigned)(dice_roll(&busy->dice) %
		(SIZE_LOG_MOST - SIZE_LOG_LEAST));
	size_t least = (size_t)1 << power;

	return least + dice_roll(&busy->dice) % least;
}

static void
free_live_block(struct busy *busy, struct live_block *one)
{
	if (one->block != NULL)
		busy->peer->free(one->block, one->stream);
	busy->live_bytes -= one->size;
	*one = (struct live_block){ .block = NULL };
}

/* Let another stream wait for the block's stream, and use the block. */
static bool
use_on_other_stream(struct busy *busy, const struct live_block *one)
{
	weir_stream user = any_stream(busy);

	return user == one->stream ||
	    (weir_stream_wait_stream(user, one->stream) == WEIR_OK &&
		gpu_sleep(user, any_kernel(busy)) &&
		busy->peer->record(one->block, one->stream, user));
}

static bool
busy_step(struct busy *busy)
{
	struct live_block *one = &busy->live[dice_roll(&busy->dice) % LIVE];

	free_live_block(busy, one);
	one->stream = any_stream(busy);
	size_t size = any_size(busy);
	one->block = busy->peer->malloc(size, one->stream);
	if (one->block == NULL)
		return false;
	one->size = size;
	busy->live_bytes += size;
	if (busy->live_bytes > busy->most_live)
		busy->most_live = busy->live_bytes;
	return gpu_sleep(one->stream, any_kernel(busy)) &&
	    (dice_roll(&busy->dice) % 100 >= HANDED_PERCENT ||
		use_on_other_stream(busy, one));
}

/* Wait until the host is at most AHEAD steps ahead of a stream. Each call
 * chooses another stream. */
static bool
limit_lead(struct busy *busy, uint64_t i)
{
	struct weir_event **fence =
	    &busy->fences[i / (AHEAD / FENCES) % FENCES];

	if (i % (AHEAD / FENCES) != 0)
		return true;
	if (*fence == NULL) {
		if (weir_event_create(0, fence) != WEIR_OK)
			return false;
	} else if (weir_event_synchronize(*fence) != WEIR_OK) {
		return false;
	}
	return weir_event_record(*fence, any_stream(busy)) == WEIR_OK;
}

/* The time of all steps; or, for a case that `holds`, the peak of held bytes
 * over the peak of live bytes. */
static double
run_busy(const struct sample *sample)
{
	struct busy busy = { .peer = sample->peer, .dice = { 1 } };
	bool holds = sample->about->holds;
	uint64_t start = gpu_now_ns();
	bool done = true;

	for (uint64_t i = 0; done && i < sample->about->count; i++) {
		done = limit_lead(&busy, i) && busy_step(&busy);
		uint64_t held = holds ? busy.peer->held() : 0;
		if (held > busy.most_held)
			busy.most_held = held;
	}
	done = gpu_wait() && done;
	double seconds = (double)(gpu_now_ns() - start) / 1e9;
	for (unsigned i = 0; i < LIVE; i++)
		free_live_block(&busy, &busy.live[i]);
	for (unsigned i = 0; i < FENCES; i++)
		if (busy.fences[i] != NULL)
			weir_event_destroy(busy.fences[i]);
	if (!done)
		return -1;
	return holds ? (double)busy.most_held / (double)busy.most_live :
		       seconds;
}

bool
bench_busy(struct session *session)
{
	struct bench_case about = {
		.name = "time",
		.run = run_busy,
		.kinds = PEER_DEVICE | PEER_PREFERS,
		.records = true,
		.cold = true,
		.rounds = 1,
		.ops = 1,
		.unit = UNIT_MS,
		.count = session->quick ? STEPS_QUICK : STEPS,
	};

	if (!measure(session, &about))
		return false;
	about.name = "held for live";
	about.holds = true;
	about.few = true;
	about.unit = UNIT_PERCENT;
	return measure(session, &about);
}
