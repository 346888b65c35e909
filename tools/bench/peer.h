/*
 * A peer: an allocator that the benchmarks measure.
 *
 * The benchmarks know a peer by this table only. peers.c has the built-in
 * peers. A library that defines `weir_bench_peer` is a peer too
 * (`weir-bench --plugin`), so that this header also serves C++.
 */
#ifndef TOOLS_BENCH_PEER_H
#define TOOLS_BENCH_PEER_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kind of a peer, as a bit. A case has the bits of the kinds that it
 * measures, often one of the two sums at the end. */
enum peer_kind {
	PEER_WEIR = 1,
	PEER_CACHING = 2,    /* another allocator with record_stream */
	PEER_DRIVER = 4,     /* calls of the driver */
	PEER_HOST = 8,       /* host memory, as a lower bound */
	PEER_NONE = 16,      /* allocates nothing: the cost of measuring */
	PEER_CHILD = 32,     /* another process, which measures pairs itself */
	PEER_PINNED = 64,    /* page-locked host memory, without streams */
	PEER_POOLS = 128,    /* graphs and their pools */
	PEER_HISTORY = 256,  /* weir with a history */
	PEER_TENSORS = 512,  /* copies of tensors */
	PEER_PREFERS = 1024, /* weir with another value of the option prefer */
	PEER_DEVICE = PEER_WEIR | PEER_CACHING | PEER_DRIVER,
	PEER_HERE = PEER_DEVICE | PEER_HOST | PEER_NONE,
};

struct peer {
	const char *name;
	const char *what; /* description */
	unsigned kind;    /* one of enum peer_kind */
	bool slow;        /* each call takes tens of microseconds */

	/* All functions except malloc and free may be NULL. */

	/* Prepare the peer. Returns NULL, or why it cannot be measured here. */
	const char *(*open)(void);
	/* Called before and after each sample, so that peers may share an
	 * allocator. */
	bool (*enter)(void);
	void (*leave)(void);

	/* NULL on failure; error() then returns the reason. Any thread. */
	void *(*malloc)(size_t size, weir_stream stream);
	/* `stream` is the stream of the block's malloc. Any thread. */
	void (*free)(void *block, weir_stream stream);
	/* Note that `user` uses the block of `stream` too, until its free. */
	bool (*record)(void *block, weir_stream stream, weir_stream user);
	/* Give unused memory back to the driver. */
	void (*trim)(void);
	const char *(*error)(void);

	/* For PEER_CHILD, instead of malloc and free: the seconds of `n` pairs,
	 * or less than 0 on failure. */
	double (*pairs)(const struct peer *peer, size_t size, uint64_t n);

	/* The bytes held now, whether in use or not. */
	uint64_t (*held)(void);
};

#ifdef __cplusplus
}
#endif

#endif
