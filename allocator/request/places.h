/*
 * The places that a program's large requests had the round before.
 *
 * Note [The same place again]
 *
 * A CUDA graph contains addresses, so a program that repeats its requests
 * should get the same addresses again. With several streams the best fit does
 * not see to that: which memory is complete when a request comes depends on
 * times, and a round that begins with other free memory than the one before
 * gives other addresses to the end.
 *
 * So the arena notes its latest large requests, with their addresses. A *round*
 * is the distance back to a sequence of equal requests, in size and stream.
 * Once the program has repeated a whole round, and more than ROUND_LEAST
 * requests, each request is expected to get the place of the request one round
 * before. It gets that place if the memory there is ready, even if other memory
 * fits better, or if a wait for it is within the budget (policy.h, Note [Wait
 * or grow]). Otherwise it gets the best fit, as in any program.
 *
 * A request whose place was not to be had keeps it for one more round: then the
 * delay was a chance, and the place is free the next time. After the second
 * time it takes over the address that it got instead. In a program whose times
 * vary, each request thus comes to a place that is ready early enough.
 *
 * Requests that a thread's cache serves are not seen, but counted, so that a
 * request has the same distance to the round before whether or not a cache has
 * served others in between.
 */
#ifndef ALLOCATOR_REQUEST_PLACES_H
#define ALLOCATOR_REQUEST_PLACES_H

#include "allocator/state.h"

/* Two requests are equal if their keys are: size and stream. */
static inline uint64_t
places_key(const struct stream_heap *heap, size_t rounded)
{
	return rounded / WEIR_GRANULE << 16 | (heap->index & 0xffff);
}

/* A request in the notes. */
struct place {
	uint64_t index;  /* of the note; 0: no note was made */
	CUdeviceptr was; /* the expected place; 0: none */
};

/*
 * Note a request.
 *
 * @param places may be NULL: then nothing is noted
 * @param unseen requests since the last note that caches have served
 */
struct place places_note(struct places *places, uint64_t key, uint64_t unseen);

/* Note the address that the request got. Others may have been noted since. */
void places_fill(struct places *places, struct place place, CUdeviceptr got);

/* NULL without host memory. */
struct places *places_new(void);
void places_delete(struct places *places);

#endif
