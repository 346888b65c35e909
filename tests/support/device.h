/*
 * device.h - the device under test: work on its streams, what its memory
 * holds, and weir's calls when they are expected to succeed
 *
 * Each test runs on the simulated device and on a GPU. Device memory is touched
 * by work on streams only. A kernel that sleeps keeps a stream busy, which
 * costs real time on a GPU and none on the simulated device. A test that needs
 * the simulation (to fail a call, to count calls) begins with
 * device_need_sim(), which skips it elsewhere, and then uses sim().
 */
#ifndef TESTS_SUPPORT_DEVICE_H
#define TESTS_SUPPORT_DEVICE_H

#include <weir/stream.h>

#include "driver/driver.h"
#include "tests/support/sim.h"
#include "tests/support/test.h"

enum {
	KIB = 1 << 10,
	MIB = 1 << 20,
	GRANULE = 512,
	LATE_MS = 150, /* how long a late stream is busy */
};

/* ---- The device -------------------------------------------------------- */

/* Load the driver. The test fails if there is none. */
const struct driver *device_driver(void);

bool device_is_simulated(void);

/* Skip the test on a GPU, with the reason why the simulation is needed. */
void device_need_sim(const char *reason);

/* Skip the test if there are fewer devices; the simulation gets this many. It
 * must be the first call. */
void device_need(int count);

/* Skip the test if device 0 has less memory; a simulated one gets this much. */
void device_need_bytes(size_t bytes);

/* Skip the test where memory cannot be shared with another process: Linux
 * before 5.3, sandboxes and valgrind 3.19 have no descriptors of processes. */
void device_need_sharing(void);

/* The bytes of a device. */
size_t device_total(int device);

/* The free bytes by the driver's count. */
size_t device_free_bytes(int device);

/* ---- Work on streams --------------------------------------------------- */

/* Keep a stream busy from now for this many milliseconds. */
void busy(weir_stream stream, unsigned milliseconds);

/* Queue a write of `value` to each byte. */
void fill(void *ptr, size_t size, unsigned char value, weir_stream stream);

/* Queue a copy on the device. */
void copy(void *to, const void *from, size_t size, weir_stream stream);

/* Queue an addition of n words: to[i] = a[i] + b[i]. Kernels are loaded by the
 * first call that needs them, which must not be in a capture: load_kernels().
 */
void add(uint32_t *to, const uint32_t *a, const uint32_t *b, size_t n,
    weir_stream stream);
void load_kernels(void);

/* Wait for the stream, then read memory of the device. */
void read_back(void *to, const void *from, size_t size, weir_stream stream);

/* Wait for the stream, and expect that each byte is `value`. */
void expect_filled(
    const void *ptr, size_t size, unsigned char value, weir_stream stream);

/* Queue a write of i + 1 to each byte of part i, of so many equal parts; wait
 * for the stream, and expect these contents. */
void fill_parts(void *ptr, size_t size, size_t parts, weir_stream stream);
void expect_parts(
    const void *ptr, size_t size, size_t parts, weir_stream stream);

/* Wait until the work of a stream is done. */
void finish(weir_stream stream);

/* Is the work of a stream done? */
bool is_done(weir_stream stream);

/* Begin a capture that leaves all other calls allowed; end it and drop its
 * graph. */
void capture_begin(weir_stream stream);
void capture_end(weir_stream stream);

/* Let two milliseconds pass, so that short queued work is done. */
void settle(void);

/* A stream of the current device. */
weir_stream new_stream(void);

/* A stream that weir has not met, created and destroyed by the driver's calls
 * on the current device. */
weir_stream foreign_stream(unsigned flags);
void foreign_destroy(weir_stream stream);

/* ---- Memory ------------------------------------------------------------ */

/* weir_malloc(), weir_free() and weir_record_stream() that must succeed. */
void *take(size_t size, weir_stream stream);
void give(void *ptr);
void record(const void *ptr, weir_stream stream);

/* Allocate n blocks of a size that stay apart when they are free, because live
 * blocks of 2 MiB lie between them. */
void take_apart(char *blocks[], size_t n, size_t size, weir_stream stream);

/* weir_pool_create() and weir_pool_malloc() that must succeed. */
struct weir_pool *new_pool(int device, unsigned flags);
void *take_from(struct weir_pool *pool, size_t size, weir_stream stream);

/* The answer of weir_block_info() for an address in a live block. */
struct weir_block_info info_of(const void *ptr);

/* Set options, which must be valid. */
void conf(const char *text);

/* The statistics of device 0, of any device, of a stream of device 0. */
struct weir_stats stats(void);
struct weir_stats stats_of(int device);
struct weir_stats stats_of_stream(weir_stream stream);

/* Those of page-locked memory, by weir_host_stats(). */
struct weir_stats host_stats(void);

/* The physical bytes that weir holds of device 0, by its statistics. */
uint64_t reserved(void);

/* weir_trim() of the current device; returns the bytes given back. */
size_t trim(size_t keep);

/* Expect that weir_check() finds no fault and the simulation reported no
 * misuse. */
void expect_healthy(void);

/* Expect that only counters of failures of device 0 differ from `before`, and
 * that all is healthy. */
void expect_stats_unchanged(const struct weir_stats *before);

/* ---- Statuses ---------------------------------------------------------- */

/* The call returns this status; otherwise weir's text is printed. */
#define EXPECT_STATUS(call, status)                                            \
	device_expect_status(__FILE__, __LINE__, #call, (call), (status))
#define EXPECT_OK(call) EXPECT_STATUS(call, WEIR_OK)

/* The call, a malloc-like one, returns NULL and this status. */
#define EXPECT_NO_MEMORY(call, status)                                         \
	device_expect_null(__FILE__, __LINE__, #call, (call), (status))

void device_expect_status(const char *file, int line, const char *call,
    enum weir_status got, enum weir_status expected);
void device_expect_null(const char *file, int line, const char *call,
    const void *got, enum weir_status expected);

#endif
