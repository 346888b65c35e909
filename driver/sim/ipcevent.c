/*
 * Events that processes share.
 *
 * They use a page of shared memory that counts the records that were made and
 * those that have happened. Each process has its own virtual time, and in a
 * process that sleeps, work would never end. So when a process records a shared
 * event, its virtual time advances until the event has happened. To the other
 * process the device looks very fast.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver/sim/shared.h"

enum { EVENT_MAGIC = 0x73696d65, EVENT_BYTES = 4096 };

/* Stored in the shared page. */
struct counts {
	uint64_t recorded;
	uint64_t happened;
};

struct shared_event {
	int fd;
	struct counts *counts;
};

/* The content of a CUipcEventHandle. */
struct event_handle {
	uint32_t magic;
	int32_t pid;
	int32_t fd;
};

static uint64_t
load_shared(const uint64_t *count)
{
	return __atomic_load_n(count, __ATOMIC_ACQUIRE);
}

void
shared_event_record(struct event *event)
{
	uint64_t n = __atomic_add_fetch(
	    &event->shared->counts->recorded, 1, __ATOMIC_ACQ_REL);

	time_wait_mark(event->mark);
	__atomic_store_n(&event->shared->counts->happened, n, __ATOMIC_RELEASE);
}

bool
shared_event_done(const struct event *event)
{
	const struct counts *counts = event->shared->counts;

	return load_shared(&counts->happened) >= load_shared(&counts->recorded);
}

void
shared_event_wait(struct event *event)
{
	while (!shared_event_done(event))
		gate_pause();
}

/* Takes ownership of the descriptor; if it cannot be used, closes it and
 * returns NULL. */
static struct shared_event *
shared_open(int fd)
{
	struct shared_event *shared;
	void *page =
	    mmap(NULL, EVENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED) {
		close(fd);
		return NULL;
	}
	shared = sim_alloc(sizeof(*shared));
	shared->fd = fd;
	shared->counts = page;
	return shared;
}

void
shared_event_close(struct event *event)
{
	munmap(event->shared->counts, EVENT_BYTES);
	close(event->shared->fd);
	free(event->shared);
	event->shared = NULL;
}

static CUresult
share(struct event *event)
{
	int fd;

	if (event->shared != NULL)
		return CUDA_SUCCESS;
	fd = memfd_create("simcuda-event", MFD_CLOEXEC);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (ftruncate(fd, EVENT_BYTES) != 0) {
		close(fd);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	event->shared = shared_open(fd);
	if (event->shared == NULL)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (event->recorded)
		shared_event_record(event);
	return CUDA_SUCCESS;
}

CUresult
cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event_handle)
{
	CUresult code = gate_enter(E_cuIpcGetEventHandle);
	struct event_handle out = { .magic = EVENT_MAGIC, .pid = getpid() };
	struct event *event = NULL;

	if (code == CUDA_SUCCESS && handle == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		event = event_find(event_handle, &code);
	if (code == CUDA_SUCCESS && (event->flags & CU_EVENT_INTERPROCESS) == 0)
		code = CUDA_ERROR_INVALID_HANDLE;
	if (code == CUDA_SUCCESS)
		code = share(event);
	if (code == CUDA_SUCCESS) {
		out.fd = event->shared->fd;
		memset(handle, 0, sizeof(*handle));
		memcpy(handle, &out, sizeof(out));
	}
	return gate_leave(code);
}

static CUresult
open_shared_event(const struct event_handle *in, CUevent *out)
{
	struct shared_event *shared;
	struct event *event;
	char path[64];
	int fd;

	if (in->magic != EVENT_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (in->pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", in->pid, in->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return CUDA_ERROR_MAP_FAILED;
	shared = shared_open(fd);
	if (shared == NULL)
		return CUDA_ERROR_MAP_FAILED;
	event = event_new(
	    sim.here, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
	event->shared = shared;
	*out = handle_pointer(event->handle);
	return CUDA_SUCCESS;
}

CUresult
cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
	CUresult code = gate_enter(E_cuIpcOpenEventHandle);
	struct event_handle in;

	memcpy(&in, &handle, sizeof(in));
	if (code == CUDA_SUCCESS && event == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = open_shared_event(&in, event);
	return gate_leave(code);
}
