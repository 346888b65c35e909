/*
 * Messages between a process and its watchers, which are checked before use.
 */
#include <string.h>

#include "tests/support/test.h"
#include "trace/watch.h"

static struct watch_reply reply; /* all of it is in bounds */

static struct watch_request
good_request(void)
{
	return (struct watch_request){ WATCH_MAGIC, WATCH_VERSION,
		WATCH_SNAPSHOT, 1 };
}

static void
good_reply(uint32_t devices)
{
	memset(&reply, 0, sizeof(reply));
	reply.magic = WATCH_MAGIC;
	reply.version = WATCH_VERSION;
	reply.kind = WATCH_STATS;
	reply.device_count = devices;
}

TEST(a_request_as_it_should_be_has_no_fault)
{
	struct watch_request request = good_request();

	EXPECT_NULL(watch_request_fault(&request, sizeof(request)));
	request.kind = WATCH_STATS;
	request.json = 0;
	EXPECT_NULL(watch_request_fault(&request, sizeof(request)));
}

TEST(each_fault_of_a_request_is_named)
{
	struct watch_request request = good_request();
	char longer[sizeof(request) + 1] = { 0 };

	memcpy(longer, &request, sizeof(request));
	EXPECT_STR_EQ(watch_request_fault(&request, 0), "it is cut");
	EXPECT_STR_EQ(watch_request_fault(&request, 7), "it is cut");
	EXPECT_STR_EQ(watch_request_fault(&request, 8), "it has a wrong size");
	EXPECT_STR_EQ(
	    watch_request_fault(longer, sizeof(longer)), "it has a wrong size");
	request.kind = WATCH_KINDS;
	EXPECT_STR_EQ(watch_request_fault(&request, sizeof(request)),
	    "its request is unknown");
	request = good_request();
	request.json = 2;
	EXPECT_STR_EQ(watch_request_fault(&request, sizeof(request)),
	    "its format is unknown");
	request = good_request();
	request.version++;
	EXPECT_STR_EQ(watch_request_fault(&request, sizeof(request)),
	    "it comes from another version of weir");
	request.magic++;
	EXPECT_STR_EQ(watch_request_fault(&request, sizeof(request)),
	    "it is not of weir");
}

TEST(a_reply_has_the_number_of_devices_in_its_head)
{
	for (uint32_t n = 0; n <= WATCH_DEVICES; n++) {
		good_reply(n);
		EXPECT_NULL(watch_reply_fault(
		    &reply, watch_reply_size(n), WATCH_STATS));
		EXPECT_STR_EQ(watch_reply_fault(
				  &reply, watch_reply_size(n) + 1, WATCH_STATS),
		    "it has a wrong size");
	}
	good_reply(WATCH_DEVICES + 1);
	EXPECT_STR_EQ(watch_reply_fault(&reply, sizeof(reply), WATCH_STATS),
	    "it has a wrong size");
	good_reply(UINT32_MAX);
	EXPECT_STR_EQ(watch_reply_fault(&reply, sizeof(reply), WATCH_STATS),
	    "it has a wrong size");
}

TEST(each_fault_of_a_reply_is_named)
{
	good_reply(1);
	EXPECT_STR_EQ(
	    watch_reply_fault(&reply, watch_reply_size(0) - 1, WATCH_STATS),
	    "it is cut");
	EXPECT_STR_EQ(
	    watch_reply_fault(&reply, watch_reply_size(1), WATCH_SNAPSHOT),
	    "it answers another request");
	reply.devices[0].stream_count = WATCH_ROWS + 1;
	EXPECT_STR_EQ(
	    watch_reply_fault(&reply, watch_reply_size(1), WATCH_STATS),
	    "a device has too many rows");
	good_reply(1);
	reply.devices[0].pool_count = WATCH_ROWS + 1;
	EXPECT_STR_EQ(
	    watch_reply_fault(&reply, watch_reply_size(1), WATCH_STATS),
	    "a device has too many rows");
	good_reply(0);
	memset(reply.text, 'x', sizeof(reply.text));
	EXPECT_STR_EQ(
	    watch_reply_fault(&reply, watch_reply_size(0), WATCH_STATS),
	    "a text in it does not end");
	good_reply(0);
	memset(reply.weir, 'x', sizeof(reply.weir));
	EXPECT_STR_EQ(
	    watch_reply_fault(&reply, watch_reply_size(0), WATCH_STATS),
	    "a text in it does not end");
}

/* ---- Values by name ---------------------------------------------------- */

TEST(each_fault_of_a_request_for_values_is_named)
{
	struct watch_ctl_request request = { WATCH_MAGIC, WATCH_VERSION,
		WATCH_LIST, 0, "stats", "" };

	EXPECT_NULL(watch_request_fault(&request, sizeof(request)));
	request.kind = WATCH_SET;
	EXPECT_NULL(watch_request_fault(&request, sizeof(request)));
	EXPECT_STR_EQ(watch_request_fault(&request, sizeof(request) - 1),
	    "it has a wrong size");
	EXPECT_STR_EQ(
	    watch_request_fault(&request, sizeof(struct watch_request)),
	    "it has a wrong size");
	memset(request.value, 'x', sizeof(request.value));
	EXPECT_STR_EQ(watch_request_fault(&request, sizeof(request)),
	    "a text in it does not end");
	request.value[0] = '\0';
	memset(request.path, 'x', sizeof(request.path));
	EXPECT_STR_EQ(watch_request_fault(&request, sizeof(request)),
	    "a text in it does not end");
}

TEST(each_fault_of_a_reply_with_values_is_named)
{
	static struct watch_ctl_reply rows;

	rows.magic = WATCH_MAGIC;
	rows.version = WATCH_VERSION;
	rows.kind = WATCH_LIST;
	rows.row_count = 2;
	EXPECT_NULL(watch_ctl_reply_fault(&rows, watch_ctl_reply_size(2)));
	EXPECT_STR_EQ(watch_ctl_reply_fault(&rows, watch_ctl_reply_size(1)),
	    "it has a wrong size");
	EXPECT_STR_EQ(watch_ctl_reply_fault(&rows, 7), "it is cut");
	memset(rows.rows[1].help, 'x', sizeof(rows.rows[1].help));
	EXPECT_STR_EQ(watch_ctl_reply_fault(&rows, watch_ctl_reply_size(2)),
	    "a text in it does not end");
	rows.row_count = WATCH_CTL_ROWS + 1;
	EXPECT_STR_EQ(
	    watch_ctl_reply_fault(&rows, sizeof(rows)), "it has a wrong size");
	rows.row_count = 0;
	rows.kind = WATCH_STATS;
	EXPECT_STR_EQ(watch_ctl_reply_fault(&rows, watch_ctl_reply_size(0)),
	    "it answers another request");
}
