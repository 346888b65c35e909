/*
 * Counts calls, and makes some of them fail as a test demands.
 */
#include <stdlib.h>
#include <string.h>

#include "simcuda/sim.h"

/* After `skip` more calls of `base`, the next `count` fail. */
struct fault {
	struct fault *next;
	const char *base;
	unsigned skip, count;
	CUresult code;
};

static uint64_t calls[SIM_N_ENTRIES];
static unsigned by_name[SIM_N_ENTRIES]; /* entries, in the order of names */
static bool sorted;                     /* by_name is filled in */
static struct fault *faults;
static unsigned any_in; /* how many calls until the one that fails; 0: none */
static CUresult any_code;
static uint64_t countable; /* calls that may fail for lack of a resource */
static uint64_t injected;

void
fault_count(enum sim_entry entry)
{
	calls[entry]++;
}

/* Does the rule make this call fail? */
static bool
fault_hits(struct fault *fault)
{
	if (fault->skip > 0) {
		fault->skip--;
		return false;
	}
	if (fault->count == 0)
		return false;
	fault->count--;
	return true;
}

CUresult
fault_next(enum sim_entry entry)
{
	const struct entry *called = &sim_entries[entry];
	CUresult code = CUDA_SUCCESS;

	calls[entry]++;
	for (struct fault *fault = faults; fault != NULL; fault = fault->next) {
		if (strcmp(fault->base, called->base) == 0 && fault_hits(fault))
			code = fault->code;
	}
	if (called->flags & ENTRY_RESOURCE) {
		if (any_in > 0 && --any_in == 0)
			code = any_code;
		if (conf.fail_every > 0 && ++countable % conf.fail_every == 0)
			code = CUDA_ERROR_OUT_OF_MEMORY;
	}
	injected += code != CUDA_SUCCESS;
	return code;
}

void
fault_reset(void)
{
	memset(calls, 0, sizeof(calls));
	while (faults != NULL) {
		struct fault *next = faults->next;

		free(faults);
		faults = next;
	}
	any_in = 0;
	injected = 0;
}

static int
compare_entries(const void *a, const void *b)
{
	const unsigned *left = a;
	const unsigned *right = b;

	return strcmp(sim_entries[*left].base, sim_entries[*right].base);
}

/* The place in by_name of the first entry whose name is not before `base`. A
 * replay asks for the calls of a hundred names at many of its rows, which a
 * walk over all entries would make slow. The gate is locked. */
static size_t
find_first_entry(const char *base)
{
	size_t low = 0;
	size_t high = SIM_N_ENTRIES;

	if (!sorted) {
		for (unsigned i = 0; i < SIM_N_ENTRIES; i++)
			by_name[i] = i;
		qsort(by_name, SIM_N_ENTRIES, sizeof(by_name[0]),
		    compare_entries);
		sorted = true;
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(sim_entries[by_name[middle]].base, base) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t
simcuda_calls(const char *entry)
{
	uint64_t sum = 0;

	gate_lock();
	for (size_t i = entry == NULL ? 0 : find_first_entry(entry);
	     i < SIM_N_ENTRIES; i++) {
		if (entry == NULL)
			sum += calls[i];
		else if (strcmp(sim_entries[by_name[i]].base, entry) == 0)
			sum += calls[by_name[i]];
		else
			break;
	}
	gate_unlock();
	return sum;
}

static const char *
find_base_name(const char *name)
{
	for (size_t i = 0; i < SIM_N_ENTRIES; i++) {
		if (strcmp(sim_entries[i].base, name) == 0)
			return sim_entries[i].base;
	}
	return NULL;
}

int
simcuda_fail(const char *entry, unsigned nth, unsigned count, CUresult code)
{
	const char *base = find_base_name(entry);
	struct fault *fault;

	if (base == NULL || nth == 0)
		return -1;
	fault = sim_alloc(sizeof(*fault));
	*fault = (struct fault){
		.base = base, .skip = nth - 1, .count = count, .code = code
	};
	gate_lock();
	fault->next = faults;
	faults = fault;
	gate_unlock();
	return 0;
}

void
simcuda_fail_any(unsigned nth, CUresult code)
{
	gate_lock();
	any_in = nth;
	any_code = code;
	gate_unlock();
}

uint64_t
simcuda_faults(void)
{
	uint64_t n;

	gate_lock();
	n = injected;
	gate_unlock();
	return n;
}
