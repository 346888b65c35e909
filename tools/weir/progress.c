#include "tools/weir/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/utf8.h"
#include "tools/weir/tuning.h"

enum { LINE_BYTES = 512, /* bytes; a terminal is seldom wider */ };

static const char erase[] = "\r\033[K";

static int64_t command_began_ms; /* 0: not yet */

int64_t
progress_clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void
progress_start(void)
{
	command_began_ms = progress_clock_ms();
}

void
progress_begin(struct progress *progress, int64_t wait_ms)
{
	if (command_began_ms == 0)
		progress_start();
	*progress = (struct progress){ .shows = isatty(STDERR_FILENO) != 0,
		.began_ms = progress_clock_ms(),
		.next_ms = command_began_ms + wait_ms };
}

void
progress_begin_output(struct progress *progress, FILE *out)
{
	progress_begin(progress, PROGRESS_AFTER_MS);
	if (isatty(fileno(out)))
		progress->shows = false;
}

bool
progress_due(struct progress *progress)
{
	int64_t now;

	if (!progress->shows)
		return false;
	now = progress_clock_ms();
	if (now < progress->next_ms)
		return false;
	progress->next_ms = now + PROGRESS_EVERY_MS;
	return true;
}

void
progress_show(struct progress *progress, const char *format, ...)
{
	char text[LINE_BYTES];
	char plain[LINE_BYTES];
	va_list args;

	if (!progress->shows)
		return;
	progress->shown = true;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	utf8_copy_plain(plain, sizeof(plain), text);
	fprintf(stderr, "%s%s", erase, plain);
	fflush(stderr);
}

void
progress_part(
    struct progress *progress, const char *what, uint64_t done, uint64_t all)
{
	double part = (double)done / (double)all;

	if (done == 0 || done > all || !progress_due(progress))
		return;
	progress_show(progress, "%s: %.0f %%, about %.0f s left", what,
	    100 * part,
	    (double)progress_taken_ms(progress) / 1000 * (1 / part - 1));
}

int64_t
progress_taken_ms(const struct progress *progress)
{
	return progress_clock_ms() - progress->began_ms;
}

void
progress_end(struct progress *progress)
{
	if (progress->shown)
		fputs(erase, stderr);
	progress->shows = false;
}
