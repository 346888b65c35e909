/*
 * Records, by which one process describes its memory to another one, and the
 * checks before a record is used.
 *
 * A *record* describes a part of a process's memory. A *ticket* is the 64 bytes
 * that a program passes on in place of a driver's handle. It names a record in
 * a file of the process that made it. The file is in memory, can be reached
 * through /proc by processes of the same user, and disappears with its process.
 *
 * Nothing from another process is trusted. A file is checked before it is
 * opened, because a pipe could block and a device could act. It must be a plain
 * file of this user with the right size, sealed so that it keeps that size. A
 * record must describe a range within its allocation. The driver then decides
 * how large the allocation really is.
 */
#ifndef IPC_RECORD_H
#define IPC_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#include "driver/abi.h"
#include "ipc/tuning.h"

enum ipc_kind {
	IPC_DRIVER = 1, /* memory of cuMemAlloc(), opened by `memory` */
	IPC_MAPPED = 2, /* memory of cuMemCreate(), opened by descriptors */
	IPC_EVENT = 3,  /* no memory, only `ready` */
};

/* A part of a process's memory. Fields that do not apply are zero. */
struct ipc_record {
	uint32_t kind; /* of enum ipc_kind */
	/* Number of physical allocations; 1 for IPC_DRIVER. */
	uint32_t pieces;
	uint64_t size;   /* size of the part */
	uint64_t offset; /* offset of the part in the allocation */
	/* Size of the allocation, all pieces together. */
	uint64_t whole;
	CUuuid device;         /* the device of the memory */
	CUipcMemHandle memory; /* handle of the allocation */
	/* Recorded after the work that fills the part. */
	CUipcEventHandle ready;
	uint32_t has_ready; /* 1 if `ready` is valid */
	uint32_t unused;
};

/* Returns the fault of a record, as text; NULL if it is consistent. */
const char *ipc_record_fault(const struct ipc_record *record);

/* ---- Tickets and files ------------------------------------------------- */

/* Used in place of a CUipcMemHandle. */
struct ipc_ticket {
	char magic[8];
	int32_t pid;
	int32_t fd; /* descriptor of the file, in that process */
	uint64_t nonce;
	uint64_t number; /* number of the record */
	unsigned char unused[32];
};

/* The beginning of a file, which the records follow. */
struct ipc_head {
	char magic[8];
	uint64_t nonce; /* identifies the file */
	uint64_t count; /* number of records; there is room for IPC_RECORDS */
};

/* The file of this process. Only one thread uses it at a time. All fields start
 * as zero. */
struct ipc_file {
	struct ipc_head *head; /* NULL: not created yet */
	int fd;
};

/*
 * Make the ticket of a record, which is added to the file if it is not there
 * yet: equal parts always have equal tickets.
 *
 * @return false if the file cannot be created, or is full
 */
bool ipc_file_add(struct ipc_file *file, const struct ipc_record *record,
    struct ipc_ticket *out);

/* Is this a ticket, and not a handle of the driver? */
bool ipc_is_ticket(const void *handle);

/*
 * Read the record of a ticket from another process. Never waits.
 *
 * @return NULL, and the record has passed ipc_record_fault(); or the reason for
 *         the failure, as a constant text
 */
const char *ipc_ticket_read(
    const struct ipc_ticket *ticket, struct ipc_record *out);

#endif
