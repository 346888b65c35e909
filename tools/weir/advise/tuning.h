/*
 * The numbers of this folder that were chosen and can be chosen otherwise.
 */
#ifndef TOOLS_WEIR_ADVISE_TUNING_H
#define TOOLS_WEIR_ADVISE_TUNING_H

/* The least gain that is worth a sentence, as a share of the peak of held
 * bytes, and in bytes: a granule of physical memory. */
#define ADVISE_GAIN_SHARE 0.03
enum { ADVISE_GAIN_LEAST = 2 << 20 };

/* The share of the peak by which a remedy must gain more than those before it,
 * which cost less. */
#define ADVISE_MORE_SHARE 0.05

/* The share of the program's time from which waits cost time. */
#define ADVISE_DELAY_SHARE 0.005

/* Calls of the driver for each call before, from which they cost time. */
enum { ADVISE_CALLS_TIMES = 2 };

/* Sentences: more are not read. */
enum { ADVISE_SENTENCES = 3 };

/* Seconds after which no further setting is tried, by default and in
 * `weir oom`, whose main answer needs no replay. */
enum {
	ADVISE_SECONDS = 120,
	ADVISE_SECONDS_MAX = 86400,
	ADVISE_SECONDS_OOM = 20,
};

/* Events of a device up to which `weir view` replays a recording without being
 * asked. Three replays of a million events took 6.6 s of a processor, so that
 * all of these take 1 to 2 s. */
enum { ADVISE_PAGE_EVENTS = 100000 };

/* Settings that are tried one by one and together, at most. */
enum { ADVISE_CANDIDATES = 8 };

#endif
