/*
 * weir completion: the words that a shell offers after `weir`, from the table
 * of commands and the flags of each command.
 */
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include <weir/trace.h>
#include <weir/weir.h>

#include "tools/weir/guess.h"
#include "tools/weir/replay/workload.h"
#include "tools/weir/tool.h"

struct choices {
	const char *shell;
};

static error_t
parse_completion_flag(int key, char *value, struct argp_state *state)
{
	static const char *const shells[] = { "bash", "zsh", "fish", NULL };
	struct choices *choices = state->input;
	char nearest[GUESS_TEXT];

	switch (key) {
	case ARGP_KEY_ARG:
		if (choices->shell != NULL)
			argp_error(state, "'%s' is one SHELL too many", value);
		if (strcmp(value, "bash") != 0 && strcmp(value, "zsh") != 0 &&
		    strcmp(value, "fish") != 0)
			argp_error(state,
			    "SHELL is bash, zsh or fish, not '%s'%s", value,
			    guess_of(value, shells, nearest));
		choices->shell = value;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no SHELL");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_completion = { NULL, parse_completion_flag,
	"bash|zsh|fish",
	"Print the completion of the weir command for a shell.\v"
	"bash: source <(weir completion bash)\n"
	"zsh: weir completion zsh >_weir, in a folder of $fpath\n"
	"fish: weir completion fish | source\n" TOOL_STATUS,
	NULL, NULL, NULL };

/* ---- Values ------------------------------------------------------------ */

/* The values of a flag, by its long name. They are the same in all commands
 * that have the flag. */
static const struct values {
	const char *flag;
	const char *words;
} values[] = {
	{ "format", "json chrome folded csv" }, { "by", "stack size lifetime" },
	{ "history", "none state alloc all" },
#define ACTION_WORD(NAME, name) #name " "
	{ "action", WEIR_ACTION_LIST(ACTION_WORD) },
#undef ACTION_WORD
	{ "conf", NULL }, /* keys of options, with a colon */
};

/* Arguments of commands that take other words than files. */
static const struct values arguments[] = {
	{ "generate", NULL }, /* the kinds of workloads */
	{ "completion", "bash zsh fish" },
};

/* Write the words that a flag takes, with blanks between them. False if the
 * flag takes other values. */
static bool
out_values(const char *flag)
{
	struct weir_option option;

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		if (strcmp(values[i].flag, flag) != 0)
			continue;
		if (values[i].words != NULL) {
			fputs(values[i].words, stdout);
			return true;
		}
		for (size_t k = 0; weir_option_at(k, &option) == WEIR_OK; k++)
			printf("%s%s:", k == 0 ? "" : " ", option.key);
		return true;
	}
	return false;
}

static bool
has_values(const char *flag)
{
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		if (strcmp(values[i].flag, flag) == 0)
			return true;
	return false;
}

static void
out_arguments(const struct values *argument)
{
	const struct workload_kind *kind;

	if (argument->words != NULL)
		fputs(argument->words, stdout);
	else
		for (size_t i = 0; (kind = workload_kind_at(i)) != NULL; i++)
			printf("%s%s", i == 0 ? "" : " ", kind->name);
}

/* The words that a command takes; NULL if it takes files. */
static const struct values *
arguments_of(const char *command)
{
	for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++)
		if (strcmp(arguments[i].flag, command) == 0)
			return &arguments[i];
	return NULL;
}

typedef void (*flag_writer)(
    const struct command *command, const struct argp_option *flag);

/* Write each flag with a long name: those of a command's parser, and those of
 * the parser's children. */
static void
each_flag(
    const struct command *command, const struct argp *parser, flag_writer write)
{
	const struct argp_option *flag = parser->options;
	const struct argp_child *child = parser->children;

	for (; flag != NULL &&
	     (flag->name != NULL || flag->key != 0 || flag->doc != NULL);
	     flag++)
		if (flag->name != NULL)
			write(command, flag);
	/* The children's parsers have no children. */
	for (; child != NULL && child->argp != NULL; child++)
		for (flag = child->argp->options;
		     flag != NULL && flag->name != NULL; flag++)
			write(command, flag);
}

/* Write a text that stands inside single quotes. `quote` is the shell's way to
 * write a single quote there. */
static void
out_quoted(const char *text, const char *quote)
{
	for (; *text != '\0'; text++)
		if (*text == '\'')
			fputs(quote, stdout);
		else
			putchar(*text);
}

