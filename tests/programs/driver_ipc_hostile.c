/*
 * A process that shares memory with wrong facts. The child allocates as any
 * program does, and then passes on handles whose files and records are not as
 * weir makes them. The parent opens each and prints the result. An alarm ends
 * an opener that waits.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cuda.h"
#include "ipc/record.h"

enum { LAZY_PEER_ACCESS = 1, SECONDS = 240 };

enum lie {
	NONE,
	FAR_OFFSET,
	FAR_OFFSET_OF_A_WHOLE,
	ENDLESS,
	LARGER_THAN_THE_ALLOCATION,
	WRAPPING,
	ODD_OFFSET,
	NO_RECORDS,
	TOO_MANY_RECORDS,
	OTHER_RECORD,
	NO_SUCH_NUMBER,
	OTHER_NONCE,
	OTHER_MAGIC,
	OTHER_KIND,
	UNSEALED,
	SHORT,
	OTHER_USER,
	PIPE,
	DEVICE,
	FOLDER,
	NO_FILE,
	NO_PROCESS,
	ALL_PROCESSES,
	LIES
};

static const char *const names[LIES] = { "the truth", "offset 2^40",
	"offset 2^40 of a whole of 2^41", "size 2^64-1", "size and whole 2^50",
	"an offset that wraps", "an odd offset", "no records",
	"too many records", "another record", "record 2^40", "another nonce",
	"another magic", "another kind", "an unsealed file", "a short file",
	"another user's file", "a pipe", "a device", "a folder", "no file",
	"no process", "process -1" };

struct message {
	struct ipc_ticket ticket;
	int code; /* the error; 0: the file is there */
};

static struct cuda cuda;

/* ---- The liar ---------------------------------------------------------- */

static void
change_record(enum lie lie, struct ipc_head *head, struct ipc_record *record)
{
	switch (lie) {
	case FAR_OFFSET:
		record->offset = 1ull << 40;
		break;
	case FAR_OFFSET_OF_A_WHOLE:
		record->offset = 1ull << 40;
		record->whole = 1ull << 41;
		break;
	case ENDLESS:
		record->size = UINT64_MAX;
		break;
	case LARGER_THAN_THE_ALLOCATION:
		record->size = 1ull << 50;
		record->offset = 0;
		record->whole = 1ull << 50;
		break;
	case WRAPPING:
		record->offset = UINT64_MAX - 511;
		break;
	case ODD_OFFSET:
		record->offset++;
		break;
	case NO_RECORDS:
		head->count = 0;
		break;
	case TOO_MANY_RECORDS:
		head->count = UINT64_MAX;
		break;
	case OTHER_MAGIC:
		head->magic[0] ^= 1;
		break;
	case OTHER_KIND:
		record->kind = 77;
		break;
	default:
		break;
	}
}

