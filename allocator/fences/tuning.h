/*
 * The numbers of this room that were chosen and can be chosen otherwise.
 */
#ifndef ALLOCATOR_FENCES_TUNING_H
#define ALLOCATOR_FENCES_TUNING_H

/* A stream gets a fence whenever it has freed and allocated one part in
 * FENCE_SHARE of its held bytes, and at least FENCES_LEAST. Of what it has
 * freed since its latest fence no other stream can know that it is complete. */
enum { FENCE_SHARE = 1024 };
enum { FENCES_LEAST = 1 << 20 }; /* bytes */

/* Fences of a stream: fence.c, Note [Fences]. A host that gives work to
 * three streams may be 60 ms and 3,000 ticks ahead of the device. With 64
 * fences they are then a millisecond apart, and most waits that cost nothing
 * look as if they cost something. */
enum { FENCES = 256 };

/* Streams that one request polls. */
enum { FENCES_ASKED = 64 };

#endif
