/*
 * Conversion of the tables of Nsight Systems to events of Chrome's form.
 *
 * Times in the tables are nanoseconds since the session began.
 * TARGET_INFO_SESSION_START_TIME gives the begin in nanoseconds since 1970.
 * Names are numbers of StringIds. A thread's number has its process in bits 24
 * to 47.
 *
 * Any table or column may be missing: a table exists only if something of its
 * kind was recorded, and columns differ between versions. PROCESSES and
 * ThreadNames have a row for each process and thread of the machine, so only
 * those with events get a name. A graph is one row of
 * CUPTI_ACTIVITY_KIND_GRAPH_TRACE. With --cuda-graph-trace=node, the nodes of a
 * graph are rows of the other tables instead.
 */
#include "tools/weir/export/nsys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/reading/sqlite_read.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"

/* A time above a hundred days is invalid. */
#define MOST_NS INT64_C(8640000000000000)

/* The bits of a thread's number by which the threads of a process differ. */
#define THREAD_BITS INT64_C(0xffffff)

/* The event types of NVTX_EVENTS. */
enum { NVTX_MARK = 34, NVTX_PUSH_POP = 59, NVTX_START_END = 60 };

/* The event class of calls of the driver's API. Other classes are calls of the
 * runtime. */
enum { CLASS_DRIVER = 1 };

struct name {
	int64_t id; /* the first field: compare_ids() */
	char *text;
	size_t length;
};

struct nsys {
	struct sqlite db;
	struct name *names; /* sorted by their ids */
	size_t name_count;
	size_t name_capacity;
	int64_t start_ns; /* begin of the session, since 1970; 0: unknown */
	FILE *out;
	bool begun;      /* the next event needs a comma before it */
	uint64_t ranges; /* the number of the next START_END range */
	int64_t named[NSYS_NAMED]
		     [2]; /* device and stream; stream -1: the device */
	size_t named_count;
	int64_t *threads; /* with events; sorted up to the last ones */
	size_t thread_count;
	size_t thread_capacity;
	bool no_memory;
};

static void
read_nsys_start(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;

	if (values[0].kind == SQLITE_INTEGER)
		nsys->start_ns = values[0].integer;
}

/* ---- Names --------------------------------------------------------------- */

static void
read_nsys_name(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;
	struct name *name;

	if (values[0].kind != SQLITE_INTEGER || values[1].kind != SQLITE_TEXT)
		return;
	if (nsys->name_count == nsys->name_capacity) {
		size_t capacity =
		    nsys->name_capacity == 0 ? 64 : 2 * nsys->name_capacity;
		struct name *names =
		    realloc(nsys->names, capacity * sizeof(*names));

		if (names == NULL) {
			nsys->no_memory = true;
			return;
		}
		nsys->names = names;
		nsys->name_capacity = capacity;
	}
	name = &nsys->names[nsys->name_count];
	*name = (struct name){ values[0].integer, malloc(values[1].length + 1),
		values[1].length };
	if (name->text == NULL) {
		nsys->no_memory = true;
		return;
	}
	memcpy(name->text, values[1].text, name->length);
	nsys->name_count++;
}

