/*
 * The records of an event that processes share, in a page of shared memory.
 *
 * The page counts the records that were made and those that have happened. Each
 * process has its own virtual time, and in a process that sleeps, work would
 * never end. So when a process records a shared event, its virtual time
 * advances until the event has happened. To the other process the device looks
 * very fast.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "simcuda/shared.h"

/* Stored in the shared page. */
struct counts {
	uint64_t recorded;
	uint64_t happened;
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

struct shared_event *
shared_event_open(int fd)
{
	struct shared_event *shared;
	void *page = mmap(NULL, SHARED_EVENT_BYTES, PROT_READ | PROT_WRITE,
	    MAP_SHARED, fd, 0);

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
	munmap(event->shared->counts, SHARED_EVENT_BYTES);
	close(event->shared->fd);
	free(event->shared);
	event->shared = NULL;
}
