/*
 * The names of addresses, from libbacktrace, which is linked statically and
 * reads the files of the objects in the process.
 *
 * libbacktrace trusts the contents of files, which may be corrupt. So this file
 * replaces the functions by which libbacktrace opens and reads files, allocates
 * and sorts. The linker uses these functions, because they lie in the object
 * that calls libbacktrace. Their declarations are from libbacktrace's
 * internal.h and have not changed since gcc 4.8.
 */
#include <backtrace.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/meta.h"
#include "stacks/elf_part.h"
#include "stacks/mangled.h"
#include "stacks/reader_memory.h"
#include "stacks/stack.h"

/* ---- Memory and sorting -------------------------------------------------- */

void *backtrace_alloc(struct backtrace_state *state, size_t size,
    backtrace_error_callback complain, void *user);
void backtrace_free(struct backtrace_state *state, void *memory, size_t size,
    backtrace_error_callback complain, void *user);

void *
backtrace_alloc(struct backtrace_state *state, size_t size,
    backtrace_error_callback complain, void *user)
{
	void *memory = reader_alloc(size);

	(void)state;
	if (memory == NULL && complain != NULL)
		complain(user, "no memory for debug information", ENOMEM);
	return memory;
}

void
backtrace_free(struct backtrace_state *state, void *memory, size_t size,
    backtrace_error_callback complain, void *user)
{
	(void)state;
	(void)complain;
	(void)user;
	reader_free(memory, size);
}

/* An array that grows. */
struct backtrace_vector {
	void *base;
	size_t size; /* bytes in use */
	size_t alc;  /* bytes allocated after those */
};

void *backtrace_vector_grow(struct backtrace_state *state, size_t size,
    backtrace_error_callback complain, void *user,
    struct backtrace_vector *vector);
void *backtrace_vector_finish(struct backtrace_state *state,
    struct backtrace_vector *vector, backtrace_error_callback complain,
    void *user);
int backtrace_vector_release(struct backtrace_state *state,
    struct backtrace_vector *vector, backtrace_error_callback complain,
    void *user);
void backtrace_qsort(void *base, size_t count, size_t size,
    int (*compare)(const void *, const void *));

/* Add `size` bytes to the vector. NULL without memory. */
void *
backtrace_vector_grow(struct backtrace_state *state, size_t size,
    backtrace_error_callback complain, void *user,
    struct backtrace_vector *vector)
{
	enum { FIRST = 16 };
	size_t bytes = vector->size == 0 ? FIRST * size : 2 * vector->size;

	if (size > vector->alc) {
		void *base = backtrace_alloc(state, bytes, complain, user);

		if (base == NULL)
			return NULL;
		if (vector->size > 0)
			memcpy(base, vector->base, vector->size);
		reader_free(vector->base, vector->size + vector->alc);
		vector->base = base;
		vector->alc = bytes - vector->size;
	}
	void *added = (char *)vector->base + vector->size;

	vector->size += size;
	vector->alc -= size;
	return added;
}

/* Return the content of the vector, which is empty afterwards. */
void *
backtrace_vector_finish(struct backtrace_state *state,
    struct backtrace_vector *vector, backtrace_error_callback complain,
    void *user)
{
	void *base = vector->base;

	(void)state;
	(void)complain;
	(void)user;
	*vector = (struct backtrace_vector){ 0 };
	return base;
}

/* End the growth of the vector. The unused bytes after the content stay
 * allocated, because a block is freed as a whole. */
int
backtrace_vector_release(struct backtrace_state *state,
    struct backtrace_vector *vector, backtrace_error_callback complain,
    void *user)
{
	(void)state;
	(void)complain;
	(void)user;
	if (vector->size == 0) {
		reader_free(vector->base, vector->alc);
		vector->base = NULL;
	}
	vector->alc = 0;
	return 1;
}

/* libbacktrace's own function takes quadratic time for equal elements. */
void
backtrace_qsort(void *base, size_t count, size_t size,
    int (*compare)(const void *, const void *))
{
	if (count > 1)
		qsort(base, count, size, compare);
}

/* ---- Files ------------------------------------------------------------- */

int backtrace_open(const char *path, backtrace_error_callback complain,
    void *user, int *does_not_exist);
int backtrace_close(int fd, backtrace_error_callback complain, void *user);

/* Files that the calling thread has open for the reader. It needs two: an
 * object and its file of debug information. */
enum { FILES_MAX = 3 };
static _Thread_local struct elf_file *files[FILES_MAX];

/* The place of the file with that descriptor, or of none (-1); NULL: there is
 * no such place. */
static struct elf_file **
find_file(int fd)
{
	for (int i = 0; i < FILES_MAX; i++)
		if (files[i] == NULL ? fd < 0 : files[i]->fd == fd)
			return &files[i];
	return NULL;
}

