/*
 * Declarations that the parts of IPC share.
 *
 *	record.c   descriptions of memory, and their checks
 *	wire.c     the messages between owner and opener, and their checks
 *	process.c  other processes: their user, and their end
 *	owner.c    exports: the owner's part of <weir/ipc.h>
 *	answer.c   the thread that answers openers
 *	link.c     an opener's connection to an owner
 *	mapping.c  memory of another process, mapped here
 *	open.c     imports: the opener's part of <weir/ipc.h>
 *	torch.c    PyTorch's handles
 */
#ifndef IPC_IPC_H
#define IPC_IPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weir/ipc.h>

#include "base/list.h"
#include "driver/driver.h"
#include "ipc/record.h"
#include "ipc/tuning.h"

/* ---- wire.c ------------------------------------------------------------ */

enum {
	IPC_SECRET_BYTES = 16,
};

/* The content of a struct weir_ipc_handle. */
struct ipc_name {
	char magic[8];
	int32_t pid;
	uint32_t unused;
	uint64_t nonce; /* nonce of the owner's socket */
	uint64_t number;
	unsigned char secret[IPC_SECRET_BYTES];
	unsigned char zeros[16];
};

enum ipc_verb { IPC_OPEN = 1, IPC_PIECES = 2, IPC_CLOSE = 3 };

struct ipc_request {
	char magic[8];
	uint32_t verb;
	uint32_t first; /* IPC_PIECES: the first requested piece */
	uint64_t number;
	unsigned char secret[IPC_SECRET_BYTES];
};

/* X(name, text) */
#define IPC_REFUSALS(X)                                                        \
	X(IPC_GRANTED, "no")                                                   \
	X(IPC_OTHER_FORM, "it does not understand the request")                \
	X(IPC_NOT_SHARED, "it does not share that (any more)")                 \
	X(IPC_NOT_OPEN, "this process does not have that open")                \
	X(IPC_FAILED, "it cannot export the memory")                           \
	X(IPC_TOO_MANY, "too many processes share its memory")                 \
	X(IPC_NO_MEMORY, "it has no host memory")

enum ipc_refusal {
#define IPC_REFUSAL_ENUM(name, text) name,
	IPC_REFUSALS(IPC_REFUSAL_ENUM)
#undef IPC_REFUSAL_ENUM
	    IPC_REFUSALS_END
};

struct ipc_reply {
	char magic[8];
	uint32_t verb;
	uint32_t refusal;
	uint32_t n; /* IPC_PIECES: the number of pieces and descriptors */
	uint32_t unused;
	struct ipc_record record; /* IPC_OPEN: the memory */
	uint64_t sizes[IPC_BATCH];
};

void ipc_name_make(struct ipc_name *name, const unsigned char *secret);
/* Returns the fault of a name, as text; or NULL. */
const char *ipc_name_fault(const struct ipc_name *name);

struct ipc_request ipc_request_make(enum ipc_verb verb, uint64_t number);
const char *ipc_request_fault(const void *bytes, size_t n);

struct ipc_reply ipc_reply_make(enum ipc_verb verb, enum ipc_refusal refusal);
/* Returns the fault of the reply to a request of this verb, which came with
 * n_fds descriptors; or NULL. */
const char *ipc_reply_fault(
    const void *bytes, size_t n, enum ipc_verb verb, size_t n_fds);

const char *ipc_refusal_text(uint32_t refusal);

/* The abstract address of an owner's socket; returns its length. */
struct sockaddr_un;
unsigned ipc_socket_address(
    int32_t pid, uint64_t nonce, struct sockaddr_un *out);

/* Send or receive one message with descriptors; the caller owns those received.
 * Returns the bytes; below 0: see errno. */
ssize_t ipc_send(
    int fd, const void *bytes, size_t n, const int *fds, size_t n_fds);
ssize_t ipc_receive(
    int fd, void *bytes, size_t n, int fds[IPC_BATCH], size_t *n_fds);

/* ---- process.c --------------------------------------------------------- */

/* Does a process belong to this user? */
bool ipc_process_is_own(pid_t pid);
/* Can the descriptor be memory of a device? A pipe or a folder cannot. */
bool ipc_fd_may_be_memory(int fd);
/* Does the other end of a socket belong to this user? */
bool ipc_peer(int socket, pid_t *pid);

/* ---- owner.c ----------------------------------------------------------- */

struct weir_ipc_export {
	/* Constant. */
	uint64_t number;
	unsigned char secret[IPC_SECRET_BYTES];
	struct ipc_record record;
	int device;
	void *ptr;        /* NULL: the export is an event */
	uint64_t *pieces; /* IPC_MAPPED: the bytes of each piece */
	/* The exported event, or the event of `ready`. */
	struct weir_event *event;
	/* Called at the end; NULL: the block is freed. */
	void (*done)(void *closure, void *ptr);
	void *closure;

