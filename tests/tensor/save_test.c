/*
 * Files: other readers and weir read a written file, and refuse a wrong one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/graph.h>
#include <weir/save.h>

#include "tests/tensor/support.h"

enum { PATH_SIZE = 128, FILE_SIZE = 1 << 16 };

static const char *
temporary(void)
{
	static char path[PATH_SIZE];

	snprintf(path, sizeof(path), "/tmp/weir_save_test.%d.safetensors",
	    (int)getpid());
	unlink(path);
	return path;
}

static void
write_bytes(const char *path, const void *bytes, size_t size)
{
	FILE *file = fopen(path, "wb");

	EXPECT_NOT_NULL(file);
	EXPECT_EQ(fwrite(bytes, 1, size, file), size);
	EXPECT_EQ(fclose(file), 0);
}

static size_t
read_bytes(const char *path, char *bytes, size_t size)
{
	FILE *file = fopen(path, "rb");
	size_t n;

	EXPECT_NOT_NULL(file);
	n = fread(bytes, 1, size, file);
	fclose(file);
	return n;
}

/* A file with this header, and this many bytes after it. */
static void
write_header(const char *path, const char *header, size_t data)
{
	static char bytes[FILE_SIZE];
	size_t length;

	memset(bytes, 0, sizeof(bytes));
	length = (size_t)snprintf(bytes + 8, sizeof(bytes) - 8, "%s", header);
	EXPECT(8 + length + data <= sizeof(bytes));
	for (int i = 0; i < 8; i++)
		bytes[i] = (char)(length >> (8 * i) & 0xff);
	write_bytes(path, bytes, 8 + length + data);
}

static const struct weir_tensor *
loaded_as(const struct weir_loaded *loaded, const char *name)
{
	const struct weir_tensor *tensor = weir_loaded_find(loaded, name);

	EXPECT_NOT_NULL((const void *)tensor);
	return tensor;
}

TEST(a_file_follows_the_format)
{
	static char bytes[FILE_SIZE];
	const char *path = temporary();
	float numbers[6] = { 1, 2, 3, 4, 5, 6 };
	uint8_t small[3] = { 7, 8, 9 };
	struct weir_tensor *a = tensor_of_bytes(small, WEIR_UINT8, SHAPE(3));
	struct weir_tensor *b =
	    tensor_of_bytes(numbers, WEIR_FLOAT32, SHAPE(2, 3));
	struct weir_named named[] = { { "a\"\n", a }, { "b", b } };
	const char *metadata[] = { "format", "pt", NULL };
	struct weir_save_options options = { .struct_size = sizeof(options),
		.metadata = metadata };
	size_t size, length = 0;

	EXPECT_OK(weir_save(path, named, 2, &options));
	size = read_bytes(path, bytes, sizeof(bytes));
	for (int i = 7; i >= 0; i--)
		length = length << 8 | (unsigned char)bytes[i];
	EXPECT_EQ(size, 8 + length + 27);
	EXPECT_EQ(length % 8, 0);
	EXPECT_MEM_EQ(bytes + 8 + length, numbers, 24);
	EXPECT_MEM_EQ(bytes + 8 + length + 24, small, 3);
	bytes[8 + length] = '\0';
	EXPECT_STR_HAS(bytes + 8,
	    "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],"
	    "\"data_offsets\":[0,24]}");
	EXPECT_STR_HAS(bytes + 8,
	    "\"a\\\"\\u000a\":{\"dtype\":\"U8\",\"shape\":[3],"
	    "\"data_offsets\":[24,27]}");
	EXPECT_STR_HAS(bytes + 8, "\"format\":\"pt\"");
	EXPECT_NULL((void *)driver_peek());
	weir_tensor_destroy(a);
	weir_tensor_destroy(b);
	unlink(path);
}

TEST(all_types_come_back_to_where_they_were)
{
	static char bytes[24 * 16], got[24 * 16];
	const char *path = temporary();
	static const enum weir_memory memories[] = { WEIR_MEMORY_DEVICE,
		WEIR_MEMORY_PINNED, WEIR_MEMORY_HOST };
	struct weir_named named[WEIR_FLOAT8_E8M0FNU];
	struct weir_loaded *loaded;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 7 + 1);
	for (int d = 0; d < WEIR_FLOAT8_E8M0FNU; d++) {
		enum weir_dtype dtype = (enum weir_dtype)(d + 1);
		struct weir_tensor *tensor =
		    tensor_on(memories[d % 3], dtype, SHAPE(2, 3, 4));

		tensor_put(tensor, bytes);
		named[d] =
		    (struct weir_named){ weir_dtype_name(dtype), tensor };
	}
	EXPECT_OK(weir_save(path, named, WEIR_FLOAT8_E8M0FNU, NULL));
	EXPECT_OK(weir_load(path, NULL, &loaded));
	EXPECT_EQ(weir_loaded_count(loaded), WEIR_FLOAT8_E8M0FNU);
	for (int d = 0; d < WEIR_FLOAT8_E8M0FNU; d++) {
		const struct weir_tensor *tensor =
		    loaded_as(loaded, named[d].name);
		struct weir_tensor_info info = tensor_info(tensor);

		EXPECT_EQ(info.dtype, d + 1);
		EXPECT_EQ(info.ndim, 3);
		EXPECT_EQ(info.shape[2], 4);
		EXPECT_EQ(info.memory, memories[d % 3]);
		tensor_get(tensor, got);
		EXPECT_MEM_EQ(got, bytes, info.bytes);
		weir_tensor_destroy(
		    (struct weir_tensor *)(uintptr_t)named[d].tensor);
	}
	weir_loaded_drop(loaded);
	unlink(path);
	expect_healthy();
}

