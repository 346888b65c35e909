/*
 * The stacks lie one after the other in one region, and in buckets by their
 * frame address. They never change once they can be found, so readers take no
 * lock. When the region or a bucket is full, no more stacks are stored.
 *
 * The addresses of frames come from the compiler's unwinder, which the C
 * library loads for backtrace() too.
 */
#include "stacks/recall.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unwind.h>

#include "base/lock.h"
#include "base/meta.h"
#include "stacks/stack.h"
#include "stacks/tuning.h"

enum {
	WORD = sizeof(void *),
};

struct recalled {
	uintptr_t base; /* the frame address of the caller that captured it */
	size_t n;
	/* n return addresses, then the n addresses where they are stored. */
	uintptr_t words[];
};

struct buckets {
	_Atomic(struct recalled *) stack[RECALL_BUCKETS][RECALL_WAYS];
};

static struct {
	_Unwind_Reason_Code (*backtrace)(_Unwind_Trace_Fn, void *);
	_Unwind_Word (*cfa)(struct _Unwind_Context *);
	_Unwind_Word (*reg)(struct _Unwind_Context *, int);
	_Unwind_Ptr (*ip)(struct _Unwind_Context *);
} unwind; /* written before `buckets` */

static _Atomic(struct buckets *) buckets; /* NULL: not ready */

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_HISTORY);
static char *region GUARDED_BY(lock);
static size_t used GUARDED_BY(lock);

/* ---- Getting ready ----------------------------------------------------- */

static bool
find_unwinder(void)
{
	/* The library stays loaded, because stacks may be taken until the
	 * process ends. */
	void *library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_LOCAL);

	if (library == NULL)
		return false;
	/* POSIX stores a pointer to a function in a void *. */
	*(void **)&unwind.backtrace = dlsym(library, "_Unwind_Backtrace");
	*(void **)&unwind.cfa = dlsym(library, "_Unwind_GetCFA");
	*(void **)&unwind.reg = dlsym(library, "_Unwind_GetGR");
	*(void **)&unwind.ip = dlsym(library, "_Unwind_GetIP");
	return unwind.backtrace != NULL && unwind.cfa != NULL &&
	    unwind.reg != NULL && unwind.ip != NULL;
}

static void
prepare_buckets(void) HOLDS(lock)
{
	struct buckets *made;

	if (atomic_load(&buckets) != NULL || region != NULL || !find_unwinder())
		return;
	region = meta_map(RECALL_BYTES);
	made = region != NULL ? meta_map(sizeof(*made)) : NULL;
	if (made != NULL)
		atomic_store_explicit(&buckets, made, memory_order_release);
}

void
recall_prepare(void)
{
	lock_enter(&lock);
	prepare_buckets();
	lock_leave(&lock);
}

/* ---- Unwinding --------------------------------------------------------- */

struct walk {
	const void *first; /* the return address to begin with */
	uintptr_t base;
	uintptr_t record; /* on aarch64: the frame record of the frame before */
	uintptr_t addresses[STACK_FRAMES_MAX];
	uintptr_t places[STACK_FRAMES_MAX];
	size_t n;
	bool known; /* the address of every return address is known so far */
};

/* Where the return address of the calling frame is stored. */
static uintptr_t
return_place_of(const struct walk *walk, struct _Unwind_Context *context)
{
#if defined(__x86_64__)
	(void)walk;
	return unwind.cfa(context) - WORD;
#elif defined(__aarch64__)
	(void)context;
	return (walk->n == 0 ? walk->base : walk->record) + WORD;
#else
	(void)walk;
	(void)context;
	return 0;
#endif
}

static _Unwind_Reason_Code
note_frame(struct _Unwind_Context *context, void *user)
{
	struct walk *walk = user;
	uintptr_t ip = unwind.ip(context);

	if (ip == 0 || walk->n == STACK_FRAMES_MAX)
		return _URC_END_OF_STACK;
	if (walk->n == 0 && ip != (uintptr_t)walk->first)
		return _URC_NO_REASON;
	uintptr_t place = return_place_of(walk, context);
	/* It must be above the frame before, on the same stack. */
	uintptr_t below = walk->n > 0 ? walk->places[walk->n - 1] : walk->base;
	if (walk->known)
		walk->known = place > below && place % WORD == 0 &&
		    place - below < (uintptr_t)1 << 20 &&
		    *(const uintptr_t *)place == ip;
#if defined(__aarch64__)
	walk->record = unwind.reg(context, 29);
#endif
	walk->addresses[walk->n] = ip;
	walk->places[walk->n] = place;
	walk->n++;
	return _URC_NO_REASON;
}

