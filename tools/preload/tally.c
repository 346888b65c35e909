/*
 * What each thread counts for a report: tally.h.
 */
#include "tools/preload/tally.h"

#include <pthread.h>
#include <string.h>

#include "base/meta.h"

/* One that a thread has, or had. */
struct owned {
	struct owned *next;
	bool used; /* by a thread that has not ended */
	struct tally tally;
};

PRELOAD_THREAD struct tally *tally_of_thread;

/* Over what follows, and all limits. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* That of threads there was no memory for. They share it, so some of what they
 * count may be lost. */
static struct owned of_others = { .used = true };
static struct owned *all = &of_others;

static struct tally_held forgotten[TALLY_DEVICES];
static size_t devices; /* those that anything has been allocated on */
static int64_t peaks[TALLY_PEAKS];

/* ---- Threads ----------------------------------------------------------- */

static pthread_key_t end_key;
static bool ends_are_seen;

/* Destructors of other libraries may come later and count: the thread begins
 * again then. */
static void
end(void *value)
{
	struct owned *own = value;

	tally_of_thread = NULL;
	pthread_mutex_lock(&lock);
	own->used = false;
	pthread_mutex_unlock(&lock);
}

static void
watch_ends(void)
{
	ends_are_seen = pthread_key_create(&end_key, end) == 0;
}

static struct owned *
take_left(void)
{
	struct owned *o;

	pthread_mutex_lock(&lock);
	for (o = all; o != NULL && o->used; o = o->next)
		;
	if (o != NULL)
		o->used = true;
	pthread_mutex_unlock(&lock);
	return o;
}

static struct owned *
make(void)
{
	struct owned *o = meta_zalloc(sizeof(*o));

	if (o == NULL)
		return &of_others;
	o->used = true;
	pthread_mutex_lock(&lock);
	o->next = all;
	all = o;
	pthread_mutex_unlock(&lock);
	return o;
}

struct tally *
tally_begin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct owned *own;

	pthread_once(&once, watch_ends);
	own = take_left();
	if (own == NULL)
		own = make();
	tally_of_thread = &own->tally;
	if (own != &of_others && ends_are_seen)
		pthread_setspecific(end_key, own);
	return tally_of_thread;
}

/* Of its parent's threads only the calling one is there. */
void
tally_forget_all(void)
{
	pthread_mutex_init(&lock, NULL);
	for (struct owned *o = all; o != NULL; o = o->next) {
		memset(&o->tally, 0, sizeof(o->tally));
		o->used = o == &of_others || &o->tally == tally_of_thread;
	}
	memset(forgotten, 0, sizeof(forgotten));
	memset(peaks, 0, sizeof(peaks));
}

/* ---- Peaks ------------------------------------------------------------- */

/* Has it part in what is left below the peak? */
static bool
shares(const struct owned *o, const struct tally_held *held, int which)
{
	return o->used &&
	    (tally_now(&held->bytes[which]) != 0 ||
		tally_now(&held->limit[which]) != 0);
}

/* What all hold. */
static int64_t
held_now(int which)
{
	int64_t sum = 0;

	for (size_t device = 0; device < devices; device++) {
		sum -= tally_now(&forgotten[device].bytes[which]);
		for (const struct owned *o = all; o != NULL; o = o->next)
			sum += tally_now(&o->tally.held[device].bytes[which]);
	}
	return sum;
}

/* Those that share with this one, and whether other threads are among them. */
static int
count_others(const struct tally *own, size_t device, int which, bool *threads)
{
	int n = 0;

	*threads = false;
	for (const struct owned *o = all; o != NULL; o = o->next)
		for (size_t d = 0; d < devices; d++) {
			if ((&o->tally == own && d == device) ||
			    !shares(o, &o->tally.held[d], which))
				continue;
			n++;
			*threads |= &o->tally != own;
		}
	return n;
}

/* Half of what is left is for the one that has come, the rest for the others.
 * The limit of any that does not share is what it has. */
static void
share_out(const struct tally *own, size_t device, int which, int64_t room)
{
	bool threads;
	int others = count_others(own, device, which, &threads);
	int64_t slack = threads ? TALLY_SLACK : 0;
	int64_t part = others > 0 ? room / 2 / others : 0;

	for (struct owned *o = all; o != NULL; o = o->next)
		for (size_t d = 0; d < devices; d++) {
			struct tally_held *held = &o->tally.held[d];
			int64_t limit = tally_now(&held->bytes[which]);

			if (&o->tally == own && d == device)
				limit += room - part * others + slack;
			else if (shares(o, held, which))
				limit += part + slack;
			atomic_store_explicit(
			    &held->limit[which], limit, memory_order_relaxed);
		}
}

void
tally_pass(const struct tally *own, size_t device)
{
	pthread_mutex_lock(&lock);
	if (device >= devices)
		devices = device + 1;
	for (int i = 0; i < TALLY_PEAKS; i++) {
		int64_t now = held_now(i);

		if (now > peaks[i])
			peaks[i] = now;
		share_out(own, device, i, peaks[i] - now);
	}
	pthread_mutex_unlock(&lock);
}

/* ---- Reading ----------------------------------------------------------- */

/* One more time, or less. */
static void
add_all(tally_count *to, const tally_count *from, size_t bytes, int sign)
{
	for (size_t i = 0; i < bytes / sizeof(*to); i++)
		tally_add(&to[i], sign * tally_now(&from[i]));
}

void
tally_forget(size_t device)
{
	struct tally_held *sum = &forgotten[device];

	pthread_mutex_lock(&lock);
	*sum = (struct tally_held){ 0 };
	for (const struct owned *o = all; o != NULL; o = o->next)
		add_all(&sum->blocks, &o->tally.held[device].blocks,
		    sizeof(*sum), 1);
	pthread_mutex_unlock(&lock);
}

void
tally_read(struct tally *sum)
{
	memset(sum, 0, sizeof(*sum));
	pthread_mutex_lock(&lock);
	for (const struct owned *o = all; o != NULL; o = o->next)
		add_all((tally_count *)sum, (const tally_count *)&o->tally,
		    sizeof(*sum), 1);
	add_all((tally_count *)sum->held, (const tally_count *)forgotten,
	    sizeof(forgotten), -1);
	pthread_mutex_unlock(&lock);
}

int64_t
tally_peak_of(enum tally_peak which)
{
	pthread_mutex_lock(&lock);
	int64_t peak = peaks[which];
	pthread_mutex_unlock(&lock);
	return peak;
}
