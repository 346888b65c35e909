/*
 * Blocks that streams use without an order between them: `--check-streams`.
 *
 * Note [Happens-before]
 *
 * Each stream has a clock, the number of its operations, and a vector clock:
 * how many operations of each stream happen before its own next one. Events
 * carry the vector clock of their record to the streams that wait for them.
 * Work that the host has waited for happens before all work that any thread
 * queues later, because threads may have synchronised. The legacy default
 * stream and the blocking streams wait for each other.
 *
 * A use that may be ordered in a way that is not visible here is not reported.
 * A wait for an event whose record was not seen orders its stream after
 * everything, and so does the end of a stream. Captured work and launches of
 * graphs are not checked.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "base/tree.h"
#include "preload/lock.h"
#include "preload/preload.h"
#include "preload/tuning.h"
#include "snapshot/frames.h"
#include "stacks/stack.h"
#include "streams/stream.h"

struct vector {
	uint64_t at[RACE_STREAMS];
};

struct known_stream {
	CUstream handle;
	CUcontext context; /* of a default stream */
	uint32_t thread;   /* of a per-thread default stream */
	/* Waits for the legacy default stream, and the reverse. */
	bool blocking;
	bool gone;
	struct vector after; /* its own entry is the stream's clock */
};

struct known_event {
	struct known_event *next;
	CUevent event;
	struct vector after;
};

struct user {
	int stream;
	uint64_t clock;
	uint32_t stack;
};

struct known_block {
	struct tree_node node;
	struct known_block *next_freed;
	CUdeviceptr ptr;
	size_t bytes;
	int stream; /* -1: device-scope memory */
	uint64_t clock;
	bool freed;
	bool reported;
	/* Where it was allocated; once freed, where it was freed. */
	uint32_t stack;
	uint32_t free_stack;
	struct user users[RACE_USERS];
};

static bool wanted; /* constant once it has been read; false in a child */
atomic_bool races_are_off;
static struct stack_table *stacks;

/* Guards the data that follow. */
static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_HOOK);
static struct known_stream *streams[RACE_STREAMS];
static int n_streams;
static struct vector host; /* the work that the host has waited for */
static struct known_event *events[RACE_EVENTS];
static size_t n_events;
static struct tree blocks;
static struct known_block *first_freed;
static struct known_block **last_freed = &first_freed;
static size_t n_freed;
static unsigned n_found;
static bool given_up;

/* ---- Asked for? -------------------------------------------------------- */

static void
print_sum(void)
{
	if (n_found > RACE_REPORTS)
		log_write(LOG_ERROR,
		    "check-streams: %u faults, of which %d "
		    "are reported",
		    n_found, (int)RACE_REPORTS);
}

/* A forked child cannot use the driver, and must not wait for the lock, which a
 * thread of the parent may have held. */
static void
stop_in_child(void)
{
	wanted = false;
	atomic_store_explicit(&races_are_off, true, memory_order_relaxed);
}

static void
read_race_settings(void)
{
	const char *value = getenv("WEIR_CHECK_STREAMS");

	if (value == NULL || *value == '\0' || strcmp(value, "0") == 0)
		return;
	tree_init(&blocks, TREE_KEY(struct known_block, node, ptr, ptr));
	stacks = stack_table_create(RACE_STACK_BYTES);
	if (stacks == NULL) {
		log_write(LOG_ERROR, "check-streams: no host memory for it");
		return;
	}
	pthread_atfork(NULL, NULL, stop_in_child);
	atexit(print_sum);
	wanted = true;
}

bool
races_wanted(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static atomic_bool ready;

	if (!atomic_load_explicit(&ready, memory_order_acquire)) {
		pthread_once(&once, read_race_settings);
		atomic_store_explicit(
		    &races_are_off, !wanted, memory_order_relaxed);
		atomic_store_explicit(&ready, true, memory_order_release);
	}
	return wanted;
}

/* weir's own calls are not checked. */
static bool
is_on(void)
{
	return races_wanted() && gate_started() && !given_up;
}

