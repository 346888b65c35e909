/*
 * Queries about addresses: cuPointerGetAttribute() and cuMemGetAddressRange().
 *
 * For an address that the driver does not know, cuPointerGetAttribute() returns
 * INVALID_VALUE. cuPointerGetAttributes() writes zeros and succeeds; it fails
 * only for wrong arguments.
 */
#include <string.h>

#include "simcuda/sim.h"

/* The value of an attribute, of any width. */
struct answer {
	size_t size;
	union {
		uint64_t u64;
		unsigned u32;
		int i32;
		bool flag;
	};
};

static struct answer
answer_u64(uint64_t value)
{
	return (struct answer){ sizeof(value), .u64 = value };
}

static struct answer
answer_u32(unsigned value)
{
	return (struct answer){ sizeof(value), .u32 = value };
}

static struct answer
answer_flag(bool value)
{
	return (struct answer){ sizeof(value), .flag = value };
}

static int
ordinal_of(const struct range *range)
{
	if (range->phys != NULL && phys_is_host(range->phys))
		return 0;
	if (range->phys != NULL)
		return range->phys->device->ordinal;
	return range->context->device->ordinal;
}

static uint64_t
mapping_base(const struct range *range)
{
	return range->page != NULL ? range->start - range->phys_offset :
				     range->start;
}

static struct answer
attribute_of_range(const struct range *range, CUpointer_attribute attribute)
{
	bool vmm = range->kind == RANGE_MAPPING;

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		return answer_u64(range->start);
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		return answer_u64(range->size);
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		return answer_u64(mapping_base(range));
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		return answer_u64(
		    range->phys != NULL ? range->phys->size : range->size);
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return answer_u64(range->id);
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		return answer_u64(pool_handle(range->pool));
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		return answer_u64(
		    vmm ? range->phys->prop.requestedHandleTypes : 0);
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		return answer_flag(range->kind == RANGE_ALLOC);
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		return answer_flag(false);
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return answer_u32(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	default:
		return answer_u64(0);
	}
}

/* CUDA_ERROR_INVALID_VALUE if there is no such attribute, or this range has
 * none. */
static CUresult
attribute_get(const struct range *range, uint64_t address,
    CUpointer_attribute attribute, struct answer *out)
{
	bool host = range_is_host(range);

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		/* Mapped or stream-ordered memory has no context. */
		*out = answer_u64(
		    range->context == NULL || range->kind == RANGE_POOLED ?
			0 :
			range->context->handle);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*out = answer_u32(
		    host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*out = answer_u64(address);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!host && range->kind != RANGE_MANAGED)
			return CUDA_ERROR_INVALID_VALUE;
		*out = answer_u64(address);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*out = answer_flag(range->sync_memops);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*out = answer_flag(range->kind == RANGE_MANAGED);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*out = answer_flag(true);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*out = (struct answer){ sizeof(int), .i32 = ordinal_of(range) };
		return CUDA_SUCCESS;
	default:
		if ((unsigned)attribute < CU_POINTER_ATTRIBUTE_BUFFER_ID ||
		    (unsigned)attribute > CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)
			return CUDA_ERROR_INVALID_VALUE;
		*out = attribute_of_range(range, attribute);
		return CUDA_SUCCESS;
	}
}

/* The result of cuPointerGetAttributes() for memory that the driver does not
 * know. */
static struct answer
attribute_of_nothing(CUpointer_attribute attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return (struct answer){ sizeof(int), .i32 = -2 };
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return answer_u32(0);
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		return answer_flag(false);
	default:
		return answer_u64(0);
	}
}

CUresult
cuPointerGetAttribute(
    void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
	CUresult code = gate_enter(E_cuPointerGetAttribute);
	struct range *range = memory_find(address);
	struct answer answer;

	if (code == CUDA_SUCCESS &&
	    (data == NULL || range == NULL || range_is_released(range)))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = attribute_get(range, address, attribute, &answer);
	if (code == CUDA_SUCCESS)
		memcpy(data, &answer.u64, answer.size);
	return gate_leave(code);
}

CUresult
cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attributes,
    void **data, CUdeviceptr address)
{
	CUresult code = gate_enter(E_cuPointerGetAttributes);
	struct range *range = memory_find(address);

	if (code == CUDA_SUCCESS &&
	    (n == 0 || attributes == NULL || data == NULL))
		code = CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n && code == CUDA_SUCCESS; i++) {
		struct answer answer = attribute_of_nothing(attributes[i]);

		if ((unsigned)attributes[i] - 1 >=
		    CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)
			code = CUDA_ERROR_INVALID_VALUE;
		else if (range != NULL && !range_is_released(range))
			(void)attribute_get(
			    range, address, attributes[i], &answer);
		if (code == CUDA_SUCCESS)
			memcpy(data[i], &answer.u64, answer.size);
	}
	return gate_leave(code);
}

/* The attribute is kept; copies and fills do not wait for it. */
CUresult
cuPointerSetAttribute(
    const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
	CUresult code = gate_enter(E_cuPointerSetAttribute);
	struct range *range = memory_find(address);

	if (code == CUDA_SUCCESS &&
	    (value == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
		range == NULL || range->released))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS && range->kind == RANGE_MAPPING)
		code = CUDA_ERROR_NOT_SUPPORTED;
	if (code == CUDA_SUCCESS)
		range->sync_memops = *(const unsigned char *)value != 0;
	return gate_leave(code);
}

CUresult
cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
	CUresult code = gate_enter(E_cuMemGetAddressRange_v2);
	struct range *range = memory_find(address);

	if (code == CUDA_SUCCESS && (range == NULL || range_is_released(range)))
		code = CUDA_ERROR_NOT_FOUND;
	if (code == CUDA_SUCCESS || code == CUDA_ERROR_NOT_FOUND) {
		bool found = code == CUDA_SUCCESS;
		if (base != NULL)
			*base = found ? range->start : 0;
		if (size != NULL)
			*size = found ? range->size : 0;
	}
	return gate_leave(code);
}
