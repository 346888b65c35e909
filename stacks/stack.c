/*
 * Stacks are captured by the C library's backtrace(), which loads the
 * compiler's unwinder at its first call. Faster unwinders guess where code has
 * no unwind tables. This one stops there, so it never reads memory outside the
 * stack, even if the program generates code at run time.
 */
#include "stacks/stack.h"

#include <execinfo.h>
#include <stdatomic.h>
#include <string.h>

#include "base/meta.h"
#include "base/os.h"
#include "stacks/tuning.h"

/* ---- Taking ------------------------------------------------------------ */

/* Unwinding needs some KiB of stack. A thread with the smallest possible stack
 * does not have them. Determined once for each thread. */
bool
stack_has_room(void)
{
	enum { NO = 1, YES };
	static _Thread_local uint8_t known;

	if (known == 0)
		known = os_stack_left() < UNWIND_NEEDED ? NO : YES;
	return known == YES;
}

/*
 * backtrace() begins with its caller, or with a sanitizer's function that
 * replaces it. So the capture begins at the frame that this function returns
 * to.
 */
__attribute__((noinline)) size_t
stack_capture(void **frames, size_t n, size_t skip)
{
	enum { OURS = 4 };
	const void *caller =
	    __builtin_extract_return_addr(__builtin_return_address(0));
	void *all[OURS + STACK_SKIP_MAX + STACK_FRAMES_MAX];
	size_t first = 0;

	if (n > STACK_FRAMES_MAX)
		n = STACK_FRAMES_MAX;
	if (skip > STACK_SKIP_MAX)
		skip = STACK_SKIP_MAX;
	if (!stack_has_room())
		return 0;
	size_t found = (size_t)backtrace(all, (int)(OURS + skip + n));

	while (first < found && first < OURS && all[first] != caller)
		first++;
	if (first == OURS)
		first = 1;
	first += skip;
	if (found <= first)
		return 0;
	if (n > found - first)
		n = found - first;
	memcpy(frames, all + first, n * sizeof(*frames));
	return n;
}

/* ---- The table --------------------------------------------------------- */

/*
 * Stacks lie one after the other in `words`: the hash, the number of frames,
 * the frames. A stack's number is the index of its first word, so the stack is
 * found without a search; slots map hashes to numbers. A stack is written
 * before its slot, and neither changes afterwards, so no lock is needed. If two
 * threads add the same new stack at once, both write it and only one copy can
 * be found; the other wastes its words.
 */
struct stack_table {
	size_t bytes;
	size_t slots; /* a power of two */
	size_t limit; /* number of words */
	_Atomic uint32_t *slot;
	uintptr_t *words;
	atomic_size_t used; /* words in use; word 0 is unused */
	atomic_size_t count;
	_Atomic uint64_t lost;
};

enum {
	HEAD = 2,
};

struct stack_table *
stack_table_create(size_t bytes)
{
	struct stack_table *table;
	size_t slots;
	char *memory;

	if (bytes < 64u << 10)
		bytes = 64u << 10;
	if (bytes > 1u << 30)
		bytes = 1u << 30;
	/* One slot for each 32 bytes, the size of a stack of two frames. */
	slots = 1;
	while (slots * 2 * 32 <= bytes)
		slots *= 2;
	memory = meta_map(bytes);
	if (memory == NULL)
		return NULL;
	size_t head =
	    (sizeof(*table) + sizeof(uintptr_t) - 1) & -sizeof(uintptr_t);
	size_t index = slots * sizeof(*table->slot);

	table = (struct stack_table *)memory;
	table->bytes = bytes;
	table->slots = slots;
	table->slot = (_Atomic uint32_t *)(memory + head);
	table->words = (uintptr_t *)(memory + head + index);
	table->limit = (bytes - head - index) / sizeof(uintptr_t);
	atomic_init(&table->used, 1);
	return table;
}

void
stack_table_destroy(struct stack_table *table)
{
	if (table != NULL)
		meta_unmap(table, table->bytes);
}

static uintptr_t
hash_frames(void *const *frames, size_t n)
{
	uint64_t h = n;

	for (size_t i = 0; i < n; i++) {
		h ^= (uintptr_t)frames[i];
		h *= 0x9e3779b97f4a7c15ull;
		h ^= h >> 32;
	}
	return (uintptr_t)h;
}

static bool
holds_stack(const struct stack_table *table, uint32_t id, uintptr_t hash,
    void *const *frames, size_t n)
{
	const uintptr_t *words = &table->words[id];

	return words[0] == hash && words[1] == n &&
	    memcmp(words + HEAD, frames, n * sizeof(*frames)) == 0;
}

/* Append a stack; returns its number, or 0 if the table is full. */
static uint32_t
append(struct stack_table *table, uintptr_t hash, void *const *frames, size_t n)
{
	size_t at = atomic_load_explicit(&table->used, memory_order_relaxed);

	do {
		if (table->limit - at < n + HEAD)
			return 0;
	} while (!atomic_compare_exchange_weak_explicit(&table->used, &at,
	    at + n + HEAD, memory_order_relaxed, memory_order_relaxed));
	table->words[at] = hash;
	table->words[at + 1] = n;
	memcpy(&table->words[at + HEAD], frames, n * sizeof(*frames));
	return (uint32_t)at;
}

uint32_t
stack_table_intern(struct stack_table *table, void *const *frames, size_t n)
{
	uint32_t mine = 0;

	if (n == 0)
		return 0;
	if (n > STACK_FRAMES_MAX)
		n = STACK_FRAMES_MAX;
	uintptr_t hash = hash_frames(frames, n);

	for (size_t i = 0; i < STACK_PROBES; i++) {
		_Atomic uint32_t *slot =
		    &table->slot[(hash + i) & (table->slots - 1)];
		uint32_t id = atomic_load_explicit(slot, memory_order_acquire);

		if (id == 0) {
			if (mine == 0)
				mine = append(table, hash, frames, n);
			if (mine == 0)
				break;
			if (atomic_compare_exchange_strong_explicit(slot, &id,
				mine, memory_order_acq_rel,
				memory_order_acquire)) {
				atomic_fetch_add(&table->count, 1);
				return mine;
			}
		}
		if (holds_stack(table, id, hash, frames, n))
			return id;
	}
	atomic_fetch_add(&table->lost, 1);
	return 0;
}

size_t
stack_table_frames(
    const struct stack_table *table, uint32_t id, void *const **frames)
{
	if (id == 0)
		return 0;
	*frames = (void *const *)&table->words[id + HEAD];
	return table->words[id + 1];
}

size_t
stack_table_slots(const struct stack_table *table)
{
	return table != NULL ? table->slots : 0;
}

size_t
stack_table_slot(
    const struct stack_table *table, size_t slot, void *const **frames)
{
	return stack_table_frames(table,
	    atomic_load_explicit(&table->slot[slot], memory_order_acquire),
	    frames);
}

size_t
stack_table_count(const struct stack_table *table)
{
	return atomic_load(&table->count);
}

uint64_t
stack_table_lost(const struct stack_table *table)
{
	return atomic_load(&table->lost);
}
