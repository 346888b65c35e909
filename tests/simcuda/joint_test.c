/*
 * Devices whose memory several processes share.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/cuda.h"

enum { MIB = 1 << 20 };

static char path[64];
static char conf[160];

static void
name_device(void)
{
	int fd;

	if (sim() == NULL)
		SKIP("this is of the simulated driver only");
	strcpy(path, "/tmp/weir-joint-XXXXXX");
	fd = mkstemp(path);
	EXPECT_GE(fd, 0);
	close(fd);
	snprintf(conf, sizeof(conf), "memory_mb:64,devices:2,shared_device:%s",
	    path);
}

/* Start the driver in this process, with a context of a device. */
static void
begin_on(int device)
{
	CUcontext context;

	cuda_load_conf(conf);
	CU(cu.cuInit(0));
	CU(cu.cuDevicePrimaryCtxRetain(&context, device));
	CU(cu.cuCtxSetCurrent(context));
}

static size_t
free_mib(void)
{
	size_t bytes;
	size_t total;

	CU(cu.cuMemGetInfo_v2(&bytes, &total));
	EXPECT_EQ(total, 64 * MIB);
	return bytes / MIB;
}

struct child {
	pid_t pid;
	int said; /* its end is read here */
	int told; /* what it waits for */
};

/* Start a process that takes memory of a device, and then waits. */
static struct child
start_child(int device, size_t mib)
{
	struct child child;
	int out[2];
	int in[2];
	char byte;

	EXPECT_EQ(pipe(out), 0);
	EXPECT_EQ(pipe(in), 0);
	child.pid = fork();
	if (child.pid == 0) {
		CUdeviceptr address = 0;
		CUdeviceptr more = 0;

		close(in[1]);
		begin_on(device);
		CU(cu.cuMemAlloc_v2(&address, mib * MIB));
		EXPECT_EQ(write(out[1], "x", 1), 1);
		if (read(in[0], &byte, 1) == 1) {
			CU(cu.cuMemFree_v2(address));
			CU(cu.cuMemAlloc_v2(&more, MIB));
			EXPECT_EQ(write(out[1], "y", 1), 1);
			if (read(in[0], &byte, 1) == 1)
				_exit(0);
		}
		_exit(1);
	}
	close(out[1]);
	close(in[0]);
	child.said = out[0];
	child.told = in[1];
	EXPECT_EQ(read(child.said, &byte, 1), 1);
	return child;
}

static void
end_child(struct child *child, int number)
{
	int status;

	kill(child->pid, number);
	EXPECT_EQ(waitpid(child->pid, &status, 0), child->pid);
}

TEST(processes_see_what_others_have_and_cannot_have_more_together)
{
	CUdeviceptr address;
	struct child child;
	char byte;

	name_device();
	child = start_child(0, 40);
	begin_on(0);
	EXPECT_EQ(free_mib(), 24);
	EXPECT_CU(
	    cu.cuMemAlloc_v2(&address, 26 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	CU(cu.cuMemAlloc_v2(&address, 24 * MIB));
	EXPECT_EQ(free_mib(), 0);
	EXPECT_EQ(sim()->memory_used(0), 24 * MIB);
	EXPECT_EQ(sim()->memory_used_by_all(0), 64 * MIB);
	CU(cu.cuMemFree_v2(address));
	EXPECT_EQ(free_mib(), 24);
	/* It frees 40 and takes 2. */
	EXPECT_EQ(write(child.told, "f", 1), 1);
	EXPECT_EQ(read(child.said, &byte, 1), 1);
	EXPECT_EQ(free_mib(), 62);
	end_child(&child, SIGKILL);
	EXPECT_EQ(free_mib(), 64);
	unlink(path);
}

TEST(the_memory_of_a_process_that_is_killed_comes_back)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle handle;
	struct child child;

	name_device();
	child = start_child(0, 60);
	begin_on(0);
	EXPECT_CU(cu.cuMemCreate(&handle, 8 * MIB, &prop, 0),
	    CUDA_ERROR_OUT_OF_MEMORY);
	end_child(&child, SIGKILL);
	CU(cu.cuMemCreate(&handle, 64 * MIB, &prop, 0));
	CU(cu.cuMemRelease(handle));
	unlink(path);
}

TEST(each_device_has_its_own_memory)
{
	struct child child;

	name_device();
	child = start_child(1, 60);
	begin_on(0);
	EXPECT_EQ(free_mib(), 64);
	end_child(&child, SIGKILL);
	unlink(path);
}

TEST(a_forked_child_does_not_keep_the_memory_of_a_process_that_ended)
{
	int ends[2];
	pid_t pid;
	char byte;
	int status;

	name_device();
	EXPECT_EQ(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		CUdeviceptr address;

		begin_on(0);
		CU(cu.cuMemAlloc_v2(&address, 60 * MIB));
		if (fork() == 0) {
			EXPECT_EQ(write(ends[1], "x", 1), 1);
			sleep(TEST_DEFAULT_SECONDS);
		}
		_exit(0);
	}
	EXPECT_EQ(read(ends[0], &byte, 1), 1);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	begin_on(0);
	EXPECT_EQ(free_mib(), 64);
	unlink(path);
}

TEST(a_file_of_another_kind_is_refused)
{
	FILE *file;

	name_device();
	file = fopen(path, "w");
	EXPECT(file != NULL);
	fputs("some text", file);
	fclose(file);
	cuda_load_conf(conf);
	EXPECT_CU(cu.cuInit(0), CUDA_ERROR_OPERATING_SYSTEM);
	unlink(path);
}
