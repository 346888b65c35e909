/*
 * weir name-frames: the helper that names frames for weir's library
 * (stacks/names.c), which no user starts.
 *
 * It reads questions "module TAB build ID TAB offset" from stdin, and answers
 * each with a line "function TAB file TAB line" for each place, and an empty
 * line. libbacktrace reads the module. It trusts what it reads, so that this
 * process may crash, hang or need much memory: limits end it then, and its
 * client takes what was answered before.
 */
#include "tools/weir/reading/name_frames.h"

#include <backtrace.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"
#include "stacks/modules.h"
#include "stacks/names.h"
#include "tools/weir/tuning.h"

/* From libsupc++, which weir is linked with. */
char *__cxa_demangle(const char *name, char *buffer, size_t *size, int *status);

/* A file that questions have been about. */
struct file {
	char *path;
	char build_id[BUILD_ID_TEXT]; /* that it has now */
	bool usable;
	struct backtrace_state *state;
	struct file *next;
};

static struct file *files;

/* ---- Limits ------------------------------------------------------------- */

static void
set_limit(__rlimit_resource_t what, rlim_t value)
{
	struct rlimit limit = { value, value };

	setrlimit(what, &limit);
}

/* The kernel may choose a process to end where memory is short: this one,
 * before the program that it works for. A crash leaves no core file. */
static void
limit_process(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (file != NULL) {
		if (fscanf(file, "%lu", &pages) != 1)
			pages = 0;
		fclose(file);
	}
	set_limit(RLIMIT_AS,
	    ((rlim_t)NAMER_GIB << 30) +
		(rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE));
	set_limit(RLIMIT_CPU, NAMER_SECONDS);
	alarm(NAMER_SECONDS_WAITED);
	file = fopen("/proc/self/oom_score_adj", "we");
	if (file != NULL) {
		fputs("1000", file);
		fclose(file);
	}
	set_limit(RLIMIT_CORE, 0);
	prctl(PR_SET_DUMPABLE, 0);
}

/* ---- Files --------------------------------------------------------------- */

/* Read the build ID that the program headers lead to. */
static void
read_build_id(int fd, const ElfW(Ehdr) * head, char text[BUILD_ID_TEXT])
{
	static char notes[NAMER_NOTES];

	for (size_t i = 0; i < head->e_phnum && i < NAMER_HEADERS; i++) {
		ElfW(Phdr) part;
		ssize_t n;

		if (pread(fd, &part, sizeof(part),
			(off_t)(head->e_phoff + i * sizeof(part))) !=
		    sizeof(part))
			return;
		if (part.p_type != PT_NOTE || part.p_filesz > sizeof(notes))
			continue;
		n = pread(fd, notes, part.p_filesz, (off_t)part.p_offset);
		if (n > 0 && build_id_in_notes(notes, (size_t)n, text))
			return;
	}
}

/* Is it a file of code for this machine? A pipe or a device might block. */
static void
look_at(struct file *file)
{
	int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ElfW(Ehdr) head;
	struct stat found;

	if (fd < 0)
		return;
	if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode) &&
	    pread(fd, &head, sizeof(head), 0) == sizeof(head) &&
	    memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
	    head.e_ident[EI_CLASS] ==
		(sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) &&
	    head.e_phentsize == sizeof(ElfW(Phdr))) {
		read_build_id(fd, &head, file->build_id);
		file->usable = true;
	}
	close(fd);
}

static struct file *
find_file(const char *path)
{
	struct file *file = files;

	while (file != NULL && strcmp(file->path, path) != 0)
		file = file->next;
	if (file != NULL)
		return file;
	file = calloc(1, sizeof(*file));
	if (file == NULL || (file->path = strdup(path)) == NULL)
		_exit(1);
	file->next = files;
	files = file;
	look_at(file);
	return file;
}

/* ---- Answers ------------------------------------------------------------- */

struct answer {
	struct name_place places[NAME_PLACES_MAX];
	size_t n;
};

static void
ignore_fault(void *user, const char *text, int number)
{
	(void)user;
	(void)text;
	(void)number;
}

