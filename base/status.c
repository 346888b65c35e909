/*
 * The last failure of each thread: its status and one line of text.
 *
 * The texts are pages of the thread, mapped at its first failure and unmapped
 * at its end. They are not in thread-local storage, because that is allocated
 * on the thread's stack, which may have only 16 KiB. For this reason a text is
 * also formatted in its final place, in a third buffer, so that the arguments
 * may point into the text that it replaces. If no page can be mapped, the text
 * is that of the status.
 */
#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct texts {
	char *text;  /* of the last failure that was recorded */
	char *muted; /* of the last failure while muted */
	char *spare; /* where the next text is formatted */
	char places[3][STATUS_TEXT_SIZE];
};

static _Thread_local struct {
	enum weir_status status; /* of the last failure that was recorded */
	enum weir_status latest; /* of the last failure, also while muted */
	int error;               /* errno of the last failure; 0: none */
	int latest_error;        /* also while muted */
	unsigned muted;          /* depth of status_mute() */
	struct texts *texts;     /* NULL: not allocated */
} last;

/* A thread with texts has them as its value for this key, so that its end is
 * noticed. */
static pthread_key_t key;
static atomic_bool key_usable;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

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

/* ---- Texts ------------------------------------------------------------- */

/* The end of a thread. Destructors that run later may fail again; then this
 * function runs again. */
static void
drop_texts(void *texts)
{
	if (!atomic_load(&key_usable))
		return;
	last.texts = NULL;
	munmap(texts, sizeof(struct texts));
}

static void
make_text_key(void)
{
	if (pthread_key_create(&key, drop_texts) == 0)
		atomic_store(&key_usable, true);
}

/* At exit or dlclose(): the code of drop_texts() may be unloaded soon. */
__attribute__((destructor)) static void
drop_key(void)
{
	if (atomic_exchange(&key_usable, false))
		pthread_key_delete(key);
}

/* Without a key the texts of an ended thread stay mapped. */
static __attribute__((noinline)) struct texts *
make_texts(void)
{
	struct texts *texts = mmap(NULL, sizeof(*texts), PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (texts == MAP_FAILED)
		return NULL;
	texts->text = texts->places[0];
	texts->muted = texts->places[1];
	texts->spare = texts->places[2];
	pthread_once(&key_once, make_text_key);
	if (atomic_load(&key_usable))
		pthread_setspecific(key, texts);
	last.texts = texts;
	return texts;
}

static struct texts *
own_texts(void)
{
	return last.texts != NULL ? last.texts : make_texts();
}

/* Make the formatted text the text of a failure. */
static void
show_text(struct texts *texts)
{
	char **place = last.muted != 0 ? &texts->muted : &texts->text;
	char *old = *place;

	*place = texts->spare;
	texts->spare = old;
}

/* ---- The last failure -------------------------------------------------- */

enum weir_status
weir_last_status(void)
{
	return last.status;
}

int
weir_last_errno(void)
{
	return last.error;
}

const char *
weir_last_error(void)
{
	if (last.texts != NULL)
		return last.texts->text;
	return last.status == WEIR_OK ? "" : weir_status_text(last.status);
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
	struct texts *texts = own_texts();
	va_list args;

	if (texts != NULL) {
		va_start(args, format);
		vsnprintf(texts->spare, STATUS_TEXT_SIZE, format, args);
		va_end(args);
		show_text(texts);
	}
	last.latest = status;
	if (last.muted == 0)
		last.status = status;
	return status_errno(status, 0);
}

enum weir_status
status_errno(enum weir_status status, int error)
{
	last.latest_error = error;
	if (last.muted == 0)
		last.error = error;
	return status;
}

enum weir_status
status_forked(const char *call)
{
	return status_set(WEIR_EFORK,
	    "%s: CUDA cannot be used in a forked child: exec() a new program "
	    "instead, or fork() before weir is used",
	    call);
}

enum weir_status
status_prefix(const char *format, ...)
{
	enum weir_status status = last.muted != 0 ? last.latest : last.status;
	struct texts *texts = last.texts;
	va_list args;

	if (status == WEIR_OK || texts == NULL)
		return status;
	va_start(args, format);
	vsnprintf(texts->spare, STATUS_TEXT_SIZE - 2, format, args);
	va_end(args);
	strcat(texts->spare, ": ");
	strncat(texts->spare, status_latest_text(),
	    STATUS_TEXT_SIZE - 1 - strlen(texts->spare));
	show_text(texts);
	return status;
}

const char *
status_latest_text(void)
{
	if (last.texts == NULL)
		return weir_status_text(last.latest);
	return last.muted != 0 ? last.texts->muted : last.texts->text;
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
status_unmute_and_report(void)
{
	const char *text = last.texts != NULL ? last.texts->muted :
						weir_status_text(last.latest);

	int error = last.latest_error;

	last.muted--;
	status_set(last.latest, "%s", text);
	return status_errno(last.latest, error);
}
