/*
 * Finds out which streams are being captured. weir counts its own captures, and
 * those that a preload announces, which sees every capture begin and end. It
 * finds other captures by asking the streams that it knows.
 */
#ifndef STREAMS_CAPTURE_H
#define STREAMS_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"

#include <weir/weir.h>

struct stream;

/* Announce a capture before the driver begins it, and report its end, or that
 * it could not be begun. The caller holds no lock: capture_began() waits for
 * threads that hold captures off, and these may need the lock. */
void capture_began(CUcontext context);
void capture_ended(CUcontext context);

/* Hold captures off between these two calls: no announced capture begins. This
 * is for a driver call that would break a capture, made after the thread has
 * seen that there is none. The call must not wait for the device.
 * capture_let_go() gets the result of capture_hold_off(). */
struct capture_line *capture_hold_off(void);
void capture_let_go(struct capture_line *line);

/* The state that capture_enter() changed, for capture_leave(). */
struct capture_guard {
	struct driver_guard guard;
	struct capture_line *line; /* NULL: the mode was changed */
};

/*
 * As driver_enter() and driver_leave(), for short calls. If all captures are
 * announced and none is under way, captures are held off instead of changing
 * the thread's capture mode. No call in between may wait.
 */
enum weir_status capture_enter(CUcontext context, struct capture_guard *guard);

static inline void
capture_leave(const struct capture_guard *guard)
{
	driver_leave(&guard->guard);
	if (guard->line != NULL)
		capture_let_go(guard->line);
}

/* True while an announced capture is under way. */
bool capture_any(void);

/*
 * capture_announce_all() declares that every capture is announced.
 * capture_missed() withdraws that for good, and is called before the driver
 * begins a capture that is not announced; it waits as capture_began() does.
 * Before either call weir assumes that captures may be missed.
 */
void capture_announce_all(void);
void capture_missed(void);

/* True if no capture can be under way, so that no stream need be asked. */
bool capture_none(void);

/* True if the stream of a handle is in a capture, broken or not, or if the
 * driver does not say. */
bool capture_maybe(CUstream handle);

/* True if a stream may be in a capture. The answer false is cheap. */
bool capture_possible(const struct stream *stream);

/* True if a stream is in a capture that has not been ended, broken or not.
 * False if the driver does not say. */
bool capture_is_open(const struct stream *stream);

/*
 * Get the driver's number of the capture that a stream is in; 0: it is in none,
 * or in a broken one. The answer 0 is cheap.
 *
 * @return WEIR_ECONTEXT, WEIR_EDRIVER: the driver does not say
 */
enum weir_status capture_ask(const struct stream *stream, uint64_t *id);

/* As capture_ask(), but 0 also if the driver does not say. */
uint64_t capture_of(const struct stream *stream);

/*
 * As capture_ask(), and get a hash of the set of nodes that the stream's next
 * work depends on. While *front does not change, nothing has been captured on
 * the stream. False if the driver does not say.
 */
bool capture_look(const struct stream *stream, uint64_t *id, uint64_t *front);

/*
 * Order `later` after `earlier` in a capture that both are in, by an edge of
 * the graph. This makes no graph invalid: both streams were in the capture
 * before, and the program must join them in any case.
 *
 * @return the tick (streams/order.h) up to which `later` is now ordered after
 * `earlier`; 0: it could not be done, and the capture has not changed
 */
uint64_t capture_join(
    struct stream *later, struct stream *earlier, uint64_t id);

#endif
