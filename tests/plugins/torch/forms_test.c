/*
 * The adapter in each form that PyTorch's interface has had: forms/form.cpp,
 * compiled for each.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/command.h"
#include "tests/support/device.h"

static void
run_form(const char *version, const char *argument)
{
	char part[64];

	device_need(1);
	snprintf(
	    part, sizeof(part), "tests/plugins/torch/forms/form-%s", version);
	char *path = test_build(part);
	struct command_result result =
	    command_run((const char *const[]){ path, argument, NULL });
	if (result.status != 0)
		FAIL("%s: status %d: %s", version, result.status, result.err);
	command_free(&result);
	free(path);
}

static void
check_form(const char *version)
{
	run_form(version, NULL);
}

TEST(the_adapter_fills_the_forms_of_pytorch_2_6_and_2_7)
{
	check_form("206");
}

TEST(the_adapter_fills_the_forms_of_pytorch_2_8)
{
	check_form("208");
}

TEST(the_adapter_fills_the_forms_of_pytorch_2_9)
{
	check_form("209");
}

TEST(the_adapter_fills_the_forms_of_pytorch_2_10)
{
	check_form("210");
}

TEST(the_adapter_fills_the_forms_of_pytorch_2_11)
{
	check_form("211");
}

TEST(the_adapter_fills_the_forms_of_pytorch_2_13)
{
	check_form("213");
}

TEST(the_adapter_fills_the_forms_of_pytorch_2_14)
{
	check_form("214");
}

TEST(nothing_is_cached_where_pytorch_s_caching_is_off)
{
	setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", 1);
	run_form("211", "uncached");
}
