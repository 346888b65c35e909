/*
 * Where in the program memory is allocated: for `--leaks` and `--sites`.
 *
 * Each live block is recorded with the stack of the call that allocated it.
 * Each stack, a site, has the sum of its live blocks. The amount that a site
 * held at the program's peak is updated lazily: peaks are numbered, and a site
 * stores what it held when it first changes after a peak.
 *
 * Nothing is recorded without WEIR_REPORT_LEAKS and WEIR_REPORT_SITES.
 */
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/meta.h"
#include "preload/ends.h"

#include "preload/lock.h"
#include "preload/tuning.h"
#include "snapshot/frames.h"
#include "stacks/stack.h"
#include "tools/report/report.h"

struct site_block {
	struct site_block *next;
	struct site *site;
	CUdeviceptr ptr;
	size_t bytes;
	int device;
};

/* The settings, which are constant once they have been read. */
static bool leaks_wanted;
static size_t top_wanted;
static struct stack_table *stacks;

/* Guards the data that follow. Stacks are captured and named without it. */
static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_REPORT);
static struct site_block *blocks[SITE_BLOCKS_FIRST];
static struct site *sites[SITES_FIRST];
static size_t n_sites;
static uint64_t live;
static uint64_t most_live;
static uint64_t peak;

/* ---- Asked for? -------------------------------------------------------- */

/* A child begins with no records. The memory of inherited ones is not freed. */
static void
forget_all(void)
{
	memset(blocks, 0, sizeof(blocks));
	memset(sites, 0, sizeof(sites));
	n_sites = 0;
	live = 0;
	most_live = 0;
	lock_init(&lock, LOCK_RANK_REPORT);
}

static size_t
read_top_count(void)
{
	const char *value = getenv("WEIR_REPORT_SITES");
	char *end;
	unsigned long n;

	if (value == NULL || *value == '\0')
		return 0;
	n = strtoul(value, &end, 10);
	if (*value >= '0' && *value <= '9' && *end == '\0')
		return n;
	log_write(LOG_ERROR,
	    "WEIR_REPORT_SITES: \"%s\" is not a number; no sites are reported",
	    value);
	return 0;
}

static void
read_site_settings(void)
{
	const char *leaks = getenv("WEIR_REPORT_LEAKS");

	if (!report_wanted())
		return;
	leaks_wanted =
	    leaks != NULL && *leaks != '\0' && strcmp(leaks, "0") != 0;
	top_wanted = read_top_count();
	if (!leaks_wanted && top_wanted == 0)
		return;
	stacks = stack_table_create(SITE_STACK_BYTES);
	if (stacks == NULL)
		log_write(LOG_ERROR,
		    "no host memory to remember where allocations come from");
	pthread_atfork(NULL, NULL, forget_all);
}

bool
sites_wanted(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static atomic_bool ready;

	if (!atomic_load_explicit(&ready, memory_order_acquire)) {
		pthread_once(&once, read_site_settings);
		atomic_store_explicit(&ready, true, memory_order_release);
	}
	return stacks != NULL;
}

/* ---- Blocks and sites, under the lock ---------------------------------- */

static struct site_block **
block_place_of(CUdeviceptr ptr) HOLDS(lock)
{
	struct site_block **at =
	    &blocks[hash_bucket_of(ptr, SITE_BLOCKS_FIRST)];

	while (*at != NULL && (*at)->ptr != ptr)
		at = &(*at)->next;
	return at;
}

/* NULL without memory. */
static struct site *
site_of(uint32_t stack) HOLDS(lock)
{
	struct site **at = &sites[hash_bucket_of(stack, SITES_FIRST)];

	while (*at != NULL && (*at)->stack != stack)
		at = &(*at)->next;
	if (*at == NULL) {
		*at = meta_zalloc(sizeof(**at));
		if (*at == NULL)
			return NULL;
		(*at)->stack = stack;
		(*at)->peak = peak;
		n_sites++;
	}
	return *at;
}

/* Called before the live bytes of a site change. */
static void
keep_peak(struct site *site) HOLDS(lock)
{
	if (site->peak == peak)
		return;
	site->bytes_at_peak = site->bytes;
	site->blocks_at_peak = site->blocks;
	site->peak = peak;
}

static void
site_add(struct site_block *block) HOLDS(lock)
{
	struct site *site = block->site;
	struct site_block **at =
	    &blocks[hash_bucket_of(block->ptr, SITE_BLOCKS_FIRST)];

	block->next = *at;
	*at = block;
	keep_peak(site);
	site->bytes += block->bytes;
	site->blocks++;
	live += block->bytes;
	if (live > most_live) {
		most_live = live;
		peak++;
	}
}

