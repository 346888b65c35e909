/*
 * Errors. The runtime's codes equal the driver's, except for a few that only
 * the runtime has. Each thread stores its last failure until it is read.
 */
#include "simcuda/cudart/cudart.h"

static _Thread_local cudaError_t last_error;

cudaError_t
runtime_error(cudaError_t error)
{
	if (error != cudaSuccess)
		last_error = error;
	return error;
}

/* A code that has no name in the runtime becomes cudaErrorUnknown. */
cudaError_t
runtime_check(CUresult code)
{
	switch ((int)code) {
#define ERROR_CASE(name, value, text) case value:
		CUDA_RUNTIME_ERRORS(ERROR_CASE)
#undef ERROR_CASE
		return runtime_error((cudaError_t)code);
	default:
		return runtime_error(cudaErrorUnknown);
	}
}

cudaError_t
cudaGetLastError(void)
{
	cudaError_t error = last_error;

	last_error = cudaSuccess;
	return error;
}

cudaError_t
cudaPeekAtLastError(void)
{
	return last_error;
}

const char *
cudaGetErrorName(cudaError_t error)
{
	switch (error) {
#define ERROR_CASE(name, value, text)                                          \
	case name:                                                             \
		return #name;
		CUDA_RUNTIME_ERRORS(ERROR_CASE)
#undef ERROR_CASE
	}
	return "unrecognized error code";
}

const char *
cudaGetErrorString(cudaError_t error)
{
	switch (error) {
#define ERROR_CASE(name, value, text)                                          \
	case name:                                                             \
		return text;
		CUDA_RUNTIME_ERRORS(ERROR_CASE)
#undef ERROR_CASE
	}
	return "unrecognized error code";
}
