/*
 * Records of memory, and the file from which other processes read them.
 *
 * The file is sealed before it is mapped: its size cannot change and, if the
 * system supports it (Linux 5.1), only this mapping can write to it.
 */
#include "ipc/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"
#include "base/quiet.h"

static const char ticket_magic[8] = "weirIPC\2";
static const char file_magic[8] = "weirREC\2";

enum {
	RECORD_BYTES = sizeof(struct ipc_record),
	FILE_BYTES = sizeof(struct ipc_head) + IPC_RECORDS * RECORD_BYTES,
	PIECE_LEAST = 64 << 10, /* the smallest physical allocation */
};

_Static_assert(sizeof(struct ipc_ticket) == sizeof(CUipcMemHandle),
    "a ticket stands in for a handle of the driver");

/* ---- Records ----------------------------------------------------------- */

static const char *
range_fault(const struct ipc_record *record)
{
	if (record->size == 0 || record->size > WEIR_SIZE_MAX)
		return "its record has no possible size";
	if (record->whole == 0 || record->whole > WEIR_SIZE_MAX)
		return "the allocation in its record has no possible size";
	if (record->offset > record->whole ||
	    record->size > record->whole - record->offset)
		return "its record describes memory outside of its allocation";
	if (record->offset % WEIR_GRANULE != 0)
		return "the offset in its record is no multiple of 512 bytes";
	return NULL;
}

const char *
ipc_record_fault(const struct ipc_record *record)
{
	const char *fault;

	if (record->has_ready > 1 || record->unused != 0)
		return "its record has another form";
	if (record->kind == IPC_EVENT)
		return record->has_ready == 1 && record->pieces == 0 &&
			record->size == 0 && record->offset == 0 &&
			record->whole == 0 ?
		    NULL :
		    "its record names an event and memory too";
	fault = range_fault(record);
	if (fault != NULL)
		return fault;
	switch (record->kind) {
	case IPC_DRIVER:
		return record->pieces == 1 ? NULL :
					     "its record has no possible "
					     "number of pieces";
	case IPC_MAPPED:
		return record->pieces == 0 || record->pieces > IPC_PIECES_MAX ||
			record->pieces > record->whole / PIECE_LEAST ?
		    "its record has no possible number of pieces" :
		    NULL;
	default:
		return "its record has an unknown kind";
	}
}

/* ---- The file of this process ------------------------------------------ */

static struct ipc_record *
records_of(const struct ipc_file *file)
{
	return (struct ipc_record *)(file->head + 1);
}

static int
sealed_memory(void)
{
	int fd =
	    os_fd_up(memfd_create("weir-ipc", MFD_CLOEXEC | MFD_ALLOW_SEALING));

	struct quiet quiet;
	bool failed;

	if (fd < 0)
		return -1;
	quiet_begin(&quiet);
	failed = ftruncate(fd, FILE_BYTES) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) != 0;
	quiet_end(&quiet);
	if (!failed)
		return fd;
	close(fd);
	return -1;
}

/* Forbid further mappings and writes. Old kernels do not support this seal, and
 * readers do not require it. */
static void
seal_writes(int fd)
{
#ifdef F_SEAL_FUTURE_WRITE
	(void)fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
#else
	(void)fd;
#endif
}

static bool
file_make(struct ipc_file *file)
{
	uint64_t nonce;
	void *memory;
	int fd = sealed_memory();

	if (fd < 0)
		return false;
	if (getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce))
		goto close_file;
	memory =
	    mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		goto close_file;
	seal_writes(fd);
	file->head = memory;
	file->fd = fd;
	file->head->nonce = nonce;
	memcpy(file->head->magic, file_magic, sizeof(file_magic));
	return true;

close_file:
	close(fd);
	return false;
}

bool
ipc_file_add(struct ipc_file *file, const struct ipc_record *record,
    struct ipc_ticket *out)
{
	uint64_t i = 0;

