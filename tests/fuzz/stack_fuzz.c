/*
 * Debug information and symbols of a loaded library, which libbacktrace reads
 * for stack_names.c. The input is a number of patches, and then patches, each
 * {offset of 2 bytes, byte}, to those sections of stack_fixture.so that the
 * loader does not map, and to the section headers. After that many patches the
 * sections of debug information are compressed, and further patches change the
 * compressed bytes, too; 0: no section is compressed. Each address has at most
 * the requested number of places, each with texts that end; no memory beyond
 * the limit is used.
 *
 * libbacktrace never frees what it has read, so each input runs in a separate
 * process. What that process has covered is copied to this one, where libFuzzer
 * looks for it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "stacks/stack.h"
#include "tests/fuzz/fuzz.h"

enum {
	FIXTURE_BYTES = 64 << 10,
	PLACES = 4,
	CPU_SECONDS = 10,
	/* AddressSanitizer needs some 60 MiB of it. */
	RESIDENT_KB = 256 << 10,
};

/* The file, and space for compressed sections. */
static unsigned char fixture[2 * FIXTURE_BYTES];
static size_t fixture_size;

static void
read_fixture(void)
{
	char path[4096] = "";
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 32);

	fuzz_expect(length > 0, "no path of this program");
	strcpy(strrchr(path, '/'), "/stack_fixture.so");
	FILE *file = fopen(path, "rb");

	fuzz_expect(file != NULL, "no stack_fixture.so beside the program");
	fixture_size = fread(fixture, 1, FIXTURE_BYTES, file);
	fuzz_expect(fixture_size > 0 && fixture_size < FIXTURE_BYTES,
	    "stack_fixture.so has another size than expected");
	fclose(file);
}

/* The first byte that no segment is loaded from. */
static size_t
loaded_bytes(void)
{
	const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)(const void *)fixture;
	const ElfW(Phdr) *segments =
	    (const ElfW(Phdr) *)(const void *)(fixture + head->e_phoff);
	size_t end = 0;

	for (int i = 0; i < head->e_phnum; i++)
		if (segments[i].p_type == PT_LOAD &&
		    segments[i].p_offset + segments[i].p_filesz > end)
			end = segments[i].p_offset + segments[i].p_filesz;
	return end;
}

/* Append the compressed bytes of a section, and let its header point there. */
static void
compress_section(ElfW(Shdr) * section)
{
	ElfW(Chdr)
	    head = { .ch_type = ELFCOMPRESS_ZLIB, .ch_size = section->sh_size };
	unsigned char *to = fixture + fixture_size;
	unsigned long size = sizeof(fixture) - fixture_size;

	if (section->sh_offset > fixture_size ||
	    section->sh_size > fixture_size - section->sh_offset ||
	    size <= sizeof(head))
		return;
	size -= sizeof(head);
	memcpy(to, &head, sizeof(head));
	if (compress(to + sizeof(head), &size, fixture + section->sh_offset,
		section->sh_size) != Z_OK)
		return;
	section->sh_offset = fixture_size;
	section->sh_size = sizeof(head) + size;
	section->sh_flags |= SHF_COMPRESSED;
	fixture_size += section->sh_size;
}

/* Compress all sections that are named .debug_ in the fixture. */
static void
compress_sections(const ElfW(Ehdr) * head)
{
	size_t at = head->e_shoff;
	ElfW(Shdr) names;
	ElfW(Shdr) section;

	memcpy(&names, fixture + at + head->e_shstrndx * sizeof(names),
	    sizeof(names));
	for (int i = 1; i < head->e_shnum; i++) {
		unsigned char *header =
		    fixture + at + (size_t)i * sizeof(section);
		size_t name;

		memcpy(&section, header, sizeof(section));
		name = names.sh_offset + section.sh_name;
		if (name > fixture_size ||
		    strncmp((char *)fixture + name, ".debug_", 7) != 0)
			continue;
		compress_section(&section);
		memcpy(header, &section, sizeof(section));
	}
}

/* Change the file in memory; the head of it stays. Returns whether anything was
 * changed. */
static bool
patch(struct fuzz_steps *steps)
{
	const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)(const void *)fixture;
	size_t loaded = loaded_bytes();
	unsigned before = fuzz_byte(steps);
	bool changed = before != 0 || fuzz_more(steps);

	fuzz_expect(head->e_shoff > loaded, "the fixture has no sections");
	for (unsigned i = 1; fuzz_more(steps) || i == before; i++) {
		size_t at = loaded +
		    (size_t)fuzz_number(steps, 2) % (fixture_size - loaded);

		fixture[at] = (unsigned char)fuzz_byte(steps);
		if (i == before)
			compress_sections(head);
	}
	return changed;
}

