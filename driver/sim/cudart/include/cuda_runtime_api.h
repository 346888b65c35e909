/* The C part of the runtime: all of it, here. */
#include <cuda_runtime.h>
