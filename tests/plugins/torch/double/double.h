/*
 * The controls of the double, for tests.
 */
#ifndef DOUBLE_DOUBLE_H
#define DOUBLE_DOUBLE_H

#include "interface.h"

namespace c10
{

/* A report to the profiler. */
struct double_report {
	void *ptr;
	int64_t size;
	size_t allocated;
	size_t reserved;
	DeviceIndex device;
};

extern bool double_profiling;
extern std::vector<double_report> double_reports;

} // namespace c10

#endif
