/*
 * A program that follows commands, a letter at a time from its stdin, and
 * answers each with a line: the memory that it holds then, or the result.
 *
 *	a  allocate 1 MiB		f  free the latest block
 *	h  page-locked host memory	o  request too much memory
 *	s  SIGUSR2 to itself		k  fork a child that ends by exit()
 *	d  change to another folder	w  fill the latest block
 *	r  read a byte of it		l  allocate 40 MiB
 *	p  write different words to the latest block; c  compare them
 *	m  map 120 MiB of its own by cuMemCreate(), and write words to it
 *	n  compare them
 *
 * It ends at the end of its stdin.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/handles.h"

enum { BLOCKS = 64, BYTES = 1 << 20, LARGE = 40 << 20, OWN = 120 << 20 };

static struct cuda cuda;
static address blocks[BLOCKS];
static size_t sizes[BLOCKS];
static unsigned held;
static address own; /* 0: none */

static int
child_status(void)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0)
		exit(7);
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int
read_byte(address from)
{
	unsigned char byte = 0;
	int code = cuda.copy_out(&byte, from, 1);

	return code == 0 ? byte : -code;
}

static int
allocate(size_t size)
{
	if (held == BLOCKS)
		return -1;
	int code = cuda.mem_alloc(&blocks[held], size);
	if (code == 0)
		sizes[held++] = size;
	return code;
}

/* Write a word that depends on its place to all of a block or, to compare, read
 * it: the number of the words that differ, or the code. */
static int
pattern(address at, size_t size, int compare)
{
	int different = 0;
	int code = 0;

	if (size == 0)
		return -1;
	uint32_t *words = malloc(size);
	if (words == NULL)
		return -1;
	if (compare)
		code = cuda.copy_out(words, at, size);
	for (size_t i = 0; i < size / sizeof(*words); i++) {
		uint32_t word = (uint32_t)i * 2654435761u;
		if (compare)
			different += words[i] != word;
		else
			words[i] = word;
	}
	if (!compare)
		code = cuda.copy_in_async(at, words, size, NULL);
	if (!compare && code == 0)
		code = cuda.synchronize();
	free(words);
	return code != 0 ? -code : different;
}

static int
pattern_latest(int compare)
{
	return held == 0 ? -1 :
			   pattern(blocks[held - 1], sizes[held - 1], compare);
}

static int
map_own(void)
{
	const struct handle_wish on_device = { .type = 1,
		.location = { 1, 0 } };
	const struct access access = { { 1, 0 }, 3 };
	handle made;
	int code;

#define OWN_CALL(name, params) result(*name) params;
	struct {
		HANDLE_FUNCTIONS(OWN_CALL)
	} driver;
#undef OWN_CALL
#define OWN_FETCH(name, params) cuda_fetch(#name, &driver.name);
	HANDLE_FUNCTIONS(OWN_FETCH)
#undef OWN_FETCH
	code = driver.cuMemCreate(&made, OWN, &on_device, 0);
	if (code != 0)
		return code;
	MUST(driver.cuMemAddressReserve(&own, OWN, 0, 0, 0));
	MUST(driver.cuMemMap(own, OWN, 0, made, 0));
	MUST(driver.cuMemSetAccess(own, OWN, &access, 1));
	return pattern(own, OWN, 0);
}

static int
step(int letter)
{
	address none;
	void *host;

	switch (letter) {
	case 'a':
		return allocate(BYTES);
	case 'l':
		return allocate(LARGE);
	case 'p':
		return pattern_latest(0);
	case 'c':
		return pattern_latest(1);
	case 'm':
		return map_own();
	case 'n':
		return own != 0 ? pattern(own, OWN, 1) : -1;
	case 'f':
		return held > 0 ? cuda.mem_free(blocks[--held]) : -1;
	case 'h':
		return cuda.host_alloc(&host, BYTES, 0);
	case 'o':
		return cuda.mem_alloc(&none, (size_t)1 << 50);
	case 's':
		return raise(SIGUSR2);
	case 'k':
		return child_status();
	case 'd':
		return chdir("/");
	case 'w':
		return held > 0 ?
		    cuda.fill(blocks[held - 1], 0x2a2a2a2a, BYTES / 4, NULL) :
		    -1;
	case 'r':
		return held > 0 ? read_byte(blocks[held - 1] + BYTES - 1) : -1;
	default:
		return -1;
	}
}

int
main(void)
{
	int letter;

	cuda_by_dlsym(&cuda);
	cuda_start(&cuda);
	while ((letter = getchar()) != EOF) {
		if (letter == '\n')
			continue;
		printf("%c %d\n", letter, step(letter));
		fflush(stdout);
	}
	return 0;
}
