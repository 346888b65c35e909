/*
 * The model: its start and end, the checks after each step, and the text of a
 * failure. The steps are in steps.c.
 */
#include "tests/model/model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/meta.h"
#include "driver/driver.h"
#include "tests/model/history.h"
#include "tests/support/device.h"
#include "tests/support/sim.h"
#include "tests/support/test.h"

/* ---- Chance ------------------------------------------------------------ */

/* Splitmix64: short, and good with every seed. */
static uint64_t
next_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t
model_below(struct model *m, uint64_t n)
{
	return next_random(&m->random) % n;
}

bool
model_chance(struct model *m, unsigned percent)
{
	return model_below(m, 100) < percent;
}

/* By the name, so that each mix has a different seed. */
static uint64_t
default_seed(const struct mix *mix)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (const char *c = mix->name; *c != '\0'; c++)
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
	return hash % 1000000;
}

uint64_t
model_seed(const struct mix *mix)
{
	const char *text = getenv("WEIR_TEST_SEED");
	struct timespec now;

	if (text == NULL || *text == '\0')
		return default_seed(mix);
	if (strcmp(text, "random") != 0)
		return strtoull(text, NULL, 0);
	clock_gettime(CLOCK_REALTIME, &now);
	return ((uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec) %
	    1000000000;
}

/* ---- Telling ----------------------------------------------------------- */

void
model_say(struct model *m, const char *format, ...)
{
	va_list args;
	char *line = m->log[m->step % MODEL_LOG];

	va_start(args, format);
	vsnprintf(line, MODEL_LINE, format, args);
	va_end(args);
	if (m->trace)
		fprintf(
		    stderr, "# %u:%" PRIu64 " %s\n", m->number, m->step, line);
}

_Noreturn void
model_fail(struct model *m, const char *format, ...)
{
	char text[1536];
	va_list args;
	uint64_t first = m->step < MODEL_LOG ? 0 : m->step - MODEL_LOG + 1;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "# the last steps of \"%s\"\n", m->mix->name);
	for (uint64_t step = first; step <= m->step; step++)
		fprintf(stderr, "# %u:%" PRIu64 " %s\n", m->number, step,
		    m->log[step % MODEL_LOG]);
	FAIL("step %" PRIu64 " (%s): %s\nagain: WEIR_TEST_SEED=%" PRIu64,
	    m->step, m->log[m->step % MODEL_LOG], text, m->seed);
}

void
model_expect(struct model *m, bool holds, const char *format, ...)
{
	char text[1024];
	va_list args;

	if (holds)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	model_fail(m, "%s", text);
}

bool
model_ok(struct model *m, enum weir_status status, const char *call)
{
	if (status == WEIR_OK)
		return true;
	model_expect(m, m->armed > 0, "%s: %s (%s)", call,
	    weir_status_name(status), weir_last_error());
	model_expect(m, weir_last_status() == status,
	    "%s gave %s, the last status is %s", call, weir_status_name(status),
	    weir_status_name(weir_last_status()));
	model_expect(m, weir_last_error()[0] != '\0', "%s failed (%s) %s", call,
	    weir_status_name(status), "without a text");
	return false;
}

bool
model_driver_ok(struct model *m, CUresult code, const char *call)
{
	model_expect(m, code == CUDA_SUCCESS || m->armed > 0, "%s: %s (%d)",
	    call, driver_text(code), (int)code);
	return code == CUDA_SUCCESS;
}

/* The simulation's settings of late completions. */
static void
hold_events(const struct model *m)
{
	if (m->simulated && m->number == 0 && m->mix->late_ns > 0)
		sim()->hold_events(m->seed, m->mix->late_ns);
}

void
model_calm(struct model *m)
{
	if (m->armed == 0)
		return;
	m->armed = 0;
	meta_fail(0, 0);
	if (sim() == NULL)
		return;
	/* It forgets violations too. */
	model_check_health(m);
	sim()->reset();
	hold_events(m);
}

/* ---- What must hold ---------------------------------------------------- */

static void
check_violations(struct model *m)
{
	size_t n;

	if (sim() == NULL)
		return;
	n = sim()->violations();
	model_expect(m, n == 0, "%zu violations; the first: %s", n,
	    n == 0 ? "" : sim()->violation_text(0));
}

void
model_check_health(struct model *m)
{
	char text[1024];
	size_t n = weir_check(text, sizeof(text));

	/* Call once: another thread may change the result of a second call. */
	if (n != 0)
		model_fail(m, "weir_check() finds %zu:\n%s", n, text);
	check_violations(m);
}

/* The step's number decides, so that leaving steps out changes nothing. */
static bool
is_walked(const struct model *m)
{
	uint64_t state = m->step;

	return next_random(&state) % m->check_every == 0;
}

