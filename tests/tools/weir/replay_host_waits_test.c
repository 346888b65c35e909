/*
 * A program whose host waits at each step: training whose parameters are
 * gathered by a second stream while the layer before is computed, and whose
 * gradients are reduced on a third. The host runs ahead, and waits for the
 * first stream at the end of the step.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tools/weir/tool.h"

#define HEADER "action,addr,size,stream,time_us\n"

enum { LAYERS = 16, COMPUTE = 0, GATHER = 1, REDUCE = 2 };

/* Sizes in MiB. */
enum { PARAMETERS = 48, SHARD = 12, STATE = 24 };

struct training {
	FILE *file;
	uint64_t random;
	uint64_t time_us;
	uint64_t next; /* address */
	uint64_t kept[LAYERS];
	uint64_t kept_mib;
};

static uint64_t
between(struct training *t, uint64_t least, uint64_t most)
{
	return least + random_next(&t->random) % (most - least + 1);
}

static void
row(struct training *t, char action, uint64_t addr, uint64_t size,
    unsigned stream)
{
	fprintf(t->file, "%c,%" PRIx64 ",%" PRIu64 ",%u,%" PRIu64 "\n", action,
	    addr, size, stream, t->time_us);
}

static uint64_t
block(struct training *t, uint64_t mib, unsigned stream)
{
	uint64_t addr = t->next;

	t->next += mib << 20;
	row(t, 'a', addr, mib << 20, stream);
	return addr;
}

static void
block_free(struct training *t, uint64_t addr, uint64_t mib, unsigned stream)
{
	row(t, 'f', addr, mib << 20, stream);
}

static void
work(struct training *t, unsigned stream, uint64_t least, uint64_t most)
{
	row(t, 'k', 0, between(t, least, most), stream);
}

static uint64_t
gather(struct training *t)
{
	uint64_t addr = block(t, PARAMETERS, GATHER);

	work(t, GATHER, 250, 600);
	t->time_us += between(t, 15, 50);
	return addr;
}

static void
use_gathered(struct training *t, uint64_t addr)
{
	row(t, 'w', 0, GATHER, COMPUTE);
	row(t, 'r', addr, (uint64_t)PARAMETERS << 20, COMPUTE);
}

static void
reduce(struct training *t, uint64_t gradients)
{
	row(t, 'w', 0, COMPUTE, REDUCE);
	uint64_t part = block(t, SHARD, REDUCE);

	work(t, REDUCE, 250, 600);
	row(t, 'r', gradients, (uint64_t)PARAMETERS << 20, REDUCE);
	block_free(t, gradients, PARAMETERS, COMPUTE);
	t->time_us += between(t, 15, 50);
	block_free(t, part, SHARD, REDUCE);
}

static void
compute_forward(struct training *t, int layer)
{
	t->kept[layer] = block(t, t->kept_mib, COMPUTE);
	work(t, COMPUTE, 200, 500);
	uint64_t scratch = block(t, 3 * t->kept_mib, COMPUTE);

	work(t, COMPUTE, 100, 300);
	block_free(t, scratch, 3 * t->kept_mib, COMPUTE);
}

static void
forward(struct training *t)
{
	uint64_t now = gather(t);

	for (int i = 0; i < LAYERS; i++) {
		uint64_t next = i + 1 < LAYERS ? gather(t) : 0;

		use_gathered(t, now);
		compute_forward(t, i);
		t->time_us += between(t, 60, 200);
		block_free(t, now, PARAMETERS, GATHER);
		now = next;
	}
}

static void
backward(struct training *t)
{
	uint64_t now = gather(t);

	for (int i = LAYERS - 1; i >= 0; i--) {
		uint64_t next = i > 0 ? gather(t) : 0;

		use_gathered(t, now);
		uint64_t gradients = block(t, PARAMETERS, COMPUTE);

		work(t, COMPUTE, 500, 1000);
		block_free(t, t->kept[i], t->kept_mib, COMPUTE);
		t->time_us += between(t, 60, 200);
		block_free(t, now, PARAMETERS, GATHER);
		now = next;
		reduce(t, gradients);
	}
}

static char *
make_trace(uint64_t seed)
{
	enum { STEPS = 30 };
	char *path = test_file("training.csv", HEADER, sizeof(HEADER) - 1);
	struct training t = {
		.file = fopen(path, "a"), .random = seed, .next = 0x7f0000000000
	};

	EXPECT_NOT_NULL(t.file);
	for (int i = 0; i < LAYERS; i++) {
		block(&t, SHARD, COMPUTE);
		block(&t, STATE, COMPUTE);
	}
	for (int step = 0; step < STEPS; step++) {
		t.kept_mib = between(&t, 0, 2) == 0 ? 24 : 12;
		forward(&t);
		backward(&t);
		row(&t, 'w', 0, REDUCE, COMPUTE);
		row(&t, 'k', 0, 800, COMPUTE);
		row(&t, 'h', 0, 0, COMPUTE);
	}
	EXPECT_EQ(fclose(t.file), 0);
	return path;
}

static uint64_t
number(const json_t *json, const char *key)
{
	const json_t *value = json_object_get(json, key);

	if (!json_is_integer(value))
		FAIL("no number '%s'", key);
	return (uint64_t)json_integer_value(value);
}

static json_t *
replayed(const char *path, const char *conf)
{
	struct command_result result = command_weir("replay", "--json",
	    "--unreported", "--sim", "--conf", conf, path, NULL);

	EXPECT_EQ(result.status, 0);
	json_t *json = json_loads(result.out, 0, NULL);

	EXPECT_NOT_NULL(json);
	command_free(&result);
	return json;
}

/* The time that the host loses at the end of a step counts (streams/delay.h,
 * Note [Lost time]). The waits of a step are made before any of them is
 * measured, so that half a second has a little more than 1 % of delay. */
TEST(a_program_whose_host_waits_at_each_step_is_delayed_little)
{
	for (uint64_t seed = 1; seed <= 4; seed++) {
		char *path = make_trace(seed);
		json_t *speed = replayed(path, "prefer:speed");
		json_t *json = replayed(path, "prefer:balance");
		uint64_t least = number(speed, "duration_us");

		EXPECT_GT(number(json, "gpu_waits"), 0);
		EXPECT_LT(number(json, "duration_us"), least + least / 40);
		EXPECT_LE(number(json, "peak_held_bytes"),
		    number(speed, "peak_held_bytes") / 5 * 4);
		json_decref(json);
		json_decref(speed);
		free(path);
	}
}
