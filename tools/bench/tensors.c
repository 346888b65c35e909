/*
 * Copies of tensors within the device: unchanged, converted, transposed, and
 * from rows with gaps. The driver's copy of the same number of bytes shows the
 * speed of the memory.
 */
#include <weir/stream.h>
#include <weir/tensor.h>

#include "tools/bench/bench.h"
#include "tools/bench/gpu.h"

enum { SIZE = 256 << 20, SIZE_SMALL = 64 << 10, GAP = 64 };

enum shape_kind { STRAIGHT, TRANSPOSED, GAPS };

/* A case copies `count` elements from one type to another. */
struct copy_case {
	const char *name;
	enum weir_dtype from, to;
	enum shape_kind kind;
};

/* The tensors of the running case. */
static struct {
	struct weir_tensor *from, *view, *to;
	void *straight_from, *straight_to;
} at;

/* Both peers allocate from weir. */
static void *
straight_malloc(size_t size, weir_stream stream)
{
	return weir_malloc(size, stream);
}

static void
straight_free(void *block, weir_stream stream)
{
	(void)stream;
	weir_free(block);
}

const struct peer peer_tensors = {
	.name = "weir-tensors",
	.what = "weir_tensor_copy()",
	.kind = PEER_TENSORS,
	.malloc = straight_malloc,
	.free = straight_free,
};

const struct peer peer_straight = {
	.name = "straight",
	.what = "cuMemcpyDtoDAsync of the same number of bytes",
	.kind = PEER_TENSORS,
	.malloc = straight_malloc,
	.free = straight_free,
};

static bool
copy_once(const struct sample *sample)
{
	weir_stream stream = gpu.streams[0];

	if (sample->peer == &peer_tensors)
		return weir_tensor_copy(at.to, at.view, stream, 0) == WEIR_OK;
	return gpu_ok(
	    gpu.cuMemcpyDtoDAsync((CUdeviceptr)(uintptr_t)at.straight_to,
		(CUdeviceptr)(uintptr_t)at.straight_from,
		sample->about->ops / 2, stream));
}

static double
run_copies(const struct sample *sample)
{
	uint64_t start;

	if (!gpu_wait())
		return -1;
	start = gpu_now_ns();
	for (uint64_t i = 0; i < sample->n; i++) {
		if (!copy_once(sample))
			return -1;
	}
	if (!gpu_wait())
		return -1;
	return (double)(gpu_now_ns() - start) / 1e9;
}

/* ---- Cases -------------------------------------------------------------- */

static bool
make_copy_tensors(const struct copy_case *about, int64_t rows, int64_t columns)
{
	weir_stream stream = gpu.streams[0];
	int64_t wide[2] = { rows, columns + (about->kind == GAPS ? GAP : 0) };
	int64_t shape[2] = { rows, columns };
	struct weir_place place = { .struct_size = sizeof(place),
		.memory = WEIR_MEMORY_DEVICE,
		.stream = stream };
	enum weir_status status =
	    weir_tensor_empty(about->from, 2, wide, &place, &at.from);

	if (status == WEIR_OK)
		status = weir_tensor_fill(
		    at.from, WEIR_FLOAT32, &(float){ 1.5F }, stream);
	if (status == WEIR_OK && about->kind == TRANSPOSED) {
		shape[0] = columns;
		shape[1] = rows;
		status = weir_tensor_transpose(at.from, 0, 1, &at.view);
	} else if (status == WEIR_OK) {
		status = weir_tensor_narrow(at.from, 1, 0, columns, &at.view);
	}
	if (status == WEIR_OK)
		status = weir_tensor_empty(about->to, 2, shape, &place, &at.to);
	return status == WEIR_OK;
}

static void
drop_tensors(void)
{
	gpu_wait();
	weir_tensor_destroy(at.from);
	weir_tensor_destroy(at.view);
	weir_tensor_destroy(at.to);
	weir_free(at.straight_from);
	weir_free(at.straight_to);
	at.from = at.view = at.to = NULL;
	at.straight_from = at.straight_to = NULL;
}

/* Measure a copy. Rows have a power of two of elements. The size of the larger
 * type sets the number of rows. */
static bool
measure_copy(struct session *session, const struct copy_case *about)
{
	bool small = session->quick || session->simulated;
	size_t size = small ? SIZE_SMALL : SIZE;
	size_t from = weir_dtype_size(about->from);
	size_t to = weir_dtype_size(about->to);
	int64_t elements = (int64_t)(size / (from > to ? from : to));
	int64_t columns = small ? 128 : 8192;
	struct bench_case measured = { .name = about->name,
		.run = run_copies,
		.kinds = PEER_TENSORS,
		.unit = UNIT_GIB,
		/* A simulated copy takes time of the host, and no virtual
		 * time. */
		.rounds = small ? 4 : 0,
		.ops = (uint64_t)elements * (from + to) };
	bool done = make_copy_tensors(about, elements / columns, columns);

	if (done) {
		at.straight_from =
		    weir_malloc(measured.ops / 2, gpu.streams[0]);
		at.straight_to = weir_malloc(measured.ops / 2, gpu.streams[0]);
		done = at.straight_from != NULL && at.straight_to != NULL;
	}
	if (!done)
		session->why = weir_last_error();
	else
		done = measure(session, &measured);
	drop_tensors();
	return done;
}

bool
bench_tensors(struct session *session)
{
	static const struct copy_case cases[] = {
		{ "float32", WEIR_FLOAT32, WEIR_FLOAT32, STRAIGHT },
		{ "float32 to float16", WEIR_FLOAT32, WEIR_FLOAT16, STRAIGHT },
		{ "bfloat16 to float32", WEIR_BFLOAT16, WEIR_FLOAT32,
		    STRAIGHT },
		{ "int64 to float32", WEIR_INT64, WEIR_FLOAT32, STRAIGHT },
		{ "float32 to float8_e4m3fn", WEIR_FLOAT32, WEIR_FLOAT8_E4M3FN,
		    STRAIGHT },
		{ "transpose, 1 byte", WEIR_UINT8, WEIR_UINT8, TRANSPOSED },
		{ "transpose, 2 bytes", WEIR_FLOAT16, WEIR_FLOAT16,
		    TRANSPOSED },
		{ "transpose, 4 bytes", WEIR_FLOAT32, WEIR_FLOAT32,
		    TRANSPOSED },
		{ "transpose, 8 bytes", WEIR_FLOAT64, WEIR_FLOAT64,
		    TRANSPOSED },
		{ "transpose to float16", WEIR_FLOAT32, WEIR_FLOAT16,
		    TRANSPOSED },
		{ "rows with gaps", WEIR_FLOAT32, WEIR_FLOAT32, GAPS },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (!measure_copy(session, &cases[i]))
			return false;
	}
	return true;
}
