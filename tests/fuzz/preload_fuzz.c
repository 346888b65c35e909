/*
 * The bytes are a program of calls of the preload's hooks over simcuda: blocks,
 * streams, events, captures, pools, tickets. Sizes, addresses, attributes and
 * handles may be any value that fits the type. Handles of the driver are ones
 * that it returned, NULL, or ones that were destroyed: others end a program
 * with the real driver, too.
 *
 * Blocks never overlap, keep their contents and are freed once; only blocks of
 * the program are freed. In the end no block is live, and weir_check() finds no
 * fault.
 */
#include <string.h>

#include <weir/weir.h>

#include "preload/hooks.h"
#include "tests/fuzz/preload.h"

enum { BLOCKS = 24, STREAMS = 4, EVENTS = 4, HOSTS = 4, POOLS = 2 };

struct block {
	CUdeviceptr at; /* 0: none */
	size_t size;
	unsigned char mark;
};

static struct block blocks[BLOCKS];
static void *hosts[HOSTS];
static CUmemoryPool pools[POOLS];
static CUstream streams[STREAMS];
static CUevent events[EVENTS];
static bool capturing[STREAMS];

static CUresult (*driver_event_create)(CUevent *, unsigned);
static CUresult (*driver_graph_destroy)(CUgraph);
static CUresult (*driver_fill)(CUdeviceptr, unsigned char, size_t);

/* ---- What a call may be given ------------------------------------------- */

/* Mostly possible sizes, sometimes any 64 bits. */
static size_t
some_size(struct fuzz_steps *steps)
{
	unsigned kind = fuzz_byte(steps);

	if (kind >= 240)
		return fuzz_number(steps, 8);
	return (size_t)fuzz_number(steps, 2) << kind % 12;
}

/* A block's address, one within it or behind it, or any 64 bits. */
static CUdeviceptr
some_address(struct fuzz_steps *steps)
{
	unsigned kind = fuzz_byte(steps);
	const struct block *block = &blocks[kind % BLOCKS];

	if (kind >= 240)
		return fuzz_number(steps, 8);
	return block->at + (kind < 120 ? 0 : fuzz_number(steps, 3));
}

/* A stream that the program created, or one of the three of each program. */
static CUstream
some_stream(struct fuzz_steps *steps)
{
	unsigned n = fuzz_byte(steps) % (STREAMS + 3);

	return n < STREAMS ? streams[n] : (CUstream)(uintptr_t)(n - STREAMS);
}

static bool
any_capture(void)
{
	for (int i = 0; i < STREAMS; i++)
		if (capturing[i])
			return true;
	return false;
}

/* ---- Blocks ------------------------------------------------------------- */

static void
expect_apart(const struct block *new)
{
	for (int i = 0; i < BLOCKS; i++)
		fuzz_expect(blocks[i].at == 0 || &blocks[i] == new ||
			new->at + new->size <= blocks[i].at ||
			blocks[i].at + blocks[i].size <= new->at,
		    "blocks overlap");
}

static CUresult
allocate_by(struct fuzz_steps *steps, struct block *block, unsigned how)
{
	CUstream stream = some_stream(steps);
	size_t pitch = 0;
	CUresult code;

	switch (how % 7) {
	case 0:
		return cuMemAllocAsync(&block->at, block->size, stream);
	case 1:
		return cuMemAllocAsync_ptsz(&block->at, block->size, stream);
	case 2:
		return cuMemAllocFromPoolAsync(
		    &block->at, block->size, pools[how % POOLS], stream);
	case 3:
		block->size >>= 8;
		code = cuMemAllocPitch_v2(&block->at, &pitch, block->size,
		    fuzz_byte(steps), fuzz_byte(steps) & 31);
		fuzz_expect(code != CUDA_SUCCESS || pitch >= block->size,
		    "rows are shorter than their width");
		return code;
	default:
		return cuMemAlloc_v2(&block->at, block->size);
	}
}

static void
allocate(struct fuzz_steps *steps)
{
	struct block *block = &blocks[fuzz_byte(steps) % BLOCKS];
	unsigned how = fuzz_byte(steps);

	/* Memory that is allocated in a capture belongs to a graph. */
	if (block->at != 0 || any_capture())
		return;
	block->size = some_size(steps);
	if (allocate_by(steps, block, how) != CUDA_SUCCESS) {
		block->at = 0;
		return;
	}
	fuzz_expect(block->at != 0 && block->size > 0 &&
		block->at + block->size > block->at,
	    "a block of no memory");
	expect_apart(block);
	block->mark = (unsigned char)how;
	fuzz_expect(cuCtxSynchronize() == CUDA_SUCCESS, "cuCtxSynchronize");
	driver_fill(block->at, block->mark, 1);
	driver_fill(block->at + block->size - 1, block->mark, 1);
}

static void
expect_kept(const struct block *block)
{
	unsigned char ends[2] = { 0, 0 };

	if (any_capture())
		return;
	fuzz_expect(cuMemcpyDtoH_v2(&ends[0], block->at, 1) == CUDA_SUCCESS &&
		cuMemcpyDtoH_v2(&ends[1], block->at + block->size - 1, 1) ==
		    CUDA_SUCCESS,
	    "a block cannot be read");
	fuzz_expect(ends[0] == block->mark && ends[1] == block->mark,
	    "what was written is gone");
}

