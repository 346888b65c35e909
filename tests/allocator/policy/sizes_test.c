/*
 * Sizes: how a request is rounded, its kind, the size of a new segment, and
 * when a block is cut. Arithmetic only: no device is touched.
 */
#include "allocator/policy/sizes.h"

#include <stdio.h>

#include "tests/support/device.h"

static const struct options *
options(void)
{
	const struct options *out;

	EXPECT_OK(options_get(&out));
	return out;
}

static size_t
class_of(size_t n)
{
	return size_class(options(), n);
}

TEST(a_request_is_rounded_up_to_a_multiple_of_512_bytes)
{
	static const struct {
		size_t request;
		size_t rounded;
	} table[] = {
		{ 1, 512 },
		{ 511, 512 },
		{ 512, 512 },
		{ 513, 1024 },
		{ 1024, 1024 },
		{ 1048575, 1048576 },
		{ 1048576, 1048576 },
		{ 1048577, 1049088 },
		{ 10485248, 10485248 },
		{ 10485760, 10485760 },
		{ 10485761, 10486272 },
		{ 22020096, 22020096 },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		EXPECT_EQ(class_of(table[i].request), table[i].rounded);
}

TEST(driver_segments_have_the_sizes_of_the_table)
{
	static const struct {
		size_t request;
		size_t segment;
	} table[] = {
		{ 1, 2097152 },
		{ 513, 2097152 },
		{ 1048576, 2097152 },
		{ 1048577, 20971520 },
		{ 3145728, 18874368 },
		{ 4194304, 20971520 },
		{ 6291456, 18874368 },
		{ 7340032, 14680064 },
		{ 8388608, 16777216 },
		{ 10485248, 20971520 },
		{ 10485760, 10485760 },
		{ 10485761, 12582912 },
		{ 22020096, 23068672 },
		{ 1073741825, 1075838976 },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		EXPECT_EQ(size_segment(options(), class_of(table[i].request)),
		    table[i].segment);
}

TEST(large_segment_size_decides_segments_of_requests_from_1_to_10_mib)
{
	conf("large_segment_size_mb:48,max_non_split_rounding_mb:48");
	EXPECT_EQ(size_segment(options(), MIB), 2 * MIB);
	EXPECT_EQ(size_segment(options(), MIB + 512), 48 * MIB);
	EXPECT_EQ(size_segment(options(), 10 * MIB - 512), 40 * MIB);
	EXPECT_EQ(size_segment(options(), 6 * MIB), 48 * MIB);
	EXPECT_EQ(size_segment(options(), 10 * MIB), 10 * MIB);
}

TEST(an_odd_large_segment_size_becomes_a_whole_number_of_2_mib)
{
	conf("large_segment_size_mb:13");
	EXPECT_EQ(size_segment(options(), 7 * MIB), 14 * MIB);
}

TEST(a_segment_holds_as_many_blocks_as_segments_of_their_own_would)
{
	const struct options *o = options();

	for (size_t n = MIB + 512; n < 10 * MIB; n += 37 * 512) {
		size_t segment = size_segment(o, n);
		size_t fit = segment / n;
		EXPECT_EQ(segment % (2 * MIB), 0);
		EXPECT_LE(segment, 20 * MIB);
		EXPECT_GT(segment, 10 * MIB);
		EXPECT_LE(segment, fit * round_up(n, 2 * MIB));
		/* It could serve any request that it is not too small for. */
		EXPECT(size_serves(o, 20 * MIB, n));
	}
}

TEST(the_largest_request_does_not_overflow)
{
	EXPECT_EQ(class_of(WEIR_SIZE_MAX), WEIR_SIZE_MAX);
	EXPECT_EQ(size_segment(options(), WEIR_SIZE_MAX), WEIR_SIZE_MAX);
	conf("roundup_power2_divisions:8");
	EXPECT_EQ(class_of(WEIR_SIZE_MAX), WEIR_SIZE_MAX);
	EXPECT_EQ(class_of(WEIR_SIZE_MAX - 1), WEIR_SIZE_MAX);
}

/* ---- Divisions --------------------------------------------------------- */

TEST(with_8_divisions_84_mib_become_88_mib)
{
	conf("roundup_power2_divisions:8");
	EXPECT_EQ(class_of((size_t)84 * MIB), 88 * MIB);
	EXPECT_EQ(class_of((size_t)64 * MIB), 64 * MIB);
	EXPECT_EQ(class_of((size_t)64 * MIB + 1), 72 * MIB);
	EXPECT_EQ(class_of((size_t)127 * MIB), 128 * MIB);
}

TEST(one_division_rounds_to_the_next_power_of_two)
{
	conf("roundup_power2_divisions:1");
	EXPECT_EQ(class_of(512), 512);
	EXPECT_EQ(class_of(513), 1024);
	EXPECT_EQ(class_of(3 * MIB), 4 * MIB);
	EXPECT_EQ(class_of(4 * MIB), 4 * MIB);
}

TEST(steps_of_divisions_are_never_smaller_than_512_bytes)
{
	conf("roundup_power2_divisions:16");
	/* A sixteenth of 4 KiB would be 256 bytes. */
	EXPECT_EQ(class_of(5000), 5120);
	EXPECT_EQ(class_of(16 * 512), 16 * 512);
	/* From here on a step is a sixteenth of the power of two. */
	EXPECT_EQ(class_of(16 * 512 + 1), 17 * 512);
	EXPECT_EQ(class_of(2 * 16 * 512 + 1), 2 * 17 * 512);
}

/* A request in the middle of each class from 1 MiB to 32 GiB. */
static void
expect_divisions(const uint32_t expected[16])
{
	for (int i = 0; i < 16; i++)
		EXPECT_EQ(options()->roundup[i], expected[i]);
}

/* As PyTorch's parser has it, not its manual: between two keys, and above the
 * last one without >, nothing is rounded. */
TEST(a_list_of_divisions_fills_the_classes_below_its_first_key_and_above)
{
	conf("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]");
	expect_divisions(
	    (uint32_t[16]){ 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8 });
	conf("roundup_power2_divisions:"
	     "[64:8,128:2,256:2,512:2,1024:1,>:1]");
	expect_divisions(
	    (uint32_t[16]){ 8, 8, 8, 8, 8, 8, 8, 2, 2, 2, 1, 1, 1, 1, 1, 1 });
	conf("roundup_power2_divisions:[64:8,256:4]");
	expect_divisions(
	    (uint32_t[16]){ 8, 8, 8, 8, 8, 8, 8, 0, 4, 0, 0, 0, 0, 0, 0, 0 });
	conf("roundup_power2_divisions:[>:2]");
	expect_divisions(
	    (uint32_t[16]){ 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2 });
	conf("roundup_power2_divisions:0");
	expect_divisions((uint32_t[16]){ 0 });
}

TEST(the_divisions_of_a_list_are_those_of_the_request_s_own_class)
{
	conf("roundup_power2_divisions:[64:0,128:2,256:4,512:8,1024:0]");
	EXPECT_EQ(class_of((size_t)100 * MIB + 1), 100 * MIB + 512);
	EXPECT_EQ(class_of((size_t)129 * MIB), 192 * MIB);
	EXPECT_EQ(class_of((size_t)257 * MIB), 320 * MIB);
	EXPECT_EQ(class_of((size_t)513 * MIB), 576 * MIB);
	EXPECT_EQ(class_of((size_t)1025 * MIB), (size_t)1025 * MIB);
}

/* Sizes of all magnitudes, the same at each run. */
static size_t
some_size(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	unsigned bits = (unsigned)(*seed >> 59) + 4;
	size_t n = (size_t)(*seed >> 8) & (((size_t)1 << bits) - 1);
	return n == 0 ? 1 : n;
}

static void
expect_class_is_good(size_t n, unsigned parts)
{
	size_t rounded = class_of(n);
	size_t power = (size_t)1 << (63 - __builtin_clzll(n));
	size_t step = parts == 0 || power / parts < 512 ? 512 : power / parts;

	EXPECT_GE(rounded, n);
	EXPECT_EQ(rounded % 512, 0);
	EXPECT_LT(rounded - n, step);
	EXPECT_EQ(class_of(rounded), rounded);
}

TEST(any_request_wastes_less_than_one_step_and_its_class_is_its_own_class)
{
	static const unsigned divisions[] = { 0, 1, 2, 4, 8, 16, 64 };
	uint64_t seed = 1;

	for (size_t d = 0; d < sizeof(divisions) / sizeof(*divisions); d++) {
		char text[64];
		snprintf(text, sizeof(text), "roundup_power2_divisions:%u",
		    divisions[d]);
		conf(text);
		for (int i = 0; i < 20000; i++)
			expect_class_is_good(some_size(&seed), divisions[d]);
	}
}

/* ---- Cutting ----------------------------------------------------------- */

TEST(small_and_expandable_blocks_are_cut_down_to_512_bytes)
{
	EXPECT(size_splits(options(), POOL_SMALL, false, 1024, 512));
	EXPECT(!size_splits(options(), POOL_SMALL, false, 512, 512));
	EXPECT(
	    size_splits(options(), POOL_LARGE, true, 2 * MIB + 512, 2 * MIB));
	EXPECT(!size_splits(options(), POOL_LARGE, true, 2 * MIB, 2 * MIB));
}

TEST(large_driver_blocks_are_cut_only_if_more_than_1_mib_remains)
{
	EXPECT(!size_splits(options(), POOL_LARGE, false, 22 * MIB, 21 * MIB));
	EXPECT(size_splits(
	    options(), POOL_LARGE, false, 22 * MIB, 21 * MIB - 512));
	EXPECT(!size_splits(options(), POOL_LARGE, false, 4 * MIB, 4 * MIB));
}

TEST(requests_of_max_split_size_or_more_are_never_cut_off)
{
	conf("max_split_size_mb:200");
	EXPECT(size_splits(options(), POOL_LARGE, false, 199 * MIB, 150 * MIB));
	EXPECT(
	    !size_splits(options(), POOL_LARGE, false, 250 * MIB, 200 * MIB));
}

TEST(oversize_blocks_serve_oversize_requests_of_nearly_their_size)
{
	conf("max_split_size_mb:200,max_non_split_rounding_mb:20");
	EXPECT(!size_serves(options(), 250 * MIB, 150 * MIB));
	EXPECT(size_serves(options(), 199 * MIB, 150 * MIB));
	EXPECT(!size_serves(options(), 250 * MIB, 230 * MIB));
	EXPECT(size_serves(options(), 250 * MIB, 230 * MIB + 512));
	EXPECT(size_serves(options(), 250 * MIB, 250 * MIB));
}

/* ---- Page-locked host memory ------------------------------------------- */

TEST(a_small_host_segment_fits_eight_and_is_a_small_part_of_held_memory)
{
	for (size_t size = 64; size <= 256 * KIB; size += 64) {
		size_t least = size_host_segment(POOL_SMALL, size, 0);
		EXPECT_GE(least, 8 * size);
		EXPECT(least == 256 * KIB || least < 16 * size);
		for (size_t held = MIB; held <= 256 * MIB; held *= 4) {
			size_t segment =
			    size_host_segment(POOL_SMALL, size, held);
			EXPECT(segment == least || segment <= held / 32);
			EXPECT_LE(segment, 2 * MIB);
			EXPECT_GE(segment, least);
		}
	}
	EXPECT_EQ(size_host_segment(POOL_FINE, 64, 15 * MIB), 256 * KIB);
	EXPECT_EQ(size_host_segment(POOL_FINE, 64, 16 * MIB), 512 * KIB);
	EXPECT_EQ(size_host_segment(POOL_FINE, 64, 64 * MIB), 2 * MIB);
}

TEST(a_large_host_segment_has_room_for_several_requests)
{
	static const struct {
		size_t request, held, segment;
	} rows[] = {
		{ 260 * KIB, 0, 260 * KIB },
		{ 3 * MIB, 0, 3 * MIB },
		{ 3 * MIB, 15 * MIB, 3 * MIB },
		{ 3 * MIB, 32 * MIB, 4 * MIB },
		{ 3 * MIB, 1024 * MIB, 64 * MIB },
		{ 3 * MIB, 8192 * (size_t)MIB, 64 * MIB },
		{ 100 * MIB, 512 * MIB, 100 * MIB },
		{ 100 * MIB, 1024 * MIB, 128 * MIB },
		{ 100 * MIB, 8192 * (size_t)MIB, 512 * MIB },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		EXPECT_EQ(size_host_segment(
			      POOL_LARGE, rows[i].request, rows[i].held),
		    rows[i].segment);
}

TEST(host_sizes_lose_an_eighth_at_most_from_512_bytes_on)
{
	for (size_t n = 1; n <= 300 * KIB; n++) {
		size_t fine = size_of_granule(FINE_GRANULE, n);
		EXPECT_GE(fine, n);
		EXPECT_LT(fine - n, n < FINE_END ? 64 : 512);
		EXPECT(n < 512 || (fine - n) * 8 < n);
		EXPECT_EQ(size_of_granule(512, n), round_up(n, 512));
	}
}
