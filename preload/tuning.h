/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef PRELOAD_TUNING_H
#define PRELOAD_TUNING_H

/* Devices that the preload knows; the driver serves further ones. */
enum { PRELOAD_DEVICES = 64 };

/* Contexts besides the primary ones that are remembered. */
enum { CONTEXT_GUESTS = 64 };

/* Buckets of the tables of blocks' identities, of pools, of their blocks, and
 * of streams' contexts. */
enum {
	IDENTITY_BUCKETS = 1024,
	POOL_BUCKETS = 64,
	POOL_BLOCK_BUCKETS = 4096,
	STREAM_ORIGINS = 1024,
};

/* Bytes by which the driver's memory pools grow. */
enum { POOL_PAGE = 2 << 20 };

/* Buckets of the tables of memory that the driver serves. A program that maps
 * its own memory has some ten thousand pieces. */
enum { OUTSIDE_BUCKETS = 4096 };

/* Requests that a limit has refused and that are logged. A program that tries
 * again and again would fill its log. */
enum { OUTSIDE_REFUSALS = 20 };

/* Milliseconds between two measurements of what contexts take. NVML needs some
 * ten microseconds for one, which is little beside the call that is counted. */
enum { OUTSIDE_MEASURE_MS = 100 };

/* Milliseconds between two tries of a launch to wake its device, whose memory
 * others hold, and those after which it says that it waits. */
enum { HELD_RETRY_MS = 20, HELD_LONG_MS = 1000 };

/* A launch: pointers and parameters that are looked at, and the kernels whose
 * parameters are remembered. */
enum {
	LAUNCH_POINTERS = 256,
	LAUNCH_PARAMETERS = 512,
	LAUNCH_FUNCTIONS = 1 << 10,
};

/* NVTX: bytes of a name, ranges that nest on a thread, ranges that are open,
 * and strings that are registered. */
enum {
	NVTX_NAME = 120,
	NVTX_LEVELS = 32,
	NVTX_OPEN = 256,
	NVTX_STRINGS = 4096,
};

/* `--check-streams` remembers this many streams, events (also the buckets of
 * their table), streams of a block, and freed blocks. */
enum {
	RACE_STREAMS = 128,
	RACE_EVENTS = 4096,
	RACE_USERS = 8,
	RACE_FREED = 1 << 16,
};

/* Faults that are printed, and frames of a stack. */
enum {
	RACE_REPORTS = 100,
	RACE_FRAMES = 16,
};

/* Bytes of the tables of stacks. */
enum {
	RACE_STACK_BYTES = 16 << 20,
	SITE_STACK_BYTES = 64 << 20,
};

/* Blocks and sites that the tables begin with. */
enum {
	SITE_BLOCKS_FIRST = 1 << 14,
	SITES_FIRST = 1 << 10,
};

/* Bytes that a thread may have counted and not yet told to the others. */
enum { TALLY_SLACK = 1 << 20 };

/* A thread remembers how requests of 1 << ORDERED_KNOWN_BITS streams were
 * answered. */
enum { ORDERED_KNOWN_BITS = 4 };

/* Bytes of a parameter up to which its words are evidence of a use, and up to
 * which they are looked at: launches.c, Note [Large parameters]. */
enum { SURE_BYTES = 64, WRITTEN_BYTES = 2 << 10 };

#endif
