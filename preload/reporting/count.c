/*
 * The driver calls that weir itself makes, counted and timed by entry point.
 *
 * weir calls the driver through a table of pointers. For a report, each pointer
 * leads to a function here that forwards the call and reads the clock before
 * and after it. Without a report the table has the driver's own functions.
 */
#include <string.h>

#include "base/os.h"
#include "preload/reporting/tally.h"

/*
 * One function calls entries of all types. The ABIs that are supported pass up
 * to six integers or pointers in registers, and the callee reads those that it
 * needs. So all six are forwarded unchanged.
 */
enum { REGISTERS = 6 };
typedef uintptr_t word;
typedef CUresult any_entry(word, word, word, word, word, word);

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "preload/reporting/count.c knows x86-64 and aarch64"
#endif

struct counted {
	any_entry *real;
	bool question;
	bool tells; /* calls change the numbers that counters.c publishes */
};

static PRELOAD_THREAD uint64_t calls_of_thread;
static PRELOAD_THREAD uint64_t news_of_thread;

/* The function types differ on purpose. */
__attribute__((no_sanitize("undefined"))) static CUresult
call(const struct counted *counted, size_t entry, const word w[REGISTERS])
{
	struct tally *tally = tally_own();
	uint64_t start = os_monotonic_ns();
	CUresult code = counted->real(w[0], w[1], w[2], w[3], w[4], w[5]);
	uint64_t ns = os_monotonic_ns() - start;

	if (!counted->question)
		calls_of_thread++;
	if (counted->tells)
		news_of_thread++;
	ledger_add(&tally->entries[entry].calls, 1);
	ledger_add(&tally->entries[entry].ns, (int64_t)ns);
	return code;
}

#define COUNTED(name, version, required, params)                               \
	static struct counted counted_##name;                                  \
	static CUresult count_##name(                                          \
	    word a, word b, word c, word d, word e, word f)                    \
	{                                                                      \
		return call(&counted_##name, COUNT_##name,                     \
		    (const word[]){ a, b, c, d, e, f });                       \
	}
DRIVER_ENTRIES(COUNTED)
#undef COUNTED

struct row {
	const char *name;
	const char *parameters;
	struct counted *counted;
	any_entry *function;
};

static const struct row rows[] = {
#define COUNT_ROW(name, version, required, params)                             \
	{ #name, #params, &counted_##name, count_##name },
	DRIVER_ENTRIES(COUNT_ROW)
#undef COUNT_ROW
};

/* The row of "cuMemAlloc", for this name and for "cuMemAlloc_v2". */
static const struct row *
counted_row_of(const char *name)
{
	for (size_t i = 0; i < COUNT_ENTRIES; i++) {
		size_t length = strlen(rows[i].name);

		if (strncmp(rows[i].name, name, length) == 0 &&
		    (name[length] == '\0' ||
			strncmp(name + length, "_v", 2) == 0))
			return &rows[i];
	}
	return NULL;
}

/* Is it a query that the driver answers from the thread's own state? */
static bool
is_question(const char *name)
{
	static const char *const names[] = { "cuCtxGetCurrent",
		"cuCtxGetDevice", "cuCtxGetId", "cuStreamGetCtx",
		"cuStreamIsCapturing", "cuStreamGetCaptureInfo",
		"cuCtxPushCurrent", "cuCtxPopCurrent", "cuCtxSetCurrent",
		"cuThreadExchangeStreamCaptureMode" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* Does the call wait, or change how much memory is held? */
static bool
is_news(const char *name)
{
	static const char *const names[] = { "cuMemCreate", "cuMemAlloc",
		"cuMemHostAlloc", "cuMemHostRegister", "cuStreamSynchronize",
		"cuEventSynchronize", "cuCtxSynchronize", "cuStreamWaitEvent" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static bool
fits_registers(const char *parameters)
{
	int commas = 0;

	for (const char *c = parameters; *c != '\0'; c++)
		commas += *c == ',';
	return commas < REGISTERS;
}

void *
count_through(const char *name, void *real)
{
	const struct row *row = counted_row_of(name);

	if (row == NULL || real == NULL || !fits_registers(row->parameters))
		return real;
	memcpy(&row->counted->real, &real, sizeof(real));
	row->counted->question = is_question(row->name);
	row->counted->tells = is_news(row->name);
	return (void *)row->function;
}

uint64_t
count_of_thread(void)
{
	return calls_of_thread;
}

bool
count_has_news(void)
{
	bool news = news_of_thread != 0;

	news_of_thread = 0;
	return news;
}
