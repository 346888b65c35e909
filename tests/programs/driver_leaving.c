/*
 * A program that maps memory of its own handles, and sleeps and wakes. It
 * prints "right", or what is wrong.
 *
 *	driver_leaving back	it comes back with its contents and access
 *	driver_leaving stays	what is shared or mapped otherwise stays
 *	driver_leaving asleep	the calls that the program makes meanwhile
 *	driver_leaving numbers	the numbers of handles, which stay valid
 *	driver_leaving waits	another thread's call waits
 *	driver_leaving faults	each call of the driver fails
 *	driver_leaving peer	another device has access
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/sleep.h>

#include "common/handles.h"
#include "driver/entries.h"

enum { MIB = 1 << 20, BYTES = 4 * MIB, NOT_READY = 600, READ = 1, WRITE = 3 };

/* X(name, params) */
#define FETCHED(X)                                                             \
	HANDLE_FUNCTIONS(X)                                                    \
	X(cuMemGetAllocationPropertiesFromHandle,                              \
	    (struct handle_wish *, handle))                                    \
	X(cuMemGetAccess,                                                      \
	    (unsigned long long *, const struct location *, address))

static struct {
#define FETCHED_FIELD(name, params) result(*name) params;
	FETCHED(FETCHED_FIELD)
#undef FETCHED_FIELD
} driver;

static struct cuda cuda;
static context primary;
static enum weir_status (*weir_sleeps)(
    int, const struct weir_sleep_options *, struct weir_sleep_result *);
static enum weir_status (*weir_wakes)(int, uint64_t, struct weir_wake_result *);
static int (*sim_fail)(const char *, uint64_t, uint64_t, result);
static void (*sim_reset)(void);
static long (*sim_live)(const char *);
static uint64_t (*sim_calls)(const char *);
static int wrong;

static void
check(int right, const char *what, int line)
{
	if (right)
		return;
	printf("%d: %s\n", line, what);
	wrong = 1;
}
#define CHECK(condition) check(condition, #condition, __LINE__)

/* ---- Memory ---------------------------------------------------------------
 */

struct piece {
	handle made;
	address at;
	unsigned value;
};

static const struct handle_wish on_device = {
	.type = 1, .handle_types = 1, .location = { 1, 0 }
};

static void
open_to(address at, int device, int flags)
{
	struct access access = { { 1, device }, flags };

	MUST(driver.cuMemSetAccess(at, BYTES, &access, 1));
}

static void
fill(address at, unsigned value)
{
	MUST(cuda.fill(at, value, BYTES / 4, NULL));
	MUST(cuda.synchronize());
}

static struct piece
make(unsigned value)
{
	struct piece piece = { .value = value };

	MUST(driver.cuMemCreate(&piece.made, BYTES, &on_device, 0));
	MUST(driver.cuMemAddressReserve(&piece.at, BYTES, 0, 0, 0));
	MUST(driver.cuMemMap(piece.at, BYTES, 0, piece.made, 0));
	open_to(piece.at, 0, WRITE);
	fill(piece.at, value);
	return piece;
}

static int
holds(address at, unsigned value)
{
	static unsigned words[BYTES / 4];

	MUST(cuda.copy_out(words, at, BYTES));
	for (int i = 0; i < BYTES / 4; i++)
		if (words[i] != value)
			return 0;
	return 1;
}

static void
drop(struct piece *piece)
{
	MUST(driver.cuMemUnmap(piece->at, BYTES));
	MUST(driver.cuMemRelease(piece->made));
	MUST(driver.cuMemAddressFree(piece->at, BYTES));
}

static struct weir_sleep_result
sleeps(void)
{
	struct weir_sleep_result slept = { .struct_size = sizeof(slept) };

	MUST((int)weir_sleeps(0, NULL, &slept));
	return slept;
}

static struct weir_wake_result
wakes(void)
{
	struct weir_wake_result woken = { .struct_size = sizeof(woken) };

	MUST((int)weir_wakes(0, 0, &woken));
	return woken;
}

static size_t
free_bytes(void)
{
	size_t free_bytes, total;

	MUST(cuda.get_info(&free_bytes, &total));
	return free_bytes;
}

/* ---- Coming back ----------------------------------------------------------
 */

