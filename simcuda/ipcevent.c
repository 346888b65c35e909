/*
 * Handles of events that processes share.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "simcuda/shared.h"

enum { EVENT_MAGIC = 0x73696d65 };

/* The content of a CUipcEventHandle. */
struct event_handle {
	uint32_t magic;
	int32_t pid;
	int32_t fd;
};

static CUresult
share(struct event *event)
{
	int fd;

	if (event->shared != NULL)
		return CUDA_SUCCESS;
	fd = memfd_create("simcuda-event", MFD_CLOEXEC);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (ftruncate(fd, SHARED_EVENT_BYTES) != 0) {
		close(fd);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	event->shared = shared_event_open(fd);
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
	shared = shared_event_open(fd);
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
