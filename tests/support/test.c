/*
 * test.c - the main program of every test program
 *
 * Check runs each test in a child process with a timeout and reports how it
 * ended; this file decides what that means and prints it as TAP. What Check
 * has no word for travels in a page shared with the child:
 *
 *	skipped	 the test called SKIP(): neither a pass nor a failure
 *	failed	 an expectation failed, maybe in a child process of the test
 *		 whose parent went on to succeed: a failure whatever Check says
 *	finished the body returned; a test that calls exit(0) half-way is a
 *		 failure, though its exit status is that of a success
 */
#include "tests/support/test.h"

#include <check.h>
#include <fnmatch.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"

enum { TEXT_MAX = 2048 };

/* A test's result for the runner, from whichever process the test is in. */
struct verdict {
	int failed; /* set with an atomic exchange: the first failure counts */
	int skipped;
	int finished;
	int line; /* of the failure or the skip */
	int mark_line;
	const char *mark_file;
	const char *file;
	char text[TEXT_MAX];
};

static struct test *first_test;
static struct test **last_test = &first_test;
static struct test *running;
static struct verdict *verdict;
static pthread_t runner_thread;
static bool under_valgrind;

void
test_register(struct test *test)
{
	test->next = NULL;
	*last_test = test;
	last_test = &test->next;
}

void
test_mark(const char *file, int line)
{
	__atomic_store_n(&verdict->mark_file, file, __ATOMIC_RELAXED);
	__atomic_store_n(&verdict->mark_line, line, __ATOMIC_RELAXED);
}

/* Each test runs in a separate process unless CK_FORK is "no". */
static bool
forks(void)
{
	const char *mode = getenv("CK_FORK");

	return mode == NULL || strcmp(mode, "no") != 0;
}

/*
 * Leave the test. Check ends the child process or, with CK_FORK=no, jumps back
 * into the runner, which only the thread that set the jump may do.
 */
static _Noreturn void
leave(const char *text)
{
	if (!forks() && !pthread_equal(pthread_self(), runner_thread)) {
		fprintf(stderr, "# %s\n", text);
		abort();
	}
	ck_abort_msg("%s", text);
	abort(); /* not reached; ck_abort_msg is not declared noreturn */
}

void
test_fail(const char *file, int line, const char *format, ...)
{
	va_list args;

	if (__atomic_exchange_n(&verdict->failed, 1, __ATOMIC_RELAXED) == 0) {
		verdict->file = file;
		verdict->line = line;
		va_start(args, format);
		vsnprintf(verdict->text, TEXT_MAX, format, args);
		va_end(args);
	}
	leave("failed");
}

void
test_skip(const char *file, int line, const char *reason)
{
	verdict->file = file;
	verdict->line = line;
	snprintf(verdict->text, TEXT_MAX, "%s", reason);
	verdict->skipped = 1;
	leave("skipped");
}

void
test_nap(void)
{
	const struct timespec moment = { .tv_nsec = 500000 };

	nanosleep(&moment, NULL);
}

/* A factor from the environment; 1 if it is not set or not above 0. */
static double
factor(const char *variable)
{
	const char *text = getenv(variable);
	double value = text == NULL ? 1.0 : strtod(text, NULL);

	return value > 0.0 ? value : 1.0;
}

double
test_seconds(double seconds)
{
	return seconds * factor("WEIR_TEST_TIMEOUT_SCALE");
}

uint64_t
test_effort(uint64_t n)
{
	double scaled = (double)n * factor("WEIR_TEST_EFFORT");

	return scaled < 1.0 ? 1 : (uint64_t)scaled;
}

unsigned
test_stride(void)
{
	double stride = factor("WEIR_TEST_STRIDE");

	return stride < 1.0 ? 1 : (unsigned)stride;
}

unsigned
test_offset(void)
{
	const char *turn = getenv("WEIR_TEST_TURN");

	return turn == NULL ?
	    0 :
	    (unsigned)(strtoull(turn, NULL, 10) % test_stride());
}

const char *
test_build_dir(void)
{
	static char path[PATH_MAX];
	char *tests;
	ssize_t length;

	length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	path[length > 0 ? length : 0] = '\0';
	tests = strstr(path, "/tests/");
	for (char *next = tests; next != NULL;
	     next = strstr(tests + 1, "/tests/"))
		tests = next;
	if (tests == NULL)
		test_fail(__FILE__, __LINE__, "%s is in no tests/", path);
	*tests = '\0';
	return path;
}

static bool
is_negative(struct test_value v)
{
	return v.kind == TEST_SIGNED && (int64_t)v.bits < 0;
}

static double
as_real(struct test_value v)
{
	if (v.kind == TEST_REAL)
		return v.real;
	return is_negative(v) ? (double)(int64_t)v.bits : (double)v.bits;
}

/* The result of compare() for a NaN, which is not even equal to itself. */
enum { UNORDERED = 2 };

