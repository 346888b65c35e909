/*
 * Contract tests, the same on simcuda and on a GPU's driver: every copy between
 * memory of every kind, in one, two and three dimensions, and fills.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/cuda.h"

enum { PITCH = 512, ROWS = 8, SLICES = 4, BYTES = PITCH * ROWS * SLICES };
enum { GRANULE = 2 << 20, WIDTH = 100 };

/* Kinds of memory. The last one needs a second device. */
enum kind {
	PAGEABLE,
	PINNED,
	REGISTERED,
	MANAGED,
	DEVICE,
	POOLED,
	MAPPED,
	FAR,
	KINDS
};

static const char *const names[KINDS] = { "pageable", "page-locked",
	"registered", "managed", "device", "pooled", "mapped",
	"other device's" };

static CUcontext here, there;
static CUstream stream;
static CUdeviceptr sources[KINDS], targets[KINDS];
static int n_kinds;
static unsigned char bytes[BYTES], expected[BYTES], got[BYTES];

static CUdeviceptr
bits(const void *address)
{
	return (CUdeviceptr)(uintptr_t)address;
}

static void *
pointer(CUdeviceptr address)
{
	return (void *)(uintptr_t)address;
}

static CUdeviceptr
memory_of(enum kind kind)
{
	CUdeviceptr address = 0;
	void *host = NULL;

	switch (kind) {
	case PAGEABLE:
	case REGISTERED:
		EXPECT_EQ(posix_memalign(&host, 4096, BYTES), 0);
		if (kind == REGISTERED)
			CU(cu.cuMemHostRegister_v2(host, BYTES, 0));
		return bits(host);
	case PINNED:
		CU(cu.cuMemAllocHost_v2(&host, BYTES));
		return bits(host);
	case MANAGED:
		CU(cu.cuMemAllocManaged(&address, BYTES, CU_MEM_ATTACH_GLOBAL));
		return address;
	case POOLED:
		CU(cu.cuMemAllocAsync(&address, BYTES, stream));
		return address;
	case MAPPED:
		return cuda_map(cuda_create(GRANULE), GRANULE);
	case FAR:
		CU(cu.cuCtxPushCurrent_v2(there));
		address = cuda_alloc(BYTES);
		CU(cu.cuCtxPopCurrent_v2(NULL));
		return address;
	default:
		return cuda_alloc(BYTES);
	}
}

static void
begin(void)
{
	int n = 0;

	here = cuda_begin_conf("devices:2");
	stream = cuda_stream();
	CU(cu.cuDeviceGetCount(&n));
	n_kinds = n > 1 ? KINDS : FAR;
	if (n > 1)
		CU(cu.cuDevicePrimaryCtxRetain(&there, 1));
	for (int i = 0; i < n_kinds; i++) {
		sources[i] = memory_of((enum kind)i);
		targets[i] = memory_of((enum kind)i);
	}
	CU(cu.cuCtxSynchronize());
}

/* Fill the source with a pattern that differs for each pair, and clear the
 * target. */
static void
prepare(int to, int from)
{
	for (int i = 0; i < BYTES; i++)
		bytes[i] = (unsigned char)(i * 7 + i / 256 + to * 11 + from);
	CU(cu.cuMemcpy(sources[from], bits(bytes), BYTES));
	memset(got, 0, BYTES);
	CU(cu.cuMemcpy(targets[to], bits(got), BYTES));
	memset(expected, 0, BYTES);
}

static void
verify(int to, int from)
{
	CU(cu.cuCtxSynchronize());
	CU(cu.cuMemcpy(bits(got), targets[to], BYTES));
	if (memcmp(got, expected, BYTES) != 0)
		FAIL("from %s to %s memory: wrong bytes", names[from],
		    names[to]);
}

static void
for_all_pairs(void (*copy)(int to, int from))
{
	begin();
	for (int to = 0; to < n_kinds; to++) {
		for (int from = 0; from < n_kinds; from++) {
			prepare(to, from);
			copy(to, from);
			verify(to, from);
		}
	}
}

/* ---- One dimension ------------------------------------------------------ */

static void
copy_and_wait(int to, int from)
{
	CU(cu.cuMemcpy(targets[to], sources[from], WIDTH));
	memcpy(expected, bytes, WIDTH);
}

TEST(cuMemcpy_copies_between_memory_of_all_kinds)
{
	for_all_pairs(copy_and_wait);
}

static void
copy_on_stream(int to, int from)
{
	CU(cu.cuMemcpyAsync(targets[to] + 1, sources[from] + 2, WIDTH, stream));
	memcpy(expected + 1, bytes + 2, WIDTH);
	CU(cu.cuStreamSynchronize(stream));
}

TEST(cuMemcpyAsync_copies_between_memory_of_all_kinds)
{
	for_all_pairs(copy_on_stream);
}

