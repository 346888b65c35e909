/*
 * How a request was served that its own pool could not serve at once.
 *
 * The reclaim ladder (allocator/request/ladder.h) says which of its steps found
 * the memory. The code that waits, maps memory or moves it adds what it did for
 * the request. Reports, the history and the weir command use the words of this
 * table.
 *
 * All of this belongs to the calling thread. A request releases its arena's
 * lock while it is served, and work that other threads do in that time is not
 * counted for it.
 */
#ifndef TRACE_SERVED_H
#define TRACE_SERVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/tuning.h"

/* X(name, word): the ways, in the order in which they are tried. All but the
 * first are counted, as num_served_NAME and served_NAME_bytes of struct
 * weir_stats. */
#define SERVED_WAYS(X) X(own, "own") SERVED_BEYOND(X)
#define SERVED_BEYOND(X)                                                       \
	X(anywhere, "best fit anywhere")                                       \
	X(ready, "ready run")                                                  \
	X(cached, "cached")                                                    \
	X(polled, "polled")                                                    \
	X(wait, "wait")                                                        \
	X(moved, "moved")                                                      \
	X(grown, "grown")                                                      \
	X(unrounded, "unrounded")                                              \
	X(drained, "all caches")                                               \
	X(forced, "any wait")                                                  \
	X(reclaimed, "given back")

enum served_by {
#define SERVED_ENUM(name, word) SERVED_##name,
	SERVED_WAYS(SERVED_ENUM)
#undef SERVED_ENUM
	    SERVED_WAY_COUNT
};

struct served {
	enum served_by by;
	uint32_t tried;       /* a bit for each way */
	uint32_t waits;       /* waits that the request's stream makes */
	uint32_t host_waits;  /* waits of the calling thread for the device */
	uint32_t moved;       /* handles that were mapped elsewhere before */
	uint64_t waited_for;  /* handle of the stream of the latest wait */
	uint64_t grown_bytes; /* new memory from the driver */
};

/* The word of a way. */
const char *served_word(enum served_by by);

const char *served_text(const struct served *served, char text[SERVED_TEXT]);

/* served_text() with more details of the waits. */
struct served_wait {
	const char *stream; /* name of the stream that was waited for */
	uint64_t ns;        /* how long the waits took */
	bool is_measured;
};
const char *served_phrase(const struct served *served,
    const struct served_wait *wait, char text[SERVED_TEXT]);

/* Write the steps that were tried, with their waits and moves: "ready run,
 * cached, 2 waits". */
const char *served_tried(const struct served *served, char text[SERVED_TEXT]);

/* ---- The calling thread's request -------------------------------------- */

struct served_request {
	struct served served;
	bool has_event; /* `served` belongs to the next history event */
	uint64_t tag;   /* tag of the waits that are made; 0: none */
};
#pragma GCC visibility push(hidden)
extern _Thread_local struct served_request served_here;
#pragma GCC visibility pop

/* Begin a request that looks beyond its own pool. */
static inline void
served_begin(void)
{
	served_here.served = (struct served){ 0 };
	served_here.has_event = false;
}

static inline void
served_try(enum served_by by)
{
	served_here.served.tried |= 1u << by;
}

/* End the request. `has_event`: its history event follows. */
static inline void
served_end(enum served_by by, bool has_event)
{
	served_here.served.by = by;
	served_here.has_event = has_event;
}

/* Count a wait of the request's stream for the stream with this handle. */
static inline void
served_waited(uint64_t handle)
{
	served_here.served.waits++;
	served_here.served.waited_for = handle;
}

/* ---- What waits took --------------------------------------------------- */

/*
 * The length of a wait is measured after it has ended (streams/delay.h). A
 * caller that wants to know it gives each of its requests a tag. The listener
 * is called with the tag for each measured wait, on the thread that sees the
 * wait's end. NULL removes the listener.
 */
typedef void (*served_listener)(uint64_t tag, uint64_t ns);
void served_listen(served_listener listener);

/* Report that a wait with this tag has delayed its stream by `ns`. */
void served_measured(uint64_t tag, uint64_t ns);

#endif