	/* Guarded by the lock of owner.c. */
	struct weir_ipc_export *next;
	size_t uses;     /* uses by the program; 0: released */
	size_t peers;    /* open imports of other processes */
	uint64_t opened; /* imports of other processes in all */
	/* For PyTorch: a descriptor of each piece, kept open. */
	int *fds;
};

/* Find the export with a number and hold it for a peer. NULL if there is none
 * or the secret is wrong. */
struct weir_ipc_export *owner_hold(
    uint64_t number, const unsigned char *secret);
/* Drop holds of an export. Dropping the last hold of a released export frees
 * it. */
void owner_drop(struct weir_ipc_export *export, size_t times);

/* Make a descriptor of a physical piece of an export; the caller closes it. */
enum weir_status owner_piece(
    const struct weir_ipc_export *export, uint64_t at, int *fd);

/* Make a handle of a piece, of any type: a descriptor, or the bytes of a fabric
 * handle. */
enum weir_status owner_piece_handle(const struct weir_ipc_export *export,
    uint64_t at, CUmemAllocationHandleType type, void *out);

/* Add a new export, which has one use. */
void owner_register(struct weir_ipc_export *export);

/* Find the export of a block or event that is exported already, and count one
 * more use of a block's. */
struct weir_ipc_export *owner_find_used(
    const void *ptr, const struct weir_event *event);

/* Free an export that is not in the list, but not its block. */
void owner_free(struct weir_ipc_export *export);

/* ---- answer.c ---------------------------------------------------------- */

/* Start the thread, at the first export; returns the nonce of the socket.
 * WEIR_ENOTSUP. */
enum weir_status answer_start(uint64_t *nonce);

/* For tests: how many processes hold an export, including disconnected ones. */
unsigned answer_peers(void);

/* ---- link.c ------------------------------------------------------------ */

/* A connection to an owner, shared by all open imports from it. */
struct ipc_link;

enum weir_status link_get(const struct ipc_name *name, struct ipc_link **out);
void link_put(struct ipc_link *link);
/*
 * Send a request and wait for the reply, which is checked. It comes with as
 * many descriptors as it says, which the caller owns. After any other answer
 * the link cannot be used any more.
 *
 * @return WEIR_EINVAL, WEIR_ENOTREADY
 */
enum weir_status link_ask(struct ipc_link *link,
    const struct ipc_request *request, struct ipc_reply *reply,
    int fds[IPC_BATCH]);
bool link_alive(const struct ipc_link *link);
/* For tests: how long new links wait for an answer. */
void link_patience(unsigned milliseconds);

/* ---- mapping.c --------------------------------------------------------- */

/* Memory of another process, mapped at addresses of this one. */
struct ipc_mapping {
	CUdeviceptr addr;
	size_t whole;  /* reserved bytes */
	size_t mapped; /* mapped bytes, from the start */
};

/* Map memory in the context of the device that is to use it. After a failure,
 * call mapping_drop(), which may be called at any time. */
enum weir_status mapping_begin(struct ipc_mapping *mapping, size_t whole);
enum weir_status mapping_add(struct ipc_mapping *mapping, const void *shareable,
    CUmemAllocationHandleType type, size_t size);
/* Give the device and its peers access (weir_peer_access()). */
enum weir_status mapping_open(struct ipc_mapping *mapping, int device);
void mapping_drop(struct ipc_mapping *mapping);

/* driver_status() for a call whose arguments come from another process:
 * WEIR_EINVAL if the driver refuses them. */
enum weir_status ipc_driver_status(CUresult code, const char *call);

/* ---- open.c ------------------------------------------------------------ */

struct weir_ipc_import {
	int device;
	int home; /* -1: not visible here */
	CUcontext context;
	pid_t owner;
	int pidfd; /* descriptor of the owner; -1: the link has it */
	void *ptr;
	size_t size;
	CUdeviceptr base; /* address of the driver's allocation; 0: mapped */
	struct ipc_mapping mapping;
	struct list link_mapped; /* in the list of mapped imports; see open.c */
	struct weir_event *event;
	struct ipc_link *link; /* NULL: the owner does not count this import */
	uint64_t number;
};

/* Create an import for a device, in its context; nothing is open yet. */
enum weir_status import_new(int device, struct weir_ipc_import **out);
/* Undo what has been opened, and free the import; notify the owner if
 * necessary. */
void import_drop(struct weir_ipc_import *import);

/* Open mapped memory to the import's device, and from now on to new peers. */
enum weir_status import_open_mapping(struct weir_ipc_import *import);

/* Open memory of the driver, and check that it has at least `least` bytes;
 * *whole is its size. */
enum weir_status import_driver(struct weir_ipc_import *import,
    const CUipcMemHandle *handle, size_t least, size_t *whole);

#endif
