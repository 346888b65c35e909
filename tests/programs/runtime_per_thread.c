/* runtime_api.c, where stream 0 is the calling thread's own. */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1
#include "runtime_api.c"
