/*
 * weir-bench: measure weir and other allocators.
 */
#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench.h"
#include "tools/bench/gpu.h"
#include "tools/weir/tool.h"

enum {
	LIST_MAX = 32, /* the most values of one flag */
	REPEAT_DEFAULT = 11,
	SAMPLE_MS_DEFAULT = 20,
	SAMPLE_MS_MAX = 10000,
};

const struct bench benches[] = {
	{ "pair", "malloc and free at once, in one thread; per pair", "size",
	    "weir", bench_pair },
	{ "batch", "256 mallocs, then the frees in reverse; per pair", "size",
	    "weir", bench_batch },
	{ "replace", "free one of many blocks, allocate another; per step",
	    "live", "weir", bench_replace },
	{ "threads", "pairs of 64 KiB in all threads together", "threads",
	    "weir", bench_threads },
	{ "handover",
	    "blocks of 64 KiB, allocated in one thread and freed in another; "
	    "per block",
	    "threads each", "weir", bench_handover },
	{ "record", "malloc, use on a second stream, free; per cycle", "size",
	    "weir", bench_record },
	{ "pending", "a pair while blocks wait for 32 busy streams", "pending",
	    "weir", bench_pending },
	{ "miss",
	    "calls that no thread cache serves; per call, for hit per pair",
	    "path", "weir", bench_miss },
	{ "random",
	    "random sizes and lifetimes, at most 16,000 MiB live; per pair",
	    "pairs, sizes to", "weir", bench_random },
	{ "pinned",
	    "page-locked host memory: pairs, the first 8 GiB, and the memory "
	    "held for a loader",
	    "case", "weir-pinned", bench_pinned },
	{ "graphs",
	    "a thousand captures that share a pool, suspended pools, and "
	    "checkpoints",
	    "case", "weir-pools", bench_graphs },
	{ "history",
	    "a pair with the history on, the cost of an event, and writing a "
	    "full history",
	    "case", "weir", bench_history },
	{ "tensors",
	    "copies of 256 MiB of a tensor: converted, transposed, with gaps; "
	    "bytes read and written",
	    "copy", "straight", bench_tensors },
	{ "kernels",
	    "kernels of a million clocks on 4 streams, with a block each; all "
	    "together",
	    "start", "none", bench_kernels },
	{ "busy",
	    "five busy streams that hand blocks to each other: the time, and "
	    "the held memory",
	    "case", "weir", bench_busy },
	{ "replay", "events of recorded traces", "trace", "weir",
	    bench_replay },
	{ NULL, NULL, NULL, NULL, NULL },
};

/* The values of a flag. NULL ends the list. */
struct list {
	const char *items[LIST_MAX + 1];
	size_t count;
};

struct choices {
	struct list benches;
	struct list peers;
	struct list plugins;
	struct list children;
	struct list traces;
	unsigned repeat;
	unsigned sample_ms;
	bool quick;
	bool json;
	bool simulated;
	bool list;
	const char *output;
};

/* ---- The command line -------------------------------------------------- */

static const struct argp_option flags[] = {
	{ "peer", 'p', "NAME", 0, "measure only this peer; may be repeated",
	    0 },
	{ "repeat", 'r', "N", 0, "samples of each peer (default: 11)", 0 },
	{ "ms", 'm', "N", 0, "milliseconds of a sample (default: 20)", 0 },
	{ "quick", 'q', NULL, 0,
	    "one sample of a millisecond, of small cases only, to check that "
	    "all cases work",
	    0 },
	{ "trace", 't', "FILE", 0, "a trace to replay; may be repeated", 0 },
	{ "plugin", 'P', "FILE", 0, "a peer that is a library", 0 },
	{ "child", 'c', "NAME=COMMAND", 0, "a peer that is a command", 0 },
	{ "json", 'j', NULL, 0, "print one object and no tables", 0 },
	{ "output", 'o', "FILE", 0, "write the JSON object to FILE", 0 },
	{ "list", 'l', NULL, 0, "list the benchmarks and the peers", 0 },
	{ "sim", 's', NULL, 0, "use the simulated device, as without a GPU",
	    0 },
	{ 0 },
};

static void
list_add(struct list *list, const char *item, const struct argp_state *state)
{
	if (list->count == LIST_MAX)
		argp_error(state, "more than %d values of one flag", LIST_MAX);
	else
		list->items[list->count++] = item;
}

