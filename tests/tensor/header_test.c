/*
 * What the header of a file may be: the format's reference accepts and refuses
 * the same.
 */
#include "tensor/header.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#include "tests/tensor/support.h"

#define ENTRY(dtype, shape, offsets)                                           \
	"{\"dtype\":\"" dtype "\",\"shape\":" shape                            \
	",\"data_offsets\":" offsets "}"
#define ONE ENTRY("U8", "[1]", "[0,1]")

struct trial {
	const char *text;
	size_t size;
	uint64_t data;
	const char *words; /* of the error; NULL: it is accepted */
};

/* sizeof, because a text may hold zeros. */
#define GOOD(text, data)                                                       \
	{                                                                      \
		text, sizeof(text) - 1, data, NULL                             \
	}
#define BAD(text, data, words)                                                 \
	{                                                                      \
		text, sizeof(text) - 1, data, words                            \
	}
/* An entry of one byte with one more member, and one before the others. */
#define MEMBER(member) "{\"a\":{" member ",\"x\":0," ONE_MEMBERS "}}"
#define ONE_MEMBERS "\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"

static const struct trial trials[] = {
	GOOD("{}", 0),
	GOOD("{}  \t\r\n", 0),
	GOOD("\n\t {}\r ", 0),
	GOOD(" { \"a\" : { \"dtype\" :\t\"U8\" , \"shape\" : [ 1 ] , "
	     "\"data_offsets\" : [ 0 , 1 ] } } ",
	    1),
	BAD("", 0, "'{'"),
	BAD("{}\0", 0, "follows"),
	BAD("{}\0 garbage", 0, "follows"),
	BAD("{} {}", 0, "follows"),
	BAD("\0{}", 0, "'{'"),
	BAD("\xef\xbb\xbf{}", 0, "'{'"),
	BAD("\f{}", 0, "'{'"),
	BAD("[]", 0, "'{'"),
	BAD("null", 0, "'{'"),
	BAD("{\"a\":" ONE ",}", 1, "a text is missing"),
	BAD("{,\"a\":" ONE "}", 1, "a text is missing"),
	BAD("{\"a\" " ONE "}", 1, "':'"),
	BAD("{\"a\":" ONE "\0}", 1, "','"),
	BAD("{\"a\":null}", 0, "'{'"),
	/* Members of an entry. */
	GOOD(MEMBER("\"note\":\"x\""), 1),
	GOOD(MEMBER("\"n\":{\"k\":[1,{\"z\":null}],\"l\":{},\"m\":[]}"), 1),
	GOOD(MEMBER("\"n\":[true,false,null,-0,-1.5e+3,0.1E-7,1e308]"), 1),
	GOOD(MEMBER("\"n\":1e-999999999999"), 1),
	GOOD(MEMBER("\"n\":0.000e999"), 1),
	GOOD(MEMBER("\"n\":{\"a\":1,\"a\":2}"), 1),
	GOOD("{\"a\":{\"d\\u0074ype\":\"\\u0055\\u0038\",\"shape\":[1],"
	     "\"data_offsets\":[0,1]}}",
	    1),
	BAD(MEMBER("\"n\":[1,]"), 1, "a value is missing"),
	BAD(MEMBER("\"n\":[,1]"), 1, "a value is missing"),
	BAD(MEMBER("\"n\":[1 2]"), 1, "','"),
	BAD(MEMBER("\"n\":[1}"), 1, "','"),
	BAD(MEMBER("\"n\":{1:2}"), 1, "a text is missing"),
	BAD(MEMBER("\"n\":{\"k\"}"), 1, "':'"),
	BAD(MEMBER("\"n\":nul"), 1, "a value is missing"),
	BAD(MEMBER("\"n\":True"), 1, "a value is missing"),
	BAD(MEMBER("\"n\":NaN"), 1, "a value is missing"),
	BAD(MEMBER("\"n\":01"), 1, "begins with 0"),
	BAD(MEMBER("\"n\":+1"), 1, "a value is missing"),
	BAD(MEMBER("\"n\":1."), 1, "a digit is missing"),
	BAD(MEMBER("\"n\":.1"), 1, "a value is missing"),
	BAD(MEMBER("\"n\":1e"), 1, "a digit is missing"),
	BAD(MEMBER("\"n\":-"), 1, "a digit is missing"),
	BAD(MEMBER("\"n\":1e309"), 1, "too large"),
	BAD(MEMBER("\"n\":0.001e312"), 1, "too large"),
	BAD(MEMBER("\"n\":\"\\x\""), 1, "escape"),
	BAD(MEMBER("\"n\":\"\t\""), 1, "control character"),
	BAD(MEMBER("\"n\":\"\\ud800\""), 1, "surrogate"),
	BAD(MEMBER("\"n\":[1"), 1, "','"),
	BAD("{\"a\":{\"n\":[", 1, "a value is missing"),
	BAD("{\"a\":{\"dtype\":\"U8\"," ONE_MEMBERS "}}", 1, "twice"),
	BAD("{\"a\":{" ONE_MEMBERS ",\"shape\":[1]}}", 1, "'a': a member"),
	BAD("{\"a\":{}}", 0, "'a': dtype, shape or"),
	BAD("{\"a\":" ENTRY("f32", "[1]", "[0,4]") "}", 4, "'a'"),
	BAD("{\"a\":" ENTRY("F99", "[1]", "[0,4]") "}", 4, "dtype 'F99'"),
	BAD("{\"a\":" ENTRY("U8\\u0000", "[1]", "[0,1]") "}", 1, "dtype 'U8"),
	BAD("{\"a\":" ENTRY("", "[1]", "[0,1]") "}", 1, "dtype ''"),
	/* Numbers. */
	BAD("{\"a\":" ENTRY("U8", "[1.0]", "[0,1]") "}", 1, "','"),
	BAD("{\"a\":" ENTRY("U8", "[1e0]", "[0,1]") "}", 1, "','"),
	BAD("{\"a\":" ENTRY("U8", "[-0]", "[0,0]") "}", 0, "whole number"),
	BAD("{\"a\":" ENTRY("U8", "[01]", "[0,1]") "}", 1, "begins with 0"),
	BAD("{\"a\":" ENTRY("U8", "[\"1\"]", "[0,1]") "}", 1, "whole number"),
	BAD("{\"a\":" ENTRY("U8", "[1,]", "[0,1]") "}", 1, "whole number"),
	BAD("{\"a\":" ENTRY("U8", "1", "[0,1]") "}", 1, "'['"),
	BAD("{\"a\":" ENTRY("U8", "[1]", "[0]") "}", 1, "','"),
	BAD("{\"a\":" ENTRY("U8", "[1]", "[0,1,1]") "}", 1, "']'"),
	BAD("{\"a\":" ENTRY("U8", "[1]", "[]") "}", 1, "whole number"),
	BAD("{\"a\":" ENTRY("U8", "[18446744073709551616]", "[0,0]") "}", 0,
	    "too large"),
	/* Shapes and offsets. */
	GOOD("{\"a\":" ENTRY("I32", "[]", "[0,4]") "}", 4),
	GOOD("{\"a\":" ENTRY("I32", "[2,0]", "[0,0]") "}", 0),
	GOOD(
	    "{\"a\":" ENTRY("I32", "[0,18446744073709551615]", "[0,0]") "}", 0),
	BAD("{\"a\":" ENTRY("I32", "[18446744073709551615,2,0]", "[0,0]") "}",
	    0, "'a': the shape is too large"),
	BAD("{\"a\":" ENTRY("I32", "[2,18446744073709551614]", "[0,16]") "}",
	    16, "too large"),
	BAD("{\"a\":" ENTRY("I32", "[2,9223372036854775807]", "[0,16]") "}", 16,
	    "too large"),
	BAD("{\"a\":" ENTRY("U8", "[2305843009213693952]", "[0,0]") "}", 0,
	    "too large"),
	GOOD("{\"b\":" ENTRY("U8", "[2]", "[2,4]") ",\"a\":" ENTRY("U8", "[2]",
		 "[0,2]") ",\"e\":" ENTRY("F64", "[0]", "[2,2]") "}",
	    4),
	BAD("{\"e\":" ENTRY("U8", "[0]", "[1,1]") ",\"a\":" ENTRY(
		"U8", "[2]", "[0,2]") "}",
	    2, "overlap"),
	BAD("{\"a\":" ENTRY("U8", "[1]", "[1,2]") "}", 2, "'a': entries"),
	BAD("{\"a\":" ENTRY("U8", "[0]", "[1,0]") "}", 1, "do not fit"),
	BAD("{}", 1, "bytes after"),
	BAD("{\"a\":" ONE "}", 2, "bytes after"),
	BAD("{\"a\":" ONE "}", 0, "cut short"),
	/* Types that weir has none for. */
	GOOD("{\"a\":" ENTRY("F4", "[2,4]", "[0,4]") "}", 4),
	GOOD("{\"a\":" ENTRY("F4", "[0]", "[0,0]") "}", 0),
	GOOD("{\"a\":" ENTRY("F6_E2M3", "[4]", "[0,3]") "}", 3),
	GOOD("{\"a\":" ENTRY("F6_E3M2", "[2,4]", "[0,6]") "}", 6),
	BAD("{\"a\":" ENTRY("F4", "[3]", "[0,2]") "}", 2, "whole bytes"),
	BAD("{\"a\":" ENTRY("F4", "[3]", "[0,1]") "}", 1, "F4"),
	BAD("{\"a\":" ENTRY("F6_E2M3", "[2]", "[0,2]") "}", 2, "whole bytes"),
	BAD("{\"a\":" ENTRY("F4", "[4]", "[0,4]") "}", 4, "do not fit"),
	GOOD("{\"a\":" ENTRY("U8",
		 "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
		 "1,1,1,1]",
		 "[0,1]") "}",
	    1),
	/* Names and metadata. */
	GOOD("{\"\":" ONE "}", 1),
	GOOD(
	    "{\"a\\u0000b\":" ONE ",\"a\":" ENTRY("U8", "[0]", "[1,1]") "}", 1),
	GOOD("{\"\\ud83d\\uDE00\\/\\b\\f\\n\\r\\t\\\"\\\\\":" ONE "}", 1),
	BAD("{\"\\udc00\":" ONE "}", 1, "surrogate"),
	BAD("{\"\\ud800\\ud800\":" ONE "}", 1, "surrogate"),
	BAD("{\"\\ud800x\":" ONE "}", 1, "surrogate"),
	BAD("{\"\\u12g4\":" ONE "}", 1, "hexadecimal"),
	BAD("{\"\xff\":" ONE "}", 1, "byte 2: it is not UTF-8"),
	BAD("{\"\xc0\x80\":" ONE "}", 1, "UTF-8"),
	BAD("{\"\xed\xa0\x80\":" ONE "}", 1, "UTF-8"),
	BAD("{} \x80", 0, "UTF-8"),
	BAD("{\"a\":" ONE ",\"\\u0061\":" ENTRY("U8", "[1]", "[1,2]") "}", 2,
	    "'a' is there twice"),
	GOOD("{\"__metadata__\":{}}", 0),
	GOOD("{\"__metadata__\":null}", 0),
	GOOD("{\"__metadata__\":{\"\":\"\\u0000\"}}", 0),
	BAD("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice"),
	BAD("{\"__metadata__\":null,\"__metadata__\":null}", 0, "twice"),
	BAD("{\"__metadata__\":[]}", 0, "'{'"),
	BAD("{\"__metadata__\":{\"a\":null}}", 0, "a text is missing"),
	BAD("{\"__metadata__\":{\"a\":1}}", 0, "a text is missing"),
	BAD("{\"__metadata__\":{\"a\":{}}}", 0, "a text is missing"),
	BAD("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0, "'a'"),
};

TEST(headers_are_accepted_and_refused_as_the_format_says)
{
	for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
		const struct trial *t = &trials[i];
		/* A copy of the exact size, so that reading beyond it shows. */
		char *text = malloc(t->size > 0 ? t->size : 1);
		struct header header = { 0 };
		enum weir_status status;

		memcpy(text, t->text, t->size);
		status = header_read(text, t->size, t->data, &header);
		free(text);
		if (t->words != NULL) {
			if (status != WEIR_EFILE)
				FAIL("accepted: %s", t->text);
			EXPECT_STR_HAS(weir_last_error(), t->words);
			continue;
		}
		if (status != WEIR_OK)
			FAIL("%s: %s", t->text, weir_last_error());
		header_drop(&header);
	}
}

