/*
 * Training with saved activations in page-locked memory:
 *
 *	stream 0	computes: forward, backward, optimizer
 *	stream 1	copies what is saved to the host, and back before its
 *			use
 *
 * The model has 12 layers of two matrices, 4096 to 8192 to 4096, with 16-bit
 * numbers. Each step has a batch of 1,000 to 12,000 rows. Everything that the
 * forward pass saves for the backward pass is copied to a block of page-locked
 * memory of its own, the matrices too, as hooks for saved tensors do that make
 * no difference between them. The backward pass copies it back in reverse
 * order, and frees each page-locked block as soon as its copy is queued.
 */
#include <stdlib.h>

#include "tools/weir/replay/workload.h"

enum {
	LAYERS = 12,
	NARROW = 4096,
	WIDE = 8192,
	ROWS_LEAST = 1000,
	ROWS_MOST = 12000,
	/* Bytes per microsecond to the host and back. */
	HOST_SPEED = 50000,
	/* Rows per microsecond of a product with a matrix, and of a function of
	 * each number. */
	PRODUCT_SPEED = 6,
	FUNCTION_SPEED = 60,
};

static const uint64_t matrix_bytes = UINT64_C(2) * NARROW * WIDE;

/* The tensors that the forward pass saves, in its order. */
enum saved {
	SAVED_INPUT,
	SAVED_FIRST, /* matrix */
	SAVED_SUM,
	SAVED_RESULT, /* of the function of the sum */
	SAVED_SECOND, /* matrix */
	SAVED
};

struct offloader {
	struct work_agent agent;
	struct work_host *host; /* the agent's */
	struct work_stream compute, copy;
	uint64_t rows; /* of this step's batch */
	struct work_block saved[LAYERS][SAVED];
	struct work_block gradients[LAYERS][2];
	struct work_block latest; /* a layer's output, or its gradient */
};

/* Allocate memory for a number in each column of each row, and compute it. */
static struct work_block
compute_rows(struct offloader *o, uint64_t columns, uint64_t speed)
{
	struct work_block block =
	    work_alloc(o->host, &o->compute, 2 * o->rows * columns);

	work_launch(o->host, &o->compute, o->rows / speed);
	return block;
}

/* ---- Copies ---------------------------------------------------------- */

/* Copy `size` bytes to the host, of a block or of a matrix. */
static void
save(struct offloader *o, struct work_block *out, uint64_t size)
{
	*out = work_pin(o->host, &o->copy, size);
	work_wait(o->host, &o->copy, &o->compute);
	work_launch(o->host, &o->copy, size / HOST_SPEED);
}

/* Copy a block to the host, and free it. */
static void
save_block(
    struct offloader *o, struct work_block *out, struct work_block *block)
{
	save(o, out, block->size);
	work_use(block, &o->copy);
	work_free(o->host, block);
}

/* Copy what was saved back, for work of `compute`. */
static struct work_block
load(struct offloader *o, struct work_block *saved)
{
	struct work_block block = work_alloc(o->host, &o->copy, saved->size);

	work_launch(o->host, &o->copy, saved->size / HOST_SPEED);
	work_use(saved, &o->copy);
	work_free(o->host, saved);
	work_wait(o->host, &o->compute, &o->copy);
	return block;
}

static void
drop_loaded(struct offloader *o, struct work_block *loaded)
{
	work_use(loaded, &o->compute);
	work_free(o->host, loaded);
}

/* ---- A step ---------------------------------------------------------- */

static void
go_forward(struct offloader *o, struct work_block saved[SAVED])
{
	struct work_block sum = compute_rows(o, WIDE, PRODUCT_SPEED);
	struct work_block result;

	save_block(o, &saved[SAVED_INPUT], &o->latest);
	save(o, &saved[SAVED_FIRST], matrix_bytes);
	result = compute_rows(o, WIDE, FUNCTION_SPEED);
	save_block(o, &saved[SAVED_SUM], &sum);
	o->latest = compute_rows(o, NARROW, PRODUCT_SPEED);
	save_block(o, &saved[SAVED_RESULT], &result);
	save(o, &saved[SAVED_SECOND], matrix_bytes);
}

/* Compute the gradients of a product with a matrix: the matrix's, and that of
 * the input, which becomes the latest one. */
static struct work_block
product_back(struct offloader *o, struct work_block *matrix_saved,
    struct work_block *input_saved, uint64_t columns)
{
	struct work_block matrix = load(o, matrix_saved);
	struct work_block before = compute_rows(o, columns, PRODUCT_SPEED);
	struct work_block input = load(o, input_saved);
	struct work_block gradient =
	    work_alloc(o->host, &o->compute, matrix_bytes);

	work_launch(o->host, &o->compute, o->rows / PRODUCT_SPEED);
	drop_loaded(o, &input);
	drop_loaded(o, &matrix);
	work_free(o->host, &o->latest);
	o->latest = before;
	return gradient;
}

static void
go_backward(struct offloader *o, struct work_block saved[SAVED],
    struct work_block gradients[2])
{
	struct work_block sum;
	struct work_block before;

	gradients[1] =
	    product_back(o, &saved[SAVED_SECOND], &saved[SAVED_RESULT], WIDE);
	sum = load(o, &saved[SAVED_SUM]);
	before = compute_rows(o, WIDE, FUNCTION_SPEED);
	drop_loaded(o, &sum);
	work_free(o->host, &o->latest);
	o->latest = before;
	gradients[0] =
	    product_back(o, &saved[SAVED_FIRST], &saved[SAVED_INPUT], NARROW);
}

/* Add the gradients to the matrices. */
static void
add_gradients(struct offloader *o)
{
	for (int i = 0; i < LAYERS; i++)
		for (int j = 0; j < 2; j++) {
			work_launch(o->host, &o->compute, 50);
			work_free(o->host, &o->gradients[i][j]);
		}
}

static void
offload_step(struct work_agent *agent)
{
	struct offloader *o = (struct offloader *)agent;

	o->rows = work_random(o->host, ROWS_LEAST, ROWS_MOST);
	o->latest = compute_rows(o, NARROW, FUNCTION_SPEED);
	for (int i = 0; i < LAYERS; i++)
		go_forward(o, o->saved[i]);
	for (int i = LAYERS - 1; i >= 0; i--)
		go_backward(o, o->saved[i], o->gradients[i]);
	work_free(o->host, &o->latest);
	add_gradients(o);
	/* The program reads the loss. */
	work_await(o->host, &o->compute);
}

struct work_agent *
work_offloader(struct workload *workload, unsigned first_stream)
{
	struct offloader *o = calloc(1, sizeof(*o));

	if (o == NULL)
		return NULL;
	o->agent.act = offload_step;
	o->agent.host.workload = workload;
	o->host = &o->agent.host;
	o->compute.number = first_stream;
	o->copy.number = first_stream + 1;
	for (int i = 0; i < 2 * LAYERS; i++)
		work_alloc(o->host, &o->compute, matrix_bytes);
	return &o->agent;
}
