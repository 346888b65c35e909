/*
 * weir fit on programs that are written here at small sizes, and asked at a
 * size four times larger, at which they are written too. Live and held bytes of
 * the forecast are compared with those.
 */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

enum { STEPS = 4, LAYERS = 6, BLOCKS = 4096 };

/* A snapshot that is being written: events of one device, with call sites. */
struct program {
	FILE *out;
	char *text;
	size_t length;
	uint64_t next; /* address */
	uint64_t time_us;
	uint64_t sizes[BLOCKS * 16]; /* by block */
	uint64_t random;
	uint64_t moved; /* by so many lines, in a folder of its own; 0: not */
};

static uint64_t
random_below(struct program *p, uint64_t most)
{
	p->random = p->random * UINT64_C(6364136223846793005) + 1442695041;
	return (p->random >> 33) % most;
}

static void
put_program_event(
    struct program *p, const char *action, uint64_t block, const char *site)
{
	fprintf(p->out,
	    "%s{\"action\":\"%s\",\"addr\":%" PRIu64 ",\"size\":%" PRIu64
	    ",\"stream\":%d,\"time_us\":%" PRIu64 ",\"frames\":[",
	    p->time_us == 0 ? "" : ",\n", action, block << 32, p->sizes[block],
	    strcmp(site, "gather") == 0 ? 5 : 0, p->time_us);
	p->time_us++;
	if (site[0] != '\0')
		fprintf(p->out,
		    "{\"name\":\"%s\",\"filename\":\"train.py\",\"line\":1}",
		    site);
	/* The callers are two lines of one function. */
	if (site[0] != '\0' && p->moved != 0)
		fprintf(p->out,
		    ",{\"name\":\"main\",\"filename\":\"/home/%" PRIu64
		    "/job/run.py\",\"line\":%" PRIu64 "}",
		    p->moved, p->moved + (site[0] == 'O' ? 30 : 10));
	fputs(strncmp(site, "graph", 5) == 0 ? "],\"pool_id\":[0,1]}" : "]}",
	    p->out);
}

/* Allocate at a call site; "" is no stack, "graph..." is of a private pool, and
 * "gather" is of another stream. */
static uint64_t
take(struct program *p, const char *site, uint64_t bytes)
{
	uint64_t block = ++p->next;

	EXPECT_LT(block, BLOCKS * 16);
	p->sizes[block] = bytes;
	put_program_event(p, "alloc", block, site);
	return block;
}

static void
drop(struct program *p, uint64_t block)
{
	put_program_event(p, "free_requested", block, "");
	put_program_event(p, "free_completed", block, "");
}

typedef void write_program(struct program *p, uint64_t n);

/* Write a program of a size to a file. The caller frees its path. */
static char *
recorded(write_program *write, uint64_t n)
{
	struct program *p = calloc(1, sizeof(*p));
	char name[64];
	char *path;

	EXPECT_NOT_NULL(p);
	p->random = 7;
	p->out = open_memstream(&p->text, &p->length);
	fputs("{\"segments\":[],\"device_traces\":[[", p->out);
	write(p, n);
	fputs("]]}\n", p->out);
	fclose(p->out);
	snprintf(name, sizeof(name), "run-%" PRIu64 ".json", n);
	path = test_file(name, p->text, p->length);
	free(p->text);
	free(p);
	return path;
}

/* ---- Programs -------------------------------------------------------- */

/* Forward and backward passes of layers, whose backward pass has no stacks; and
 * an optimiser, whose state comes in the first step. */
static void
train_layers(struct program *p, uint64_t batch, unsigned layers, bool again)
{
	uint64_t weights[64];
	uint64_t kept[64];
	uint64_t grads[64];
	uint64_t inner;
	uint64_t grad;
	uint64_t next;

	for (unsigned i = 0; i < layers; i++)
		weights[i] = take(p, "to", 5 << 20);
	for (unsigned step = 0; step < STEPS; step++) {
		uint64_t words = take(p, "words", 8 * batch * 128);

		for (unsigned i = 0; i < layers; i++) {
			inner = take(p, "wide", batch * 3 << 19);
			kept[i] = take(p, "narrow", batch * 700000);
			drop(p, inner);
		}
		grad = take(p, "", batch * 700000);
		for (unsigned i = layers; i-- > 0;) {
			if (again)
				inner = take(p, "wide", batch * 3 << 19);
			grads[i] = take(p, "", 5 << 20);
			next = take(p, "", batch * 700000);
			drop(p, grad);
			grad = next;
			if (again)
				drop(p, inner);
			drop(p, kept[i]);
		}
		drop(p, grad);
		drop(p, words);
		for (unsigned i = 0; i < layers && step == 0; i++) {
			take(p, "Optimizer.step", 5 << 20);
			take(p, "Optimizer.step", 5 << 20);
		}
		inner = take(p, "Optimizer.foreach", 5 << 20);
		drop(p, inner);
		/* In an order that differs from run to run. */
		for (unsigned i = 0; i < layers; i++)
			drop(p, grads[(i + batch) % layers]);
	}
	for (unsigned i = 0; i < layers; i++)
		drop(p, weights[i]);
}