	if (file->head == NULL && !file_make(file))
		return false;
	uint64_t count = file->head->count;
	while (i < count &&
	    memcmp(&records_of(file)[i], record, RECORD_BYTES) != 0)
		i++;
	if (i == IPC_RECORDS)
		return false;
	if (i == count) {
		records_of(file)[i] = *record;
		__atomic_store_n(
		    &file->head->count, count + 1, __ATOMIC_RELEASE);
	}
	*out = (struct ipc_ticket){ .pid = (int32_t)os_process_id(),
		.fd = file->fd,
		.nonce = file->head->nonce,
		.number = i };
	memcpy(out->magic, ticket_magic, sizeof(ticket_magic));
	return true;
}

/* ---- The file of another process --------------------------------------- */

bool
ipc_is_ticket(const void *handle)
{
	return memcmp(handle, ticket_magic, sizeof(ticket_magic)) == 0;
}

static const char *
ticket_fault(const struct ipc_ticket *ticket)
{
	static const unsigned char zeros[sizeof(ticket->unused)];

	if (ticket->pid <= 0 || ticket->fd < 0 ||
	    ticket->number >= IPC_RECORDS ||
	    memcmp(ticket->unused, zeros, sizeof(zeros)) != 0)
		return "the handle is not one of weir";
	return NULL;
}

/* Check the file behind a descriptor that was opened with O_PATH. */
static const char *
file_fault(int fd)
{
	struct stat file;

	if (fstat(fd, &file) != 0)
		return "its file cannot be examined";
	if (!S_ISREG(file.st_mode))
		return "its file is no plain file";
	if (file.st_uid != geteuid())
		return "its file is another user's";
	if (file.st_size != FILE_BYTES)
		return "its file does not have the size of weir's files";
	return NULL;
}

static const char *
seal_fault(int fd)
{
	const int wanted = F_SEAL_GROW | F_SEAL_SHRINK;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals < 0 || (seals & wanted) != wanted ?
	    "its file is not sealed" :
	    NULL;
}

/* Open the file; -1, with the reason, if that fails. */
static int
file_open(const struct ipc_ticket *ticket, const char **fault)
{
	char path[64];
	int found;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)ticket->pid,
	    (int)ticket->fd);
	found = open(path, O_PATH | O_CLOEXEC);
	if (found < 0) {
		*fault = "its file cannot be opened";
		return -1;
	}
	*fault = file_fault(found);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	/* This opens the file that was checked, whatever the other process
	 * does. */
	fd =
	    *fault == NULL ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
	close(found);
	if (fd < 0 && *fault == NULL)
		*fault = "its file cannot be opened";
	return fd;
}

static const char *
file_read(int fd, const struct ipc_ticket *ticket, struct ipc_record *out)
{
	struct ipc_head head;
	off_t at = (off_t)(sizeof(head) + ticket->number * RECORD_BYTES);
	const char *fault = seal_fault(fd);

	if (fault != NULL)
		return fault;
	if (pread(fd, &head, sizeof(head), 0) != sizeof(head) ||
	    memcmp(head.magic, file_magic, sizeof(file_magic)) != 0)
		return "its file is not one of weir";
	if (head.nonce != ticket->nonce)
		return "its file is not the one that the handle is for";
	if (head.count > IPC_RECORDS || ticket->number >= head.count)
		return "its file has no such record";
	if (pread(fd, out, RECORD_BYTES, at) != RECORD_BYTES)
		return "its record cannot be read";
	return ipc_record_fault(out);
}

const char *
ipc_ticket_read(const struct ipc_ticket *ticket, struct ipc_record *out)
{
	const char *fault = ticket_fault(ticket);
	struct ipc_record record;
	int fd;

	if (fault != NULL)
		return fault;
	fd = file_open(ticket, &fault);
	if (fd < 0)
		return fault;
	fault = file_read(fd, ticket, &record);
	close(fd);
	if (fault == NULL)
		*out = record;
	return fault;
}
