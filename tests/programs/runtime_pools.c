/*
 * A program with memory pools, its own and the device's: their counts, and
 * threads that allocate from several of them. With "exact" the counts after
 * frees are printed too.
 */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20, THREADS = 4, ROUNDS = 100, BYTES_MAX = 1 << 17 };

static bool exact;

static void
check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(3);
}

#define CHECK(call) check((call), #call)

static cudaMemPool_t
make_pool(void)
{
	struct cudaMemPoolProps props;
	cudaMemPool_t pool;

	memset(&props, 0, sizeof(props));
	props.allocType = cudaMemAllocationTypePinned;
	props.location.type = cudaMemLocationTypeDevice;
	CHECK(cudaMemPoolCreate(&pool, &props));
	return pool;
}

static unsigned long long
counter(cudaMemPool_t pool, enum cudaMemPoolAttr which)
{
	uint64_t value = UINT64_MAX;

	CHECK(cudaMemPoolGetAttribute(pool, which, &value));
	return value;
}

static void
show_use(const char *when, cudaMemPool_t pool)
{
	unsigned long long used = counter(pool, cudaMemPoolAttrUsedMemCurrent);
	unsigned long long high = counter(pool, cudaMemPoolAttrUsedMemHigh);
	unsigned long long held =
	    counter(pool, cudaMemPoolAttrReservedMemCurrent);

	printf("%s: used %llu, at most %llu, held enough %d, at most enough "
	       "%d\n",
	    when, used, high, held >= used,
	    counter(pool, cudaMemPoolAttrReservedMemHigh) >= high);
}

/*
 * Check the count after frees. A GPU's driver counts a free some time after it
 * is done, and until then may count more bytes as used than it holds. So it is
 * only certain that at least `live` bytes are used. simcuda counts at once.
 */
static void
show_after_free(const char *when, cudaMemPool_t pool, unsigned long long live)
{
	if (exact)
		show_use(when, pool);
	printf("%s: used enough %d\n", when,
	    counter(pool, cudaMemPoolAttrUsedMemCurrent) >= live);
}

static void
keep_all(cudaMemPool_t pool)
{
	uint64_t all = UINT64_MAX;

	CHECK(cudaMemPoolSetAttribute(
	    pool, cudaMemPoolAttrReleaseThreshold, &all));
}

static size_t
wrong_bytes(const void *memory, size_t n, int value, cudaStream_t on)
{
	unsigned char *host = malloc(n);
	size_t wrong = 0;

	if (host == NULL)
		exit(3);
	CHECK(cudaMemcpyAsync(host, memory, n, cudaMemcpyDeviceToHost, on));
	CHECK(cudaStreamSynchronize(on));
	for (size_t i = 0; i < n; i++)
		wrong += host[i] != (unsigned char)value;
	free(host);
	return wrong;
}

/* A pool that the program created, from its first block until after its end. */
static size_t
try_own(cudaStream_t on)
{
	cudaMemPool_t pool = make_pool();
	uint64_t zero = 0;
	size_t wrong = 0;
	void *a;
	void *b;

	keep_all(pool);
	show_use("new", pool);
	CHECK(cudaMallocFromPoolAsync(&a, 8 * MIB, pool, on));
	show_use("one block", pool);
	CHECK(cudaMallocFromPoolAsync(&b, 4 * MIB, pool, on));
	CHECK(cudaMemsetAsync(a, 1, 8 * MIB, on));
	CHECK(cudaMemsetAsync(b, 2, 4 * MIB, on));
	show_use("two blocks", pool);
	wrong += wrong_bytes(a, 8 * MIB, 1, on);
	CHECK(cudaFreeAsync(a, on));
	CHECK(cudaStreamSynchronize(on));
	show_after_free("one freed", pool, 4 * MIB);
	CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
	CHECK(cudaMemPoolSetAttribute(
	    pool, cudaMemPoolAttrReservedMemHigh, &zero));
	show_after_free("high marks reset", pool, 4 * MIB);
	zero = 7;
	printf("set to 7: %s\n",
	    cudaGetErrorName(cudaMemPoolSetAttribute(
		pool, cudaMemPoolAttrUsedMemHigh, &zero)));
	wrong += wrong_bytes(b, 4 * MIB, 2, on);
	CHECK(cudaFree(b));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemPoolTrimTo(pool, 0));
	show_after_free("trimmed", pool, 0);
	if (exact)
		printf("held by then: %llu\n",
		    counter(pool, cudaMemPoolAttrReservedMemCurrent));
	CHECK(cudaMallocFromPoolAsync(&a, 3 * MIB, pool, on));
	CHECK(cudaMemPoolDestroy(pool));
	CHECK(cudaMemsetAsync(a, 3, 3 * MIB, on));
	wrong += wrong_bytes(a, 3 * MIB, 3, on);
	CHECK(cudaFreeAsync(a, on));
	CHECK(cudaStreamSynchronize(on));
	return wrong;
}