static void
write_dense(struct program *p, uint64_t batch)
{
	train_layers(p, batch, LAYERS, false);
}

static void
write_checkpointed(struct program *p, uint64_t batch)
{
	train_layers(p, batch, LAYERS, true);
}

static void
write_deep(struct program *p, uint64_t layers)
{
	train_layers(p, 4, (unsigned)layers, false);
}

/* A cache that grows by a word in each round, by copying. */
static void
write_server(struct program *p, uint64_t answer)
{
	enum { ROW = 40960 };
	uint64_t cache[LAYERS];

	for (unsigned i = 0; i < LAYERS; i++)
		take(p, "load", 3 << 20);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < LAYERS; i++)
			cache[i] = take(p, "prompt", 32 * ROW);
		for (uint64_t word = 1; word < answer; word++) {
			uint64_t hidden = take(p, "embed", ROW);

			for (unsigned i = 0; i < LAYERS; i++) {
				uint64_t longer =
				    take(p, "cat", (32 + word) * ROW);

				drop(p, cache[i]);
				cache[i] = longer;
			}
			drop(p, hidden);
		}
		for (unsigned i = 0; i < LAYERS; i++)
			drop(p, cache[i]);
	}
}

/* A frozen base, and adapters whose rank is asked. */
static void
write_adapters(struct program *p, uint64_t rank)
{
	uint64_t kept[LAYERS];

	for (unsigned i = 0; i < LAYERS; i++) {
		take(p, "base", 7 << 20);
		take(p, "adapter", rank * 65536);
	}
	for (unsigned step = 0; step < STEPS; step++) {
		for (unsigned i = 0; i < LAYERS; i++)
			kept[i] = take(p, "forward", 3000000 + rank * 30000);
		for (unsigned i = LAYERS; i-- > 0;) {
			uint64_t grad = take(p, "", rank * 65536);

			drop(p, kept[i]);
			drop(p, grad);
		}
	}
}

/* A round for each picture, with as many boxes as the data has. */
static void
write_pictures(struct program *p, uint64_t batch)
{
	uint64_t crops[64];

	take(p, "load", 30 << 20);
	for (unsigned step = 0; step < STEPS; step++) {
		uint64_t features = take(p, "body", batch * 2500000);
		uint64_t grad;

		for (uint64_t i = 0; i < batch; i++) {
			uint64_t boxes = 20 + random_below(p, 10);
			uint64_t ratio = take(p, "overlap", boxes * 65536);
			uint64_t best = take(p, "best", 147456);

			crops[i] = take(p, "crop", boxes * 100000);
			drop(p, ratio);
			drop(p, best);
		}
		grad = take(p, "", batch * 2500000);
		for (uint64_t i = batch; i-- > 0;) {
			uint64_t part = take(p, "", p->sizes[crops[i]]);
			uint64_t whole = take(p, "", 2500000);

			drop(p, part);
			drop(p, crops[i]);
			drop(p, whole);
		}
		drop(p, grad);
		drop(p, features);
	}
}

/* A round of crops, with a sum of their sizes, beside a body. */
static void
crop_step(struct program *p, uint64_t batch, const uint64_t *sizes)
{
	enum { MOST = 64 };
	uint64_t body = take(p, "body", batch * 2500000);
	uint64_t crops[MOST];
	uint64_t sum = 0;
	uint64_t all;

	EXPECT_LE(batch, MOST);
	for (uint64_t i = 0; i < batch; i++) {
		crops[i] = take(p, "crop", sizes[i]);
		drop(p, take(p, "best", 600000));
		sum += sizes[i];
	}
	all = take(p, "all", sum);
	for (uint64_t i = batch; i-- > 0;)
		drop(p, crops[i]);
	drop(p, all);
	drop(p, body);
}

/* The sizes of eight rounds differ widely. */
static uint64_t
crowd_size(uint64_t kind)
{
	return (5 + 7 * (kind % 8)) * 100000;
}

/* Rounds of eight sizes, in an order that changes with each eight and each
 * step. */
static void
write_crowds(struct program *p, uint64_t batch)
{
	uint64_t sizes[64];

	for (unsigned step = 0; step < STEPS; step++) {
		for (uint64_t i = 0; i < batch; i++)
			sizes[i] = crowd_size(i * 5 + i / 8 * 3 + step);
		crop_step(p, batch, sizes);
	}
}

/* 64 rounds of the same sizes, in an order by chance. */
static void
write_shuffled(struct program *p, uint64_t seed)
{
	uint64_t sizes[64] = { 0 };

	p->random = seed;
	for (unsigned step = 0; step < STEPS; step++) {
		for (uint64_t i = 0; i < 64; i++) {
			uint64_t other = random_below(p, i + 1);

			sizes[i] = sizes[other];
			sizes[other] = crowd_size(i);
		}
		crop_step(p, 64, sizes);
	}
}

static uint64_t chance_seed;

/* Sizes by chance, many of which are the double of another one, and sums by
 * chance, which no two steps have. The last step is a small one. */