TEST(shared_memory_is_written_once_and_shared_again)
{
	const char *path = temporary();
	struct weir_tensor *whole =
	    tensor_on(WEIR_MEMORY_DEVICE, WEIR_INT32, SHAPE(100, 100));
	struct weir_tensor *part, *turned, *again;
	struct weir_loaded *loaded;
	struct stat about;
	int32_t got[100];

	for (int i = 0; i < 100; i++) {
		struct weir_tensor *row;

		EXPECT_OK(weir_tensor_select(whole, 0, i, &row));
		EXPECT_OK(weir_tensor_fill(row, WEIR_INT32, &i, NULL));
		weir_tensor_destroy(row);
	}
	EXPECT_OK(weir_tensor_narrow(whole, 0, 10, 20, &part));
	EXPECT_OK(weir_tensor_transpose(whole, 0, 1, &turned));
	EXPECT_OK(weir_tensor_alias(whole, NULL, &again));
	EXPECT_OK(weir_save(path,
	    (struct weir_named[]){ { "whole", whole }, { "part", part },
		{ "turned", turned }, { "again", again } },
	    4, NULL));
	EXPECT_EQ(stat(path, &about), 0);
	EXPECT_LT(about.st_size, 40000 + 1024);
	EXPECT_OK(weir_load(path, NULL, &loaded));
	EXPECT_EQ(weir_loaded_count(loaded), 4);
	struct weir_storage *storage =
	    tensor_info(loaded_as(loaded, "whole")).storage;
	EXPECT_EQ(tensor_info(loaded_as(loaded, "part")).storage, storage);
	EXPECT_EQ(tensor_info(loaded_as(loaded, "turned")).storage, storage);
	EXPECT_EQ(tensor_info(loaded_as(loaded, "again")).storage, storage);
	EXPECT_EQ(tensor_info(loaded_as(loaded, "part")).offset_bytes, 4000);
	EXPECT_EQ(tensor_info(loaded_as(loaded, "turned")).strides[0], 1);
	struct weir_tensor *row;
	EXPECT_OK(weir_tensor_select(loaded_as(loaded, "turned"), 0, 3, &row));
	tensor_get(row, got);
	for (int i = 0; i < 100; i++)
		EXPECT_EQ(got[i], i);
	weir_tensor_destroy(row);
	weir_loaded_drop(loaded);
	weir_tensor_destroy(whole);
	weir_tensor_destroy(part);
	weir_tensor_destroy(turned);
	weir_tensor_destroy(again);
	unlink(path);
	expect_healthy();
}

TEST(parts_that_overlap_without_a_whole_are_shared_again)
{
	const char *path = temporary();
	struct weir_tensor *whole = tensor_on(
			       WEIR_MEMORY_HOST, WEIR_INT16, SHAPE(100)),
			   *a, *b, *c;
	int16_t numbers[100];
	struct weir_loaded *loaded;

	for (int i = 0; i < 100; i++)
		numbers[i] = (int16_t)i;
	tensor_put(whole, numbers);
	EXPECT_OK(weir_tensor_narrow(whole, 0, 10, 30, &a));
	EXPECT_OK(weir_tensor_narrow(whole, 0, 30, 30, &b));
	EXPECT_OK(weir_tensor_narrow(whole, 0, 80, 10, &c));
	EXPECT_OK(weir_save(path,
	    (struct weir_named[]){ { "a", a }, { "b", b }, { "c", c } }, 3,
	    NULL));
	EXPECT_OK(weir_load(path, NULL, &loaded));
	EXPECT_EQ(weir_loaded_count(loaded), 3);
	EXPECT_STR_EQ(weir_loaded_name(loaded, 0), "a");
	EXPECT_NULL(weir_loaded_name(loaded, 3));
	EXPECT_EQ(tensor_info(loaded_as(loaded, "a")).storage,
	    tensor_info(loaded_as(loaded, "b")).storage);
	EXPECT_NE(tensor_info(loaded_as(loaded, "a")).storage,
	    tensor_info(loaded_as(loaded, "c")).storage);
	EXPECT_MEM_EQ(
	    tensor_info(loaded_as(loaded, "a")).data, numbers + 10, 60);
	EXPECT_MEM_EQ(
	    tensor_info(loaded_as(loaded, "b")).data, numbers + 30, 60);
	EXPECT_MEM_EQ(
	    tensor_info(loaded_as(loaded, "c")).data, numbers + 80, 20);
	weir_loaded_drop(loaded);
	weir_tensor_destroy(a);
	weir_tensor_destroy(b);
	weir_tensor_destroy(c);
	weir_tensor_destroy(whole);
	unlink(path);
}

