/*
 * A program that works on several videos. Each frame passes four streams:
 *
 *	stream 0	decodes; a frame stays as long as later ones refer to it
 *	stream 1	scales the frame for the model
 *	stream 2	finds things in a few frames at once
 *	stream 3	draws what was found, and encodes
 *
 * The videos differ in size, and take turns of some seconds.
 */
#include <stdlib.h>

#include "tools/weir/replay/workload.h"

enum {
	VIDEOS = 3,
	STAGES = 4,
	REFERRED = 6, /* frames of a video */
	FRAMES = 24,  /* in a turn */
	SIDE = 640,   /* of the model's input */
	FEATURES = 6,
	BATCH = 4,
	PIXELS_PER_US = 4000,
};

enum stage { DECODES, SCALES, FINDS, ENCODES };

struct video {
	struct work_agent agent;
	struct work_host *host; /* the agent's */
	struct work_stream stages[STAGES];
	uint64_t pixels[VIDEOS];
	struct work_block referred[VIDEOS][REFERRED]; /* size 0: none */
	unsigned next[VIDEOS];
};

static struct work_block
run_stage(struct video *v, enum stage stage, uint64_t size, uint64_t us)
{
	struct work_block block = work_alloc(v->host, &v->stages[stage], size);

	work_launch(v->host, &v->stages[stage], us);
	return block;
}

/* The stream of a stage uses a block of an earlier one. */
static void
pass_on(struct video *v, enum stage to, enum stage from)
{
	work_wait(v->host, &v->stages[to], &v->stages[from]);
}

/* Decode a frame into the place of the oldest one of its video. */
static struct work_block *
decode(struct video *v, unsigned i)
{
	struct work_block *frame = &v->referred[i][v->next[i]];
	struct work_block stream;

	v->next[i] = (v->next[i] + 1) % REFERRED;
	if (frame->size > 0)
		work_free(v->host, frame);
	stream = run_stage(
	    v, DECODES, v->pixels[i] / work_random(v->host, 8, 40), 10);
	*frame = run_stage(
	    v, DECODES, v->pixels[i] * 3 / 2, v->pixels[i] / PIXELS_PER_US);
	work_free(v->host, &stream);
	return frame;
}

static struct work_block
scale(struct video *v, struct work_block *frame, uint64_t pixels)
{
	struct work_block colors;
	struct work_block input;

	pass_on(v, SCALES, DECODES);
	colors = run_stage(v, SCALES, pixels * 6, pixels / PIXELS_PER_US / 2);
	work_use(frame, &v->stages[SCALES]);
	input = run_stage(v, SCALES, UINT64_C(6) * SIDE * SIDE, 60);
	work_free(v->host, &colors);
	return input;
}

static struct work_block
find_things(struct video *v, struct work_block inputs[BATCH], unsigned n)
{
	struct work_block features[FEATURES];
	struct work_block found;

	pass_on(v, FINDS, SCALES);
	for (int i = 0; i < FEATURES; i++)
		features[i] =
		    run_stage(v, FINDS, (uint64_t)n * SIDE * SIDE * 32 >> i,
			150 + UINT64_C(100) * n);
	found =
	    run_stage(v, FINDS, n * work_random(v->host, 10, 300) * 2048, 100);
	for (int i = 0; i < FEATURES; i++)
		work_free(v->host, &features[i]);
	for (unsigned i = 0; i < n; i++) {
		work_use(&inputs[i], &v->stages[FINDS]);
		work_free(v->host, &inputs[i]);
	}
	return found;
}

static void
encode(struct video *v, struct work_block *frame, uint64_t pixels)
{
	struct work_block drawn =
	    run_stage(v, ENCODES, pixels * 3, pixels / PIXELS_PER_US / 2);
	struct work_block packed = run_stage(v, ENCODES, pixels / 4, 300);

	work_use(frame, &v->stages[ENCODES]);
	work_free(v->host, &drawn);
	work_free(v->host, &packed);
}

static void
watch_turn(struct work_agent *agent)
{
	struct video *v = (struct video *)agent;
	unsigned i = (unsigned)work_random(v->host, 0, VIDEOS - 1);

	for (unsigned done = 0; done < FRAMES;) {
		unsigned n = (unsigned)work_random(v->host, 1, BATCH);
		struct work_block *frames[BATCH];
		struct work_block inputs[BATCH];
		struct work_block found;

		for (unsigned k = 0; k < n; k++) {
			frames[k] = decode(v, i);
			inputs[k] = scale(v, frames[k], v->pixels[i]);
		}
		found = find_things(v, inputs, n);
		pass_on(v, ENCODES, FINDS);
		for (unsigned k = 0; k < n; k++)
			encode(v, frames[k], v->pixels[i]);
		work_use(&found, &v->stages[ENCODES]);
		work_free(v->host, &found);
		done += n;
	}
}

struct work_agent *
work_video(struct workload *workload, unsigned first_stream)
{
	static const uint64_t sizes[] = { UINT64_C(1280) * 720,
		UINT64_C(1920) * 1080, UINT64_C(2560) * 1440,
		UINT64_C(3840) * 2160, UINT64_C(7680) * 4320 };
	struct video *v = calloc(1, sizeof(*v));

	if (v == NULL)
		return NULL;
	v->agent.act = watch_turn;
	v->agent.host.workload = workload;
	v->host = &v->agent.host;
	for (unsigned i = 0; i < STAGES; i++)
		v->stages[i].number = first_stream + i;
	for (int i = 0; i < VIDEOS; i++)
		v->pixels[i] = sizes[work_random(v->host, 0, 4)];
	for (int i = 0; i < 2 * FEATURES; i++)
		work_alloc(v->host, &v->stages[FINDS], 8 * MIB);
	return &v->agent;
}
