/*
 * A peer: an allocator that the benchmarks measure.
 *
 * The benchmarks know peers by this table only. Built-in ones are in peers.c; a
 * library that defines `weir_bench_peer` is one too (`weir-bench --plugin`),
 * so this header also serves C++.
 */
#ifndef TOOLS_BENCH_PEER_H
#define TOOLS_BENCH_PEER_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kind of a peer, as bits. A case names the kinds it is for, often by one
 * of the two sums at the end. */
enum peer_kind {
	PEER_WEIR = 1,
	PEER_CACHING = 2,    /* another allocator with record_stream */
	PEER_DRIVER = 4,     /* calls of the driver */
	PEER_HOST = 8,       /* host memory: the floor */
	PEER_NONE = 16,      /* allocates nothing: the cost of measuring */
	PEER_CHILD = 32,     /* another process, which counts pairs by itself */
	PEER_PINNED = 64,    /* page-locked host memory, of no stream */
	PEER_POOLS = 128,    /* graphs and their pools */
	PEER_HISTORY = 256,  /* weir that keeps a history */
	PEER_TENSORS = 512,  /* copies of tensors */
	PEER_PREFERS = 1024, /* weir with another option prefer */
	PEER_DEVICE = PEER_WEIR | PEER_CACHING | PEER_DRIVER,
	PEER_HERE = PEER_DEVICE | PEER_HOST | PEER_NONE,
};

struct peer {
	const char *name;
	const char *what; /* in words */
	unsigned kind;    /* one of enum peer_kind */
	bool slow;        /* each call costs tens of microseconds */

	/* Make ready; NULL, or why it cannot be measured here. May be absent,
	 * as may all below but malloc and free. */
	const char *(*open)(void);
	/* Before and after each sample, so that peers may share an allocator.
	 */
	bool (*enter)(void);
	void (*leave)(void);

	/* NULL on failure; error() then says why. Any thread. */
	void *(*malloc)(size_t size, weir_stream stream);
	/* `stream` is the one the block was allocated for. Any thread. */
	void (*free)(void *block, weir_stream stream);
	/* `user` uses the block of `stream` too, until its free. */
	bool (*record)(void *block, weir_stream stream, weir_stream user);
	/* Give unused memory back to the driver. */
	void (*trim)(void);
	const char *(*error)(void);

	/* For PEER_CHILD, in place of malloc and free: the seconds that `n`
	 * pairs took, or less than 0 if it failed. */
	double (*pairs)(const struct peer *peer, size_t size, uint64_t n);

	/* The bytes held now, used or not. */
	uint64_t (*held)(void);
};

#ifdef __cplusplus
}
#endif

#endif