TEST(tensors_without_elements_and_dimensions_are_saved)
{
	const char *path = temporary();
	struct weir_tensor *empty =
	    tensor_on(WEIR_MEMORY_DEVICE, WEIR_FLOAT32, SHAPE(3, 0, 2));
	struct weir_tensor *scalar =
	    tensor_on(WEIR_MEMORY_DEVICE, WEIR_FLOAT64, 0, NULL);
	struct weir_loaded *loaded;
	double got = 0;

	EXPECT_OK(weir_tensor_fill(scalar, WEIR_INT32, &(int){ 5 }, NULL));
	EXPECT_OK(weir_save(path,
	    (struct weir_named[]){ { "empty", empty }, { "scalar", scalar } },
	    2, NULL));
	EXPECT_OK(weir_load(path, NULL, &loaded));
	EXPECT_EQ(tensor_info(loaded_as(loaded, "empty")).ndim, 3);
	EXPECT_EQ(tensor_info(loaded_as(loaded, "empty")).shape[2], 2);
	tensor_get(loaded_as(loaded, "scalar"), &got);
	EXPECT_EQ(got, 5);
	weir_loaded_drop(loaded);
	EXPECT_OK(weir_save(path, NULL, 0, NULL));
	EXPECT_OK(weir_load(path, NULL, &loaded));
	EXPECT_EQ(weir_loaded_count(loaded), 0);
	weir_loaded_drop(loaded);
	weir_tensor_destroy(empty);
	weir_tensor_destroy(scalar);
	unlink(path);
}

TEST(places_are_kept_and_mapped)
{
	const char *path = temporary();
	struct weir_place place = place_of(WEIR_MEMORY_DEVICE, 1, NULL);
	struct weir_load_options options = { .struct_size = sizeof(options) };
	struct weir_tensor *tensor;
	struct weir_loaded *loaded;
	int32_t got[4];

	device_need(2);
	EXPECT_OK(weir_tensor_empty(WEIR_INT32, SHAPE(4), &place, &tensor));
	EXPECT_OK(weir_tensor_fill(tensor, WEIR_INT32, &(int){ 3 }, NULL));
	EXPECT_OK(
	    weir_save(path, &(struct weir_named){ "x", tensor }, 1, NULL));
	EXPECT_OK(weir_load(path, NULL, &loaded));
	EXPECT_EQ(tensor_info(loaded_as(loaded, "x")).device, 1);
	weir_loaded_drop(loaded);
	options.map = (const char *[]){ "cuda:1", "cuda:0", NULL };
	EXPECT_OK(weir_load(path, &options, &loaded));
	EXPECT_EQ(tensor_info(loaded_as(loaded, "x")).device, 0);
	tensor_get(loaded_as(loaded, "x"), got);
	EXPECT_EQ(got[3], 3);
	weir_loaded_drop(loaded);
	options.map = (const char *[]){ "cuda:1", "cuda:77", NULL };
	EXPECT_STATUS(weir_load(path, &options, &loaded), WEIR_ENODEVICE);
	options.map = (const char *[]){ "cuda:1", "gpu", NULL };
	EXPECT_STATUS(weir_load(path, &options, &loaded), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "invalid device string: 'gpu'");
	place.memory = WEIR_MEMORY_HOST;
	options.map = NULL;
	options.place = &place;
	EXPECT_OK(weir_load(path, &options, &loaded));
	EXPECT_EQ(tensor_info(loaded_as(loaded, "x")).memory, WEIR_MEMORY_HOST);
	weir_loaded_drop(loaded);
	weir_tensor_destroy(tensor);
	unlink(path);
}

static uint64_t told, told_total;
static unsigned times_told;

static void
tell(void *closure, uint64_t done, uint64_t total)
{
	(void)closure;
	EXPECT_GE(done, told);
	told = done;
	told_total = total;
	times_told++;
}

