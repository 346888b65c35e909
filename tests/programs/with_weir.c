/* A program that is linked with libweir: three blocks, of which two are freed,
 * and 8 MiB at the most. */
#include <stdio.h>
#include <weir/weir.h>

int
main(void)
{
	const size_t mib = (size_t)1 << 20;
	void *first = weir_malloc(3 * mib, NULL);
	void *second = weir_malloc(5 * mib, NULL);

	weir_free(first);
	void *third = weir_malloc(3 * mib, NULL);

	weir_free(second);
	if (first == NULL || second == NULL || third == NULL) {
		fprintf(stderr, "%s\n", weir_last_error());
		return 1;
	}
	return 0;
}
