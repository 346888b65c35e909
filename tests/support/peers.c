/*
 * Processes that share a simulated device.
 */
#include "tests/support/peers.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allocator/options.h"
#include "tests/support/device.h"

char peers_device[64];
char peers_folder[64];

void
share_device(void)
{
	char text[160];
	int fd;

	if (sim() == NULL)
		SKIP("this is of the simulated driver only");
	strcpy(peers_device, "/tmp/weir-share-XXXXXX");
	fd = mkstemp(peers_device);
	EXPECT_GE(fd, 0);
	close(fd);
	strcpy(peers_folder, "/tmp/weir-folder-XXXXXX");
	EXPECT_NOT_NULL(mkdtemp(peers_folder));
	snprintf(
	    text, sizeof(text), "memory_mb:256,shared_device:%s", peers_device);
	setenv("SIMCUDA_CONF", text, 1);
}

void
drop_device(void)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf %s %s", peers_folder,
	    peers_device);
	EXPECT_EQ(system(command), 0);
}

void
join_with(const char *more)
{
	char text[400];

	snprintf(text, sizeof(text), "group:g,group_folder:%s%s%s",
	    peers_folder, *more != '\0' ? "," : "", more);
	setenv("WEIR_CONF", text, 1);
	options_forget();
}

struct ledger_file *
ledger_here(void)
{
	struct ledger_file *file = member_file(0);

	EXPECT_NOT_NULL(file);
	return file;
}

uint64_t
own_lease(void)
{
	struct ledger_file *file = ledger_here();

	return atomic_load(&file->ledger->slots[file->slot].lease);
}

enum { PEER_BLOCKS = 16 };

/* Keep the default stream busy for ever, a piece of work queued ahead. Each piece
 * uses the memory that is free, as steps of a training do. */
static void *
be_busy(void *milliseconds)
{
	unsigned ms = (unsigned)(uintptr_t)milliseconds;

	busy(NULL, ms);
	for (;;) {
		busy(NULL, ms);
		void *block = weir_malloc(2 * MIB, NULL);
		usleep(ms * 1000);
		sim()->advance_ns(ms * UINT64_C(1000000));
		weir_free(block);
	}
	return NULL;
}

static void
obey(FILE *in, FILE *out)
{
	void *blocks[PEER_BLOCKS] = { 0 };
	char word[16];
	unsigned i;
	size_t mib;

	while (fscanf(in, "%15s %u %zu", word, &i, &mib) == 3) {
		if (strcmp(word, "quit") == 0)
			_exit(0);
		if (strcmp(word, "take") == 0) {
			blocks[i] = weir_malloc(mib * MIB, NULL);
			fprintf(out, "%d\n", blocks[i] != NULL);
		} else if (strcmp(word, "give") == 0) {
			fprintf(out, "%d\n", weir_free(blocks[i]) == WEIR_OK);
		} else if (strcmp(word, "trim") == 0) {
			fprintf(out, "%d\n", weir_trim(0, 0, NULL) == WEIR_OK);
		} else if (strcmp(word, "busy") == 0) {
			pthread_t thread;

			fprintf(out, "%d\n",
			    pthread_create(&thread, NULL, be_busy,
				(void *)(uintptr_t)mib) == 0);
		}
		fflush(out);
	}
	_exit(0);
}

struct peer
new_peer(const char *options)
{
	struct peer peer;
	int to[2];
	int from[2];

	EXPECT_EQ(pipe2(to, O_CLOEXEC), 0);
	EXPECT_EQ(pipe2(from, O_CLOEXEC), 0);
	fflush(NULL);
	peer.pid = fork();
	if (peer.pid == 0) {
		close(to[1]);
		close(from[0]);
		join_with(options);
		obey(fdopen(to[0], "r"), fdopen(from[1], "w"));
	}
	close(to[0]);
	close(from[1]);
	peer.to = fdopen(to[1], "w");
	peer.from = fdopen(from[0], "r");
	return peer;
}

bool
tell_peer(struct peer *peer, const char *word, unsigned i, size_t mib)
{
	int done = -1;

	fprintf(peer->to, "%s %u %zu\n", word, i, mib);
	fflush(peer->to);
	EXPECT_EQ(fscanf(peer->from, "%d", &done), 1);
	return done == 1;
}

void
kill_peer(struct peer *peer)
{
	int status;

	kill(peer->pid, SIGKILL);
	EXPECT_EQ(waitpid(peer->pid, &status, 0), peer->pid);
	fclose(peer->to);
	fclose(peer->from);
}
