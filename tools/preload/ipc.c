/*
 * Memory that other processes open by a handle of 64 bytes.
 *
 * The driver's handles are for its own allocations, and an allocation of weir
 * is a part of one. Where it is the first part the driver's handle is the
 * right one. For any other part weir gives a handle of its own: it names a
 * record in a file of this process, which holds the driver's handle and where
 * the part lies. A process that runs under weir too reads the record, opens
 * what the driver's handle stands for, and tells its program the address of
 * the part; for another process it is a handle that is not valid.
 *
 * The file is in memory, is reached through /proc by processes of the same
 * user, and is gone with this process.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "base/meta.h"
#include "tools/preload/preload.h"

/* One part of an allocation of the driver. */
struct record {
	CUipcMemHandle handle;
	uint64_t offset;
	uint64_t size;
};

/* The file: this, and records behind it. */
struct file {
	uint64_t nonce; /* that this is the file that was meant */
	struct record records[];
};

/* What is in a handle of weir's. */
struct ticket {
	char magic[8];
	int32_t pid;
	int32_t fd;
	uint64_t nonce;
	uint64_t record;
};

_Static_assert(
    sizeof(struct ticket) <= sizeof(CUipcMemHandle), "a handle has 64 bytes");

static const char magic[8] = "weirIPC\1";

enum { RECORDS = 1 << 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- Giving ------------------------------------------------------------ */

/* Under the lock. */
static struct file *file;
static int file_fd = -1;
static uint64_t n_records;

static bool
make_file(void)
{
	const size_t size =
	    sizeof(struct file) + RECORDS * sizeof(struct record);
	uint64_t nonce;
	void *memory;
	int fd;

	if (file != NULL)
		return true;
	fd = memfd_create("weir-ipc", MFD_CLOEXEC);
	if (fd < 0)
		return false;
	if (getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce) ||
	    ftruncate(fd, (off_t)size) != 0)
		goto close_file;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		goto close_file;
	file = memory;
	file->nonce = nonce;
	file_fd = fd;
	return true;

close_file:
	close(fd);
	return false;
}

static bool
same_part(const struct record *a, const struct record *b)
{
	return memcmp(&a->handle, &b->handle, sizeof(a->handle)) == 0 &&
	    a->offset == b->offset && a->size == b->size;
}

/* The number of the record of a part, made if need be: the same part has the
 * same handle each time. */
static bool
record_of(const struct record *part, uint64_t *out)
{
	uint64_t i = 0;

	if (!make_file())
		return false;
	while (i < n_records && !same_part(&file->records[i], part))
		i++;
	if (i == RECORDS)
		return false;
	if (i == n_records) {
		file->records[i] = *part;
		n_records++;
	}
	*out = i;
	return true;
}

static bool
write_ticket(const struct record *part, CUipcMemHandle *out)
{
	struct ticket ticket = { .pid = getpid() };
	bool written;

	memcpy(ticket.magic, magic, sizeof(magic));
	pthread_mutex_lock(&lock);
	written = record_of(part, &ticket.record);
	if (written) {
		ticket.fd = file_fd;
		ticket.nonce = file->nonce;
	}
	pthread_mutex_unlock(&lock);
	if (!written)
		return false;
	memset(out, 0, sizeof(*out));
	memcpy(out, &ticket, sizeof(ticket));
	return true;
}

static CUresult
refuse(CUdeviceptr ptr, const char *why)
{
	static atomic_bool told;

	if (!atomic_exchange(&told, true))
		log_write(LOG_WARN,
		    "cuIpcGetMemHandle(0x%llx): %s; run the program with "
		    "WEIR_PRELOAD_IPC=1",
		    (unsigned long long)ptr, why);
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr ptr)
{
	struct record part;
	struct place place;
	CUresult code;

	report_call(HOOK_cuIpcGetMemHandle);
	switch (address_find(ptr, &place)) {
	case LIVE:
		break;
	case UNUSED:
		return CUDA_ERROR_INVALID_VALUE;
	default:
		return REAL(cuIpcGetMemHandle)(handle, ptr);
	}
	if (handle == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	/* Memory that is mapped has no such handle, nor has that of pools. */
	if (place.mapped && gate_free_mode() == FREE_FAST)
		return refuse(ptr, "not with WEIR_PRELOAD_FREE=fast");
	if (place.mapped || place.ordered)
		return CUDA_ERROR_INVALID_VALUE;
	code = REAL(cuIpcGetMemHandle)(&part.handle, place.segment);
	if (code != CUDA_SUCCESS)
		return code;
	part.offset = place.base - place.segment;
	part.size = place.size;
	if (part.offset == 0)
		*handle = part.handle;
	else if (!write_ticket(&part, handle))
		return refuse(ptr, "there is no room to describe it");
	report_served(HOOK_cuIpcGetMemHandle, code);
	return code;
}

/* ---- Opening ----------------------------------------------------------- */

/* A part of another process's memory that is open here. */
struct opened {
	struct opened *next;
	CUdeviceptr ptr;
	size_t size;
	CUdeviceptr base; /* as the driver has opened it */
	unsigned times;
};

static struct opened *all; /* under the lock */
static atomic_uint n_opened;

static bool
read_record(const struct ticket *ticket, struct record *out)
{
	uint64_t nonce = 0;
	char path[64];
	off_t at = (off_t)(sizeof(struct file) + ticket->record * sizeof(*out));
	bool whole;
	int fd;

	if (ticket->record >= RECORDS)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", ticket->pid, ticket->fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		log_write(LOG_WARN,
		    "cuIpcOpenMemHandle: memory of process %d: %s cannot be "
		    "opened",
		    ticket->pid, path);
		return false;
	}
	whole = pread(fd, &nonce, sizeof(nonce), 0) == sizeof(nonce) &&
	    pread(fd, out, sizeof(*out), at) == sizeof(*out);
	close(fd);
	return whole && nonce == ticket->nonce;
}

