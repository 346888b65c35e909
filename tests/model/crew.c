/*
 * Several threads at once, each with a model. They pass blocks to each other
 * through a mailbox, so that a block may be freed by another thread than the
 * one that allocated it. From time to time all threads rest, and the sums over
 * all models are compared with the statistics.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/model/model.h"
#include "tests/support/device.h"
#include "tests/support/test.h"

enum { PHASES = 10 };

/* Translate the owner for another thread, which knows the shared streams
 * only. */
static unsigned
owner_elsewhere(unsigned owner)
{
	if (owner == SLOT_LEGACY || owner == SLOT_POOL || owner == SLOT_ANY)
		return owner;
	return SLOT_GONE;
}

/* Order all work on the block before this point of the shared stream, which is
 * the first pool stream of all threads. */
static void
post(struct model *m, size_t i)
{
	struct model_crew *crew = m->crew;
	struct model_block b = m->blocks[i];

	if (!model_order(m, &b, SLOT_POOL, true))
		return;
	b.owner = owner_elsewhere(b.owner);
	b.writer = SLOT_POOL;
	b.readers = 0;
	b.uses &= slot_bit(SLOT_POOL) | slot_bit(SLOT_LEGACY);
	pthread_mutex_lock(&crew->mutex);
	if (crew->n_mail < MODEL_MAILBOX) {
		crew->mailbox[crew->n_mail++] = b;
		m->blocks[i] = m->blocks[--m->n_blocks];
	}
	pthread_mutex_unlock(&crew->mutex);
}

static void
collect(struct model *m)
{
	struct model_crew *crew = m->crew;

	pthread_mutex_lock(&crew->mutex);
	if (crew->n_mail > 0) {
		size_t i = model_below(m, crew->n_mail);

		m->blocks[m->n_blocks++] = crew->mailbox[i];
		crew->mailbox[i] = crew->mailbox[--crew->n_mail];
	}
	pthread_mutex_unlock(&crew->mutex);
}

void
step_swap(struct model *m)
{
	if (m->crew == NULL)
		return;
	if (m->n_blocks > 0 && model_chance(m, 50)) {
		size_t i = model_below(m, m->n_blocks);

		model_say(m, "give %p away", (void *)m->blocks[i].at);
		post(m, i);
	} else if (m->n_blocks < MODEL_LIVE_MAX) {
		model_say(m, "take a block from the mailbox");
		collect(m);
	}
}

/* While all threads rest: no block of one overlaps a block of another. */
static void
expect_apart(struct model_crew *crew)
{
	for (unsigned i = 0; i < MODEL_THREADS; i++) {
		struct model *m = crew->models[i];

		for (unsigned k = i + 1; k < MODEL_THREADS; k++) {
			struct model *other = crew->models[k];

			for (size_t j = 0; j < m->n_blocks; j++)
				model_expect_apart(m, &m->blocks[j], other);
		}
	}
}

static void
rest(struct model *m)
{
	struct model_crew *crew = m->crew;

	pthread_barrier_wait(&crew->barrier);
	if (m->number == 0) {
		model_check_health(m);
		model_check_sums(crew->models, MODEL_THREADS);
		model_check_replay(m);
		expect_apart(crew);
	}
	pthread_barrier_wait(&crew->barrier);
}

static void *
work(void *argument)
{
	struct model *m = argument;
	uint64_t steps = m->step; /* the number of blocks before the first */

	m->step = 0;
	model_open(m, m->mix, m->seed);
	rest(m);
	for (int phase = 0; phase < PHASES; phase++) {
		model_steps(m, steps / PHASES + 1);
		rest(m);
	}
	while (m->number == 0 && m->crew->n_mail > 0)
		collect(m);
	model_clear(m);
	rest(m);
	return NULL;
}

static struct model_crew *
crew_new(const struct mix *mix, uint64_t steps)
{
	struct model_crew *crew = calloc(1, sizeof(*crew));
	uint64_t seed = model_seed(mix);

	EXPECT_NOT_NULL(crew);
	pthread_mutex_init(&crew->mutex, NULL);
	pthread_barrier_init(&crew->barrier, NULL, MODEL_THREADS);
	EXPECT_OK(weir_stream_from_pool(0, 0, &crew->shared));
	for (unsigned i = 0; i < MODEL_THREADS; i++) {
		struct model *m = calloc(1, sizeof(*m));

		EXPECT_NOT_NULL(m);
		crew->models[i] = m;
		m->crew = crew;
		m->mix = mix;
		m->number = i;
		m->seed = seed;
		m->step = steps / MODEL_THREADS;
	}
	fprintf(stderr, "# %s: %" PRIu64 " steps, seed %" PRIu64 "\n",
	    mix->name, steps, seed);
	return crew;
}

void
model_run_threads(const struct mix *mix, uint64_t steps)
{
	pthread_t threads[MODEL_THREADS];
	struct model_crew *crew;

	crew = crew_new(mix, steps);
	for (unsigned i = 0; i < MODEL_THREADS; i++)
		EXPECT_EQ(
		    pthread_create(&threads[i], NULL, work, crew->models[i]),
		    0);
	for (unsigned i = 0; i < MODEL_THREADS; i++)
		EXPECT_EQ(pthread_join(threads[i], NULL), 0);
	/* The threads' streams have ended, and their memory must have been
	 * given back too. */
	EXPECT_OK(weir_set_device(0));
	model_close(crew->models[0]);
	for (unsigned i = 0; i < MODEL_THREADS; i++)
		free(crew->models[i]);
	pthread_barrier_destroy(&crew->barrier);
	pthread_mutex_destroy(&crew->mutex);
	free(crew);
}