static void
write_chance(struct program *p, uint64_t batch)
{
	static const uint64_t doubles[] = { 3, 4, 5, 6, 8, 10, 12, 20 };
	uint64_t sizes[64];

	p->random = chance_seed * 100 + batch;
	for (unsigned step = 0; step < STEPS; step++) {
		uint64_t kinds = step + 1 < STEPS ? 8 : 4;

		for (uint64_t i = 0; i < batch; i++)
			sizes[i] = doubles[random_below(p, kinds)] << 18;
		crop_step(p, batch, sizes);
	}
}

/* Rounds with sizes by chance, most of which are the largest that there is. */
static void
write_capped(struct program *p, uint64_t batch)
{
	uint64_t sizes[64];

	p->random = chance_seed * 100 + batch;
	for (unsigned step = 0; step < STEPS; step++) {
		for (uint64_t i = 0; i < batch; i++) {
			uint64_t boxes = (1 + random_below(p, 40)) *
			    (10 + random_below(p, 20));

			sizes[i] = (boxes < 512 ? boxes : 512) * 2500;
		}
		crop_step(p, batch, sizes);
	}
}

/* What is needed is least in the middle. */
static void
write_valley(struct program *p, uint64_t n)
{
	for (unsigned step = 0; step < STEPS; step++) {
		uint64_t rising = take(p, "rising", n << 24);
		uint64_t falling =
		    take(p, "falling", (UINT64_C(6400) << 20) / n);

		drop(p, rising);
		drop(p, falling);
	}
}

/* A size by chance in each step, which does not depend on the batch. */
static void
write_single(struct program *p, uint64_t batch)
{
	static const uint64_t by_two[STEPS] = { 10, 14, 6, 18 };
	static const uint64_t by_more[STEPS] = { 12, 20, 16, 12 };

	for (unsigned step = 0; step < STEPS; step++) {
		uint64_t body = take(p, "body", batch * 500000);
		uint64_t mib = batch == 2 ? by_two[step] : by_more[step];

		drop(p, take(p, "crop", mib << 20));
		drop(p, body);
	}
}

/* Allocate for so many of the allocations from this one on. */
struct lived {
	uint64_t bytes;
	unsigned lives;
};

static void
take_lived(struct program *p, const struct lived *takes, unsigned count)
{
	uint64_t blocks[16];

	EXPECT_LE(count, 16);
	for (unsigned i = 0; i < count; i++) {
		blocks[i] = take(p, "", takes[i].bytes);
		for (unsigned k = 0; k <= i; k++)
			if (k + takes[k].lives == i + 1)
				drop(p, blocks[k]);
	}
}

/* Pictures whose backward passes have no stacks, and sizes by their boxes. */
static void
write_detector(struct program *p, uint64_t batch)
{
	uint64_t kept[64];
	uint64_t grad;

	for (unsigned step = 0; step < STEPS; step++) {
		uint64_t body = take(p, "body", batch << 20);

		for (uint64_t i = 0; i < batch; i++)
			kept[i] = take(p, "crop", 3 << 20);
		drop(p, take(p, "loss", batch * 512));
		drop(p, take(p, "loss", 512));
		for (uint64_t i = 0; i < batch; i++) {
			uint64_t boxes = 1 + random_below(p, 200);
			const struct lived takes[] = {
				{ 8 << 20, 3 },
				{ 1 << 20, 1 },
				{ boxes * 400, 8 },
				{ boxes * 30000, 2 },
				{ boxes * 200, 5 },
				{ boxes * 200, 4 },
				{ boxes * 200, 3 },
				{ boxes * 200, 2 },
				{ boxes * 7000, 2 },
				{ boxes * 70, 1 },
			};

			take_lived(p, takes, 10);
			drop(p, kept[batch - 1 - i]);
		}
		grad = take(p, "", batch * 2300000);
		for (unsigned i = 0; i < LAYERS; i++) {
			uint64_t next =
			    take(p, "", batch * (2300000 + i % 3 * 900000));

			drop(p, take(p, "", batch * 1100000));
			drop(p, grad);
			grad = next;
		}
		drop(p, grad);
		drop(p, body);
	}
}

/* A backward pass with the sums of biases' gradients over the batch. */
static void
write_sums(struct program *p, uint64_t batch)
{
	uint64_t most = 132 << 20;

	for (unsigned step = 0; step < STEPS; step++) {
		uint64_t act = take(p, "forward", batch << 20);

		for (unsigned i = 0; i < LAYERS; i++) {
			uint64_t grad = take(p, "", batch << 21);
			uint64_t bytes = batch << (20 + i % 3);
			uint64_t parts =
			    take(p, "", bytes < most ? bytes : most);
			uint64_t counters = take(p, "", 64);

			drop(p, counters);
			drop(p, parts);
			drop(p, grad);
		}
		/* This is no reduction. */
		for (unsigned i = 0; i < LAYERS; i++) {
			uint64_t product = take(p, "", batch << 22);
			uint64_t number = take(p, "", 4);

			drop(p, number);
			drop(p, product);
		}
		drop(p, act);
	}
}

/* A captured graph's memory, which is kept, and a step beside it. */
static void
write_graph(struct program *p, uint64_t batch)
{
	uint64_t blocks[LAYERS];

	for (unsigned i = 0; i < LAYERS; i++)
		blocks[i] = take(p, "graph", batch * 900000);
	for (unsigned i = 0; i < LAYERS; i++)
		drop(p, blocks[i]);
	for (unsigned step = 0; step < STEPS; step++) {
		for (unsigned i = 0; i < LAYERS; i++)
			blocks[i] = take(p, "forward", batch * 900000);
		for (unsigned i = 0; i < LAYERS; i++)
			drop(p, blocks[i]);
	}
}

