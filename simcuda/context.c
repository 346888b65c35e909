/*
 * Contexts: the primary context of each device, which exists while its count of
 * users is above 0; and other contexts, created by the program.
 *
 * The primary context has the same handle each time it is created again. A
 * destroyed context may still be current in a thread; calls there report that.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "simcuda/capture.h"
#include "simcuda/sim.h"

/* ---- life --------------------------------------------------------------- */

static void
context_begin(struct context *context, struct device *device, unsigned flags)
{
	context->device = device;
	context->id = ++sim.next_id;
	context->flags = flags;
	context->active = true;
	device->used_bytes += (size_t)conf.context_mb << 20;
	context->sticky = CUDA_SUCCESS;
	context->peers = 0;
	context->limits_set = 0;
}

static struct context *
context_new(struct device *device, unsigned flags)
{
	struct context *context = sim_alloc(sizeof(*context));

	context->handle = handle_new(HANDLE_CONTEXT, context);
	context_begin(context, device, flags);
	context->next = sim.contexts;
	sim.contexts = context;
	return context;
}

/* Finish the context's work and free its streams and memory. The structure
 * stays, because others may still refer to it. */
static void
context_end(struct context *context)
{
	if (context->sticky == CUDA_SUCCESS)
		context_wait(context);
	context_end_streams(context);
	context_end_memory(context);
	context->active = false;
	context->device->used_bytes -= (size_t)conf.context_mb << 20;
	context->id = ++sim.next_id;
}

static void
primary_begin(struct device *device)
{
	if (device->primary == NULL) {
		device->primary = context_new(device, device->flags);
		device->primary->primary = true;
	} else if (!device->primary->active) {
		context_begin(device->primary, device, device->flags);
	}
}

static CUresult
primary_release(CUdevice ordinal)
{
	struct device *device = device_find(ordinal);

	if (device == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	if (device->retained == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (--device->retained == 0 && device->primary->active)
		context_end(device->primary);
	return CUDA_SUCCESS;
}

static CUresult
reset_primary(CUdevice ordinal)
{
	struct device *device = device_find(ordinal);

	if (device == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	if (device->primary != NULL && device->primary->active)
		context_end(device->primary);
	return CUDA_SUCCESS;
}

static CUresult
primary_set_flags(CUdevice ordinal, unsigned flags)
{
	struct device *device = device_find(ordinal);

	if (device == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	if ((flags & ~(unsigned)CU_CTX_FLAGS_MASK) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	device->flags = flags;
	if (device->primary != NULL && device->primary->active)
		device->primary->flags = flags;
	return CUDA_SUCCESS;
}

/* ---- primary contexts --------------------------------------------------- */

CUresult
cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice ordinal)
{
	CUresult code = gate_enter(E_cuDevicePrimaryCtxRetain);
	struct device *device = device_find(ordinal);

	if (code == CUDA_SUCCESS && context == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS && device == NULL)
		code = CUDA_ERROR_INVALID_DEVICE;
	if (code == CUDA_SUCCESS) {
		primary_begin(device);
		device->retained++;
		*context = handle_pointer(device->primary->handle);
	}
	return gate_leave(code);
}

CUresult
cuDevicePrimaryCtxRelease(CUdevice device)
{
	return cuDevicePrimaryCtxRelease_v2(device);
}

CUresult
cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CUresult code = gate_enter(E_cuDevicePrimaryCtxRelease_v2);

	if (code == CUDA_SUCCESS)
		code = primary_release(device);
	return gate_leave(code);
}

CUresult
cuDevicePrimaryCtxReset(CUdevice device)
{
	return cuDevicePrimaryCtxReset_v2(device);
}

CUresult
cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	CUresult code = gate_enter(E_cuDevicePrimaryCtxReset_v2);

	if (code == CUDA_SUCCESS)
		code = reset_primary(device);
	return gate_leave(code);
}

CUresult
cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
	return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

CUresult
cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
	CUresult code = gate_enter(E_cuDevicePrimaryCtxSetFlags_v2);

	if (code == CUDA_SUCCESS)
		code = primary_set_flags(device, flags);
	return gate_leave(code);
}

CUresult
cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned int *flags, int *active)
{
	CUresult code = gate_enter(E_cuDevicePrimaryCtxGetState);
	struct device *device = device_find(ordinal);

	if (code == CUDA_SUCCESS && (flags == NULL || active == NULL))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS && device == NULL)
		code = CUDA_ERROR_INVALID_DEVICE;
	if (code == CUDA_SUCCESS) {
		*flags = device->flags;
		*active = device->primary != NULL && device->primary->active;
	}
	return gate_leave(code);
}