/* A header that is cut anywhere is refused, and nothing beyond it is read. */
TEST(a_header_that_is_cut_is_refused)
{
	for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
		size_t most = trials[i].size;

		while (most > 0 && strchr(" \t\r\n", trials[i].text[most - 1]))
			most--;
		for (size_t size = 0; size < most; size++) {
			char *text = malloc(size > 0 ? size : 1);
			struct header header = { 0 };

			memcpy(text, trials[i].text, size);
			if (trials[i].words == NULL)
				EXPECT_STATUS(header_read(text, size,
						  trials[i].data, &header),
				    WEIR_EFILE);
			else if (header_read(text, size, trials[i].data,
				     &header) == WEIR_OK)
				header_drop(&header);
			free(text);
		}
	}
}

/* A member that nobody knows, in so many arrays or objects. */
static enum weir_status
read_nested(int depth, char open)
{
	static char text[4096];
	struct header header;
	enum weir_status status;
	int n = snprintf(text, sizeof(text), "{\"a\":{" ONE_MEMBERS ",\"n\":");

	for (int i = 0; i < depth; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s",
		    open == '[' ? "[" : "{\"k\":");
	text[n++] = '1';
	for (int i = 0; i < depth; i++)
		text[n++] = open == '[' ? ']' : '}';
	text[n++] = '}';
	text[n++] = '}';
	status = header_read(text, (size_t)n, 1, &header);
	if (status == WEIR_OK)
		header_drop(&header);
	return status;
}

