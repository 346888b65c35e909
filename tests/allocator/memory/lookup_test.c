/*
 * From an address to its block: exact and by any address inside, across the
 * borders of leaves (2 MiB) and tables (16 GiB), and while others write. The
 * blocks are never read, so any pointer can stand for one.
 */
#include "allocator/memory/lookup.h"

#include <pthread.h>
#include <stdatomic.h>

#include "allocator/state.h"
#include "base/meta.h"
#include "tests/support/device.h"

#define GIB ((CUdeviceptr)1 << 30)
#define BASE ((CUdeviceptr)0x7f0000000000)

static char names[8];

/* The i-th of a few different blocks. */
static struct block *
block(int i)
{
	return (struct block *)(void *)&names[i];
}

static void
put(CUdeviceptr addr, struct block *which)
{
	EXPECT_OK(lookup_prepare(addr));
	lookup_set(addr, which);
}

TEST(nothing_is_found_before_anything_is_there)
{
	EXPECT_NULL(lookup_exact(BASE));
	EXPECT_NULL(lookup_floor(BASE));
	EXPECT_NULL(lookup_exact(0));
	EXPECT_NULL(lookup_floor(0));
	EXPECT_NULL(lookup_floor(UINT64_MAX));
	lookup_set(BASE, NULL);
}

TEST(a_prepared_address_has_no_block_yet)
{
	EXPECT_OK(lookup_prepare(BASE));
	EXPECT_NULL(lookup_exact(BASE));
	EXPECT_NULL(lookup_floor(BASE));
}

TEST(a_block_is_found_by_its_first_byte_only)
{
	put(BASE, block(0));
	EXPECT_EQ(lookup_exact(BASE), block(0));
	EXPECT_NULL(lookup_exact(BASE + 1));
	EXPECT_NULL(lookup_exact(BASE + 511));
	EXPECT_NULL(lookup_exact(BASE + 512));
	EXPECT_NULL(lookup_exact(BASE - 512));
}

TEST(the_floor_of_an_address_is_the_nearest_start_below_it)
{
	put(BASE, block(0));
	put(BASE + 1024, block(1));
	EXPECT_EQ(lookup_floor(BASE), block(0));
	EXPECT_EQ(lookup_floor(BASE + 1), block(0));
	EXPECT_EQ(lookup_floor(BASE + 1023), block(0));
	EXPECT_EQ(lookup_floor(BASE + 1024), block(1));
	EXPECT_EQ(lookup_floor(BASE + 2 * MIB - 1), block(1));
	EXPECT_NULL(lookup_floor(BASE - 1));
}

TEST(the_floor_is_found_over_borders_of_leaves_and_tables)
{
	put(BASE + 2 * MIB - 512, block(0));
	EXPECT_EQ(lookup_floor(BASE + 2 * MIB), block(0));
	EXPECT_EQ(lookup_floor(BASE + 10 * MIB), block(0));
	EXPECT_EQ(lookup_floor(BASE + 100 * GIB), block(0));
	put(BASE + 40 * GIB, block(1));
	EXPECT_EQ(lookup_floor(BASE + 40 * GIB - 1), block(0));
	EXPECT_EQ(lookup_floor(BASE + 40 * GIB), block(1));
	EXPECT_EQ(lookup_floor(BASE + 2000 * GIB), block(1));
}

TEST(the_floor_is_looked_for_no_further_than_16_tib_below)
{
	put(BASE, block(0));
	EXPECT_EQ(lookup_floor(BASE + 16000 * GIB), block(0));
	EXPECT_NULL(lookup_floor(BASE + 17000 * GIB));
}

TEST(a_block_taken_out_is_found_no_more)
{
	put(BASE, block(0));
	put(BASE + 512, block(1));
	put(BASE + 4 * MIB, block(2));
	lookup_set(BASE + 512, NULL);
	EXPECT_NULL(lookup_exact(BASE + 512));
	EXPECT_EQ(lookup_floor(BASE + 513), block(0));
	lookup_set(BASE, NULL);
	EXPECT_NULL(lookup_floor(BASE + 3 * MIB));
	EXPECT_EQ(lookup_floor(BASE + 5 * MIB), block(2));
}

TEST(a_sole_writer_of_a_word_of_starts_writes_the_same)
{
	EXPECT_OK(lookup_prepare(BASE));
	struct leaf *leaf = lookup_leaf(BASE);

	for (int i = 0; i < 3; i++)
		lookup_set_in_leaf(
		    leaf, BASE + (CUdeviceptr)i * 4096, block(i), true);
	lookup_set_in_leaf(leaf, BASE + 4096, NULL, true);
	EXPECT_EQ(lookup_exact(BASE), block(0));
	EXPECT_NULL(lookup_exact(BASE + 4096));
	EXPECT_EQ(lookup_floor(BASE + 8191), block(0));
	EXPECT_EQ(lookup_floor(BASE + 8193), block(2));
	lookup_set_in_leaf(leaf, BASE, NULL, true);
	lookup_set_in_leaf(leaf, BASE + 8192, NULL, true);
	EXPECT_NULL(lookup_floor(BASE + MIB));
}

TEST(a_segment_is_alone_in_whole_words_only)
{
	EXPECT(lookup_is_alone(BASE, 2 * MIB));
	EXPECT(lookup_is_alone(BASE + 32 * 1024, 32 * 1024));
	EXPECT(!lookup_is_alone(BASE, 16 * 1024));
	EXPECT(!lookup_is_alone(BASE + 4096, 2 * MIB));
}

TEST(one_block_takes_the_place_of_another)
{
	put(BASE, block(0));
	lookup_set(BASE, block(1));
	EXPECT_EQ(lookup_exact(BASE), block(1));
	EXPECT_EQ(lookup_floor(BASE + 100), block(1));
}

