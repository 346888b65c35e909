/*
 * The real dlsym and the real driver.
 *
 * dlsym cannot be looked up: every way to do so is a symbol that this library
 * exports too. So its address is read from the symbol tables of the objects
 * that the program was started with, from the one after this library on, as
 * RTLD_NEXT would. This may happen while a sanitizer starts, before any
 * constructor, so it calls no function.
 *
 * The driver is the libcuda.so.1 that the program itself has loaded, by link or
 * by dlopen(). The loader is asked for the library without loading it. This
 * library loads the driver only for a program that calls weir directly, which
 * may do so before the driver is loaded.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>

#include "preload/preload.h"

/* The tables of an object that are searched. */
struct tables {
	const char *strings;
	const ElfW(Sym) * symbols;
	const ElfW(Versym) * versions; /* may be NULL */
	const uint32_t *hash;          /* DT_GNU_HASH */
};

/* Most loaders write addresses into a dynamic section. Where one does not, the
 * values are offsets. */
static PLAIN const void *
address_in(const struct link_map *object, ElfW(Addr) value)
{
	if (value < object->l_addr)
		value += object->l_addr;
	return (const void *)value;
}

static PLAIN bool
read_tables(const struct link_map *object, struct tables *out)
{
	*out = (struct tables){ NULL, NULL, NULL, NULL };
	for (const ElfW(Dyn) *d = object->l_ld; d->d_tag != DT_NULL; d++) {
		const void *address = address_in(object, d->d_un.d_ptr);

		if (d->d_tag == DT_STRTAB)
			out->strings = address;
		else if (d->d_tag == DT_SYMTAB)
			out->symbols = address;
		else if (d->d_tag == DT_VERSYM)
			out->versions = address;
		else if (d->d_tag == DT_GNU_HASH)
			out->hash = address;
	}
	return out->strings != NULL && out->symbols != NULL &&
	    out->hash != NULL;
}

static PLAIN bool
same(const char *a, const char *b)
{
	while (*a != '\0' && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

static PLAIN uint32_t
gnu_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name != '\0'; name++)
		h = h * 33 + (unsigned char)*name;
	return h;
}

/* The function `name` that the object defines, in its default version. */
static PLAIN void *
search_object(const struct link_map *object, const char *name)
{
	struct tables t;
	uint32_t h = gnu_hash(name);

	/* The kernel's own object is not relocated and defines none of the
	 * functions. */
	if (object->l_ld == NULL || !read_tables(object, &t) ||
	    (uintptr_t)t.hash < object->l_addr)
		return NULL;
	uint32_t n_buckets = t.hash[0];
	uint32_t first = t.hash[1];
	const uint32_t *buckets =
	    t.hash + 4 + t.hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	const uint32_t *chain = buckets + n_buckets;

	uint32_t i = n_buckets == 0 ? 0 : buckets[h % n_buckets];
	if (i < first)
		return NULL;
	for (;; i++) {
		const ElfW(Sym) *s = &t.symbols[i];
		bool hidden = t.versions != NULL && (t.versions[i] & 0x8000);

		if ((chain[i - first] | 1) == (h | 1) && s->st_shndx != 0 &&
		    (s->st_info & 0xf) == STT_FUNC && !hidden &&
		    same(t.strings + s->st_name, name))
			return (void *)(object->l_addr + s->st_value);
		if (chain[i - first] & 1)
			return NULL;
	}
}

/* The next definition after this library. The objects that a program starts
 * with come first in the list and stay there, so it is read without a lock. */
static PLAIN void *
search_after_us(const char *name)
{
	bool after = false;

	/* _DYNAMIC belongs to each object itself. */
	for (const struct link_map *o = _r_debug.r_map; o != NULL;
	     o = o->l_next) {
		if (o->l_ld == _DYNAMIC) {
			after = true;
			continue;
		}
		void *found = after ? search_object(o, name) : NULL;
		if (found != NULL)
			return found;
	}
	return NULL;
}

/* Several threads may search at once; all find the same address. */
static PLAIN void *
search_once(void **place, const char *name)
{
	void *found = __atomic_load_n(place, __ATOMIC_RELAXED);

	if (found == NULL) {
		found = search_after_us(name);
		__atomic_store_n(place, found, __ATOMIC_RELAXED);
	}
	return found;
}

PLAIN void *(*real_dlsym(void))(void *, const char *)
{
	static void *place;

	return (void *(*)(void *, const char *))search_once(&place, "dlsym");
}

PLAIN void *(*real_dlvsym(void))(void *, const char *, const char *)
{
	static void *place;

	return (void *(*)(void *, const char *, const char *))search_once(
	    &place, "dlvsym");
}

/* ---- The driver -------------------------------------------------------- */

/* The driver's handle, which is kept; NULL if the program has not loaded it. */
static void *
library(void)
{
	static _Atomic(void *) kept;
	void *handle = atomic_load_explicit(&kept, memory_order_acquire);

	if (handle != NULL)
		return handle;
	handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	if (handle == NULL)
		dlerror(); /* the program made no call, so it gets no error */
	else
		atomic_store_explicit(&kept, handle, memory_order_release);
	return handle;
}

bool
real_loaded(void)
{
	return library() != NULL;
}

void *
real_find(const char *symbol)
{
	void *handle = library();
	void *found;

	if (handle == NULL)
		return NULL;
	found = real_dlsym()(handle, symbol);
	if (found == NULL)
		dlerror();
	return found;
}

void *
real_of(enum hook_id id)
{
	static _Atomic(void *) table[HOOK_COUNT];
	void *found = atomic_load_explicit(&table[id], memory_order_acquire);

	if (found == NULL) {
		found = real_find(hooks[id].name);
		atomic_store_explicit(&table[id], found, memory_order_release);
	}
	return found;
}

static CUresult
missing(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

void *
real_call(enum hook_id id)
{
	void *found = real_of(id);

	return found != NULL ? found : (void *)missing;
}

static struct real driver_table;
static bool driver_complete;

static void
load_driver_table(void)
{
	bool all = true;

#define REAL_LOAD(name, params)                                                \
	driver_table.name = (CUresult(*) params)real_find(#name);              \
	all = all && driver_table.name != NULL;
	REAL_ENTRIES(REAL_LOAD)
#undef REAL_LOAD
	driver_complete = all;
}

const struct real *
real_driver(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static _Atomic(const struct real *) ready;
	const struct real *table =
	    atomic_load_explicit(&ready, memory_order_acquire);

	/* A loaded driver stays loaded, and its entries do not change. */
	if (table != NULL || !real_loaded())
		return table;
	pthread_once(&once, load_driver_table);
	if (driver_complete)
		atomic_store_explicit(
		    &ready, &driver_table, memory_order_release);
	return driver_complete ? &driver_table : NULL;
}