/* Compare two numbers, or two names by their ids. */
static int
compare_ids(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a;
	int64_t y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static const struct name *
find_name(const struct nsys *nsys, const struct sqlite_value *id)
{
	struct name key = { .id = id->integer };

	return id->kind != SQLITE_INTEGER || nsys->name_count == 0 ?
	    NULL :
	    bsearch(
		&key, nsys->names, nsys->name_count, sizeof(key), compare_ids);
}

static void
out_text(struct nsys *nsys, const char *text, size_t length)
{
	putc('"', nsys->out);
	json_escaped(text, length, nsys->out);
	putc('"', nsys->out);
}

static void
out_name(struct nsys *nsys, const struct sqlite_value *id, const char *other)
{
	const struct name *name = find_name(nsys, id);

	if (name != NULL)
		out_text(nsys, name->text, name->length);
	else
		out_text(nsys, other, strlen(other));
}

/* The length of the name of a call without the version of the runtime at its
 * end: cudaMalloc_v3020. Names of the driver's calls have one digit there,
 * which is part of the name: cuMemAlloc_v2. */
static size_t
call_name_length(const struct name *name)
{
	size_t at = name->length;

	while (at > 0 && name->text[at - 1] >= '0' && name->text[at - 1] <= '9')
		at--;
	return at > 2 && name->length - at >= 4 &&
		memcmp(name->text + at - 2, "_v", 2) == 0 ?
	    at - 2 :
	    name->length;
}

/* ---- Threads with events ------------------------------------------------- */

/* Sort the threads, and keep each once. */
static void
sort_threads(struct nsys *nsys)
{
	size_t kept = 0;

	if (nsys->thread_count == 0)
		return;
	qsort(nsys->threads, nsys->thread_count, sizeof(*nsys->threads),
	    compare_ids);
	for (size_t i = 1; i < nsys->thread_count; i++)
		if (nsys->threads[i] != nsys->threads[kept])
			nsys->threads[++kept] = nsys->threads[i];
	nsys->thread_count = kept + 1;
}

/* Make room for one more thread. The array grows only if sorting it frees less
 * than half of it, so it takes twice the memory of the threads at most. */
static bool
reserve_thread(struct nsys *nsys)
{
	size_t capacity = nsys->thread_capacity;
	int64_t *threads;

	if (nsys->thread_count < capacity)
		return true;
	sort_threads(nsys);
	if (nsys->thread_count < capacity / 2)
		return true;
	capacity = capacity == 0 ? 64 : 2 * capacity;
	threads = realloc(nsys->threads, capacity * sizeof(*threads));
	if (threads == NULL)
		return false;
	nsys->threads = threads;
	nsys->thread_capacity = capacity;
	return true;
}

static void
add_thread(struct nsys *nsys, int64_t thread)
{
	if (nsys->thread_count > 0 &&
	    nsys->threads[nsys->thread_count - 1] == thread)
		return;
	if (reserve_thread(nsys))
		nsys->threads[nsys->thread_count++] = thread;
	else
		nsys->no_memory = true;
}

/* Do any of the threads with numbers from `first` to `last` have events? */
static bool
has_events(const struct nsys *nsys, int64_t first, int64_t last)
{
	size_t from = 0;
	size_t to = nsys->thread_count;

	while (from < to) {
		size_t middle = (from + to) / 2;
		if (nsys->threads[middle] < first)
			from = middle + 1;
		else
			to = middle;
	}
	return from < nsys->thread_count && nsys->threads[from] <= last;
}

/* ---- Events -------------------------------------------------------------- */

static bool
is_time(const struct sqlite_value *value)
{
	return value->kind == SQLITE_INTEGER && value->integer >= 0 &&
	    value->integer <= MOST_NS;
}

static int64_t
integer_of(const struct sqlite_value *value)
{
	return value->kind == SQLITE_INTEGER ? value->integer : 0;
}

static void
out_us(struct nsys *nsys, int64_t ns)
{
	fprintf(nsys->out, "%" PRId64 ".%03" PRId64, ns / 1000, ns % 1000);
}

static void
begin_event(struct nsys *nsys, char phase, int64_t process, int64_t thread)
{
	fprintf(nsys->out,
	    "%s{\"ph\": \"%c\", \"pid\": %" PRId64 ", \"tid\": %" PRId64,
	    nsys->begun ? ",\n" : "\n", phase, process, thread);
	nsys->begun = true;
}

static void
out_times(struct nsys *nsys, int64_t start, int64_t end)
{
	fputs(", \"ts\": ", nsys->out);
	out_us(nsys, start);
	fputs(", \"dur\": ", nsys->out);
	out_us(nsys, end > start ? end - start : 0);
}

static int64_t
process_of_thread(const struct sqlite_value *thread)
{
	return integer_of(thread) >> 24 & 0xffffff;
}

static int64_t
thread_of(const struct sqlite_value *thread)
{
	return integer_of(thread) & THREAD_BITS;
}

/* Begin an event of a thread, which then gets a name. */
static void
begin_thread_event(
    struct nsys *nsys, char phase, const struct sqlite_value *thread)
{
	add_thread(nsys, integer_of(thread));
	begin_event(nsys, phase, process_of_thread(thread), thread_of(thread));
}

/* Write the name of a device (stream -1) or of a stream, unless it has been
 * written before. */
static void
name_row(struct nsys *nsys, int64_t device, int64_t stream)
{
	for (size_t i = nsys->named_count; i-- > 0;)
		if (nsys->named[i][0] == device && nsys->named[i][1] == stream)
			return;
	if (nsys->named_count == NSYS_NAMED)
		return;
	nsys->named[nsys->named_count][0] = device;
	nsys->named[nsys->named_count++][1] = stream;
	begin_event(
	    nsys, 'M', NSYS_DEVICE_PROCESS + device, stream < 0 ? 0 : stream);
	if (stream < 0)
		fprintf(nsys->out,
		    ", \"name\": \"process_name\", \"args\": {\"name\": \"GPU "
		    "%" PRId64 "\"}}",
		    device);
	else
		fprintf(nsys->out,
		    ", \"name\": \"thread_name\", \"args\": {\"name\": "
		    "\"stream %" PRId64 "\"}}",
		    stream);
}

/* False if CUPTI could not measure the work. One of the times is 0 then. */
static bool
is_measured(const struct sqlite_value *values)
{
	return is_time(&values[0]) && is_time(&values[1]) &&
	    values[1].integer >= values[0].integer && values[1].integer > 0;
}

/* Begin the event of work on a device. The first columns are start, end,
 * deviceId and streamId; the rest depends on the kind. False if the work has no
 * time. */
static bool
begin_work(struct nsys *nsys, const struct sqlite_value *values)
{
	int64_t device = integer_of(&values[2]) & 0xffff;
	int64_t stream = integer_of(&values[3]) & INT32_MAX;

	if (!is_measured(values))
		return false;
	name_row(nsys, device, -1);
	name_row(nsys, device, stream);
	begin_event(nsys, 'X', NSYS_DEVICE_PROCESS + device, stream);
	out_times(nsys, values[0].integer, values[1].integer);
	return true;
}

static void
write_nsys_kernel(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;

	if (!begin_work(nsys, values))
		return;
	fputs(", \"cat\": \"kernel\", \"name\": ", nsys->out);
	out_name(nsys, values[4].kind == SQLITE_NULL ? &values[5] : &values[4],
	    "kernel");
	fprintf(nsys->out, ", \"args\": {\"correlation\": %" PRId64 "}}",
	    integer_of(&values[6]));
}

/* The name of a kind of copy, by its number in ENUM_CUDA_MEMCPY_OPER. */
static const char *
copy_kind_name(int64_t kind)
{
	static const char *const names[] = { "Memcpy", "Memcpy HtoD",
		"Memcpy DtoH", "Memcpy HtoA", "Memcpy AtoH", "Memcpy AtoA",
		"Memcpy AtoD", "Memcpy DtoA", "Memcpy DtoD", "Memcpy HtoH",
		"Memcpy PtoP", "Memcpy HtoD (unified)", "Memcpy DtoH (unified)",
		"Memcpy DtoD (unified)" };
	const int64_t count = sizeof(names) / sizeof(names[0]);

	return names[kind >= 0 && kind < count ? kind : 0];
}

static void
write_nsys_copy(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;

	if (!begin_work(nsys, values))
		return;
	fprintf(nsys->out,
	    ", \"cat\": \"gpu_memcpy\", \"name\": \"%s\", \"args\": "
	    "{\"bytes\": %" PRId64 ", \"correlation\": %" PRId64 "}}",
	    copy_kind_name(integer_of(&values[4])), integer_of(&values[5]),
	    integer_of(&values[6]));
}

static void
write_nsys_fill(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;

	if (!begin_work(nsys, values))
		return;
	fprintf(nsys->out,
	    ", \"cat\": \"gpu_memset\", \"name\": \"Memset\", \"args\": "
	    "{\"bytes\": %" PRId64 ", \"correlation\": %" PRId64 "}}",
	    integer_of(&values[4]), integer_of(&values[5]));
}

static void
write_nsys_graph(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;

	if (!begin_work(nsys, values))
		return;
	fprintf(nsys->out,
	    ", \"cat\": \"cuda_graph\", \"name\": \"graph %" PRId64
	    "\", \"args\": {\"correlation\": %" PRId64 "}}",
	    integer_of(&values[4]), integer_of(&values[5]));
}

static void
write_nsys_call(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;
	const struct name *name = find_name(nsys, &values[3]);

	if (!is_time(&values[0]) || !is_time(&values[1]))
		return;
	begin_thread_event(nsys, 'X', &values[2]);
	out_times(nsys, values[0].integer, values[1].integer);
	fprintf(nsys->out, ", \"cat\": \"%s\", \"name\": ",
	    integer_of(&values[5]) == CLASS_DRIVER ? "cuda_driver" :
						     "cuda_runtime");
	if (name != NULL)
		out_text(nsys, name->text, call_name_length(name));
	else
		out_text(nsys, "call", strlen("call"));
	fprintf(nsys->out, ", \"args\": {\"correlation\": %" PRId64 "}}",
	    integer_of(&values[4]));
}

/* Write the name of a range: the text of the row, or the string that the row
 * names by number. */
static void
out_nvtx_name(struct nsys *nsys, const struct sqlite_value *values)
{
	fputs(", \"cat\": \"nvtx\", \"name\": ", nsys->out);
	if (values[4].kind != SQLITE_TEXT) {
		out_name(nsys, &values[5], "range");
		return;
	}
	out_text(nsys, values[4].text, values[4].length);
}

/* Write a range or a mark. Ranges that are pushed and popped are nested in
 * their thread. Other ranges may overlap, so that each end is an event, and a
 * number joins both. */
static void
write_nsys_nvtx(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;
	int64_t type = integer_of(&values[2]);

	if (!is_time(&values[0]) || (type != NVTX_MARK && !is_time(&values[1])))
		return;
	if (type == NVTX_PUSH_POP) {
		begin_thread_event(nsys, 'X', &values[3]);
		out_times(nsys, values[0].integer, values[1].integer);
		out_nvtx_name(nsys, values);
	} else if (type == NVTX_MARK) {
		begin_thread_event(nsys, 'i', &values[3]);
		fputs(", \"s\": \"t\", \"ts\": ", nsys->out);
		out_us(nsys, values[0].integer);
		out_nvtx_name(nsys, values);
	} else if (type == NVTX_START_END) {
		for (int end = 0; end < 2; end++) {
			begin_thread_event(nsys, end ? 'e' : 'b', &values[3]);
			fprintf(nsys->out,
			    ", \"id\": \"nvtx-%" PRIu64 "\", \"ts\": ",
			    nsys->ranges);
			out_us(nsys, values[end].integer);
			out_nvtx_name(nsys, values);
			fputs(end ? "" : "}", nsys->out);
		}
		nsys->ranges++;
	} else {
		return;
	}
	fputs("}", nsys->out);
}

/* ---- Names of processes and threads -------------------------------------- */

static void
write_nsys_process(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;

	if (values[0].kind != SQLITE_INTEGER || values[1].kind != SQLITE_TEXT ||
	    !has_events(nsys, values[0].integer & ~THREAD_BITS,
		values[0].integer | THREAD_BITS))
		return;
	begin_event(nsys, 'M', process_of_thread(&values[0]), 0);
	fputs(", \"name\": \"process_name\", \"args\": {\"name\": ", nsys->out);
	out_text(nsys, values[1].text, values[1].length);
	fputs("}}", nsys->out);
}

static void
write_nsys_thread(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;

	if (values[0].kind != SQLITE_INTEGER ||
	    !has_events(nsys, values[0].integer, values[0].integer))
		return;
	begin_event(
	    nsys, 'M', process_of_thread(&values[0]), thread_of(&values[0]));
	fputs(", \"name\": \"thread_name\", \"args\": {\"name\": ", nsys->out);
	out_name(nsys, &values[1], "thread");
	fputs("}}", nsys->out);
}

/* ---- Tables -------------------------------------------------------------- */

static const struct sqlite_query event_queries[] = {
	{ "CUPTI_ACTIVITY_KIND_KERNEL",
	    { "start", "end", "deviceId", "streamId", "demangledName",
		"shortName", "correlationId" },
	    write_nsys_kernel, NULL },
	{ "CUPTI_ACTIVITY_KIND_MEMCPY",
	    { "start", "end", "deviceId", "streamId", "copyKind", "bytes",
		"correlationId" },
	    write_nsys_copy, NULL },
	{ "CUPTI_ACTIVITY_KIND_MEMSET",
	    { "start", "end", "deviceId", "streamId", "bytes",
		"correlationId" },
	    write_nsys_fill, NULL },
	{ "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
	    { "start", "end", "deviceId", "streamId", "graphId",
		"correlationId" },
	    write_nsys_graph, NULL },
	{ "CUPTI_ACTIVITY_KIND_RUNTIME",
	    { "start", "end", "globalTid", "nameId", "correlationId",
		"eventClass" },
	    write_nsys_call, NULL },
	{ "NVTX_EVENTS",
	    { "start", "end", "eventType", "globalTid", "text", "textId" },
	    write_nsys_nvtx, NULL },
};

static const struct sqlite_query name_queries[] = {
	{ "PROCESSES", { "globalPid", "name" }, write_nsys_process, NULL },
	{ "ThreadNames", { "globalTid", "nameId" }, write_nsys_thread, NULL },
};

static bool
read_table(struct nsys *nsys, const struct sqlite_query *query)
{
	struct sqlite_query own = *query;

	own.argument = nsys;
	return sqlite_read(&nsys->db, &own);
}

static bool
read_tables(struct nsys *nsys, const struct sqlite_query *queries, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!read_table(nsys, &queries[i]))
			return false;
	return true;
}

