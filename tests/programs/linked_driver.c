/* A program that is linked with the driver's library. */
#include "common/cuda.h"

#define DECLARE(field, name, base, version, params) result name params;
CUDA_FUNCTIONS(DECLARE)
#undef DECLARE

int
main(void)
{
	static const struct cuda cuda = {
#define BY_LINK(field, name, base, version, params) .field = name,
		CUDA_FUNCTIONS(BY_LINK)
#undef BY_LINK
	};

	cuda_start(&cuda);
	return exercise(&cuda);
}
