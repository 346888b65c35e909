/*
 * The library whose debug information stack_fuzz.c changes. One function is
 * inlined into another, so that an address has two places.
 */
int fixture_outer(int n);

static inline __attribute__((always_inline)) int
fixture_inner(int n)
{
	return n * n + 1;
}

__attribute__((visibility("default"))) int
fixture_outer(int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++)
		sum += fixture_inner(i);
	return sum;
}
