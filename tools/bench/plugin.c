/*
 * Peers that are not built in: libraries, and commands that measure pairs
 * themselves.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench/bench.h"
#include "tools/weir/tool.h"

const struct peer *
plugin_open(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const struct peer *peer;

	if (library == NULL) {
		complain("%s", dlerror());
		return NULL;
	}
	peer = dlsym(library, "weir_bench_peer");
	if (peer == NULL)
		complain("%s defines no weir_bench_peer", path);
	return peer;
}

/* ---- Child processes --------------------------------------------------- */

/* Start a program with two ends of pipes as its stdin and stdout. Returns 0 or
 * an errno. */
static int
spawn(pid_t *pid, char *const argv[], int in, int out)
{
	posix_spawn_file_actions_t actions;
	int error = posix_spawn_file_actions_init(&actions);

	if (error != 0)
		return error;
	error = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	if (error == 0)
		error = posix_spawn_file_actions_adddup2(
		    &actions, out, STDOUT_FILENO);
	if (error == 0)
		error =
		    posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

bool
child_start(struct child *child, char *const argv[])
{
	int in[2];
	int out[2];
	int error;

	if (pipe2(in, O_CLOEXEC) != 0) {
		complain("%s: %s", argv[0], strerror(errno));
		return false;
	}
	if (pipe2(out, O_CLOEXEC) != 0) {
		complain("%s: %s", argv[0], strerror(errno));
		goto close_in;
	}
	/* The child may use all processors. */
	unpin();
	error = spawn(&child->pid, argv, in[0], out[1]);
	if (error != 0) {
		complain("%s: %s", argv[0], strerror(error));
		goto close_out;
	}
	close(in[0]);
	close(out[1]);
	child->to = fdopen(in[1], "w");
	child->from = fdopen(out[0], "r");
	if (child->to != NULL && child->from != NULL)
		return true;
	complain("%s: %s", argv[0], strerror(errno));
	return false;

close_out:
	close(out[0]);
	close(out[1]);
close_in:
	close(in[0]);
	close(in[1]);
	return false;
}

int
child_end(struct child *child)
{
	int status;

	fclose(child->to);
	fclose(child->from);
	while (waitpid(child->pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- Peers that are commands ------------------------------------------- */

struct child_peer {
	struct peer peer; /* first, so that one can be cast to the other */
	struct child child;
	struct child_peer *next;
};

static struct child_peer *child_peers;

static const char *
child_error(void)
{
	return "the command did not answer with a time";
}

static double
child_pairs(const struct peer *peer, size_t size, uint64_t n)
{
	struct child *child = &((struct child_peer *)peer)->child;
	char line[256];
	char *end;
	double seconds;

	if (fprintf(child->to, "%zu %ju\n", size, (uintmax_t)n) < 0 ||
	    fflush(child->to) != 0 ||
	    fgets(line, sizeof(line), child->from) == NULL)
		return -1;
	seconds = strtod(line, &end);
	return end != line && *end == '\n' ? seconds : -1;
}

/* Wait for the first line of a command. True if it is "ready"; otherwise a
 * complaint. */
static bool
child_is_ready(struct child_peer *peer)
{
	char line[256] = "the command ended without an answer";

	if (fgets(line, sizeof(line), peer->child.from) != NULL &&
	    strcmp(line, "ready\n") == 0)
		return true;
	line[strcspn(line, "\n")] = '\0';
	complain("%s is left out: %s", peer->peer.name, line);
	return false;
}

const struct peer *
child_open(const char *text)
{
	const char *equals = strchr(text, '=');
	struct child_peer *peer = calloc(1, sizeof(*peer));
	char *name =
	    equals == NULL ? NULL : strndup(text, (size_t)(equals - text));
	char *argv[] = { "sh", "-c", NULL, NULL };

	if (name == NULL || peer == NULL) {
		complain("a child is NAME=COMMAND, not '%s'", text);
		goto drop;
	}
	peer->peer = (struct peer){
		.name = name,
		.what = "another process, which measures pairs itself",
		.kind = PEER_CHILD,
		.slow = true,
		.error = child_error,
		.pairs = child_pairs,
	};
	argv[2] = (char *)equals + 1;
	if (!child_start(&peer->child, argv))
		goto drop;
	if (!child_is_ready(peer)) {
		child_end(&peer->child);
		goto drop;
	}
	peer->next = child_peers;
	child_peers = peer;
	return &peer->peer;

drop:
	free(name);
	free(peer);
	return NULL;
}

void
children_close(void)
{
	while (child_peers != NULL) {
		struct child_peer *peer = child_peers;

		child_peers = peer->next;
		child_end(&peer->child);
		free((char *)peer->peer.name);
		free(peer);
	}
}