/* Parameters that another stream gathers, and that the first one uses for a
 * while after their free. */
static void
write_gathered(struct program *p, uint64_t batch)
{
	for (unsigned i = 0; i < 40; i++) {
		uint64_t whole = take(p, "gather", batch << 20);
		uint64_t used;

		put_program_event(p, "free_requested", whole, "");
		used = take(p, "forward", batch << 20);
		p->time_us += 10;
		put_program_event(p, "free_completed", whole, "");
		drop(p, used);
		p->time_us += 10;
	}
}

/* ---- Forecasts ------------------------------------------------------- */

struct forecast {
	uint64_t live;
	uint64_t held;       /* by PyTorch's allocator */
	uint64_t expandable; /* with expandable segments */
	json_t *json;
};

static uint64_t
json_number(const json_t *json, const char *key)
{
	const json_t *value = json_object_get(json, key);

	if (!json_is_integer(value))
		FAIL("no number '%s'", key);
	return (uint64_t)json_integer_value(value);
}

static json_t *
parsed_output(struct command_result result)
{
	json_t *json;

	if (result.status != 0)
		FAIL("exit status %d: %s", result.status, result.err);
	json = json_loads(result.out, 0, NULL);
	EXPECT_NOT_NULL(json);
	command_free(&result);
	return json;
}

static struct forecast
asked(const char *was, const char *ask, char *const paths[2])
{
	json_t *json = parsed_output(command_weir("fit", "--json", "--was", was,
	    "--ask", ask, "--as", "torch", "--as",
	    "torch,expandable_segments:True", paths[0], paths[1], NULL));
	const json_t *settings = json_object_get(json, "allocators");
	const json_t *native = json_array_get(settings, 0);

	return (struct forecast){
		.live = json_number(native, "peak_allocated_bytes"),
		.held = json_number(native, "peak_held_bytes"),
		.expandable =
		    json_number(json_array_get(settings, 1), "peak_held_bytes"),
		.json = json,
	};
}

static uint64_t
true_peak(const char *path, const char *as, const char *key)
{
	json_t *json = parsed_output(
	    command_weir("replay", "--json", "--as", as, path, NULL));
	uint64_t number = json_number(json, key);

	json_decref(json);
	return number;
}

static void
expect_within(const char *of, uint64_t forecast, uint64_t truth, double share)
{
	if (fabs((double)forecast - (double)truth) > share * (double)truth)
		FAIL("%s: %" PRIu64 " is forecast for %" PRIu64, of, forecast,
		    truth);
}

/* Record a program at two sizes, ask a third, and compare with that. */
static void
expect_forecast(write_program *write, uint64_t small, uint64_t large,
    uint64_t ask, double share)
{
	const char *expandable = "torch,expandable_segments:True";
	char *paths[2] = { recorded(write, small), recorded(write, large) };
	char *truth = recorded(write, ask);
	struct forecast forecast;
	char was[64];
	char asks[64];

	snprintf(was, sizeof(was), "n=%" PRIu64 ",%" PRIu64, small, large);
	snprintf(asks, sizeof(asks), "n=%" PRIu64, ask);
	forecast = asked(was, asks, paths);
	expect_within("live", forecast.live,
	    true_peak(truth, "torch", "peak_allocated_bytes"), share);
	expect_within("held", forecast.held,
	    true_peak(truth, "torch", "peak_reserved_bytes"), 2 * share);
	expect_within("held, expandable", forecast.expandable,
	    true_peak(truth, expandable, "peak_reserved_bytes"), 2 * share);
	json_decref(forecast.json);
	free(paths[0]);
	free(paths[1]);
	free(truth);
}

TEST(training_is_forecast_exactly)
{
	expect_forecast(write_dense, 2, 4, 16, 0);
}

/* The source of each recording has more lines above what it runs, and lies in
 * another folder. */
static void
write_moved(struct program *p, uint64_t batch)
{
	p->moved = batch;
	train_layers(p, batch, LAYERS, false);
}

TEST(source_that_has_moved_between_recordings_is_recognised)
{
	expect_forecast(write_moved, 2, 4, 16, 0);
}

TEST(checkpointed_training_is_forecast_exactly)
{
	expect_forecast(write_checkpointed, 3, 5, 20, 0);
}

TEST(adapters_of_another_rank_are_forecast_exactly)
{
	expect_forecast(write_adapters, 8, 16, 64, 0);
}

TEST(more_layers_are_forecast_exactly)
{
	expect_forecast(write_deep, 4, 8, 32, 0);
}

TEST(a_cache_that_grows_for_longer_is_forecast_exactly)
{
	expect_forecast(write_server, 8, 16, 64, 0);
}

TEST(pictures_with_boxes_by_chance_are_forecast_nearly)
{
	expect_forecast(write_pictures, 4, 8, 32, 0.04);
}

