/* A program that loads the driver's library and looks names up in it. */
#include "common/cuda.h"

int
main(void)
{
	struct cuda cuda;

	cuda_by_dlsym(&cuda);
	cuda_start(&cuda);
	return exercise(&cuda);
}
