/*
 * Two processes: one allocates and fills, the other opens the memory by its
 * handle, twice, reads it and writes to it. The child is made before the
 * driver is used; an argument "NAME=value" is put into its environment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cuda.h"

enum { BLOCKS = 3, WORDS = 25000, LAZY_PEER_ACCESS = 1 };

/* A handle: 64 bytes that only the driver understands. */
struct handle {
	char bytes[64];
};

struct message {
	result code;
	struct handle handle;
	unsigned value;
};

static struct cuda cuda;

/* The child's report on one block. */
struct answer {
	result code;    /* the result of the open */
	unsigned wrong; /* words */
	int again;      /* a second open returns the same address */
	int whole;      /* an address in it gives the whole range */
};

/* Open a block, check its contents and write to its last word. */
static struct answer
read_block(const struct message *message)
{
	static unsigned host[WORDS];
	result (*open)(address *, struct handle, unsigned);
	result (*close)(address);
	struct answer answer = { 0 };
	address second;
	address base;
	address ptr;
	size_t size;

	cuda_fetch("cuIpcOpenMemHandle_v2", &open);
	cuda_fetch("cuIpcCloseMemHandle", &close);
	answer.code = open(&ptr, message->handle, LAZY_PEER_ACCESS);
	if (answer.code != SUCCESS)
		return answer;
	MUST(open(&second, message->handle, LAZY_PEER_ACCESS));
	answer.again = second == ptr;
	MUST(cuda.get_range(&base, &size, ptr + 5000));
	answer.whole = base == ptr && size >= sizeof(host);
	MUST(close(second));
	MUST(cuda.copy_out(host, ptr, sizeof(host)));
	for (int i = 0; i < WORDS; i++)
		answer.wrong += host[i] != message->value;
	MUST(cuda.fill(ptr + sizeof(host) - 4, ~message->value, 1, NULL));
	MUST(cuda.synchronize());
	MUST(close(ptr));
	return answer;
}

static _Noreturn void
child(int from, int to)
{
	struct message message;
	struct answer answer;

	cuda_start(&cuda);
	for (int i = 0; i < BLOCKS; i++) {
		if (read(from, &message, sizeof(message)) != sizeof(message))
			exit(3);
		answer = (struct answer){ .code = message.code };
		if (message.code == SUCCESS)
			answer = read_block(&message);
		/* The parent frees only after it has read all reports. */
		if (write(to, &answer, sizeof(answer)) != sizeof(answer))
			exit(3);
	}
	exit(0);
}

/* Read the child's report on a block, and check that the child's write is
 * there. */
static unsigned
hear_block(int from, address ptr, unsigned value)
{
	struct answer answer;
	unsigned last = 0;

	if (read(from, &answer, sizeof(answer)) != sizeof(answer))
		exit(3);
	MUST(cuda.copy_out(
	    &last, ptr + (WORDS - 1) * sizeof(unsigned), sizeof(last)));
	printf("block %u: opened %d, again %d, whole %d, trace %d\n", value,
	    answer.code, answer.again, answer.whole, last == ~value);
	return answer.wrong;
}

static void
send_block(int to, address *ptr, unsigned value)
{
	result (*get)(struct handle *, address);
	struct message message = { .value = value };
	struct handle again;

	cuda_fetch("cuIpcGetMemHandle", &get);
	MUST(cuda.mem_alloc(ptr, WORDS * sizeof(unsigned)));
	MUST(cuda.fill(*ptr, value, WORDS, NULL));
	MUST(cuda.synchronize());
	message.code = get(&message.handle, *ptr);
	MUST(get(&again, *ptr));
	printf("handle of block %u: %d, the same again %d\n", value,
	    message.code, memcmp(&again, &message.handle, sizeof(again)) == 0);
	if (write(to, &message, sizeof(message)) != sizeof(message))
		exit(3);
}

int
main(int argc, char **argv)
{
	address blocks[BLOCKS];
	unsigned wrong = 0;
	int to_child[2];
	int to_parent[2];
	pid_t reader;

	if (pipe(to_child) != 0 || pipe(to_parent) != 0)
		return 3;
	reader = fork();
	if (reader == 0 && argc > 1)
		putenv(argv[1]);
	cuda_by_dlsym(&cuda);
	if (reader == 0)
		child(to_child[0], to_parent[1]);
	cuda_start(&cuda);
	for (unsigned i = 0; i < BLOCKS; i++)
		send_block(to_child[1], &blocks[i], i);
	for (unsigned i = 0; i < BLOCKS; i++)
		wrong += hear_block(to_parent[0], blocks[i], i);
	waitpid(reader, NULL, 0);
	for (int i = 0; i < BLOCKS; i++)
		MUST(cuda.mem_free(blocks[i]));
	printf("wrong words: %u\n", wrong);
	return wrong != 0;
}
