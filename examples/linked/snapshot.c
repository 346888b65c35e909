/*
 * A snapshot of all memory on demand, with the stacks of live blocks.
 *
 *	cc -g -rdynamic -o snapshot snapshot.c \
 *	    $(pkg-config --cflags --libs weir)
 *	./snapshot out.pickle
 *	weir top out.pickle
 *	weir view out.pickle -o page.html
 *
 * The history is started before the first allocation, so that each block has a
 * stack. For a running program that was started with WEIR_CONF or under `weir
 * run`, a snapshot is requested from outside: see docs/trace.md.
 */
#include <stdio.h>
#include <weir/trace.h>
#include <weir/weir.h>

enum { MIB = 1 << 20, LAYERS = 4 };

__attribute__((noinline)) static void *
load_layer(int number)
{
	char text[32];

	/* The snapshot has this text beside the block. */
	snprintf(text, sizeof(text), "layer %d", number);
	weir_metadata_set(text);
	return weir_malloc((size_t)(number + 1) * MIB, NULL);
}

int
main(int argc, char **argv)
{
	const struct weir_history history = { .struct_size = sizeof(history),
		.level = WEIR_HISTORY_ALL,
		.stacks = WEIR_STACKS_ALL };
	const char *path = argc > 1 ? argv[1] : "snapshot.pickle";
	void *layers[LAYERS];
	void *scratch;

	if (weir_history_start(&history) != WEIR_OK)
		goto failed;
	for (int i = 0; i < LAYERS; i++) {
		layers[i] = load_layer(i);
		if (layers[i] == NULL)
			goto failed;
	}
	weir_metadata_set(NULL);
	scratch = weir_malloc(16 * MIB, NULL);
	weir_free(scratch);
	if (weir_snapshot_write(path, WEIR_SNAPSHOT_PICKLE, NULL) != WEIR_OK)
		goto failed;
	printf("%s has %d live blocks of 10 MiB\n", path, LAYERS);
	for (int i = 0; i < LAYERS; i++)
		weir_free(layers[i]);
	return 0;

failed:
	fprintf(stderr, "%s\n", weir_last_error());
	return 1;
}
