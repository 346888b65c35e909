/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef BASE_TUNING_H
#define BASE_TUNING_H

/* Reads of a taken lock before its thread sleeps: about a microsecond. */
enum { LOCK_LOOKS = 40 };

/* Locks that one thread may hold at once, in builds that check locks. */
enum { LOCK_HELD_MAX = 16 };

/* Bytes of a line of the log, and of one where the stack is small. */
enum {
	LOG_LINE = 4096,
	LOG_LINE_SHORT = 256,
};

/* Bytes from which a call that gives pages back pays. */
enum { META_LARGE = 1 << 20 };

/* Characters of the longest word that is compared with others. */
enum { NEAREST_LONGEST = 63 };

/* Names that are tried for a temporary file. */
enum { OUT_TRIES = 100 };

/* Bytes that are collected before a write. */
enum { OUT_BUFFER = 256 << 10 };

/* Milliseconds that the end of a process waits for threads that are inside. */
enum { QUIET_WAIT_MS = 2000 };

/* Bytes of the text of an error, which the out-of-memory report fits. A longer
 * text is cut. */
enum { STATUS_TEXT_SIZE = 2048 };

#endif
