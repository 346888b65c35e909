/*
 * The client of the helper, `weir name-frames`
 * (tools/weir/reading/name_frames.c).
 *
 * Both ends of a socket carry lines. A question is "module TAB build ID TAB
 * offset", the offset in hexadecimal digits. Its answer has a line "function
 * TAB file TAB line" for each place, and ends with an empty line. The helper
 * answers one question after the other, so that the first one without an
 * answer is the one that it died of. That one is left out, and the next helper
 * goes on behind it.
 *
 * The helper is a child of this process. The program gets a SIGCHLD when it
 * ends, and a thread that waits for any child may see its number; weir waits
 * for this child only, and does not mind if another thread did. A socket, other
 * than a pipe, is written without SIGPIPE.
 */
#include "stacks/names.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/meta.h"
#include "base/os.h"
#include "stacks/command.h"
#include "stacks/modules.h"

static const uint64_t ns_in_ms = 1000000;

/* A conversation with one helper. */
struct helper {
	const struct name_query *queries;
	size_t n;
	bool trusted;
	name_taker *take;
	void *user;
	uint64_t end_ns; /* the time at which it is late */
	int fd;
	bool deaf; /* it reads no more; answers may still come */
	pid_t pid;
	size_t asked;    /* questions in `out` or sent */
	size_t answered; /* questions that have their answer */
	size_t out_n;
	size_t in_n;
	size_t place_n;
	struct name_place places[NAME_PLACES_MAX];
	char out[NAMES_BUFFER];
	char in[NAMES_BUFFER];
};

/* ---- The process -------------------------------------------------------- */

/* It gets no signal mask and no variable of the program's: neither the preload
 * nor the options are for it. It closes the program's files by itself. */
static bool
spawn_helper(const char *command, int in, pid_t *pid)
{
	char name[] = "weir";
	char what[] = "name-frames";
	char language[] = "LC_ALL=C";
	char *argv[] = { name, what, NULL };
	char *environment[] = { language, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none;
	sigset_t all;
	bool done;

	if (posix_spawn_file_actions_init(&files) != 0)
		return false;
	if (posix_spawnattr_init(&attributes) != 0) {
		posix_spawn_file_actions_destroy(&files);
		return false;
	}
	sigemptyset(&none);
	sigfillset(&all);
	done =
	    posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO) == 0 &&
	    posix_spawn_file_actions_adddup2(&files, in, STDOUT_FILENO) == 0 &&
	    posix_spawn_file_actions_addopen(
		&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
	    posix_spawnattr_setsigmask(&attributes, &none) == 0 &&
	    posix_spawnattr_setsigdefault(&attributes, &all) == 0 &&
	    posix_spawnattr_setflags(&attributes,
		POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF) == 0 &&
	    posix_spawn(pid, command, &files, &attributes, argv, environment) ==
		0;
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&files);
	return done;
}

static bool
helper_start(struct helper *helper, const char *command)
{
	int ends[2];
	bool done;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		return false;
	ends[0] = os_fd_up(ends[0]);
	ends[1] = os_fd_up(ends[1]);
	done = spawn_helper(command, ends[1], &helper->pid);
	close(ends[1]);
	if (done)
		helper->fd = ends[0];
	else
		close(ends[0]);
	return done;
}

/* Another thread of the program may have waited for the child. Then its number
 * may be another process's. */
static bool
helper_is_child(const struct helper *helper, int flags)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)helper->pid, &info,
		   WEXITED | WNOHANG | flags) == 0 &&
	    (flags != 0 || info.si_pid == 0);
}

static void
helper_end(struct helper *helper)
{
	static const struct timespec pause = { .tv_nsec = 100000 };
	uint64_t end = os_monotonic_ns() + NAMES_END_MS * ns_in_ms;

	close(helper->fd);
	if (helper_is_child(helper, WNOWAIT))
		kill(helper->pid, SIGKILL);
	while (helper_is_child(helper, 0) && os_monotonic_ns() < end)
		nanosleep(&pause, NULL);
}

/* ---- Lines --------------------------------------------------------------- */

