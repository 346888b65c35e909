/*
 * Records, by which one process describes its memory to another one, and the
 * checks that are made before a record is used.
 *
 * A *record* describes a part of the memory of a process. A *ticket* is the 64
 * bytes a program passes on, in the place of a handle of the driver. It names a
 * record in a file of the process that made it. The file is in memory, is
 * reached through /proc by processes of the same user, and is gone with its
 * process.
 *
 * Nothing that comes from another process is believed. A file is looked at
 * before it is opened: a pipe could block, a device could act. It must be a
 * plain file of this user and of the right size, sealed so that it keeps that
 * size. A record must describe a range that lies within its allocation. The
 * driver then has the last word on how large the allocation is.
 */
#ifndef IPC_RECORD_H
#define IPC_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#include "driver/abi.h"

enum {
	IPC_RECORDS = 1 << 16,    /* of one process at most */
	IPC_PIECES_MAX = 1 << 16, /* physical allocations of one part */
};

enum ipc_kind {
	IPC_DRIVER = 1, /* of cuMemAlloc(), opened by `memory` */
	IPC_MAPPED = 2, /* of cuMemCreate(), opened by descriptors */
	IPC_EVENT = 3,  /* no memory; `ready` is all there is */
};

/* A part of the memory of a process. Zeros where a field does not apply. */
struct ipc_record {
	uint32_t kind;          /* of enum ipc_kind */
	uint32_t pieces;        /* physical allocations; 1 for IPC_DRIVER */
	uint64_t size;          /* bytes of the part */
	uint64_t offset;        /* bytes before it in the allocation */
	uint64_t whole;         /* bytes of the allocation, of all pieces */
	CUuuid device;          /* that the memory is of */
	CUipcMemHandle memory;  /* of the allocation */
	CUipcEventHandle ready; /* recorded behind what fills the part */
	uint32_t has_ready;     /* 1 if there is one */
	uint32_t unused;
};

/* The fault of a record, in words; NULL if it is consistent. */
const char *ipc_record_fault(const struct ipc_record *record);

/* ---- Tickets and files ------------------------------------------------- */

/* In the place of a CUipcMemHandle. */
struct ipc_ticket {
	char magic[8];
	int32_t pid;
	int32_t fd; /* of the file, in that process */
	uint64_t nonce;
	uint64_t number; /* of the record */
	unsigned char unused[32];
};

/* The beginning of a file; the records follow. */
struct ipc_head {
	char magic[8];
	uint64_t nonce; /* that this is the file that was meant */
	uint64_t count; /* records that are there; the file has IPC_RECORDS */
};

/* The file of this process. One thread uses it at a time. Starts as zeros. */
struct ipc_file {
	struct ipc_head *head; /* NULL: none yet */
	int fd;
};

/*
 * The ticket of a record, which is put into the file if it is not there yet:
 * the same part has the same ticket each time.
 *
 * @return false if the file cannot be made, or is full
 */
bool ipc_file_add(struct ipc_file *file, const struct ipc_record *record,
    struct ipc_ticket *out);

/* Is this a ticket, and not a handle of the driver? */
bool ipc_is_ticket(const void *handle);

/*
 * Fetch the record of a ticket from another process. Waits for nobody.
 *
 * @return NULL, and the record is one that ipc_record_fault() finds nothing
 *         wrong with; or why not, in words that are valid for ever
 */
const char *ipc_ticket_read(
    const struct ipc_ticket *ticket, struct ipc_record *out);

#endif