/* ---- other contexts ----------------------------------------------------- */

static CUresult
create_context(CUcontext *context, unsigned flags, CUdevice ordinal)
{
	struct device *device = device_find(ordinal);
	struct thread *thread = thread_self();

	if (context == NULL || (flags & ~(unsigned)CU_CTX_FLAGS_MASK) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (device == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	if (thread->depth == SIM_STACK)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*context = handle_pointer(context_new(device, flags)->handle);
	thread->stack[thread->depth++] = handle_bits(*context);
	return CUDA_SUCCESS;
}

CUresult
cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	CUresult code = gate_enter(E_cuCtxCreate_v2);

	if (code == CUDA_SUCCESS)
		code = create_context(context, flags, device);
	return gate_leave(code);
}

CUresult
cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params,
    unsigned int flags, CUdevice device)
{
	CUresult code = gate_enter(E_cuCtxCreate_v4);

	/* Affinities and graphics interoperation are not simulated. */
	if (code == CUDA_SUCCESS && params != NULL)
		code = CUDA_ERROR_NOT_SUPPORTED;
	if (code == CUDA_SUCCESS)
		code = create_context(context, flags, device);
	return gate_leave(code);
}

CUresult
cuCtxDestroy_v2(CUcontext handle)
{
	CUresult code = gate_enter(E_cuCtxDestroy_v2);
	struct thread *thread = thread_self();
	struct context *context;

	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	context = handle_find(HANDLE_CONTEXT, handle_bits(handle));
	if (context == NULL || context->primary)
		return gate_leave(CUDA_ERROR_INVALID_CONTEXT);
	context_end(context);
	handle_drop(HANDLE_CONTEXT, context->handle);
	if (thread->depth > 0 &&
	    thread->stack[thread->depth - 1] == context->handle)
		thread->depth--;
	return gate_leave(CUDA_SUCCESS);
}

/* ---- the current context ------------------------------------------------ */

