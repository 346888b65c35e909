/*
 * A second process for tests of IPC. It is forked before the driver is used,
 * runs one function, and gets its commands over a socket; both ends send whole
 * structs.
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

/* A process that runs `body` with its end of a socket, and must exit with
 * status 0. The test is skipped where memory cannot be shared. */
struct other other_start(void (*body)(int fd));

/* Wait for its end; its status must be 0. */
void other_end(struct other *other);

/* Kill it by SIGKILL, and wait for its end. */
void other_kill(struct other *other);

void tell(int fd, const void *bytes, size_t size);
void hear(int fd, void *bytes, size_t size);

/* Wait until the other process is at the same point. */
void meet(int fd);

/* Count the descriptors of this process. */
unsigned open_files(void);

/* Expect that `n` descriptors are open. Checked on the simulated device only,
 * because a GPU's driver keeps some open. */
void expect_files(unsigned n);

/* Wait until at most `n` descriptors are open. Does not wait on a GPU, whose
 * driver keeps some open. */
void wait_for_files(unsigned n);

/* Wait until an export has this many peers. */
void wait_for_peers(const struct weir_ipc_export *export, size_t peers);

/* weir_ipc_export() and weir_ipc_handle_of() that must succeed; the test is
 * skipped where memory cannot be shared. */
struct weir_ipc_export *share(
    void *ptr, weir_stream stream, struct weir_ipc_handle *handle);

/* weir_ipc_open() on device 0, and the address that it opened. */
struct weir_ipc_import *open_shared(const struct weir_ipc_handle *handle,
    weir_stream stream, struct weir_ipc_info *info);

#endif