/* The pool that serves plain stream-ordered allocations. */
static size_t
try_current(cudaStream_t on)
{
	cudaMemPool_t own = make_pool();
	cudaMemPool_t standard;
	cudaMemPool_t now;
	size_t wrong = 0;
	void *a;
	void *b;

	CHECK(cudaDeviceGetDefaultMemPool(&standard, 0));
	CHECK(cudaDeviceGetMemPool(&now, 0));
	printf("the default pool is current: %d\n", now == standard);
	keep_all(own);
	keep_all(standard);
	CHECK(cudaDeviceSetMemPool(0, own));
	CHECK(cudaDeviceGetMemPool(&now, 0));
	printf("another is: %d\n", now == own);
	CHECK(cudaMallocAsync(&a, 2 * MIB, on));
	CHECK(cudaMallocFromPoolAsync(&b, MIB, standard, on));
	show_use("own", own);
	show_use("default", standard);
	CHECK(cudaMemsetAsync(a, 4, 2 * MIB, on));
	CHECK(cudaMemsetAsync(b, 5, MIB, on));
	wrong += wrong_bytes(a, 2 * MIB, 4, on);
	CHECK(cudaMemPoolDestroy(own));
	CHECK(cudaDeviceGetMemPool(&now, 0));
	printf("and the default again: %d\n", now == standard);
	CHECK(cudaFreeAsync(a, on));
	CHECK(cudaMallocAsync(&a, 5 * MIB, on));
	show_use("default", standard);
	wrong += wrong_bytes(b, MIB, 5, on);
	CHECK(cudaFreeAsync(a, on));
	CHECK(cudaFreeAsync(b, on));
	CHECK(cudaStreamSynchronize(on));
	show_after_free("default", standard, 0);
	return wrong;
}

/* A pool that keeps 4 MiB, and one whose reuse is restricted. */
static size_t
try_settings(cudaStream_t on)
{
	cudaMemPool_t pool = make_pool();
	uint64_t keep = 4 * MIB;
	size_t wrong = 0;
	int off = 0;
	int flag = -1;
	void *a;

	CHECK(cudaMemPoolSetAttribute(
	    pool, cudaMemPoolAttrReleaseThreshold, &keep));
	printf(
	    "threshold %llu\n", counter(pool, cudaMemPoolAttrReleaseThreshold));
	CHECK(cudaMallocFromPoolAsync(&a, 64 * MIB, pool, on));
	CHECK(cudaFreeAsync(a, on));
	CHECK(cudaDeviceSynchronize());
	if (exact)
		printf("held beyond it: %d\n",
		    counter(pool, cudaMemPoolAttrReservedMemCurrent) > keep);
	CHECK(cudaMemPoolGetAttribute(
	    pool, cudaMemPoolReuseAllowOpportunistic, &flag));
	printf("reuse: %d", flag);
	CHECK(cudaMemPoolSetAttribute(
	    pool, cudaMemPoolReuseAllowOpportunistic, &off));
	CHECK(cudaMemPoolSetAttribute(
	    pool, cudaMemPoolReuseAllowInternalDependencies, &off));
	CHECK(cudaMemPoolGetAttribute(
	    pool, cudaMemPoolReuseAllowOpportunistic, &flag));
	printf(", off: %d\n", flag);
	for (int i = 0; i < 20; i++) {
		CHECK(cudaMallocFromPoolAsync(&a, MIB, pool, on));
		CHECK(cudaMemsetAsync(a, i, MIB, on));
		wrong += wrong_bytes(a, MIB, i, on);
		CHECK(cudaFreeAsync(a, on));
	}
	CHECK(cudaMemPoolDestroy(pool));
	return wrong;
}

