/*
 * Two processes: one allocates and fills, the other opens the memory by its
 * handle and reads it. The child is made before the driver is used.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cuda.h"

enum { BLOCKS = 3, WORDS = 25000, LAZY_PEER_ACCESS = 1 };

/* 64 bytes that only the driver understands. */
struct handle {
	char bytes[64];
};

struct message {
	result code;
	struct handle handle;
	unsigned value;
};

static struct cuda cuda;

static void *
look_up(const char *name)
{
	void *symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);

	if (symbol == NULL)
		exit(3);
	return symbol;
}

/* Wrong words of one block, read by the child. */
static unsigned
read_block(const struct message *message)
{
	static unsigned host[WORDS];
	result (*open)(address *, struct handle, unsigned);
	result (*close)(address);
	void *symbol = look_up("cuIpcOpenMemHandle_v2");
	unsigned wrong = 0;
	address ptr;

	memcpy(&open, &symbol, sizeof(symbol));
	symbol = look_up("cuIpcCloseMemHandle");
	memcpy(&close, &symbol, sizeof(symbol));
	MUST(open(&ptr, message->handle, LAZY_PEER_ACCESS));
	MUST(cuda.copy_out(host, ptr, sizeof(host)));
	MUST(close(ptr));
	for (int i = 0; i < WORDS; i++)
		wrong += host[i] != message->value;
	return wrong;
}

static _Noreturn void
child(int from, int to)
{
	struct message message;
	unsigned wrong = 0;

	cuda_start(&cuda);
	for (int i = 0; i < BLOCKS; i++) {
		if (read(from, &message, sizeof(message)) != sizeof(message))
			exit(3);
		if (message.code == SUCCESS)
			wrong += read_block(&message);
	}
	/* The parent frees only now. */
	if (write(to, &wrong, sizeof(wrong)) != sizeof(wrong))
		exit(3);
	exit(0);
}

static void
send_block(int to, address *ptr, unsigned value)
{
	result (*get)(struct handle *, address);
	void *symbol = look_up("cuIpcGetMemHandle");
	struct message message = { .value = value };

	memcpy(&get, &symbol, sizeof(symbol));
	MUST(cuda.mem_alloc(ptr, WORDS * sizeof(unsigned)));
	MUST(cuda.fill(*ptr, value, WORDS, NULL));
	MUST(cuda.synchronize());
	message.code = get(&message.handle, *ptr);
	printf("handle of block %u: %d\n", value, message.code);
	if (write(to, &message, sizeof(message)) != sizeof(message))
		exit(3);
}

int
main(void)
{
	address blocks[BLOCKS];
	unsigned wrong = 1;
	int to_child[2];
	int to_parent[2];
	pid_t reader;

	cuda_by_dlsym(&cuda);
	if (pipe(to_child) != 0 || pipe(to_parent) != 0)
		return 3;
	reader = fork();
	if (reader == 0)
		child(to_child[0], to_parent[1]);
	cuda_start(&cuda);
	for (unsigned i = 0; i < BLOCKS; i++)
		send_block(to_child[1], &blocks[i], i);
	if (read(to_parent[0], &wrong, sizeof(wrong)) != sizeof(wrong))
		return 3;
	waitpid(reader, NULL, 0);
	for (int i = 0; i < BLOCKS; i++)
		MUST(cuda.mem_free(blocks[i]));
	printf("wrong words: %u\n", wrong);
	return wrong != 0;
}
