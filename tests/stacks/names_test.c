/*
 * Names of addresses: those that the helper finds, and all that may be wrong
 * with it.
 */
#include "stacks/names.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/meta.h"
#include "base/os.h"
#include "stacks/stack.h"
#include "tests/stacks/named.h"
#include "tests/support/command.h"
#include "tests/support/test.h"

static void *frames[STACK_FRAMES_MAX];

__attribute__((noinline)) static void
capture_here(void)
{
	EXPECT_GT(stack_capture(frames, STACK_FRAMES_MAX, 0), 0);
	__asm__ volatile("" ::: "memory");
}

/* ---- Names ------------------------------------------------------------- */

TEST(an_address_has_its_function_file_and_line)
{
	capture_here();
	struct named named = name_word(frames[0]);

	EXPECT_EQ(named.n, 1);
	EXPECT_STR_EQ(named.places[0].function, "capture_here");
	EXPECT_STR_HAS(named.places[0].file, "names_test.c");
	EXPECT_GT(named.places[0].line, 30);
	EXPECT_LT(named.places[0].line, 40);
	EXPECT_STR_HAS(named.module, "names_test");
	EXPECT(named.asked);
}

__attribute__((always_inline)) static inline void
capture_in_line(void)
{
	EXPECT_GT(stack_capture(frames, STACK_FRAMES_MAX, 0), 0);
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void
capture_around_it(void)
{
	capture_in_line();
}

TEST(inlined_calls_are_separate_places)
{
	capture_around_it();
	struct named named = name_word(frames[0]);

	EXPECT_EQ(named.n, 2);
	EXPECT_STR_EQ(named.places[0].function, "capture_in_line");
	EXPECT_STR_EQ(named.places[1].function, "capture_around_it");
}

TEST(a_function_of_a_library_loaded_later_has_its_name)
{
	char *path = test_build("lib/sim/libcuda.so.1");

	capture_here();
	name_word(frames[0]);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	EXPECT_NOT_NULL(library);
	const char *symbol = dlsym(library, "cuMemAlloc_v2");
	struct named named = name_word(symbol + 2);

	EXPECT_STR_EQ(named.places[named.n - 1].function, "cuMemAlloc_v2");
	EXPECT_STR_HAS(named.places[0].file, "alloc.c");
	EXPECT_STR_HAS(named.module, "libcuda.so.1");
	EXPECT_EQ(named.offset,
	    (uint64_t)(symbol + 2 -
		(const char *)((struct link_map *)library)->l_addr));
	free(path);
}

TEST(an_address_of_nothing_has_no_name)
{
	char local[4] = "";
	struct named named = name_word(local + 1);

	EXPECT_EQ(named.n, 1);
	EXPECT_STR_EQ(named.places[0].function, "");
	EXPECT_STR_EQ(named.places[0].file, "");
	EXPECT_EQ(named.places[0].line, 0);
	EXPECT_STR_EQ(named.module, "");
}

int two_ints(void) __asm__("_Z8two_intsii");

int
two_ints(void)
{
	return 2;
}

TEST(names_of_cpp_are_those_of_the_source)
{
	struct named named = name_word((const char *)two_ints + 1);

	EXPECT_STR_EQ(named.places[0].function, "two_ints(int, int)");
}

/* ---- A helper that fails ------------------------------------------------- */

enum { WORDS = 40 };

struct taken {
	char functions[WORDS][NAME_TEXT];
	unsigned times[WORDS];
	bool asked[WORDS];
	struct names names;
};

static void
note_taken(void *user, size_t i, const struct name_frame *frame,
    const struct name_place *places, size_t n)
{
	struct taken *taken = user;

	EXPECT_LT(i, WORDS);
	EXPECT_GT(n, 0);
	taken->times[i]++;
	taken->asked[i] = frame->asked;
	strcpy(taken->functions[i], places[n - 1].function);
}

/* Name a function of a library 40 times, by a helper that this shell script
 * stands for, or by none (NULL). $WEIR is the command. Each address has one
 * answer. */
static struct taken
name_by(const char *script, uint64_t spent_ns)
{
	char *path = test_build("lib/sim/libcuda.so.1");
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	static struct taken taken;
	const void *words[WORDS];
	char text[1024];

	EXPECT_NOT_NULL(library);
	for (size_t i = 0; i < WORDS; i++)
		words[i] = (const char *)dlsym(library, "cuMemAlloc_v2") + 2;
	char *weir = test_build("bin/weir");
	snprintf(text, sizeof(text), "#!/bin/bash\nWEIR=%s\n%s\n", weir,
	    script != NULL ? script : "");
	char *file = test_file("helper", text, strlen(text));
	EXPECT_EQ(chmod(file, 0755), 0);
	setenv("WEIR_COMMAND", script != NULL ? file : "", 1);
	memset(&taken, 0, sizeof(taken));
	taken.names.spent_ns = spent_ns;
	names_find(&taken.names, words, WORDS, note_taken, &taken);
	for (size_t i = 0; i < WORDS; i++) {
		EXPECT_EQ(taken.times[i], 1);
		EXPECT_STR_EQ(taken.functions[i], "cuMemAlloc_v2");
	}
	/* The helper was waited for. */
	EXPECT_EQ(waitpid(-1, NULL, WNOHANG), -1);
	EXPECT_EQ(errno, ECHILD);
	free(path);
	free(weir);
	free(file);
	return taken;
}

static size_t
count_asked(const struct taken *taken)
{
	size_t n = 0;

	for (size_t i = 0; i < WORDS; i++)
		n += taken->asked[i];
	return n;
}

TEST(a_helper_names_all)
{
	struct taken taken = name_by("exec $WEIR \"$@\"", 0);

	EXPECT_EQ(count_asked(&taken), WORDS);
	EXPECT_NULL(taken.names.lack);
}

TEST(without_a_command_names_are_those_of_exported_functions)
{
	struct taken taken = name_by(NULL, 0);

	EXPECT_EQ(count_asked(&taken), 0);
	EXPECT_STR_EQ(taken.names.lack, "there is no weir command");
}

TEST(a_command_that_cannot_be_started_is_none)
{
	struct taken taken = name_by("exit 1", 0);

	EXPECT_EQ(count_asked(&taken), 0);
	EXPECT_STR_EQ(taken.names.lack, "the weir command died");
	setenv("WEIR_COMMAND", "/nowhere/weir", 1);
	capture_here();
	struct named named = name_word(frames[0]);
	EXPECT(!named.asked);
	EXPECT_STR_EQ(named.places[0].function, "");
}

/* Each helper answers nine questions, is asked the tenth, and dies. The first
 * answers of each are kept, and the tenth question is not asked again. */
TEST(what_a_helper_has_answered_before_it_crashed_is_kept)
{
	struct taken taken =
	    name_by("for i in {1..9}; do read -r q;\n"
		    "printf 'cuMemAlloc_v2\\tfile.c\\t1\\n\\n'; done\n"
		    "read -r q; kill -SEGV $$",
		0);

	for (size_t i = 0; i < WORDS; i++)
		EXPECT_EQ(taken.asked[i], i % 10 != 9);
	EXPECT_STR_EQ(taken.names.lack, "the weir command died");
	EXPECT_EQ(taken.names.failures, 4);
}

/* Half a second of the 20 s is left. */
static const uint64_t nearly_all = UINT64_C(19500000000);

static void
expect_in_time(const char *script, const char *lack)
{
	uint64_t began = os_monotonic_ns();
	struct taken taken = name_by(script, nearly_all);

	EXPECT_EQ(count_asked(&taken), 0);
	EXPECT_STR_EQ(taken.names.lack, lack);
	EXPECT_LT((double)(os_monotonic_ns() - began) * 1e-9, test_seconds(5));
}

TEST(a_helper_that_hangs_is_ended)
{
	static const char late[] = "the weir command took too long";

	expect_in_time("trap '' TERM INT HUP; while :; do :; done", late);
	expect_in_time("exec sleep 1000", late);
	/* It closes what it reads from, or answers by halves. */
	expect_in_time("exec 0<&-; sleep 1000 & wait", late);
	expect_in_time("printf half; exec sleep 1000", late);
}

TEST(a_helper_that_answers_nonsense_is_not_asked_again)
{
	static const char *const answers[] = { "nonsense", "a\\tb", "a\\tb\\tc",
		"a\\tb\\t-1", "a\\tb\\t99999999999", "a\\tb\\t1x",
		"\\0\\t\\t1" };
	char script[200];

	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		snprintf(script, sizeof(script),
		    "read -r q; printf '%s\\n\\n'; exec sleep 1000",
		    answers[i]);
		struct taken taken = name_by(script, 0);

		EXPECT_EQ(count_asked(&taken), 0);
		EXPECT_STR_EQ(
		    taken.names.lack, "the weir command answered nonsense");
		EXPECT_EQ(taken.names.failures, 1);
	}
	name_by("exec yes", 0);
	name_by("exec tr '\\0' x </dev/zero", 0);
	/* More places than there are, and answers to nothing. */
	name_by("while printf 'a\\tb\\t1\\n'; do :; done", 0);
	struct taken taken = name_by("read -r q; while echo; do :; done", 0);
	EXPECT_EQ(count_asked(&taken), 0);
}

