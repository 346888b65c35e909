#include "tests/tools/weir/strict_metrics.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAMILIES = 128, SAMPLES = 4096, NAME = 128 };

struct family {
	char name[NAME];
	char type[16];
	bool has_unit;
	bool has_help;
	bool has_samples;
};

static struct family families[FAMILIES];
static size_t family_count;
static char *series[SAMPLES]; /* name and labels of each sample */
static size_t series_count;
static char fault[256];

static bool
is_name(const char *text, size_t n, bool colon)
{
	if (n == 0 || (text[0] >= '0' && text[0] <= '9'))
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = text[i];

		if (!(c == '_' || (colon && c == ':') ||
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			(c >= '0' && c <= '9')))
			return false;
	}
	return true;
}

static bool
ends_in(const char *text, const char *end)
{
	size_t n = strlen(text);
	size_t m = strlen(end);

	return n > m && strcmp(text + n - m, end) == 0;
}

static const char *
begin_family(const char *name)
{
	static const char *const taken[] = { "_total", "_info", "_created",
		"_bucket", "_count", "_sum" };
	struct family *family = &families[family_count];

	for (size_t i = 0; i < family_count; i++)
		if (strcmp(families[i].name, name) == 0)
			return "a family comes twice";
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		if (ends_in(name, taken[i]))
			return "a family's name has the suffix of a sample";
	if (family_count == FAMILIES || strlen(name) >= NAME)
		return "too much for this reader";
	memset(family, 0, sizeof(*family));
	strcpy(family->name, name);
	family_count++;
	return NULL;
}

/* "# WORD NAME REST" */
static const char *
read_comment(char *line)
{
	char *word = strtok(line + 2, " ");
	char *name = strtok(NULL, " ");
	char *rest = strtok(NULL, "");
	struct family *last;

	if (word == NULL || name == NULL || rest == NULL || *rest == '\0')
		return "a comment that is no metadata";
	if (!is_name(name, strlen(name), true))
		return "a wrong name";
	if (family_count == 0 ||
	    strcmp(families[family_count - 1].name, name) != 0) {
		const char *why = begin_family(name);

		if (why != NULL)
			return why;
	}
	last = &families[family_count - 1];
	if (last->has_samples)
		return "metadata after samples";
	if (strcmp(word, "TYPE") == 0) {
		if (last->type[0] != '\0')
			return "a second type";
		if (strcmp(rest, "gauge") != 0 &&
		    strcmp(rest, "counter") != 0 && strcmp(rest, "info") != 0)
			return "a type that is not used here";
		strcpy(last->type, rest);
	} else if (strcmp(word, "UNIT") == 0) {
		if (last->has_unit)
			return "a second unit";
		last->has_unit = true;
		if (!ends_in(name, rest) ||
		    name[strlen(name) - strlen(rest) - 1] != '_')
			return "the name does not end in the unit";
		if (strcmp(last->type, "info") == 0)
			return "an info has a unit";
	} else if (strcmp(word, "HELP") == 0) {
		if (last->has_help)
			return "a second help";
		last->has_help = true;
	} else {
		return "unknown metadata";
	}
	return NULL;
}

/* Read NAME="VALUE",... *at is after the closing brace at the end. */
static const char *
read_labels(const char **at)
{
	char names[16][NAME];
	size_t count = 0;

	while (**at != '}') {
		size_t n = strcspn(*at, "=");

		if (!is_name(*at, n, false) || n >= NAME || count == 16)
			return "a wrong label";
		memcpy(names[count], *at, n);
		names[count][n] = '\0';
		for (size_t i = 0; i < count; i++)
			if (strcmp(names[i], names[count]) == 0)
				return "a label comes twice";
		count++;
		*at += n + 1;
		if (**at != '"')
			return "a label without quotes";
		for (++*at; **at != '"'; ++*at) {
			if (**at == '\0')
				return "a label does not end";
			if (**at == '\\' && strchr("\\\"n", *++*at) == NULL)
				return "a wrong escape";
		}
		++*at;
		if (**at == ',')
			++*at;
		else if (**at != '}')
			return "labels are not apart";
	}
	++*at;
	return NULL;
}

static const char *
read_sample(const char *line)
{
	struct family *last;
	size_t n = strcspn(line, "{ ");
	const char *at = line + n;
	const char *suffix;
	const char *why;
	char *end;
	double value;

	if (family_count == 0)
		return "a sample without a type";
	last = &families[family_count - 1];
	if (last->type[0] == '\0')
		return "a sample without a type";
	last->has_samples = true;
	suffix = strcmp(last->type, "counter") == 0 ? "_total" :
	    strcmp(last->type, "info") == 0         ? "_info" :
						      "";
	if (n != strlen(last->name) + strlen(suffix) ||
	    strncmp(line, last->name, strlen(last->name)) != 0 ||
	    strncmp(line + strlen(last->name), suffix, strlen(suffix)) != 0)
		return "a sample of another family";
	if (*at == '{') {
		at++;
		why = read_labels(&at);
		if (why != NULL)
			return why;
	}
	for (size_t i = 0; i < series_count; i++)
		if (strlen(series[i]) == (size_t)(at - line) &&
		    strncmp(series[i], line, (size_t)(at - line)) == 0)
			return "a series comes twice";
	if (series_count == SAMPLES)
		return "too much for this reader";
	series[series_count++] = strndup(line, (size_t)(at - line));
	if (*at != ' ')
		return "no value";
	value = strtod(at + 1, &end);
	if (end == at + 1 || *end != '\0' || at[1] == ' ')
		return "a wrong value";
	if (value < 0 && strcmp(last->type, "counter") == 0)
		return "a counter below 0";
	if (value != 1 && strcmp(last->type, "info") == 0)
		return "an info that is not 1";
	return NULL;
}

static const char *
read_all(char *text, unsigned *line_number)
{
	const char *why = NULL;

	for (char *line = text;; *line_number += 1) {
		char *end = strchr(line, '\n');

		if (end == NULL)
			return *line == '\0' ? "no end" : "a line is cut";
		*end = '\0';
		if (strcmp(line, "# EOF") == 0)
			return end[1] == '\0' ? NULL : "more after the end";
		if (*line == '\0')
			return "an empty line";
		why = line[0] == '#' ?
		    (line[1] == ' ' ? read_comment(line) : "a wrong comment") :
		    read_sample(line);
		if (why != NULL)
			return why;
		line = end + 1;
	}
}

const char *
strict_metrics_fault(const char *text)
{
	char *copy = strdup(text);
	unsigned line = 1;
	const char *why;

	family_count = 0;
	series_count = 0;
	why = read_all(copy, &line);
	for (size_t i = 0; i < series_count; i++)
		free(series[i]);
	free(copy);
	if (why == NULL)
		return NULL;
	snprintf(fault, sizeof(fault), "line %u: %s", line, why);
	return fault;
}

double
strict_metrics_value(const char *text, const char *name, const char *labels)
{
	size_t length = strlen(name);

	for (const char *line = text; line != NULL && *line != '\0';
	     line = strchr(line, '\n'), line += line != NULL) {
		size_t n = strcspn(line, "\n");
		const char *found = strstr(line, labels);
		const char *brace = memrchr(line, '}', n);

		if (strncmp(line, name, length) != 0 || line[length] != '{' ||
		    found == NULL || brace == NULL || found >= brace)
			continue;
		return strtod(brace + 1, NULL);
	}
	return -1;
}
