/*
 * The keys of SIMCUDA_CONF; simcuda.h is their manual. The simulated NVML,
 * which is a separate library, uses them too.
 */
#ifndef SIMCUDA_CONF_H
#define SIMCUDA_CONF_H

#include <stdbool.h>
#include <stdint.h>

/* X(name, default, min, max) */
#define CONF_KEYS(X)                                                           \
	X(memory_mb, 16384, 2, 1 << 24)                                        \
	X(devices, 1, 0, 16)                                                   \
	X(version, 13000, 2000, 99990)                                         \
	X(call_ns, 100, 0, 1000000000)                                         \
	X(launch_ns, 3000, 0, 1000000000)                                      \
	X(device_gbps, 4000, 1, 1000000)                                       \
	X(host_gbps, 50, 1, 1000000)                                           \
	X(host_percent, 100, 0, 100000)                                        \
	X(host_handles, 1, 0, 1)                                               \
	X(uninitialized, 0, 0, 1)                                              \
	X(fabric, 0, 0, 2)                                                     \
	X(rdma, 0, 0, 1)                                                       \
	X(reuse, 0, 0, 1)                                                      \
	X(abort, 0, 0, 1)                                                      \
	X(verbose, 0, 0, 1)                                                    \
	X(processes, 0, 0, 64)                                                 \
	X(process_mb, 512, 0, 1 << 24)                                         \
	X(context_mb, 0, 0, 1 << 20)                                           \
	X(hold_ns, 0, 0, 1000000000)                                           \
	X(seed, 1, 0, UINT64_MAX)                                              \
	X(fail_every, 0, 0, UINT32_MAX)

struct conf {
#define CONF_FIELD(name, value, min, max) uint64_t name;
	CONF_KEYS(CONF_FIELD)
#undef CONF_FIELD
};

extern struct conf conf;

/* The file of devices that processes share, or "". */
enum { CONF_PATH = 1024 };
extern char conf_shared_device[CONF_PATH];

/* Read the environment; false after a message on stderr. */
bool conf_read(void);

/* The value of a key, or NULL if there is no such key. */
const uint64_t *conf_find(const char *name);

#endif
