/*
 * The report as text: tables with aligned columns, warnings last.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/utf8.h"
#include "tools/report/report.h"
#include "tools/report/tuning.h"

/* The file of a report, and the escapes for its colours. */
struct page {
	FILE *file;
	const char *bold;
	const char *alarm;
	const char *plain;
};

static struct page
page_on(FILE *file, bool colour)
{
	return (struct page){ file, colour ? "\033[1m" : "",
		colour ? "\033[1;33m" : "", colour ? "\033[0m" : "" };
}

static void
heading(const struct page *page, const char *text)
{
	fprintf(page->file, "%s%s%s\n", page->bold, text, page->plain);
}

/* Write a duration, such as "870 ns", "12.3 us" or "4.56 s". */
static const char *
format_time(uint64_t ns, char *text, size_t size)
{
	if (ns < 1000)
		snprintf(text, size, "%" PRIu64 " ns", ns);
	else if (ns < 1000 * 1000)
		snprintf(text, size, "%.2f us", (double)ns / 1e3);
	else if (ns < 1000 * 1000 * 1000)
		snprintf(text, size, "%.2f ms", (double)ns / 1e6);
	else
		snprintf(text, size, "%.2f s", (double)ns / 1e9);
	return text;
}

/* Print a row: a value of a unit, "bytes", "ns" or "" for a count. */
static void
print_figure(const struct page *page, const char *label, const char *unit,
    uint64_t value, const char *note)
{
	char text[32];

	if (strcmp(unit, "bytes") == 0)
		os_format_bytes(value, text, sizeof(text));
	else if (strcmp(unit, "ns") == 0)
		format_time(value, text, sizeof(text));
	else
		snprintf(text, sizeof(text), "%" PRIu64, value);
	fprintf(page->file, "  %-20s %12s%s%s\n", label, text,
	    *note == '\0' ? "" : "   ", note);
}

static double
percent(uint64_t part, uint64_t whole)
{
	return whole == 0 ? 0 : 100.0 * (double)part / (double)whole;
}

/* ---- Figures ----------------------------------------------------------- */

struct figure_row {
	const char *label;
	const char *unit;
	const char *note;
	size_t offset;
	enum report_table table;
	bool own;
};

static const struct figure_row figure_rows[] = {
#define FIGURE_ROW(name, unit, table, own, label, note)                        \
	{ label, unit, note, offsetof(struct report, name), table, own },
	REPORT_FIGURES(FIGURE_ROW)
#undef FIGURE_ROW
};

/* The note of a row. Some notes say other figures, and are written to `text`.
 */
static const char *
figure_note(const struct report *report, const struct figure_row *row,
    char *text, size_t size)
{
	uint64_t blocks = report->live_blocks_at_exit;
	char time[32];

	if (row->offset == offsetof(struct report, live_bytes_at_exit) &&
	    blocks > 0)
		snprintf(text, size, "in %" PRIu64 " block%s%s", blocks,
		    blocks == 1 ? "" : "s",
		    report->leaks == NULL && !report->stacks_lost ?
			"; --leaks shows the stacks" :
			"");
	else if (row->offset == offsetof(struct report, calls_saved))
		snprintf(text, size, "%.1f %% of both, with no driver call",
		    percent(report->calls_saved,
			report->allocations_served + report->frees_served));
	else if (row->offset == offsetof(struct report, driver_calls_made))
		snprintf(text, size, "in %s",
		    format_time(report->driver_ns, time, sizeof(time)));
	else
		return row->note;
	return text;
}

static void
print_figures(const struct page *page, const struct report *report,
    enum report_table table)
{
	for (size_t i = 0; i < sizeof(figure_rows) / sizeof(figure_rows[0]);
	     i++) {
		const struct figure_row *row = &figure_rows[i];
		char text[64];
		uint64_t value;

		if (row->table != table || (row->own && report->library))
			continue;
		memcpy(
		    &value, (const char *)report + row->offset, sizeof(value));
		print_figure(page, row->label, row->unit, value,
		    figure_note(report, row, text, sizeof(text)));
	}
}

static void
print_counters(const struct page *page, const struct counters *counters,
    enum counter_report where)
{
	for (size_t i = 0; i < COUNTER_COUNT; i++)
		if (counter_rows[i].report == where)
			print_figure(page, counter_rows[i].label,
			    counter_rows[i].unit, counters->values[i],
			    counter_rows[i].note);
}

static void
print_page_locked(const struct page *page, const struct report *report)
{
	const char *source = report->pinned_source;
	char note[64] = "";

	if (report->pinned.held_peak_bytes == 0)
		return;
	heading(page, "page-locked memory");
	if (source != NULL)
		snprintf(note, sizeof(note), "pinned_source: %s", source);
	print_figure(
	    page, "peak held", "bytes", report->pinned.held_peak_bytes, note);
	print_counters(page, &report->pinned, REPORTED_PINNED);
}

