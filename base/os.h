/*
 * The parts that differ between systems: page size, forks, threads, formatting.
 */
#ifndef BASE_OS_H
#define BASE_OS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a page of host memory: 4 KiB, or 64 KiB on some aarch64. */
size_t os_page_size(void);

/* Bytes of memory the machine has. */
size_t os_memory_bytes(void);

/* True in a child of the process that first called os_watch_fork(). One
 * relaxed load. */
#pragma GCC visibility push(hidden)
extern atomic_bool os_is_forked;
#pragma GCC visibility pop
static inline bool
os_forked(void)
{
	return __builtin_expect(
	    atomic_load_explicit(&os_is_forked, memory_order_relaxed), 0);
}
/* Start watching; calls after the first do nothing. */
void os_watch_fork(void);

/* Bytes of stack that the calling thread has left, as far as is known; takes
 * a system call or more. */
size_t os_stack_left(void);

/* A number that no other living thread has, small and never 0; cached. */
uint32_t os_thread_id(void);
/*
 * Call `hook` with the id of each thread that ends, on that thread, if it has
 * called os_thread_id(). One hook for the process; set once.
 */
void os_on_thread_exit(void (*hook)(uint32_t thread_id));

/* Memory that is about to be read and written: have the processor bring it into
 * its own cache once, for both. Any address will do. */
static inline void
os_fetch_for_write(const void *ptr)
{
	__builtin_prefetch(ptr, 1);
}

/* In a loop that looks for what another thread does. */
static inline void
os_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Sleep, unless *word is not `value` any more, until a thread calls
 * os_wake_one() for it, or for no reason. */
void os_sleep_while(atomic_uint *word, unsigned value);
void os_wake_one(atomic_uint *word);

/* A thread that no signal comes to: these are for the program's own. False if
 * there can be none. */
bool os_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* Is a descriptor of no file, socket or pipe, as that of an eventfd is? If not,
 * the program has closed ours, and may have opened another by its number. */
bool os_is_eventfd(int fd);

/* Processors that the calling thread may run on; at least 1. */
unsigned os_processors(void);

/* The id of this process. */
unsigned os_process_id(void);

/* Monotonic time. */
uint64_t os_monotonic_ns(void);

/* A clock for work that is done after a while; tests let it pass. */
uint64_t os_time_ns(void);
/* For tests: from now on it is later by that much. */
void os_time_skip(uint64_t ns);
/* For tests: it begins, as when the machine has just been started, and passes
 * by os_time_skip() alone, from now on or until false. */
void os_time_stop(bool stopped);

/* Numbers as C has them, with a point, whatever the program's language is. So
 * many digits, as "%.6g" does; the end is strtod()'s. */
void os_format_real(double value, int digits, char *text, size_t size);
double os_parse_real(const char *text, char **end);

/* "512 bytes", "20.00 MiB": powers of 1024, two decimals. Cuts to size. */
const char *os_format_bytes(uint64_t bytes, char *text, size_t size);

#endif
