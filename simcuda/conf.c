/*
 * SIMCUDA_CONF="key:value,key:value": the properties of the simulated machine.
 * An unknown key or value is reported, and the driver does not start.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simcuda/conf.h"

struct conf conf = {
#define CONF_DEFAULT(name, value, min, max) .name = (value),
	CONF_KEYS(CONF_DEFAULT)
#undef CONF_DEFAULT
};

static const struct key {
	const char *name;
	uint64_t *value;
	uint64_t min, max;
} keys[] = {
#define CONF_KEY(name, value, min, max) { #name, &conf.name, (min), (max) },
	CONF_KEYS(CONF_KEY)
#undef CONF_KEY
};

char conf_shared_device[CONF_PATH];

enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

static const struct key *
find_key(const char *name, size_t length)
{
	for (size_t i = 0; i < KEYS; i++) {
		if (strlen(keys[i].name) == length &&
		    memcmp(keys[i].name, name, length) == 0)
			return &keys[i];
	}
	return NULL;
}

/* Read the value of shared_device, a path without a comma. */
static bool
read_conf_path(const char *path, size_t length)
{
	if (length == 0 || length >= CONF_PATH) {
		fprintf(stderr,
		    "simcuda: SIMCUDA_CONF: shared_device:%.*s: not a path of "
		    "1 to %d characters\n",
		    (int)length, path, CONF_PATH - 1);
		return false;
	}
	memcpy(conf_shared_device, path, length);
	conf_shared_device[length] = '\0';
	return true;
}

/* Read one key:value of `length` characters. */
static bool
read_conf_pair(const char *pair, size_t length)
{
	const char *colon = memchr(pair, ':', length);
	const struct key *key;
	static const char shared[] = "shared_device:";
	char *end;
	unsigned long long value;

	if (length >= strlen(shared) &&
	    memcmp(pair, shared, strlen(shared)) == 0)
		return read_conf_path(
		    pair + strlen(shared), length - strlen(shared));
	key = colon == NULL ? NULL : find_key(pair, (size_t)(colon - pair));
	if (key == NULL) {
		fprintf(stderr, "simcuda: SIMCUDA_CONF: no such key: %.*s\n",
		    (int)length, pair);
		return false;
	}
	errno = 0;
	value = strtoull(colon + 1, &end, 10);
	/* strtoull() would accept blanks and a sign before the digits. */
	if (colon[1] < '0' || colon[1] > '9' || end != pair + length ||
	    errno != 0 || value < key->min || value > key->max) {
		fprintf(stderr,
		    "simcuda: SIMCUDA_CONF: %.*s: not a number from %llu to "
		    "%llu\n",
		    (int)length, pair, (unsigned long long)key->min,
		    (unsigned long long)key->max);
		return false;
	}
	*key->value = value;
	return true;
}

bool
conf_read(void)
{
	const char *text = getenv("SIMCUDA_CONF");

	while (text != NULL && *text != '\0') {
		size_t length = strcspn(text, ",");

		if (!read_conf_pair(text, length))
			return false;
		text += length;
		text += *text == ',';
	}
	return true;
}

const uint64_t *
conf_find(const char *name)
{
	const struct key *key = find_key(name, strlen(name));

	return key == NULL ? NULL : key->value;
}
