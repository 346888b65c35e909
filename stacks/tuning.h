/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef STACKS_TUNING_H
#define STACKS_TUNING_H

/* Bytes of memory for reading a file: a base that each file may have, and bytes
 * for each byte that is stored and that is decompressed. budget.h, Note [The
 * budget of a reader], has the reasons. */
enum {
	BUDGET_STORED_BASE = 256 << 20,
	BUDGET_STORED_RATIO = 256,
	BUDGET_DECODED_BASE = 64 << 20,
	BUDGET_DECODED_RATIO = 64,
};

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
