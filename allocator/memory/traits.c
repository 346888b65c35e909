/*
 * The tables of traits.
 */
#include "allocator/memory/traits.h"

#include "allocator/memory/tuning.h"
#include "allocator/policy/sizes.h"

_Static_assert(sizeof(struct traits) <= 64, "one line of a processor's cache");

const struct traits traits_expandable = {
	.name = "expandable",
	.can_map = true,
	.account = ACCOUNT_DEVICE,
	.has_streams = true,
	.is_observed = true,
	.has_rounding = true,
	.small_max = SMALL_MAX,
	.decay_requests = DEVICE_DECAY_REQUESTS,
	.refills_caches = true,
};

const struct traits traits_segments = {
	.name = "segments",
	.account = ACCOUNT_DEVICE,
	.has_streams = true,
	.is_observed = true,
	.has_rounding = true,
	.small_max = SMALL_MAX,
	.decay_requests = DEVICE_DECAY_REQUESTS,
	.refills_caches = true,
};

const struct traits traits_page_locked = {
	.name = "page-locked",
	.is_page_locked = true,
	.account = ACCOUNT_HOST,
	.small_max = HOST_SMALL_MAX,
	.is_bounded = true,
	.has_idle_limit = true,
	.decay_requests = 1,
	.drains_caches = true,
};

const struct traits traits_host_mapped = {
	.name = "page-locked, mapped",
	.can_map = true,
	.is_page_locked = true,
	.account = ACCOUNT_HOST,
	.small_max = HOST_SMALL_MAX,
	.is_bounded = true,
	.has_idle_limit = true,
	.decay_requests = 1,
	.drains_caches = true,
};