/* A question that cannot be asked is one about nothing. */
static void
put_questions(struct helper *helper)
{
	while (helper->asked < helper->n) {
		const struct name_query *query =
		    &helper->queries[helper->asked];
		bool known = strpbrk(query->module, "\t\n") == NULL &&
		    (query->build_id[0] != '\0' || helper->trusted);
		size_t room = NAMES_BUFFER - helper->out_n;
		int n = snprintf(helper->out + helper->out_n, room,
		    "%s\t%s\t%" PRIx64 "\n", known ? query->module : "",
		    query->build_id, query->offset);

		if (n < 0 || (size_t)n >= room)
			return;
		helper->out_n += (size_t)n;
		helper->asked++;
	}
}

static void
send_questions(struct helper *helper)
{
	ssize_t n = send(helper->fd, helper->out, helper->out_n,
	    MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0) {
		helper->deaf = errno != EAGAIN && errno != EINTR;
		return;
	}
	helper->out_n -= (size_t)n;
	memmove(helper->out, helper->out + n, helper->out_n);
}

static void
copy_name(char to[NAME_TEXT], const char *from)
{
	size_t n = strnlen(from, NAME_TEXT - 1);

	memcpy(to, from, n);
	to[n] = '\0';
}

/* Take a line of an answer; false if it is none. */
static bool
take_line(struct helper *helper, char *line)
{
	struct name_place *place = &helper->places[helper->place_n];
	char *file = strchr(line, '\t');
	char *number = file != NULL ? strchr(file + 1, '\t') : NULL;
	char *end;

	if (helper->answered == helper->asked)
		return false;
	if (line[0] == '\0') {
		if (helper->place_n > 0)
			helper->take(helper->user, helper->answered,
			    helper->places, helper->place_n);
		helper->place_n = 0;
		helper->answered++;
		return true;
	}
	if (number == NULL || helper->place_n == NAME_PLACES_MAX)
		return false;
	*file = *number = '\0';
	unsigned long value = strtoul(number + 1, &end, 10);

	if (end == number + 1 || *end != '\0' || value > UINT32_MAX)
		return false;
	copy_name(place->function, line);
	copy_name(place->file, file + 1);
	place->line = (unsigned)value;
	helper->place_n++;
	return true;
}

/* Take all whole lines. False at the end of the helper's output, or where it is
 * no answer; then *sound says which. */
static bool
take_answers(struct helper *helper, bool *sound)
{
	ssize_t n = recv(helper->fd, helper->in + helper->in_n,
	    NAMES_BUFFER - helper->in_n, MSG_DONTWAIT);
	char *line = helper->in;
	char *end;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	helper->in_n += (size_t)n;
	while ((end = memchr(line, '\n',
		    helper->in_n - (size_t)(line - helper->in))) != NULL) {
		*end = '\0';
		if (strlen(line) != (size_t)(end - line) ||
		    !take_line(helper, line)) {
			*sound = false;
			return false;
		}
		line = end + 1;
	}
	helper->in_n -= (size_t)(line - helper->in);
	memmove(helper->in, line, helper->in_n);
	*sound = helper->in_n < NAMES_BUFFER;
	return *sound;
}

/* ---- Conversations ------------------------------------------------------- */

/* Ask and listen until all is answered. Returns what went wrong, or NULL. */
static const char *
helper_talk(struct helper *helper, bool *again)
{
	bool sound = true;

	while (helper->answered < helper->n) {
		struct pollfd wait = { .fd = helper->fd, .events = POLLIN };
		uint64_t now = os_monotonic_ns();

		if (now >= helper->end_ns)
			return "the weir command took too long";
		put_questions(helper);
		if (helper->out_n > 0 && !helper->deaf)
			wait.events |= POLLOUT;
		if (poll(&wait, 1,
			(int)((helper->end_ns - now) / ns_in_ms) + 1) <= 0)
			continue;
		if ((wait.revents & POLLOUT) != 0)
			send_questions(helper);
		if ((wait.revents & ~POLLOUT) != 0 &&
		    !take_answers(helper, &sound)) {
			*again = sound;
			return sound ? "the weir command died" :
				       "the weir command answered nonsense";
		}
	}
	return NULL;
}

