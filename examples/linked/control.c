/*
 * Read statistics and set options by name, and receive weir's messages.
 *
 *	cc -o control control.c $(pkg-config --cflags --libs weir)
 *
 * A service can offer these paths to its operators as they are. From outside,
 * `weir ctl PID PATH` does the same, if the program runs with
 * WEIR_CONF=watch:True.
 */
#include <stdio.h>
#include <weir/ctl.h>
#include <weir/weir.h>

enum { MIB = 1 << 20 };

/* Called on the thread that has the message; must not call weir. */
static void
log_message(enum weir_log_level level, const char *text, void *user)
{
	fprintf(user, "[level %d] %s\n", (int)level, text);
}

static void
print_value(const struct weir_ctl *value, void *user)
{
	fprintf(user, "%s = %s%s%s\n", value->path, value->text,
	    value->unit[0] != '\0' ? " " : "", value->unit);
}

static int
set(const char *path, const char *text)
{
	if (weir_ctl_set(path, text) == WEIR_OK)
		return 1;
	printf("%s\n", weir_last_error());
	return 0;
}

int
main(void)
{
	struct weir_ctl value = { .struct_size = sizeof(value) };
	void *block;

	if (weir_log_set(WEIR_LOG_INFO, log_message, stdout) != WEIR_OK ||
	    !set("option.decay_ms", "5000"))
		return 1;
	block = weir_malloc(3 * MIB, NULL);
	if (block == NULL || !set("limit.0", "64M")) {
		fprintf(stderr, "%s\n", weir_last_error());
		return 1;
	}
	weir_ctl_list("limit", print_value, stdout);
	if (weir_ctl_get("stats.live", &value) != WEIR_OK)
		return 1;
	printf("live: %llu MiB\n", (unsigned long long)value.number / MIB);

	/* The error of a misspelt path names the nearest one, and nothing
	 * changes. */
	set("option.decay", "5000");
	set("limit.0", "lots");
	weir_free(block);
	return 0;
}