/* The call that names the sides of the pair; managed memory is the device's. */
static void
copy_by_sides(int to, int from)
{
	bool to_host = to <= REGISTERED, from_host = from <= REGISTERED;

	memcpy(expected, bytes, WIDTH);
	if (to_host && from_host)
		CU(cu.cuMemcpy(targets[to], sources[from], WIDTH));
	else if (to_host)
		CU(cu.cuMemcpyDtoH_v2(
		    pointer(targets[to]), sources[from], WIDTH));
	else if (from_host)
		CU(cu.cuMemcpyHtoD_v2(
		    targets[to], pointer(sources[from]), WIDTH));
	else
		CU(cu.cuMemcpyDtoD_v2(targets[to], sources[from], WIDTH));
}

TEST(copies_by_direction_reach_memory_of_all_kinds)
{
	for_all_pairs(copy_by_sides);
}

static void
copy_by_sides_on_stream(int to, int from)
{
	bool to_host = to <= REGISTERED, from_host = from <= REGISTERED;

	memcpy(expected, bytes, WIDTH);
	if (to_host && from_host)
		CU(cu.cuMemcpyAsync(targets[to], sources[from], WIDTH, stream));
	else if (to_host)
		CU(cu.cuMemcpyDtoHAsync_v2(
		    pointer(targets[to]), sources[from], WIDTH, stream));
	else if (from_host)
		CU(cu.cuMemcpyHtoDAsync_v2(
		    targets[to], pointer(sources[from]), WIDTH, stream));
	else
		CU(cu.cuMemcpyDtoDAsync_v2(
		    targets[to], sources[from], WIDTH, stream));
	CU(cu.cuStreamSynchronize(stream));
}

TEST(copies_by_direction_on_a_stream_reach_memory_of_all_kinds)
{
	for_all_pairs(copy_by_sides_on_stream);
}

/* ---- Two and three dimensions ------------------------------------------- */

/* Whether the copy says "host", "device", or leaves it to the driver. */
static bool unified;

