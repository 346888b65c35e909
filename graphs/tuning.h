/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef GRAPHS_TUNING_H
#define GRAPHS_TUNING_H

/* Bytes that are copied at once when a pool is suspended, and the threads that
 * copy: eight reach 42 GB/s on an H200. */
enum {
	SUSPEND_PIECE = 32 << 20,
	SUSPEND_THREADS = 8,
};

/* Bytes that are written to a file at once, each by one of some threads with a
 * buffer of page-locked memory: 32 MiB together. A disk needs some writes under
 * way, and 8 MiB are many times what a write costs beside its bytes. At most
 * SUSPEND_THREADS. */
enum {
	SLEEP_FILE_PIECE = 8 << 20,
	SLEEP_FILE_THREADS = 4,
};

/* Bytes between two live ranges of one handle up to which they are copied as
 * one: a copy of its own costs about 5 us, in which a link of 50 GB/s copies
 * as many bytes. */
enum { SLEEP_GAP = 256 << 10 };

/* Milliseconds that weir_sleep() waits for threads that are mapping memory,
 * before it gives up. A driver's calls for one request take some 10 ms. */
enum { SLEEP_SETTLE_MS = 5000 };

/* Milliseconds in which a device that is to doze must have no work in flight
 * any more. An event on a device without work is met within some 50 us. */
enum { DOZE_SETTLE_MS = 2 };

/* Pools and ranges in one text of sleep.state, which has 1,023 bytes: a range
 * takes some 30 of them. */
enum { SLEEP_WORDS = 64 };

/* Hooks of a process around its sleeps: one for each library that must know. */
enum { SLEEP_HOOKS = 16 };

/* Milliseconds between two tries of weir_wake() to get memory that others
 * hold. */
enum { WAKE_RETRY_MS = 5 };

#endif
