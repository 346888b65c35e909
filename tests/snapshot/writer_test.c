/*
 * Values as pickle and as JSON: byte by byte where the form is fixed, and as
 * Python reads them.
 */
#include "snapshot/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/device.h"

static char *path;
static struct out *out;
static struct writer w;

static void
begin(bool json)
{
	path = test_file("written", "", 0);
	EXPECT_OK(out_open(path, &out));
	writer_begin(&w, out, json);
}

/* The file is these bytes. */
static void
expect_bytes(const void *bytes, size_t n)
{
	char *found = calloc(1, n + 1000);

	writer_end(&w);
	EXPECT_OK(out_close(out));
	FILE *file = fopen(path, "rb");
	EXPECT_EQ(fread(found, 1, n + 1000, file), n);
	EXPECT_MEM_EQ(found, bytes, n);
	fclose(file);
	free(found);
}

#define EXPECT_PICKLE(text)                                                    \
	expect_bytes("\x80\x04" text ".", sizeof("\x80\x04" text ".") - 1)
#define EXPECT_JSON(text) expect_bytes(text "\n", sizeof(text "\n") - 1)

TEST(small_values_are_few_bytes)
{
	begin(false);
	writer_list(&w);
	writer_uint(&w, 7);
	writer_uint(&w, 256);
	writer_uint(&w, 65536);
	writer_int(&w, -2);
	writer_bool(&w, true);
	writer_bool(&w, false);
	writer_text(&w, "hi");
	writer_pair(&w, 1, 2);
	writer_real(&w, 1.0);
	writer_close(&w);
	EXPECT_PICKLE("](K\x07M\x00\x01J\x00\x00\x01\x00J\xfe\xff\xff\xff\x88"
		      "\x89\x8c\x02hiK\x01K\x02\x86"
		      "G\x3f\xf0\x00\x00\x00\x00\x00\x00"
		      "e");
}

TEST(repeated_values_are_memos)
{
	memo key = 0;
	memo word = 0;

	begin(false);
	writer_list(&w);
	for (int i = 0; i < 2; i++) {
		writer_dict(&w);
		writer_key(&w, "key", &key);
		writer_word(&w, "word", &word);
		writer_close(&w);
	}
	writer_close(&w);
	EXPECT_PICKLE("](}(\x8c\x03keyq\x00\x8c\x04wordq\x01u"
		      "}(h\x00h\x01u"
		      "e");
}

TEST(json_is_plain)
{
	memo key = 0;

	begin(true);
	writer_dict(&w);
	writer_name(&w, "a");
	writer_list(&w);
	writer_uint(&w, 18446744073709551615u);
	writer_int(&w, -5);
	writer_bool(&w, true);
	writer_real(&w, 0.5);
	writer_real(&w, 3);
	writer_pair(&w, 0, 9);
	writer_list(&w);
	writer_close(&w);
	writer_close(&w);
	writer_key(&w, "b", &key);
	writer_text(&w, "q\"\\\n\x01");
	writer_close(&w);
	EXPECT_JSON("{\"a\":[18446744073709551615,\n-5,\ntrue,\n0.5,\n3.0,\n"
		    "[0,9],\n[]],\"b\":\"q\\\"\\\\\\u000a\\u0001\"}");
}

