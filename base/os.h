/*
 * Functions that differ between operating systems: page size, forks, threads,
 * formatting.
 */
#ifndef BASE_OS_H
#define BASE_OS_H

#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The size of a page of host memory: 4 KiB, or 64 KiB on some aarch64 systems.
 */
size_t os_page_size(void);

/* The size of the machine's memory. */
size_t os_memory_bytes(void);

/* Is this a child of the process that first called os_watch_fork()? One relaxed
 * load. */
#pragma GCC visibility push(hidden)
extern atomic_bool os_is_forked;
#pragma GCC visibility pop
static inline bool
os_forked(void)
{
	return __builtin_expect(
	    atomic_load_explicit(&os_is_forked, memory_order_relaxed), 0);
}
/* Start noticing forks; calls after the first do nothing. */
void os_watch_fork(void);

/* The bytes left on the calling thread's stack, as far as is known; makes at
 * least one system call. */
size_t os_stack_left(void);

/* A small number above 0 that no other living thread has; cached. */
uint32_t os_thread_id(void);
/*
 * Call `hook` with the ID of each thread that ends, on that thread, if the
 * thread has called os_thread_id(). The process has one hook, which is set
 * once.
 */
void os_on_thread_exit(void (*hook)(uint32_t thread_id));

/* Fetch memory that is about to be read and written into the processor's cache,
 * once for both. Any address is allowed. */
static inline void
os_fetch_for_write(const void *ptr)
{
	__builtin_prefetch(ptr, 1);
}

/* For loops that wait for another thread. */
static inline void
os_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Start a thread that receives no signals, because signals are for the
 * program's own threads. False if it cannot be started. */
bool os_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* Is it a descriptor of something else than a file, socket or pipe, as that of
 * an eventfd? If not, the program has closed weir's descriptor, and may have
 * opened another file with its number. */
bool os_is_eventfd(int fd);

/* Move a descriptor that stays open away from 0, 1 and 2: a program that has
 * closed these reads and writes them, or opens files to take their place.
 * Returns its number; -1 stays -1. */
int os_fd_up(int fd);

/* The number of processors that the calling thread may use; at least 1. */
unsigned os_processors(void);

/* Close all files from a number on, in a process that has one thread. */
void os_close_from(int first);

/* The id of this process. */
unsigned os_process_id(void);

/* Monotonic time. */
uint64_t os_monotonic_ns(void);

/* A clock for work that is done after a delay; tests can advance it. */
uint64_t os_time_ns(void);
/* For tests: advance the clock. */
void os_time_skip(uint64_t ns);
/* For tests: set the clock to its start, as when the machine has just been
 * started, and let it advance only by os_time_skip(). False ends this. */
void os_time_stop(bool stopped);

/* From begin to end, this thread formats numbers in C's form, and computes with
 * the default rounding and without traps. */
struct os_plain {
	locale_t locale;
	fenv_t floating;
};
void os_plain_begin(struct os_plain *plain);
void os_plain_end(const struct os_plain *plain);

/* Format and read numbers in C's form, with a point, whatever the program's
 * language is. `digits` is that of "%.6g"; the end is strtod()'s. */
void os_format_real(double value, int digits, char *text, size_t size);
double os_parse_real(const char *text, char **end);

/* Format bytes as "512 bytes" or "20.00 MiB": powers of 1024, two decimals. The
 * text is cut to `size`. */
const char *os_format_bytes(uint64_t bytes, char *text, size_t size);

#endif