static void
try_errors(cudaStream_t on)
{
	cudaMemPool_t pool = make_pool();
	void *ptr = &ptr;

	printf("0 bytes: %s",
	    cudaGetErrorName(cudaMallocFromPoolAsync(&ptr, 0, pool, on)));
	printf(", %d\n", ptr == NULL);
	printf("no pool: %s\n",
	    cudaGetErrorName(cudaMallocFromPoolAsync(&ptr, 100, NULL, on)));
	printf("too much: %s\n",
	    cudaGetErrorName(
		cudaMallocFromPoolAsync(&ptr, (size_t)1 << 50, pool, on)));
	CHECK(cudaMallocFromPoolAsync(&ptr, 100, pool, on));
	CHECK(cudaFreeAsync(ptr, on));
	printf("freed again: %s\n", cudaGetErrorName(cudaFreeAsync(ptr, on)));
	cudaGetLastError();
	CHECK(cudaStreamSynchronize(on));
	CHECK(cudaMemPoolDestroy(pool));
}

static cudaMemPool_t shared;

/* Blocks of the thread's own pool, of the shared one and of the device's. */
static void *
work(void *argument)
{
	static const size_t sizes[] = { 100, 4096, 50000, BYTES_MAX };
	cudaMemPool_t own = make_pool();
	size_t *wrong = argument;
	cudaStream_t on;

	CHECK(cudaStreamCreateWithFlags(&on, cudaStreamNonBlocking));
	for (int i = 0; i < ROUNDS; i++) {
		size_t size = sizes[i % 4];
		void *a;
		void *b;
		void *c;

		CHECK(cudaMallocFromPoolAsync(&a, size, own, on));
		CHECK(cudaMallocFromPoolAsync(&b, size, shared, on));
		CHECK(cudaMallocAsync(&c, size, on));
		CHECK(cudaMemsetAsync(a, i, size, on));
		CHECK(
		    cudaMemcpyAsync(b, a, size, cudaMemcpyDeviceToDevice, on));
		CHECK(cudaFreeAsync(a, on));
		CHECK(
		    cudaMemcpyAsync(c, b, size, cudaMemcpyDeviceToDevice, on));
		CHECK(cudaFreeAsync(b, on));
		*wrong += wrong_bytes(c, size, i, on);
		CHECK(cudaFreeAsync(c, on));
	}
	CHECK(cudaMemPoolDestroy(own));
	CHECK(cudaStreamDestroy(on));
	return NULL;
}

int
main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	size_t wrong[THREADS] = { 0 };
	cudaStream_t on;
	size_t sum;

	exact = argc > 1 && strcmp(argv[1], "exact") == 0;
	CHECK(cudaStreamCreate(&on));
	sum = try_own(on) + try_current(on) + try_settings(on);
	try_errors(on);
	shared = make_pool();
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, &wrong[i]) != 0)
			return 3;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		sum += wrong[i];
	}
	CHECK(cudaDeviceSynchronize());
	if (exact)
		printf("used by threads in the end: %llu\n",
		    counter(shared, cudaMemPoolAttrUsedMemCurrent));
	CHECK(cudaMemPoolDestroy(shared));
	CHECK(cudaStreamDestroy(on));
	printf("wrong bytes: %zu\n", sum);
	return sum != 0;
}
