/*
 * An NVML with faults that a test selects: fake/nvml.c built as fake/nvml.so
 * beside the test programs. The test sets the fields of its one struct before
 * weir loads it.
 */
#ifndef WEIR_TESTS_DRIVER_FAKE_NVML_H
#define WEIR_TESTS_DRIVER_FAKE_NVML_H

enum { FAKE_PROCESSES = 200 };

struct fake_nvml {
	const char *pci_bus_id; /* of its one device */
	const char *failing;    /* a function that returns `code` */
	int code;               /* 999 */
	unsigned processes;     /* 3; the first has no known memory */
	unsigned joining;       /* added after each query */

	int inits;
};

#endif
