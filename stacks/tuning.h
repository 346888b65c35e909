/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef STACKS_TUNING_H
#define STACKS_TUNING_H

/* Functions that are inlined at one address, and bytes of a name; what is
 * beyond them is left out. */
enum {
	NAME_PLACES_MAX = 8,
	NAME_TEXT = 256,
};

/* Helpers that may fail before no more is asked: a file has some entries that
 * end a helper, or is corrupt as a whole. */
enum { NAMES_FAILURES = 4 };

/* Milliseconds that names may take: a helper needs ten seconds for a gigabyte
 * of debug information. And milliseconds that the end of a helper may take,
 * which got SIGKILL: it is gone in less, unless a disk is. */
enum {
	NAMES_MS = 20000,
	NAMES_END_MS = 1000,
};

/* Bytes of questions and of answers that are under way: more than one line. */
enum { NAMES_BUFFER = 64 << 10 };

/* Code objects of Python whose names are remembered, and the buckets of their
 * table. */
enum {
	PYTHON_CODES = 1 << 16,
	PYTHON_BUCKETS = 1 << 17,
};

/* Frames of the stack that a thread takes before it releases Python's lock. */
enum { PYTHON_HELD = 64 };

/* Frames of a chain that are followed; a longer one counts as damaged. */
enum { PYTHON_STEPS = 1000 };

/* Bytes of a name of Python. */
enum { LAYOUT_TEXT = 512 };

/* The table of remembered stacks: its buckets, the stacks of each, and the
 * bytes of all. */
enum {
	RECALL_BUCKETS = 1 << 12,
	RECALL_WAYS = 8,
	RECALL_BYTES = 16 << 20,
};

/* Bytes of a thread's stack that unwinding needs. */
enum { UNWIND_NEEDED = 12 << 10 };

/* Entries of the table of stacks that are looked at for a free one. */
enum { STACK_PROBES = 64 };

/* Frames that a caller may leave out at the inner end. */
enum { STACK_SKIP_MAX = 16 };

/* Frames of a stack. Outer frames beyond this number are left out. */
enum { STACK_FRAMES_MAX = 64 };

/* Buckets of the table of texts. */
enum { TEXT_BUCKETS = 1 << 17 };

#endif