/* Make a file like that of `fd`, with one wrong fact. */
static int
false_file(enum lie lie, int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	int copy = memfd_create("liar", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct ipc_record record;
	struct ipc_head head;

	if (pread(fd, &head, sizeof(head), 0) != sizeof(head) ||
	    pread(fd, &record, sizeof(record), sizeof(head)) != sizeof(record))
		exit(3);
	change_record(lie, &head, &record);
	if (ftruncate(copy, lie == SHORT ? size / 2 : size) != 0 ||
	    pwrite(copy, &head, sizeof(head), 0) != sizeof(head) ||
	    pwrite(copy, &record, sizeof(record), sizeof(head)) !=
		sizeof(record))
		exit(3);
	if (lie != UNSEALED &&
	    fcntl(copy, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) != 0)
		exit(3);
	return copy;
}

/* Make a named pipe without a writer: opening it again waits. */
static int
silent_pipe(void)
{
	char folder[] = "/tmp/weir-liar-XXXXXX";
	char path[64];
	int fd;

	if (mkdtemp(folder) == NULL)
		exit(3);
	snprintf(path, sizeof(path), "%s/pipe", folder);
	if (mkfifo(path, 0600) != 0)
		exit(3);
	fd = open(path, O_RDONLY | O_NONBLOCK);
	unlink(path);
	rmdir(folder);
	return fd;
}

static struct message
lie_about(enum lie lie, struct ipc_ticket ticket)
{
	struct message message = { 0 };

	switch (lie) {
	case NONE:
		break;
	case OTHER_RECORD:
		ticket.number = 3;
		break;
	case NO_SUCH_NUMBER:
		ticket.number = 1ull << 40;
		break;
	case OTHER_NONCE:
		ticket.nonce++;
		break;
	case PIPE:
		ticket.fd = silent_pipe();
		break;
	case DEVICE:
		ticket.fd = open("/dev/zero", O_RDONLY);
		ticket.nonce = 0;
		break;
	case FOLDER:
		ticket.fd = open("/", O_RDONLY);
		break;
	case NO_FILE:
		ticket.fd = 1 << 20;
		break;
	case NO_PROCESS:
		ticket.pid = 1 << 30;
		break;
	case ALL_PROCESSES:
		ticket.pid = -1;
		break;
	default:
		ticket.fd = false_file(lie, ticket.fd);
		/* Only root can change a file's owner. */
		if (lie == OTHER_USER)
			message.code = fchown(ticket.fd, 54321, 54321) != 0;
	}
	message.ticket = ticket;
	return message;
}

/* A block that is not the first in its allocation of the driver. */
static struct ipc_ticket
share_a_part(void)
{
	result (*get)(struct ipc_ticket *, address);
	struct ipc_ticket ticket;
	address first, second;

	cuda_fetch("cuIpcGetMemHandle", &get);
	MUST(cuda.mem_alloc(&first, 100000));
	MUST(cuda.mem_alloc(&second, 100000));
	MUST(cuda.synchronize());
	MUST(get(&ticket, second));
	if (memcmp(ticket.magic, "weirIPC", 7) == 0)
		return ticket;
	MUST(get(&ticket, first));
	return ticket;
}

static _Noreturn void
child(int from, int to)
{
	struct ipc_ticket ticket;
	char end;

	cuda_start(&cuda);
	ticket = share_a_part();
	for (enum lie lie = 0; lie < LIES; lie++) {
		struct message message = lie_about(lie, ticket);

		if (write(to, &message, sizeof(message)) != sizeof(message))
			exit(3);
	}
	/* The memory stays until the parent has opened all. */
	if (read(from, &end, 1) != 0)
		exit(3);
	_exit(0);
}

/* ---- The opener -------------------------------------------------------- */

static void
try_to_open(enum lie lie, const struct message *message)
{
	result (*open)(address *, struct ipc_ticket, unsigned);
	result (*close)(address);
	address ptr = 0;
	address base;
	size_t size = 0;
	result code;

	cuda_fetch("cuIpcOpenMemHandle_v2", &open);
	cuda_fetch("cuIpcCloseMemHandle", &close);
	code = open(&ptr, message->ticket, LAZY_PEER_ACCESS);
	printf("%s: %s\n", names[lie],
	    message->code != 0 ? "cannot be tried" :
		code == 0      ? "opened" :
				 "refused");
	fflush(stdout);
	if (code != SUCCESS)
		return;
	/* An address of the host belongs to no allocation. */
	if (cuda.get_range(&base, &size, (address)(uintptr_t)&size) == SUCCESS)
		printf("%s: it covers other memory\n", names[lie]);
	MUST(cuda.get_range(&base, &size, ptr + 5000));
	MUST(cuda.fill(ptr, 1, 100000 / 4, NULL));
	MUST(cuda.synchronize());
	MUST(close(ptr));
}

int
main(void)
{
	int to_child[2];
	int to_parent[2];
	pid_t liar;

	alarm(SECONDS);
	if (pipe(to_child) != 0 || pipe(to_parent) != 0)
		return 3;
	liar = fork();
	cuda_by_dlsym(&cuda);
	close(to_child[liar == 0]);
	close(to_parent[liar != 0]);
	if (liar == 0)
		child(to_child[0], to_parent[1]);
	cuda_start(&cuda);
	for (enum lie lie = 0; lie < LIES; lie++) {
		struct message message;

		if (read(to_parent[0], &message, sizeof(message)) !=
		    sizeof(message))
			return 3;
		try_to_open(lie, &message);
	}
	close(to_child[1]);
	waitpid(liar, NULL, 0);
	return 0;
}