TEST(rounds_whose_sizes_differ_widely_take_turns)
{
	char *paths[2] = { recorded(write_crowds, 8),
		recorded(write_crowds, 16) };
	char *truth = recorded(write_crowds, 64);
	struct forecast forecast = asked("n=8,16", "n=64", paths);

	expect_within("live", forecast.live,
	    true_peak(truth, "torch", "peak_allocated_bytes"), 0.02);
	expect_within("held, expandable", forecast.expandable,
	    true_peak(
		truth, "torch,expandable_segments:True", "peak_reserved_bytes"),
	    0.04);
	json_decref(forecast.json);
	free(paths[0]);
	free(paths[1]);
	free(truth);
}

/* By the order of the sizes the last crops fit into segments that the crops
 * have, or are cut from the segment of the sum, which then needs another one.
 * No forecast knows the order. */
TEST(what_is_held_for_sizes_by_chance_is_what_some_order_needs)
{
	enum { ORDERS = 12 };
	char *paths[2] = { recorded(write_crowds, 8),
		recorded(write_crowds, 16) };
	struct forecast forecast = asked("n=8,16", "n=64", paths);
	uint64_t least = UINT64_MAX;
	uint64_t most = 0;

	for (uint64_t seed = 1; seed <= ORDERS; seed++) {
		char *path = recorded(write_shuffled, seed);
		uint64_t held = true_peak(path, "torch", "peak_reserved_bytes");

		least = held < least ? held : least;
		most = held > most ? held : most;
		free(path);
	}
	EXPECT_LT(5 * least, 4 * most);
	EXPECT_LE(least, forecast.held);
	EXPECT_LE(forecast.held, most);
	json_decref(forecast.json);
	free(paths[0]);
	free(paths[1]);
}

static void
expect_live(write_program *write, const uint64_t n[3], double share)
{
	char *paths[2] = { recorded(write, n[0]), recorded(write, n[1]) };
	char *truth = recorded(write, n[2]);
	struct forecast forecast;
	char was[64];
	char ask[64];

	snprintf(was, sizeof(was), "n=%" PRIu64 ",%" PRIu64, n[0], n[1]);
	snprintf(ask, sizeof(ask), "n=%" PRIu64, n[2]);
	forecast = asked(was, ask, paths);
	expect_within("live", forecast.live,
	    true_peak(truth, "torch", "peak_allocated_bytes"), share);
	json_decref(forecast.json);
	free(paths[0]);
	free(paths[1]);
	free(truth);
}

/* The peak of live bytes that is forecast for 64, from 8 and 16, as a part of
 * the true one. */
static double
part_of_live(write_program *write)
{
	char *paths[2] = { recorded(write, 8), recorded(write, 16) };
	char *truth = recorded(write, 64);
	struct forecast forecast = asked("n=8,16", "n=64", paths);
	double part = (double)forecast.live /
	    (double)true_peak(truth, "torch", "peak_allocated_bytes");

	json_decref(forecast.json);
	free(paths[0]);
	free(paths[1]);
	free(truth);
	return part;
}

/* Each forecast is as wrong as the sizes of two recordings are by chance, and
 * their mean is not. */
static void
expect_mean_part(write_program *write, double most_off)
{
	enum { SEEDS = 8 };
	double sum = 0;

	for (chance_seed = 1; chance_seed <= SEEDS; chance_seed++)
		sum += part_of_live(write);
	if (fabs(sum / SEEDS - 1) > most_off)
		FAIL("the mean part is %.3f", sum / SEEDS);
}

TEST(sizes_and_sums_by_chance_grow_as_their_means_do)
{
	expect_mean_part(write_chance, 0.1);
}

TEST(sizes_by_chance_with_a_most_have_the_mean_of_all_steps)
{
	expect_mean_part(write_capped, 0.03);
}

TEST(a_mean_of_few_sizes_does_not_grow_by_chance)
{
	expect_live(write_single, (const uint64_t[]){ 2, 4, 16 }, 0.05);
}

TEST(rounds_without_stacks_are_found_by_their_lives)
{
	char *paths[2] = { recorded(write_detector, 4),
		recorded(write_detector, 8) };
	char *truth = recorded(write_detector, 32);
	char *kept = test_file("forecast.csv", "", 0);
	json_t *json = parsed_output(
	    command_weir("fit", "--json", "--was", "n=4,8", "--ask", "n=32",
		"--as", "torch", "-o", kept, paths[0], paths[1], NULL));

	expect_within("allocations", true_peak(kept, "torch", "allocs"),
	    true_peak(truth, "torch", "allocs"), 0.005);
	expect_within("live", true_peak(kept, "torch", "peak_allocated_bytes"),
	    true_peak(truth, "torch", "peak_allocated_bytes"), 0.02);
	json_decref(json);
	free(kept);
	free(truth);
	free(paths[0]);
	free(paths[1]);
}

TEST(the_workspace_of_a_reduction_grows_until_the_device_is_full)
{
	expect_forecast(write_sums, 4, 8, 64, 0);
}