/* The only library that a callback is told of. */
struct one_library {
	const char *path;
	int (*callback)(struct dl_phdr_info *, size_t, void *);
	void *data;
};

static int
only_one(struct dl_phdr_info *info, size_t size, void *user)
{
	const struct one_library *one = user;

	if (strcmp(info->dlpi_name, one->path) != 0)
		return 0;
	return one->callback(info, size, one->data);
}

static const char *only_path;

/* Replaces the C library's function for this program: once `only_path` is set,
 * no other library is loaded, as far as libbacktrace can see. To read the debug
 * information of the C library takes a hundred times as long as that of the
 * fixture. */
int
dl_iterate_phdr(
    int (*callback)(struct dl_phdr_info *, size_t, void *), void *data)
{
	struct one_library one = { only_path, callback, data };
	int (*next)(int (*)(struct dl_phdr_info *, size_t, void *), void *);

	*(void **)&next = dlsym(RTLD_NEXT, "dl_iterate_phdr");
	return only_path == NULL ? next(callback, data) : next(only_one, &one);
}

/* known: the library can be read, so that an address has a line. */
static void
describe(const char *inside, bool known)
{
	struct stack_place places[PLACES];
	char text[2 * sizeof(places[0])];
	size_t n = stack_describe(inside, places, PLACES);

	fuzz_expect(n >= 1 && n <= PLACES, "another number of places");
	fuzz_expect(!known || places[0].line > 0, "no line is found");
	for (size_t i = 0; i < n; i++) {
		struct stack_place *p = &places[i];

		fuzz_expect(memchr(p->function, 0, sizeof(p->function)) &&
			memchr(p->file, 0, sizeof(p->file)) &&
			memchr(p->object, 0, sizeof(p->object)),
		    "a text without an end");
		fuzz_expect(stack_place_text(p, text, sizeof(text)) == text &&
			text[0] != '\0',
		    "a place without a text");
	}
}

/* Begin and end of libFuzzer's counters, one byte for each edge. The compiler
 * does not share its names for them with C. */
extern uint8_t *const counters[2];
__asm__(".pushsection .data.rel.ro, \"aw\"\n"
	".weak __start___sancov_cntrs\n"
	".weak __stop___sancov_cntrs\n"
	".balign 8\n"
	"counters: .quad __start___sancov_cntrs, __stop___sancov_cntrs\n"
	".popsection");

/* The counters of the separate process, in memory that it shares. */
static uint8_t *covered;

static size_t
counters_bytes(void)
{
	return (size_t)(counters[1] - counters[0]);
}

static void
share_counters(void)
{
	if (counters_bytes() == 0)
		return;
	covered = mmap(NULL, counters_bytes(), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	fuzz_expect(covered != MAP_FAILED, "no memory to share");
}

static _Noreturn void
child(struct fuzz_steps *steps)
{
	struct rlimit seconds = { CPU_SECONDS, CPU_SECONDS };
	int fd = memfd_create("fixture", MFD_CLOEXEC);
	char path[32];

	setrlimit(RLIMIT_CPU, &seconds);
	fuzz_expect(fd >= 0 &&
		write(fd, fixture, fixture_size) == (ssize_t)fixture_size,
	    "no file in memory");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	fuzz_expect(library != NULL, "the fixture is not loaded");
	const char *function = dlsym(library, "fixture_outer");

	fuzz_expect(function != NULL, "the fixture has no function");
	bool changed = patch(steps);

	fuzz_expect(
	    pwrite(fd, fixture, fixture_size, 0) == (ssize_t)fixture_size,
	    "the file cannot be changed");
	only_path = path;
	for (int i = 1; i <= 32; i += 3)
		describe(function + i, !changed);
	memcpy(covered, counters[0], counters_bytes());
	_exit(0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_steps steps = { data, data + size };
	struct rusage used;
	int status;

	if (fixture_size == 0) {
		read_fixture();
		share_counters();
	}
	pid_t pid = fork();

	fuzz_expect(pid >= 0, "fork");
	if (pid == 0)
		child(&steps);
	pid_t ended;

	do
		ended = wait4(pid, &status, 0, &used);
	while (ended < 0 && errno == EINTR);
	fuzz_expect(ended == pid, "wait4");
	fuzz_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	    "the reader of stacks did not come to its end");
	fuzz_expect(used.ru_maxrss < RESIDENT_KB, "the reader takes memory");
	memcpy(counters[0], covered, counters_bytes());
	return 0;
}