/* ---- Keeping ----------------------------------------------------------- */

static _Atomic(struct recalled *) *
bucket_of(struct buckets *all, uintptr_t base, const void *first)
{
	uint64_t hash = (base ^ (uintptr_t)first << 7) * 0x9e3779b97f4a7c15u;

	return all->stack[hash >> 52];
}

/* Store a stack, which cannot be found yet; NULL if there is no room. */
static struct recalled *
add_stack(const struct walk *walk) HOLDS(lock)
{
	size_t size = sizeof(struct recalled) + 2 * walk->n * sizeof(uintptr_t);

	if (RECALL_BYTES - used < size)
		return NULL;
	struct recalled *stack = (void *)(region + used);
	used += size;
	stack->base = walk->base;
	stack->n = walk->n;
	memcpy(stack->words, walk->addresses, walk->n * sizeof(uintptr_t));
	memcpy(
	    stack->words + walk->n, walk->places, walk->n * sizeof(uintptr_t));
	return stack;
}

static void
store_stack(const struct walk *walk)
{
	_Atomic(struct recalled *) *bucket =
	    bucket_of(atomic_load(&buckets), walk->base, walk->first);
	int way = 0;

	lock_enter(&lock);
	while (way < RECALL_WAYS && atomic_load(&bucket[way]) != NULL)
		way++;
	struct recalled *stack = way < RECALL_WAYS ? add_stack(walk) : NULL;
	if (stack != NULL)
		atomic_store_explicit(
		    &bucket[way], stack, memory_order_release);
	lock_leave(&lock);
}

/* ---- Knowing again ----------------------------------------------------- */

/* Are all return addresses where they were? The check goes from the innermost
 * outwards, so that it reads no address outside this stack. Sanitizers refuse
 * it, because the addresses belong to frames and not to variables. */
__attribute__((no_sanitize("address", "thread"))) static bool
agrees(const struct recalled *stack)
{
	const uintptr_t *places = stack->words + stack->n;

	for (size_t i = 0; i < stack->n; i++)
		if (*(const volatile uintptr_t *)places[i] != stack->words[i])
			return false;
	return true;
}

static const struct recalled *
find_recalled(_Atomic(struct recalled *) *bucket, uintptr_t base)
{
	for (int way = 0; way < RECALL_WAYS; way++) {
		const struct recalled *stack =
		    atomic_load_explicit(&bucket[way], memory_order_acquire);
		if (stack == NULL)
			break;
		if (stack->base == base && agrees(stack))
			return stack;
	}
	return NULL;
}

static size_t
copy_frames(void **frames, size_t n, size_t skip, const uintptr_t *addresses,
    size_t found)
{
	if (found <= skip)
		return 0;
	if (n > found - skip)
		n = found - skip;
	memcpy(frames, addresses + skip, n * sizeof(*frames));
	return n;
}

__attribute__((noinline)) size_t
recall_capture(void **frames, size_t n, size_t skip)
{
	struct buckets *all =
	    atomic_load_explicit(&buckets, memory_order_acquire);
	struct walk walk;

	if (all == NULL) {
		size_t found = stack_capture(frames, n, skip + 1);
		/* Forces a real call instead of a jump: the frame of this
		 * function is the one that `skip` counts. */
		__asm__ volatile("" ::: "memory");
		return found;
	}
	walk.base = (uintptr_t)__builtin_frame_address(0);
	walk.first = __builtin_extract_return_addr(__builtin_return_address(0));
	const struct recalled *stack =
	    find_recalled(bucket_of(all, walk.base, walk.first), walk.base);
	if (stack != NULL)
		return copy_frames(frames, n, skip, stack->words, stack->n);
	if (!stack_has_room())
		return 0;
	walk.n = 0;
	walk.known = true;
	unwind.backtrace(note_frame, &walk);
	if (walk.n > 0 && walk.known)
		store_stack(&walk);
	return copy_frames(frames, n, skip, walk.addresses, walk.n);
}
