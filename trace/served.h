/*
 * How a request was served that its own pool could not serve at once.
 *
 * The reclaim ladder (allocator/request/ladder.h) says which of its steps found
 * the memory; those who make waits, map memory or move it add what they did for
 * the request. Reports, the history and the weir command say it in the words of
 * this table.
 *
 * All of it is the calling thread's: a request leaves its arena's lock while it
 * is served, and what other threads do meanwhile is not its own.
 */
#ifndef TRACE_SERVED_H
#define TRACE_SERVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, word): the ways, in the order in which they are tried. Those but the
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
	uint32_t waits;       /* put into the request's stream */
	uint32_t host_waits;  /* of the calling thread for the device */
	uint32_t moved;       /* handles that were mapped elsewhere before */
	uint64_t waited_for;  /* the handle of the stream of the latest wait */
	uint64_t grown_bytes; /* of new memory */
};

/* The word of a way. */
const char *served_word(enum served_by by);

/* Write "wait for stream 0x7f10, moved 4 handles, grown 64 MiB": the way, and
 * what was done. The text is cut at its end. Returns `text`. */
enum { SERVED_TEXT = 160 };
const char *served_text(const struct served *served, char text[SERVED_TEXT]);

/* As served_text(), where more is known of the waits. */
struct served_wait {
	const char *stream; /* the name of the stream that was waited for */
	uint64_t ns;        /* that the waits took */
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
	bool told;    /* `served` is for the history's next event */
	uint64_t tag; /* of the waits that are made; 0: none */
};
#pragma GCC visibility push(hidden)
extern _Thread_local struct served_request served_here;
#pragma GCC visibility pop

/* A request begins to look beyond its own pool. */
static inline void
served_begin(void)
{
	served_here.served = (struct served){ 0 };
	served_here.told = false;
}

static inline void
served_try(enum served_by by)
{
	served_here.served.tried |= 1u << by;
}

/* It was served. `told`: the history has an event of it next. */
static inline void
served_end(enum served_by by, bool told)
{
	served_here.served.by = by;
	served_here.told = told;
}

/* A wait for the stream of a handle was put into the request's stream. */
static inline void
served_waited(uint64_t handle)
{
	served_here.served.waits++;
	served_here.served.waited_for = handle;
}

/* ---- What waits took --------------------------------------------------- */

/*
 * Waits are measured when they are over (streams/delay.h), which is later. A
 * caller that wants to know gives its requests a tag each, and is called with
 * the tag for each wait that was measured, by whoever sees its end. NULL: no
 * more.
 */
typedef void (*served_listener)(uint64_t tag, uint64_t ns);
void served_listen(served_listener listener);

/* A wait of the request with a tag has kept its stream for so long. */
void served_measured(uint64_t tag, uint64_t ns);

#endif
