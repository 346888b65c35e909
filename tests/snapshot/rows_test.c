/*
 * Rows made from dicts, and dicts that are refused, by the field that is wrong.
 * The dicts are written as pickles of protocol 0, a line each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot/pickle_read.h"
#include "tests/support/test.h"

static struct snapshot *
read_text(const char *text)
{
	struct source source;
	struct snapshot *snapshot = NULL;

	source_of_memory(&source, text, strlen(text));
	return pickle_read(&source, &snapshot) == WEIR_OK ? snapshot : NULL;
}

/* A snapshot of one segment of 4096 bytes at 4096, with these additional fields
 * and these blocks. */
static struct snapshot *
read_segment(const char *fields, const char *blocks)
{
	char *text;
	struct snapshot *snapshot;

	EXPECT_GT(asprintf(&text,
		      "}Vsegments\n]}Vaddress\nI4096\nsVtotal_size\n"
		      "I4096\ns%sVblocks\n](%sesas.",
		      fields, blocks),
	    0);
	snapshot = read_text(text);
	free(text);
	return snapshot;
}

static void
expect_segment_refused(const char *fields, const char *blocks, const char *why)
{
	EXPECT_NULL(read_segment(fields, blocks));
	EXPECT_STR_HAS(weir_last_error(), why);
}

static void
expect_event_refused(const char *fields, const char *why)
{
	char *text;

	EXPECT_GT(asprintf(&text,
		      "}Vdevice_traces\n]](}Vaction\nValloc\ns%seas.", fields),
	    0);
	EXPECT_NULL(read_text(text));
	EXPECT_STR_HAS(weir_last_error(), why);
	free(text);
}

#define BLOCK(size, state) "}Vsize\nI" #size "\nsVstate\nV" state "\ns"

TEST(the_fields_of_a_segment_are_read)
{
	struct snapshot *snapshot = read_segment(
	    "Vdevice\nI3\nsVstream\nL140000000000000L\nsVis_expandable\n"
	    "I01\nsVsegment_type\nVsmall\nsVsegment_pool_id\n(I2\nI0\ntsV"
	    "allocated_size\nI7\ns",
	    BLOCK(4096, "inactive"));
	const struct snapshot_segment *segment = &snapshot->segments[0];

	EXPECT_EQ(segment->device, 3);
	EXPECT_EQ(segment->stream, UINT64_C(140000000000000));
	EXPECT(segment->expandable);
	EXPECT(segment->small);
	EXPECT_EQ(snapshot->pools[segment->pool].first, 2);
	EXPECT(segment->reports_allocated);
	EXPECT_EQ(segment->reported_allocated_bytes, 7);
	EXPECT(!segment->reports_active);
	snapshot_free(snapshot);
}

TEST(a_pool_may_be_a_list_too)
{
	struct snapshot *snapshot =
	    read_segment("Vsegment_pool_id\n(I2\nI5\nls", "");

	EXPECT_EQ(snapshot->pools[snapshot->segments[0].pool].second, 5);
	snapshot_free(snapshot);
}

TEST(blocks_without_an_address_follow_each_other)
{
	struct snapshot *snapshot = read_segment("",
	    BLOCK(512, "inactive") BLOCK(1024, "active_allocated")
		BLOCK(512, "active_awaiting_free"));

	EXPECT_EQ(snapshot->blocks[0].address, 4096);
	EXPECT_EQ(snapshot->blocks[1].address, 4608);
	EXPECT_EQ(snapshot->blocks[2].address, 5632);
	EXPECT_EQ(snapshot->blocks[2].state, SNAPSHOT_PENDING);
	snapshot_free(snapshot);
}

TEST(the_history_of_old_files_has_stack_and_requested_size)
{
	struct snapshot *snapshot = read_segment("",
	    "}Vsize\nI512\nsVstate\nVactive_allocated\nsVhistory\n"
	    "](}Vaddr\nI4096\nsVreal_size\nI100\nsVframes\n](}Vname\nVf\ns"
	    "Vfilename\nVg\nseses");
	const struct snapshot_block *block;

	EXPECT_NOT_NULL(snapshot);
	block = &snapshot->blocks[0];
	EXPECT_EQ(block->requested_bytes, 100);
	EXPECT_EQ(snapshot->stacks[block->stack].count, 1);
	snapshot_free(snapshot);
}

