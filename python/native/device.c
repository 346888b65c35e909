/*
 * Devices: their number, the current one, and their properties.
 */
#include "python/native/native.h"

PyDoc_STRVAR(init_doc,
    "init($module)\n--\n\n"
    "Load the driver, initialise CUDA and read the options of the "
    "environment.\n"
    "Every other call does this when needed; call it to learn of a failure\n"
    "early. Raises NoDeviceError when there is no usable driver or device,\n"
    "InvalidArgumentError for a wrong WEIR_CONF.");

static PyObject *
module_init(PyObject *module, PyObject *none)
{
	enum weir_status status;

	(void)module;
	(void)none;
	NATIVE_RELEASE_GIL;
	status = weir_init();
	NATIVE_TAKE_GIL;
	return error_none(status);
}

/* Define a call without arguments that returns a number. */
static PyObject *number_of(enum weir_status (*call)(int *))
{
	int number = 0;
	enum weir_status status;

	NATIVE_RELEASE_GIL;
	status = call(&number);
	NATIVE_TAKE_GIL;
	if (status != WEIR_OK)
		return error_raise(status);
	return PyLong_FromLong(number);
}

static PyObject *
module_device_count(PyObject *module, PyObject *none)
{
	(void)module;
	(void)none;
	return number_of(weir_device_count);
}

static PyObject *
module_get_device(PyObject *module, PyObject *none)
{
	(void)module;
	(void)none;
	return number_of(weir_get_device);
}

bool
device_read(PyObject *args, PyObject *kwargs,
    enum weir_status (*read)(int device, void *out), void *out)
{
	int device;
	enum weir_status status;

	if (!arg_only_device(args, kwargs, &device))
		return false;
	NATIVE_RELEASE_GIL;
	status = read(device, out);
	NATIVE_TAKE_GIL;
	if (status != WEIR_OK)
		error_raise(status);
	return status == WEIR_OK;
}

/* Make a call for a device, or for the current one. */
static PyObject *
device_call(int device, enum weir_status (*call)(int))
{
	enum weir_status status = WEIR_OK;

	NATIVE_RELEASE_GIL;
	if (device == WEIR_DEVICE_CURRENT)
		status = weir_get_device(&device);
	if (status == WEIR_OK)
		status = call(device);
	NATIVE_TAKE_GIL;
	return error_none(status);
}

PyDoc_STRVAR(set_device_doc,
    "set_device($module, device)\n--\n\n"
    "Make the primary context of a device current on this thread. Raises\n"
    "NoDeviceError.");

static PyObject *
module_set_device(PyObject *module, PyObject *arg)
{
	int device;

	(void)module;
	if (!arg_device(arg, &device))
		return NULL;
	return device_call(device, weir_set_device);
}

PyDoc_STRVAR(device_info_doc,
    "device_info($module, device=None)\n--\n\n"
    "What a device is, as a dict: name, capability (major, minor), "
    "total_bytes,\n"
    "uuid, pci_bus_id, driver_version (13000 is 13.0), simulated.");

static enum weir_status
read_info(int device, void *out)
{
	return weir_device_info(device, out);
}

static PyObject *
module_device_info(PyObject *module, PyObject *args, PyObject *kwargs)
{
	struct weir_device_info info = { .struct_size = sizeof info };

	(void)module;
	if (!device_read(args, kwargs, read_info, &info))
		return NULL;
	return Py_BuildValue("{sss(ii)sNsssssisN}", "name", info.name,
	    "capability", info.capability_major, info.capability_minor,
	    "total_bytes", PyLong_FromSize_t(info.total_bytes), "uuid",
	    info.uuid, "pci_bus_id", info.pci_bus_id, "driver_version",
	    info.driver_version, "simulated", PyBool_FromLong(info.simulated));
}

PyDoc_STRVAR(telemetry_doc,
    "telemetry($module, device=None)\n--\n\n"
    "What the device's management library measures, as a dict:\n"
    "temperature_celsius, power_milliwatts, sm_clock_mhz, memory_clock_mhz,\n"
    "utilization_percent, memory_used_bytes (by all processes), processes.\n"
    "Raises NotSupportedError where NVML cannot be loaded.");

static enum weir_status
read_telemetry(int device, void *out)
{
	return weir_telemetry(device, out);
}

static PyObject *
module_telemetry(PyObject *module, PyObject *args, PyObject *kwargs)
{
	struct weir_telemetry t = { .struct_size = sizeof t };

	(void)module;
	if (!device_read(args, kwargs, read_telemetry, &t))
		return NULL;
	return Py_BuildValue("{sisIsIsIsIsNsN}", "temperature_celsius",
	    t.temperature_celsius, "power_milliwatts", t.power_milliwatts,
	    "sm_clock_mhz", t.sm_clock_mhz, "memory_clock_mhz",
	    t.memory_clock_mhz, "utilization_percent", t.utilization_percent,
	    "memory_used_bytes", PyLong_FromSize_t(t.memory_used_bytes),
	    "processes", PyLong_FromSize_t(t.processes));
}

PyDoc_STRVAR(synchronize_doc,
    "synchronize($module, device=None)\n--\n\n"
    "Wait until all work on a device is done. The GIL is released meanwhile.");

static PyObject *
module_synchronize(PyObject *module, PyObject *args, PyObject *kwargs)
{
	int device;

	(void)module;
	if (!arg_only_device(args, kwargs, &device))
		return NULL;
	return device_call(device, weir_device_synchronize);
}

PyMethodDef device_methods[] = {
	{ "init", module_init, METH_NOARGS, init_doc },
	{ "device_count", module_device_count, METH_NOARGS,
	    "device_count($module)\n--\n\nThe number of devices." },
	{ "get_device", module_get_device, METH_NOARGS,
	    "get_device($module)\n--\n\n"
	    "The current device of this thread: that of the current CUDA "
	    "context; with none,\nthe one last set; else 0." },
	{ "set_device", module_set_device, METH_O, set_device_doc },
	{ "device_info", NATIVE_KEYWORDS(module_device_info),
	    METH_VARARGS | METH_KEYWORDS, device_info_doc },
	{ "telemetry", NATIVE_KEYWORDS(module_telemetry),
	    METH_VARARGS | METH_KEYWORDS, telemetry_doc },
	{ "synchronize", NATIVE_KEYWORDS(module_synchronize),
	    METH_VARARGS | METH_KEYWORDS, synchronize_doc },
	{ NULL, NULL, 0, NULL },
};