static void
stop_checking(const char *why)
{
	if (!given_up)
		log_write(LOG_WARN, "check-streams: ends here: %s", why);
	given_up = true;
}

/* ---- Clocks, under the lock -------------------------------------------- */

static void
vector_join(struct vector *to, const struct vector *from) HOLDS(lock)
{
	for (int i = 0; i < n_streams; i++)
		if (to->at[i] < from->at[i])
			to->at[i] = from->at[i];
}

static void
host_join_all(struct vector *to) HOLDS(lock)
{
	for (int i = 0; i < n_streams; i++)
		if (to->at[i] < streams[i]->after.at[i])
			to->at[i] = streams[i]->after.at[i];
}

static bool
is_legacy(const struct known_stream *stream)
{
	return stream->handle == CU_STREAM_LEGACY;
}

static bool
stream_is_blocking(CUstream handle)
{
	enum { NON_BLOCKING = 1 };
	CUresult (*ask)(CUstream, unsigned *) = NULL;
	void *found = real_find("cuStreamGetFlags");
	unsigned flags = 0;

	memcpy(&ask, &found, sizeof(ask));
	return handle == CU_STREAM_PER_THREAD || ask == NULL ||
	    ask(handle, &flags) != CUDA_SUCCESS || (flags & NON_BLOCKING) == 0;
}

/* A number for a new stream: that of a destroyed one, if there is one. Its
 * clock goes on, since the old stream's work happens before all work that is
 * queued from now on. */
static int
free_number(void) HOLDS(lock)
{
	for (int i = 0; i < n_streams; i++)
		if (streams[i]->gone)
			return i;
	if (n_streams == RACE_STREAMS)
		return -1;
	streams[n_streams] = meta_zalloc(sizeof(*streams[0]));
	return streams[n_streams] != NULL ? n_streams++ : -1;
}

/* The number of a stream, given by its explicit handle; -1 if it has none and
 * cannot get one. */
static int
known_number_of(CUstream handle) HOLDS(lock)
{
	CUcontext context = NULL;
	uint32_t thread = handle == CU_STREAM_PER_THREAD ? os_thread_id() : 0;

	if (stream_is_default((weir_stream)handle) &&
	    real_driver()->cuCtxGetCurrent(&context) != CUDA_SUCCESS)
		return -1;
	for (int i = n_streams; i-- > 0;)
		if (streams[i]->handle == handle && !streams[i]->gone &&
		    streams[i]->context == context &&
		    streams[i]->thread == thread)
			return i;
	int n = free_number();
	if (n < 0) {
		stop_checking("there are too many streams");
		return -1;
	}
	struct known_stream *stream = streams[n];
	stream->gone = false;
	stream->handle = handle;
	stream->context = context;
	stream->thread = thread;
	stream->blocking =
	    handle != CU_STREAM_LEGACY && stream_is_blocking(handle);
	return n;
}

/* Order the stream's next work after that of the default streams which it waits
 * for. */
static void
join_default(struct known_stream *stream) HOLDS(lock)
{
	for (int i = 0; i < n_streams; i++)
		if (is_legacy(stream) ?
			streams[i]->blocking :
			stream->blocking && is_legacy(streams[i]))
			vector_join(&stream->after, &streams[i]->after);
}

/* Count an operation of a stream, and order it after all work that it waits
 * for. */
static int
step_clock(CUstream handle) HOLDS(lock)
{
	int n = known_number_of(handle);

	if (n < 0)
		return -1;
	vector_join(&streams[n]->after, &host);
	join_default(streams[n]);
	streams[n]->after.at[n]++;
	return n;
}

/* Does the next operation of a stream come after the operation `clock` of
 * another stream? */
static bool
is_after(int stream, int other, uint64_t clock) HOLDS(lock)
{
	return other < 0 || stream == other ||
	    streams[stream]->after.at[other] >= clock;
}

/* ---- Reports ----------------------------------------------------------- */

static uint32_t
take_stack(void)
{
	void *frames[STACK_FRAMES_MAX];

	return stack_table_intern(
	    stacks, frames, stack_capture(frames, STACK_FRAMES_MAX, 0));
}