TEST(the_lowest_and_the_highest_addresses_can_be_used)
{
	CUdeviceptr top = ((CUdeviceptr)1 << 57) - 512;

	put(0, block(0));
	put(top, block(1));
	EXPECT_EQ(lookup_exact(0), block(0));
	EXPECT_EQ(lookup_floor(511), block(0));
	EXPECT_EQ(lookup_exact(top), block(1));
	EXPECT_EQ(lookup_floor(top + 511), block(1));
}

TEST(starts_of_64_bytes_are_found_among_those_of_512)
{
	put(BASE, block(0));
	put(BASE + 64, block(1));
	put(BASE + 448, block(2));
	put(BASE + 512, block(3));
	EXPECT_EQ(lookup_exact(BASE), block(0));
	EXPECT_EQ(lookup_exact(BASE + 64), block(1));
	EXPECT_NULL(lookup_exact(BASE + 32));
	EXPECT_NULL(lookup_exact(BASE + 65));
	EXPECT_NULL(lookup_exact(BASE + 128));
	EXPECT_EQ(lookup_floor(BASE + 63), block(0));
	EXPECT_EQ(lookup_floor(BASE + 447), block(1));
	EXPECT_EQ(lookup_floor(BASE + 511), block(2));
	EXPECT_EQ(lookup_floor(BASE + 600), block(3));
	lookup_set(BASE + 64, NULL);
	EXPECT_NULL(lookup_exact(BASE + 64));
	EXPECT_EQ(lookup_floor(BASE + 100), block(0));
}

TEST(the_floor_of_64_bytes_goes_over_the_borders_of_leaves_and_tables)
{
	/* A leaf of such starts is 256 KiB of addresses, a table 2 GiB. */
	put(BASE + 256 * 1024 - 64, block(0));
	EXPECT_EQ(lookup_floor(BASE + 256 * 1024), block(0));
	EXPECT_EQ(lookup_floor(BASE + 2 * MIB), block(0));
	put(BASE + 2 * GIB - 64, block(1));
	EXPECT_EQ(lookup_floor(BASE + 2 * GIB + MIB), block(1));
	put(BASE + 2 * GIB, block(2));
	EXPECT_EQ(lookup_floor(BASE + 2 * GIB + MIB), block(2));
	EXPECT_NULL(lookup_floor(BASE + MIB / 8));
}

TEST(addresses_of_64_bytes_end_at_54_bits)
{
	CUdeviceptr end = (CUdeviceptr)1 << 54;

	put(end - 64, block(0));
	EXPECT_EQ(lookup_exact(end - 64), block(0));
	EXPECT_EQ(lookup_floor(end - 1), block(0));
	EXPECT_STATUS(lookup_prepare(end + 64), WEIR_ENOTSUP);
	EXPECT_STR_HAS(weir_last_error(), "above 54 bits");
	EXPECT_NULL(lookup_exact(end + 64));
	/* Addresses with the same low bits, and the places of such starts. */
	EXPECT_NULL(lookup_exact((end - 64) | (CUdeviceptr)7 << 61));
	EXPECT_NULL(lookup_exact(((CUdeviceptr)1 << 57) + (end - 64) * 8));
}

TEST(addresses_above_57_bits_are_refused)
{
	EXPECT_STATUS(lookup_prepare((CUdeviceptr)1 << 57), WEIR_ENOTSUP);
	EXPECT_NULL(lookup_exact((CUdeviceptr)1 << 57));
	EXPECT_STATUS(lookup_prepare(UINT64_MAX - 511), WEIR_ENOTSUP);
}

TEST(want_of_host_memory_for_any_level_is_reported_and_a_retry_works)
{
	/* The root; the table, once there is a root; the leaf. */
	static const unsigned long nth[] = { 1, 2, 2 };

	for (size_t i = 0; i < sizeof(nth) / sizeof(nth[0]); i++) {
		meta_fail(nth[i], 1);
		EXPECT_STATUS(lookup_prepare(BASE), WEIR_EHOSTMEM);
		meta_fail(0, 0);
		EXPECT_NULL(lookup_exact(BASE));
		EXPECT_NULL(lookup_floor(BASE));
	}
	put(BASE, block(1));
	EXPECT_EQ(lookup_exact(BASE), block(1));
}

/* ---- Readers take no lock ---------------------------------------------- */

enum { SLOTS = 64 };
static atomic_bool stop;

static CUdeviceptr
slot(unsigned i)
{
	return BASE + (CUdeviceptr)(i % SLOTS) * (MIB + 512);
}

/* Only blocks that were there at some time may be found. */
static void *
read_all(void *unused)
{
	for (unsigned i = 0; !atomic_load(&stop); i++) {
		const struct block *exact = lookup_exact(slot(i));
		const struct block *low = lookup_floor(slot(i) + i % MIB);
		EXPECT(exact == NULL || exact == block((int)(i % 4)));
		EXPECT(low != NULL);
	}
	return unused;
}

TEST(readers_see_blocks_that_were_there_while_a_writer_changes_them)
{
	pthread_t readers[2];

	put(BASE - 512, block(7)); /* so that every floor exists */
	for (unsigned i = 0; i < SLOTS; i++)
		put(slot(i), block((int)(i % 4)));
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_create(&readers[i], NULL, read_all, NULL), 0);
	for (uint64_t n = test_effort(300000); n > 0; n--) {
		unsigned i = (unsigned)(n * 2654435761u >> 7);
		lookup_set(
		    slot(i), n % 3 == 0 ? NULL : block((int)(i % SLOTS % 4)));
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_join(readers[i], NULL), 0);
}
