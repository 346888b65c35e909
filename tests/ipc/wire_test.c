/*
 * The messages between processes: each field that can be wrong.
 */
#include <string.h>

#include "ipc/ipc.h"
#include "tests/support/test.h"

static struct ipc_reply
opened(void)
{
	struct ipc_reply reply = ipc_reply_make(IPC_OPEN, IPC_GRANTED);

	reply.record = (struct ipc_record){ .kind = IPC_EVENT, .has_ready = 1 };
	return reply;
}

TEST(a_handle_of_other_bytes_is_refused)
{
	static const unsigned char secret[IPC_SECRET_BYTES] = "fifteen bytes..";
	struct ipc_name good = { .nonce = 1, .number = 2 };
	struct ipc_name name;

	ipc_name_make(&good, secret);
	EXPECT_NULL(ipc_name_fault(&good));
	for (size_t i = 0; i < sizeof(good.magic); i++) {
		name = good;
		name.magic[i] ^= 1;
		EXPECT_NOT_NULL(ipc_name_fault(&name));
	}
	name = good;
	name.pid = 0;
	EXPECT_NOT_NULL(ipc_name_fault(&name));
	name = good;
	name.number = 0;
	EXPECT_NOT_NULL(ipc_name_fault(&name));
	name = good;
	name.zeros[15] = 1;
	EXPECT_NOT_NULL(ipc_name_fault(&name));
}

TEST(a_request_of_another_form_is_refused)
{
	struct ipc_request request = ipc_request_make(IPC_PIECES, 1);

	EXPECT_NULL(ipc_request_fault(&request, sizeof(request)));
	EXPECT_NOT_NULL(ipc_request_fault(&request, sizeof(request) - 1));
	EXPECT_NOT_NULL(ipc_request_fault(&request, sizeof(request) + 1));
	EXPECT_NOT_NULL(ipc_request_fault(&request, 0));
	request.first = IPC_PIECES_MAX;
	EXPECT_NOT_NULL(ipc_request_fault(&request, sizeof(request)));
	request = ipc_request_make((enum ipc_verb)4, 1);
	EXPECT_NOT_NULL(ipc_request_fault(&request, sizeof(request)));
}

TEST(a_reply_of_another_form_is_refused)
{
	struct ipc_reply reply = opened();
	size_t n = sizeof(reply);

	EXPECT_NULL(ipc_reply_fault(&reply, n, IPC_OPEN, 0));
	EXPECT_NOT_NULL(ipc_reply_fault(&reply, n - 1, IPC_OPEN, 0));
	EXPECT_NOT_NULL(ipc_reply_fault(&reply, n, IPC_CLOSE, 0));
	EXPECT_NOT_NULL(ipc_reply_fault(&reply, n, IPC_OPEN, 1));
	reply.n = 1;
	EXPECT_NOT_NULL(ipc_reply_fault(&reply, n, IPC_OPEN, 1));
	reply = opened();
	reply.unused = 1;
	EXPECT_NOT_NULL(ipc_reply_fault(&reply, n, IPC_OPEN, 0));
	reply = opened();
	reply.record.size = 1;
	EXPECT_NOT_NULL(ipc_reply_fault(&reply, n, IPC_OPEN, 0));
	reply.refusal = IPC_NOT_SHARED;
	EXPECT_NULL(ipc_reply_fault(&reply, n, IPC_OPEN, 0));
	reply.refusal = IPC_REFUSALS_END;
	EXPECT_NOT_NULL(ipc_reply_fault(&reply, n, IPC_OPEN, 0));
}

TEST(a_reply_gives_as_many_pieces_as_descriptors)
{
	struct ipc_reply reply = ipc_reply_make(IPC_PIECES, IPC_GRANTED);
	size_t n = sizeof(reply);

	EXPECT_NOT_NULL(ipc_reply_fault(&reply, n, IPC_PIECES, 0));
	reply.n = 2;
	reply.sizes[0] = reply.sizes[1] = 2 << 20;
	EXPECT_NULL(ipc_reply_fault(&reply, n, IPC_PIECES, 2));
	EXPECT_NOT_NULL(ipc_reply_fault(&reply, n, IPC_PIECES, 1));
	reply.sizes[1] = 0;
	EXPECT_NOT_NULL(ipc_reply_fault(&reply, n, IPC_PIECES, 2));
	reply.sizes[1] = UINT64_MAX;
	EXPECT_NOT_NULL(ipc_reply_fault(&reply, n, IPC_PIECES, 2));
	reply.n = UINT32_MAX;
	EXPECT_NOT_NULL(ipc_reply_fault(&reply, n, IPC_PIECES, UINT32_MAX));
}

TEST(each_refusal_has_its_words)
{
	for (uint32_t i = 0; i < IPC_REFUSALS_END; i++)
		EXPECT_GT(strlen(ipc_refusal_text(i)), 1);
	EXPECT_STR_EQ(ipc_refusal_text(UINT32_MAX), "it refuses");
}