/* Copy a text; what would end a field becomes a blank. */
static void
copy_field(char to[NAME_TEXT], const char *from)
{
	size_t n = from == NULL ? 0 : strnlen(from, NAME_TEXT - 1);

	if (n > 0)
		memcpy(to, from, n);
	to[n] = '\0';
	for (; (to = strpbrk(to, "\t\n")) != NULL; to++)
		*to = ' ';
}

static void
copy_function(char to[NAME_TEXT], const char *name)
{
	char *text = name != NULL && strncmp(name, "_Z", 2) == 0 ?
	    __cxa_demangle(name, NULL, NULL, NULL) :
	    NULL;

	copy_field(to, text != NULL ? text : name);
	free(text);
}

static int
note_place(void *user, uintptr_t address, const char *file, int line,
    const char *function)
{
	struct answer *answer = user;
	struct name_place *place = &answer->places[answer->n];

	(void)address;
	if (file == NULL && function == NULL)
		return 0;
	copy_function(place->function, function);
	copy_field(place->file, file);
	place->line = line > 0 ? (unsigned)line : 0;
	answer->n++;
	return answer->n == NAME_PLACES_MAX;
}

static void
note_symbol(void *user, uintptr_t address, const char *name, uintptr_t value,
    uintptr_t size)
{
	(void)address;
	(void)value;
	(void)size;
	copy_function(user, name);
}

/*
 * libbacktrace takes a file for the program that it is in. So it looks where
 * that is, and reads the libraries of this process, too. Its call, and all
 * others of this command, come here (-Wl,--wrap): the file is at address 0, and
 * alone.
 */
typedef int module_taker(struct dl_phdr_info *info, size_t size, void *user);
int __real_dl_iterate_phdr(module_taker *take, void *user); /* NOLINT */
int __wrap_dl_iterate_phdr(module_taker *take, void *user); /* NOLINT */

static bool names_are_read;

int
__wrap_dl_iterate_phdr(module_taker *take, void *user) /* NOLINT */
{
	struct dl_phdr_info alone = { .dlpi_name = "" };

	return names_are_read ? take(&alone, sizeof(alone), user) :
				__real_dl_iterate_phdr(take, user);
}

static void
find_places(struct file *file, uint64_t offset, struct answer *answer)
{
	uintptr_t address = (uintptr_t)offset;

	if (file->state == NULL)
		file->state =
		    backtrace_create_state(file->path, 0, ignore_fault, NULL);
	if (file->state == NULL)
		return;
	backtrace_pcinfo(
	    file->state, address, note_place, ignore_fault, answer);
	/* The last place is the function that has the address. */
	if (answer->n == 0)
		answer->n = 1;
	char *function = answer->places[answer->n - 1].function;

	if (function[0] == '\0')
		backtrace_syminfo(
		    file->state, address, note_symbol, ignore_fault, function);
	if (function[0] == '\0' && answer->places[0].file[0] == '\0')
		answer->n = 0;
}

/* Answer a question; false if it is none. */
static bool
answer_line(char *line)
{
	struct answer answer = { 0 };
	char *build_id = strchr(line, '\t');
	char *offset = build_id != NULL ? strchr(build_id + 1, '\t') : NULL;

	if (offset == NULL)
		return false;
	*build_id++ = *offset++ = '\0';
	if (line[0] != '\0') {
		struct file *file = find_file(line);

		if (file->usable && strcmp(file->build_id, build_id) == 0)
			find_places(file, strtoull(offset, NULL, 16), &answer);
	}
	for (size_t i = 0; i < answer.n; i++)
		printf("%s\t%s\t%u\n", answer.places[i].function,
		    answer.places[i].file, answer.places[i].line);
	putchar('\n');
	/* The client must know which question this process has died of. */
	return fflush(stdout) == 0;
}

void
name_frames(void)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n;

	/* The program's files that are not closed on exec are none of ours. */
	os_close_from(STDERR_FILENO + 1);
	limit_process();
	names_are_read = true;
	while ((n = getline(&line, &room, stdin)) > 0 && line[n - 1] == '\n') {
		line[n - 1] = '\0';
		if (!answer_line(line))
			break;
	}
	/* libbacktrace does not free its memory. */
	_exit(0);
}