static void
back(void)
{
	unsigned long long flags;
	struct location here = { 1, 0 };
	struct piece kept = make(11);
	struct piece read_only = make(12);
	struct piece loose = make(13);
	size_t before;

	open_to(read_only.at, 0, READ);
	/* As NCCL does: the memory lives by its mapping. */
	MUST(driver.cuMemRelease(loose.made));
	for (int i = 0; i < 3; i++) {
		before = free_bytes();
		struct weir_sleep_result slept = sleeps();
		CHECK(slept.freed_bytes >= 3 * BYTES);
		CHECK(slept.copied_bytes >= 3 * BYTES);
		CHECK(slept.stays[WEIR_SLEEP_SHARED].count == 0);
		CHECK(slept.stays[WEIR_SLEEP_ODD].count == 0);
		CHECK(sim_fail == NULL || free_bytes() >= before + 3 * BYTES);
		struct weir_sleep_result again = sleeps();
		CHECK(again.freed_bytes == 0);
		struct weir_wake_result woken = wakes();
		CHECK(woken.mapped_bytes >= 3 * BYTES);
		CHECK(woken.copied_bytes >= 3 * BYTES);
		CHECK(holds(kept.at, 11 + (unsigned)i));
		CHECK(holds(read_only.at, 12));
		CHECK(holds(loose.at, 13));
		MUST(driver.cuMemGetAccess(&flags, &here, read_only.at));
		CHECK(flags == READ);
		MUST(driver.cuMemGetAccess(&flags, &here, kept.at));
		CHECK(flags == WRITE);
		fill(kept.at, 12 + (unsigned)i);
	}
	drop(&kept);
	drop(&read_only);
	MUST(driver.cuMemUnmap(loose.at, BYTES));
	CHECK(sim_live == NULL || free_bytes() >= before);
}

/* ---- What stays ------------------------------------------------------------
 */

static void
stays(void)
{
	struct piece exported = make(21);
	struct piece twice = make(22);
	struct piece unmapped = make(23);
	struct piece hidden = make(24);
	address other;
	handle imported;
	int fd;

	MUST(driver.cuMemExportToShareableHandle(&fd, exported.made, 1, 0));
	MUST(driver.cuMemAddressReserve(&other, BYTES, 0, 0, 0));
	MUST(driver.cuMemMap(other, BYTES, 0, twice.made, 0));
	open_to(other, 0, WRITE);
	MUST(driver.cuMemUnmap(unmapped.at, BYTES));
	open_to(hidden.at, 0, 0);
	struct weir_sleep_result slept = sleeps();
	CHECK(slept.stays[WEIR_SLEEP_SHARED].count == 1);
	CHECK(slept.stays[WEIR_SLEEP_SHARED].bytes == BYTES);
	CHECK(slept.stays[WEIR_SLEEP_ODD].count == 3);
	CHECK(slept.stays[WEIR_SLEEP_ODD].bytes == 3 * BYTES);
	/* It is still there for others. */
	MUST(driver.cuMemImportFromShareableHandle(
	    &imported, (void *)(uintptr_t)fd, 1));
	MUST(driver.cuMemRelease(imported));
	wakes();
	CHECK(holds(exported.at, 21));
	CHECK(holds(twice.at, 22));
	MUST(driver.cuMemMap(unmapped.at, BYTES, 0, unmapped.made, 0));
	open_to(unmapped.at, 0, WRITE);
	CHECK(holds(unmapped.at, 23));
	/* Now they leave. */
	MUST(driver.cuMemUnmap(other, BYTES));
	open_to(hidden.at, 0, WRITE);
	slept = sleeps();
	CHECK(slept.stays[WEIR_SLEEP_ODD].count == 0);
	wakes();
	CHECK(holds(twice.at, 22));
	CHECK(holds(unmapped.at, 23));
	CHECK(holds(hidden.at, 24));
	drop(&exported);
	drop(&twice);
	drop(&unmapped);
	drop(&hidden);
	close(fd);
}

/* The machine has two devices. */
static void
peer(void)
{
	struct piece piece = make(31);

	open_to(piece.at, 1, READ);
	struct weir_sleep_result slept = sleeps();
	CHECK(slept.stays[WEIR_SLEEP_SHARED].count == 1);
	wakes();
	CHECK(holds(piece.at, 31));
	open_to(piece.at, 1, 0);
	slept = sleeps();
	CHECK(slept.stays[WEIR_SLEEP_SHARED].count == 0);
	wakes();
	CHECK(holds(piece.at, 31));
	drop(&piece);
}

/* ---- While it sleeps --------------------------------------------------------
 */

/* Calls of the thread that sleeps, on memory that is away. */
static void
refused(const struct piece *away, const struct piece *new)
{
	struct access access = { { 1, 0 }, READ };
	struct location here = { 1, 0 };
	unsigned long long flags;
	struct handle_wish wish;
	handle got;
	int fd;

	CHECK(driver.cuMemSetAccess(away->at, BYTES, &access, 1) == NOT_READY);
	CHECK(driver.cuMemGetAccess(&flags, &here, away->at) == NOT_READY);
	CHECK(driver.cuMemMap(new->at, BYTES, 0, away->made, 0) == NOT_READY);
	CHECK(driver.cuMemRetainAllocationHandle(
		  &got, (void *)(uintptr_t)away->at) == NOT_READY);
	CHECK(driver.cuMemExportToShareableHandle(&fd, away->made, 1, 0) ==
	    NOT_READY);
	CHECK(driver.cuMemGetAllocationPropertiesFromHandle(
		  &wish, away->made) == NOT_READY);
	CHECK(
	    driver.cuMemMap(away->at, BYTES, 0, new->made, 0) == INVALID_VALUE);
	CHECK(driver.cuMemAddressFree(away->at, BYTES) == INVALID_VALUE);
	CHECK(driver.cuMemUnmap(away->at, BYTES / 2) == INVALID_VALUE);
}