static void
forget_file(struct elf_file **place)
{
	elf_file_close(*place);
	meta_free(*place, sizeof(**place));
	*place = NULL;
}

/* Close the files that the reader has not closed, as after some faults. */
static void
close_files(void)
{
	for (int i = 0; i < FILES_MAX; i++) {
		if (files[i] == NULL)
			continue;
		close(files[i]->fd);
		forget_file(&files[i]);
	}
}

/*
 * Open a regular file; -1 if that is not possible, or if the thread has too
 * many files open. A file that is not regular might make the caller wait.
 */
int
backtrace_open(const char *path, backtrace_error_callback complain, void *user,
    int *does_not_exist)
{
	struct elf_file **place = find_file(-1);
	struct stat file;
	int fd;

	if (does_not_exist != NULL)
		*does_not_exist = 0;
	if (place == NULL)
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		if (does_not_exist != NULL &&
		    (errno == ENOENT || errno == ENOTDIR))
			*does_not_exist = 1;
		else
			complain(user, path, errno);
		return -1;
	}
	if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode))
		*place = meta_alloc(sizeof(**place));
	if (*place == NULL) {
		close(fd);
		return -1;
	}
	elf_file_open(*place, fd);
	return fd;
}

/* Returns 1 if the file was closed, else 0. */
int
backtrace_close(int fd, backtrace_error_callback complain, void *user)
{
	struct elf_file **place = find_file(fd);

	if (place != NULL)
		forget_file(place);
	if (close(fd) == 0)
		return 1;
	complain(user, "close", errno);
	return 0;
}

/*
 * The view of a part of a file that libbacktrace reads. libbacktrace's own
 * function maps the file: a section header that names bytes beyond the file's
 * end, or a file that is cut later, would end the process by SIGBUS. Here the
 * bytes are copied, which needs as much memory as there is debug information.
 * Contents that would end the reader are left out (elf_part.h).
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

/* Returns 1 if the bytes can be read, else 0. A zero follows them, because
 * libbacktrace reads texts at their end without a bound. */
int
backtrace_get_view(struct backtrace_state *state, int fd, off_t offset,
    uint64_t size, backtrace_error_callback complain, void *user,
    struct backtrace_view *view)
{
	struct elf_file **file = find_file(fd);
	unsigned char *bytes = NULL;

	(void)state;
	if (fd >= 0 && file != NULL &&
	    elf_part_exists(*file, (uint64_t)offset, size))
		bytes = meta_map(size + 1);
	if (bytes == NULL ||
	    !elf_part_read(*file, (uint64_t)offset, bytes, size)) {
		if (bytes != NULL)
			meta_unmap(bytes, size + 1);
		complain(user, "the file has no such part", 0);
		return 0;
	}
	reader_note_bytes(size);
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
	meta_unmap(view->base, view->len + 1);
}

/* ---- Naming ------------------------------------------------------------ */

static void
ignore_fault(void *user, const char *text, int number)
{
	(void)user;
	(void)text;
	(void)number;
}

static void
copy_text(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from == NULL ? "" : from);
}

/* Copy a function's name, demangled if the process has the C++ library for
 * that and the name does not expand to a very long text. */
static void
copy_demangled(char *to, size_t size, const char *name)
{
	typedef char *demangle(const char *, char *, size_t *, int *);
	void *library;
	void *found;
	char *text = NULL;

	if (name != NULL && strncmp(name, "_Z", 2) == 0 &&
	    mangled_name_is_bounded(name)) {
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

/* Read how many objects have been loaded so far, from the first object in the
 * list. */
static int
read_loaded(struct dl_phdr_info *info, size_t size, void *user)
{
	(void)size;
	*(unsigned long long *)user = info->dlpi_adds;
	return 1;
}

/* The debug information of the files that were loaded when this reader was
 * made. libbacktrace cannot free it, so at most STATES readers are made. */
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
	copy_demangled(place->function, sizeof(place->function), function);
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
	copy_demangled(place->function, sizeof(place->function), name);
}

size_t
stack_describe(const void *address, struct stack_place *places, size_t n)
{
	struct search search = { .places = places, .n = n };
	/* The last byte of the call: the next address may belong to another
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
	if (search.found == 0)
		search.found = 1;
	/* The last one is the function that has the address. */
	struct stack_place *last = &places[search.found - 1];

	if (last->function[0] == '\0' && state != NULL)
		backtrace_syminfo(
		    state, inside, note_symbol, ignore_fault, last);
	if (last->function[0] == '\0')
		copy_demangled(
		    last->function, sizeof(last->function), info.dli_sname);
	close_files();
	for (size_t i = 0; i < search.found; i++) {
		copy_text(
		    places[i].object, sizeof(places[i].object), info.dli_fname);
		places[i].offset = inside + 1 - (uintptr_t)info.dli_fbase;
	}
	return search.found;
}

/* The file name without its folders. */
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
