/*
 * The kernels of the examples: launched in the same way on a GPU (kernels.cu)
 * and on the simulated device (kernels_sim.c).
 */
#ifndef EXAMPLES_KERNELS_H
#define EXAMPLES_KERNELS_H

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out[i] = value */
cudaError_t launch_fill(
    uint32_t *out, uint32_t value, size_t n, cudaStream_t stream);

/* out[i] = a[i] + b[i] */
cudaError_t launch_add(uint32_t *out, const uint32_t *a, const uint32_t *b,
    size_t n, cudaStream_t stream);

/* out[i] = in[i] */
cudaError_t launch_copy(
    uint32_t *out, const uint32_t *in, size_t n, cudaStream_t stream);

/* Keep the stream busy. */
cudaError_t launch_sleep(uint64_t ns, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