/* The names of stacks that were printed. */
static struct frames *named;

struct printed_stack {
	const char *what; /* was done there */
	unsigned lines;
};

static void
print_stack_line(void *user, const char *line)
{
	struct printed_stack *printed = user;

	log_write(LOG_ERROR, "  %s %s", printed->what, line);
	printed->lines++;
}

/* Have stacks named together that a report prints one after the other. */
static void
name_stacks(uint32_t first, uint32_t second, uint32_t third) HOLDS(lock)
{
	if (named == NULL)
		named = frames_new(stacks, 0);
	if (named == NULL)
		return;
	frames_ask(named, first);
	frames_ask(named, second);
	frames_ask(named, third);
}

static void
print_stack(const char *what, uint32_t stack) HOLDS(lock)
{
	struct printed_stack printed = { what, 0 };

	if (named != NULL)
		frames_tell(
		    named, stack, RACE_FRAMES, print_stack_line, &printed);
	if (printed.lines == 0)
		log_write(LOG_ERROR, "  %s an unknown place", what);
}

/* A block is reported only once. */
static bool
is_to_be_reported(struct known_block *block) HOLDS(lock)
{
	if (block->reported)
		return false;
	block->reported = true;
	return ++n_found <= RACE_REPORTS;
}

static const void *
handle_of(int stream) HOLDS(lock)
{
	return stream < 0 ? NULL : (const void *)streams[stream]->handle;
}

static void
report_unordered(struct known_block *block, int stream, const char *call)
    HOLDS(lock)
{
	if (!is_to_be_reported(block))
		return;
	log_write(LOG_ERROR,
	    "check-streams: %s on stream %p uses the block of %zu bytes at "
	    "%#llx, and is not ordered after its allocation on stream %p",
	    call, handle_of(stream), block->bytes,
	    (unsigned long long)block->ptr, handle_of(block->stream));
	uint32_t here = take_stack();

	name_stacks(here, block->stack, 0);
	print_stack("used at", here);
	print_stack("allocated at", block->stack);
}

static void
report_use_after(struct known_block *block, int stream, const char *call)
    HOLDS(lock)
{
	if (!is_to_be_reported(block))
		return;
	log_write(LOG_ERROR,
	    "check-streams: %s on stream %p uses the block of %zu bytes at "
	    "%#llx after it was freed",
	    call, handle_of(stream), block->bytes,
	    (unsigned long long)block->ptr);
	uint32_t here = take_stack();

	name_stacks(here, block->free_stack, block->stack);
	print_stack("used at", here);
	print_stack("freed at", block->free_stack);
	print_stack("allocated at", block->stack);
}

static void
report_early_free(
    struct known_block *block, int stream, const struct user *user) HOLDS(lock)
{
	if (!is_to_be_reported(block))
		return;
	log_write(LOG_ERROR,
	    "check-streams: the block of %zu bytes at %#llx is freed on stream "
	    "%p, which is not ordered after its use on stream %p",
	    block->bytes, (unsigned long long)block->ptr, handle_of(stream),
	    handle_of(user->stream));
	name_stacks(block->free_stack, user->stack, block->stack);
	print_stack("freed at", block->free_stack);
	print_stack("used at", user->stack);
	print_stack("allocated at", block->stack);
}

/* ---- Blocks, under the lock -------------------------------------------- */

/* The block that contains an address, or NULL. */
static struct known_block *
known_block_over(CUdeviceptr ptr) HOLDS(lock)
{
	struct known_block wish = { .ptr = ptr };
	struct tree_node *node = tree_lower_bound(&blocks, &wish.node);

	if (node == NULL ||
	    CONTAINER_OF(node, struct known_block, node)->ptr != ptr)
		node = node != NULL ? tree_prev(node) : tree_last(&blocks);
	if (node == NULL)
		return NULL;
	struct known_block *block =
	    CONTAINER_OF(node, struct known_block, node);
	return ptr - block->ptr < block->bytes ? block : NULL;
}

/* Remove a block. If it is freed, it stays in the list of freed blocks, with
 * size 0, until it is the oldest. */
