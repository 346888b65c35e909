/*
 * Records and tickets: which values are possible, and the file of a record.
 */
#include <string.h>
#include <unistd.h>

#include "ipc/record.h"
#include "tests/support/test.h"

static struct ipc_record
good(void)
{
	return (struct ipc_record){ .kind = IPC_MAPPED,
		.pieces = 3,
		.size = 1 << 20,
		.offset = 512,
		.whole = 6 << 20 };
}

#define EXPECT_FAULT(field, value)                                             \
	do {                                                                   \
		struct ipc_record changed = good();                            \
		changed.field = (value);                                       \
		EXPECT_NOT_NULL(ipc_record_fault(&changed));                   \
	} while (0)

TEST(an_impossible_record_is_refused)
{
	struct ipc_record record = good();

	EXPECT_NULL(ipc_record_fault(&record));
	EXPECT_FAULT(size, 0);
	EXPECT_FAULT(size, UINT64_MAX);
	EXPECT_FAULT(size, (6 << 20) - 511);
	EXPECT_FAULT(offset, 513);
	EXPECT_FAULT(offset, 6 << 20);
	EXPECT_FAULT(offset, UINT64_MAX - 511);
	EXPECT_FAULT(whole, 0);
	EXPECT_FAULT(whole, UINT64_MAX);
	EXPECT_FAULT(whole, 1 << 20);
	EXPECT_FAULT(pieces, 0);
	EXPECT_FAULT(pieces, UINT32_MAX);
	EXPECT_FAULT(pieces, 1000);
	EXPECT_FAULT(kind, 0);
	EXPECT_FAULT(kind, IPC_DRIVER);
	EXPECT_FAULT(kind, IPC_EVENT);
	EXPECT_FAULT(kind, UINT32_MAX);
	EXPECT_FAULT(has_ready, 2);
	EXPECT_FAULT(unused, 1);
}

TEST(an_event_s_record_has_no_memory)
{
	struct ipc_record record = { .kind = IPC_EVENT, .has_ready = 1 };

	EXPECT_NULL(ipc_record_fault(&record));
	record.size = 512;
	EXPECT_NOT_NULL(ipc_record_fault(&record));
	record = (struct ipc_record){ .kind = IPC_EVENT };
	EXPECT_NOT_NULL(ipc_record_fault(&record));
}

TEST(a_record_is_read_back_from_its_file)
{
	struct ipc_file file = { 0 };
	struct ipc_record first = good(), second = good(), out;
	struct ipc_ticket a, b, again;

	second.offset = 1024;
	EXPECT(ipc_file_add(&file, &first, &a));
	EXPECT(ipc_file_add(&file, &second, &b));
	EXPECT(ipc_file_add(&file, &first, &again));
	EXPECT_MEM_EQ(&a, &again, sizeof(a));
	EXPECT(ipc_is_ticket(&a));
	EXPECT_NULL(ipc_ticket_read(&b, &out));
	EXPECT_MEM_EQ(&out, &second, sizeof(out));
	b.number++;
	EXPECT_NOT_NULL(ipc_ticket_read(&b, &out));
	EXPECT_EQ(file.head->count, 2);
}

TEST(a_file_takes_a_fixed_number_of_records)
{
	struct ipc_file file = { 0 };
	struct ipc_record record = good();
	struct ipc_ticket ticket;

	EXPECT(ipc_file_add(&file, &record, &ticket));
	file.head->count = IPC_RECORDS;
	record.offset = 2048;
	EXPECT(!ipc_file_add(&file, &record, &ticket));
}

/* A process with a descriptor of the file can read it, and do nothing else. */
TEST(another_process_cannot_write_to_the_file)
{
	struct ipc_file file = { 0 };
	struct ipc_record record = good();
	struct ipc_ticket ticket;

	EXPECT(ipc_file_add(&file, &record, &ticket));
	EXPECT_EQ(pwrite(file.fd, "x", 1, 0), -1);
	EXPECT_EQ(ftruncate(file.fd, 0), -1);
	EXPECT_EQ(ftruncate(file.fd, 1 << 30), -1);
}
