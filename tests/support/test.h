/*
 * test.h - write a test and it runs
 *
 * A test file is a list of TEST(name) { ... } bodies; the name is a sentence
 * with underscores. Writing one registers it, tests/support/test.c holds
 * main(), and the Makefile makes one program of every tests/.../X_test.c:
 *
 *	TEST(a_freed_block_serves_its_stream_again)
 *	{
 *		...
 *		EXPECT_EQ(again, first);
 *	}
 *
 * Each test runs in a process of its own (the Check library in fork mode), so
 * a crash, a hang, a leak or a global left behind is that test's alone. The
 * first expectation that does not hold ends the test; EXPECT_* may be used in
 * any function, any thread and any child process of the test, and a failure
 * in a child process fails the test whatever its parent does.
 *
 * Decay, by which weir gives memory back after a while, does not depend on the
 * speed of the machine: in a test its clock moves by os_time_skip() of
 *base/os.h only.
 *
 * Arguments of a test program: none runs all tests; NAMES (with underscores or
 * blanks, shell patterns allowed) run those; --list prints the names. Output
 * is TAP on stdout; what a test prints to stdout goes to stderr. Exit status:
 * 0 none failed, 1 some did, 2 usage.
 *
 * Environment: WEIR_TEST_TIMEOUT_SCALE multiplies every timeout (valgrind);
 * WEIR_TEST_EFFORT multiplies the steps of long tests, see test_effort();
 * WEIR_TEST_STRIDE leaves out cases, and WEIR_TEST_TURN says which ones are
 * tried, see test_stride();
 * CK_FORK=no runs everything in one process, without timeouts (debugger).
 */
#ifndef WEIR_TESTS_SUPPORT_TEST_H
#define WEIR_TESTS_SUPPORT_TEST_H

#include <stdbool.h>
#include <stdint.h>

enum { TEST_DEFAULT_SECONDS = 60 };

/* One test; written by TEST(), linked into a list by test_register(). */
struct test {
	const char *name;
	const char *file;
	int line;
	int seconds; /* killed and failed after so long, times the scale */
	void (*body)(void);
	struct test *next;
};

/* Add a test to the end of the list. TEST() calls it before main(). */
void test_register(struct test *test);

/* Define and register a test that may take TEST_DEFAULT_SECONDS. */
#define TEST(sentence) TEST_TIMEOUT(sentence, TEST_DEFAULT_SECONDS)