/* ---- bash ------------------------------------------------------------ */

static void
bash_flag(const struct command *command, const struct argp_option *flag)
{
	(void)command;
	printf(" --%s", flag->name);
}

/* Write the words that may follow the process in `weir ctl`. */
static void
out_paths(void)
{
	struct weir_option option;

	fputs("set stats pinned limit history.level reset.peaks reset.sums",
	    stdout);
	for (size_t k = 0; weir_option_at(k, &option) == WEIR_OK; k++)
		printf(" option.%s", option.key);
}

/* Write the part that sets the words: the values of the flag before, or the
 * arguments of the command. For bash, the "=" of "--flag=value" is a word of
 * its own. */
static void
bash_values(void)
{
	fputs("\tlocal before=${COMP_WORDS[COMP_CWORD-1]} words=\n"
	      "\tif [ \"$word\" = = ]; then word=\n"
	      "\telif [ \"$before\" = = ]; then\n"
	      "\t\tbefore=${COMP_WORDS[COMP_CWORD-2]}\n\tfi\n"
	      "\tcase $before in\n",
	    stdout);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		printf("\t--%s) words='", values[i].flag);
		out_values(values[i].flag);
		fputs("' ;;\n", stdout);
	}
	fputs("\tesac\n\tif [[ -z $words && $word != -* ]]; then\n"
	      "\t\tcase ${COMP_WORDS[1]} in\n",
	    stdout);
	for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++) {
		printf("\t\t%s) words='", arguments[i].flag);
		out_arguments(&arguments[i]);
		fputs("' ;;\n", stdout);
	}
	fputs("\t\twatch|ctl) words=$(weir watch 2>/dev/null | "
	      "awk '{print $1}') ;;\n\t\tesac\n"
	      "\t\tif [[ ${COMP_WORDS[1]} = ctl && $COMP_CWORD -gt 2 ]]; then\n"
	      "\t\t\twords='",
	    stdout);
	out_paths();
	fputs("'\n\t\tfi\n\tfi\n", stdout);
}

static void
out_bash(const struct command *commands, size_t count)
{
	fputs("# bash completion of weir; written by 'weir completion bash'.\n"
	      "_weir()\n{\n"
	      "\tlocal word=${COMP_WORDS[COMP_CWORD]} flags=--help\n\n"
	      "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -W '",
	    stdout);
	for (size_t i = 0; i < count; i++)
		printf("%s%s", i == 0 ? "" : " ", commands[i].name);
	fputs("' -- \"$word\")\n\t\treturn\n\tfi\n"
	      "\tcase ${COMP_WORDS[1]} in\n",
	    stdout);
	for (size_t i = 0; i < count; i++) {
		printf("\t%s) flags+='", commands[i].name);
		if (commands[i].parser != NULL)
			each_flag(&commands[i], commands[i].parser, bash_flag);
		fputs("' ;;\n", stdout);
	}
	fputs("\tesac\n", stdout);
	bash_values();
	fputs("\tif [ -n \"$words\" ]; then\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- "
	      "\"$word\")\n"
	      "\telif [[ $word == -* ]]; then\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -W \"$flags\" -- "
	      "\"$word\")\n"
	      "\telse\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
	      "\tfi\n}\ncomplete -o filenames -F _weir weir\n",
	    stdout);
}

/* ---- zsh ------------------------------------------------------------- */

/* Write a text for zsh, which ends a description at ']' and the name of a
 * command at ':'. */
static void
zsh_text(const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == ']' || *text == '[' || *text == ':')
			putchar('\\');
		if (*text == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*text);
	}
}

/* Write a flag's values for zsh, which needs a backslash before each colon. */
static void
out_zsh_values(const char *flag)
{
	struct weir_option option;

	if (strcmp(flag, "conf") != 0) {
		out_values(flag);
		return;
	}
	for (size_t k = 0; weir_option_at(k, &option) == WEIR_OK; k++)
		printf("%s%s\\:", k == 0 ? "" : " ", option.key);
}

