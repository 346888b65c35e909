/*
 * Random allocations, as in the benchmark of RAPIDS' memory manager. Sizes are
 * uniform up to a maximum, three of four steps allocate, the live bytes have a
 * limit, and a free chooses a random live block.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tools/bench/bench.h"
#include "tools/bench/gpu.h"

enum { ALLOCATE_PERCENT = 73, CAP_MIB = 16000 };

/* Allocate a block for a slot; or, if `size` is 0, free the slot's block. */
struct step {
	uint32_t slot;
	size_t size;
};

/* All steps of a run, which are made before it. */
struct script {
	struct step *steps;
	size_t count;
	size_t slots; /* the number of slots */
};

struct live {
	uint32_t slot;
	size_t size;
};

/* The state of making a script: the live blocks and the free slots. */
struct maker {
	struct script *script;
	struct live *live;
	uint32_t *free_slots;
	size_t live_count;
	size_t free_count;
	size_t live_bytes;
};

static void
add_malloc(struct maker *maker, size_t size)
{
	struct script *script = maker->script;
	uint32_t slot = maker->free_count > 0 ?
	    maker->free_slots[--maker->free_count] :
	    (uint32_t)script->slots++;

	script->steps[script->count++] = (struct step){ slot, size };
	maker->live[maker->live_count++] = (struct live){ slot, size };
	maker->live_bytes += size;
}

static void
add_free(struct maker *maker, size_t which)
{
	struct script *script = maker->script;
	struct live gone = maker->live[which];

	script->steps[script->count++] = (struct step){ gone.slot, 0 };
	maker->live[which] = maker->live[--maker->live_count];
	maker->free_slots[maker->free_count++] = gone.slot;
	maker->live_bytes -= gone.size;
}

static void
fill_script(struct maker *maker, size_t allocations, size_t max_size)
{
	struct dice dice = { 1 };
	size_t done = 0;

	while (done < allocations) {
		size_t size = 1 + dice_roll(&dice) % max_size;
		bool wanted = dice_roll(&dice) % 100 < ALLOCATE_PERCENT;

		if (maker->live_count == 0 ||
		    (wanted &&
			maker->live_bytes + size <= (size_t)CAP_MIB << 20)) {
			add_malloc(maker, size);
			done++;
		} else {
			add_free(maker, dice_roll(&dice) % maker->live_count);
		}
	}
	while (maker->live_count > 0)
		add_free(maker, maker->live_count - 1);
}

static bool
make_script(struct script *script, size_t allocations, size_t max_size)
{
	struct maker maker = { .script = script };

	*script = (struct script){ 0 };
	script->steps = calloc(2 * allocations, sizeof(*script->steps));
	maker.live = calloc(allocations, sizeof(*maker.live));
	maker.free_slots = calloc(allocations, sizeof(*maker.free_slots));
	if (script->steps != NULL && maker.live != NULL &&
	    maker.free_slots != NULL)
		fill_script(&maker, allocations, max_size);
	free(maker.live);
	free(maker.free_slots);
	return script->count > 0;
}

/* Play the script once. False if the peer fails; the live blocks stay then. */
static bool
play_script(const struct script *script, const struct peer *peer, void **blocks)
{
	weir_stream stream = gpu.streams[0];

	for (size_t i = 0; i < script->count; i++) {
		const struct step *step = &script->steps[i];
		void **block = &blocks[step->slot];

		if (step->size == 0) {
			peer->free(*block, stream);
			*block = NULL;
			continue;
		}
		*block = peer->malloc(step->size, stream);
		if (*block == NULL)
			return false;
	}
	return true;
}

/* Play the script `n` times. */
static double
run_script(const struct sample *sample)
{
	const struct script *script = sample->about->data;
	const struct peer *peer = sample->peer;
	void **blocks = calloc(script->slots, sizeof(*blocks));
	double seconds = -1;
	uint64_t start = now_ns();
	uint64_t done = 0;

	if (blocks == NULL)
		return -1;
	while (done < sample->n && play_script(script, peer, blocks))
		done++;
	if (done == sample->n)
		seconds = seconds_since(start);
	for (size_t slot = 0; slot < script->slots; slot++)
		if (blocks[slot] != NULL)
			peer->free(blocks[slot], gpu.streams[0]);
	free(blocks);
	return seconds;
}

static bool
measure_random(struct session *session, size_t allocations, size_t max_mib)
{
	struct script script;
	char name[64];
	struct bench_case about = {
		.name = name,
		.run = run_script,
		.kinds = PEER_HERE,
		.not_slow = allocations > 1000,
		.ops = allocations,
		.data = &script,
	};
	bool done = make_script(&script, allocations, max_mib << 20);

	snprintf(
	    name, sizeof(name), "%zuk, %zu MiB", allocations / 1000, max_mib);
	done = done && measure(session, &about);
	free(script.steps);
	return done;
}

bool
bench_random(struct session *session)
{
	static const size_t allocations[] = { 1000, 10000, 100000 };
	static const size_t max_mib[] = { 1, 4, 64, 256, 1024 };

	for (int i = 0; i < (session->quick ? 1 : 3); i++)
		for (int j = 0; j < (session->quick ? 2 : 5); j++)
			if (!measure_random(
				session, allocations[i], max_mib[j]))
				return false;
	return true;
}
