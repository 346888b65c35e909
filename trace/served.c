/*
 * The words that say how a request was served.
 */
#include "trace/served.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/os.h"

_Thread_local struct served_request served_here;

static _Atomic(served_listener) listening;

static const char *const words[] = {
#define SERVED_WORD(name, word) word,
	SERVED_WAYS(SERVED_WORD)
#undef SERVED_WORD
};

const char *
served_word(enum served_by by)
{
	return words[by];
}

/* ---- Texts ------------------------------------------------------------- */

struct phrase {
	char *text;
	size_t used;
};

static void add_part(struct phrase *phrase, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Append one part, after a comma unless it is the first. */
static void
add_part(struct phrase *phrase, const char *format, ...)
{
	size_t left = SERVED_TEXT - phrase->used;
	va_list args;

	if (phrase->used > 0 && left > 2) {
		phrase->used +=
		    (size_t)snprintf(phrase->text + phrase->used, left, ", ");
		left = SERVED_TEXT - phrase->used;
	}
	va_start(args, format);
	int n = vsnprintf(phrase->text + phrase->used, left, format, args);
	va_end(args);
	if (n > 0)
		phrase->used += (size_t)n < left ? (size_t)n : left - 1;
}

static const char *
plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* "2 waits 120 us for stream 3": stream 3 is the stream of the latest wait. */
static void
add_waits(struct phrase *phrase, const struct served *served,
    const struct served_wait *wait)
{
	char count[16] = "";
	char took[32] = "";
	char stream[64] = "";

	if (served->waits == 0)
		return;
	if (served->waits > 1)
		snprintf(count, sizeof(count), "%" PRIu32 " ", served->waits);
	if (wait != NULL && wait->is_measured)
		snprintf(
		    took, sizeof(took), " %" PRIu64 " us", wait->ns / 1000);
	if (wait != NULL)
		snprintf(
		    stream, sizeof(stream), " for stream %s", wait->stream);
	else if (served->waited_for != 0)
		snprintf(stream, sizeof(stream), " for stream 0x%" PRIx64,
		    served->waited_for);
	add_part(
	    phrase, "%swait%s%s%s", count, plural(served->waits), took, stream);
}

static void
add_effort(struct phrase *phrase, const struct served *served,
    const struct served_wait *wait)
{
	char bytes[32];

	add_waits(phrase, served, wait);
	if (served->host_waits > 0)
		add_part(phrase, "%" PRIu32 " host wait%s", served->host_waits,
		    plural(served->host_waits));
	if (served->moved > 0)
		add_part(phrase, "moved %" PRIu32 " handle%s", served->moved,
		    plural(served->moved));
	if (served->grown_bytes > 0)
		add_part(phrase, "grown %s",
		    os_format_bytes(served->grown_bytes, bytes, sizeof(bytes)));
}

/* Does the text of the work begin with the way's own word? */
static bool
speaks_for_itself(const struct served *served)
{
	switch (served->by) {
	case SERVED_wait:
		return served->waits > 0;
	case SERVED_moved:
		return served->moved > 0;
	case SERVED_grown:
		return served->grown_bytes > 0;
	default:
		return false;
	}
}

const char *
served_phrase(const struct served *served, const struct served_wait *wait,
    char text[SERVED_TEXT])
{
	struct phrase phrase = { .text = text };

	text[0] = '\0';
	if (!speaks_for_itself(served))
		add_part(&phrase, "%s", served_word(served->by));
	add_effort(&phrase, served, wait);
	return text;
}

const char *
served_text(const struct served *served, char text[SERVED_TEXT])
{
	return served_phrase(served, NULL, text);
}

const char *
served_tried(const struct served *served, char text[SERVED_TEXT])
{
	struct phrase phrase = { .text = text };

	text[0] = '\0';
	for (int by = 0; by < SERVED_WAY_COUNT; by++)
		if ((served->tried >> by & 1) != 0)
			add_part(
			    &phrase, "%s", served_word((enum served_by)by));
	add_effort(&phrase, served, NULL);
	return text;
}

/* ---- What waits took --------------------------------------------------- */

void
served_listen(served_listener listener)
{
	atomic_store(&listening, listener);
}

void
served_measured(uint64_t tag, uint64_t ns)
{
	served_listener listener = atomic_load(&listening);

	if (tag != 0 && listener != NULL)
		listener(tag, ns);
}
