/*
 * From the tables of Nsight Systems to events of Chrome's form.
 *
 * Times in the tables are in nanoseconds since the session began, which
 * TARGET_INFO_SESSION_START_TIME gives in nanoseconds since 1970. Names are
 * numbers of StringIds. A thread's number has its process in bits 24 to 47. A
 * table is there only if something of its kind was recorded, and columns differ
 * between versions, so each of them may be missing. A graph is one row of
 * CUPTI_ACTIVITY_KIND_GRAPH_TRACE, unless Nsight Systems was told to record its
 * nodes (--cuda-graph-trace=node): then they are rows of the other tables.
 */
#include "tools/weir/nsys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/sqlite_read.h"
#include "tools/weir/tool.h"

/* Times beyond a hundred days are no times. */
#define MOST_NS INT64_C(8640000000000000)

/* The event types of NVTX_EVENTS. */
enum { NVTX_MARK = 34, NVTX_PUSH_POP = 59, NVTX_START_END = 60 };

/* The event class of calls of the driver's API; others are the runtime's. */
enum { CLASS_DRIVER = 1 };

/* Devices and streams that get a name; others are shown by their number. */
enum { NAMED = 512 };

struct name {
	int64_t id;
	char *text;
	size_t length;
};

struct nsys {
	struct sqlite db;
	struct name *names; /* in order of their ids */
	size_t name_count;
	size_t name_room;
	int64_t start_ns; /* since 1970; 0: not known */
	FILE *out;
	bool begun;              /* an event was written: a comma comes first */
	uint64_t ranges;         /* numbers of ranges that may overlap */
	int64_t named[NAMED][2]; /* devices and streams, 'streams' -1: device */
	size_t named_count;
	bool no_memory;
};

static void
take_start(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;

	if (values[0].kind == SQLITE_INTEGER)
		nsys->start_ns = values[0].integer;
}

/* ---- Names --------------------------------------------------------------- */