TEST(wrong_fields_of_segments_are_named)
{
	expect_segment_refused("Vdevice\nI-1\ns", "", "'device' of a segment");
	expect_segment_refused(
	    "Vdevice\nI5000\ns", "", "is not from 0 to 4095");
	expect_segment_refused(
	    "Vstream\nVx\ns", "", "'stream' of a segment is not a number");
	expect_segment_refused(
	    "Vactive_size\nI-5\ns", "", "'active_size' of a segment is below");
	expect_segment_refused("", "N", "'blocks' of a segment is not a list");
	EXPECT_NULL(read_text("}Vsegments\n]}Vaddress\nL18446744073709551615L\n"
			      "sVtotal_size\nI4096\nsVblocks\n]sas."));
	EXPECT_STR_HAS(
	    weir_last_error(), "'total_size' of a segment passes the end");
}

TEST(wrong_fields_of_blocks_are_named)
{
	expect_segment_refused(
	    "", BLOCK(512, "melted"), "'state' of a block is not active");
	expect_segment_refused("", BLOCK(-1, "inactive"),
	    "'size' of a block is below 0 or above 1 EiB");
	expect_segment_refused("",
	    "}Vaddress\nI-512\nsVsize\nI512\nsVstate\nVinactive\ns",
	    "behind the end of all addresses");
}

TEST(wrong_fields_of_events_are_named)
{
	expect_event_refused("Vsize\nI-1\ns", "'size' of an event is below 0");
	expect_event_refused(
	    "Vsize\nF1e300\ns", "'size' of an event is not a number");
	expect_event_refused("Vsize\nI1\nsVaddr\nVhere\ns",
	    "'addr' of an event is not a number");
	expect_event_refused("Vsize\nL1152921504606846977L\ns",
	    "'size' of an event is below 0 or above 1 EiB");
}

TEST(sums_above_4_eib_are_refused)
{
	expect_segment_refused("",
	    BLOCK(1152921504606846976, "inactive") BLOCK(1152921504606846976,
		"inactive") BLOCK(1152921504606846976, "inactive")
		BLOCK(1152921504606846976, "inactive") BLOCK(512, "inactive"),
	    "the blocks have more than 4 EiB");
}

TEST(two_segments_do_not_share_their_blocks)
{
	EXPECT_NULL(read_text(
	    "}Vsegments\n](}Vaddress\nI0\nsVtotal_size\nI512\nsVblocks\n"
	    "](" BLOCK(512, "inactive") "ep0\ns}Vaddress\nI0\nsVtotal_size\n"
					"I512\nsVblocks\ng0\nses."));
	EXPECT_STR_HAS(
	    weir_last_error(), "is the list of another segment, too");
}

TEST(a_key_given_twice_counts_once)
{
	struct snapshot *snapshot = read_text(
	    "(Vdevice_traces\n](](}Vaction\nVoom\nsVsize\nI1\nseeVdevice_traces"
	    "\n](]]]eVsegments\n]Vsegments\n]d.");

	EXPECT_NOT_NULL(snapshot);
	EXPECT_EQ(snapshot->trace_count, 3);
	EXPECT_EQ(snapshot->events.count, 0);
	snapshot_free(snapshot);
}

TEST(settings_are_the_scalars_of_all_other_keys)
{
	struct snapshot *snapshot = read_text(
	    "}Vsegments\n]sVweir\n}Vversion\nV1.2\nsVdeep\n}Vx\nI5\nssVlist\n"
	    "](I1\nessVrank\nI7\ns.");

	EXPECT_NOT_NULL(snapshot);
	EXPECT_EQ(snapshot->setting_count, 3);
	EXPECT_STR_EQ(snapshot_text(snapshot, snapshot->settings[0].name),
	    "weir.version");
	EXPECT_STR_EQ(
	    snapshot_text(snapshot, snapshot->settings[1].name), "weir.deep.x");
	EXPECT_STR_EQ(
	    snapshot_text(snapshot, snapshot->settings[2].value), "7");
	snapshot_free(snapshot);
}
