/* A program that loads the driver's library and looks up names in it. */
#include "common/cuda.h"

int
main(void)
{
	struct cuda cuda;

	cuda_by_dlsym(&cuda);
	cuda_start(&cuda);
	return exercise(&cuda);
}