/* -1, 0 or 1, by value and not by representation. */
static int
compare(struct test_value a, struct test_value b)
{
	if (a.kind == TEST_REAL || b.kind == TEST_REAL) {
		double left = as_real(a);
		double right = as_real(b);

		if (left != left || right != right)
			return UNORDERED;
		return (left > right) - (left < right);
	}
	if (is_negative(a) != is_negative(b))
		return is_negative(a) ? -1 : 1;
	if (a.bits == b.bits)
		return 0;
	return a.bits < b.bits ? -1 : 1;
}

static bool
holds(enum test_op op, int order)
{
	switch (op) {
	case TEST_OP_EQ:
		return order == 0;
	case TEST_OP_NE:
		return order != 0;
	case TEST_OP_LT:
		return order < 0;
	case TEST_OP_LE:
		return order <= 0;
	case TEST_OP_GT:
		return order == 1;
	case TEST_OP_GE:
		return order == 0 || order == 1;
	}
	return false;
}

static const char *
print_value(struct test_value v, char *text, size_t size)
{
	if (v.kind == TEST_REAL)
		snprintf(text, size, "%.17g", v.real);
	else if (v.kind == TEST_SIGNED)
		snprintf(text, size, "%lld", (long long)v.bits);
	else if (v.kind == TEST_UNSIGNED && v.bits < 4096)
		snprintf(text, size, "%llu", (unsigned long long)v.bits);
	else if (v.kind == TEST_UNSIGNED)
		snprintf(text, size, "%llu (0x%llx)",
		    (unsigned long long)v.bits, (unsigned long long)v.bits);
	else
		snprintf(text, size, "0x%llx", (unsigned long long)v.bits);
	return text;
}

void
test_expect_compare(const char *file, int line, enum test_op op,
    struct test_value a, struct test_value b)
{
	static const char *const signs[] = { "==", "!=", "<", "<=", ">", ">=" };
	char left[64];
	char right[64];

	test_mark(file, line);
	if (holds(op, compare(a, b)))
		return;
	test_fail(file, line, "expected %s %s %s: left is %s, right is %s",
	    a.text, signs[op], b.text, print_value(a, left, sizeof(left)),
	    print_value(b, right, sizeof(right)));
}

void
test_expect_str_eq(const char *file, int line, const char *a_text,
    const char *b_text, const char *a, const char *b)
{
	test_mark(file, line);
	if (a == NULL && b == NULL)
		return;
	if (a != NULL && b != NULL && strcmp(a, b) == 0)
		return;
	test_fail(file, line,
	    "expected %s == %s: left is \"%s\", right is \"%s\"", a_text,
	    b_text, a == NULL ? "(null)" : a, b == NULL ? "(null)" : b);
}

void
test_expect_str_has(const char *file, int line, const char *text,
    const char *haystack, const char *needle)
{
	test_mark(file, line);
	if (haystack != NULL && strstr(haystack, needle) != NULL)
		return;
	test_fail(file, line, "expected %s to contain \"%s\": it is \"%s\"",
	    text, needle, haystack == NULL ? "(null)" : haystack);
}

void
test_expect_mem_eq(
    const char *file, int line, const void *a, const void *b, uint64_t n)
{
	const unsigned char *left = a;
	const unsigned char *right = b;

	test_mark(file, line);
	for (uint64_t i = 0; i < n; i++) {
		if (left[i] != right[i])
			test_fail(file, line,
			    "byte %llu of %llu differs: 0x%02x and 0x%02x",
			    (unsigned long long)i, (unsigned long long)n,
			    left[i], right[i]);
	}
}

/* Give signals that are ignored their default, in the process of a test. A
 * process inherits what is ignored: a shell ignores SIGINT and SIGQUIT for the
 * jobs of a script, nohup SIGHUP, and Python SIGPIPE. Handlers stay, because
 * the process itself has set them. */
static void
default_signals(void)
{
	for (int number = 1; number <= SIGRTMAX; number++) {
		struct sigaction now;

		if (sigaction(number, NULL, &now) == 0 &&
		    now.sa_handler == SIG_IGN)
			signal(number, SIG_DFL);
	}
}

/* Check waits for the process of a test, and ends it by an alarm. The runner
 * keeps all other signals as they are: nohup is to protect it. */
static void
default_runner_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGCHLD, SIG_DFL);
}

/* The one function that Check calls: it runs the body of the current test. */
START_TEST(run_body)
{
	(void)_i;
	if (forks())
		dup2(STDERR_FILENO, STDOUT_FILENO);
	default_signals();
	running->body();
	__atomic_store_n(&verdict->finished, 1, __ATOMIC_RELAXED);
}
END_TEST

/* The name as a sentence. */
static void
print_name(const char *name)
{
	for (; *name != '\0'; name++)
		putchar(*name == '_' ? ' ' : *name);
}

/* `file:line: text` as TAP comments, one for each line of the text. */
static void
print_comment(const char *file, int line, const char *text)
{
	printf("# %s:%d: ", file, line);
	for (; *text != '\0'; text++) {
		putchar(*text);
		if (*text == '\n' && text[1] != '\0')
			printf("# ");
	}
	putchar('\n');
}

