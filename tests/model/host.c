/*
 * The steps on page-locked memory. A block keeps what the host wrote to it
 * until the host frees it; and longer, until the copies have read it that were
 * queued before the free, if their streams were recorded.
 */
#include <string.h>

#include <weir/host.h>

#include "driver/driver.h"
#include "tests/model/model.h"
#include "tests/support/device.h"

/* ---- Contents ---------------------------------------------------------- */

/* The host writes a block's mark at its start, to its last byte, and to one
 * byte of each span of these bytes. */
enum { START = 8, SPAN = 256 << 10 };

static size_t
start_of(const struct model_host *h)
{
	return h->size < START ? h->size : START;
}

static void
mark_host(struct model_host *h, unsigned char mark)
{
	h->mark = mark;
	memset(h->at, mark, start_of(h));
	for (size_t at = SPAN; at < h->size; at += SPAN)
		h->at[at] = mark;
	h->at[h->size - 1] = mark;
}

static void
expect_marked(struct model *m, const struct model_host *h)
{
	bool kept = h->at[h->size - 1] == h->mark;

	for (size_t at = 0; at < start_of(h); at++)
		kept = kept && h->at[at] == h->mark;
	for (size_t at = SPAN; at < h->size; at += SPAN)
		kept = kept && h->at[at] == h->mark;
	model_expect(m, kept, "%p, %zu bytes, lacks its mark %#x",
	    (void *)h->at, h->size, h->mark);
}

/* ---- Steps ------------------------------------------------------------- */

static size_t
any_host_size(struct model *m)
{
	unsigned kind = (unsigned)model_below(m, 100);

	if (kind < 50)
		return 1 + model_below(m, 4 * KIB);
	if (kind < 75)
		return 1 + model_below(m, 256 * KIB);
	return 256 * KIB + model_below(m, 24 * (size_t)MIB);
}

static size_t
alignment_of(size_t size)
{
	if (size > 256 * KIB)
		return 4 * KIB;
	return size < 4 * KIB ? 64 : 512;
}

static void
expect_host_apart(struct model *m, const struct model_host *h)
{
	for (int i = 0; i < MODEL_HOST; i++) {
		const struct model_host *o = &m->host[i];

		model_expect(m,
		    o->at == NULL || o == h || h->at + h->size <= o->at ||
			o->at + o->size <= h->at,
		    "%p, %zu bytes, overlaps the live %p, %zu bytes",
		    (void *)h->at, h->size, (void *)o->at, o->size);
	}
}

static void
allocate_host(struct model *m, struct model_host *h)
{
	size_t size = any_host_size(m);
	unsigned flags = model_chance(m, 30) ? (unsigned)model_below(m, 8) : 0;

	model_say(m, "allocate %zu bytes of the host, flags %u", size, flags);
	unsigned char *at = flags == 0 ? weir_host_malloc(size) :
					 weir_host_malloc_on(0, size, flags);
	if (!model_ok(m, at != NULL ? WEIR_OK : weir_last_status(),
		"weir_host_malloc"))
		return;
	*h = (struct model_host){ .at = at, .size = size };
	model_expect(m, (uintptr_t)at % alignment_of(size) == 0,
	    "%p, %zu bytes, is not aligned", (void *)at, size);
	model_expect(m, weir_host_is_pinned(at + size - 1),
	    "%p, %zu bytes, is not page-locked", (void *)at, size);
	expect_host_apart(m, h);
	mark_host(h, (unsigned char)(1 + model_below(m, 255)));
}

