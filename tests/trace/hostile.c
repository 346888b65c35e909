/*
 * The library is a copy of one of the tests' own.
 */
#include "tests/trace/hostile.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "trace/stack.h"

#define FUNCTION "InitializeInjectionNvtx2"

/* In the exit status of a process that a sanitizer has not ended. */
enum { RETURNED = 64 };

struct hostile
hostile_load(void)
{
	char *path = test_build("tests/trace/fake/nvtx_tool.so");
	FILE *file = fopen(path, "rb");
	static char bytes[4 << 20];
	struct hostile hostile;

	EXPECT_NOT_NULL(file);
	size_t size = fread(bytes, 1, sizeof(bytes), file);

	EXPECT_LT(size, sizeof(bytes));
	fclose(file);
	free(path);
	hostile.path = test_file("tool.so", bytes, size);
	hostile.fd = open(hostile.path, O_RDWR | O_CLOEXEC);
	EXPECT_GE(hostile.fd, 0);
	hostile.library = dlopen(hostile.path, RTLD_NOW | RTLD_LOCAL);
	EXPECT_NOT_NULL(hostile.library);
	hostile.symbol = dlsym(hostile.library, FUNCTION);
	EXPECT_NOT_NULL(hostile.symbol);
	return hostile;
}

static uint64_t
append(int fd, const void *bytes, size_t size)
{
	off_t end = lseek(fd, 0, SEEK_END);

	end = (end + 15) / 16 * 16;
	if (size > 0)
		EXPECT_EQ(pwrite(fd, bytes, size, end), size);
	return (uint64_t)end;
}

void
hostile_write_sections(const struct hostile *hostile,
    const struct hostile_section *sections, size_t n)
{
	enum { MOST = 16 };
	ElfW(Shdr) headers[MOST + 2] = { { 0 } };
	char names[1024] = "";
	size_t used = 1;
	ElfW(Ehdr) head;

	EXPECT_LT(n, MOST);
	for (size_t i = 0; i < n; i++) {
		ElfW(Shdr) *header = &headers[i + 1];
		uint32_t type = sections[i].type;

		header->sh_name = (uint32_t)used;
		header->sh_type = type == 0 ? SHT_PROGBITS : type;
		header->sh_link = sections[i].link;
		header->sh_flags = sections[i].flags;
		header->sh_offset =
		    append(hostile->fd, sections[i].bytes, sections[i].size);
		header->sh_size = sections[i].size;
		used += 1 +
		    (size_t)snprintf(names + used, sizeof(names) - used, "%s",
			sections[i].name);
	}
	headers[n + 1].sh_type = SHT_STRTAB;
	headers[n + 1].sh_offset = append(hostile->fd, names, used);
	headers[n + 1].sh_size = used;
	EXPECT_EQ(pread(hostile->fd, &head, sizeof(head), 0), sizeof(head));
	head.e_shoff =
	    append(hostile->fd, headers, (n + 2) * sizeof(headers[0]));
	head.e_shnum = (ElfW(Half))(n + 2);
	head.e_shstrndx = (ElfW(Half))(n + 1);
	EXPECT_EQ(pwrite(hostile->fd, &head, sizeof(head), 0), sizeof(head));
}

static const struct hostile *named;

struct walk {
	int (*each)(struct dl_phdr_info *, size_t, void *);
	void *user;
};

static int
pass_named(struct dl_phdr_info *info, size_t size, void *user)
{
	const struct walk *walk = user;

	if (named != NULL && strcmp(info->dlpi_name, named->path) != 0)
		return 0;
	return walk->each(info, size, walk->user);
}

/* By this function the reader finds the loaded libraries. While a library is
 * named it is the only one: reading the debug information of libc, where a
 * machine has it, and of this program takes a second, and ten under TSan. */
int
dl_iterate_phdr(
    int (*callback)(struct dl_phdr_info *, size_t, void *), void *data)
{
	struct walk walk = { .each = callback, .user = data };
	int (*next)(int (*)(struct dl_phdr_info *, size_t, void *), void *);

	*(void **)&next = dlsym(RTLD_NEXT, "dl_iterate_phdr");
	return next(pass_named, &walk);
}

static int
name_it(void)
{
	rlim_t seconds = (rlim_t)test_seconds(10);
	struct rlimit limit = { seconds, seconds };
	struct stack_place place;

	setrlimit(RLIMIT_CPU, &limit);
	if (stack_describe(named->symbol + 2, &place, 1) != 1 ||
	    strcmp(place.function, FUNCTION) != 0)
		return RETURNED;
	return RETURNED |
	    (place.line > 0 ? HOSTILE_NAMED | HOSTILE_LINE : HOSTILE_NAMED);
}

int
hostile_name(const struct hostile *hostile)
{
	named = hostile;
	int found = test_child_status(name_it);

	named = NULL;
	EXPECT_EQ(found & ~(HOSTILE_NAMED | HOSTILE_LINE), RETURNED);
	return found & (HOSTILE_NAMED | HOSTILE_LINE);
}

void
hostile_finish(struct hostile *hostile)
{
	EXPECT_NE(hostile_name(hostile) & HOSTILE_NAMED, 0);
	dlclose(hostile->library);
	close(hostile->fd);
	free(hostile->path);
}
