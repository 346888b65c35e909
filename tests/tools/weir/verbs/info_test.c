/*
 * weir info: with a driver, without one, and with --quiet. The driver is that
 * of the tests: the simulated device, or a GPU.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <weir/host.h>
#include <weir/weir.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

static json_t *
info_json(void)
{
	struct command_result result = command_weir("info", "--json", NULL);
	json_t *json = json_loads(result.out, 0, NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_NOT_NULL(json);
	EXPECT_EQ(
	    json_integer_value(json_object_get(json, "format_version")), 1);
	command_free(&result);
	return json;
}

static void
no_driver(void)
{
	setenv("WEIR_LIBCUDA", "/nonexistent/libcuda.so.1", 1);
}

static bool
simulated(void)
{
	struct weir_device_info info = { .struct_size = sizeof(info) };

	EXPECT_EQ(weir_device_info(0, &info), WEIR_OK);
	return info.simulated;
}

TEST(every_device_is_described_as_the_library_does)
{
	json_t *json = info_json();
	json_t *devices = json_object_get(json, "devices");
	int count;

	EXPECT_EQ(weir_device_count(&count), WEIR_OK);
	EXPECT_EQ(json_array_size(devices), count);
	for (int i = 0; i < count; i++) {
		struct weir_device_info info = { .struct_size = sizeof(info) };
		json_t *one = json_array_get(devices, (size_t)i);
		json_int_t total =
		    json_integer_value(json_object_get(one, "total_bytes"));
		json_int_t free_bytes =
		    json_integer_value(json_object_get(one, "free_bytes"));

		EXPECT_EQ(weir_device_info(i, &info), WEIR_OK);
		EXPECT_EQ(json_integer_value(json_object_get(one, "index")), i);
		EXPECT_STR_EQ(
		    json_string_value(json_object_get(one, "name")), info.name);
		EXPECT_STR_EQ(
		    json_string_value(json_object_get(one, "uuid")), info.uuid);
		EXPECT_STR_EQ(
		    json_string_value(json_object_get(one, "pci_bus_id")),
		    info.pci_bus_id);
		EXPECT_EQ(total, info.total_bytes);
		EXPECT_GT(free_bytes, 0);
		EXPECT_LE(free_bytes, total);
		EXPECT_NOT_NULL(json_object_get(one, "telemetry"));
		enum weir_host_source source;
		EXPECT_EQ(weir_host_source(i, &source), WEIR_OK);
		EXPECT_STR_EQ(
		    json_string_value(json_object_get(one, "pinned_source")),
		    weir_host_source_name(source));
	}
	json_decref(json);
}

TEST(versions_and_the_kind_of_driver_are_printed)
{
	json_t *json = info_json();
	const char *driver = json_string_value(json_object_get(json, "driver"));

	EXPECT_STR_EQ(
	    json_string_value(json_object_get(json, "weir")), weir_version());
	EXPECT_NOT_NULL(driver);
	EXPECT_GE(atoi(driver), 11);
	EXPECT_EQ(
	    json_is_true(json_object_get(json, "simulated")), simulated());
	json_decref(json);
}

TEST(the_text_names_the_device)
{
	struct weir_device_info info = { .struct_size = sizeof(info) };
	struct command_result result = command_weir("info", NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_EQ(weir_device_info(0, &info), WEIR_OK);
	EXPECT_STR_HAS(result.out, info.name);
	EXPECT_STR_HAS(result.out, info.uuid);
	EXPECT_STR_HAS(result.out, weir_version());
	EXPECT_STR_HAS(result.out, "  pinned   pinned_source: ");
	if (info.simulated)
		EXPECT_STR_HAS(result.out, "simulated");
	command_free(&result);
}

TEST(quiet_reports_by_its_status_alone_whether_there_is_a_gpu)
{
	struct command_result result = command_weir("info", "--quiet", NULL);

	EXPECT_EQ(result.status, simulated() ? 1 : 0);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
}

TEST(quiet_without_a_driver_fails_without_output)
{
	struct command_result result;

	no_driver();
	result = command_weir("info", "--quiet", NULL);
	EXPECT_EQ(result.status, 1);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
}

TEST(without_a_driver_the_reason_is_printed)
{
	struct command_result result;

	no_driver();
	result = command_weir("info", NULL);
	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.out, weir_version());
	EXPECT_STR_HAS(result.err, "/nonexistent/libcuda.so.1");
	command_free(&result);
}

TEST(without_a_driver_json_holds_the_reason)
{
	struct command_result result;
	json_t *json;

	no_driver();
	result = command_weir("info", "--json", NULL);
	EXPECT_EQ(result.status, 1);
	json = json_loads(result.out, 0, NULL);
	EXPECT_NOT_NULL(json);
	EXPECT(json_is_null(json_object_get(json, "driver")));
	EXPECT_EQ(json_array_size(json_object_get(json, "devices")), 0);
	EXPECT_STR_HAS(json_string_value(json_object_get(json, "error")),
	    "/nonexistent/libcuda.so.1");
	json_decref(json);
	command_free(&result);
}

/* A program in this environment would get no memory. */
TEST(wrong_options_are_an_error)
{
	static const char why[] =
	    "WEIR_CONF: option prefer is invalid: 'spede' is not "
	    "speed, balance or memory; did you mean "
	    "'speed'?";
	struct command_result result;
	json_t *json;

	setenv("WEIR_CONF", "prefer:spede", 1);
	result = command_weir("info", NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.out, "device 0");
	EXPECT_STR_HAS(result.err, why);
	command_free(&result);
	result = command_weir("info", "--json", NULL);
	EXPECT_EQ(result.status, 2);
	json = json_loads(result.out, 0, NULL);
	EXPECT_STR_EQ(
	    json_string_value(json_object_get(json, "options_error")), why);
	EXPECT_GE(json_array_size(json_object_get(json, "devices")), 1);
	json_decref(json);
	command_free(&result);
}
