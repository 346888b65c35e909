/* A program that is linked with the driver's library and does not use it. The
 * simulated driver counts its calls. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int cuInit(unsigned flags);

int
main(int argc, char **argv)
{
	uint64_t (*calls)(const char *) = NULL;
	void *symbol = dlsym(RTLD_DEFAULT, "simcuda_calls");

	(void)argv;
	memcpy(&calls, &symbol, sizeof(symbol));
	if (argc > 1)
		cuInit(0);
	printf("calls: %llu\n",
	    calls == NULL ? 0ull : (unsigned long long)calls(NULL));
	return 0;
}