static void
report_pass(int number, const struct test *test)
{
	printf("ok %d - ", number);
	print_name(test->name);
	putchar('\n');
}

static void
report_skip(int number, const struct test *test)
{
	printf("ok %d - ", number);
	print_name(test->name);
	printf(" # SKIP %s\n", verdict->text);
}

static void
report_failure(int number, const struct test *test, const char *check_says)
{
	printf("not ok %d - ", number);
	print_name(test->name);
	putchar('\n');
	if (verdict->failed) {
		print_comment(verdict->file, verdict->line, verdict->text);
	} else if (verdict->mark_file != NULL) {
		print_comment(
		    verdict->mark_file, verdict->mark_line, check_says);
		printf("# (after this line, the last one known)\n");
	} else {
		print_comment(test->file, test->line, check_says);
	}
}

/* Run one test and print its TAP line. True unless it failed. */
static bool
run(int number, struct test *test)
{
	Suite *suite = suite_create("weir");
	TCase *tcase = tcase_create(test->name);
	SRunner *runner;
	TestResult **results;
	bool passed;

	memset(verdict, 0, sizeof(*verdict));
	running = test;
	tcase_set_timeout(tcase, test_seconds(test->seconds));
	tcase_add_loop_test(tcase, run_body, 0, 1);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	fflush(NULL);
	srunner_run_all(runner, CK_SILENT);
	results = srunner_results(runner);

	passed = tr_rtype(results[0]) == CK_PASS && verdict->finished;
	if (verdict->failed || (!passed && !verdict->skipped)) {
		const char *why = "the test left its process before its end";

		if (tr_rtype(results[0]) != CK_PASS)
			why = tr_msg(results[0]);
		report_failure(number, test, why);
		passed = false;
	} else if (verdict->skipped) {
		report_skip(number, test);
		passed = true;
	} else {
		report_pass(number, test);
	}
	fflush(stdout);
	free(results);
	srunner_free(runner);
	return passed;
}

/* A requested name: blanks stand for underscores, patterns are allowed. */
static bool
matches(const struct test *test, const char *asked)
{
	char pattern[512];

	snprintf(pattern, sizeof(pattern), "%s", asked);
	for (char *c = pattern; *c != '\0'; c++) {
		if (*c == ' ')
			*c = '_';
	}
	return fnmatch(pattern, test->name, 0) == 0;
}

static bool
is_wanted(const struct test *test, int n, char **asked)
{
	if (n == 0)
		return true;
	for (int i = 0; i < n; i++) {
		if (matches(test, asked[i]))
			return true;
	}
	return false;
}

/* Every requested name must be a test's; a typing error must not pass
 * silently. */
static bool
all_known(int n, char **asked)
{
	for (int i = 0; i < n; i++) {
		struct test *test = first_test;

		while (test != NULL && !matches(test, asked[i]))
			test = test->next;
		if (test == NULL) {
			fprintf(stderr, "no test is named %s\n", asked[i]);
			return false;
		}
	}
	return true;
}

static int
run_wanted(int n, char **asked)
{
	int total = 0;
	int number = 0;
	int failed = 0;

	for (struct test *test = first_test; test != NULL; test = test->next)
		total += is_wanted(test, n, asked);
	printf("1..%d\n", total);
	for (struct test *test = first_test; test != NULL; test = test->next) {
		if (is_wanted(test, n, asked))
			failed += !run(++number, test);
	}
	return failed;
}

static void
list(void)
{
	for (struct test *test = first_test; test != NULL; test = test->next)
		printf("%s\n", test->name);
}

static int
usage(FILE *out, const char *program)
{
	fprintf(out,
	    "usage: %s [--list | NAME...]\n"
	    "Runs all tests, or those named; prints TAP.\n",
	    program);
	return out == stdout ? 0 : 2;
}

/* Valgrind loads a library of its own into what it runs. The environment says
 * so only at the beginning: tests change it. */
static bool
valgrind_runs_us(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload != NULL && strstr(preload, "vgpreload") != NULL;
}

int
test_child_status(int (*body)(void))
{
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(body());
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT(WIFEXITED(status));
	return WEXITSTATUS(status);
}

bool
test_is_under_valgrind(void)
{
	return under_valgrind;
}

bool
test_is_watched(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return true;
#else
	return under_valgrind;
#endif
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "list", no_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'h')
			return usage(stdout, argv[0]);
		if (option != 'l')
			return usage(stderr, argv[0]);
		list();
		return 0;
	}
	default_runner_signals();
	under_valgrind = valgrind_runs_us();
	os_time_stop(true);
	if (first_test == NULL) {
		fprintf(stderr, "%s: holds no test\n", argv[0]);
		return 2;
	}
	if (!all_known(argc - optind, argv + optind))
		return 2;
	runner_thread = pthread_self();
	verdict = mmap(NULL, sizeof(*verdict), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (verdict == MAP_FAILED) {
		perror("mmap");
		return 2;
	}
	return run_wanted(argc - optind, argv + optind) == 0 ? 0 : 1;
}