/* Have one helper answer from the query `helper->answered` on. False if no
 * other helper is to try. */
static bool
ask_once(struct names *names, struct helper *helper, const char *command)
{
	uint64_t began = os_monotonic_ns();
	const char *wrong = "the weir command cannot be started";
	bool again = false;

	if (names->failures == NAMES_FAILURES ||
	    names->spent_ns >= NAMES_MS * ns_in_ms)
		return false;
	helper->end_ns = began + NAMES_MS * ns_in_ms - names->spent_ns;
	helper->asked = helper->answered;
	helper->out_n = helper->in_n = helper->place_n = 0;
	helper->deaf = false;
	if (helper_start(helper, command)) {
		wrong = helper_talk(helper, &again);
		helper_end(helper);
	}
	names->spent_ns += os_monotonic_ns() - began;
	if (wrong != NULL) {
		names->lack = wrong;
		names->failures++;
	}
	helper->answered++;
	return again;
}

void
names_ask(struct names *names, const struct name_query *queries, size_t n,
    bool trusted, name_taker *take, void *user)
{
	struct helper *helper;
	char command[PATH_MAX];
	int saved = errno;

	if (n == 0)
		return;
	helper = meta_alloc(sizeof(*helper));
	if (helper == NULL) {
		names->lack = "no host memory for names";
	} else if (!command_find(command)) {
		names->lack = "there is no weir command";
	} else {
		helper->queries = queries;
		helper->n = n;
		helper->trusted = trusted;
		helper->take = take;
		helper->user = user;
		helper->answered = 0;
		while (helper->answered < n && ask_once(names, helper, command))
			;
	}
	meta_free(helper, sizeof(*helper));
	errno = saved;
}

/* ---- Return addresses ---------------------------------------------------- */

struct search {
	const struct modules *modules;
	const void *const *words;
	name_frame_taker *take;
	void *user;
	bool *named;
};

/* A return address may be behind the end of its function, so that the byte
 * before it, which is of the call, is looked up. */
static struct name_frame
frame_of(const struct modules *modules, const void *word)
{
	const struct module *module =
	    modules_find(modules, (uintptr_t)word - 1);

	if (module == NULL)
		return (struct name_frame){ .module = "", .build_id = "" };
	return (struct name_frame){ .module = module->path,
		.build_id = module->build_id,
		.offset = (uintptr_t)word - module->base };
}

static void
take_named(void *user, size_t i, const struct name_place *places, size_t n)
{
	struct search *search = user;
	struct name_frame frame = frame_of(search->modules, search->words[i]);

	frame.asked = true;
	search->named[i] = true;
	search->take(search->user, i, &frame, places, n);
}

/* Name a frame as the loader does, from the symbols that it has mapped. */
static void
take_unnamed(struct search *search, size_t i)
{
	struct name_frame frame = frame_of(search->modules, search->words[i]);
	struct name_place place = { 0 };
	Dl_info info = { 0 };

	if (frame.module[0] != '\0' &&
	    dladdr((const char *)search->words[i] - 1, &info) != 0 &&
	    info.dli_sname != NULL)
		copy_name(place.function, info.dli_sname);
	search->take(search->user, i, &frame, &place, 1);
}

void
names_find(struct names *names, const void *const *words, size_t n,
    name_frame_taker *take, void *user)
{
	struct modules modules;

	if (n == 0)
		return;
	struct name_query *queries = meta_alloc(n * sizeof(*queries));
	bool *named = meta_zalloc(n);
	struct search search = { &modules, words, take, user, named };

	modules_read(&modules);
	for (size_t i = 0; i < n && queries != NULL; i++) {
		struct name_frame frame = frame_of(&modules, words[i]);

		queries[i] = (struct name_query){ frame.module, frame.build_id,
			frame.offset - 1 };
	}
	if (queries != NULL && named != NULL)
		names_ask(names, queries, n, true, take_named, &search);
	else
		names->lack = "no host memory for names";
	for (size_t i = 0; i < n; i++)
		if (named == NULL || !named[i])
			take_unnamed(&search, i);
	modules_free(&modules);
	meta_free(queries, n * sizeof(*queries));
	meta_free(named, n);
}