static const struct bench *
bench_find(const char *name)
{
	for (const struct bench *bench = benches; bench->name != NULL; bench++)
		if (strcmp(bench->name, name) == 0)
			return bench;
	return NULL;
}

static void
add_bench(struct list *list, const char *name, const struct argp_state *state)
{
	if (bench_find(name) == NULL)
		argp_error(state, "no benchmark '%s'; --list names them", name);
	list_add(list, name, state);
}

static void
parse_bench_count(unsigned *out, const char *flag, const char *value,
    unsigned max, const struct argp_state *state)
{
	char *end;
	unsigned long count = strtoul(value, &end, 10);

	if (*value < '0' || *value > '9' || *end != '\0' || count == 0 ||
	    count > max)
		argp_error(state, "%s is a number from 1 to %u, not '%s'", flag,
		    max, value);
	*out = (unsigned)count;
}

static error_t
parse_bench_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'p':
		list_add(&choices->peers, value, state);
		return 0;
	case 'r':
		parse_bench_count(
		    &choices->repeat, "--repeat", value, REPEAT_MAX, state);
		return 0;
	case 'm':
		parse_bench_count(
		    &choices->sample_ms, "--ms", value, SAMPLE_MS_MAX, state);
		return 0;
	case 't':
		list_add(&choices->traces, value, state);
		return 0;
	case 'P':
		list_add(&choices->plugins, value, state);
		return 0;
	case 'c':
		list_add(&choices->children, value, state);
		return 0;
	case 'o':
		choices->output = value;
		return 0;
	case ARGP_KEY_ARG:
		add_bench(&choices->benches, value, state);
		return 0;
	case 'q':
		choices->quick = true;
		return 0;
	case 'j':
		choices->json = true;
		return 0;
	case 'l':
		choices->list = true;
		return 0;
	case 's':
		choices->simulated = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp parser = { flags, parse_bench_flag, "[BENCHMARK...]",
	"Measure weir and other allocators in turns. Without arguments, run "
	"all "
	"benchmarks.\v"
	"Tables show the median of the samples, the 10th and the 90th "
	"percentile, and how many times worse a peer is than the one that the "
	"last column names. Exit status: 0 all cases were measured, 1 some "
	"failed, 2 trouble.",
	NULL, NULL, NULL };

/* ---- Peers ------------------------------------------------------------- */

static bool
is_among(const struct list *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->items[i], name) == 0)
			return true;
	return false;
}

static void
leave_out(struct session *session, const char *name, const char *why)
{
	complain("%s is left out: %s", name, why);
	json_array_append_new(
	    session->left_out, json_pack("{ss ss}", "peer", name, "why", why));
}

/* Add a peer, unless --peer excludes it or it cannot run. False if there are
 * too many. */
static bool
add_peer(struct session *session, const struct choices *choices,
    const struct peer *peer)
{
	const char *why = NULL;

	if (choices->peers.count > 0 && !is_among(&choices->peers, peer->name))
		return true;
	if (session->peer_count == PEERS_MAX) {
		complain("more than %d peers", PEERS_MAX);
		return false;
	}
	if (peer->open != NULL)
		why = peer->open();
	if (why != NULL)
		leave_out(session, peer->name, why);
	else
		session->peers[session->peer_count++] = peer;
	return true;
}

/* True if all names of --peer are those of peers, or of peers that were left
 * out. */
static bool
peers_are_known(const struct session *session, const struct choices *choices)
{
	for (size_t i = 0; i < choices->peers.count; i++) {
		const char *name = choices->peers.items[i];
		bool known = false;
		json_t *one;
		size_t j;

		for (j = 0; j < session->peer_count; j++)
			if (strcmp(session->peers[j]->name, name) == 0)
				known = true;
		json_array_foreach(session->left_out, j, one)
		{
			json_t *peer = json_object_get(one, "peer");

			if (strcmp(json_string_value(peer), name) == 0)
				known = true;
		}
		if (!known) {
			complain("no peer '%s'; --list names them", name);
			return false;
		}
	}
	return true;
}