static void
asleep(void)
{
	size_t before = free_bytes();
	struct piece kept = make(41);
	struct piece dropped = make(42);
	struct piece moved = make(43);
	struct piece new = { 0 };
	address taken;

	sleeps();
	/* Memory of its own can be made and mapped. */
	MUST(driver.cuMemCreate(&new.made, BYTES, &on_device, 0));
	MUST(driver.cuMemAddressReserve(&new.at, BYTES, 0, 0, 0));
	refused(&kept, &new);
	MUST(driver.cuMemMap(new.at, BYTES, 0, new.made, 0));
	open_to(new.at, 0, WRITE);
	/* As vLLM and torch_memory_saver give memory back. */
	drop(&dropped);
	CHECK(driver.cuMemRelease(dropped.made) != SUCCESS);
	/* A handle without a mapping keeps the contents. */
	MUST(driver.cuMemUnmap(moved.at, BYTES));
	MUST(driver.cuMemAddressFree(moved.at, BYTES));
	MUST(driver.cuMemAddressReserve(&taken, BYTES, 0, moved.at, 0));
	struct weir_wake_result woken = wakes();
	CHECK(woken.mapped_bytes >= 2 * BYTES);
	CHECK(holds(kept.at, 41));
	MUST(driver.cuMemAddressReserve(&moved.at, BYTES, 0, 0, 0));
	MUST(driver.cuMemMap(moved.at, BYTES, 0, moved.made, 0));
	open_to(moved.at, 0, WRITE);
	CHECK(holds(moved.at, 43));
	fill(new.at, 44);
	CHECK(holds(kept.at, 41));
	CHECK(holds(new.at, 44));
	drop(&kept);
	drop(&moved);
	drop(&new);
	MUST(driver.cuMemAddressFree(taken, BYTES));
	CHECK(sim_live == NULL || free_bytes() + MIB >= before);
}

static struct piece waited;
static atomic_int mapped;

static void *
map_again(void *unused)
{
	address at;

	MUST(cuda.set_current(primary));
	MUST(driver.cuMemAddressReserve(&at, BYTES, 0, 0, 0));
	MUST(driver.cuMemMap(at, BYTES, 0, waited.made, 0));
	atomic_store(&mapped, 1);
	open_to(at, 0, WRITE);
	CHECK(holds(at, 51));
	MUST(driver.cuMemUnmap(at, BYTES));
	return unused;
}

static void
waits(void)
{
	pthread_t thread;

	waited = make(51);
	sleeps();
	MUST(pthread_create(&thread, NULL, map_again, NULL));
	usleep(200 * 1000);
	CHECK(!atomic_load(&mapped));
	wakes();
	pthread_join(thread, NULL);
	CHECK(atomic_load(&mapped));
	drop(&waited);
}

/* ---- Numbers ---------------------------------------------------------------
 */

static void
numbers(void)
{
	enum { N = 8 };
	struct piece old[N];
	struct piece new[N];
	struct handle_wish wish;
	handle again;
	int fd;

	for (int i = 0; i < N; i++)
		old[i] = make(60 + (unsigned)i);
	for (int round = 0; round < 2; round++) {
		sleeps();
		/* The driver may give the old numbers to new memory. */
		for (int i = 0; i < N; i++)
			MUST(driver.cuMemCreate(
			    &new[i].made, BYTES, &on_device, 0));
		wakes();
		for (int i = 0; i < N * N; i++)
			CHECK(old[i / N].made != new[i % N].made);
		for (int i = 0; i < N; i++) {
			MUST(driver.cuMemAddressReserve(
			    &new[i].at, BYTES, 0, 0, 0));
			MUST(driver.cuMemMap(
			    new[i].at, BYTES, 0, new[i].made, 0));
			open_to(new[i].at, 0, WRITE);
			fill(new[i].at, 100 + (unsigned)i);
		}
		for (int i = 0; i < N; i++) {
			CHECK(holds(old[i].at, old[i].value));
			CHECK(holds(new[i].at, 100 + (unsigned)i));
		}
		/* A handle is retained under the number that is known. */
		MUST(driver.cuMemRetainAllocationHandle(
		    &again, (void *)(uintptr_t)old[0].at));
		CHECK(again == old[0].made);
		MUST(driver.cuMemRelease(again));
		MUST(driver.cuMemGetAllocationPropertiesFromHandle(
		    &wish, old[0].made));
		CHECK(wish.location.id == 0);
		/* The old number maps the old memory. */
		MUST(driver.cuMemUnmap(old[1].at, BYTES));
		MUST(driver.cuMemMap(old[1].at, BYTES, 0, old[1].made, 0));
		open_to(old[1].at, 0, WRITE);
		CHECK(holds(old[1].at, old[1].value));
		for (int i = 0; i < N; i++)
			drop(&new[i]);
	}
	MUST(driver.cuMemExportToShareableHandle(&fd, old[2].made, 1, 0));
	MUST(driver.cuMemImportFromShareableHandle(
	    &again, (void *)(uintptr_t)fd, 1));
	MUST(driver.cuMemRelease(again));
	CHECK(sleeps().stays[WEIR_SLEEP_SHARED].count == 1);
	wakes();
	for (int i = 0; i < N; i++) {
		CHECK(holds(old[i].at, old[i].value));
		drop(&old[i]);
	}
	close(fd);
}

