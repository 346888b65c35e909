/*
 * Bytes from other processes: records, messages, files behind tickets, and
 * PyTorch's handles. Everything that passes the checks must lie within its
 * bounds. The first byte selects one of these, the others are its contents.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ipc/ipc.h"
#include "ipc/torch.h"

enum {
	FILE_BYTES =
	    sizeof(struct ipc_head) + IPC_RECORDS * sizeof(struct ipc_record),
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void
expect(bool holds)
{
	if (!holds)
		abort();
}

static void
look_at_record(const struct ipc_record *record)
{
	if (record->kind == IPC_EVENT) {
		expect(record->size == 0 && record->has_ready == 1);
		return;
	}
	expect(record->kind == IPC_DRIVER || record->kind == IPC_MAPPED);
	expect(record->size > 0 && record->whole <= WEIR_SIZE_MAX);
	expect(record->offset + record->size >= record->size);
	expect(record->offset + record->size <= record->whole);
	expect(record->pieces > 0 && record->pieces <= IPC_PIECES_MAX);
}

static void
try_record(const uint8_t *bytes, size_t size)
{
	struct ipc_record record;

	if (size != sizeof(record))
		return;
	memcpy(&record, bytes, sizeof(record));
	if (ipc_record_fault(&record) == NULL)
		look_at_record(&record);
}

static void
try_messages(const uint8_t *bytes, size_t size)
{
	struct ipc_request request;
	struct ipc_reply reply;
	struct ipc_name name;

	if (ipc_request_fault(bytes, size) == NULL) {
		expect(size == sizeof(request));
		memcpy(&request, bytes, size);
		expect(request.verb >= IPC_OPEN && request.verb <= IPC_CLOSE);
		expect(request.first < IPC_PIECES_MAX);
	}
	for (uint32_t verb = IPC_OPEN; verb <= IPC_CLOSE; verb++) {
		for (size_t fds = 0; fds <= 2; fds++) {
			if (ipc_reply_fault(
				bytes, size, (enum ipc_verb)verb, fds) != NULL)
				continue;
			expect(size == sizeof(reply));
			memcpy(&reply, bytes, size);
			expect(reply.n == fds);
			expect(ipc_refusal_text(reply.refusal) != NULL);
			if (reply.refusal == IPC_GRANTED && verb == IPC_OPEN)
				look_at_record(&reply.record);
			for (uint32_t i = 0; i < reply.n; i++)
				expect(reply.sizes[i] > 0 &&
				    reply.sizes[i] <= WEIR_SIZE_MAX);
		}
	}
	if (size == sizeof(name)) {
		memcpy(&name, bytes, size);
		if (ipc_name_fault(&name) == NULL)
			expect(name.pid > 0 && name.number > 0);
	}
}

static void
try_torch(const uint8_t *bytes, size_t size)
{
	struct torch_handle handle;
	size_t item;

	if (torch_read(bytes, size, &handle) != NULL)
		return;
	item = handle.count == 0 ? sizeof(CUipcMemHandle) :
	    handle.fabric        ? 64 :
				   sizeof(int);
	expect(handle.items >= bytes);
	expect(handle.items + item * (handle.count == 0 ? 1 : handle.count) ==
	    bytes + size);
	expect(handle.count == 0 || handle.pid > 0);
	expect(
	    handle.count == 0 || handle.piece <= WEIR_SIZE_MAX / handle.count);
}

/* The ticket, and the contents of its file from the first byte on. */
static void
try_file(const uint8_t *bytes, size_t size)
{
	struct ipc_ticket ticket;
	struct ipc_record record;
	int fd;

	if (size < sizeof(ticket))
		return;
	memcpy(&ticket, bytes, sizeof(ticket));
	bytes += sizeof(ticket);
	size -= sizeof(ticket);
	fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return;
	ticket.pid = getpid();
	ticket.fd = fd;
	if (size <= FILE_BYTES && ftruncate(fd, FILE_BYTES) == 0 &&
	    pwrite(fd, bytes, size, 0) == (ssize_t)size &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0 &&
	    ipc_ticket_read(&ticket, &record) == NULL)
		look_at_record(&record);
	close(fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static void (*const tries[])(const uint8_t *, size_t) = { try_record,
		try_messages, try_torch, try_file };
	uint8_t *copy;

	if (size == 0)
		return 0;
	/* In a copy of about its size, AddressSanitizer finds an access beyond
	 * the message. */
	copy = malloc(size);
	if (copy == NULL)
		return 0;
	memcpy(copy, bytes + 1, size - 1);
	tries[bytes[0] % 4](copy, size - 1);
	free(copy);
	return 0;
}
