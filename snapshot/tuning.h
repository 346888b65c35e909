/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef SNAPSHOT_TUNING_H
#define SNAPSHOT_TUNING_H

/* Bytes of memory for reading a file: a base that each file may have, and bytes
 * for each byte that is stored and that is decompressed. budget.h, Note [The
 * budget of a reader], has the reasons. */
enum {
	BUDGET_STORED_BASE = 256 << 20,
	BUDGET_STORED_RATIO = 256,
	BUDGET_DECODED_BASE = 64 << 20,
	BUDGET_DECODED_RATIO = 64,
};

/* The first sizes of the table of names. */
enum {
	FRAMES_FIRST_ENTRIES = 1024,
	FRAMES_FIRST_BYTES = 64 << 10,
};

/* Lists that are open at once in a pickle. */
enum { PICKLE_MARKS = 256 };

/* Devices of a snapshot. A file with more counts as damaged. */
enum { ROWS_DEVICES = 4096 };

/* Settings of a snapshot, and how deep their dicts nest. Further ones are
 * ignored. */
enum {
	ROWS_SETTINGS = 4096,
	ROWS_SETTINGS_DEPTH = 4,
};

/* Plans: the requests that one lists at most, which a step of a large model's
 * training does not reach; its streams, as more cannot be told apart by the
 * order in which they first appear; and the bytes of its range, above any
 * device's. */
enum { PLAN_ENTRIES = 1 << 16 };
enum { PLAN_STREAMS = 32 };
#define PLAN_BYTES ((uint64_t)1 << 48)

/* Requests that a program has made as a plan lists them before the plan is
 * believed: fewer are the same in many programs. */
enum { PLAN_SEEN = 8 };

/* Rounds in a row that differ from the plan before it is dropped. */
enum { PLAN_DIFFERING = 3 };

/* The first room of a source, in bytes. */
enum { SOURCE_FIRST_ROOM = 1 << 18 };

/* Notes that are written together. */
enum { WRITE_NOTES = 256 };

/* Items of a list that a pickle appends at once, as Python's own does. */
enum { WRITER_BATCH = 1000 };

/* Dictionaries and lists that are open at once. */
enum { WRITER_DEPTH = 16 };

#endif