/* Define and register a test that may take `limit` seconds. */
#define TEST_TIMEOUT(sentence, limit)                                          \
	static void sentence##_body(void);                                     \
	static struct test sentence##_test = { .name = #sentence,              \
		.file = __FILE__,                                              \
		.line = __LINE__,                                              \
		.seconds = (limit),                                            \
		.body = sentence##_body };                                     \
	__attribute__((constructor)) static void sentence##_register(void)     \
	{                                                                      \
		test_register(&sentence##_test);                               \
	}                                                                      \
	static void sentence##_body(void)

/* End the test here as skipped: reported `# SKIP reason`, never as passed. */
#define SKIP(reason) test_skip(__FILE__, __LINE__, (reason))

/* End the test here as failed, with a printf-like text. */
#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)

/* The condition holds. */
#define EXPECT(cond)                                                           \
	do {                                                                   \
		test_mark(__FILE__, __LINE__);                                 \
		if (!(cond))                                                   \
			test_fail(__FILE__, __LINE__, "EXPECT(%s)", #cond);    \
	} while (0)

/* Wait until the condition holds, which another thread or process makes so,
 * however slow the machine is: only the test's own limit ends the wait. */
#define EXPECT_SOON(cond)                                                      \
	do {                                                                   \
		test_mark(__FILE__, __LINE__);                                 \
		while (!(cond))                                                \
			test_nap();                                            \
	} while (0)

/*
 * Numbers of any type, compared by value (-1 is not SIZE_MAX), or pointers;
 * evaluated once, and both values are printed.
 */
#define EXPECT_EQ(a, b) TEST_COMPARE(TEST_OP_EQ, a, #a, b, #b)
#define EXPECT_NE(a, b) TEST_COMPARE(TEST_OP_NE, a, #a, b, #b)
#define EXPECT_LT(a, b) TEST_COMPARE(TEST_OP_LT, a, #a, b, #b)
#define EXPECT_LE(a, b) TEST_COMPARE(TEST_OP_LE, a, #a, b, #b)
#define EXPECT_GT(a, b) TEST_COMPARE(TEST_OP_GT, a, #a, b, #b)
#define EXPECT_GE(a, b) TEST_COMPARE(TEST_OP_GE, a, #a, b, #b)

/* Texts are equal; two NULLs are, NULL and a text are not. */
#define EXPECT_STR_EQ(a, b)                                                    \
	test_expect_str_eq(__FILE__, __LINE__, #a, #b, (a), (b))

/* `haystack` contains `needle`. */
#define EXPECT_STR_HAS(haystack, needle)                                       \
	test_expect_str_has(__FILE__, __LINE__, #haystack, (haystack), (needle))

/* The first `n` bytes are equal; the first difference is printed. */
#define EXPECT_MEM_EQ(a, b, n)                                                 \
	test_expect_mem_eq(__FILE__, __LINE__, (a), (b), (n))

/* The texts name NULL as NULL. */
#define EXPECT_NULL(pointer)                                                   \
	test_expect_compare(__FILE__, __LINE__, TEST_OP_EQ,                    \
	    test_pointer((pointer), #pointer),                                 \
	    test_pointer((void *)0, "NULL"))
#define EXPECT_NOT_NULL(pointer)                                               \
	test_expect_compare(__FILE__, __LINE__, TEST_OP_NE,                    \
	    test_pointer((pointer), #pointer),                                 \
	    test_pointer((void *)0, "NULL"))

/* A limit of time as it is in this run: `seconds` times the environment's
 * WEIR_TEST_TIMEOUT_SCALE. */
double test_seconds(double seconds);

/*
 * How often to repeat a long test: `n` times the environment's
 * WEIR_TEST_EFFORT (1 without; 0.01 under valgrind, say), at least once.
 */
uint64_t test_effort(uint64_t n);

/* The exit status of `body`, called in a child process, which it ends by
 * returning that. */
int test_child_status(int (*body)(void));

/* True under a sanitizer or valgrind, which take memory, addresses and stack of
 * the program's for themselves. */
bool test_is_watched(void);
bool test_is_under_valgrind(void);

/* A test of many similar cases that is slow under valgrind tries every
 * WEIR_TEST_STRIDE-th of them. Default: 1, all cases. */
unsigned test_stride(void);

/* The first case to try, below test_stride(): WEIR_TEST_TURN (default: 0)
 * modulo the stride. As many turns as the stride together try all cases. */
unsigned test_offset(void);

/* The build folder this program lies in, as /.../build/release, whatever the
 * current folder is: programs are in its bin/, libraries in its lib/. */
const char *test_build_dir(void);

/* ---- For the macros above ---------------------------------------------- */

enum test_op {
	TEST_OP_EQ,
	TEST_OP_NE,
	TEST_OP_LT,
	TEST_OP_LE,
	TEST_OP_GT,
	TEST_OP_GE
};

enum test_kind { TEST_SIGNED, TEST_UNSIGNED, TEST_POINTER, TEST_REAL };

/* A number that remembers how to compare and print itself. */
struct test_value {
	enum test_kind kind;
	uint64_t bits;    /* of all kinds but TEST_REAL */
	double real;      /* of TEST_REAL */
	const char *text; /* the expression it came from */
};

static inline struct test_value
test_signed(long long value, const char *text)
{
	return (struct test_value){ TEST_SIGNED, (uint64_t)value, 0, text };
}

static inline struct test_value
test_unsigned(unsigned long long value, const char *text)
{
	return (struct test_value){ TEST_UNSIGNED, value, 0, text };
}

static inline struct test_value
test_pointer(const volatile void *value, const char *text)
{
	return (struct test_value){ TEST_POINTER, (uintptr_t)value, 0, text };
}

static inline struct test_value
test_real(double value, const char *text)
{
	return (struct test_value){ TEST_REAL, 0, value, text };
}

/* The conditional promotes narrow types and bit-fields; it is not evaluated. */
/* clang-format off */
#define TEST_VALUE(x, text)                                                    \
	_Generic(1 ? (x) : (x),                                                \
	    int: test_signed,                                                  \
	    long: test_signed,                                                 \
	    long long: test_signed,                                            \
	    unsigned: test_unsigned,                                           \
	    unsigned long: test_unsigned,                                      \
	    unsigned long long: test_unsigned,                                 \
	    float: test_real,                                                  \
	    double: test_real,                                                 \
	    default: test_pointer)((x), (text))
/* clang-format on */

/* The texts are made by the caller: further down, macros are expanded. */
#define TEST_COMPARE(op, a, a_text, b, b_text)                                 \
	test_expect_compare(__FILE__, __LINE__, op, TEST_VALUE(a, a_text),     \
	    TEST_VALUE(b, b_text))

/* Remember the last place that a test reached; a crash report names it. */
void test_mark(const char *file, int line);

/* Let others run for a moment. */
void test_nap(void);

_Noreturn void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void test_skip(const char *file, int line, const char *reason);

void test_expect_compare(const char *file, int line, enum test_op op,
    struct test_value a, struct test_value b);
void test_expect_str_eq(const char *file, int line, const char *a_text,
    const char *b_text, const char *a, const char *b);
void test_expect_str_has(const char *file, int line, const char *text,
    const char *haystack, const char *needle);
void test_expect_mem_eq(
    const char *file, int line, const void *a, const void *b, uint64_t n);

#endif