static int
add_peers(struct session *session, const struct choices *choices)
{
	for (size_t i = 0; builtin_peers[i] != NULL; i++)
		if (!add_peer(session, choices, builtin_peers[i]))
			return TOOL_USAGE;
	for (size_t i = 0; i < choices->plugins.count; i++) {
		const struct peer *peer =
		    plugin_open(choices->plugins.items[i]);

		if (peer == NULL)
			session->failures++;
		else if (!add_peer(session, choices, peer))
			return TOOL_USAGE;
	}
	for (size_t i = 0; i < choices->children.count; i++) {
		const struct peer *peer =
		    child_open(choices->children.items[i]);

		if (peer == NULL)
			session->failures++;
		else if (!add_peer(session, choices, peer))
			return TOOL_USAGE;
	}
	return peers_are_known(session, choices) ? TOOL_DONE : TOOL_USAGE;
}

static int
print_list(void)
{
	struct table *table = table_new("ll");
	bool printed;

	table_add(table, "benchmark");
	table_add(table, "%s", "");
	for (const struct bench *bench = benches; bench->name != NULL;
	     bench++) {
		table_add(table, "%s", bench->name);
		table_add(table, "%s", bench->what);
	}
	table_add(table, "%s", "");
	table_add(table, "%s", "");
	table_add(table, "peer");
	table_add(table, "%s", "");
	for (size_t i = 0; builtin_peers[i] != NULL; i++) {
		table_add(table, "%s", builtin_peers[i]->name);
		table_add(table, "%s", builtin_peers[i]->what);
	}
	printed = table_print(table, true);
	table_free(table);
	return printed ? TOOL_DONE : TOOL_FAILED;
}

/* ---- Running ----------------------------------------------------------- */

static bool
print_head(const struct session *session)
{
	struct weir_device_info info = { .struct_size = sizeof(info) };

	if (weir_device_info(0, &info) != WEIR_OK) {
		complain("%s", weir_last_error());
		return false;
	}
	printf("weir %s on %s, %u processors, %u samples of %.0f ms\n",
	    weir_version(), info.name, processors(), session->repeat,
	    session->sample_s * 1e3);
	if (info.simulated)
		printf("The device is simulated: times are those of the code "
		       "and of the simulation,\nnot of a GPU. Times of kernels "
		       "are virtual.\n");
	return true;
}

static bool
run_benches(struct session *session, const struct choices *choices)
{
	for (const struct bench *bench = benches; bench->name != NULL;
	     bench++) {
		if (choices->benches.count > 0 &&
		    !is_among(&choices->benches, bench->name))
			continue;
		report_begin(session, bench);
		if (!bench->run(session) || !report_end(session)) {
			complain("out of memory");
			return false;
		}
	}
	return true;
}

static bool
write_json(const struct session *session, const struct choices *choices)
{
	json_t *object = report_json(session);
	const size_t form = JSON_INDENT(1) | JSON_REAL_PRECISION(9);
	bool written = object != NULL;

	if (written && choices->json) {
		written = json_dumpf(object, stdout, form) == 0;
		putchar('\n');
		written = fflush(stdout) == 0 && written;
	}
	if (written && choices->output != NULL)
		written = json_dump_file(object, choices->output, form) == 0;
	if (!written)
		complain("cannot write the results");
	json_decref(object);
	return written;
}

static int
run_session(struct session *session, const struct choices *choices)
{
	int status;

	if (!use_simulated_if(choices->simulated) || !gpu_open())
		return TOOL_FAILED;
	session->simulated = gpu_simulated();
	status = add_peers(session, choices);
	if (status != TOOL_DONE)
		return status;
	if (!choices->json && !print_head(session))
		return TOOL_FAILED;
	if (!run_benches(session, choices) || !write_json(session, choices))
		return TOOL_FAILED;
	return session->failures == 0 ? TOOL_DONE : TOOL_FOUND;
}

int
main(int argc, char **argv)
{
	struct choices choices = {
		.repeat = REPEAT_DEFAULT,
		.sample_ms = SAMPLE_MS_DEFAULT,
	};
	struct session session = { 0 };
	int status;

	argp_err_exit_status = TOOL_USAGE;
	argp_parse(&parser, argc, argv, 0, NULL, &choices);
	if (choices.list)
		return print_list();
	/* A child that ends early makes its peer fail, not this process. */
	signal(SIGPIPE, SIG_IGN);
	session.repeat = choices.quick ? 1 : choices.repeat;
	session.sample_s = (choices.quick ? 1 : choices.sample_ms) / 1e3;
	session.quick = choices.quick;
	session.json_only = choices.json;
	session.traces = choices.traces.items;
	session.results = json_array();
	session.left_out = json_array();
	status = run_session(&session, &choices);
	children_close();
	json_decref(session.results);
	json_decref(session.left_out);
	return status;
}