/* ---- Faults -----------------------------------------------------------------
 */

#define ENTRY_NAME(U, kind, symbol, base, ...) #base,
static const char *const entries[] = { DRIVER_CALLS(ENTRY_NAME, ) };

enum { ENTRIES = sizeof(entries) / sizeof(entries[0]) };

static void
fail_entry(const char *entry, uint64_t nth, uint64_t count,
    const struct piece *a, const struct piece *b)
{
	int before = wrong;

	sim_fail(entry, nth, count, OUT_OF_MEMORY);
	if (weir_sleeps(0, NULL, NULL) == WEIR_OK)
		(void)weir_wakes(0, 0, NULL);
	sim_reset();
	CHECK(weir_wakes(0, 0, NULL) == WEIR_OK);
	CHECK(holds(a->at, 71));
	CHECK(holds(b->at, 72));
	if (wrong != before)
		printf("%s %d %d\n", entry, (int)nth, (int)count);
}

static void
faults(void)
{
	struct piece a = make(71);
	struct piece b = make(72);
	uint64_t calls[ENTRIES];
	long handles, mappings;

	MUST(driver.cuMemRelease(b.made));
	if (sim_fail == NULL)
		return;
	for (int i = 0; i < 3; i++) {
		sim_reset();
		sleeps();
		wakes();
	}
	for (size_t i = 0; i < ENTRIES; i++)
		calls[i] = sim_calls(entries[i]);
	handles = sim_live("handle");
	mappings = sim_live("mapping");
	for (size_t i = 0; i < ENTRIES; i++)
		for (uint64_t nth = 1; nth < 4 && nth <= calls[i]; nth++) {
			fail_entry(entries[i], nth, 1, &a, &b);
			/* A driver that releases nothing more keeps all. */
			if (strcmp(entries[i], "cuMemRelease") != 0 &&
			    strcmp(entries[i], "cuMemUnmap") != 0)
				fail_entry(entries[i], nth, 1000000, &a, &b);
		}
	CHECK(sim_live("handle") == handles);
	CHECK(sim_live("mapping") == mappings);
	fail_entry("cuMemUnmap", 1, 1000000, &a, &b);
	fail_entry("cuMemRelease", 1, 1000000, &a, &b);
	drop(&a);
	MUST(driver.cuMemUnmap(b.at, BYTES));
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = { { "back", back }, { "stays", stays },
		{ "asleep", asleep }, { "waits", waits },
		{ "numbers", numbers }, { "faults", faults },
		{ "peer", peer } };
	void *library;
	address block;

	cuda_by_dlsym(&cuda);
#define FETCH(name, params) cuda_fetch(#name, &driver.name);
	FETCHED(FETCH)
#undef FETCH
	primary = cuda_start(&cuda);
	library = dlopen("libcuda.so.1", RTLD_NOW);
	*(void **)&weir_sleeps = dlsym(RTLD_DEFAULT, "weir_sleep");
	*(void **)&weir_wakes = dlsym(RTLD_DEFAULT, "weir_wake");
	*(void **)&sim_fail = dlsym(library, "simcuda_fail");
	*(void **)&sim_reset = dlsym(library, "simcuda_reset");
	*(void **)&sim_calls = dlsym(library, "simcuda_calls");
	*(void **)&sim_live = dlsym(library, "simcuda_live");
	if (weir_sleeps == NULL || weir_wakes == NULL || argc < 2)
		return 2;
	/* weir has begun on the device. */
	MUST(cuda.mem_alloc(&block, BYTES));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(argv[1], cases[i].name) == 0)
			cases[i].run();
	MUST(cuda.mem_free(block));
	if (!wrong)
		puts("right");
	return wrong;
}
