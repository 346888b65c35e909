/*
 * The numbers of this room that were chosen and can be chosen otherwise: each
 * with its unit and its reason. lab/one-layout.md has the experiments unless
 * another one is named.
 */
#ifndef ALLOCATOR_MEMORY_TUNING_H
#define ALLOCATOR_MEMORY_TUNING_H

/* ---- Growing: segment.h, Note [Growing] -------------------------------- */

/* Handles that a request grows by, so that a large one costs few driver calls
 * and a small block pins little. */
enum { HANDLES_OF_REQUEST = 8 };

/* Bytes of a handle, at least. Smaller ones cost many calls and hold hardly
 * less. */
enum { HANDLE_USUAL = 8 << 20 };

/* Bounds of one handle, because large ones make requests fail near a limit: a
 * part of what is left of the limit, of the limit, and of the device. */
enum { LEFT_SHARE = 64 };
enum { HANDLES_LEAST = 1024 };
enum { HANDLES_OF_DEVICE = 128 };

/* Devices in one driver call that opens memory. The bound is small because a
 * thread's stack may have 16 KiB only. */
enum { ACCESS_MAX = 16 };

/* ---- Moving: remap.c, Note [Remapping] --------------------------------- */

/* Parts of a row, at most, that one remap maps. */
enum { PARTS_MAX = 16 };

/* A moved handle may be so many times as large as the missing bytes. */
enum { LARGER_TIMES = 8 };

/* The number of the largest runs of a pool that are searched for handles, as
 * long as new memory may be had. More would take longer and gain nothing,
 * because the largest donors are used first. */
enum { RUNS_ASKED = 64 };

/* If all free memory may be searched for handles, so many times the missing
 * bytes are searched for at first. */
enum { ENOUGH_TIMES = 2 };

/* The number of unmapped blocks up to which a row is searched through all. */
enum { ROWS_ASKED = 64 };

/* Microseconds. To unmap page-locked memory, and to map it elsewhere with
 * access, takes 54 to 75 us a MiB on an H200: docs/adr/0013. */
enum { MOVE_US_PER_MIB = 60 };

/* ---- Searching --------------------------------------------------------- */

/* Blocks that other streams hold back and that a search for rows looks at, all
 * of them up to this number: spans.c, Note [Bounded searches]. */
enum { SPANS_ASKED = 512 };

/* Blocks that a request lists or moves at most: a fraction of a millisecond. */
enum { BLOCKS_AT_ONCE = 256 };

/* Streams whose answer a view keeps. */
enum { VIEW_KEPT = 16 };

/*
 * From this number of streams on, the streams of an arena are many. It is
 * half of TCACHE_WAYS, where two streams in five share their place in a
 * thread's tables with another one. Among many streams a request mostly comes
 * on another stream than the request before it, which would put away again what
 * is kept ready for one stream. So nothing is kept ready.
 */
enum { STREAMS_MANY = 32 };

/* ---- Decay: request/decay.h -------------------------------------------- */

/* Requests for device memory after which decay looks at the clock. */
enum { DEVICE_DECAY_REQUESTS = 64 };

/* ---- Memory of weir's own ---------------------------------------------- */

/* Structures of blocks that are allocated at once. */
enum { BLOCKS_A_SLAB = 64 };

#endif