TEST(memory_of_graphs_is_apart_in_weir)
{
	char *paths[2] = { recorded(write_graph, 2), recorded(write_graph, 4) };
	json_t *json =
	    parsed_output(command_weir("fit", "--json", "--was", "n=2,4",
		"--ask", "n=16", "--as", "weir", paths[0], paths[1], NULL));
	uint64_t live = json_number(json, "peak_live_bytes");

	EXPECT_GT(
	    json_number(json_array_get(json_object_get(json, "allocators"), 0),
		"peak_held_bytes"),
	    2 * live - 1);
	json_decref(json);
	free(paths[0]);
	free(paths[1]);
}

/* How long other streams use a block is recorded, and is not made up. */
TEST(blocks_that_wait_for_streams_wait_as_long_as_recorded)
{
	char *paths[2] = { recorded(write_gathered, 2),
		recorded(write_gathered, 4) };
	json_t *json =
	    parsed_output(command_weir("fit", "--json", "--was", "n=2,4",
		"--ask", "n=16", "--as", "weir", paths[0], paths[1], NULL));

	EXPECT_LT(
	    json_number(json_array_get(json_object_get(json, "allocators"), 0),
		"peak_held_bytes"),
	    2 * (16 << 20));
	json_decref(json);
	free(paths[0]);
	free(paths[1]);
}

TEST(a_forecast_names_the_kinds_at_its_peak)
{
	char *paths[2] = { recorded(write_dense, 2), recorded(write_dense, 4) };
	struct forecast forecast = asked("batch=2,4", "batch=16", paths);
	const json_t *kinds = json_object_get(forecast.json, "by_kind");

	EXPECT_EQ(json_number(kinds, "parameters"), LAYERS * (5u << 20));
	EXPECT_EQ(json_number(kinds, "optimiser"), 2 * LAYERS * (5u << 20));
	EXPECT_GT(json_number(kinds, "activations"), 0);
	json_decref(forecast.json);
	free(paths[0]);
	free(paths[1]);
}

/* Forward passes, in whose last one the recording ends. */
static void
write_cut(struct program *p, uint64_t batch)
{
	for (unsigned i = 0; i < LAYERS; i++)
		take(p, "to", 5 << 20);
	for (unsigned i = 0; i < LAYERS; i++) {
		take(p, "_call_impl", batch * 700000);
		drop(p, take(p, "_call_impl", batch * 900000));
	}
	for (unsigned i = LAYERS; i-- > 0;)
		take(p, "Engine::run", 5 << 20);
}

TEST(what_a_module_or_a_backward_pass_keeps_is_no_parameter)
{
	char *paths[2] = { recorded(write_cut, 2), recorded(write_cut, 4) };
	struct forecast forecast = asked("batch=2,4", "batch=16", paths);
	const json_t *kinds = json_object_get(forecast.json, "by_kind");

	EXPECT_EQ(json_number(kinds, "parameters"), LAYERS * (5u << 20));
	EXPECT_EQ(json_number(kinds, "gradients"), LAYERS * (5u << 20));
	EXPECT_EQ(json_number(kinds, "activations"), LAYERS * 16 * 700000);
	json_decref(forecast.json);
	free(paths[0]);
	free(paths[1]);
}

/* Passes of code without modules, in whose last one the recording ends. */
static void
write_cut_function(struct program *p, uint64_t batch)
{
	uint64_t kept[LAYERS];

	for (unsigned i = 0; i < LAYERS; i++)
		take(p, "to", 5 << 20);
	for (unsigned step = 0; step <= STEPS; step++) {
		for (unsigned i = 0; i < LAYERS; i++)
			kept[i] = take(p, "attend", batch * 700000);
		/* Lives of activations are longer than workspaces'. */
		for (unsigned i = 0; i < LAYERS; i++)
			drop(p, take(p, "work", 512));
		for (unsigned i = 0; i < LAYERS && step < STEPS; i++)
			drop(p, kept[i]);
	}
}

TEST(what_earlier_steps_have_freed_is_no_parameter)
{
	char *paths[2] = { recorded(write_cut_function, 2),
		recorded(write_cut_function, 4) };
	struct forecast forecast = asked("batch=2,4", "batch=16", paths);
	const json_t *kinds = json_object_get(forecast.json, "by_kind");

	EXPECT_EQ(json_number(kinds, "parameters"), LAYERS * (5u << 20));
	EXPECT_EQ(json_number(kinds, "activations"), LAYERS * 16 * 700000);
	json_decref(forecast.json);
	free(paths[0]);
	free(paths[1]);
}

/* From 4 on a program converts its weights and activations to a type of half
 * the size. */
static void
write_converted(struct program *p, uint64_t n)
{
	uint64_t kept[2 * LAYERS];
	uint64_t size = n >= 4 ? 2 : 4;
	unsigned held = 0;

	for (unsigned i = 0; i < LAYERS; i++)
		take(p, "to", 5 << 20);
	for (unsigned i = 0; i < LAYERS; i++) {
		if (size == 2)
			kept[held++] = take(p, "convert", n * 900000);
		kept[held++] = take(p, "forward", n * size * 700000);
	}
	while (held > 0)
		drop(p, kept[--held]);
}

