/*
 * Declarations that the parts of IPC share.
 *
 *	record.c   what is said of memory, and what is checked
 *	wire.c     the messages between owner and opener, and their checks
 *	process.c  other processes: whose they are, and when they have ended
 *	owner.c    exports: <weir/ipc.h>, the owner's part
 *	answer.c   the thread that answers those who open
 *	link.c     an opener's connection to an owner
 *	mapping.c  memory of another process, mapped here
 *	open.c     imports: <weir/ipc.h>, the others' part
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

/* ---- wire.c ------------------------------------------------------------ */

enum {
	IPC_SECRET_BYTES = 16,
	IPC_BATCH =
	    64, /* descriptors in one message; the system's bound: 253 */
	IPC_PATIENCE_MS = 10 * 1000, /* for one answer */
	IPC_OPEN_MS = 30 * 1000,     /* for all answers that an open needs */
};

/* The content of a struct weir_ipc_handle. */
struct ipc_name {
	char magic[8];
	int32_t pid;
	uint32_t unused;
	uint64_t nonce; /* of the owner's socket */
	uint64_t number;
	unsigned char secret[IPC_SECRET_BYTES];
	unsigned char zeros[16];
};

enum ipc_verb { IPC_OPEN = 1, IPC_PIECES = 2, IPC_CLOSE = 3 };

struct ipc_request {
	char magic[8];
	uint32_t verb;
	uint32_t first; /* IPC_PIECES: the first piece that is asked for */
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
	uint32_t n; /* IPC_PIECES: so many, and as many descriptors */
	uint32_t unused;
	struct ipc_record record; /* IPC_OPEN */
	uint64_t sizes[IPC_BATCH];
};

void ipc_name_make(struct ipc_name *name, const unsigned char *secret);
/* Its fault in words, or NULL. */
const char *ipc_name_fault(const struct ipc_name *name);

struct ipc_request ipc_request_make(enum ipc_verb verb, uint64_t number);
const char *ipc_request_fault(const void *bytes, size_t n);

struct ipc_reply ipc_reply_make(enum ipc_verb verb, enum ipc_refusal refusal);
/* For a reply to a request of that verb, with so many descriptors. */
const char *ipc_reply_fault(
    const void *bytes, size_t n, enum ipc_verb verb, size_t n_fds);

const char *ipc_refusal_text(uint32_t refusal);

/* The abstract address of an owner's socket; returns its length. */
struct sockaddr_un;
unsigned ipc_socket_address(
    int32_t pid, uint64_t nonce, struct sockaddr_un *out);

/* Send or receive one message with descriptors, which receiving gives to the
 * caller. The result is the bytes; below 0: errno tells. */
ssize_t ipc_send(
    int fd, const void *bytes, size_t n, const int *fds, size_t n_fds);
ssize_t ipc_receive(
    int fd, void *bytes, size_t n, int fds[IPC_BATCH], size_t *n_fds);

/* ---- process.c --------------------------------------------------------- */

/* A descriptor of a process, which tells when it has ended; -1: errno. */
int ipc_process_open(pid_t pid);
bool ipc_process_ended(int pidfd);
/* Does it belong to this user? */
bool ipc_process_is_own(pid_t pid);
/* A copy of a descriptor of another process; -1: errno. */
int ipc_process_fetch(int pidfd, int fd);
/* Can it be memory of a device? A pipe or a folder cannot. */
bool ipc_fd_may_be_memory(int fd);
/* True if the other end of a socket belongs to this user. */
bool ipc_peer(int socket, pid_t *pid);

/* ---- owner.c, answer.c ------------------------------------------------- */

struct weir_ipc_export {
	/* Constant. */
	uint64_t number;
	unsigned char secret[IPC_SECRET_BYTES];
	struct ipc_record record;
	int device;
	void *ptr;                /* or NULL: an event */
	uint64_t *pieces;         /* IPC_MAPPED: the bytes of each */
	struct weir_event *event; /* exported, or what `ready` is */
	void (*done)(void *closure, void *ptr); /* NULL: the block is freed */
	void *closure;