static CUmemorytype
type_of(int kind)
{
	if (unified)
		return CU_MEMORYTYPE_UNIFIED;
	return kind <= REGISTERED ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

static CUDA_MEMCPY2D
rectangle(int to, int from)
{
	return (CUDA_MEMCPY2D){ .srcXInBytes = 3,
		.srcY = 1,
		.srcMemoryType = type_of(from),
		.srcHost = pointer(sources[from]),
		.srcDevice = sources[from],
		.srcPitch = PITCH,
		.dstXInBytes = 5,
		.dstY = 2,
		.dstMemoryType = type_of(to),
		.dstHost = pointer(targets[to]),
		.dstDevice = targets[to],
		.dstPitch = PITCH / 2,
		.WidthInBytes = WIDTH,
		.Height = ROWS - 2 };
}

static void
expect_rectangle(void)
{
	for (int y = 0; y < ROWS - 2; y++)
		memcpy(expected + (y + 2) * (PITCH / 2) + 5,
		    bytes + (y + 1) * PITCH + 3, WIDTH);
}

static void
copy_2d(int to, int from)
{
	CUDA_MEMCPY2D params = rectangle(to, from);

	CU(cu.cuMemcpy2DUnaligned_v2(&params));
	expect_rectangle();
}

static void
copy_2d_on_stream(int to, int from)
{
	CUDA_MEMCPY2D params = rectangle(to, from);

	CU(cu.cuMemcpy2DAsync_v2(&params, stream));
	CU(cu.cuStreamSynchronize(stream));
	expect_rectangle();
}

TEST(rectangles_are_copied_between_memory_of_all_kinds)
{
	for_all_pairs(copy_2d);
}

TEST(rectangles_are_copied_on_a_stream)
{
	for_all_pairs(copy_2d_on_stream);
}

TEST(rectangles_of_unified_addresses_are_copied)
{
	unified = true;
	for_all_pairs(copy_2d_on_stream);
}

static CUDA_MEMCPY3D
box(int to, int from)
{
	return (CUDA_MEMCPY3D){ .srcXInBytes = 3,
		.srcY = 1,
		.srcZ = 1,
		.srcMemoryType = type_of(from),
		.srcHost = pointer(sources[from]),
		.srcDevice = sources[from],
		.srcPitch = PITCH,
		.srcHeight = ROWS,
		.dstXInBytes = 5,
		.dstMemoryType = type_of(to),
		.dstHost = pointer(targets[to]),
		.dstDevice = targets[to],
		.dstPitch = PITCH / 2,
		.dstHeight = ROWS + 1,
		.WidthInBytes = WIDTH,
		.Height = ROWS - 2,
		.Depth = SLICES - 1 };
}

static void
expect_box(void)
{
	for (int z = 0; z < SLICES - 1; z++) {
		for (int y = 0; y < ROWS - 2; y++)
			memcpy(
			    expected + (z * (ROWS + 1) + y) * (PITCH / 2) + 5,
			    bytes + ((z + 1) * ROWS + y + 1) * PITCH + 3,
			    WIDTH);
	}
}

static void
copy_3d(int to, int from)
{
	CUDA_MEMCPY3D params = box(to, from);

	CU(cu.cuMemcpy3D_v2(&params));
	expect_box();
}

static void
copy_3d_on_stream(int to, int from)
{
	CUDA_MEMCPY3D params = box(to, from);

	CU(cu.cuMemcpy3DAsync_v2(&params, stream));
	CU(cu.cuStreamSynchronize(stream));
	expect_box();
}

TEST(boxes_are_copied_between_memory_of_all_kinds)
{
	for_all_pairs(copy_3d);
}

TEST(boxes_of_unified_addresses_are_copied_on_a_stream)
{
	unified = true;
	for_all_pairs(copy_3d_on_stream);
}

TEST(a_captured_rectangle_is_copied_at_each_launch)
{
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;

	begin();
	prepare(DEVICE, MAPPED);
	CUDA_MEMCPY2D params = rectangle(DEVICE, MAPPED);

	CU(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CU(cu.cuMemcpy2DAsync_v2(&params, stream));
	CU(cu.cuStreamEndCapture(stream, &graph));
	CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	verify(DEVICE, MAPPED);
	CU(cu.cuGraphLaunch(exec, stream));
	expect_rectangle();
	verify(DEVICE, MAPPED);
}

TEST(impossible_rectangles_are_refused)
{
	begin();
	CUDA_MEMCPY2D params = rectangle(DEVICE, DEVICE);

	params.srcPitch = WIDTH;
	EXPECT_CU(cu.cuMemcpy2DUnaligned_v2(&params), CUDA_ERROR_INVALID_VALUE);
	params = rectangle(DEVICE, DEVICE);
	params.dstPitch = WIDTH + 4;
	EXPECT_CU(cu.cuMemcpy2DUnaligned_v2(&params), CUDA_ERROR_INVALID_VALUE);
	params = rectangle(DEVICE, DEVICE);
	params.dstMemoryType = (CUmemorytype)9;
	EXPECT_CU(cu.cuMemcpy2DUnaligned_v2(&params), CUDA_ERROR_INVALID_VALUE);
	params = rectangle(DEVICE, DEVICE);
	params.Height = 0;
	CU(cu.cuMemcpy2DUnaligned_v2(&params));
}

/* ---- Peers -------------------------------------------------------------- */

TEST(copies_between_peers_need_no_access_to_each_other)
{
	begin();
	if (n_kinds < KINDS)
		SKIP("there is one device");
	prepare(DEVICE, FAR);
	CU(cu.cuMemcpyPeer(targets[DEVICE], here, sources[FAR], there, WIDTH));
	memcpy(expected, bytes, WIDTH);
	verify(DEVICE, FAR);
	prepare(FAR, DEVICE);
	CUDA_MEMCPY3D plain = box(FAR, DEVICE);
	CUDA_MEMCPY3D_PEER params;

	memcpy(&params, &plain, sizeof(params));
	params.dstContext = there;
	params.srcContext = here;
	CU(cu.cuMemcpy3DPeerAsync(&params, stream));
	CU(cu.cuStreamSynchronize(stream));
	expect_box();
	verify(FAR, DEVICE);
}

/* ---- Fills -------------------------------------------------------------- */

TEST(rectangles_are_filled_by_elements_of_all_sizes)
{
	begin();
	prepare(DEVICE, DEVICE);
	CU(cu.cuMemsetD2D8_v2(targets[DEVICE], PITCH, 0x11, WIDTH, ROWS));
	CU(cu.cuMemsetD2D16_v2(
	    targets[DEVICE] + 128, PITCH, 0x2233, WIDTH / 2, ROWS));
	CU(cu.cuMemsetD2D32_v2(
	    targets[DEVICE] + 256, PITCH, 0x44556677, WIDTH / 4, ROWS));
	for (int y = 0; y < ROWS; y++) {
		unsigned char *row = expected + y * PITCH;

		for (int x = 0; x < WIDTH; x++) {
			row[x] = 0x11;
			row[x + 128] = x % 2 == 0 ? 0x33 : 0x22;
			row[x + 256] = (unsigned char)(0x77 - x % 4 * 0x11);
		}
	}
	verify(DEVICE, DEVICE);
	EXPECT_CU(cu.cuMemsetD2D32_v2(targets[DEVICE], 30, 1, 16, 2),
	    CUDA_ERROR_INVALID_VALUE);
}

TEST(memory_of_another_device_is_not_filled_without_access)
{
	begin();
	if (n_kinds < KINDS)
		SKIP("there is one device");
	prepare(FAR, DEVICE);
	EXPECT_CU(
	    cu.cuMemsetD8_v2(targets[FAR], 9, WIDTH), CUDA_ERROR_INVALID_VALUE);
}
