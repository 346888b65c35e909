/*
 * Stacks are taken by the C library's backtrace(), which finds the compiler's
 * unwinder when it is first asked, and named by libbacktrace, which is linked
 * statically and reads the files of the objects in the process. There are
 * faster unwinders that guess where code has no unwind tables; this one stops
 * there, and so reads nothing but stack, whatever code a program makes as it
 * runs.
 */
#include "trace/stack.h"

#include <backtrace.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/meta.h"
#include "base/os.h"
#include "trace/elf_part.h"

enum { SKIP_MAX = 16 };

/* ---- Taking ------------------------------------------------------------ */

/* Unwinding takes some KiB of stack, which a thread with the smallest there is
 * has not got. Found out once a thread. */
bool
stack_has_room(void)
{
	enum { NEEDED = 12 << 10, NO = 1, YES };
	static _Thread_local uint8_t known;

	if (known == 0)
		known = os_stack_left() < NEEDED ? NO : YES;
	return known == YES;
}

/*
 * backtrace() begins with its caller, or with a sanitizer's that stands in for
 * it; the frame that this call returns to is the one to begin with.
 */
__attribute__((noinline)) size_t
stack_capture(void **frames, size_t n, size_t skip)
{
	enum { OURS = 4 };
	const void *caller =
	    __builtin_extract_return_addr(__builtin_return_address(0));
	void *all[OURS + SKIP_MAX + STACK_FRAMES_MAX];
	size_t first = 0;

	if (n > STACK_FRAMES_MAX)
		n = STACK_FRAMES_MAX;
	if (skip > SKIP_MAX)
		skip = SKIP_MAX;
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
 * the frames. A stack's number is its first word's, so it is found without a
 * search; slots lead from the hash to the number. A stack is written before
 * its slot is, and neither changes afterwards, so nobody needs a lock. Two
 * threads that meet a new stack at once both write it, and one of the two is
 * never found: it costs its words.
 */
struct stack_table {
	size_t bytes;
	size_t slots; /* a power of two */
	size_t limit; /* of words */
	_Atomic uint32_t *slot;
	uintptr_t *words;
	atomic_size_t used; /* words; the first is nobody's */
	atomic_size_t count;
	_Atomic uint64_t lost;
};

enum { HEAD = 2, PROBES = 64 };

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
	/* For each slot 32 bytes, which is a stack of two frames. */
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

/* Write a stack down; its number, or 0 without room. */
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

	for (size_t i = 0; i < PROBES; i++) {
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
stack_table_count(const struct stack_table *table)
{
	return atomic_load(&table->count);
}

uint64_t
stack_table_lost(const struct stack_table *table)
{
	return atomic_load(&table->lost);
}

/* ---- Files ------------------------------------------------------------- */

/*
 * The part of a file that libbacktrace reads. These two functions stand in for
 * those of its own archive, which map the file: a section header that names
 * bytes beyond the file's end, or a file that is cut later, would end the
 * process by SIGBUS. Here the bytes are copied, at the price of as much memory
 * as there is debug information, and what would end the reader is repaired in
 * the copy (elf_part.h).
 *
 * The declarations are those of libbacktrace's internal.h, the same since gcc
 * 4.8. The linker finds ours first, because they lie in the object that calls
 * libbacktrace.
 */
struct backtrace_view {
	const void *data;
	void *base;
	size_t len;
};

int backtrace_get_view(struct backtrace_state *state, int fd, off_t offset,
    uint64_t size, backtrace_error_callback complain, void *user,
    struct backtrace_view *view);
void backtrace_release_view(struct backtrace_state *state,
    struct backtrace_view *view, backtrace_error_callback complain, void *user);

static bool
file_has(int fd, off_t offset, uint64_t size)
{
	struct stat file;

	return fstat(fd, &file) == 0 && offset >= 0 && size > 0 &&
	    offset <= file.st_size && size <= (uint64_t)(file.st_size - offset);
}

static bool
read_whole(int fd, off_t offset, char *to, size_t size)
{
	while (size > 0) {
		ssize_t n = pread(fd, to, size, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		to += n;
		offset += n;
		size -= (size_t)n;
	}
	return true;
}

/* Functions of libbacktrace that are not in its header. Some versions lack the
 * first. */
int backtrace_uncompress_zdebug(struct backtrace_state *state,
    const unsigned char *bytes, size_t size, backtrace_error_callback complain,
    void *user, unsigned char **inflated, size_t *inflated_size)
    __attribute__((weak));
void backtrace_free(struct backtrace_state *state, void *bytes, size_t size,
    backtrace_error_callback complain, void *user);

static void
ignore_fault(void *user, const char *text, int number)
{
	(void)user;
	(void)text;
	(void)number;
}

static unsigned char *
inflate_lines(void *state, const unsigned char *bytes, size_t size)
{
	unsigned char *inflated = NULL;
	size_t length = 0;

	(void)backtrace_uncompress_zdebug(
	    state, bytes, size, ignore_fault, NULL, &inflated, &length);
	return inflated;
}

static void
drop_inflated(void *state, unsigned char *inflated, size_t size)
{
	backtrace_free(state, inflated, size, ignore_fault, NULL);
}

/* 1 if the bytes are there, else 0. */
int
backtrace_get_view(struct backtrace_state *state, int fd, off_t offset,
    uint64_t size, backtrace_error_callback complain, void *user,
    struct backtrace_view *view)
{
	struct elf_inflater inflater = { inflate_lines, drop_inflated, state };
	char *bytes = NULL;

	if (file_has(fd, offset, size))
		bytes = meta_map(size);
	if (bytes == NULL || !read_whole(fd, offset, bytes, size)) {
		if (bytes != NULL)
			meta_unmap(bytes, size);
		complain(user, "the file ends before its sections do", 0);
		return 0;
	}
	elf_part_repair(fd, offset, (unsigned char *)bytes, size,
	    backtrace_uncompress_zdebug == NULL ? NULL : &inflater);
	*view = (struct backtrace_view){ bytes, bytes, size };
	return 1;
}

void
backtrace_release_view(struct backtrace_state *state,
    struct backtrace_view *view, backtrace_error_callback complain, void *user)
{
	(void)state;
	(void)complain;
	(void)user;
	meta_unmap(view->base, view->len);
}

/* ---- Naming ------------------------------------------------------------ */

static void
copy_text(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from == NULL ? "" : from);
}

/* A name of C++ as it is in the source, if the process has what tells it. */
static void
copy_function(char *to, size_t size, const char *name)
{
	typedef char *demangle(const char *, char *, size_t *, int *);
	void *library;
	void *found;
	char *text = NULL;

	if (name != NULL && strncmp(name, "_Z", 2) == 0) {
		library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
		found = dlsym(
		    library != NULL ? library : RTLD_DEFAULT, "__cxa_demangle");
		if (found != NULL)
			text = ((demangle *)found)(name, NULL, NULL, NULL);
		if (library != NULL)
			dlclose(library);
	}
	copy_text(to, size, text != NULL ? text : name);
	free(text);
}

/* Objects that were loaded so far: the first in the list knows. */
static int
read_loaded(struct dl_phdr_info *info, size_t size, void *user)
{
	(void)size;
	*(unsigned long long *)user = info->dlpi_adds;
	return 1;
}

/* The debug information of the files that were loaded when this reader was
 * made. libbacktrace cannot free one, so at most STATES are made. */
static struct backtrace_state *
reader(void)
{
	enum { STATES = 16 };
	static _Atomic(struct backtrace_state *) states[STATES];
	static _Atomic unsigned long long loaded[STATES];
	unsigned long long now = 0;
	size_t i = 0;

	dl_iterate_phdr(read_loaded, &now);
	while (i < STATES - 1 && atomic_load(&states[i]) != NULL &&
	    atomic_load(&loaded[i]) != now)
		i++;
	struct backtrace_state *state = atomic_load(&states[i]);

	if (state == NULL) {
		struct backtrace_state *made =
		    backtrace_create_state(NULL, 1, ignore_fault, NULL);

		atomic_store(&loaded[i], now);
		if (made != NULL &&
		    atomic_compare_exchange_strong(&states[i], &state, made))
			state = made;
	}
	return state;
}

struct search {
	struct stack_place *places;
	size_t n;
	size_t found;
};

static int
note_place(void *user, uintptr_t address, const char *file, int line,
    const char *function)
{
	struct search *search = user;
	struct stack_place *place = &search->places[search->found];

	(void)address;
	if (file == NULL && function == NULL)
		return 0;
	copy_function(place->function, sizeof(place->function), function);
	copy_text(place->file, sizeof(place->file), file);
	place->line = line > 0 ? (unsigned)line : 0;
	search->found++;
	return search->found == search->n;
}

static void
note_symbol(void *user, uintptr_t address, const char *name, uintptr_t value,
    uintptr_t size)
{
	struct stack_place *place = user;

	(void)address;
	(void)value;
	(void)size;
	copy_function(place->function, sizeof(place->function), name);
}

size_t
stack_describe(const void *address, struct stack_place *places, size_t n)
{
	struct search search = { .places = places, .n = n };
	/* A call's last byte: the next address may belong to another
	 * function. */
	uintptr_t inside = (uintptr_t)address - 1;
	struct backtrace_state *state;
	Dl_info info = { 0 };

	if (n == 0)
		return 0;
	memset(places, 0, n * sizeof(*places));
	if (dladdr((const void *)inside, &info) == 0)
		return 1;
	state = reader();
	if (state != NULL)
		backtrace_pcinfo(
		    state, inside, note_place, ignore_fault, &search);
	if (search.found == 0) {
		search.found = 1;
		if (state != NULL)
			backtrace_syminfo(state, inside, note_symbol,
			    ignore_fault, &places[0]);
		if (places[0].function[0] == '\0')
			copy_function(places[0].function,
			    sizeof(places[0].function), info.dli_sname);
	}
	for (size_t i = 0; i < search.found; i++) {
		copy_text(
		    places[i].object, sizeof(places[i].object), info.dli_fname);
		places[i].offset = inside + 1 - (uintptr_t)info.dli_fbase;
	}
	return search.found;
}

/* Without its folders. */
static const char *
file_name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

const char *
stack_place_text(const struct stack_place *place, char *text, size_t size)
{
	const char *file = file_name_of(place->file);
	const char *object = file_name_of(place->object);

	if (object[0] == '\0')
		copy_text(text, size, "?");
	else if (place->function[0] == '\0')
		snprintf(text, size, "%s+0x%zx", object, place->offset);
	else if (place->line != 0)
		snprintf(text, size, "%s (%s:%u)", place->function, file,
		    place->line);
	else
		snprintf(text, size, "%s (%s)", place->function, object);
	return text;
}