TEST(large_tensors_go_in_chunks_and_progress_is_reported)
{
	enum { BYTES = 40 * MIB + 13 };
	const char *path = temporary();
	struct weir_tensor *tensor =
	    tensor_on(WEIR_MEMORY_DEVICE, WEIR_UINT8, SHAPE(BYTES));
	struct weir_save_options save = { .struct_size = sizeof(save),
		.progress = tell };
	struct weir_load_options load = { .struct_size = sizeof(load),
		.progress = tell };
	unsigned char *bytes = malloc(BYTES), *got = malloc(BYTES);
	struct weir_loaded *loaded;

	for (size_t i = 0; i < BYTES; i++)
		bytes[i] = (unsigned char)(i * 31 + (i >> 12));
	tensor_put(tensor, bytes);
	EXPECT_OK(
	    weir_save(path, &(struct weir_named){ "x", tensor }, 1, &save));
	EXPECT_EQ(told, BYTES);
	EXPECT_EQ(told_total, BYTES);
	EXPECT_GE(times_told, 1);
	told = 0;
	EXPECT_OK(weir_load(path, &load, &loaded));
	EXPECT_EQ(told, BYTES);
	tensor_get(loaded_as(loaded, "x"), got);
	EXPECT_MEM_EQ(got, bytes, BYTES);
	weir_loaded_drop(loaded);
	weir_tensor_destroy(tensor);
	free(bytes);
	free(got);
	unlink(path);
	expect_healthy();
}