TEST(nesting_has_the_reference_s_bound)
{
	EXPECT_OK(read_nested(125, '['));
	EXPECT_OK(read_nested(125, '{'));
	EXPECT_STATUS(read_nested(126, '['), WEIR_EFILE);
	EXPECT_STR_HAS(weir_last_error(), "nested");
	EXPECT_STATUS(read_nested(126, '{'), WEIR_EFILE);
	EXPECT_STATUS(read_nested(400, '{'), WEIR_EFILE);
}

TEST(a_header_has_at_most_100_million_bytes)
{
	enum { LIMIT = 100000000 };
	char *text = malloc(LIMIT + 1);
	struct header header;

	memset(text, ' ', LIMIT + 1);
	text[0] = '{';
	text[1] = '}';
	EXPECT_OK(header_read(text, LIMIT, 0, &header));
	header_drop(&header);
	EXPECT_STATUS(header_read(text, LIMIT + 1, 0, &header), WEIR_EFILE);
	free(text);
}

static const struct header_entry *
entry_of(const char *text, uint64_t data, struct header *header)
{
	EXPECT_OK(header_read(text, strlen(text), data, header));
	EXPECT_EQ(header->n_entries, 1);
	return &header->entries[0];
}

TEST(an_entry_that_no_tensor_can_describe_is_opaque)
{
	static const struct {
		const char *text;
		const char *type;
		bool opaque;
	} forms[] = {
		{ "{\"a\":" ENTRY("F4", "[2,1]", "[0,1]") "}", "F4", true },
		{ "{\"a\":" ENTRY("U8", "[1]", "[0,1]") "}", "U8", false },
		{ "{\"a\":" ENTRY("F8_E4M3FNUZ", "[1,1]", "[0,1]") "}",
		    "F8_E4M3FNUZ", false },
		{ "{\"a\":" ENTRY("BOOL",
		      "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
		      "1,1,1,1,1]",
		      "[0,1]") "}",
		    "BOOL", false },
		{ "{\"a\":" ENTRY("BOOL",
		      "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
		      "1,1,1,1,1,1]",
		      "[0,1]") "}",
		    "BOOL", true },
	};
	struct header header;

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		const struct header_entry *entry =
		    entry_of(forms[i].text, 1, &header);

		EXPECT_STR_EQ(entry->type, forms[i].type);
		EXPECT_EQ(entry->opaque, forms[i].opaque);
		header_drop(&header);
	}
	EXPECT(entry_of(
	    "{\"a\":" ENTRY("I8", "[0,9223372036854775808]", "[0,0]") "}", 0,
	    &header)
		   ->opaque);
	EXPECT_EQ(header_lengths(&header, &header.entries[0])[1],
	    (uint64_t)INT64_MAX + 1);
	header_drop(&header);
}