/* Print the figures of a table that are not 0, below its heading. */
static void
print_if_any(const struct page *page, const struct report *report,
    enum counter_report where, const char *title)
{
	bool any = false;

	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		const struct counter_row *row = &counter_rows[i];

		if (row->report != where || report->memory.values[i] == 0)
			continue;
		if (!any)
			heading(page, title);
		any = true;
		print_figure(page, row->label, row->unit,
		    report->memory.values[i], row->note);
	}
}

/* Print the entry points that took most time. */
static void
print_driver_calls(const struct page *page, const struct report *report)
{
	bool printed[COUNT_ENTRIES] = { false };

	if (report->driver_calls_made == 0)
		return;
	fprintf(page->file, "%s%-36s %11s %12s%s\n", page->bold,
	    "longest driver calls", "calls", "time", page->plain);
	for (int row = 0; row < REPORT_CALLS_SHOWN; row++) {
		const struct report_entry *most = NULL;
		char time[32];
		size_t which = 0;

		for (size_t i = 0; i < COUNT_ENTRIES; i++) {
			const struct report_entry *entry = &report->entries[i];

			if (printed[i] || entry->calls == 0 ||
			    (most != NULL && entry->ns <= most->ns))
				continue;
			most = entry;
			which = i;
		}
		if (most == NULL)
			return;
		printed[which] = true;
		fprintf(page->file, "  %-34s %11" PRIu64 " %12s\n",
		    count_name(which), most->calls,
		    format_time(most->ns, time, sizeof(time)));
	}
}

static void
print_report_streams(const struct page *page, const struct report *report)
{
	bool devices = false;

	if (report->n_streams == 0)
		return;
	for (size_t i = 0; i < report->n_streams; i++)
		devices = devices ||
		    report->streams[i].device != report->streams[0].device;
	fprintf(page->file, "%s%-22s %12s %12s %8s %12s%s\n", page->bold,
	    "streams", "requests", "hits", "", "requested", page->plain);
	for (size_t i = 0; i < report->n_streams; i++) {
		const struct report_stream *stream = &report->streams[i];
		char name[32];
		char full[48];
		char bytes[32];

		report_stream_name(stream, name, sizeof(name));
		if (devices && stream->device >= 0)
			snprintf(
			    full, sizeof(full), "%d: %s", stream->device, name);
		else
			snprintf(full, sizeof(full), "%s", name);
		fprintf(page->file,
		    "  %-20s %12" PRIu64 " %12" PRIu64 " %6.1f %% %12s\n", full,
		    stream->requests, stream->hits,
		    percent(stream->hits, stream->requests),
		    os_format_bytes(stream->bytes, bytes, sizeof(bytes)));
	}
}

/* ---- Sites ------------------------------------------------------------- */

static void
print_frame(void *user, const char *line)
{
	const struct page *page = user;
	char plain[1024];

	utf8_copy_plain(plain, sizeof(plain), line);
	fprintf(page->file, "      %s\n", plain);
}

/* Print an amount, such as "3 blocks, 6.00 MiB". */
static void
print_amount(const struct page *page, uint64_t blocks, uint64_t bytes)
{
	char text[32];

	fprintf(page->file, "%" PRIu64 " block%s, %s", blocks,
	    blocks == 1 ? "" : "s", os_format_bytes(bytes, text, sizeof(text)));
}

static void
print_leaks(struct page *page, const struct report *report)
{
	const struct site_list *list = report->leaks;

	if (list == NULL && !report->stacks_lost)
		return;
	fprintf(page->file, "%snot freed: %s", page->bold, page->plain);
	if (list == NULL) {
		fprintf(page->file,
		    "the stacks were lost with the process, which did not "
		    "write its report itself.\n"
		    "  --history --snapshot FILE keeps them, also at SIGTERM; "
		    "'weir leaks FILE' shows them.\n");
		return;
	}
	print_amount(page, list->blocks, list->bytes);
	fprintf(page->file, "\n");
	for (size_t i = 0; i < list->n; i++) {
		fprintf(page->file, "  ");
		print_amount(page, list->sites[i].blocks, list->sites[i].bytes);
		fprintf(page->file, " allocated by\n");
		report->describe(list->sites[i].stack, print_frame, page);
	}
}

static void
print_top_sites(struct page *page, const struct report *report)
{
	const struct site_list *list = report->top;

	if (list == NULL)
		return;
	fprintf(page->file, "%sallocated at the peak%s, %zu of %zu sites\n",
	    page->bold, page->plain, list->n, list->n_all);
	for (size_t i = 0; i < list->n; i++) {
		const struct site *site = &list->sites[i];

		fprintf(page->file, "  ");
		print_amount(page, site->blocks_at_peak, site->bytes_at_peak);
		fprintf(page->file, "; in all ");
		print_amount(page, site->all_blocks, site->all_bytes);
		fprintf(page->file, ", by\n");
		report->describe(site->stack, print_frame, page);
	}
}

