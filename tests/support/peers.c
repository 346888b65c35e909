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

#include <weir/sleep.h>

#include "allocator/options.h"
#include "allocator/private/sleeping.h"
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

/* ---- Launches ----------------------------------------------------------- */

static _Atomic(uint64_t) launched;

static void
end_launches(void)
{
}

static uint64_t
count_launched(void)
{
	return atomic_load(&launched);
}

void
hold_launches(void)
{
	static const struct sleeping_launches launches = { end_launches,
		count_launched, true };

	sleeping_follow_launches(&launches);
}

void
launch_held(void)
{
	while (sleeping_is(0))
		if (sleeping_wait(0, "a launch") != WEIR_OK)
			usleep(1000);
	atomic_fetch_add(&launched, 1);
}

/* ---- Members ------------------------------------------------------------ */

enum { PEER_BLOCKS = 16 };

/* Keep the default stream busy for ever, a piece of work queued ahead. Each
 * piece uses the memory that is free, as steps of a training do. */
static void *
train(void *milliseconds)
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

static struct peer_block {
	void *ptr;
	size_t size;
} blocks[PEER_BLOCKS];

/* Bytes of a block that are equal to each other. */
enum { PIECE = 64 << 10 };

/* The bytes of piece k in content i. */
static unsigned char
content_of(unsigned i, size_t k)
{
	return (unsigned char)(k * 7 + i + 1);
}

static void
write_content(const struct peer_block *block, unsigned i)
{
	launch_held();
	for (size_t k = 0; k < block->size / PIECE; k++)
		fill((char *)block->ptr + k * PIECE, PIECE, content_of(i, k),
		    NULL);
	finish(NULL);
}

static bool
has_content(const struct peer_block *block, unsigned i)
{
	unsigned char *bytes = malloc(block->size);
	bool same = true;

	EXPECT_NOT_NULL(bytes);
	launch_held();
	read_back(bytes, block->ptr, block->size, NULL);
	for (size_t n = 0; n < block->size && same; n++)
		same = bytes[n] == content_of(i, n / PIECE);
	free(bytes);
	return same;
}

static bool
obey_block(const char *word, unsigned i, size_t mib)
{
	struct peer_block *block = &blocks[i];

	if (strcmp(word, "take") == 0) {
		block->ptr = weir_malloc(mib * MIB, NULL);
		block->size = mib * MIB;
		return block->ptr != NULL;
	}
	if (strcmp(word, "give") == 0)
		return weir_free(block->ptr) == WEIR_OK;
	if (strcmp(word, "test") == 0)
		return has_content(block, i);
	write_content(block, i);
	return true;
}

static bool
obey_word(const char *word, size_t n)
{
	static weir_stream stream;
	pthread_t thread;

	if (strcmp(word, "trim") == 0)
		return weir_trim(0, 0, NULL) == WEIR_OK;
	if (strcmp(word, "explain") == 0)
		return fprintf(stderr, "# %s\n", weir_last_error()) > 0;
	if (strcmp(word, "slept") == 0)
		return weir_is_asleep(0);
	if (strcmp(word, "sleep") == 0)
		return weir_sleep(0, NULL, NULL) == WEIR_OK;
	if (strcmp(word, "wake") == 0)
		return weir_wake(0, 0, NULL) == WEIR_OK;
	if (strcmp(word, "train") == 0)
		return pthread_create(
			   &thread, NULL, train, (void *)(uintptr_t)n) == 0;
	if (stream == NULL)
		stream = new_stream();
	if (strcmp(word, "begin") == 0)
		capture_begin(stream);
	else if (strcmp(word, "end") == 0)
		capture_end(stream);
	else
		busy(stream, (unsigned)n);
	return true;
}

static void
obey(FILE *in, FILE *out)
{
	static const char of_blocks[] = " take give fill test ";
	char word[16];
	char spaced[24];
	unsigned i;
	size_t n;

	while (fscanf(in, "%15s %u %zu", word, &i, &n) == 3) {
		if (strcmp(word, "quit") == 0)
			_exit(0);
		snprintf(spaced, sizeof(spaced), " %s ", word);
		fprintf(out, "%d\n",
		    strstr(of_blocks, spaced) != NULL ? obey_block(word, i, n) :
							obey_word(word, n));
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
		if (strstr(options, "may_sleep:True") != NULL)
			hold_launches();
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
	tell_peer_only(peer, word, i, mib);
	return await_peer(peer);
}

void
tell_peer_only(struct peer *peer, const char *word, unsigned i, size_t n)
{
	fprintf(peer->to, "%s %u %zu\n", word, i, n);
	fflush(peer->to);
}

bool
await_peer(struct peer *peer)
{
	int done = -1;

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