static struct site_block *
take_block(struct site_block **at) HOLDS(lock)
{
	struct site_block *block = *at;
	struct site *site;

	if (block == NULL)
		return NULL;
	*at = block->next;
	site = block->site;
	keep_peak(site);
	site->bytes -= block->bytes;
	site->blocks--;
	live -= block->bytes;
	return block;
}

/* ---- As the program goes on -------------------------------------------- */

void
sites_allocated(CUdeviceptr ptr, int device, size_t bytes)
{
	void *frames[STACK_FRAMES_MAX];
	struct site_block *block;
	struct site *site;
	uint32_t stack;

	if (!sites_wanted())
		return;
	block = meta_alloc(sizeof(*block));
	if (block == NULL)
		return;
	stack = stack_table_intern(
	    stacks, frames, stack_capture(frames, STACK_FRAMES_MAX, 0));
	preload_lock(&lock);
	site = site_of(stack);
	if (site != NULL) {
		*block = (struct site_block){ NULL, site, ptr, bytes, device };
		site->all_bytes += bytes;
		site->all_blocks++;
		site_add(block);
	}
	preload_unlock(&lock);
	if (site == NULL)
		meta_free(block, sizeof(*block));
}

struct site_block *
sites_take(CUdeviceptr ptr)
{
	struct site_block *block;

	if (!sites_wanted())
		return NULL;
	preload_lock(&lock);
	block = take_block(block_place_of(ptr));
	preload_unlock(&lock);
	return block;
}

void
sites_freed(struct site_block *block)
{
	meta_free(block, sizeof(*block));
}

void
sites_put_back(struct site_block *block)
{
	if (block == NULL)
		return;
	preload_lock(&lock);
	site_add(block);
	preload_unlock(&lock);
}

void
sites_device_ends(int device)
{
	if (!sites_wanted())
		return;
	preload_lock(&lock);
	for (size_t i = 0; i < SITE_BLOCKS_FIRST; i++) {
		struct site_block **at = &blocks[i];

		while (*at != NULL) {
			if ((*at)->device == device)
				meta_free(take_block(at), sizeof(**at));
			else
				at = &(*at)->next;
		}
	}
	preload_unlock(&lock);
}

/* ---- In the end -------------------------------------------------------- */

/* Which sites a list has, and in which order. */
static bool
counts_at_peak(struct site *site) HOLDS(lock)
{
	keep_peak(site);
	return site->bytes_at_peak != 0 || site->all_bytes != 0;
}

static bool
counts_now(struct site *site)
{
	return site->blocks != 0;
}

static int
falling(uint64_t a, uint64_t b)
{
	return (a < b) - (a > b);
}

static int
by_peak(const void *a, const void *b)
{
	const struct site *one = a;
	const struct site *two = b;
	int order = falling(one->bytes_at_peak, two->bytes_at_peak);

	return order != 0 ? order : falling(one->all_bytes, two->all_bytes);
}

static int
by_live(const void *a, const void *b)
{
	const struct site *one = a;
	const struct site *two = b;

	return falling(one->bytes, two->bytes);
}

/* The sites for which `counts` is true, in order and at most `most`. */
static struct site_list *
site_list_of(bool (*counts)(struct site *),
    int (*order)(const void *, const void *), size_t most)
{
	struct site_list *all;

	preload_lock(&lock);
	all = malloc(sizeof(*all) + n_sites * sizeof(all->sites[0]));
	if (all != NULL)
		*all = (struct site_list){ 0 };
	for (size_t i = 0; i < SITES_FIRST && all != NULL; i++)
		for (struct site *s = sites[i]; s != NULL; s = s->next)
			if (counts(s))
				all->sites[all->n++] = *s;
	preload_unlock(&lock);
	if (all == NULL)
		return NULL;
	qsort(all->sites, all->n, sizeof(all->sites[0]), order);
	for (size_t i = 0; i < all->n; i++) {
		all->bytes += all->sites[i].bytes;
		all->blocks += all->sites[i].blocks;
	}
	all->n_all = all->n;
	if (all->n > most)
		all->n = most;
	return all;
}

struct site_list *
sites_leaks(void)
{
	if (!sites_wanted() || !leaks_wanted)
		return NULL;
	return site_list_of(counts_now, by_live, SIZE_MAX);
}

struct site_list *
sites_top(void)
{
	if (!sites_wanted() || top_wanted == 0)
		return NULL;
	return site_list_of(counts_at_peak, by_peak, top_wanted);
}

void
sites_describe(
    uint32_t stack, void (*tell)(void *user, const char *line), void *user)
{
	static struct frames *frames;

	if (frames == NULL) {
		frames = frames_new(stacks, 0);
		if (frames == NULL)
			return;
		frames_name_all(frames);
	}
	frames_tell(frames, stack, UINT_MAX, tell, user);
}