static void
forget_block(struct known_block *block) HOLDS(lock)
{
	tree_remove(&blocks, &block->node);
	block->bytes = 0;
	if (!block->freed)
		meta_free(block, sizeof(*block));
}

static void
forget_range(CUdeviceptr ptr, size_t bytes) HOLDS(lock)
{
	struct known_block wish = { .ptr = ptr };
	struct known_block *block = known_block_over(ptr);
	struct tree_node *node;

	if (block != NULL)
		forget_block(block);
	while ((node = tree_lower_bound(&blocks, &wish.node)) != NULL) {
		block = CONTAINER_OF(node, struct known_block, node);
		if (block->ptr - ptr >= bytes)
			return;
		forget_block(block);
	}
}

/* Remember a freed block, and forget the oldest one if there are too many. */
static void
keep_freed(struct known_block *block) HOLDS(lock)
{
	block->freed = true;
	block->next_freed = NULL;
	*last_freed = block;
	last_freed = &block->next_freed;
	if (++n_freed <= RACE_FREED)
		return;
	struct known_block *oldest = first_freed;
	first_freed = oldest->next_freed;
	n_freed--;
	if (oldest->bytes > 0)
		tree_remove(&blocks, &oldest->node);
	meta_free(oldest, sizeof(*oldest));
}

/* Record the latest use by a stream. If more than RACE_USERS streams use a
 * block, only the first are remembered. */
static void
note_use(struct known_block *block, int stream) HOLDS(lock)
{
	for (int i = 0; i < RACE_USERS; i++) {
		struct user *user = &block->users[i];
		if (user->clock != 0 && user->stream != stream)
			continue;
		if (user->clock == 0 && stream != block->stream)
			user->stack = take_stack();
		user->stream = stream;
		user->clock = streams[stream]->after.at[stream];
		return;
	}
}

/* Has the freed memory been allocated again by a call of weir that the hooks do
 * not see? */
static bool
is_allocated_anew(CUdeviceptr ptr)
{
	struct weir_block_info info = { .struct_size = sizeof(info) };

	gate_enter_weir();
	status_mute();
	bool live = weir_block_info((void *)(uintptr_t)ptr, &info) == WEIR_OK;
	status_unmute();
	gate_leave_weir();
	return live;
}

/* An address that is not sure may be left from an earlier launch, so it is no
 * evidence about a block that has been freed. */
static void
use_block(CUdeviceptr ptr, int stream, const char *call, bool sure) HOLDS(lock)
{
	struct known_block *block = known_block_over(ptr);

	if (block != NULL && block->freed && !sure)
		return;
	if (block != NULL && block->freed && is_allocated_anew(ptr)) {
		forget_block(block);
		return;
	}
	if (block == NULL)
		return;
	if (block->freed)
		report_use_after(block, stream, call);
	else if (!is_after(stream, block->stream, block->clock))
		report_unordered(block, stream, call);
	note_use(block, stream);
}

/* ---- What the program does --------------------------------------------- */

void
races_note_allocated(CUdeviceptr ptr, size_t bytes, weir_stream stream)
{
	struct known_block *block;

	if (!races_wanted() || given_up)
		return;
	block = meta_zalloc(sizeof(*block));
	if (block == NULL)
		return;
	block->ptr = ptr;
	block->bytes = bytes;
	block->stream = -1;
	block->stack = take_stack();
	preload_lock(&lock);
	forget_range(ptr, bytes);
	if (stream != WEIR_STREAM_ANY) {
		block->stream = step_clock((CUstream)stream);
		if (block->stream >= 0)
			block->clock =
			    streams[block->stream]->after.at[block->stream];
	}
	tree_insert(&blocks, &block->node);
	preload_unlock(&lock);
}

