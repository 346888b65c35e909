/*
 * Results as tables for people, and as one JSON object.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "tools/bench/bench.h"
#include "tools/weir/tool.h"

static const char *const units[] = {
	[UNIT_NS] = "ns",
	[UNIT_MILLION] = "million/s",
	[UNIT_MS] = "ms",
	[UNIT_PERCENT] = "%",
	[UNIT_GIB] = "GiB/s",
};

/* ---- Tables -------------------------------------------------------------- */

void
report_begin(struct session *session, const struct bench *bench)
{
	session->bench = bench;
	if (session->json_only)
		return;
	session->table = table_new("llrrrlr");
	table_add(session->table, "%s", bench->heading);
	table_add(session->table, "peer");
	table_add(session->table, "median");
	table_add(session->table, "p10");
	table_add(session->table, "p90");
	table_add(session->table, "unit");
	table_add(session->table, "to %s", bench->base);
}

/* Add a number with three significant digits. */
static void
add_figure(struct table *table, double value)
{
	int decimals = value < 10 ? 2 : value < 100 ? 1 : 0;

	table_add(table, "%.*f", decimals, value);
}

static void
add_result_row(struct session *session, const struct bench_case *about,
    const struct result *result)
{
	struct table *table = session->table;

	table_add(table, "%s", about->name);
	table_add(table, "%s", result->peer->name);
	if (result->error[0] != '\0') {
		table_add(table, "failed");
		for (int i = 0; i < 4; i++)
			table_add(table, "%s", "");
		return;
	}
	add_figure(table, result->spread.median);
	add_figure(table, result->spread.p10);
	add_figure(table, result->spread.p90);
	table_add(table, "%s", units[about->unit]);
	if (result->ratio > 0)
		table_add(table, "%.2fx", result->ratio);
	else
		table_add(table, "-");
}

bool
report_end(struct session *session)
{
	bool printed = true;

	if (session->json_only)
		return true;
	printf("\n== %s: %s\n", session->bench->name, session->bench->what);
	printed = table_print(session->table, true);
	fflush(stdout);
	table_free(session->table);
	session->table = NULL;
	return printed;
}

/* ---- JSON ---------------------------------------------------------------- */

static json_t *
result_json(const struct session *session, const struct bench_case *about,
    const struct result *result)
{
	json_t *object =
	    json_pack("{ss ss ss ss sI}", "bench", session->bench->name, "case",
		about->name, "peer", result->peer->name, "unit",
		units[about->unit], "rounds", (json_int_t)result->rounds);
	json_t *samples = json_array();

	for (unsigned i = 0; i < result->count; i++)
		json_array_append_new(samples, json_real(result->samples[i]));
	json_object_set_new(object, "samples", samples);
	if (result->error[0] != '\0') {
		json_object_set_new(
		    object, "error", json_string(result->error));
		return object;
	}
	json_object_set_new(object, "median", json_real(result->spread.median));
	json_object_set_new(object, "p10", json_real(result->spread.p10));
	json_object_set_new(object, "p90", json_real(result->spread.p90));
	json_object_set_new(object, "base", json_string(session->bench->base));
	json_object_set_new(object, "ratio",
	    result->ratio > 0 ? json_real(result->ratio) : json_null());
	return object;
}

void
report_add(struct session *session, const struct bench_case *about,
    const struct result *result)
{
	if (result->error[0] != '\0')
		complain("%s, %s: %s: %s", session->bench->name, about->name,
		    result->peer->name, result->error);
	if (!session->json_only)
		add_result_row(session, about, result);
	json_array_append_new(
	    session->results, result_json(session, about, result));
}

/* Write the system's name of the processor, or of the machine. */
static void
processor_name(char *name, size_t size)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	struct utsname machine;
	char line[256];
	bool found = false;

	while (
	    !found && file != NULL && fgets(line, sizeof(line), file) != NULL)
		found = strncmp(line, "model name", 10) == 0 &&
		    strstr(line, ": ") != NULL;
	if (file != NULL)
		fclose(file);
	if (found) {
		line[strcspn(line, "\n")] = '\0';
		snprintf(name, size, "%s", strstr(line, ": ") + 2);
		return;
	}
	snprintf(name, size, "%s",
	    uname(&machine) == 0 ? machine.machine : "unknown");
}

json_t *
report_json(const struct session *session)
{
	struct weir_device_info info = { .struct_size = sizeof(info) };
	char processor[256];

	processor_name(processor, sizeof(processor));
	if (weir_device_info(0, &info) != WEIR_OK)
		return NULL;
	return json_pack("{ss ss sb si ss si si sf sO sO}", "weir",
	    weir_version(), "device", info.name, "simulated",
	    (int)info.simulated, "driver_version", info.driver_version,
	    "processor", processor, "processors", (int)processors(), "repeat",
	    (int)session->repeat, "sample_ms", session->sample_s * 1e3,
	    "left_out", session->left_out, "results", session->results);
}
