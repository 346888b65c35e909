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

enum weir_status
status_set(enum weir_status status, const char *format, ...)
{
	char text[STATUS_TEXT_SIZE];
	va_list args;

	last.latest = status;
	if (last.muted != 0)
		return status;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	memcpy(last.text, text, strlen(text) + 1);
	last.status = status;
	return status;
}

enum weir_status
status_prefix(const char *format, ...)
{
	char prefix[STATUS_TEXT_SIZE];
	size_t length;
	size_t kept;
	va_list args;

	if (last.muted != 0 || last.status == WEIR_OK)
		return last.latest;
	va_start(args, format);
	vsnprintf(prefix, sizeof(prefix) - 2, format, args);
	va_end(args);
	strcat(prefix, ": ");

	length = strlen(prefix);
	kept = strnlen(last.text, sizeof(last.text) - 1 - length);
	memmove(last.text + length, last.text, kept);
	memcpy(last.text, prefix, length);
	last.text[length + kept] = '\0';
	return last.status;
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
