#include "tools/weir/reading/faults.h"

#include <stdarg.h>

#include "tools/weir/reading/snapshot_view.h"

void
add_fault(struct faults *faults, const char *rule, uint32_t device,
    uint64_t address, const char *format, ...)
{
	json_t *one = json_object();
	va_list args;

	va_start(args, format);
	json_object_set_new(one, "rule", json_string(rule));
	put_number(one, "device", device);
	if (address != FAULT_ANYWHERE)
		put_number(one, "address", address);
	json_object_set_new(one, "what", json_vsprintf(format, args));
	va_end(args);
	if (json_array_append_new(faults->list, one) != 0)
		faults->failed = true;
}