static const char *
read_names(struct nsys *nsys)
{
	static const struct sqlite_query start = {
		"TARGET_INFO_SESSION_START_TIME", { "utcEpochNs" },
		read_nsys_start, NULL
	};
	static const struct sqlite_query names = { "StringIds",
		{ "id", "value" }, read_nsys_name, NULL };

	if (!read_table(nsys, &start) || !read_table(nsys, &names))
		return nsys->db.why;
	if (nsys->start_ns <= 0)
		return "it is no export of Nsight Systems, or does not say "
		       "when the session began "
		       "(TARGET_INFO_SESSION_START_TIME)";
	if (nsys->name_count > 0)
		qsort(nsys->names, nsys->name_count, sizeof(*nsys->names),
		    compare_ids);
	return NULL;
}

static const char *
write_nsys_events(struct nsys *nsys, char **text, size_t *length)
{
	nsys->out = open_memstream(text, length);
	if (nsys->out == NULL)
		return "out of memory";
	fprintf(nsys->out,
	    "{\"baseTimeNanoseconds\": %" PRId64 ", \"traceEvents\": [",
	    nsys->start_ns);
	if (read_tables(nsys, event_queries,
		sizeof(event_queries) / sizeof(event_queries[0]))) {
		sort_threads(nsys);
		read_tables(nsys, name_queries,
		    sizeof(name_queries) / sizeof(name_queries[0]));
	}
	fputs("]}\n", nsys->out);
	if (fclose(nsys->out) != 0)
		return "out of memory";
	return nsys->db.why;
}

const char *
nsys_to_chrome(const void *database, size_t bytes, char **text, size_t *length)
{
	struct nsys nsys = { .start_ns = 0 };
	const char *why;

	*text = NULL;
	if (!sqlite_open(&nsys.db, database, bytes))
		return nsys.db.why;
	why = read_names(&nsys);
	if (why == NULL)
		why = write_nsys_events(&nsys, text, length);
	for (size_t i = 0; i < nsys.name_count; i++)
		free(nsys.names[i].text);
	free(nsys.names);
	free(nsys.threads);
	if (why == NULL && !nsys.no_memory)
		return NULL;
	free(*text);
	*text = NULL;
	return why != NULL ? why : "out of memory";
}