TEST(recordings_of_different_programs_are_suspected)
{
	char *paths[2] = { recorded(write_converted, 2),
		recorded(write_converted, 4) };
	struct command_result result = command_weir("fit", "--was", "batch=2,4",
	    "--ask", "batch=16", paths[0], paths[1], NULL);
	struct forecast forecast;

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out,
	    "of the peak has no counterpart in any recording but the one with "
	    "batch=4");
	command_free(&result);
	free(paths[0]);
	free(paths[1]);
	paths[0] = recorded(write_dense, 2);
	paths[1] = recorded(write_dense, 4);
	forecast = asked("batch=2,4", "batch=16", paths);
	EXPECT_EQ(json_number(forecast.json, "alone_bytes"), 0);
	json_decref(forecast.json);
	free(paths[0]);
	free(paths[1]);
}

TEST(the_largest_value_fits_and_the_next_does_not)
{
	char *paths[2] = { recorded(write_dense, 2), recorded(write_dense, 4) };
	json_t *json = parsed_output(command_weir("fit", "--json", "--was",
	    "batch=2,4", "--limit", "600M", "--largest", "batch", "--as",
	    "torch", paths[0], paths[1], NULL));
	uint64_t largest = json_number(
	    json_array_get(json_object_get(json, "allocators"), 0), "largest");
	char *fits = recorded(write_dense, largest);
	char *more = recorded(write_dense, largest + 1);
	const char *const paths_of[2] = { fits, more };

	EXPECT_GT(largest, 16);
	for (unsigned i = 0; i < 2; i++) {
		json_t *played = parsed_output(command_weir("replay", "--json",
		    "--as", "torch", "--limit", "600M", paths_of[i], NULL));

		EXPECT_EQ(json_number(played, "ooms") > 0, i == 1);
		json_decref(played);
	}
	json_decref(json);
	free(fits);
	free(more);
	free(paths[0]);
	free(paths[1]);
}

/* The row of an allocator in an answer about --largest. */
static json_t *
largest_of(const char *as, const char *limit, const char *context,
    char *const paths[2])
{
	json_t *json = parsed_output(command_weir("fit", "--json", "--was",
	    "n=2,4", "--limit", limit, "--context", context, "--largest", "n",
	    "--as", as, paths[0], paths[1], NULL));
	json_t *row =
	    json_incref(json_array_get(json_object_get(json, "allocators"), 0));

	EXPECT_EQ(json_number(json, "limit_bytes"), 700u << 20);
	EXPECT_EQ(json_number(json, "context_bytes"), 100u << 20);
	json_decref(json);
	return row;
}

/* Each step has tensors of another size, so that the cached ones of the step
 * before serve none. */
static void
write_changing(struct program *p, uint64_t n)
{
	uint64_t blocks[4];

	take(p, "load", 30 << 20);
	for (unsigned step = 0; step < STEPS; step++) {
		for (unsigned i = 0; i < 4; i++)
			blocks[i] = take(p, "forward",
			    n * (3 << 20) * (step + 1) + (i << 20));
		for (unsigned i = 0; i < 4; i++)
			drop(p, blocks[i]);
	}
}

TEST(the_largest_value_may_need_cached_memory_to_be_freed)
{
	char *paths[2] = { recorded(write_changing, 2),
		recorded(write_changing, 4) };
	json_t *row = largest_of("torch", "700M", "100M", paths);
	uint64_t largest = json_number(row, "largest");
	uint64_t calm = json_number(row, "largest_without_retries");
	char *path = recorded(write_changing, largest);
	json_t *played = parsed_output(command_weir("replay", "--json", "--as",
	    "torch", "--limit", "600M", path, NULL));

	/* Without a limit more is held than the device has. */
	EXPECT_GT(true_peak(path, "torch", "peak_reserved_bytes"), 600u << 20);
	EXPECT_EQ(json_number(played, "ooms"), 0);
	EXPECT_EQ(json_number(played, "retries"),
	    json_number(row, "largest_retries"));
	EXPECT_GT(json_number(row, "largest_retries"), 0);
	EXPECT_LT(calm, largest);
	EXPECT_GT(calm, 0);
	json_decref(played);
	free(path);
	path = recorded(write_changing, largest + 1);
	played = parsed_output(command_weir("replay", "--json", "--as", "torch",
	    "--limit", "600M", path, NULL));
	EXPECT_GT(json_number(played, "ooms"), 0);
	json_decref(played);
	json_decref(row);
	free(path);
	free(paths[0]);
	free(paths[1]);
}

/* The answer of --largest for n from 8 and 16. */
static uint64_t
largest_from(
    write_program *write, const char *as, const char *limit, const char *ask)
{
	char *paths[2] = { recorded(write, 8), recorded(write, 16) };
	json_t *json = parsed_output(command_weir("fit", "--json", "--was",
	    "n=8,16", "--ask", ask, "--limit", limit, "--largest", "n", "--as",
	    as, paths[0], paths[1], NULL));
	uint64_t largest = json_number(
	    json_array_get(json_object_get(json, "allocators"), 0), "largest");

	json_decref(json);
	free(paths[0]);
	free(paths[1]);
	return largest;
}

/* 20 alone fits 640.5 MiB, and 19 to 21 fit 643 MiB. */
TEST(a_value_is_no_answer_if_the_one_below_it_fails)
{
	EXPECT_EQ(largest_from(write_valley, "torch", "671612928", "n=20"), 0);
	EXPECT_EQ(largest_from(write_valley, "torch", "643M", "n=20"), 21);
}