/* Sums over the blocks of the model. */
struct sums {
	uint64_t blocks;
	uint64_t small_blocks;
	size_t bytes;
	size_t small_bytes;
	size_t requested;
};

static void
add_block(struct sums *sums, const struct model_block *b)
{
	sums->blocks++;
	sums->bytes += b->bytes;
	sums->requested += b->size;
	/* Under `guard` a block is cut from one with two zones more. */
	if (b->bytes + 2 * model_zone() <= MIB) {
		sums->small_blocks++;
		sums->small_bytes += b->bytes;
	}
}

static void
expect_number(struct model *m, const char *name, uint64_t is, uint64_t should)
{
	model_expect(m, is == should, "%s is %" PRIu64 ", should be %" PRIu64,
	    name, is, should);
}

/* Small blocks may lie in blocks of the large kind where a segment of the
 * driver is not cut, so the kinds are compared only if all blocks are exact. */
static void
check_kinds(
    struct model *m, const struct weir_stats *s, const struct sums *sums)
{
	if (!m->exact_classes)
		return;
	expect_number(m, "allocation.small_pool.current",
	    s->allocation.small_pool.current, sums->small_blocks);
	expect_number(m, "allocated_bytes.small_pool.current",
	    s->allocated_bytes.small_pool.current, sums->small_bytes);
}

static bool
is_any_suspended(const struct model *m)
{
	for (int p = 0; p < MODEL_POOLS; p++)
		if (m->pools[p].suspended)
			return true;
	return false;
}

/* Active memory that is not live is pending: freed, with unfinished work on
 * it. */
static void
check_pending(
    struct model *m, const struct weir_stats *s, const struct sums *sums)
{
	size_t pending = s->active_bytes.all.current - sums->bytes;
	size_t requested = s->requested_bytes.all.current - sums->requested;

	model_expect(m, s->active.all.current >= sums->blocks,
	    "active is %" PRIu64 " with %" PRIu64 " live",
	    s->active.all.current, sums->blocks);
	expect_number(m, "pending_bytes", s->pending_bytes, pending);
	if (pending == 0)
		memset(m->held_back, 0, sizeof(m->held_back));
	model_expect(m, requested <= pending,
	    "requested_bytes is %" PRIu64 ", %zu live, %zu pending",
	    s->requested_bytes.all.current, sums->requested, pending);
	model_expect(m, (pending == 0) == (requested == 0),
	    "requested_bytes is %" PRIu64 ", %zu live, %zu pending",
	    s->requested_bytes.all.current, sums->requested, pending);
	model_expect(m,
	    is_any_suspended(m) ||
		s->reserved_bytes.all.current >= s->active_bytes.all.current,
	    "reserved_bytes is %" PRIu64 ", active_bytes %" PRIu64,
	    s->reserved_bytes.all.current, s->active_bytes.all.current);
}

/* The counters, for a model that is the only user of the device. */
static void
check_history(struct model *m, const struct weir_stats *s)
{
	size_t current = s->allocated_bytes.all.current;
	size_t reserved = s->reserved_bytes.all.current;

	if (current > m->peak_bytes)
		m->peak_bytes = current;
	expect_number(m, "allocated_bytes.all.peak",
	    s->allocated_bytes.all.peak, m->peak_bytes);
	expect_number(m, "allocation.all.allocated",
	    s->allocation.all.allocated, m->mallocs);
	expect_number(
	    m, "allocation.all.freed", s->allocation.all.freed, m->frees);
	expect_number(m, "num_ooms", s->num_ooms, m->ooms);
	model_expect(m, reserved <= m->reserved || reserved <= m->limit,
	    "reserved_bytes grew from %zu to %zu, past the limit of %zu",
	    m->reserved, reserved, m->limit);
	m->reserved = reserved;
}

void
model_check_sums(struct model *const models[], size_t n)
{
	struct model *m = models[0];
	struct weir_stats s = { .struct_size = sizeof(s) };
	struct sums sums = { 0 };

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < models[i]->n_blocks; k++)
			add_block(&sums, &models[i]->blocks[k]);
	for (int g = 0; g < MODEL_GRAPHS; g++)
		if (m->graphs[g].graph != NULL)
			add_block(&sums, &m->graphs[g].output);
	for (size_t k = 0; m->crew != NULL && k < m->crew->n_mail; k++)
		add_block(&sums, &m->crew->mailbox[k]);
	/* Name the device by its number: querying the current one is a driver
	 * call, which an armed fault may refuse. */
	enum weir_status status = weir_stats(0, &s);
	model_expect(m, status == WEIR_OK, "weir_stats: %s", weir_last_error());
	expect_number(
	    m, "allocation.all.current", s.allocation.all.current, sums.blocks);
	expect_number(m, "allocated_bytes.all.current",
	    s.allocated_bytes.all.current, sums.bytes);
	check_kinds(m, &s, &sums);
	check_pending(m, &s, &sums);
	if (m->alone)
		check_history(m, &s);
}