	/* Under the lock of owner.c. */
	struct weir_ipc_export *next;
	size_t uses;     /* by the program; 0: released */
	size_t peers;    /* openings by other processes */
	uint64_t opened; /* times, by other processes, in all */
	int *fds;        /* for PyTorch: of each piece, kept open */
};

/* The export of a number, held by a peer from now on; NULL if there is none or
 * the secret is wrong. */
struct weir_ipc_export *owner_hold(
    uint64_t number, const unsigned char *secret);
/* Held so often less. The last hold of what is released frees it. */
void owner_drop(struct weir_ipc_export *export, size_t times);

/* A descriptor of a physical piece of an export, which the caller closes. */
enum weir_status owner_piece(
    const struct weir_ipc_export *export, uint64_t at, int *fd);

/* A handle of a piece, of any type: a descriptor, or the bytes of a fabric
 * handle. */
enum weir_status owner_piece_handle(const struct weir_ipc_export *export,
    uint64_t at, CUmemAllocationHandleType type, void *out);

/* Start to answer, at the first export. The socket's nonce. WEIR_ENOTSUP. */
enum weir_status answer_start(uint64_t *nonce);

/* For tests: how many processes hold something, those that hung up too. */
unsigned answer_peers(void);

/* ---- link.c ------------------------------------------------------------ */

/* A connection to an owner, shared by all that is open of it. */
struct ipc_link;

enum weir_status link_get(const struct ipc_name *name, struct ipc_link **out);
void link_put(struct ipc_link *link);
/*
 * Ask, and wait for the answer: checked, with as many descriptors as it says,
 * which are the caller's. A link whose owner has answered anything else is of
 * no use any more.
 *
 * @return WEIR_EINVAL, WEIR_ENOTREADY
 */
enum weir_status link_ask(struct ipc_link *link,
    const struct ipc_request *request, struct ipc_reply *reply,
    int fds[IPC_BATCH]);
bool link_alive(const struct ipc_link *link);
/* For tests: how long new links wait for one answer. */
void link_patience(unsigned milliseconds);

/* ---- mapping.c --------------------------------------------------------- */

/* Memory of another process at addresses of this one. */
struct ipc_mapping {
	CUdeviceptr addr;
	size_t whole;  /* reserved */
	size_t mapped; /* from the start */
};

/* In the context of the device that is to use it. All that fails is undone by
 * mapping_drop(), which may be called at any time. */
enum weir_status mapping_begin(struct ipc_mapping *mapping, size_t whole);
enum weir_status mapping_add(struct ipc_mapping *mapping, const void *shareable,
    CUmemAllocationHandleType type, size_t size);
/* To the device and its peers: weir_peer_access(). */
enum weir_status mapping_open(struct ipc_mapping *mapping, int device);
void mapping_drop(struct ipc_mapping *mapping);

/* As driver_status() for a call that was given what another process said:
 * WEIR_EINVAL where the driver does not take it. */
enum weir_status ipc_driver_status(CUresult code, const char *call);

/* ---- open.c ------------------------------------------------------------ */

struct weir_ipc_import {
	int device;
	int home; /* -1: not visible here */
	CUcontext context;
	pid_t owner;
	int pidfd; /* of the owner; -1: link knows */
	void *ptr;
	size_t size;
	CUdeviceptr base; /* as the driver has opened it; 0: mapped */
	struct ipc_mapping mapping;
	struct list link_mapped; /* of those that are mapped; see open.c */
	struct weir_event *event;
	struct ipc_link *link; /* NULL: nobody counts */
	uint64_t number;
};

/* An import for a device, with its context; nothing is open yet. */
enum weir_status import_new(int device, struct weir_ipc_import **out);
/* Undo what has been opened, and free it; send the owner a message if asked. */
void import_drop(struct weir_ipc_import *import);

/* Open what has been mapped to the import's device, and to peers from then on.
 */
enum weir_status import_open_mapping(struct weir_ipc_import *import);

/* Open memory of the driver, and see that `least` bytes of it are there; *whole
 * is how many there are. */
enum weir_status import_driver(struct weir_ipc_import *import,
    const CUipcMemHandle *handle, size_t least, size_t *whole);

#endif