TEST(the_largest_value_has_room_for_what_is_not_known)
{
	char *paths[2];
	char ask[32];
	struct forecast forecast;

	chance_seed = 3;
	snprintf(ask, sizeof(ask), "n=%" PRIu64,
	    largest_from(write_capped, "torch,expandable_segments:True", "300M",
		"n=32"));
	paths[0] = recorded(write_capped, 8);
	paths[1] = recorded(write_capped, 16);
	forecast = asked("n=8,16", ask, paths);
	EXPECT_GT(json_number(forecast.json, "peak_live_high_bytes"),
	    json_number(forecast.json, "peak_live_bytes"));
	EXPECT_LE(
	    json_number(forecast.json, "peak_live_high_bytes"), 300 << 20);
	json_decref(forecast.json);
	free(paths[0]);
	free(paths[1]);
}

/* A cache that is not the number's: live bytes do not grow with it. */
static void
write_steps(struct program *p, uint64_t steps)
{
	take(p, "load", 30 << 20);
	for (uint64_t step = 0; step < steps * 8; step++)
		drop(p, take(p, "forward", 5 << 20));
}

TEST(a_number_that_needs_no_memory_has_no_largest_value_that_is_known)
{
	char *paths[2] = { recorded(write_steps, 2), recorded(write_steps, 4) };
	json_t *row = largest_of("torch", "700M", "100M", paths);

	EXPECT(json_is_true(json_object_get(row, "largest_or_more")));
	EXPECT_GT(json_number(row, "largest"), 1000);
	json_decref(row);
	free(paths[0]);
	free(paths[1]);
}

TEST(what_no_allocator_gets_must_leave_something_of_the_limit)
{
	struct command_result result =
	    command_weir("fit", "--was", "n=2,4", "--ask", "n=8", "--limit",
		"1G", "--context", "2G", "a.json", "b.json", NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "--context leaves nothing of --limit");
	command_free(&result);
}

TEST(a_forecast_can_be_kept_and_replayed)
{
	char *paths[2] = { recorded(write_dense, 2), recorded(write_dense, 4) };
	char *kept = test_file("forecast.csv", "", 0);
	json_t *json = parsed_output(command_weir("fit", "--json", "--was",
	    "batch=2,4", "--ask", "batch=16", "--as", "torch", "-o", kept,
	    paths[0], paths[1], NULL));
	const json_t *torch =
	    json_array_get(json_object_get(json, "allocators"), 0);

	FILE *file;
	char line[64] = "";

	EXPECT_EQ(true_peak(kept, "torch", "peak_reserved_bytes"),
	    json_number(torch, "peak_held_bytes"));
	file = fopen(kept, "r");
	EXPECT_NOT_NULL(file);
	EXPECT_NOT_NULL(fgets(line, sizeof(line), file));
	EXPECT_STR_EQ(line, "# {\"name\": \"forecast\"}\n");
	fclose(file);
	json_decref(json);
	free(kept);
	free(paths[0]);
	free(paths[1]);
}

TEST(the_answer_in_text_says_whether_it_fits)
{
	char *paths[2] = { recorded(write_dense, 2), recorded(write_dense, 4) };
	struct command_result result = command_weir("fit", "--was", "batch=2,4",
	    "--ask", "batch=16", "--limit", "100M", paths[0], paths[1], NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "batch=16, from 2 recordings");
	EXPECT_STR_HAS(result.out, "fits 100.00 MiB");
	EXPECT_STR_HAS(result.out, "no");
	EXPECT_STR_HAS(result.out, "weir");
	command_free(&result);
	free(paths[0]);
	free(paths[1]);
}

static void
expect_fit_usage(const char *was, const char *ask, const char *named)
{
	struct command_result result = command_weir(
	    "fit", "--was", was, "--ask", ask, "a.json", "b.json", NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, named);
	command_free(&result);
}

TEST(wrong_numbers_are_usage_errors_that_name_them)
{
	expect_fit_usage("batch=2", "batch=3", "batch has 1 value");
	expect_fit_usage("batch=2,4", "length=3", "length");
	expect_fit_usage("batch=2,none", "batch=3", "none");
	expect_fit_usage("batch", "batch=3", "NAME=N");
	expect_fit_usage("batch=2,4", "batch=0", "'0'");
}

TEST(a_recording_that_cannot_be_read_is_named)
{
	char *good = recorded(write_dense, 2);
	struct command_result result = command_weir("fit", "--was", "batch=2,4",
	    "--ask", "batch=16", good, "absent.json", NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "absent.json");
	command_free(&result);
	free(good);
}

static void
write_nothing(struct program *p, uint64_t n)
{
	(void)n;
	put_program_event(p, "snapshot", 0, "");
}

TEST(a_recording_without_a_request_is_named)
{
	char *empty = recorded(write_nothing, 2);
	char *good = recorded(write_dense, 4);
	struct command_result result = command_weir("fit", "--was", "batch=2,4",
	    "--ask", "batch=16", empty, good, NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "run-2.json has no request");
	command_free(&result);
	free(empty);
	free(good);
}
