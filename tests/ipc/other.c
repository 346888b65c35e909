#include "tests/ipc/other.h"

#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/device.h"

struct other
other_start(void (*body)(int fd))
{
	struct other other;
	int ends[2];

	device_need_sharing();
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	other.pid = fork();
	EXPECT_GE(other.pid, 0);
	if (other.pid == 0) {
		close(ends[0]);
		body(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	other.fd = ends[0];
	return other;
}

void
other_end(struct other *other)
{
	int status = -1;

	EXPECT_EQ(waitpid(other->pid, &status, 0), other->pid);
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 0);
	close(other->fd);
}

void
other_kill(struct other *other)
{
	int status = -1;

	EXPECT_EQ(kill(other->pid, SIGKILL), 0);
	EXPECT_EQ(waitpid(other->pid, &status, 0), other->pid);
	EXPECT(WIFSIGNALED(status));
	close(other->fd);
}

void
tell(int fd, const void *bytes, size_t size)
{
	EXPECT_EQ(write(fd, bytes, size), size);
}

void
hear(int fd, void *bytes, size_t size)
{
	EXPECT_EQ(recv(fd, bytes, size, MSG_WAITALL), size);
}

void
meet(int fd)
{
	char here = 1;

	tell(fd, &here, 1);
	hear(fd, &here, 1);
}

unsigned
open_files(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned n = 0;

	EXPECT_NOT_NULL(folder);
	while (readdir(folder) != NULL)
		n++;
	closedir(folder);
	return n;
}

void
expect_files(unsigned n)
{
	if (device_is_simulated())
		EXPECT_EQ(open_files(), n);
}

void
wait_for_files(unsigned n)
{
	if (device_is_simulated())
		EXPECT_SOON(open_files() <= n);
}

void
wait_for_peers(const struct weir_ipc_export *export, size_t peers)
{
	EXPECT_SOON(weir_ipc_peers(export) == peers);
}

struct weir_ipc_export *
share(void *ptr, weir_stream stream, struct weir_ipc_handle *handle)
{
	struct weir_ipc_export *export = NULL;

	device_need_sharing();
	EXPECT_OK(weir_ipc_export(ptr, stream, &export));
	EXPECT_OK(weir_ipc_handle_of(export, handle));
	return export;
}

struct weir_ipc_import *
open_shared(const struct weir_ipc_handle *handle, weir_stream stream,
    struct weir_ipc_info *info)
{
	struct weir_ipc_import *import = NULL;

	EXPECT_OK(weir_ipc_open(handle, 0, stream, &import));
	info->struct_size = sizeof(*info);
	EXPECT_OK(weir_ipc_info(import, info));
	return import;
}
