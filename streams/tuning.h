/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef STREAMS_TUNING_H
#define STREAMS_TUNING_H

/* Counts of threads inside, each on a cache line of its own. */
enum { CAPTURE_LINES = 64 };

/* Reads of a count before the processor is yielded. */
enum { CAPTURE_LOOKS = 100 };

/* Nanoseconds. Two events with no wait between them are at most this far apart.
 */
enum { DELAY_NO_WAIT_NS = 5000 };

/* The program's first waits on a stream are measured, DELAY_LOOKS_FIRST of
 * them, and then one in DELAY_LOOK_EVERY_NS. The two events take some 2 us of
 * the stream's time on an H200, so that measuring costs a thousandth of it;
 * measuring each wait took more than a hundredth. */
enum {
	DELAY_LOOKS_FIRST = 64,
	DELAY_LOOK_EVERY_NS = 2000000,
};

/* The first capacity of a stream's ring of open waits, and the largest. */
enum {
	DELAY_CAPACITY_FIRST = 16,
	DELAY_OPEN = 512,
};

/* Waits, and streams, that are copied to the stack at once: it may be small. */
enum {
	DELAY_CLOSED_AT_ONCE = 32,
	DELAY_STREAMS_AT_ONCE = 64,
};

/* Streams in a chain, each of which has waited for the next. */
enum { DELAY_STREAMS_DEEP = 16 };

/* Unused events that are kept for the next use. */
enum { EVENTS_KEPT = 4096 };

/* The program's events whose records are remembered; a power of two. */
enum { ORDER_EVENTS = 2048 };

/* Other streams up to whose work a stream is known to be ordered. */
enum { ORDER_KNOWN = 24 };

/* Streams of weir's own that are kept for the next caller. */
enum { STREAMS_KEPT = 4096 };

/* Microseconds between two looks at an event that a thread awaits for a limited
 * time. */
enum { END_PAUSE_US = 50 };

/* Buckets of the table of streams. */
enum { STREAM_BUCKETS = 256 };

/* Unused structures that an arena keeps. */
enum {
	QUEUES_KEPT = 32,
	USES_KEPT = 1024,
};

/* Uses that share an event, and their bytes, whichever is reached first. */
enum {
	USE_BATCH = 16,
	USE_BATCH_BYTES = 1 << 20,
};

/* Bytes in place of USE_BATCH_BYTES for WEIR_STREAM_ANY, whose records are
 * dear. */
enum { USE_BATCH_BYTES_DEAR = 64 << 20 };

/* GLANCES of REQUESTS_A_GLANCE requests look at less than a batch, and
 * GLANCES_PAUSED is the most glances that skip a queue: use.h, Note [Glances].
 */
enum {
	GLANCES = 3,
	REQUESTS_A_GLANCE = 1024,
	GLANCES_PAUSED = 8,
};

/* Uses of a block that are looked through one by one; more have a tree. */
enum { USES_FEW = 8 };

#endif