TEST(names_are_found_without_memory_for_a_helper)
{
	capture_here();
	for (unsigned long i = 1; i < 20; i++) {
		meta_fail(i, 1);
		name_word(frames[0]);
		meta_fail(0, 0);
	}
}

/* ---- The program around it ------------------------------------------------
 */

/* Standard streams may be closed, and no variable or blocked signal of the
 * program reaches the helper. */
TEST(a_helper_has_nothing_of_the_program)
{
	char *found = test_file("found", "", 0);
	char script[1200];
	char text[200] = "";
	sigset_t all;
	int fd;

	setenv("LD_PRELOAD", "/nowhere/some.so", 1);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	snprintf(script, sizeof(script),
	    "{ echo \"[$LD_PRELOAD$WEIR_COMMAND]\"\n"
	    "grep SigBlk /proc/self/status; } >%s\n"
	    "exec $WEIR \"$@\"",
	    found);
	close(STDIN_FILENO);
	struct taken taken = name_by(script, 0);
	pthread_sigmask(SIG_UNBLOCK, &all, NULL);
	EXPECT_EQ(count_asked(&taken), WORDS);
	fd = open(found, O_RDONLY);
	EXPECT_GT(read(fd, text, sizeof(text) - 1), 0);
	EXPECT_STR_EQ(text, "[]\nSigBlk:\t0000000000000000\n");
	free(found);
}

