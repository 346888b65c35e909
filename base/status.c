/*
 * The last failure of each thread: its status and one line of text.
 *
 * The text is formatted on the stack and then copied, so that the arguments
 * may point into the text it replaces. The thread-local block is as large as
 * it will ever be from a thread's first use of the library on: telling a
 * failure allocates nothing. It must stay out of the static TLS block, or
 * dlopen() of the library would fail in programs that have used theirs up;
 * -fPIC sees to that.
 */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

static _Thread_local struct {
	enum weir_status status; /* of the last failure remembered */
	char text[STATUS_TEXT_SIZE];
	enum weir_status latest; /* of the last one, also while muted */
	unsigned muted;          /* depth of status_mute() */
	char muted_text[STATUS_TEXT_SIZE]; /* of the last muted one */
} last;

static const char *const names[] = {
#define STATUS_NAME(name, text) #name,
	WEIR_STATUSES(STATUS_NAME)
#undef STATUS_NAME
};

static const char *const texts[] = {
#define STATUS_TEXT(name, text) text,
	WEIR_STATUSES(STATUS_TEXT)
#undef STATUS_TEXT
};

static bool
known(enum weir_status status)
{
	return (size_t)status < sizeof(names) / sizeof(names[0]);
}

const char *
weir_status_name(enum weir_status status)
{
	return known(status) ? names[status] : "WEIR_?";
}

const char *
weir_status_text(enum weir_status status)
{
	return known(status) ? texts[status] : "unknown status";
}

enum weir_status
weir_last_status(void)
{
	return last.status;
}

const char *
weir_last_error(void)
{
	return last.text;
}

#define TEXT_OF(x) TEXT_OF_VALUE(x)
#define TEXT_OF_VALUE(x) #x

const char *
weir_version(void)
{
	return TEXT_OF(WEIR_VERSION_MAJOR) "." TEXT_OF(
	    WEIR_VERSION_MINOR) "." TEXT_OF(WEIR_VERSION_PATCH);
}

/* Where the text of a failure goes now. */
static char *
buffer(void)
{
	return last.muted != 0 ? last.muted_text : last.text;
}

enum weir_status
status_set(enum weir_status status, const char *format, ...)
{
	char text[STATUS_TEXT_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	memcpy(buffer(), text, strlen(text) + 1);
	last.latest = status;
	if (last.muted == 0)
		last.status = status;
	return status;
}

enum weir_status
status_prefix(const char *format, ...)
{
	char prefix[STATUS_TEXT_SIZE];
	enum weir_status status = last.muted != 0 ? last.latest : last.status;
	char *text = buffer();
	size_t length;
	size_t kept;
	va_list args;

	if (status == WEIR_OK)
		return WEIR_OK;
	va_start(args, format);
	vsnprintf(prefix, sizeof(prefix) - 2, format, args);
	va_end(args);
	strcat(prefix, ": ");

	length = strlen(prefix);
	kept = strnlen(text, STATUS_TEXT_SIZE - 1 - length);
	memmove(text + length, text, kept);
	memcpy(text, prefix, length);
	text[length + kept] = '\0';
	return status;
}

const char *
status_latest_text(void)
{
	return buffer();
}

void
status_mute(void)
{
	last.muted++;
}

void
status_unmute(void)
{
	last.muted--;
}

enum weir_status
status_unmute_and_tell(void)
{
	last.muted--;
	return status_set(last.latest, "%s", last.muted_text);
}