static void
take_name(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;
	struct name *name;

	if (values[0].kind != SQLITE_INTEGER || values[1].kind != SQLITE_TEXT)
		return;
	if (nsys->name_count == nsys->name_room) {
		size_t room = nsys->name_room == 0 ? 64 : 2 * nsys->name_room;
		struct name *names =
		    realloc(nsys->names, room * sizeof(*names));

		if (names == NULL) {
			nsys->no_memory = true;
			return;
		}
		nsys->names = names;
		nsys->name_room = room;
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

static int
compare_names(const void *a, const void *b)
{
	int64_t x = ((const struct name *)a)->id;
	int64_t y = ((const struct name *)b)->id;

	return (x > y) - (x < y);
}

static void
out_name(struct nsys *nsys, const struct sqlite_value *id, const char *other)
{
	struct name key = { .id = id->integer };
	const struct name *found =
	    id->kind != SQLITE_INTEGER || nsys->name_count == 0 ?
	    NULL :
	    bsearch(&key, nsys->names, nsys->name_count, sizeof(key),
		compare_names);

	putc('"', nsys->out);
	if (found != NULL)
		json_escaped(found->text, found->length, nsys->out);
	else
		json_escaped(other, strlen(other), nsys->out);
	putc('"', nsys->out);
}

/* ---- Events -------------------------------------------------------------- */

static bool
is_time(const struct sqlite_value *value)
{
	return value->kind == SQLITE_INTEGER && value->integer >= 0 &&
	    value->integer <= MOST_NS;
}

static int64_t
number_of(const struct sqlite_value *value)
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
process_of(const struct sqlite_value *thread)
{
	return number_of(thread) >> 24 & 0xffffff;
}

static int64_t
thread_of(const struct sqlite_value *thread)
{
	return number_of(thread) & 0xffffff;
}

/* Name a device (stream -1) or a stream of it, once. */
static void
name_row(struct nsys *nsys, int64_t device, int64_t stream)
{
	for (size_t i = nsys->named_count; i-- > 0;)
		if (nsys->named[i][0] == device && nsys->named[i][1] == stream)
			return;
	if (nsys->named_count == NAMED)
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

/* False where CUPTI could not measure: one of the times is 0 then. */
static bool
is_measured(const struct sqlite_value *values)
{
	return is_time(&values[0]) && is_time(&values[1]) &&
	    values[1].integer >= values[0].integer && values[1].integer > 0;
}

/* Columns of work on a device: start, end, deviceId, streamId, and then the
 * kind's own. False if it has no time. */
static bool
begin_work(struct nsys *nsys, const struct sqlite_value *values)
{
	int64_t device = number_of(&values[2]) & 0xffff;
	int64_t stream = number_of(&values[3]) & INT32_MAX;

	if (!is_measured(values))
		return false;
	name_row(nsys, device, -1);
	name_row(nsys, device, stream);
	begin_event(nsys, 'X', NSYS_DEVICE_PROCESS + device, stream);
	out_times(nsys, values[0].integer, values[1].integer);
	return true;
}

static void
take_kernel(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;

	if (!begin_work(nsys, values))
		return;
	fputs(", \"cat\": \"kernel\", \"name\": ", nsys->out);
	out_name(nsys, values[4].kind == SQLITE_NULL ? &values[5] : &values[4],
	    "kernel");
	fprintf(nsys->out, ", \"args\": {\"correlation\": %" PRId64 "}}",
	    number_of(&values[6]));
}

/* The kinds of copies, by their numbers in ENUM_CUDA_MEMCPY_OPER. */
static const char *
copy_name(int64_t kind)
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
take_copy(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;

	if (!begin_work(nsys, values))
		return;
	fprintf(nsys->out,
	    ", \"cat\": \"gpu_memcpy\", \"name\": \"%s\", \"args\": "
	    "{\"bytes\": %" PRId64 ", \"correlation\": %" PRId64 "}}",
	    copy_name(number_of(&values[4])), number_of(&values[5]),
	    number_of(&values[6]));
}

static void
take_fill(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;

	if (!begin_work(nsys, values))
		return;
	fprintf(nsys->out,
	    ", \"cat\": \"gpu_memset\", \"name\": \"Memset\", \"args\": "
	    "{\"bytes\": %" PRId64 ", \"correlation\": %" PRId64 "}}",
	    number_of(&values[4]), number_of(&values[5]));
}

static void
take_graph(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;

	if (!begin_work(nsys, values))
		return;
	fprintf(nsys->out,
	    ", \"cat\": \"cuda_graph\", \"name\": \"graph %" PRId64
	    "\", \"args\": {\"correlation\": %" PRId64 "}}",
	    number_of(&values[4]), number_of(&values[5]));
}

static void
take_call(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;

	if (!is_time(&values[0]) || !is_time(&values[1]))
		return;
	begin_event(nsys, 'X', process_of(&values[2]), thread_of(&values[2]));
	out_times(nsys, values[0].integer, values[1].integer);
	fprintf(nsys->out, ", \"cat\": \"%s\", \"name\": ",
	    number_of(&values[5]) == CLASS_DRIVER ? "cuda_driver" :
						    "cuda_runtime");
	out_name(nsys, &values[3], "call");
	fprintf(nsys->out, ", \"args\": {\"correlation\": %" PRId64 "}}",
	    number_of(&values[4]));
}

/* The text itself, or its number. */
static void
out_nvtx_name(struct nsys *nsys, const struct sqlite_value *values)
{
	fputs(", \"cat\": \"nvtx\", \"name\": ", nsys->out);
	if (values[4].kind != SQLITE_TEXT) {
		out_name(nsys, &values[5], "range");
		return;
	}
	putc('"', nsys->out);
	json_escaped(values[4].text, values[4].length, nsys->out);
	putc('"', nsys->out);
}

/* Ranges that are pushed and popped are nested in their thread; others may
 * overlap, so their two ends are events that a number joins. */
static void
take_nvtx(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;
	int64_t type = number_of(&values[2]);
	int64_t process = process_of(&values[3]);
	int64_t thread = thread_of(&values[3]);

	if (!is_time(&values[0]) || (type != NVTX_MARK && !is_time(&values[1])))
		return;
	if (type == NVTX_PUSH_POP) {
		begin_event(nsys, 'X', process, thread);
		out_times(nsys, values[0].integer, values[1].integer);
		out_nvtx_name(nsys, values);
	} else if (type == NVTX_MARK) {
		begin_event(nsys, 'i', process, thread);
		fputs(", \"s\": \"t\", \"ts\": ", nsys->out);
		out_us(nsys, values[0].integer);
		out_nvtx_name(nsys, values);
	} else if (type == NVTX_START_END) {
		for (int end = 0; end < 2; end++) {
			begin_event(nsys, end ? 'e' : 'b', process, thread);
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
take_process(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;

	if (values[0].kind != SQLITE_INTEGER || values[1].kind != SQLITE_TEXT)
		return;
	begin_event(nsys, 'M', process_of(&values[0]), 0);
	fputs(
	    ", \"name\": \"process_name\", \"args\": {\"name\": \"", nsys->out);
	json_escaped(values[1].text, values[1].length, nsys->out);
	fputs("\"}}", nsys->out);
}

static void
take_thread(void *argument, const struct sqlite_value *values)
{
	struct nsys *nsys = argument;

	if (values[0].kind != SQLITE_INTEGER)
		return;
	begin_event(nsys, 'M', process_of(&values[0]), thread_of(&values[0]));
	fputs(", \"name\": \"thread_name\", \"args\": {\"name\": ", nsys->out);
	out_name(nsys, &values[1], "thread");
	fputs("}}", nsys->out);
}

/* ---- All of it ----------------------------------------------------------- */

static const struct sqlite_query event_queries[] = {
	{ "CUPTI_ACTIVITY_KIND_KERNEL",
	    { "start", "end", "deviceId", "streamId", "demangledName",
		"shortName", "correlationId" },
	    take_kernel, NULL },
	{ "CUPTI_ACTIVITY_KIND_MEMCPY",
	    { "start", "end", "deviceId", "streamId", "copyKind", "bytes",
		"correlationId" },
	    take_copy, NULL },
	{ "CUPTI_ACTIVITY_KIND_MEMSET",
	    { "start", "end", "deviceId", "streamId", "bytes",
		"correlationId" },
	    take_fill, NULL },
	{ "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
	    { "start", "end", "deviceId", "streamId", "graphId",
		"correlationId" },
	    take_graph, NULL },
	{ "CUPTI_ACTIVITY_KIND_RUNTIME",
	    { "start", "end", "globalTid", "nameId", "correlationId",
		"eventClass" },
	    take_call, NULL },
	{ "NVTX_EVENTS",
	    { "start", "end", "eventType", "globalTid", "text", "textId" },
	    take_nvtx, NULL },
	{ "PROCESSES", { "globalPid", "name" }, take_process, NULL },
	{ "ThreadNames", { "globalTid", "nameId" }, take_thread, NULL },
};

static bool
read_table(struct nsys *nsys, const struct sqlite_query *query)
{
	struct sqlite_query own = *query;

	own.argument = nsys;
	return sqlite_read(&nsys->db, &own);
}

static const char *
read_names(struct nsys *nsys)
{
	static const struct sqlite_query start = {
		"TARGET_INFO_SESSION_START_TIME", { "utcEpochNs" }, take_start,
		NULL
	};
	static const struct sqlite_query names = { "StringIds",
		{ "id", "value" }, take_name, NULL };

	if (!read_table(nsys, &start) || !read_table(nsys, &names))
		return nsys->db.why;
	if (nsys->start_ns <= 0)
		return "it is no export of Nsight Systems, or does not say "
		       "when the session began "
		       "(TARGET_INFO_SESSION_START_TIME)";
	if (nsys->name_count > 0)
		qsort(nsys->names, nsys->name_count, sizeof(*nsys->names),
		    compare_names);
	return NULL;
}

static const char *
write_events(struct nsys *nsys, char **text, size_t *length)
{
	nsys->out = open_memstream(text, length);
	if (nsys->out == NULL)
		return "out of memory";
	fprintf(nsys->out,
	    "{\"baseTimeNanoseconds\": %" PRId64 ", \"traceEvents\": [",
	    nsys->start_ns);
	for (size_t i = 0; i < sizeof(event_queries) / sizeof(event_queries[0]);
	     i++)
		if (!read_table(nsys, &event_queries[i]))
			break;
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
		why = write_events(&nsys, text, length);
	for (size_t i = 0; i < nsys.name_count; i++)
		free(nsys.names[i].text);
	free(nsys.names);
	if (why == NULL && !nsys.no_memory)
		return NULL;
	free(*text);
	*text = NULL;
	return why != NULL ? why : "out of memory";
}