static void
reap_any(int number)
{
	int error = errno;

	(void)number;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	errno = error;
}

TEST(a_program_that_waits_for_any_child_does_no_harm)
{
	struct sigaction action = { .sa_handler = reap_any,
		.sa_flags = SA_RESTART };

	EXPECT_EQ(sigaction(SIGCHLD, &action, NULL), 0);
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(name_by("exec $WEIR \"$@\"", 0).names.failures, 0);
	EXPECT_NE(signal(SIGCHLD, SIG_IGN), SIG_ERR);
	EXPECT_EQ(name_by("exec $WEIR \"$@\"", 0).names.failures, 0);
}

TEST(children_of_the_program_are_its_own)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(7);
	capture_here();
	name_word(frames[0]);
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(WEXITSTATUS(status), 7);
}

/* ---- Corrupt files --------------------------------------------------------
 */

/* A copy of a library that is loaded, and whose file is changed afterwards. */
struct copy {
	char *path;
	int fd;
	off_t size;
	const char *symbol;
};

static struct copy
load_copy(void)
{
	char *original = test_build("lib/sim/libcuda.so.1");
	struct copy copy;
	struct stat file;
	int fd = open(original, O_RDONLY);

	EXPECT_EQ(fstat(fd, &file), 0);
	char *bytes = malloc((size_t)file.st_size);
	EXPECT_EQ(read(fd, bytes, (size_t)file.st_size), file.st_size);
	close(fd);
	copy.size = file.st_size;
	copy.path = test_file("copy.so", bytes, (size_t)file.st_size);
	copy.fd = open(copy.path, O_RDWR);
	void *library = dlopen(copy.path, RTLD_NOW | RTLD_LOCAL);
	EXPECT_NOT_NULL(library);
	copy.symbol = (const char *)dlsym(library, "cuMemAlloc_v2") + 2;
	free(original);
	free(bytes);
	return copy;
}

