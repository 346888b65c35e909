/*
 * A second process for tests of IPC. It is forked before the driver is used,
 * runs one function, and is told over a socket what to do; both ends send
 * structs whole.
 */
#ifndef TESTS_IPC_OTHER_H
#define TESTS_IPC_OTHER_H

#include <stddef.h>
#include <sys/types.h>

#include <weir/ipc.h>

struct other {
	pid_t pid;
	int fd;
};

/* A process that runs `body` with its end of a socket, and ends well. */
struct other other_start(void (*body)(int fd));

/* It must end well by itself. */
void other_end(struct other *other);

/* Kill it by SIGKILL, and see that it is gone. */
void other_kill(struct other *other);

void tell(int fd, const void *bytes, size_t size);
void hear(int fd, void *bytes, size_t size);

/* Go on where the other process is at the same place. */
void meet(int fd);

/* Descriptors that this process has open. */
unsigned open_files(void);

/* Expect that `n` descriptors are open. Looks on the simulated device only,
 * because a GPU's driver keeps some of its own. */
void expect_files(unsigned n);

/* Wait until at most `n` descriptors are open; on a GPU, whose driver has its
 * own, do not wait. */
void wait_for_files(unsigned n);

/* Wait until an export has so many peers. */
void wait_for_peers(const struct weir_ipc_export *export, size_t peers);

/* weir_ipc_export() and weir_ipc_handle_of() that must succeed. */
struct weir_ipc_export *share(
    void *ptr, weir_stream stream, struct weir_ipc_handle *handle);

/* weir_ipc_open() on device 0 and what it has opened. */
struct weir_ipc_import *open_shared(const struct weir_ipc_handle *handle,
    weir_stream stream, struct weir_ipc_info *info);

#endif
