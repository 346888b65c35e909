/*
 * A program that asks the driver about memory by its address: in the middle and
 * at the end of an allocation, behind it, after its free, and when the memory
 * serves again. It prints what each call answers. With the argument "change" it
 * calls what would change or share the mapping of memory that it has not
 * mapped, prints what was allowed, and looks whether the memory is unharmed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda.h"

enum {
	CONTEXT = 1,
	HOST_POINTER = 4,
	TOKENS = 5,
	SYNC = 6,
	BUFFER = 7,
	RANGE_START = 11,
	RANGE_SIZE = 12,
	RDMA = 15,
	POOL = 17,
	MAPPING_SIZE = 18,
	MAPPING_BASE = 19,
	BLOCK = 20,
	ATTRIBUTES = 21,
	DMA_BUF = 1,
	BLOCKS = 3,
};

static struct cuda cuda;

static struct {
	result (*pool_create)(void **, const void *);
	result (*from_pool)(address *, size_t, void *, stream);
	result (*set_attribute)(const void *, int, address);
	result (*retain)(unsigned long long *, void *);
	result (*get_access)(unsigned long long *, const void *, address);
	result (*set_access)(address, size_t, const void *, size_t);
	result (*unmap)(address, size_t);
	result (*map)(
	    address, size_t, size_t, unsigned long long, unsigned long long);
	result (*address_free)(address, size_t);
	result (*export_pointer)(void *, address);
	result (*ipc_get)(void *, address);
	result (*range_handle)(
	    void *, address, size_t, int, unsigned long long);
	result (*bind)(
	    unsigned long long, size_t, address, size_t, unsigned long long);
} more;

static void
fetch_more(void)
{
	cuda_fetch("cuMemPoolCreate", &more.pool_create);
	cuda_fetch("cuMemAllocFromPoolAsync", &more.from_pool);
	cuda_fetch("cuPointerSetAttribute", &more.set_attribute);
	cuda_fetch("cuMemRetainAllocationHandle", &more.retain);
	cuda_fetch("cuMemGetAccess", &more.get_access);
	cuda_fetch("cuMemSetAccess", &more.set_access);
	cuda_fetch("cuMemUnmap", &more.unmap);
	cuda_fetch("cuMemMap", &more.map);
	cuda_fetch("cuMemAddressFree", &more.address_free);
	cuda_fetch("cuMemPoolExportPointer", &more.export_pointer);
	cuda_fetch("cuIpcGetMemHandle", &more.ipc_get);
	cuda_fetch("cuMemGetHandleForAddressRange", &more.range_handle);
	cuda_fetch("cuMulticastBindAddr", &more.bind);
}

/* ---- Kinds of memory --------------------------------------------------- */

static void *pool;

static void
make_pool(void)
{
	struct {
		int type, handles, location, device;
		void *security;
		size_t most;
		char rest[56];
	} props = { .type = 1, .location = 1 };

	MUST(more.pool_create(&pool, &props));
}

static address
take_plain(size_t size)
{
	address out;

	MUST(cuda.mem_alloc(&out, size));
	return out;
}

static address
take_ordered(size_t size)
{
	address out;

	MUST(cuda.mem_alloc_async(&out, size, NULL));
	return out;
}

static address
take_pooled(size_t size)
{
	address out;

	MUST(more.from_pool(&out, size, pool, NULL));
	return out;
}

static address
take_host(size_t size)
{
	void *out;

	MUST(cuda.host_alloc(&out, size, 0));
	return (address)(uintptr_t)out;
}

static void
drop_plain(address ptr)
{
	MUST(cuda.mem_free(ptr));
}

static void
drop_ordered(address ptr)
{
	MUST(cuda.mem_free_async(ptr, NULL));
	MUST(cuda.synchronize());
}

static void
drop_host(address ptr)
{
	MUST(cuda.free_host((void *)(uintptr_t)ptr));
}