void
model_check(struct model *m)
{
	if (m->crew != NULL) {
		/* Other threads are at work: the sums are compared when they
		 * rest. */
		if (m->step % 64 == 0)
			model_check_health(m);
		return;
	}
	if (is_walked(m))
		model_check_health(m);
	else
		check_violations(m);
	model_check_sums(&m, 1);
	model_check_graphs(m);
}

void
model_check_replay(struct model *m)
{
	char fault[256];

	if (m->replay != NULL)
		model_expect(m,
		    history_replay_check(m->replay, fault, sizeof(fault)),
		    "the history: %s", fault);
}

void
model_verify(struct model *m)
{
	model_calm(m);
	model_ok(m, weir_device_synchronize(0), "weir_device_synchronize");
	for (size_t i = 0; i < m->n_probes; i++) {
		model_expect(m, m->read[i] == m->expected[i],
		    "a word of a block is %#" PRIx32 ", not %#" PRIx32,
		    m->read[i], m->expected[i]);
	}
	m->n_probes = 0;
	model_host_read(m);
}

/* ---- Start and end ----------------------------------------------------- */

/* Bytes of the device that are in use, by any program. */
static size_t
held_bytes(struct model *m)
{
	size_t available = 0;
	size_t total = 0;

	model_driver_ok(
	    m, driver_peek()->cuMemGetInfo(&available, &total), "cuMemGetInfo");
	return total - available;
}

static void
open_slots(struct model *m)
{
	m->slots[SLOT_LEGACY] = (struct slot){ SLOT_SHARED, NULL };
	m->slots[SLOT_PER_THREAD] =
	    (struct slot){ SLOT_SHARED, WEIR_STREAM_PER_THREAD };
	for (unsigned i = SLOT_POOL; i < SLOT_POOL_END; i++) {
		struct slot *slot = &m->slots[i];

		slot->kind = SLOT_SHARED;
		model_ok(m,
		    weir_stream_from_pool(0, -(int)(i % 2), &slot->stream),
		    "weir_stream_from_pool");
	}
	if (m->crew != NULL)
		m->slots[SLOT_POOL].stream = m->crew->shared;
}

static uint64_t
check_every(void)
{
	const char *text = getenv("WEIR_TEST_CHECK_EVERY");
	uint64_t every = text == NULL ? 1 : strtoull(text, NULL, 10);

	return every == 0 ? 1 : every;
}

void
model_open(struct model *m, const struct mix *mix, uint64_t seed)
{
	struct weir_stats s = { .struct_size = sizeof(s) };

	m->mix = mix;
	m->seed = seed;
	m->check_every = check_every();
	m->random = seed + m->number * 0x100000001u;
	m->trace = getenv("WEIR_TEST_TRACE") != NULL;
	m->simulated = device_is_simulated();
	m->exact_classes = true;
	m->alone = m->crew == NULL && mix->weight[STEP_graph] == 0;
	m->limit = SIZE_MAX;
	m->captured = SLOT_NONE;
	model_say(m, "start");
	model_ok(m, weir_set_device(0), "weir_set_device");
	open_slots(m);
	model_driver_ok(m,
	    driver_peek()->cuMemHostAlloc(
		(void **)&m->read, MODEL_PROBES * sizeof(*m->read), 0),
	    "cuMemHostAlloc");
	m->total = device_total(0);
	m->held_at_start = held_bytes(m);
	if (m->number != 0)
		return;
	/* Read the options now, and not after a step that makes host memory
	 * fail. */
	model_ok(m, weir_stats(0, &s), "weir_stats");
	if (mix->history)
		m->replay = history_replay_new();
	hold_events(m);
	if (m->simulated && mix->weight[STEP_graph] > 0)
		sim()->guard_graphs(1);
	if (mix->conf != NULL)
		model_ok(m, weir_options_set(mix->conf), "weir_options_set");
	if (mix->limit != 0) {
		model_ok(m, weir_limit_set(0, mix->limit), "weir_limit_set");
		m->limit = mix->limit;
	}
}

static enum model_step
choose_step(struct model *m)
{
	const unsigned *weight = m->mix->weight;
	unsigned sum = 0;
	unsigned chosen;
	unsigned i = 0;

	/* Tend to the number of live blocks of the mix. */
	if (m->n_blocks < m->mix->live / 2 && model_chance(m, 50))
		return STEP_allocate;
	if (m->n_blocks > m->mix->live + m->mix->live / 2 &&
	    model_chance(m, 50))
		return STEP_release;
	for (i = 0; i < STEPS; i++)
		sum += weight[i];
	chosen = (unsigned)model_below(m, sum);
	for (i = 0; chosen >= weight[i]; i++)
		chosen -= weight[i];
	return (enum model_step)i;
}