/* Name the command that says what would have helped: a report has no recording
 * to replay. */
static void
print_remedy_of_failures(const struct page *page, const struct report *report)
{
	uint64_t ooms = report->memory.ooms;

	if (ooms == 0)
		return;
	fprintf(page->file,
	    "%sout of memory:%s 'weir advise FILE' says which settings help, "
	    "as "
	    "replays show.\n"
	    "  'weir run --history --snapshot FILE' records what it needs.\n",
	    page->alarm, page->plain);
}

static void
print_warnings(const struct page *page, const struct report *report)
{
	if (report->barriers == 0)
		return;
	fprintf(page->file,
	    "%swarning:%s %" PRIu64
	    " time%s only a cudaFree() followed copies to the host,\n"
	    "  and under weir it does not wait. If the program reads the "
	    "copies, let it wait\n"
	    "  for the stream, or set WEIR_PRELOAD_FREE=strict.\n",
	    page->alarm, page->plain, report->barriers,
	    report->barriers == 1 ? "" : "s");
}

/* The name of a signal without its SIG; NULL if it has none. */
static const char *
signal_abbreviation(int number)
{
	static const char *const names[] = { [SIGHUP] = "HUP",
		[SIGINT] = "INT",
		[SIGQUIT] = "QUIT",
		[SIGILL] = "ILL",
		[SIGTRAP] = "TRAP",
		[SIGABRT] = "ABRT",
		[SIGBUS] = "BUS",
		[SIGFPE] = "FPE",
		[SIGKILL] = "KILL",
		[SIGUSR1] = "USR1",
		[SIGSEGV] = "SEGV",
		[SIGUSR2] = "USR2",
		[SIGPIPE] = "PIPE",
		[SIGALRM] = "ALRM",
		[SIGTERM] = "TERM",
		[SIGCHLD] = "CHLD",
		[SIGCONT] = "CONT",
		[SIGSTOP] = "STOP",
		[SIGTSTP] = "TSTP",
		[SIGTTIN] = "TTIN",
		[SIGTTOU] = "TTOU",
		[SIGURG] = "URG",
		[SIGXCPU] = "XCPU",
		[SIGXFSZ] = "XFSZ",
		[SIGVTALRM] = "VTALRM",
		[SIGPROF] = "PROF",
		[SIGWINCH] = "WINCH",
		[SIGIO] = "POLL",
		[SIGPWR] = "PWR",
		[SIGSYS] = "SYS" };

	if (number < 0 || (size_t)number >= sizeof(names) / sizeof(*names))
		return NULL;
	return names[number];
}

static void
print_end(const struct page *page, const struct report *report)
{
	const char *name = report->end == REPORT_SIGNAL ?
	    signal_abbreviation(report->code) :
	    NULL;

	if (report->end == REPORT_SIGNAL && name != NULL)
		fprintf(page->file, "%sended by SIG%s%s\n", page->alarm, name,
		    page->plain);
	else if (report->end == REPORT_SIGNAL)
		fprintf(page->file, "%sended by signal %d%s\n", page->alarm,
		    report->code, page->plain);
	else if (report->end == REPORT_STATUS)
		fprintf(page->file,
		    "%sended with status %d, without exit handlers%s\n",
		    page->alarm, report->code, page->plain);
	else if (report->end == REPORT_LOST)
		fprintf(page->file, "%sended without exit handlers%s\n",
		    page->alarm, page->plain);
}

/* True if the program made a call that weir serves. */
static bool
asks_for_memory(const struct report *report)
{
	for (int i = 0; i < HOOK_COUNT; i++)
		if (report->calls[i].seen > 0 &&
		    strstr(hook_name((enum hook_id)i), "Alloc") != NULL)
			return true;
	return false;
}

void
report_write_text(FILE *file, const struct report *report, bool colour)
{
	struct page page = page_on(file, colour);
	char program[256];

	utf8_copy_plain(program, sizeof(program), report->program);
	fprintf(file, "%sweir: %s%s, process %ld%s\n", page.bold, program,
	    page.plain, report->pid,
	    report->library     ? " (served by its own libweir)" :
		report->serving ? "" :
		asks_for_memory(report) ?
				  " (served nothing: see the messages above)" :
				  " (it asked the driver for no memory)");
	print_end(&page, report);
	heading(&page, "memory");
	print_figures(&page, report, REPORT_MEMORY);
	print_page_locked(&page, report);
	print_if_any(
	    &page, report, REPORTED_OUTSIDE, "from the driver itself, at most");
	print_if_any(&page, report, REPORTED_PLAN, "plan");
	heading(&page, "calls");
	print_figures(&page, report, REPORT_CALLS);
	print_counters(&page, &report->memory, REPORTED_CALLS);
	print_driver_calls(&page, report);
	print_report_streams(&page, report);
	print_top_sites(&page, report);
	print_leaks(&page, report);
	print_remedy_of_failures(&page, report);
	print_warnings(&page, report);
}
