/*
 * Functions of the operating system.
 *
 * Thread IDs are bits of one map, which is large enough for every thread that
 * Linux can have (PID_MAX_LIMIT). Only pages in use are ever touched. An ID
 * needs no memory and no lock, so it can be requested anywhere, also in a
 * forked child. The lowest free bit is used, so IDs stay small.
 */
#include "base/os.h"

#include <fcntl.h>
#include <fenv.h>
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

enum { THREADS_MAX = 4 << 20, WORD_BITS = 64, WORDS = THREADS_MAX / WORD_BITS };

/* Bit i of all words together stands for thread ID i + 1. */
static _Atomic uint64_t ids[WORDS];
/* 0 until the thread requests it. */
static _Thread_local uint32_t own_id;

static void (*_Atomic exit_hook)(uint32_t thread_id);

/* A thread with an ID has a value for this key, so that its end is noticed. */
static pthread_key_t exit_key;
static atomic_bool exit_key_usable;
static pthread_once_t exit_key_once = PTHREAD_ONCE_INIT;

atomic_bool os_is_forked;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

size_t
os_page_size(void)
{
	static atomic_size_t cached;
	size_t size = atomic_load_explicit(&cached, memory_order_relaxed);

	if (size == 0) {
		size = (size_t)sysconf(_SC_PAGESIZE);
		atomic_store_explicit(&cached, size, memory_order_relaxed);
	}
	return size;
}

size_t
os_memory_bytes(void)
{
	/* The C library asks the system each time. */
	static atomic_size_t known;
	size_t bytes = atomic_load_explicit(&known, memory_order_relaxed);

	if (bytes == 0) {
		long pages = sysconf(_SC_PHYS_PAGES);
		bytes =
		    pages > 0 ? (size_t)pages * os_page_size() : SIZE_MAX / 2;
		atomic_store_explicit(&known, bytes, memory_order_relaxed);
	}
	return bytes;
}

static void
note_fork(void)
{
	atomic_store_explicit(&os_is_forked, true, memory_order_relaxed);
}

static void
watch_fork(void)
{
	if (pthread_atfork(NULL, NULL, note_fork) != 0)
		log_write(LOG_WARN, "forks cannot be watched: out of memory");
}

void
os_watch_fork(void)
{
	pthread_once(&fork_once, watch_fork);
}

/* The stack of the process's first thread, which ends where the system has
 * put the name of the program. glibc would read all of /proc/self/maps for it,
 * which has a line for each mapping. */
static bool
find_first_stack(uintptr_t *lowest, size_t *size)
{
	struct rlimit limit;
	uintptr_t end = (uintptr_t)getauxval(AT_EXECFN);

	if (end == 0 || getrlimit(RLIMIT_STACK, &limit) != 0 ||
	    limit.rlim_cur > end)
		return false;
	*lowest = end - (uintptr_t)limit.rlim_cur;
	*size = (size_t)limit.rlim_cur;
	return true;
}

static bool
find_thread_stack(uintptr_t *lowest, size_t *size)
{
	pthread_attr_t attributes;
	void *start = NULL;

	if (pthread_getattr_np(pthread_self(), &attributes) != 0)
		return false;
	bool found = pthread_attr_getstack(&attributes, &start, size) == 0;
	pthread_attr_destroy(&attributes);
	*lowest = (uintptr_t)start;
	return found;
}

size_t
os_stack_left(void)
{
	uintptr_t lowest = 0;
	size_t size = 0;
	bool first = syscall(SYS_gettid) == getpid();

	if (!(first ? find_first_stack(&lowest, &size) :
		      find_thread_stack(&lowest, &size)))
		return SIZE_MAX;
	/* A tool may keep variables elsewhere, but not the frame. */
	size_t left = (uintptr_t)__builtin_frame_address(0) - lowest;
	return left < size ? left : SIZE_MAX;
}

static uint32_t
take_id(void)
{
	for (uint32_t i = 0; i < WORDS; i++) {
		uint64_t word = atomic_load(&ids[i]);

		while (word != UINT64_MAX) {
			uint64_t bit = ~word & (word + 1);

			if (atomic_compare_exchange_weak(
				&ids[i], &word, word | bit))
				return i * WORD_BITS +
				    (uint32_t)__builtin_ctzll(bit) + 1;
		}
	}
	return THREADS_MAX; /* impossible: Linux has no more threads */
}

static void
release_id(uint32_t id)
{
	atomic_fetch_and(
	    &ids[(id - 1) / WORD_BITS], ~((uint64_t)1 << (id - 1) % WORD_BITS));
}

/*
 * The end of a thread. Destructors of other libraries may run later and call
 * weir again. Then the thread has a new ID and this function runs again, as
 * often as PTHREAD_DESTRUCTOR_ITERATIONS allows.
 */