/* Values that are hard to get right. */
static void
write_all_kinds(void)
{
	static const uint64_t numbers[] = { 0, 255, 256, 65535, 65536,
		INT32_MAX, 0x80000000, 0xffffffff, 0x7fffffffff, 0x8000000000,
		0x7fffffffffff, 0x800000000000, INT64_MAX, 0x8000000000000000,
		UINT64_MAX };
	static const int64_t negative[] = { -1, -128, INT32_MIN,
		(int64_t)INT32_MIN - 1, -0x8000000000, -0x8000000001,
		INT64_MIN };
	static const char *const texts[] = { "", "plain",
		"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", /* all lengths */
		"\xff", "a\xc3", "\xed\xa0\x80 surrogate", "\xc0\x80 overlong",
		"\xf5\x80\x80\x80", "tab\tquote\"slash\\del\x7f" };
	char longer[1000];

	writer_list(&w);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		writer_uint(&w, numbers[i]);
	for (size_t i = 0; i < sizeof(negative) / sizeof(*negative); i++)
		writer_int(&w, negative[i]);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		writer_text(&w, texts[i]);
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	writer_text(&w, longer);
	writer_real(&w, 0.1);
	writer_real(&w, -1e300);
	writer_list(&w);
	writer_close(&w);
	writer_dict(&w);
	writer_close(&w);
	/* Batches, and more memos than a byte has numbers. */
	writer_list(&w);
	for (uint64_t i = 0; i < 2500; i++) {
		char text[16];
		memo m = 0;
		snprintf(text, sizeof(text), "word %u", (unsigned)i);
		writer_word(&w, text, &m);
		if (!writer_again(&w, m))
			writer_text(&w, text);
	}
	writer_close(&w);
	writer_close(&w);
}

static const char program[] =
    "import sys, json, pickle, pickletools\n"
    "class Plain(pickle.Unpickler):\n"
    "    def find_class(self, *name): raise Exception(name)\n"
    "p = Plain(open(sys.argv[1], 'rb')).load()\n"
    "j = json.load(open(sys.argv[2], encoding='utf-8'))\n"
    "assert p == j, 'they differ'\n"
    "assert p[:15] == [0, 255, 256, 65535, 65536, 2**31-1, 2**31, 2**32-1,\n"
    "    2**39-1, 2**39, 2**47-1, 2**47, 2**63-1, 2**63, 2**64-1], p[:15]\n"
    "assert p[15:22] == [-1, -128, -2**31, -2**31-1, -2**39, -2**39-1,\n"
    "    -2**63], p[15:22]\n"
    "assert p[22:31] == ['', 'plain', '\\u00e4\\u20ac\\U0001f600', '\\ufffd',\n"
    "    'a\\ufffd', '\\ufffd\\ufffd\\ufffd surrogate', '\\ufffd\\ufffd "
    "overlong',\n"
    "    '\\ufffd\\ufffd\\ufffd\\ufffd', 'tab\\tquote\"slash\\\\del\\x7f'], "
    "p[22:31]\n"
    "assert p[31] == 'x' * 999 and p[32:36] == [0.1, -1e300, [], {}]\n"
    "assert p[36] == [w for i in range(2500) for w in ['word %d' % i] * 2]\n"
    "codes = {o.name for o, _, _ in pickletools.genops(open(sys.argv[1], "
    "'rb'))}\n"
    "known = set('PROTO STOP MARK EMPTY_DICT EMPTY_LIST SETITEMS APPENDS "
    "BININT1 '\n"
    "    'BININT2 BININT LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE NEWTRUE '\n"
    "    'NEWFALSE TUPLE2 BINPUT LONG_BINPUT BINGET LONG_BINGET'.split())\n"
    "assert codes <= known, codes - known\n"
    "print('equal')\n";

TEST(python_reads_the_same_from_both)
{
	static char *script;
	static char *paths[2];

	script = test_file("read.py", program, sizeof(program) - 1);

	for (int json = 0; json < 2; json++) {
		path =
		    test_file(json ? "written.json" : "written.pickle", "", 0);
		paths[json] = path;
		EXPECT_OK(out_open(path, &out));
		writer_begin(&w, out, json);
		write_all_kinds();
		writer_end(&w);
		EXPECT_OK(out_close(out));
	}
	if (system("python3 -c pass 2>/dev/null") != 0)
		SKIP("there is no python3");
	const char *const argv[] = { "python3", script, paths[0], paths[1],
		NULL };
	struct command_result result = command_run(argv);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_EQ(result.out, "equal\n");
	command_free(&result);
}