void
races_note_freed(CUdeviceptr ptr, weir_stream stream)
{
	if (!races_wanted() || given_up)
		return;
	uint32_t stack = take_stack();
	preload_lock(&lock);
	struct known_block *block = known_block_over(ptr);
	int n = stream != WEIR_STREAM_ANY ? step_clock((CUstream)stream) : -1;
	if (block != NULL && !block->freed && block->ptr == ptr) {
		block->free_stack = stack;
		for (int i = 0; i < RACE_USERS && n >= 0; i++)
			if (block->users[i].clock != 0 &&
			    !is_after(n, block->users[i].stream,
				block->users[i].clock))
				report_early_free(block, n, &block->users[i]);
		keep_freed(block);
	}
	preload_unlock(&lock);
}

void
races_work(CUstream stream, bool per_thread, const char *call,
    const CUdeviceptr *ptrs, size_t n, size_t n_sure)
{
	if (!is_on())
		return;
	if (stream == NULL)
		stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
	if (gate_capturing((weir_stream)stream))
		return;
	preload_lock(&lock);
	int number = step_clock(stream);
	for (size_t i = 0; i < n && number >= 0; i++)
		use_block(ptrs[i], number, call, i < n_sure);
	preload_unlock(&lock);
}

void
races_waited(CUstream stream, bool per_thread)
{
	if (!is_on())
		return;
	if (stream == NULL)
		stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
	preload_lock(&lock);
	int n = step_clock(stream);
	if (n >= 0)
		vector_join(&host, &streams[n]->after);
	preload_unlock(&lock);
}

void
races_waited_all(void)
{
	if (!is_on())
		return;
	preload_lock(&lock);
	host_join_all(&host);
	preload_unlock(&lock);
}

static struct known_event **
event_place(CUevent event) HOLDS(lock)
{
	uint64_t hash = (uint64_t)(uintptr_t)event * 0x9e3779b97f4a7c15u;
	struct known_event **at = &events[(hash >> 32) % RACE_EVENTS];

	while (*at != NULL && (*at)->event != event)
		at = &(*at)->next;
	return at;
}

void
races_event_gone(CUevent event)
{
	if (!races_wanted())
		return;
	preload_lock(&lock);
	struct known_event **at = event_place(event);
	struct known_event *known = *at;
	if (known != NULL) {
		*at = known->next;
		n_events--;
		meta_free(known, sizeof(*known));
	}
	preload_unlock(&lock);
}

/* An event recorded in a capture is not followed, so it orders everything. */
void
races_recorded(CUevent event, CUstream stream)
{
	if (!is_on())
		return;
	if (gate_capturing((weir_stream)stream)) {
		races_event_gone(event);
		return;
	}
	preload_lock(&lock);
	int n = step_clock(stream);
	struct known_event **at = event_place(event);
	if (n >= 0 && *at == NULL && n_events < RACE_EVENTS) {
		*at = meta_zalloc(sizeof(**at));
		n_events += *at != NULL;
		if (*at != NULL)
			(*at)->event = event;
	}
	if (n >= 0 && *at != NULL)
		(*at)->after = streams[n]->after;
	preload_unlock(&lock);
}

static void
join_event(struct vector *to, CUevent event) HOLDS(lock)
{
	const struct known_event *known = *event_place(event);

	if (known != NULL)
		vector_join(to, &known->after);
	else
		host_join_all(to);
}

void
races_event_waited(CUevent event)
{
	if (!is_on())
		return;
	preload_lock(&lock);
	join_event(&host, event);
	preload_unlock(&lock);
}

void
races_stream_waited(CUstream stream, CUevent event)
{
	if (!is_on() || gate_capturing((weir_stream)stream))
		return;
	preload_lock(&lock);
	int n = step_clock(stream);
	if (n >= 0)
		join_event(&streams[n]->after, event);
	preload_unlock(&lock);
}

/* A new stream may get the handle. The stream's work is taken to be done,
 * because the program may know that before it destroys a stream. */
void
races_stream_gone(CUstream stream)
{
	if (!races_wanted() || given_up)
		return;
	preload_lock(&lock);
	for (int i = 0; i < n_streams; i++)
		if (streams[i]->handle == stream && !streams[i]->gone) {
			streams[i]->gone = true;
			vector_join(&host, &streams[i]->after);
		}
	preload_unlock(&lock);
}
