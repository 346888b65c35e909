/*
 * A program that looks up many names by every kind of lookup,
 * most of them names of the driver and many of no function. It compares each
 * result with the function that a lookup without a preload finds: it reads the
 * symbol tables of the driver and of the C library itself. A result may differ
 * in one way: it is a function of the same name in another library. The
 * argument is the number of lookups; with "count" behind it, the program also
 * prints how many did.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda.h"

enum { NAMES_MAX = 4096, NAME_SIZE = 96 };

typedef result (*query_old)(const char *, void **, int, uint64_t);
typedef result (*query_now)(const char *, void **, int, uint64_t, int *);
typedef void *(*finder)(void *, const char *);
typedef void *(*version_finder)(void *, const char *, const char *);

/* The functions behind all preloaded ones. */
static query_old real_query_old;
static query_now real_query_now;
static finder real_dlsym;
static version_finder real_dlvsym;

static const char *names[NAMES_MAX]; /* of the driver */
static size_t n_names;
static void *driver;
static void *c_library;
static unsigned long different;
static unsigned long replaced;
static unsigned long digest =
    5381; /* of results that depend on the order of all libraries */

/* ---- Symbol tables ------------------------------------------------------- */

struct tables {
	const char *strings;
	const ElfW(Sym) * symbols;
	const ElfW(Versym) * versions;
	const uint32_t *hash;
};

static struct tables
tables_of(const struct link_map *object)
{
	struct tables t = { 0 };

	for (const ElfW(Dyn) *d = object->l_ld; d->d_tag != DT_NULL; d++) {
		const void *at = (const void *)(d->d_un.d_ptr < object->l_addr ?
			d->d_un.d_ptr + object->l_addr :
			d->d_un.d_ptr);

		if (d->d_tag == DT_STRTAB)
			t.strings = at;
		else if (d->d_tag == DT_SYMTAB)
			t.symbols = at;
		else if (d->d_tag == DT_VERSYM)
			t.versions = at;
		else if (d->d_tag == DT_GNU_HASH)
			t.hash = at;
	}
	if (t.strings == NULL || t.symbols == NULL || t.hash == NULL)
		exit(3);
	return t;
}

/* One past the last symbol, which is the end of the last chain of the hash
 * table. */
static size_t
symbol_count(const struct tables *t)
{
	const uint32_t *buckets =
	    t->hash + 4 + t->hash[2] * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = buckets + t->hash[0];
	uint32_t last = 0;

	for (uint32_t i = 0; i < t->hash[0]; i++)
		if (buckets[i] > last)
			last = buckets[i];
	if (last < t->hash[1])
		return t->hash[1];
	while ((chain[last - t->hash[1]] & 1) == 0)
		last++;
	return last + 1;
}

/* Find the function that the library defines; `each` is called with all
 * names. */
static void *
search(void *library, const char *wanted, void (*each)(const char *))
{
	struct link_map *object;
	struct tables t;
	void *found = NULL;

	if (dlinfo(library, RTLD_DI_LINKMAP, &object) != 0)
		exit(3);
	t = tables_of(object);
	for (size_t i = t.hash[1]; i < symbol_count(&t); i++) {
		const ElfW(Sym) *s = &t.symbols[i];
		const char *name = t.strings + s->st_name;
		int hidden = t.versions != NULL && (t.versions[i] & 0x8000);

		if (s->st_shndx == 0 || (s->st_info & 0xf) != STT_FUNC)
			continue;
		if (each != NULL)
			each(name);
		if (wanted != NULL && !hidden && strcmp(name, wanted) == 0)
			found = (void *)(object->l_addr + s->st_value);
	}
	return found;
}

static void
add_name(const char *name)
{
	if (n_names < NAMES_MAX && strncmp(name, "cu", 2) == 0)
		names[n_names++] = name;
}

static void
find_real(void)
{
	void *symbol = search(driver, "cuGetProcAddress_v2", add_name);

	memcpy(&real_query_now, &symbol, sizeof(symbol));
	symbol = search(driver, "cuGetProcAddress", NULL);
	memcpy(&real_query_old, &symbol, sizeof(symbol));
	symbol = search(c_library, "dlsym", NULL);
	memcpy(&real_dlsym, &symbol, sizeof(symbol));
	symbol = search(c_library, "dlvsym", NULL);
	memcpy(&real_dlvsym, &symbol, sizeof(symbol));
	if (real_query_now == NULL || real_query_old == NULL ||
	    real_dlsym == NULL || real_dlvsym == NULL) {
		fprintf(stderr, "the tables lack a function\n");
		exit(3);
	}
}

/* ---- Queries ------------------------------------------------------------- */

static uint32_t
next(void)
{
	static uint32_t state = 2463534242u;

	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

/* A name of the driver, whole or cut, or with a suffix. */
static void
make_name(char *name)
{
	static const char *const ends[] = { "_v2", "_v3", "_ptsz", "_ptds",
		"_v2_ptsz", "x", " " };
	size_t length;

	snprintf(name, NAME_SIZE, "%.64s", names[next() % n_names]);
	length = strlen(name);
	switch (next() % 8) {
	case 0:
		name[next() % (length + 1)] = '\0';
		break;
	case 1:
		strcat(name, ends[next() % (sizeof(ends) / sizeof(*ends))]);
		break;
	case 2:
		name[next() % length] ^= 1 + next() % 3;
		break;
	default:
		break;
	}
}

/* Names for cuGetProcAddress() have no suffix. */
static void
strip(char *name)
{
	static const char *const ends[] = { "_ptsz", "_ptds", "_v2", "_v3",
		"_v4" };

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		char *end = strstr(name, ends[i]);

		if (end != NULL && strcmp(end, ends[i]) == 0)
			*end = '\0';
	}
}

