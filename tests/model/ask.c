/*
 * The steps that change nothing: calls that must be refused, and queries.
 */
#include <string.h>

#include "tests/model/model.h"
#include "tests/support/device.h"

/* ---- Misuse and questions ---------------------------------------------- */

/* A call that must be refused, and its status. WEIR_OK: nothing to try now. */
struct refusal {
	const char *what;
	enum weir_status got;
	enum weir_status should;
};

static struct refusal
misuse_block(struct model *m)
{
	struct model_block *b = model_any_block(m);
	char *inside;

	if (b == NULL || b->bytes <= WEIR_GRANULE)
		return (struct refusal){ "no block", WEIR_OK, WEIR_OK };
	inside = b->at + 1 + model_below(m, b->bytes - 1);
	if (model_chance(m, 50))
		return (struct refusal){ "free inside a block",
			weir_free(inside), WEIR_EINVAL };
	return (struct refusal){ "free inside a block on a stream",
		weir_free_async(inside, model_stream(m, model_any_slot(m))),
		WEIR_EINVAL };
}

/* Misuse an address that was freed before and is not live again. */
static struct refusal
misuse_stale(struct model *m)
{
	struct weir_block_info info = { .struct_size = sizeof(info) };
	weir_stream stream = model_stream(m, model_any_slot(m));
	void *stale = m->stale[model_below(m, MODEL_STALE)];

	if (stale == NULL || model_is_live(m, stale) || !m->alone)
		return (struct refusal){ "no address", WEIR_OK, WEIR_OK };
	switch (model_below(m, 4)) {
	case 0:
		return (struct refusal){ "free twice", weir_free(stale),
			WEIR_EINVAL };
	case 1:
		return (struct refusal){ "free twice on a stream",
			weir_free_async(stale, stream), WEIR_EINVAL };
	case 2:
		return (struct refusal){ "record what is free",
			weir_record_stream(stale, stream), WEIR_EINVAL };
	default:
		return (struct refusal){ "ask about what is free",
			weir_block_info(stale, &info), WEIR_EINVAL };
	}
}

static enum weir_status
malloc_status(int device, size_t size, weir_stream stream)
{
	return weir_malloc_on(device, size, stream) == NULL ?
	    weir_last_status() :
	    WEIR_OK;
}

static struct refusal
misuse_arguments(struct model *m)
{
	weir_stream stream = model_stream(m, model_any_slot(m));
	char foreign;

	switch (model_below(m, 8)) {
	case 0:
		return (struct refusal){ "0 bytes", malloc_status(0, 0, stream),
			WEIR_EINVAL };
	case 1:
		return (struct refusal){ "too many bytes",
			malloc_status(0, WEIR_SIZE_MAX + 1, stream),
			WEIR_EINVAL };
	case 2:
		return (struct refusal){ "no such device",
			malloc_status(99, 512, NULL), WEIR_ENODEVICE };
	case 3:
		return (struct refusal){ "free of another's memory",
			weir_free(&foreign), WEIR_EINVAL };
	case 4:
		return (struct refusal){ "an unknown option",
			weir_options_set("no_such_option:1"), WEIR_EINVAL };
	case 5:
		return (struct refusal){ "an option's bad value",
			weir_options_set("max_split_size_mb:1"), WEIR_EINVAL };
	case 6:
		return (struct refusal){ "destroy a pool stream",
			weir_stream_destroy(model_stream(m, SLOT_POOL)),
			WEIR_EINVAL };
	default:
		return (struct refusal){ "destroy a default stream",
			weir_stream_destroy(NULL), WEIR_EINVAL };
	}
}

void
step_misuse(struct model *m)
{
	struct weir_stats before = { .struct_size = sizeof(before) };
	struct weir_stats after = { .struct_size = sizeof(after) };
	struct refusal refusal;

	weir_stats(0, &before);
	switch (model_below(m, 3)) {
	case 0:
		refusal = misuse_block(m);
		break;
	case 1:
		refusal = misuse_stale(m);
		break;
	default:
		refusal = misuse_arguments(m);
		break;
	}
	model_say(m, "misuse: %s", refusal.what);
	model_expect(m,
	    refusal.got == refusal.should ||
		(m->armed > 0 && refusal.got != WEIR_OK),
	    "gave %s (%s)", weir_status_name(refusal.got), weir_last_error());
	if (!m->alone)
		return;
	weir_stats(0, &after);
	after.metadata_bytes = before.metadata_bytes;
	model_expect(m, memcmp(&before, &after, sizeof(before)) == 0,
	    "it changed the statistics");
}

/* Compare the statistics of one stream with the model's. */
static void
ask_stream(struct model *m, unsigned slot)
{
	struct weir_stats s = { .struct_size = sizeof(s) };
	uint64_t blocks = 0;
	uint64_t bytes = 0;

	for (size_t i = 0; i < m->n_blocks; i++) {
		if (m->blocks[i].owner == slot) {
			blocks++;
			bytes += m->blocks[i].bytes;
		}
	}
	if (!model_ok(m, weir_stats_stream(0, model_stream(m, slot), &s),
		"weir_stats_stream") ||
	    !m->alone)
		return;
	model_expect(m,
	    s.allocation.all.current == blocks &&
		s.allocated_bytes.all.current == bytes,
	    "stream %u has %llu blocks, %llu bytes; should be %llu, %llu", slot,
	    (unsigned long long)s.allocation.all.current,
	    (unsigned long long)s.allocated_bytes.all.current,
	    (unsigned long long)blocks, (unsigned long long)bytes);
	model_expect(m,
	    s.reserved_bytes.all.current >= s.active_bytes.all.current,
	    "stream %u has %llu bytes active of %llu", slot,
	    (unsigned long long)s.active_bytes.all.current,
	    (unsigned long long)s.reserved_bytes.all.current);
}

static void
ask_memory(struct model *m, unsigned slot)
{
	struct weir_stats s = { .struct_size = sizeof(s) };
	size_t available = 0;
	size_t total = 0;
	size_t largest = 0;

	if (model_ok(
		m, weir_memory_info(0, &available, &total), "weir_memory_info"))
		model_expect(m,
		    available <= total && total <= m->total &&
			total <= m->limit,
		    "%zu bytes free of %zu", available, total);
	weir_stats(0, &s);
	if (model_ok(m, weir_largest_free(0, model_stream(m, slot), &largest),
		"weir_largest_free") &&
	    m->alone)
		model_expect(m,
		    largest <= s.reserved_bytes.all.current -
			    s.active_bytes.all.current,
		    "the largest free block has %zu bytes", largest);
}

void
step_ask(struct model *m)
{
	struct model_block *b = model_any_block(m);
	unsigned slot = model_any_slot(m);

	model_say(m, "ask about stream %u", slot);
	if (b != NULL)
		model_expect_info(m, b, b->at + model_below(m, b->bytes));
	if (model_chance(m, 50))
		ask_stream(m, slot);
	else
		ask_memory(m, slot);
}
