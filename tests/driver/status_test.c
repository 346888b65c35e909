/* Result codes of the driver: their status and their text. */
#include "base/status.h"
#include "driver/driver.h"
#include "tests/driver/fake/cuda.h"
#include "tests/support/test.h"

TEST(codes_map_to_the_status_of_their_kind)
{
	static const struct {
		CUresult code;
		enum weir_status status;
	} cases[] = {
		{ CUDA_SUCCESS, WEIR_OK },
		{ CUDA_ERROR_OUT_OF_MEMORY, WEIR_ENOMEM },
		{ CUDA_ERROR_INVALID_CONTEXT, WEIR_ECONTEXT },
		{ CUDA_ERROR_CONTEXT_IS_DESTROYED, WEIR_ECONTEXT },
		{ CUDA_ERROR_NOT_INITIALIZED, WEIR_EEXIT },
		{ CUDA_ERROR_DEINITIALIZED, WEIR_EEXIT },
		{ CUDA_ERROR_NOT_READY, WEIR_ENOTREADY },
		{ CUDA_ERROR_NO_DEVICE, WEIR_ENODEVICE },
		{ CUDA_ERROR_INVALID_DEVICE, WEIR_ENODEVICE },
		{ CUDA_ERROR_NOT_SUPPORTED, WEIR_ENOTSUP },
		{ CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, WEIR_ECAPTURE },
		{ CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, WEIR_ECAPTURE },
		/* The arguments of a driver call come from weir, not from the
		 * caller. */
		{ CUDA_ERROR_INVALID_VALUE, WEIR_EDRIVER },
		{ CUDA_ERROR_INVALID_HANDLE, WEIR_EDRIVER },
		{ CUDA_ERROR_ILLEGAL_ADDRESS, WEIR_EDRIVER },
		{ CUDA_ERROR_UNKNOWN, WEIR_EDRIVER },
		{ (CUresult)12345, WEIR_EDRIVER },
		{ (CUresult)-1, WEIR_EDRIVER },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		EXPECT_EQ(driver_map(cases[i].code), cases[i].status);
		EXPECT_EQ(
		    weir_check_driver((int)cases[i].code), cases[i].status);
	}
}

TEST(every_code_of_a_capture_is_a_capture_failure)
{
	for (int code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	     code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD; code++)
		EXPECT_EQ(driver_map((CUresult)code), WEIR_ECAPTURE);
}

TEST(success_is_not_remembered)
{
	status_set(WEIR_EINVAL, "before");
	EXPECT_EQ(driver_status(CUDA_SUCCESS, "cuMemMap()"), WEIR_OK);
	EXPECT_EQ(weir_check_driver(0), WEIR_OK);
	EXPECT_EQ(weir_last_status(), WEIR_EINVAL);
	EXPECT_STR_EQ(weir_last_error(), "before");
}

TEST(a_failure_has_the_call_the_text_and_the_code)
{
	EXPECT_EQ(driver_status(CUDA_ERROR_OUT_OF_MEMORY,
		      "cuMemCreate(%d bytes, device %d)", 20971520, 0),
	    WEIR_ENOMEM);
	EXPECT_STR_EQ(weir_last_error(),
	    "cuMemCreate(20971520 bytes, device 0): out of memory (2)");
}

TEST(a_code_without_a_status_is_kept)
{
	EXPECT_EQ(driver_last_failure(), CUDA_ERROR_UNKNOWN);
	EXPECT_EQ(driver_status(CUDA_ERROR_ECC_UNCORRECTABLE, "cuMemMap()"),
	    WEIR_EDRIVER);
	driver_status(CUDA_ERROR_OUT_OF_MEMORY, "cuMemMap()");
	driver_status(CUDA_SUCCESS, "cuMemMap()");
	EXPECT_EQ(driver_last_failure(), CUDA_ERROR_ECC_UNCORRECTABLE);
}

TEST(a_call_too_long_leaves_room_for_the_text_and_the_code)
{
	char call[STATUS_TEXT_SIZE * 2];

	memset(call, 'c', sizeof(call));
	call[sizeof(call) - 1] = '\0';
	driver_status(CUDA_ERROR_OUT_OF_MEMORY, "%s", call);
	EXPECT_STR_HAS(weir_last_error(), "ccc: out of memory (2)");
}

TEST(texts_are_known_without_a_driver)
{
	EXPECT_STR_EQ(driver_text(CUDA_SUCCESS), "no error");
	EXPECT_STR_EQ(driver_text(CUDA_ERROR_OUT_OF_MEMORY), "out of memory");
	EXPECT_STR_EQ(driver_text((CUresult)12345), "unknown error");
	EXPECT_EQ(weir_check_driver(700), WEIR_EDRIVER);
	EXPECT_STR_EQ(weir_last_error(),
	    "CUDA driver: an illegal memory access was encountered (700)");
	EXPECT_EQ(weir_check_driver(12345), WEIR_EDRIVER);
	EXPECT_STR_EQ(weir_last_error(), "CUDA driver: unknown error (12345)");
	EXPECT_NULL(driver_peek());
}

TEST(texts_are_those_of_the_driver_once_it_is_loaded)
{
	const struct driver *driver;

	fake_cuda_use();
	EXPECT_EQ(driver_get(&driver), WEIR_OK);
	EXPECT_STR_EQ(driver_text(CUDA_ERROR_OUT_OF_MEMORY), "a fake text");
	/* weir knows some codes that the driver does not. */
	EXPECT_STR_EQ(driver_text(CUDA_ERROR_NOT_READY), "device not ready");
	EXPECT_STR_EQ(driver_text((CUresult)12345), "unknown error");
}

TEST(the_driver_of_this_run_knows_its_codes)
{
	const struct driver *driver;

	EXPECT_EQ(driver_get(&driver), WEIR_OK);
	EXPECT_EQ(weir_check_driver(2), WEIR_ENOMEM);
	EXPECT_STR_EQ(weir_last_error(), "CUDA driver: out of memory (2)");
}

TEST(a_driver_that_is_gone_is_not_asked)
{
	EXPECT(driver_gone(CUDA_ERROR_DEINITIALIZED));
	EXPECT(driver_gone(CUDA_ERROR_NOT_INITIALIZED));
	EXPECT(!driver_gone(CUDA_SUCCESS));
	EXPECT(!driver_gone(CUDA_ERROR_CONTEXT_IS_DESTROYED));
	EXPECT_EQ(weir_check_driver(4), WEIR_EEXIT);
	EXPECT_STR_EQ(
	    weir_last_error(), "CUDA driver: driver shutting down (4)");
}
