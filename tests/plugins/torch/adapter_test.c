/*
 * The adapter to PyTorch, over a double of PyTorch's interface and the
 * simulated device.
 */
#include "tests/plugins/torch/adapter_cases.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/device.h"

/* Memory is shared by descriptors of processes, which Linux before 5.3 and
 * valgrind 3.19 do not know. */
static void
need_for(const char *sentence)
{
	int fd = -1;

	device_need(2);
	if (strncmp(sentence, "shared_memory_", 14) != 0)
		return;
#ifdef SYS_pidfd_open
	fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
#endif
	if (fd < 0)
		SKIP("the system has no descriptors of processes");
	close(fd);
}

#define ADAPTER_TEST(sentence)                                                 \
	TEST(in_pytorch_##sentence)                                            \
	{                                                                      \
		need_for(#sentence);                                           \
		const char *fault = sentence();                                \
		if (fault != NULL)                                             \
			FAIL("%s", fault);                                     \
		expect_healthy();                                              \
	}
ADAPTER_CASES(ADAPTER_TEST)
