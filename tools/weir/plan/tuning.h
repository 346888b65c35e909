/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef TOOLS_WEIR_PLAN_TUNING_H
#define TOOLS_WEIR_PLAN_TUNING_H

/* Bytes above which a request is large: weir has other segments for those up to
 * it, which a plan leaves alone. */
enum { PLANNED_ABOVE = 1 << 20 };

/* Rounds that a recording must have in a row, so that two can be compared. */
enum { PLANNED_ROUNDS = 2 };

/* Rounds that a plan has as one, at most: the parts of a batch that a pipeline
 * has in flight are fewer. */
enum { PLANNED_AS_ONE = 32 };

/* Replays by which the bytes are found that a plan may have whose streams wait
 * for some places. Each halves what is left, or better. */
enum { PLANNED_HALVINGS = 6 };

/* The parts of longer lives, of which a request that does not fit apart for all
 * of them counts as many as fit. Each costs a pass over the placed requests. */
enum { PLANNED_PARTS = 4 };

/* A round of a recording is steady if its time differs from the median by no
 * more than one part in so many. Those in which the host runs ahead of the
 * device take a tenth of the median, and the one after them a tenth less. */
enum { PLANNED_STEADY_SHARE = 20 };

/* How often a round is packed with one place in each part for most requests,
 * and those apart that did not fit the time before. */
enum { PLANNED_APART = 8 };

/* Two plans hold about as much if they differ by no more than one part in so
 * many. */
enum { PLANNED_SAME_SHARE = 100 };

/* With two plans about as many requests move if they differ by no more than one
 * part in so many of the requests. */
enum { PLANNED_MOVED_SHARE = 20 };

/* ---- The price of waits ------------------------------------------------ */

/* Nanoseconds of the host for a wait inside a stream, whose work may be over
 * long since: an event is recorded and waited for, each about a microsecond
 * (streams/tuning.h has two events for 2 us). */
enum { PLANNED_WAIT_NS = 2000 };

/* With a plan waits may cost one part in so many of the recording's time more
 * than without: a quarter of a percent. Steps of one program differ by more
 * from run to run, and their times are compared to a percent. */
enum { PLANNED_COST_SHARE = 400 };

#endif
