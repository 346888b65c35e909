/*
 * All numbers that decide how much is held and which waits are made.
 * lab/one-layout.md has the experiments that set them. Times are in us.
 */
#ifndef ALLOCATOR_POLICY_TUNING_H
#define ALLOCATOR_POLICY_TUNING_H

#include <stddef.h>
#include <stdint.h>

static const struct {
	/* Memory pressure: one part in pressure_share is held beyond the peak
	 * of live bytes, and at least pressure_least bytes, because fewer bytes
	 * are worth no wait. For each time that the budget is overspent it
	 * takes overspent_shares of these parts more. */
	size_t pressure_share;
	size_t pressure_least;
	double overspent_shares;

	/* The ticks of another stream's work that an idle stream may wait for;
	 * and how many times as long as its own work a stream may wait for a
	 * use. */
	uint64_t near_ticks;
	uint64_t use_times;

	/* The price of a MiB of new memory if twice the peak of live bytes is
	 * held. */
	double dear_us;

	/* The least latency that a forecast assumes. */
	double latency_us;

	/* The time of the driver calls that a brief wait may save, those of a
	 * new handle and more: the longest brief wait. */
	double brief_us;

	/* The price of moving a handle, beyond that of a new one. Both are
	 * mapped and made accessible, 22 us; in place of creating the new one,
	 * 6 to 12 us, the moved one is unmapped from its old place, 14 us, and
	 * its record moves. Measured on a GPU: 60 us for a move and 47 us for a
	 * new handle. */
	double move_us;

	/* The time that counts as recent. A program that has neither waited nor
	 * moved for a while may spend the share of this time at once, and
	 * evidence of longer waits is halved. */
	double recent_us;
} policy = {
	.pressure_share = 5,
	.pressure_least = (size_t)64 << 20,
	.overspent_shares = 2,
	.near_ticks = 64,
	.use_times = 3,
	.dear_us = 1e6,
	.latency_us = 1e3,
	.brief_us = 60,
	.move_us = 15,
	.recent_us = 10e6,
};

/* With prefer:memory, one part in MEMORY_SHARE of the peak of live bytes is
 * held beyond it, at most, before all free memory is moved together. */
enum { MEMORY_SHARE = 12 };

#endif