/* A pool may round what it reports to the next multiple of `step`. */
static const struct kind {
	const char *name;
	size_t step;
	address (*take)(size_t size);
	void (*drop)(address ptr);
} kinds[] = {
	{ "plain", 1, take_plain, drop_plain },
	{ "ordered", 512, take_ordered, drop_ordered },
	{ "pooled", 512, take_pooled, drop_ordered },
	{ "host", 1, take_host, drop_host },
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ---- Questions --------------------------------------------------------- */

/* Print an attribute in the same way whatever the addresses are. */
static void
print_attribute(int which, address ptr, address base)
{
	uint64_t value = 0;
	result code = cuda.get_attribute(&value, which, ptr);

	if (code != SUCCESS) {
		printf(" %d:error %d", which, code);
		return;
	}
	switch (which) {
	case CONTEXT:
	case BUFFER:
	case POOL:
	case BLOCK:
		printf(" %d:%s", which, value != 0 ? "some" : "none");
		return;
	case 3:
	case HOST_POINTER:
		printf(" %d:%lld", which, (long long)(value - ptr));
		return;
	case RANGE_START:
		printf(" %d:%lld", which, (long long)(value - base));
		return;
	/* A small allocation may share its mapping with others. */
	case MAPPING_SIZE:
		printf(" %d:%s", which, value > 0 ? "some" : "none");
		return;
	case MAPPING_BASE:
		printf(" %d:%s", which, value <= ptr ? "before" : "after");
		return;
	default:
		printf(" %d:%llu", which, (unsigned long long)value);
	}
}

/* Print the first address of an answer. It begins as 99. */
static void
print_start(address start, address base)
{
	if (start == 0)
		printf(",none");
	else if (start == 99)
		printf(",unchanged");
	else
		printf(",%lld", (long long)(start - base));
}

static void
ask_many(address ptr, address base)
{
	int which[] = { 2, RANGE_START, RANGE_SIZE };
	unsigned type = 99;
	address start = 99;
	size_t size = 99;
	void *data[] = { &type, &start, &size };

	result code = cuda.get_attributes(3, which, data, ptr);

	printf(" many:%d,%u", code, type);
	print_start(start, base);
	printf(",%zu", size);
}

static void
ask_host(address ptr)
{
	void *host = (void *)(uintptr_t)ptr;
	unsigned flags = 0;
	address device = 0;
	result code = cuda.host_flags(&flags, host);

	/* Memory may be mapped and portable in any case. */
	printf(" flags:%d,%u", code, flags & ~3u);
	code = cuda.host_pointer(&device, host, 0);
	printf(" pointer:%d,%d", code, code == SUCCESS ? device == ptr : 0);
}

static void
ask(const char *where, address ptr, address base)
{
	int device_0[] = { 1, 0 };
	unsigned long long word = 99;
	address start = 99;
	size_t size = 99;
	char handle[64];
	result code = cuda.get_range(&start, &size, ptr);

	printf("  %s: range:%d", where, code);
	print_start(start, base);
	printf(",%zu", size);
	for (int i = 1; i < ATTRIBUTES; i++)
		if (i != TOKENS && i != RDMA)
			print_attribute(i, ptr, base);
	ask_many(ptr, base);
	ask_host(ptr);
	code = more.get_access(&word, device_0, ptr);
	printf(" access:%d,%llu", code, word);
	printf(" handle:%d",
	    more.retain(&word, (void *)(uintptr_t)ptr) == SUCCESS);
	printf(" shared:%d,%d\n", more.ipc_get(handle, ptr) == SUCCESS,
	    more.export_pointer(handle, ptr) == SUCCESS);
}

static int
sync_of(address ptr)
{
	unsigned value = 0;

	MUST(cuda.get_attribute(&value, SYNC, ptr));
	return (int)value;
}

/* An attribute that is set is the allocation's alone, and ends with it. */
static void
set_sync(const struct kind *kind, size_t size)
{
	address blocks[BLOCKS];
	unsigned on = 1;
	result code;

	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = kind->take(size);
	code = more.set_attribute(&on, SYNC, blocks[1] + size / 2);
	printf("  sync:%d", code);
	for (int i = 0; i < BLOCKS; i++)
		printf(" %d", sync_of(blocks[i]));
	kind->drop(blocks[1]);
	printf(", freed:%d", more.set_attribute(&on, SYNC, blocks[1]));
	blocks[1] = kind->take(size);
	printf(", again:");
	for (int i = 0; i < BLOCKS; i++) {
		printf(" %d", sync_of(blocks[i]));
		kind->drop(blocks[i]);
	}
	printf("\n");
}

static void
ask_all(const struct kind *kind, size_t size)
{
	address blocks[BLOCKS];

	printf("%s %zu\n", kind->name, size);
	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = kind->take(size);
	ask("first", blocks[1], blocks[1]);
	ask("middle", blocks[1] + size / 2, blocks[1]);
	ask("last", blocks[1] + size - 1, blocks[1]);
	/* Elsewhere the next allocation may begin there. */
	if (size % 512 != 0)
		ask("behind", blocks[1] + size, blocks[1]);
	kind->drop(blocks[1]);
	ask("freed", blocks[1], blocks[1]);
	ask("freed, middle", blocks[1] + size / 2, blocks[1]);
	ask("neighbour", blocks[2], blocks[2]);
	kind->drop(blocks[0]);
	kind->drop(blocks[2]);
	ask("all freed", blocks[2], blocks[2]);
	/* docs/preload.md, Limits */
	if (kind->take == take_plain)
		set_sync(kind, size);
}

/* ---- Changes ----------------------------------------------------------- */

static void
change(const char *where, address ptr, size_t size)
{
	struct {
		int type, device, flags;
	} access = { 1, 0, 3 };

	printf("  %s: access %d unmap %d map %d address %d", where,
	    more.set_access(ptr, size, &access, 1), more.unmap(ptr, size),
	    more.map(ptr, size, 0, 1, 0), more.address_free(ptr, size));
	printf(" bind %d\n", more.bind(1, 0, ptr, size, 0));
}

/* The driver makes no dma-buf of page-locked memory. */
static void export(const char *where, address ptr, size_t size)
{
	int handle = -1;

	printf("  %s: dma-buf %d", where,
	    more.range_handle(&handle, ptr, size, DMA_BUF, 0));
	printf(" beyond %d\n",
	    more.range_handle(&handle, ptr, size + 8192, DMA_BUF, 0));
}

/* Page-locked memory is not the program's to register or unregister. */
static void
change_host(const char *where, address block)
{
	void *host = (void *)(uintptr_t)block;

	printf("  %s: register %d unregister %d\n", where,
	    cuda.host_register(host, 4096, 0) != SUCCESS,
	    cuda.host_unregister(host));
}

static unsigned
change_all(const struct kind *kind)
{
	enum { SIZE = 4 << 20 };
	static unsigned words[SIZE / sizeof(unsigned)];
	address block;
	address other;
	unsigned wrong = 0;

	printf("%s\n", kind->name);
	block = kind->take(SIZE);
	MUST(cuda.fill(block, 7, SIZE / sizeof(unsigned), NULL));
	other = kind->take(SIZE);
	change("live", block, SIZE);
	if (kind->take == take_host)
		change_host("live", other);
	else
		export("live", block, SIZE);
	kind->drop(other);
	change("freed", other, SIZE);
	if (kind->take == take_host)
		change_host("freed", other);
	else
		export("freed", other, SIZE);
	MUST(cuda.copy_out(words, block, SIZE));
	for (size_t i = 0; i < SIZE / sizeof(unsigned); i++)
		wrong += words[i] != 7;
	kind->drop(block);
	return wrong;
}

int
main(int argc, char **argv)
{
	static const size_t sizes[] = { 100, 5000, 3 << 20, (9 << 20) + 4 };
	unsigned wrong = 0;

	cuda_by_dlsym(&cuda);
	cuda_start(&cuda);
	fetch_more();
	make_pool();
	if (argc > 1 && strcmp(argv[1], "change") == 0) {
		for (int i = 0; i < KINDS; i++)
			wrong += change_all(&kinds[i]);
		printf("wrong words: %u\n", wrong);
		return wrong != 0;
	}
	for (int i = 0; i < KINDS; i++)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
			ask_all(&kinds[i],
			    (sizes[s] + kinds[i].step - 1) / kinds[i].step *
				kinds[i].step);
	return 0;
}
