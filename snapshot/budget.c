/*
 * The limits of a reader (budget.h).
 */
#include "snapshot/budget.h"

#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "snapshot/tuning.h"

static uint64_t
allowance(uint64_t base, uint64_t ratio, uint64_t bytes)
{
	return bytes > (UINT64_MAX - base) / ratio ? UINT64_MAX :
						     base + ratio * bytes;
}

static uint64_t
lesser_cost(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t
budget_limit(const struct budget *budget)
{
	if (budget->most != 0)
		return budget->most;
	return lesser_cost(os_memory_bytes() / 2,
	    lesser_cost(allowance(BUDGET_STORED_BASE, BUDGET_STORED_RATIO,
			    budget->stored),
		allowance(BUDGET_DECODED_BASE, BUDGET_DECODED_RATIO,
		    budget->decoded)));
}

static enum weir_status
tell_above(const struct budget *budget)
{
	char stored[32];
	char decoded[32];
	char most[32];

	return status_set(WEIR_EINVAL,
	    "it needs more than %s of memory for the first %s of the file, "
	    "which are %s decompressed; 'weir --read-memory=SIZE COMMAND' "
	    "allows more",
	    os_format_bytes(budget_limit(budget), most, sizeof(most)),
	    os_format_bytes(budget->stored, stored, sizeof(stored)),
	    os_format_bytes(budget->decoded, decoded, sizeof(decoded)));
}

enum weir_status
budget_check(const struct budget *budget, uint64_t used)
{
	return used <= budget_limit(budget) ? WEIR_OK : tell_above(budget);
}

void
budget_enforce(const struct budget *budget)
{
	uint64_t limit = budget_limit(budget);

	/* SIZE_MAX would mean no limit. */
	meta_limit_set(limit > SIZE_MAX - 1 - budget->before ?
		SIZE_MAX - 1 :
		budget->before + limit);
}

void
budget_release(void)
{
	meta_limit_set(SIZE_MAX);
}

enum weir_status
budget_explain(const struct budget *budget, enum weir_status status)
{
	return status == WEIR_EHOSTMEM && meta_limit_hit() ?
	    tell_above(budget) :
	    status;
}