CUresult
cuCtxGetCurrent(CUcontext *context)
{
	CUresult code = gate_enter(E_cuCtxGetCurrent);
	struct thread *thread = thread_self();

	if (code == CUDA_SUCCESS && context == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		*context = thread->depth == 0 ?
		    NULL :
		    handle_pointer(thread->stack[thread->depth - 1]);
	return gate_leave(code);
}

CUresult
cuCtxSetCurrent(CUcontext context)
{
	CUresult code = gate_enter(E_cuCtxSetCurrent);
	struct thread *thread = thread_self();

	if (code == CUDA_SUCCESS && context == NULL) {
		thread->depth -= thread->depth > 0;
	} else if (code == CUDA_SUCCESS) {
		/* The current context may have been killed by an error. */
		if (context_find(context, &code) == NULL &&
		    (code == CUDA_ERROR_INVALID_CONTEXT ||
			code == CUDA_ERROR_CONTEXT_IS_DESTROYED))
			return gate_leave(code);
		code = CUDA_SUCCESS;
		thread->depth += thread->depth == 0;
		thread->stack[thread->depth - 1] = handle_bits(context);
	}
	return gate_leave(code);
}

CUresult
cuCtxPushCurrent_v2(CUcontext context)
{
	CUresult code = gate_enter(E_cuCtxPushCurrent_v2);
	struct thread *thread = thread_self();

	if (code == CUDA_SUCCESS &&
	    (context_find(context, &code) != NULL ||
		(code != CUDA_ERROR_INVALID_CONTEXT &&
		    code != CUDA_ERROR_CONTEXT_IS_DESTROYED))) {
		code = CUDA_SUCCESS;
		if (thread->depth == SIM_STACK)
			code = CUDA_ERROR_OUT_OF_MEMORY;
		else
			thread->stack[thread->depth++] = handle_bits(context);
	}
	return gate_leave(code);
}

CUresult
cuCtxPopCurrent_v2(CUcontext *context)
{
	CUresult code = gate_enter(E_cuCtxPopCurrent_v2);
	struct thread *thread = thread_self();

	if (code == CUDA_SUCCESS && thread->depth == 0)
		code = CUDA_ERROR_INVALID_CONTEXT;
	if (code == CUDA_SUCCESS) {
		thread->depth--;
		if (context != NULL)
			*context = handle_pointer(thread->stack[thread->depth]);
	}
	return gate_leave(code);
}

CUresult
cuCtxGetDevice(CUdevice *device)
{
	CUresult code = gate_enter(E_cuCtxGetDevice);

	if (code == CUDA_SUCCESS && device == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		*device = sim.here->device->ordinal;
	return gate_leave(code);
}

CUresult
cuCtxGetFlags(unsigned int *flags)
{
	CUresult code = gate_enter(E_cuCtxGetFlags);

	if (code == CUDA_SUCCESS && flags == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		*flags = sim.here->flags;
	return gate_leave(code);
}

/* The context with this handle, or the current one for NULL. */
static struct context *
named_or_current(CUcontext handle, CUresult *why)
{
	if (handle == NULL)
		return context_current(why);
	return context_find(handle, why);
}

/* A caller of the form before CUDA 13 passes no context at all. */
static void
explain_missing_context(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&said))
		fputs("simcuda: cuCtxGetDevice_v2() got no context of this "
		      "process. Numba's own bindings call it so; with CUDA 13 "
		      "Numba needs the package numba-cuda, 0.19 or later, or "
		      "NUMBA_CUDA_MEMORY_MANAGER=weir.numba\n",
		    stderr);
}

CUresult
cuCtxGetDevice_v2(CUdevice *device, CUcontext handle)
{
	CUresult code = gate_enter(E_cuCtxGetDevice_v2);
	struct context *context = NULL;

	if (code == CUDA_SUCCESS && device == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		context = named_or_current(handle, &code);
	if (context != NULL)
		*device = context->device->ordinal;
	else if (code == CUDA_ERROR_INVALID_CONTEXT && handle != NULL)
		explain_missing_context();
	return gate_leave(code);
}

CUresult
cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
	CUresult code = gate_enter(E_cuCtxGetApiVersion);

	if (code == CUDA_SUCCESS && version == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS && named_or_current(handle, &code) != NULL)
		*version = 3020;
	return gate_leave(code);
}

CUresult
cuCtxGetId(CUcontext handle, unsigned long long *id)
{
	CUresult code = gate_enter(E_cuCtxGetId);
	struct context *context = NULL;

	if (code == CUDA_SUCCESS && id == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		context = named_or_current(handle, &code);
	if (code == CUDA_SUCCESS)
		*id = context->id;
	return gate_leave(code);
}

static CUresult
synchronize(struct context *context)
{
	CUresult code = capture_refuse_context(context);

	if (code != CUDA_SUCCESS)
		return code;
	context_wait(context);
	return context->sticky;
}

CUresult
cuCtxSynchronize(void)
{
	CUresult code = gate_enter(E_cuCtxSynchronize);

	if (code == CUDA_SUCCESS)
		code = synchronize(sim.here);
	return gate_leave(code);
}

/* NULL names the current context. */
CUresult
cuCtxSynchronize_v2(CUcontext handle)
{
	CUresult code = gate_enter(E_cuCtxSynchronize_v2);
	struct context *context = NULL;

	if (code == CUDA_SUCCESS)
		context = handle == NULL ? context_current(&code) :
					   context_find(handle, &code);
	if (code == CUDA_SUCCESS)
		code = synchronize(context);
	return gate_leave(code);
}

/* ---- peers -------------------------------------------------------------- */

CUresult
cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	CUresult code = gate_enter(E_cuCtxEnablePeerAccess);
	struct context *context = NULL;
	uint32_t bit;

	if (code == CUDA_SUCCESS && flags != 0)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		context = context_find(peer, &code);
	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	bit = 1u << context->device->ordinal;
	if (context->device == sim.here->device)
		code = CUDA_ERROR_INVALID_DEVICE;
	else if ((sim.here->peers & bit) != 0)
		code = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	else
		sim.here->peers |= bit;
	return gate_leave(code);
}

CUresult
cuCtxDisablePeerAccess(CUcontext peer)
{
	CUresult code = gate_enter(E_cuCtxDisablePeerAccess);
	struct context *context = NULL;
	uint32_t bit;

	if (code == CUDA_SUCCESS)
		context = context_find(peer, &code);
	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	bit = 1u << context->device->ordinal;
	if ((sim.here->peers & bit) == 0)
		code = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	else
		sim.here->peers &= ~bit;
	return gate_leave(code);
}