TEST(impossible_names_are_refused_and_no_file_appears)
{
	const char *path = temporary();
	struct weir_tensor *tensor =
	    tensor_on(WEIR_MEMORY_HOST, WEIR_UINT8, SHAPE(1));
	struct weir_named twice[] = { { "x", tensor }, { "x", tensor } };
	static const char *const wrong[] = { "", "__metadata__", "weir.x",
		"\xff", "\xc0\x80", "\xed\xa0\x80", "\xe2\x82" };

	EXPECT_STATUS(weir_save(path, twice, 2, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "'x'");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		EXPECT_STATUS(
		    weir_save(path, &(struct weir_named){ wrong[i], tensor }, 1,
			NULL),
		    WEIR_EINVAL);
	EXPECT_STATUS(weir_save("/nonexistent/x",
			  &(struct weir_named){ "x", tensor }, 1, NULL),
	    WEIR_EFILE);
	EXPECT_STR_HAS(weir_last_error(), "/nonexistent/x");
	EXPECT_NE(access(path, F_OK), 0);
	weir_tensor_destroy(tensor);
}

TEST(a_saved_file_is_its_users_alone)
{
	const char *path = temporary();
	struct weir_tensor *tensor =
	    tensor_on(WEIR_MEMORY_HOST, WEIR_UINT8, SHAPE(1));
	const struct weir_named named = { "x", tensor };
	const mode_t mask = umask(0);
	struct stat about;

	EXPECT_OK(weir_tensor_fill(tensor, WEIR_INT32, &(int){ 1 }, NULL));
	EXPECT_OK(weir_save(path, &named, 1, NULL));
	umask(mask);
	EXPECT_EQ(stat(path, &about), 0);
	EXPECT_EQ(about.st_mode & 0777, 0600);
	weir_tensor_destroy(tensor);
}

TEST(a_failure_has_the_errno_of_the_system_call)
{
	struct weir_tensor *tensor =
	    tensor_on(WEIR_MEMORY_HOST, WEIR_UINT8, SHAPE(1));
	const struct weir_named named = { "x", tensor };
	struct weir_loaded *loaded = NULL;
	const char *path = temporary();

	EXPECT_OK(weir_tensor_fill(tensor, WEIR_INT32, &(int){ 1 }, NULL));
	EXPECT_STATUS(weir_load(path, NULL, &loaded), WEIR_EFILE);
	EXPECT_EQ(weir_last_errno(), ENOENT);
	EXPECT_STATUS(weir_save("/nonexistent/x", &named, 1, NULL), WEIR_EFILE);
	EXPECT_EQ(weir_last_errno(), ENOENT);
	EXPECT_STATUS(weir_load("/tmp", NULL, &loaded), WEIR_EFILE);
	EXPECT_EQ(weir_last_errno(), EISDIR);
	EXPECT_STATUS(weir_save("/dev/null", &named, 1, NULL), WEIR_EFILE);
	EXPECT_EQ(weir_last_errno(), EINVAL);
	write_bytes(path, "1234567", 7);
	EXPECT_STATUS(weir_load(path, NULL, &loaded), WEIR_EFILE);
	EXPECT_EQ(weir_last_errno(), 0);
	unlink(path);
	weir_tensor_destroy(tensor);
}

/* A file that is renamed over a device removes it for every process. */
TEST(a_device_or_a_pipe_is_no_place_for_a_file)
{
	const char *path = temporary();
	struct weir_tensor *tensor =
	    tensor_on(WEIR_MEMORY_HOST, WEIR_UINT8, SHAPE(1));
	const struct weir_named named = { "x", tensor };
	struct stat about;
	char *link;

	EXPECT_OK(weir_tensor_fill(tensor, WEIR_INT32, &(int){ 1 }, NULL));
	EXPECT_GT(asprintf(&link, "%s.link", path), 0);
	EXPECT_EQ(mkfifo(path, 0600), 0);
	EXPECT_EQ(symlink(path, link), 0);
	EXPECT_STATUS(weir_save(path, &named, 1, NULL), WEIR_EFILE);
	EXPECT_STR_HAS(weir_last_error(), "no plain file");
	EXPECT_STATUS(weir_save(link, &named, 1, NULL), WEIR_EFILE);
	EXPECT_EQ(lstat(path, &about), 0);
	EXPECT(S_ISFIFO(about.st_mode));
	EXPECT_EQ(lstat(link, &about), 0);
	EXPECT(S_ISLNK(about.st_mode));
	/* A link to a file is replaced. */
	unlink(path);
	EXPECT_OK(weir_save(link, &named, 1, NULL));
	EXPECT_EQ(lstat(link, &about), 0);
	EXPECT(S_ISREG(about.st_mode));
	unlink(link);
	free(link);
	weir_tensor_destroy(tensor);
}

#define ENTRY(dtype, shape, offsets)                                           \
	"{\"dtype\":\"" dtype "\",\"shape\":" shape                            \
	",\"data_offsets\":" offsets "}"

static const struct {
	const char *header;
	size_t data;
	const char *word;
} liars[] = {
	{ "", 0, "'{'" },
	{ "[]", 0, "'{'" },
	{ "{", 0, "missing" },
	{ "{}x", 0, "follows" },
	{ "{\"a\":" ENTRY("F32", "[2]", "[0,8]") "}", 7, "cut short" },
	{ "{\"a\":" ENTRY("F32", "[2]", "[0,8]") "}", 9, "after" },
	{ "{\"a\":" ENTRY("F32", "[2]", "[0,7]") "}", 7, "do not fit" },
	{ "{\"a\":" ENTRY("F32", "[2]", "[8,0]") "}", 8, "do not fit" },
	{ "{\"a\":" ENTRY("F32", "[2]", "[4,12]") "}", 12, "gap" },
	{ "{\"a\":" ENTRY("F99", "[2]", "[0,8]") "}", 8, "dtype" },
	{ "{\"a\":" ENTRY("U8", "[-1]", "[0,8]") "}", 8, "number" },
	{ "{\"a\":" ENTRY("U8", "[1.5]", "[0,8]") "}", 8, "','" },
	{ "{\"a\":" ENTRY(
	      "U8", "[4611686018427387904,4611686018427387904]", "[0,0]") "}",
	    0, "too large" },
	{ "{\"a\":" ENTRY("U8", "[99999999999999999999]", "[0,0]") "}", 0,
	    "too large" },
	{ "{\"a\":" ENTRY("U8", "[1]", "[0,1]") ",\"a\":" ENTRY(
	      "U8", "[1]", "[1,2]") "}",
	    2, "twice" },
	{ "{\"a\":" ENTRY("U8", "[2]", "[0,2]") ",\"b\":" ENTRY(
	      "U8", "[2]", "[1,3]") "}",
	    3, "overlap" },
	{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "missing" },
	{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"shape\":[1]}}", 1,
	    "twice" },
	{ "{\"a\":{\"size\":1}}", 1, "'a': dtype, shape or" },
	{ "{\"a", 0, "no end" },
	{ "{\"\\u12\":1}", 0, "hexadecimal" },
	{ "{\"\\ud800\":1}", 0, "surrogate" },
	{ "{\"\\u0000\":1}", 0, "'{'" },
	{ "{\"__metadata__\":{\"a\":1}}", 0, "text" },
	{ "{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0, "twice" },
	{ "{\"__metadata__\":{\"weir.view.x\":\"uint8 0 1 9 1 a\"},"
	  "\"a\":" ENTRY("U8", "[8]", "[0,8]") "}",
	    8, "no view" },
	{ "{\"__metadata__\":{\"weir.view.x\":\"uint8 0 1 2 "
	  "9223372036854775807 a\"},\"a\":" ENTRY("U8", "[8]", "[0,8]") "}",
	    8, "no view" },
	{ "{\"__metadata__\":{\"weir.view.x\":\"uint8 0 1 1 1 b\"},"
	  "\"a\":" ENTRY("U8", "[8]", "[0,8]") "}",
	    8, "no view" },
	{ "{\"__metadata__\":{\"weir.view.a\":\"uint8 0 1 1 1 a\"},"
	  "\"a\":" ENTRY("U8", "[8]", "[0,8]") "}",
	    8, "no view" },
	{ "{\"__metadata__\":{\"weir.dtype.a\":\"complex128\"},"
	  "\"a\":" ENTRY("U8", "[8]", "[0,8]") "}",
	    8, "complex128" },
};

TEST(headers_that_lie_are_refused_before_anything_is_allocated)
{
	const char *path = temporary();
	struct weir_loaded *loaded = NULL;

	for (size_t i = 0; i < sizeof(liars) / sizeof(liars[0]); i++) {
		write_header(path, liars[i].header, liars[i].data);
		EXPECT_STATUS(weir_load(path, NULL, &loaded), WEIR_EFILE);
		EXPECT_STR_HAS(weir_last_error(), liars[i].word);
		EXPECT_STR_HAS(weir_last_error(), path);
	}
	EXPECT_NULL((void *)driver_peek());
	EXPECT_NULL(loaded);
	unlink(path);
}

TEST(files_that_are_cut_short_anywhere_are_refused)
{
	static char bytes[FILE_SIZE];
	const char *path = temporary();
	struct weir_tensor *tensor =
	    tensor_on(WEIR_MEMORY_HOST, WEIR_FLOAT32, SHAPE(10));
	struct weir_loaded *loaded = NULL;
	size_t size;

	EXPECT_OK(weir_tensor_fill(tensor, WEIR_INT32, &(int){ 1 }, NULL));
	EXPECT_OK(
	    weir_save(path, &(struct weir_named){ "x", tensor }, 1, NULL));
	size = read_bytes(path, bytes, sizeof(bytes));
	for (size_t cut = 0; cut < size; cut++) {
		write_bytes(path, bytes, cut);
		EXPECT_STATUS(weir_load(path, NULL, &loaded), WEIR_EFILE);
	}
	memset(bytes, 0xff, 8);
	write_bytes(path, bytes, size);
	EXPECT_STATUS(weir_load(path, NULL, &loaded), WEIR_EFILE);
	EXPECT_STATUS(weir_load("/tmp", NULL, &loaded), WEIR_EFILE);
	EXPECT_STATUS(weir_load("/nonexistent", NULL, &loaded), WEIR_EFILE);
	EXPECT_NULL(loaded);
	weir_tensor_destroy(tensor);
	unlink(path);
}

TEST(metadata_of_the_program_comes_back)
{
	const char *path = temporary();
	const char *metadata[] = { "k\xc3\xa4", "v\t\\", "n", "", NULL };
	struct weir_save_options options = { .struct_size = sizeof(options),
		.metadata = metadata };
	struct weir_loaded *loaded;

	EXPECT_OK(weir_save(path, NULL, 0, &options));
	EXPECT_OK(weir_load(path, NULL, &loaded));
	EXPECT_STR_EQ(weir_loaded_metadata(loaded, "k\xc3\xa4"), "v\t\\");
	EXPECT_STR_EQ(weir_loaded_metadata(loaded, "n"), "");
	EXPECT_NULL(weir_loaded_metadata(loaded, "weir.place"));
	EXPECT_NULL(weir_loaded_metadata(loaded, "x"));
	weir_loaded_drop(loaded);
	metadata[0] = "weir.place";
	EXPECT_STATUS(weir_save(path, NULL, 0, &options), WEIR_EINVAL);
	unlink(path);
}

/* ---- Files of others ---------------------------------------------------- */

/* A tensor of four-bit elements among others. */
TEST(a_tensor_that_weir_has_no_type_for_is_its_bytes)
{
	const char *path = temporary();
	struct weir_place place = place_of(WEIR_MEMORY_HOST, 0, NULL);
	struct weir_load_options options = { .struct_size = sizeof(options),
		.place = &place };
	struct weir_loaded *loaded;
	const uint64_t *shape = NULL;
	size_t ndim = 0;

	write_header(path,
	    "{\"w\":" ENTRY("F4", "[2,3,4]", "[0,12]") ",\"a\":" ENTRY(
		"F32", "[2,2]", "[12,28]") ",\"z\":" ENTRY("F64",
		"[0,18446744073709551615]", "[28,28]") "}",
	    28);
	EXPECT_OK(weir_load(path, &options, &loaded));
	EXPECT_EQ(weir_loaded_count(loaded), 3);
	EXPECT_EQ(tensor_info(loaded_as(loaded, "a")).dtype, WEIR_FLOAT32);
	EXPECT_EQ(tensor_info(loaded_as(loaded, "a")).ndim, 2);
	EXPECT_NULL(weir_loaded_opaque(loaded, 0, &ndim, &shape));
	EXPECT_EQ(tensor_info(loaded_as(loaded, "w")).dtype, WEIR_UINT8);
	EXPECT_EQ(tensor_info(loaded_as(loaded, "w")).ndim, 1);
	EXPECT_EQ(tensor_info(loaded_as(loaded, "w")).shape[0], 12);
	EXPECT_STR_EQ(weir_loaded_opaque(loaded, 1, &ndim, &shape), "F4");
	EXPECT_EQ(ndim, 3);
	EXPECT_EQ(shape[0], 2);
	EXPECT_EQ(shape[2], 4);
	EXPECT_STR_EQ(weir_loaded_opaque(loaded, 2, NULL, &shape), "F64");
	EXPECT_EQ(shape[1], UINT64_MAX);
	EXPECT_EQ(tensor_info(loaded_as(loaded, "z")).elements, 0);
	EXPECT_NULL(weir_loaded_opaque(loaded, 3, NULL, NULL));
	EXPECT_NULL(weir_loaded_opaque(NULL, 0, NULL, NULL));
	weir_loaded_drop(loaded);
	unlink(path);
}

/* Files that were written before the format had names for these types. */
TEST(a_type_that_has_a_name_now_is_read_by_either)
{
	const char *path = temporary();
	struct weir_place place = place_of(WEIR_MEMORY_HOST, 0, NULL);
	struct weir_load_options options = { .struct_size = sizeof(options),
		.place = &place };
	struct weir_loaded *loaded;

	write_header(path,
	    "{\"__metadata__\":{\"weir.dtype.a\":\"float8_e4m3fnuz\"},"
	    "\"a\":" ENTRY("U8", "[2]", "[0,2]") ",\"b\":" ENTRY(
		"F8_E4M3FNUZ", "[2]", "[2,4]") "}",
	    4);
	EXPECT_OK(weir_load(path, &options, &loaded));
	EXPECT_EQ(
	    tensor_info(loaded_as(loaded, "a")).dtype, WEIR_FLOAT8_E4M3FNUZ);
	EXPECT_EQ(
	    tensor_info(loaded_as(loaded, "b")).dtype, WEIR_FLOAT8_E4M3FNUZ);
	weir_loaded_drop(loaded);
	unlink(path);
}

TEST(a_type_is_written_by_the_format_s_name)
{
	static const struct {
		enum weir_dtype dtype;
		const char *words;
	} types[] = { { WEIR_FLOAT8_E4M3FNUZ, "\"dtype\":\"F8_E4M3FNUZ\"" },
		{ WEIR_FLOAT8_E5M2FNUZ, "\"dtype\":\"F8_E5M2FNUZ\"" },
		{ WEIR_FLOAT8_E3M4, "\"dtype\":\"U8\"" },
		{ WEIR_COMPLEX128, "\"dtype\":\"F64\"" } };
	static char bytes[FILE_SIZE];
	const char *path = temporary();

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct weir_tensor *tensor =
		    tensor_on(WEIR_MEMORY_HOST, types[i].dtype, SHAPE(2));

		EXPECT_OK(
		    weir_tensor_fill(tensor, WEIR_INT32, &(int){ 0 }, NULL));
		EXPECT_OK(weir_save(
		    path, &(struct weir_named){ "x", tensor }, 1, NULL));
		bytes[read_bytes(path, bytes, sizeof(bytes) - 1)] = '\0';
		EXPECT_STR_HAS(bytes + 8, types[i].words);
		weir_tensor_destroy(tensor);
	}
	unlink(path);
}

TEST(keys_are_listed_without_those_of_weir)
{
	const char *path = temporary();
	struct weir_loaded *loaded;

	write_header(path,
	    "{\"__metadata__\":{\"z\":\"1\",\"weir\":\"2\",\"weir.place\":"
	    "\"cpu\",\"weir.x\":\"\",\"weir/\":\"3\",\"a\\u0000b\":"
	    "\"\\u0000\"}}",
	    0);
	EXPECT_OK(weir_load(path, NULL, &loaded));
	EXPECT_STR_EQ(weir_loaded_key(loaded, 0),
	    "a\xc0\x80"
	    "b");
	EXPECT_STR_EQ(weir_loaded_metadata(loaded, weir_loaded_key(loaded, 0)),
	    "\xc0\x80");
	EXPECT_STR_EQ(weir_loaded_key(loaded, 1), "weir");
	EXPECT_STR_EQ(weir_loaded_key(loaded, 2), "weir/");
	EXPECT_STR_EQ(weir_loaded_key(loaded, 3), "z");
	EXPECT_NULL(weir_loaded_key(loaded, 4));
	EXPECT_NULL(weir_loaded_key(loaded, SIZE_MAX));
	EXPECT_NULL(weir_loaded_key(NULL, 0));
	weir_loaded_drop(loaded);
	unlink(path);
}

/* ---- Streams ------------------------------------------------------------ */

TEST(a_view_with_gaps_is_saved_after_the_work_of_other_streams)
{
	enum { ROWS = 64, COLUMNS = 128 };
	const char *path = temporary();
	weir_stream a = new_stream(), b = new_stream();
	struct weir_tensor *whole =
	    tensor_stream_on(a, WEIR_UINT8, SHAPE(ROWS, COLUMNS));
	static char got[ROWS * COLUMNS];
	struct weir_tensor *view;
	struct weir_loaded *loaded;
	struct weir_place host = place_of(WEIR_MEMORY_HOST, 0, NULL);
	struct weir_load_options options = { .struct_size = sizeof(options),
		.place = &host };

	fill(tensor_info(whole).data, ROWS * COLUMNS, 1, a);
	finish(a);
	EXPECT_OK(weir_tensor_narrow(whole, 1, 0, COLUMNS / 2, &view));
	busy(b, LATE_MS);
	fill(tensor_info(whole).data, ROWS * COLUMNS, 2, b);
	EXPECT_OK(weir_tensor_record(whole, b));
	EXPECT_OK(
	    weir_save(path, &(struct weir_named){ "view", view }, 1, NULL));
	EXPECT_OK(weir_load(path, &options, &loaded));
	tensor_get(loaded_as(loaded, "view"), got);
	for (size_t i = 0; i < (size_t)ROWS * COLUMNS / 2; i++)
		EXPECT_EQ(got[i], 2);
	weir_loaded_drop(loaded);
	weir_tensor_destroy(view);
	weir_tensor_destroy(whole);
	unlink(path);
	expect_healthy();
}

TEST(page_locked_memory_is_saved_after_the_work_of_streams)
{
	enum { BYTES = 3000 };
	const char *path = temporary();
	weir_stream a = new_stream();
	struct weir_tensor *from =
	    tensor_stream_on(a, WEIR_UINT8, SHAPE(BYTES));
	struct weir_tensor *to =
	    tensor_on(WEIR_MEMORY_PINNED, WEIR_UINT8, SHAPE(BYTES));
	static char bytes[BYTES], got[BYTES];
	struct weir_loaded *loaded;

	tensor_put(to, bytes);
	memset(bytes, 7, sizeof(bytes));
	tensor_put(from, bytes);
	busy(a, LATE_MS);
	EXPECT_OK(weir_tensor_copy(to, from, a, WEIR_COPY_NON_BLOCKING));
	EXPECT_OK(weir_save(path, &(struct weir_named){ "to", to }, 1, NULL));
	EXPECT_OK(weir_load(path, NULL, &loaded));
	tensor_get(loaded_as(loaded, "to"), got);
	EXPECT_MEM_EQ(got, bytes, BYTES);
	weir_loaded_drop(loaded);
	weir_tensor_destroy(from);
	weir_tensor_destroy(to);
	unlink(path);
	expect_healthy();
}

/* Streams of the pool are the program's as well: it may capture one. */
TEST(files_are_copied_on_no_stream_that_a_program_borrowed)
{
	enum { BYTES = 3000 };
	const char *path = temporary();
	weir_stream borrowed = NULL, other;
	static char bytes[BYTES], got[BYTES];
	struct weir_tensor *tensor =
	    tensor_stream_on(new_stream(), WEIR_UINT8, SHAPE(BYTES));
	struct weir_loaded *loaded;
	struct weir_graph *graph;
	size_t nodes = 1;

	memset(bytes, 7, sizeof(bytes));
	tensor_put(tensor, bytes);
	EXPECT_OK(weir_stream_from_pool(0, 0, &borrowed));
	EXPECT_OK(weir_graph_create(0, &graph));
	EXPECT_OK(weir_graph_capture_begin(
	    graph, borrowed, NULL, WEIR_CAPTURE_RELAXED));
	for (int i = 0; i < WEIR_STREAM_POOL_SIZE; i++) {
		EXPECT_OK(weir_save(
		    path, &(struct weir_named){ "tensor", tensor }, 1, NULL));
		EXPECT_OK(weir_load(path, NULL, &loaded));
		tensor_get(loaded_as(loaded, "tensor"), got);
		EXPECT_MEM_EQ(got, bytes, BYTES);
		weir_loaded_drop(loaded);
		EXPECT_OK(weir_stream_from_pool(0, 0, &other));
	}
	EXPECT_OK(weir_graph_capture_end(graph));
	EXPECT_OK(weir_graph_nodes(graph, &nodes));
	EXPECT_EQ(nodes, 0);
	weir_graph_destroy(graph);
	weir_tensor_destroy(tensor);
	unlink(path);
	expect_healthy();
}