static void
tell(const char *how, const char *name, int version)
{
	if (different++ < 10)
		printf("%s \"%s\" %d: another answer\n", how, name, version);
}

/* True if `found` is `real` or the preload's function for it. */
static int
same(void *real, void *found, const char *name)
{
	Dl_info ours;
	Dl_info its;

	if (real == found)
		return 1;
	if (real == NULL || found == NULL || dladdr(found, &ours) == 0 ||
	    ours.dli_sname == NULL ||
	    strncmp(ours.dli_sname, name, strlen(name)) != 0)
		return 0;
	replaced++;
	return dladdr(real, &its) == 0 || its.dli_sname == NULL ||
	    strcmp(its.dli_sname, ours.dli_sname) == 0;
}

static void
ask_driver(query_now query, query_old old)
{
	int version = (int)(next() % 1500) * 10;
	uint64_t flags = next() % 4;
	int statuses[2] = { -1, -1 };
	void *found[2] = { &version, &version };
	char name[NAME_SIZE];
	int with_status = next() % 2;
	result codes[2];

	make_name(name);
	if (next() % 8 != 0)
		strip(name);
	if (next() % 4 == 0) {
		codes[0] = real_query_old(name, &found[0], version, flags);
		codes[1] = old(name, &found[1], version, flags);
	} else {
		codes[0] = real_query_now(name, &found[0], version, flags,
		    with_status ? &statuses[0] : NULL);
		codes[1] = query(name, &found[1], version, flags,
		    with_status ? &statuses[1] : NULL);
	}
	if (codes[0] != codes[1] || statuses[0] != statuses[1] ||
	    !same(found[0], found[1], name))
		tell("query", name, version);
}

static void
ask_loader(void)
{
	static const char *const versions[] = { "GLIBC_2.2.5", "GLIBC_2.17",
		"GLIBC_2.34", "libcuda.so.1", "NO_SUCH" };
	static const char *const others[] = { "malloc", "dlsym", "memcpy",
		"cuNoSuchName", "cudaMalloc", "c", "" };
	const char *version = versions[next() % 5];
	void *handle = next() % 4 == 0 ? c_library : driver;
	char name[NAME_SIZE];
	void *found[2];
	int failed[2];

	make_name(name);
	if (next() % 8 == 0)
		snprintf(name, sizeof(name), "%s", others[next() % 7]);
	dlerror();
	if (next() % 4 == 0) {
		found[0] = real_dlvsym(handle, name, version);
		failed[0] = dlerror() != NULL;
		found[1] = dlvsym(handle, name, version);
	} else {
		found[0] = real_dlsym(handle, name);
		failed[0] = dlerror() != NULL;
		found[1] = dlsym(handle, name);
	}
	failed[1] = dlerror() != NULL;
	/* The lookup functions themselves may be anyone's. */
	if (strcmp(name, "dlsym") == 0)
		return;
	if (failed[0] != failed[1] || !same(found[0], found[1], name))
		tell("lookup", name, 0);
}

/* Results of lookups in library order depend on the libraries that are loaded.
 * They go into a sum, which must be the same each time. */
static void
ask_order(void)
{
	char name[NAME_SIZE];
	void *found;

	make_name(name);
	dlerror();
	found = dlsym(next() % 2 ? RTLD_DEFAULT : RTLD_NEXT, name);
	digest = digest * 33 + (found != NULL) * 2 + (dlerror() != NULL);
}

int
main(int argc, char **argv)
{
	query_now query;
	query_old old;
	void *symbol;
	char word[8] = "";
	int queries;

	if (argc < 2 || sscanf(argv[1], "%d %7s", &queries, word) < 1)
		return 2;
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	c_library = dlopen("libc.so.6", RTLD_NOW);
	if (driver == NULL || c_library == NULL)
		return 3;
	/* Before 2.34 the lookup functions were in a separate library. */
	if (search(c_library, "dlsym", NULL) == NULL)
		c_library = dlopen("libdl.so.2", RTLD_NOW);
	find_real();
	symbol = dlsym(driver, "cuGetProcAddress_v2");
	memcpy(&query, &symbol, sizeof(symbol));
	symbol = dlsym(driver, "cuGetProcAddress");
	memcpy(&old, &symbol, sizeof(symbol));
	for (int i = 0; i < queries; i++) {
		if (i % 10 == 0)
			ask_order();
		else if (i % 3 == 0)
			ask_loader();
		else
			ask_driver(query, old);
	}
	printf("names %d, queries %d, different %lu, order %lx\n", n_names > 50,
	    queries, different, digest);
	if (strcmp(word, "count") == 0)
		printf("replaced %d\n", replaced > (unsigned)queries / 100);
	return different != 0;
}