/* Free an address of any owner: the result must be the driver's for a program
 * that knows its blocks. */
static void
release(struct fuzz_steps *steps)
{
	CUdeviceptr at = some_address(steps);
	unsigned how = fuzz_byte(steps);
	struct block *block = NULL;

	if (any_capture())
		return;
	for (int i = 0; i < BLOCKS; i++)
		if (blocks[i].at == at && at != 0)
			block = &blocks[i];
	if (block != NULL)
		expect_kept(block);
	CUresult code = how % 3 == 0 ? cuMemFree_v2(at) :
	    how % 3 == 1             ? cuMemFreeAsync(at, some_stream(steps)) :
			   cuMemFreeAsync_ptsz(at, some_stream(steps));

	fuzz_expect(code != CUDA_SUCCESS || block != NULL || at == 0,
	    "an address is freed that is no block");
	if (code == CUDA_SUCCESS && block != NULL)
		block->at = 0;
}

static void
pinned(struct fuzz_steps *steps)
{
	void **host = &hosts[fuzz_byte(steps) % HOSTS];
	size_t size = some_size(steps) >> 4;
	unsigned flags = fuzz_byte(steps);

	if (*host != NULL) {
		fuzz_expect(cuMemFreeHost((char *)*host + 1) != CUDA_SUCCESS,
		    "an address within pinned memory is freed");
		if (cuMemFreeHost(*host) == CUDA_SUCCESS)
			*host = NULL;
		return;
	}
	if (size > 1u << 24 && size < 1ull << 40)
		size = 1u << 24;
	CUresult code = flags & 64 ? cuMemAllocHost_v2(host, size) :
				     cuMemHostAlloc(host, size, flags);

	if (code != CUDA_SUCCESS || size == 0) {
		fuzz_expect(code != CUDA_SUCCESS || *host == NULL,
		    "pinned memory of no bytes");
		*host = NULL;
		return;
	}
	fuzz_expect(*host != NULL, "pinned memory at no address");
	((char *)*host)[0] = 1;
	((char *)*host)[size - 1] = 1;
}

/* ---- Questions ---------------------------------------------------------- */

static void
question(struct fuzz_steps *steps)
{
	CUdeviceptr at = some_address(steps);
	CUdeviceptr base = 0;
	size_t size = 0;
	size_t whole = 0;
	char room[4][64];
	void *data[4] = { room[0], room[1], room[2], room[3] };
	CUpointer_attribute attributes[4];

	if (cuMemGetAddressRange_v2(&base, &size, at) == CUDA_SUCCESS)
		fuzz_expect(base <= at && at - base < size,
		    "an address is not in its range");
	for (int i = 0; i < 4; i++)
		attributes[i] =
		    (CUpointer_attribute)((int)fuzz_byte(steps) - 4);
	cuPointerGetAttribute(room[0], attributes[0], at);
	cuPointerGetAttributes(fuzz_byte(steps) % 5, attributes, data, at);
	if (cuMemGetInfo_v2(&size, &whole) == CUDA_SUCCESS)
		fuzz_expect(size <= whole, "more is free than there is");
}

static void
tickets(struct fuzz_steps *steps)
{
	CUipcMemHandle handle;
	CUdeviceptr at = some_address(steps);
	CUdeviceptr opened = 0;

	memset(&handle, 0, sizeof(handle));
	if (fuzz_byte(steps) & 1)
		cuIpcGetMemHandle(&handle, at);
	for (unsigned n = fuzz_byte(steps) % 16; n > 0; n--) {
		unsigned place = fuzz_byte(steps) % sizeof(handle);

		((unsigned char *)&handle)[place] ^=
		    (unsigned char)fuzz_byte(steps);
	}
	if (cuIpcOpenMemHandle_v2(&opened, handle, fuzz_byte(steps) & 3) ==
	    CUDA_SUCCESS)
		cuIpcCloseMemHandle(opened);
	fuzz_expect(cuIpcCloseMemHandle(at) != CUDA_SUCCESS,
	    "a block that was not opened is closed");
}

/* ---- Streams, events, captures, pools ------------------------------------ */

static void
end_capture(int n)
{
	CUgraph graph = NULL;

	if (cuStreamEndCapture(streams[n], &graph) == CUDA_SUCCESS &&
	    graph != NULL)
		driver_graph_destroy(graph);
	capturing[n] = false;
}

static void
stream(struct fuzz_steps *steps)
{
	int n = (int)(fuzz_byte(steps) % STREAMS);
	unsigned what = fuzz_byte(steps);

	if (streams[n] == NULL)
		cuStreamCreate(&streams[n], what & 3);
	else if (capturing[n])
		end_capture(n);
	else if (what % 4 == 0)
		capturing[n] = cuStreamBeginCapture_v2(streams[n],
				   (int)(what >> 2) % 5 - 1) == CUDA_SUCCESS;
	else if (what % 4 == 1 &&
	    cuStreamDestroy_v2(streams[n]) == CUDA_SUCCESS)
		streams[n] = NULL;
	else if (what % 4 == 2)
		cuStreamSynchronize(streams[n]);
}