/* With the lock held. */
static struct opened **
place_of(CUdeviceptr ptr)
{
	struct opened **at = &all;

	while (*at != NULL && (*at)->ptr != ptr)
		at = &(*at)->next;
	return at;
}

/* Takes over `fresh`. */
static void
remember(struct opened *fresh)
{
	struct opened *known;

	pthread_mutex_lock(&lock);
	known = *place_of(fresh->ptr);
	if (known != NULL) {
		known->times++;
	} else {
		fresh->times = 1;
		fresh->next = all;
		all = fresh;
		atomic_fetch_add(&n_opened, 1);
	}
	pthread_mutex_unlock(&lock);
	if (known != NULL)
		meta_free(fresh, sizeof(*fresh));
}

typedef CUresult opener(CUdeviceptr *, CUipcMemHandle, unsigned);

static CUresult
open_part(
    opener *open, const struct ticket *ticket, unsigned flags, CUdeviceptr *out)
{
	struct opened *opened;
	struct record part;
	CUresult code;

	if (out == NULL || !read_record(ticket, &part))
		return CUDA_ERROR_INVALID_VALUE;
	opened = meta_zalloc(sizeof(*opened));
	if (opened == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	code = open(&opened->base, part.handle, flags);
	if (code != CUDA_SUCCESS) {
		meta_free(opened, sizeof(*opened));
		return code;
	}
	opened->ptr = opened->base + part.offset;
	opened->size = part.size;
	*out = opened->ptr;
	remember(opened);
	return CUDA_SUCCESS;
}

static CUresult
open_handle(opener *open, CUdeviceptr *out, const CUipcMemHandle *handle,
    unsigned flags)
{
	struct ticket ticket;

	memcpy(&ticket, handle, sizeof(ticket));
	if (gate_admits() && memcmp(ticket.magic, magic, sizeof(magic)) == 0)
		return open_part(open, &ticket, flags, out);
	return open(out, *handle, flags);
}

CUresult
cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags)
{
	report_call(HOOK_cuIpcOpenMemHandle);
	return open_handle(REAL(cuIpcOpenMemHandle), out, &handle, flags);
}

CUresult
cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags)
{
	report_call(HOOK_cuIpcOpenMemHandle_v2);
	return open_handle(REAL(cuIpcOpenMemHandle_v2), out, &handle, flags);
}

static bool
any_opened(void)
{
	return atomic_load_explicit(&n_opened, memory_order_relaxed) > 0 &&
	    gate_admits();
}

/* What the driver knows an opened part by; the part is open once less. */
static CUdeviceptr
forget(CUdeviceptr ptr)
{
	CUdeviceptr base = ptr;
	struct opened *gone = NULL;
	struct opened **at;

	pthread_mutex_lock(&lock);
	at = place_of(ptr);
	if (*at != NULL)
		base = (*at)->base;
	if (*at != NULL && --(*at)->times == 0) {
		gone = *at;
		*at = gone->next;
		atomic_fetch_sub(&n_opened, 1);
	}
	pthread_mutex_unlock(&lock);
	if (gone != NULL)
		meta_free(gone, sizeof(*gone));
	return base;
}

CUresult
cuIpcCloseMemHandle(CUdeviceptr ptr)
{
	report_call(HOOK_cuIpcCloseMemHandle);
	if (any_opened())
		ptr = forget(ptr);
	return REAL(cuIpcCloseMemHandle)(ptr);
}

bool
ipc_find_opened(CUdeviceptr ptr, struct place *out)
{
	struct opened *o;

	if (!any_opened())
		return false;
	pthread_mutex_lock(&lock);
	o = all;
	while (o != NULL && ptr - o->ptr >= o->size)
		o = o->next;
	if (o != NULL)
		*out = (struct place){
			.base = o->ptr, .size = o->size, .device = -1
		};
	pthread_mutex_unlock(&lock);
	return o != NULL;
}