static void
drop_copy(const struct copy *copy)
{
	close(copy->fd);
	free(copy->path);
}

/* The function has its name, with or without an answer of the helper. */
static void
expect_name(const struct copy *copy)
{
	struct named named = name_word(copy->symbol);

	EXPECT_STR_HAS(named.module, "copy.so");
	EXPECT_NE(named.places[named.n - 1].function[0], '\0');
}

/* All of the file but its segments, from the end of these on. */
static off_t
end_of_segments(const struct copy *copy)
{
	ElfW(Ehdr) head;
	ElfW(Phdr) part;
	off_t end = 0;

	EXPECT_EQ(pread(copy->fd, &head, sizeof(head), 0), sizeof(head));
	for (int i = 0; i < head.e_phnum; i++) {
		off_t at = (off_t)(head.e_phoff + sizeof(part) * (size_t)i);

		EXPECT_EQ(
		    pread(copy->fd, &part, sizeof(part), at), sizeof(part));
		if (part.p_type == PT_LOAD &&
		    (off_t)(part.p_offset + part.p_filesz) > end)
			end = (off_t)(part.p_offset + part.p_filesz);
	}
	EXPECT_LT(end, copy->size);
	return end;
}

TEST(debug_information_of_random_bytes_does_the_program_no_harm)
{
	struct copy copy = load_copy();
	off_t from = end_of_segments(&copy);
	uint64_t random = 1;

	for (uint64_t i = 0; i < test_effort(30); i++) {
		for (int k = 0; k < 200; k++) {
			random = random * 6364136223846793005u + 1442695041u;
			unsigned char byte = (unsigned char)(random >> 56);
			off_t at = from +
			    (off_t)((random >> 16) %
				(uint64_t)(copy.size - from));

			EXPECT_EQ(pwrite(copy.fd, &byte, 1, at), 1);
		}
		expect_name(&copy);
	}
	drop_copy(&copy);
}

TEST(a_file_that_was_cut_has_the_names_of_exported_functions)
{
	struct copy copy = load_copy();

	EXPECT_EQ(ftruncate(copy.fd, end_of_segments(&copy)), 0);
	expect_name(&copy);
	drop_copy(&copy);
}

TEST(a_file_that_another_has_replaced_is_not_read)
{
	struct copy copy = load_copy();
	char *other = test_build("lib/libweir.so");

	EXPECT_EQ(unlink(copy.path), 0);
	EXPECT_EQ(symlink(other, copy.path), 0);
	struct named named = name_word(copy.symbol);
	EXPECT(!named.asked);
	EXPECT_STR_EQ(named.places[0].function, "cuMemAlloc_v2");
	/* A pipe, which would block. */
	EXPECT_EQ(unlink(copy.path), 0);
	EXPECT_EQ(mkfifo(copy.path, 0600), 0);
	named = name_word(copy.symbol);
	EXPECT(!named.asked);
	EXPECT_STR_EQ(named.places[0].function, "cuMemAlloc_v2");
	unlink(copy.path);
	drop_copy(&copy);
	free(other);
}