static void
zsh_arguments(const char *command)
{
	const struct values *argument = arguments_of(command);

	if (strcmp(command, "ctl") == 0) {
		fputs(" \\\n\t\t    '1:process:($(weir watch 2>/dev/null | "
		      "awk \"{print \\$1}\"))' \\\n\t\t    '*:path:(",
		    stdout);
		out_paths();
		fputs(")' ;;\n", stdout);
	} else if (strcmp(command, "watch") == 0) {
		fputs(" \\\n\t\t    '*:process:($(weir watch 2>/dev/null | "
		      "awk \"{print \\$1}\"))' ;;\n",
		    stdout);
	} else if (argument != NULL) {
		fputs(" \\\n\t\t    '*:word:(", stdout);
		out_arguments(argument);
		fputs(")' ;;\n", stdout);
	} else {
		fputs(" \\\n\t\t    '*:file:_files' ;;\n", stdout);
	}
}

static void
zsh_flag(const struct command *command, const struct argp_option *flag)
{
	(void)command;
	printf(" \\\n\t\t    '--%s%s[", flag->name, flag->arg ? "=" : "");
	zsh_text(flag->doc == NULL ? "" : flag->doc);
	printf("]%s%s", flag->arg ? ":" : "", flag->arg ? flag->arg : "");
	if (flag->arg != NULL && has_values(flag->name)) {
		fputs(":(", stdout);
		out_zsh_values(flag->name);
		fputs(")", stdout);
	} else if (flag->arg != NULL) {
		fputs(":_files", stdout);
	}
	putchar('\'');
}

static void
out_zsh(const struct command *commands, size_t count)
{
	fputs("#compdef weir\n"
	      "# zsh completion of weir; written by 'weir completion zsh'.\n"
	      "_weir()\n{\n\tlocal -a commands=(\n",
	    stdout);
	for (size_t i = 0; i < count; i++) {
		printf("\t    '%s:", commands[i].name);
		zsh_text(commands[i].help);
		fputs("'\n", stdout);
	}
	fputs("\t)\n\tif (( CURRENT == 2 )); then\n"
	      "\t\t_describe command commands\n\t\treturn\n\tfi\n"
	      "\tlocal name=${words[2]}\n"
	      "\tshift words\n\t(( CURRENT-- ))\n\tcase $name in\n",
	    stdout);
	for (size_t i = 0; i < count; i++) {
		printf("\t%s)\n\t\t_arguments", commands[i].name);
		if (commands[i].parser != NULL)
			each_flag(&commands[i], commands[i].parser, zsh_flag);
		zsh_arguments(commands[i].name);
	}
	fputs("\tesac\n}\n_weir \"$@\"\n", stdout);
}

/* ---- fish ------------------------------------------------------------ */

static void
fish_flag(const struct command *command, const struct argp_option *flag)
{
	printf("complete -c weir -n '__fish_seen_subcommand_from %s' -l %s%s",
	    command->name, flag->name, flag->arg ? " -r" : "");
	if (flag->arg != NULL && has_values(flag->name)) {
		fputs(" -f -a '", stdout);
		out_values(flag->name);
		fputs("'", stdout);
	}
	fputs(" -d '", stdout);
	out_quoted(flag->doc == NULL ? "" : flag->doc, "\\'");
	fputs("'\n", stdout);
}

static void
out_fish(const struct command *commands, size_t count)
{
	fputs("# fish completion of weir; written by 'weir completion fish'.\n",
	    stdout);
	for (size_t i = 0; i < count; i++) {
		printf("complete -c weir -f -n __fish_use_subcommand -a %s "
		       "-d '",
		    commands[i].name);
		out_quoted(commands[i].help, "\\'");
		fputs("'\n", stdout);
	}
	for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++) {
		printf("complete -c weir -f -n '__fish_seen_subcommand_from "
		       "%s' -a '",
		    arguments[i].flag);
		out_arguments(&arguments[i]);
		fputs("'\n", stdout);
	}
	fputs("complete -c weir -f -n '__fish_seen_subcommand_from watch ctl' "
	      "-a "
	      "'(weir watch 2>/dev/null | awk \"{print \\$1}\")'\n",
	    stdout);
	for (size_t i = 0; i < count; i++)
		if (commands[i].parser != NULL)
			each_flag(&commands[i], commands[i].parser, fish_flag);
}

int
completion_print(
    const struct command *commands, size_t count, int argc, char **argv)
{
	struct choices choices = { 0 };

	argp_parse(&argp_completion, argc, argv, 0, NULL, &choices);
	if (strcmp(choices.shell, "bash") == 0)
		out_bash(commands, count);
	else if (strcmp(choices.shell, "zsh") == 0)
		out_zsh(commands, count);
	else
		out_fish(commands, count);
	return TOOL_DONE;
}
