/*
 * The numbers of this room that were chosen and can be chosen otherwise.
 * lab/one-layout.md has the experiments unless another one is named.
 */
#ifndef ALLOCATOR_REQUEST_TUNING_H
#define ALLOCATOR_REQUEST_TUNING_H

/* ---- How often --------------------------------------------------------- */

/* If several streams allocate, the streams are polled for large requests once
 * in so many requests, and whenever a request finds no memory. */
enum { REQUESTS_A_POLL = 4 };

/* After so many requests that no cache serves, all cached blocks go to the pool
 * and merge there, where the arena drains caches; otherwise the pool would stay
 * cut up around them. */
enum { REQUESTS_A_DRAIN = 128 };

/* Periods that `decay_ms` is divided into. */
enum { DECAY_STEPS = 5 };

/* How often a request searches again because a wait has changed blocks. */
enum { REQUEST_TRIES = 64 };

/* ---- How many are looked at -------------------------------------------- */

/* Pending blocks that a request looks at if it may get new memory instead. */
enum { PENDING_ASKED = 256 };

/* Unmet events of a stream that a poll skips. */
enum { RECLAIM_SKIPS = 64 };

/* A poll asks ended streams until so many have not completed. A stream that
 * ends after many others is therefore noticed some polls later. */
enum { ENDS_ASKED = 1 };

/* Blocks of a stream that are looked at, at most, to find out how much memory
 * it holds back. */
enum { FREED_ASKED = 1024 };

/* ---- Waits ------------------------------------------------------------- */

/* Nanoseconds of the first level of price_wait(). */
enum { LEVEL_NS = 15000 };

/* ---- Decay ------------------------------------------------------------- */

/* How often the time of decay is doubled, at most: to 64 times `decay_ms`. */
enum { SLOWER_MAX = 6 };

/* Memory that decays goes back in portions, so that no request pays for more
 * than a few driver calls: so many rows, or, if it has come to so many bytes,
 * fewer. */
enum { SHED_PIECES = 16 };
enum { SHED_BYTES = 1 << 30 };

/* Page-locked memory that may stay unused: one part in HOST_SPARE_SHARE of the
 * peak of requested bytes, with prefer:speed one in HOST_SPARE_SHARE_FAST, and
 * at least HOST_SPARE_LEAST bytes. */
enum { HOST_SPARE_SHARE = 8 };
enum { HOST_SPARE_SHARE_FAST = 2 };
enum { HOST_SPARE_LEAST = 16 << 20 };

/* ---- Rounds: places.h -------------------------------------------------- */

/* Notes that are kept: some rounds of a training step, which has a few thousand
 * large requests. */
enum { PLACE_NOTES = 8192 };

/* Requests that have repeated themselves before a round is believed. Layers of
 * a model repeat each other up to some dozens of times, and each wants a place
 * of its own. */
enum { ROUND_LEAST = 64 };

/* ---- Plans: plan.h ----------------------------------------------------- */

/* How often as many bytes as a plan's range has may be mapped there again. A
 * program that gives its unused memory back now and then keeps its plan; for
 * one that does so in each round, the calls cost more than the plan gains. */
enum { PLAN_RENEWALS = 16 };

#endif
