/*
 * Shared by the subcommands of weir: their table, complaints, sizes, tables
 * of text, and where the parts of weir are installed.
 *
 * A subcommand is one file and one function, given its own arguments with
 * argv[0] "weir NAME". It prints to stdout, complains on stderr and returns
 * one of enum tool_exit.
 */
#ifndef TOOLS_WEIR_TOOL_H
#define TOOLS_WEIR_TOOL_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum tool_exit {
	TOOL_DONE = 0,
	TOOL_NO = 1,    /* the answer is no, or it could not be done */
	TOOL_USAGE = 2, /* the command line is wrong */
};

/* A line of the table in commands.c. */
struct command {
	const char *name;
	const char *args;
	const char *help;
	int (*run)(int argc, char **argv);
	const struct argp *parser; /* NULL: no flags */
};

/* All of them, in help's order; `weir completion` walks it too. */
const struct command *commands_table(size_t *count);

/* The one of this name, or NULL. */
const struct command *commands_find(const char *name);

/* Run it with its own arguments, of which argv[0] is changed. */
int commands_run(const struct command *command, int argc, char **argv);

/* Complain of a name that is none, and say which is near. TOOL_USAGE. */
int commands_unknown(const char *name);

/* The list that `weir help` prints. */
void commands_list(FILE *out);

int cmd_help(int argc, char **argv);
int cmd_version(int argc, char **argv);

/* X(name): the subcommands that have a file and flags of their own. */
#define TOOL_COMMANDS(X)                                                       \
	X(check)                                                               \
	X(completion)                                                          \
	X(ctl)                                                                 \
	X(diff)                                                                \
	X(export)                                                              \
	X(frag)                                                                \
	X(generate)                                                            \
	X(info)                                                                \
	X(leaks)                                                               \
	X(merge)                                                               \
	X(oom)                                                                 \
	X(options)                                                             \
	X(replay)                                                              \
	X(run)                                                                 \
	X(show)                                                                \
	X(stats)                                                               \
	X(top)                                                                 \
	X(trace)                                                               \
	X(view)                                                                \
	X(watch)

#define TOOL_COMMAND(name)                                                     \
	int cmd_##name(int argc, char **argv);                                 \
	extern const struct argp argp_##name;
TOOL_COMMANDS(TOOL_COMMAND)
#undef TOOL_COMMAND

/* One line on stderr: "weir: " and the text, with "?" for controls in it but
 * newlines. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Complain of weir_last_error(), which a call of weir set that took its options
 * from --conf: the flag stands in place of `origin`, "WEIR_CONF" for one. */
void complain_conf(const char *origin);

/* ---- Sizes ----------------------------------------------------------- */

/* Parse "4096", "64K", "20M", "8G", "1T" (powers of 1024; "MiB" and "MB" mean
 * M too). False for anything else, and for what 64 bits do not hold. */
bool bytes_parse(const char *text, uint64_t *out);

/* Parse a number from `least` to `most`. False for anything else. */
bool number_parse(const char *text, double least, double most, double *out);

/* Parse a whole number from 0 to `most`, in decimal digits only. False for
 * anything else. */
bool count_parse(const char *text, uint64_t most, uint64_t *out);

/* The next of random numbers that are the same everywhere (splitmix64); `state`
 * begins as the seed. */
static inline uint64_t
random_next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* "512 bytes", "20.00 MiB". Cuts to `size`; returns `text`. */
const char *bytes_format(uint64_t bytes, char *text, size_t size);

/* ---- Text for people ------------------------------------------------- */

/* Rows of cells, printed in columns as wide as their widest cell. */
struct table;

/* `align` has one character a column: 'r' aligns it right, 'l' left. NULL
 * without memory; the calls below then do nothing and table_print() fails. */
struct table *table_new(const char *align);
/* Add a cell to the end; a row is full after as many as there are columns. */
void table_add(struct table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Print to stdout, the first row as a heading if `heading`. False if a cell
 * was lost for want of memory. */
bool table_print(const struct table *table, bool heading);
void table_free(struct table *table);

/* ---- JSON ------------------------------------------------------------ */

/* Print what is to be between quotes in JSON, with escapes for quotes,
 * backslashes and all controls (base/utf8.h). What is not UTF-8 is U+FFFD. */
void json_escaped(const char *text, size_t length, FILE *out);

/* As json_dumpf(), with the same escapes. False: it could not be written. */
struct json_t;
bool json_print(const struct json_t *json, size_t flags, FILE *out);

/* ---- Where things are ------------------------------------------------ */

/* Long enough for any path below. */
enum { TOOL_PATH = 4096 };

/*
 * Find a part of weir, "libweir_preload.so" or "sim/libcuda.so.1", in the
 * library folder that belongs to this command: beside its own folder in a
 * build, or where it was installed. False, and a complaint, if it is nowhere.
 */
bool locate(const char *part, char path[TOOL_PATH]);
/* Likewise, without a complaint. */
bool locate_quietly(const char *part, char path[TOOL_PATH]);

/*
 * True if a GPU can be used. Asked in a child process, so that CUDA is not
 * initialised in this one and it may still fork.
 */
bool gpu_present(void);

/*
 * Make weir, and the programs this process starts, use the simulated device
 * if that is asked for (`forced`) or no GPU is present. A driver that
 * WEIR_LIBCUDA names is kept unless `forced`. False, and a complaint, if the
 * simulated libraries are needed and not installed.
 */
bool use_simulated_if(bool forced);

#endif