/* The faults have been met, or have been armed for long enough. */
static bool
fault_is_over(struct model *m)
{
	if (m->armed == 0)
		return false;
	if (m->faults > 0 && sim()->faults() >= m->faults)
		return true;
	m->armed -= m->armed > 1;
	return m->armed == 1;
}

/* WEIR_TEST_SKIP="3-500,612": steps that are left out, to reduce a failure
 * (scripts/soak). */
static bool
is_left_out(uint64_t step)
{
	const char *text = getenv("WEIR_TEST_SKIP");
	char *end;

	while (text != NULL && *text != '\0') {
		uint64_t first = strtoull(text, &end, 10);
		uint64_t last = first;

		if (*end == '-')
			last = strtoull(end + 1, &end, 10);
		if (end == text || (*end != ',' && *end != '\0'))
			FAIL("WEIR_TEST_SKIP: %s: not numbers", text);
		if (step >= first && step <= last)
			return true;
		text = *end == ',' ? end + 1 : end;
	}
	return false;
}

/* Each step has separate random numbers: leaving one out does not change
 * another. */
static void
begin_step(struct model *m)
{
	m->step++;
	m->random = m->seed ^ (m->step * 0x9e3779b97f4a7c15u) ^
	    ((uint64_t)m->number << 56);
	next_random(&m->random);
}

void
model_steps(struct model *m, uint64_t steps)
{
	static void (*const functions[STEPS])(struct model *) = {
#define MODEL_STEP_ENTRY(name) step_##name,
		MODEL_STEPS(MODEL_STEP_ENTRY)
#undef MODEL_STEP_ENTRY
	};

	for (uint64_t i = 0; i < steps; i++) {
		enum model_step step;

		begin_step(m);
		if (is_left_out(m->step))
			continue;
		step = choose_step(m);
		model_say(m, "nothing");
		functions[step](m);
		model_check(m);
		if (fault_is_over(m))
			model_calm(m);
	}
}

void
model_clear(struct model *m)
{
	m->step++;
	model_say(m, "the end");
	model_calm(m);
	model_verify(m);
	model_clear_graphs(m);
	while (m->n_blocks > 0)
		model_release(m, m->n_blocks - 1);
	model_verify(m);
	model_clear_host(m);
	for (unsigned i = 0; i < MODEL_PINS; i++)
		model_unpin(m, i);
	for (unsigned i = SLOT_POOL_END; i < SLOTS; i++) {
		if (m->slots[i].kind != SLOT_EMPTY)
			model_end_stream(m, i);
	}
	for (unsigned i = 0; i < MODEL_EVENTS; i++)
		model_ok(
		    m, weir_event_destroy(m->events[i]), "weir_event_destroy");
	if (m->simulated)
		sim()->set_memory(0, m->total);
	model_check(m);
	model_driver_ok(
	    m, driver_peek()->cuMemFreeHost(m->read), "cuMemFreeHost");
}

void
model_close(struct model *m)
{
	struct weir_stats s = { .struct_size = sizeof(s) };
	size_t freed;

	model_ok(m, weir_trim(0, 0, &freed), "weir_trim");
	model_check_health(m);
	model_check_replay(m);
	if (m->replay != NULL)
		history_replay_delete(m->replay);
	m->replay = NULL;
	model_ok(m, weir_stats(0, &s), "weir_stats");
	expect_number(
	    m, "reserved_bytes at the end", s.reserved_bytes.all.current, 0);
	expect_number(m, "active at the end", s.active.all.current, 0);
	expect_number(m, "segment at the end", s.segment.all.current, 0);
	/* A GPU's driver allocates memory for itself at its first use. */
	if (m->simulated)
		expect_number(m, "bytes of the device in use at the end",
		    held_bytes(m), m->held_at_start);
}

void
model_run(const struct mix *mix, uint64_t steps)
{
	struct model *m = calloc(1, sizeof(*m));
	const char *chosen = getenv("WEIR_TEST_STEPS");

	if (chosen != NULL)
		steps = strtoull(chosen, NULL, 10);
	EXPECT_NOT_NULL(m);
	model_open(m, mix, model_seed(mix));
	fprintf(stderr, "# %s: %" PRIu64 " steps, seed %" PRIu64 "\n",
	    mix->name, steps, m->seed);
	model_steps(m, steps);
	model_clear(m);
	model_close(m);
	free(m);
}