static void
event(struct fuzz_steps *steps)
{
	CUevent *one = &events[fuzz_byte(steps) % EVENTS];
	CUstream stream = some_stream(steps);
	unsigned what = fuzz_byte(steps);

	if (*one == NULL)
		driver_event_create(one, what & 2);
	else if (what % 5 == 0)
		cuEventRecord(*one, stream);
	else if (what % 5 == 1)
		cuEventRecordWithFlags(*one, stream, what >> 4);
	else if (what % 5 == 2)
		cuStreamWaitEvent(stream, *one, what >> 6);
	else if (what % 5 == 3)
		cuEventQuery(*one);
	else if (cuEventDestroy_v2(*one) == CUDA_SUCCESS)
		*one = NULL;
}

static void
pool(struct fuzz_steps *steps)
{
	CUmemoryPool *one = &pools[fuzz_byte(steps) % POOLS];
	unsigned what = fuzz_byte(steps);
	uint64_t value = fuzz_number(steps, 8);
	CUmemPoolProps props;

	memset(&props, 0, sizeof(props));
	props.allocType = 1;
	props.location.type = 1;
	if (what & 128)
		((unsigned char *)&props)[value % sizeof(props)] ^=
		    (unsigned char)(value >> 8);
	if (*one == NULL) {
		if (cuMemPoolCreate(one, &props) != CUDA_SUCCESS)
			*one = NULL;
	} else if (what % 4 == 0) {
		cuMemPoolTrimTo(*one, (size_t)value);
	} else if (what % 4 == 1) {
		cuMemPoolSetAttribute(*one, (int)(what >> 2) - 2, &value);
	} else if (what % 4 == 2) {
		cuMemPoolGetAttribute(*one, (int)(what >> 2) - 2, &value);
	} else if (cuMemPoolDestroy(*one) == CUDA_SUCCESS) {
		*one = NULL;
	}
}

/* ---- A program ---------------------------------------------------------- */

static void
step(struct fuzz_steps *steps)
{
	static void (*const kinds[])(struct fuzz_steps *) = { allocate,
		allocate, release, release, pinned, question, tickets, stream,
		event, pool };

	kinds[fuzz_byte(steps) % (sizeof(kinds) / sizeof(*kinds))](steps);
}

/* Free the remaining blocks by the right calls. */
static void
leave(void)
{
	for (int i = 0; i < STREAMS; i++)
		if (capturing[i])
			end_capture(i);
	for (int i = 0; i < BLOCKS; i++) {
		if (blocks[i].at == 0)
			continue;
		expect_kept(&blocks[i]);
		fuzz_expect(cuMemFree_v2(blocks[i].at) == CUDA_SUCCESS,
		    "a block cannot be freed");
		blocks[i].at = 0;
	}
	for (int i = 0; i < HOSTS; i++) {
		fuzz_expect(
		    hosts[i] == NULL || cuMemFreeHost(hosts[i]) == CUDA_SUCCESS,
		    "pinned memory cannot be freed");
		hosts[i] = NULL;
	}
	for (int i = 0; i < EVENTS; i++) {
		if (events[i] != NULL)
			cuEventDestroy_v2(events[i]);
		events[i] = NULL;
	}
	for (int i = 0; i < STREAMS; i++) {
		if (streams[i] != NULL)
			cuStreamDestroy_v2(streams[i]);
		streams[i] = NULL;
	}
	for (int i = 0; i < POOLS; i++) {
		if (pools[i] != NULL)
			cuMemPoolDestroy(pools[i]);
		pools[i] = NULL;
	}
}

static void
start(void)
{
	CUcontext context = NULL;

	setenv("SIMCUDA_CONF", "memory_mb:1024", 0);
	fuzz_init();
	CUresult (*set_current)(CUcontext) =
	    (CUresult(*)(CUcontext))fuzz_driver("cuCtxSetCurrent");

	driver_event_create =
	    (CUresult(*)(CUevent *, unsigned))fuzz_driver("cuEventCreate");
	driver_graph_destroy =
	    (CUresult(*)(CUgraph))fuzz_driver("cuGraphDestroy");
	driver_fill = (CUresult(*)(
	    CUdeviceptr, unsigned char, size_t))fuzz_driver("cuMemsetD8_v2");
	fuzz_expect(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
		set_current(context) == CUDA_SUCCESS,
	    "no context");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_steps steps = { data, data + size };
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	static bool started;

	if (!started)
		start();
	started = true;
	while (fuzz_more(&steps))
		step(&steps);
	leave();
	fuzz_expect(cuCtxSynchronize() == CUDA_SUCCESS, "cuCtxSynchronize");
	fuzz_expect(weir_stats(0, &stats) == WEIR_OK &&
		stats.allocation.all.current == 0,
	    "a block is live");
	fuzz_expect_healthy();
	return 0;
}