/* The table of types is complete, and each has its size. */
TEST(every_type_of_the_format_is_known)
{
	static const struct {
		const char *name;
		unsigned bits;
		enum weir_dtype dtype;
	} known[] = { { "BOOL", 8, WEIR_BOOL }, { "F4", 4, WEIR_DTYPE_NONE },
		{ "F6_E2M3", 6, WEIR_DTYPE_NONE },
		{ "F6_E3M2", 6, WEIR_DTYPE_NONE }, { "U8", 8, WEIR_UINT8 },
		{ "I8", 8, WEIR_INT8 }, { "F8_E5M2", 8, WEIR_FLOAT8_E5M2 },
		{ "F8_E4M3", 8, WEIR_FLOAT8_E4M3FN },
		{ "F8_E8M0", 8, WEIR_FLOAT8_E8M0FNU },
		{ "F8_E4M3FNUZ", 8, WEIR_FLOAT8_E4M3FNUZ },
		{ "F8_E5M2FNUZ", 8, WEIR_FLOAT8_E5M2FNUZ },
		{ "I16", 16, WEIR_INT16 }, { "U16", 16, WEIR_UINT16 },
		{ "F16", 16, WEIR_FLOAT16 }, { "BF16", 16, WEIR_BFLOAT16 },
		{ "I32", 32, WEIR_INT32 }, { "U32", 32, WEIR_UINT32 },
		{ "F32", 32, WEIR_FLOAT32 }, { "C64", 64, WEIR_COMPLEX64 },
		{ "F64", 64, WEIR_FLOAT64 }, { "I64", 64, WEIR_INT64 },
		{ "U64", 64, WEIR_UINT64 } };
	struct header header;
	char text[128];

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const struct header_entry *entry;

		snprintf(text, sizeof(text),
		    "{\"a\":" ENTRY("%s", "[8]", "[0,%u]") "}", known[i].name,
		    known[i].bits);
		entry = entry_of(text, known[i].bits, &header);
		EXPECT_EQ(entry->dtype, known[i].dtype);
		EXPECT_STR_EQ(entry->type, known[i].name);
		if (known[i].dtype != WEIR_DTYPE_NONE)
			EXPECT_STR_EQ(
			    header_dtype_name(known[i].dtype), known[i].name);
		header_drop(&header);
	}
	EXPECT_NULL(header_dtype_name(WEIR_DTYPE_NONE));
	EXPECT_NULL(header_dtype_name(WEIR_COMPLEX128));
	EXPECT_NULL(header_dtype_name(WEIR_FLOAT8_E4M3));
}