static void
thread_exit(void *value)
{
	void (*hook)(uint32_t thread_id) = atomic_load(&exit_hook);
	uint32_t id = own_id;

	(void)value;
	if (!atomic_load(&exit_key_usable) || id == 0)
		return;
	if (hook != NULL)
		hook(id);
	own_id = 0;
	release_id(id);
}

static void
make_exit_key(void)
{
	if (pthread_key_create(&exit_key, thread_exit) == 0)
		atomic_store(&exit_key_usable, true);
	else
		log_write(LOG_WARN,
		    "the end of threads cannot be seen: out "
		    "of thread-specific keys");
}

/*
 * At exit or dlclose(). The ends of threads are not reported after that,
 * because the hook's data may be gone.
 */
__attribute__((destructor)) static void
drop_exit_key(void)
{
	if (atomic_exchange(&exit_key_usable, false))
		pthread_key_delete(exit_key);
}

/* Not inlined into os_thread_id(), because it runs once for each thread. */
__attribute__((noinline)) static uint32_t
new_thread_id(void)
{
	pthread_once(&exit_key_once, make_exit_key);
	own_id = take_id();
	/* Any value but NULL makes the destructor run. If it cannot be set, the
	 * ID is never used again. */
	if (atomic_load(&exit_key_usable))
		pthread_setspecific(exit_key, &own_id);
	return own_id;
}

uint32_t
os_thread_id(void)
{
	return own_id != 0 ? own_id : new_thread_id();
}

void
os_on_thread_exit(void (*hook)(uint32_t thread_id))
{
	atomic_store(&exit_hook, hook);
}

/* The stopped clock's time; 0: the clock runs. */
static _Atomic uint64_t stopped_ns;
static _Atomic uint64_t skipped_ns;

uint64_t
os_monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t
os_time_ns(void)
{
	uint64_t ns = atomic_load_explicit(&stopped_ns, memory_order_relaxed);

	return (ns != 0 ? ns : os_monotonic_ns()) +
	    atomic_load_explicit(&skipped_ns, memory_order_relaxed);
}

void
os_time_skip(uint64_t ns)
{
	atomic_fetch_add(&skipped_ns, ns);
}

void
os_time_stop(bool stopped)
{
	atomic_store(&stopped_ns, stopped ? 1 : 0);
}

/* The C library provides it without allocation, and it is never freed. */
static locale_t
plain_locale(void)
{
	return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

void
os_plain_begin(struct os_plain *plain)
{
	/* Without traps, and with the default rounding. */
	feholdexcept(&plain->floating);
	fesetround(FE_TONEAREST);
	plain->locale = uselocale(plain_locale());
}

void
os_plain_end(const struct os_plain *plain)
{
	uselocale(plain->locale);
	fesetenv(&plain->floating);
}

void
os_format_real(double value, int digits, char *text, size_t size)
{
	locale_t before = uselocale(plain_locale());

	snprintf(text, size, "%.*g", digits, value);
	uselocale(before);
}

double
os_parse_real(const char *text, char **end)
{
	return strtod_l(text, end, plain_locale());
}

const char *
os_format_bytes(uint64_t bytes, char *text, size_t size)
{
	static const char units[] = "KMGTPE";
	double value = (double)bytes / 1024;
	int unit = 0;

	if (bytes < 1024) {
		snprintf(text, size, "%u byte%s", (unsigned)bytes,
		    bytes == 1 ? "" : "s");
		return text;
	}
	/* A value that rounds to 1024.00 is shown as 1.00 of the next unit. */
	for (; value >= 1023.995 && units[unit + 1] != '\0'; unit++)
		value /= 1024;
	locale_t before = uselocale(plain_locale());
	snprintf(text, size, "%.2f %ciB", value, units[unit]);
	uselocale(before);
	return text;
}

bool
os_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
	sigset_t all;
	sigset_t before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	bool started = pthread_create(thread, NULL, run, argument) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

int
os_fd_up(int fd)
{
	int up;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	up = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (up < 0)
		return fd;
	close(fd);
	return up;
}

bool
os_is_eventfd(int fd)
{
	struct stat file;

	/* A file without a type was made by the kernel. */
	return fd >= 0 && fstat(fd, &file) == 0 && (file.st_mode & S_IFMT) == 0;
}

unsigned
os_processors(void)
{
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return 1;
	return (unsigned)CPU_COUNT(&allowed);
}

void
os_close_from(int first)
{
	/* The number of close_range(), one for all processors, which old
	 * headers lack. */
	enum { CLOSE_RANGE = 436, FILES_USUAL = 1024 };

	if (syscall(CLOSE_RANGE, first, ~0U, 0) == 0)
		return;
	for (int fd = first; fd < FILES_USUAL; fd++)
		close(fd);
}

unsigned
os_process_id(void)
{
	return (unsigned)getpid();
}
