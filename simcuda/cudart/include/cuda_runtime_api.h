/* The C part of the runtime; cuda_runtime.h has all of it. */
#include <cuda_runtime.h>
