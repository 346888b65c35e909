/*
 * Which streams are being captured, and how many as far as weir is told: of its
 * own captures, and by a preload, which sees every capture begin and end. A
 * linked program's own captures are found by asking the streams weir knows.
 */
#ifndef STREAMS_CAPTURE_H
#define STREAMS_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"

#include <weir/weir.h>

struct stream;

/* Tell of a capture before the driver begins it, and after it is over or could
 * not be begun. With no lock held: the first waits for those who hold captures
 * off, who may need it. */
void capture_began(CUcontext context);
void capture_ended(CUcontext context);

/* No capture is begun in between by who tells of it: for a call that would
 * break one, made after it has been seen that there is none. The call does not
 * wait for the program. What the first returns the other is given. */
struct capture_line *capture_hold_off(void);
void capture_let_go(struct capture_line *line);

/* The state that capture_enter() changed, for capture_leave(). */
struct capture_guard {
	struct driver_guard guard;
	struct capture_line *line; /* NULL: as driver_enter() */
};

/*
 * As driver_enter() and driver_leave(), for calls that are short: instead of
 * the thread's capture mode being changed, captures are held off, where that
 * is enough. Nothing in between may wait.
 */
enum weir_status capture_enter(CUcontext context, struct capture_guard *guard);

static inline void
capture_leave(const struct capture_guard *guard)
{
	driver_leave(&guard->guard);
	if (guard->line != NULL)
		capture_let_go(guard->line);
}

/* True while any capture that was told of is under way. */
bool capture_any(void);

/*
 * Whoever tells of captures sees all there are; and, for good, may have missed
 * one: before the driver begins that, as capture_began(). At first nobody says
 * so.
 */
void capture_tell_all(void);
void capture_missed(void);

/* True if no capture can be under way: no stream needs to be asked. */
bool capture_none(void);

/* True if the stream of a handle is in a capture, broken or not, or if that
 * cannot be told. */
bool capture_maybe(CUstream handle);

/* True if a stream may be in a capture; if not, that has cost little. */
bool capture_possible(const struct stream *stream);

/* True if a stream is in a capture that has not been ended, broken or not; not
 * if that cannot be told. */
bool capture_is_open(const struct stream *stream);

/*
 * The driver's number of the capture that a stream is in; 0: it is in none, or
 * in one that has been broken. Cheap where the answer is no.
 *
 * @return WEIR_ECONTEXT, WEIR_EDRIVER: it cannot be told
 */
enum weir_status capture_ask(const struct stream *stream, uint64_t *id);

/* capture_ask(), which returns 0 also if the driver does not say. */
uint64_t capture_of(const struct stream *stream);

/*
 * capture_ask(), and a number for the set of nodes that the stream's next work
 * depends on: while *front stays the same, nothing has been captured on the
 * stream. False if the driver does not say.
 */
bool capture_look(const struct stream *stream, uint64_t *id, uint64_t *front);

/*
 * Put a stream behind another one in a capture that both are in, by an edge of
 * the graph. Both stay in it, and what either has captured must be joined in
 * any case, so no graph becomes wrong by it.
 *
 * @return the tick (streams/order.h) up to which it is behind the other; 0: it
 *         could not be done, and the capture is as it was
 */
uint64_t capture_join(
    struct stream *later, struct stream *earlier, uint64_t id);

#endif
