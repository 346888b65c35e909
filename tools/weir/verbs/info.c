/*
 * weir info: the driver and the devices that weir runs on.
 */
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include <weir/host.h>
#include <weir/weir.h>

#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/tool.h"

struct choices {
	bool json;
	bool quiet;
};

static const struct argp_option flags[] = {
	{ "json", 'j', NULL, 0, "print one object", 0 },
	{ "quiet", 'q', NULL, 0,
	    "print nothing; exit with 0 if a GPU can be used and 1 if not", 0 },
	{ 0 },
};

static error_t
parse_info_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	(void)value;
	switch (key) {
	case 'j':
		choices->json = true;
		return 0;
	case 'q':
		choices->quiet = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_info = { flags, parse_info_flag, NULL,
	"Print the versions of weir and of the CUDA driver, the devices, and "
	"the measurements of their management library.\v"
	"WEIR_LIBCUDA names another driver library. For --quiet, a simulated "
	"device is no GPU. Exit status: 0 a device, 1 none, 2 trouble, such as "
	"a wrong WEIR_CONF.",
	NULL, NULL, NULL };

/* The facts about one device. Three parts may be absent. */
struct device {
	struct weir_device_info info;
	size_t free_bytes;
	size_t total_bytes;
	bool memory_known;
	const char *pinned_source; /* NULL: there is no page-locked memory */
	struct weir_telemetry telemetry;
	bool measured;
};

static const char *
read_pinned_source(int index)
{
	enum weir_host_source source;

	return weir_host_source(index, &source) == WEIR_OK ?
	    weir_host_source_name(source) :
	    NULL;
}

static bool
read_device(int index, struct device *out)
{
	*out = (struct device){
		.info.struct_size = sizeof(out->info),
		.telemetry.struct_size = sizeof(out->telemetry),
	};
	if (weir_device_info(index, &out->info) != WEIR_OK) {
		complain("device %d: %s", index, weir_last_error());
		return false;
	}
	out->memory_known = weir_memory_info(index, &out->free_bytes,
				&out->total_bytes) == WEIR_OK;
	if (!out->memory_known)
		complain("device %d: %s", index, weir_last_error());
	out->pinned_source = read_pinned_source(index);
	out->measured = weir_telemetry(index, &out->telemetry) == WEIR_OK;
	return out->memory_known;
}

/* The fault of WEIR_CONF, or NULL. A program with wrong options gets no
 * memory. */
static const char *
options_error(void)
{
	struct weir_option option;

	return weir_option_at(0, &option) == WEIR_OK ? NULL : weir_last_error();
}

static json_t *
telemetry_json(const struct weir_telemetry *t)
{
	return json_pack("{si sI sI sI sI sI sI}", "temperature_celsius",
	    t->temperature_celsius, "power_milliwatts",
	    (json_int_t)t->power_milliwatts, "sm_clock_mhz",
	    (json_int_t)t->sm_clock_mhz, "memory_clock_mhz",
	    (json_int_t)t->memory_clock_mhz, "utilization_percent",
	    (json_int_t)t->utilization_percent, "memory_used_bytes",
	    (json_int_t)t->memory_used_bytes, "processes",
	    (json_int_t)t->processes);
}

static json_t *
info_device_json(int index, const struct device *device)
{
	const struct weir_device_info *info = &device->info;
	char capability[32];
	json_t *object;

	snprintf(capability, sizeof(capability), "%d.%d",
	    info->capability_major, info->capability_minor);
	object = json_pack("{si ss ss sI ss ss}", "index", index, "name",
	    info->name, "capability", capability, "total_bytes",
	    (json_int_t)info->total_bytes, "uuid", info->uuid, "pci_bus_id",
	    info->pci_bus_id);
	json_object_set_new(object, "free_bytes",
	    device->memory_known ?
		json_integer((json_int_t)device->free_bytes) :
		json_null());
	json_object_set_new(object, "pinned_source",
	    device->pinned_source != NULL ? json_string(device->pinned_source) :
					    json_null());
	json_object_set_new(object, "telemetry",
	    device->measured ? telemetry_json(&device->telemetry) :
			       json_null());
	return object;
}

static void
version_text(int version, char *text, size_t size)
{
	snprintf(text, size, "%d.%d", version / 1000, version % 1000 / 10);
}

static int
print_info_json(int count)
{
	json_t *object = json_pack(
	    "{si ss}", "format_version", JSON_VERSION, "weir", weir_version());
	json_t *devices = json_array();
	const char *wrong;
	int status = count > 0 ? TOOL_DONE : TOOL_FOUND;

	if (count == 0) {
		json_object_set_new(object, "driver", json_null());
		json_object_set_new(object, "simulated", json_false());
		json_object_set_new(
		    object, "error", json_of_text(weir_last_error()));
	}
	for (int i = 0; i < count; i++) {
		struct device device;
		char driver[32];

		if (!read_device(i, &device))
			status = TOOL_FAILED;
		version_text(
		    device.info.driver_version, driver, sizeof(driver));
		if (i == 0) {
			json_object_set_new(
			    object, "driver", json_string(driver));
			json_object_set_new(object, "simulated",
			    json_boolean(device.info.simulated));
		}
		json_array_append_new(devices, info_device_json(i, &device));
	}
	json_object_set_new(object, "devices", devices);
	wrong = options_error();
	if (wrong != NULL) {
		json_object_set_new(
		    object, "options_error", json_of_text(wrong));
		status = TOOL_FAILED;
	}
	if (!json_print(object, JSON_INDENT(2), stdout)) {
		complain("cannot print: out of memory");
		status = TOOL_FAILED;
	}
	putchar('\n');
	json_decref(object);
	return status;
}

static void
print_info_device(int index, const struct device *device)
{
	const struct weir_device_info *info = &device->info;
	const struct weir_telemetry *t = &device->telemetry;
	char free_text[32];
	char total_text[32];

	printf("device %d   %s\n", index, info->name);
	printf("  compute  %d.%d\n", info->capability_major,
	    info->capability_minor);
	bytes_format(info->total_bytes, total_text, sizeof(total_text));
	if (device->memory_known)
		printf("  memory   %s free of %s\n",
		    bytes_format(
			device->free_bytes, free_text, sizeof(free_text)),
		    total_text);
	else
		printf("  memory   %s\n", total_text);
	printf("  pinned   %s%s\n",
	    device->pinned_source != NULL ? "pinned_source: " : "no memory",
	    device->pinned_source != NULL ? device->pinned_source : "");
	printf("  uuid     %s\n", info->uuid);
	printf("  pci      %s\n", info->pci_bus_id);
	if (!device->measured) {
		printf("  measured nothing: no management library (NVML)\n");
		return;
	}
	printf("  measured %d C, %.1f W, %u %% busy, %u MHz, memory %u MHz\n",
	    t->temperature_celsius, t->power_milliwatts / 1000.0,
	    t->utilization_percent, t->sm_clock_mhz, t->memory_clock_mhz);
	printf("  in use   %s by all processes, %zu of which compute\n",
	    bytes_format(t->memory_used_bytes, free_text, sizeof(free_text)),
	    t->processes);
}

static int
print_info_text(int count)
{
	int status = count > 0 ? TOOL_DONE : TOOL_FOUND;
	const char *wrong;

	printf("weir       %s\n", weir_version());
	if (count == 0) {
		printf("driver     none\n");
		complain("%s", weir_last_error());
	}
	for (int i = 0; i < count; i++) {
		struct device device;
		char driver[32];

		if (!read_device(i, &device)) {
			status = TOOL_FAILED;
			continue;
		}
		version_text(
		    device.info.driver_version, driver, sizeof(driver));
		if (i == 0)
			printf("driver     %s%s\n", driver,
			    device.info.simulated ? ", simulated" : "");
		print_info_device(i, &device);
	}
	wrong = options_error();
	if (wrong != NULL) {
		complain("%s", wrong);
		status = TOOL_FAILED;
	}
	return status;
}

int
cmd_info(int argc, char **argv)
{
	struct choices choices = { 0 };
	int count = 0;

	argp_parse(&argp_info, argc, argv, 0, NULL, &choices);
	if (choices.quiet)
		return gpu_present() ? TOOL_DONE : TOOL_FOUND;
	if (weir_device_count(&count) != WEIR_OK)
		count = 0;
	return choices.json ? print_info_json(count) : print_info_text(count);
}