/* A stream reads the block, some time later. */
static void
read_host(struct model *m, struct model_host *h)
{
	unsigned slot = model_any_slot(m);
	weir_stream stream = model_stream(m, slot);
	uint32_t word = UINT32_C(0x01010101) * h->mark;

	if (h->size < sizeof(word))
		return;
	model_say(m, "stream %u reads %p, %zu bytes of the host", slot,
	    (void *)h->at, h->size);
	if (m->n_probes == MODEL_PROBES)
		model_verify(m);
	uint32_t *to = &m->read[m->n_probes];
	*to = ~word;
	m->expected[m->n_probes] = word;
	if (!model_driver_ok(m,
		driver_peek()->cuMemcpyDtoHAsync(
		    to, (CUdeviceptr)(uintptr_t)h->at, sizeof(word), stream),
		"cuMemcpyDtoHAsync"))
		return;
	m->n_probes++;
	h->is_read = true;
	/* If weir does not know of the copy, the caller has to wait. */
	if (!model_ok(m, weir_host_record(h->at, stream), "weir_host_record"))
		model_verify(m);
}

static void
free_host(struct model *m, struct model_host *h)
{
	unsigned char *at = h->at;

	model_say(m, "free %p, %zu bytes of the host", (void *)at, h->size);
	expect_marked(m, h);
	model_expect(m,
	    h->size == 1 || weir_host_free(at + h->size / 2) == WEIR_EINVAL,
	    "the middle of %p, %zu bytes, was freed", (void *)at, h->size);
	h->at = NULL;
	model_expect(m, weir_host_free(at) == WEIR_OK, "weir_host_free: %s",
	    weir_last_error());
}

static void
trim_host(struct model *m)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	size_t keep = model_chance(m, 50) ? 0 : model_below(m, 64 * MIB);

	model_say(m, "trim page-locked memory to %zu bytes", keep);
	if (!model_ok(m, weir_host_trim(0, keep, NULL), "weir_host_trim") ||
	    m->armed > 0)
		return;
	model_ok(m, weir_host_stats(0, &stats), "weir_host_stats");
	model_expect(m, stats.pending_bytes == 0,
	    "%llu bytes pending after a trim",
	    (unsigned long long)stats.pending_bytes);
}

static void
check_host(struct model *m)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	size_t bytes = 0;
	size_t n = 0;

	for (int i = 0; i < MODEL_HOST; i++) {
		n += m->host[i].at != NULL;
		bytes += m->host[i].at != NULL ? m->host[i].size : 0;
	}
	model_ok(m, weir_host_stats(0, &stats), "weir_host_stats");
	model_expect(m, stats.allocation.all.current == n,
	    "%llu blocks of the host in use, not %zu",
	    (unsigned long long)stats.allocation.all.current, n);
	/* These include what is freed and pending. */
	model_expect(m,
	    stats.requested_bytes.all.current >= bytes &&
		(stats.requested_bytes.all.current == bytes ||
		    stats.pending_bytes > 0),
	    "%llu bytes of the host in use, not %zu",
	    (unsigned long long)stats.requested_bytes.all.current, bytes);
}

void
step_host(struct model *m)
{
	struct model_host *h = &m->host[model_below(m, MODEL_HOST)];

	if (model_chance(m, 3))
		trim_host(m);
	else if (h->at == NULL)
		allocate_host(m, h);
	else if (model_chance(m, 40))
		read_host(m, h);
	else if (model_chance(m, 20) && !h->is_read)
		mark_host(h, (unsigned char)(1 + model_below(m, 255)));
	else
		free_host(m, h);
	check_host(m);
}

void
model_host_read(struct model *m)
{
	for (int i = 0; i < MODEL_HOST; i++)
		m->host[i].is_read = false;
}

void
model_clear_host(struct model *m)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };

	for (int i = 0; i < MODEL_HOST; i++)
		if (m->host[i].at != NULL)
			free_host(m, &m->host[i]);
	if (!m->alone || m->mix->weight[STEP_host] == 0)
		return;
	model_ok(m, weir_host_trim(0, 0, NULL), "weir_host_trim");
	model_ok(m, weir_host_stats(0, &stats), "weir_host_stats");
	model_expect(m, stats.reserved_bytes.all.current == 0,
	    "%llu page-locked bytes held at the end",
	    (unsigned long long)stats.reserved_bytes.all.current);
}
