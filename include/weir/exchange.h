/**
 * weir: tensors given to and taken from other libraries, without a copy.
 *
 * Two agreements are served: DLPack, in its versioned form (1.x) and the one
 * before it, and the CUDA Array Interface, versions 0 to 3. The structs of
 * DLPack are declared here with the layout that its standard fixes; a program
 * that includes dlpack.h too casts between the two. The Python side of both
 * (capsules, dictionaries) is the caller's.
 *
 * Ownership: an exported DLPack tensor holds weir's storage until its deleter
 * is called, on any thread. An imported one belongs to the weir tensor that is
 * made of it from then on; if the import fails it stays the caller's.
 *
 * The rules of <weir/weir.h> and <weir/tensor.h> hold.
 */
#ifndef WEIR_EXCHANGE_H
#define WEIR_EXCHANGE_H

#include <weir/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- DLPack ---------------------------------------------------------- */

/** The version of DLPack that weir writes. */
#define WEIR_DLPACK_MAJOR 1
#define WEIR_DLPACK_MINOR 3

/** Types of devices, of those that weir knows; as DLDeviceType. */
enum weir_dl_device_type {
	WEIR_DL_CPU = 1,
	WEIR_DL_CUDA = 2,
	WEIR_DL_CUDA_HOST = 3,
	WEIR_DL_CUDA_MANAGED = 13,
};

/** As DLDevice. */
struct weir_dl_device {
	int32_t type;
	int32_t id; /**< 0 for all memory that is not one device's */
};

/** As DLDataType. */
struct weir_dl_dtype {
	uint8_t code;
	uint8_t bits;
	uint16_t lanes; /**< 1 */
};

/** As DLTensor. */
struct weir_dl_tensor {
	void *data; /**< NULL if there is no element */
	struct weir_dl_device device;
	int32_t ndim;
	struct weir_dl_dtype dtype;
	int64_t *shape;
	int64_t *strides; /**< elements; NULL: row-major, without gaps */
	uint64_t byte_offset;
};

/** As DLManagedTensor, the form before version 1. */
struct weir_dl_managed {
	struct weir_dl_tensor tensor;
	void *manager_ctx;
	void (*deleter)(struct weir_dl_managed *self); /**< or NULL */
};

/** As DLPackVersion. */
struct weir_dl_version {
	uint32_t major;
	uint32_t minor;
};

/** Bits of weir_dl_versioned.flags. */
enum weir_dl_flags {
	WEIR_DL_READ_ONLY = 1,
	WEIR_DL_IS_COPIED = 2,
};

/** As DLManagedTensorVersioned. */
struct weir_dl_versioned {
	struct weir_dl_version version;
	void *manager_ctx;
	void (*deleter)(struct weir_dl_versioned *self); /**< or NULL */
	uint64_t flags;
	struct weir_dl_tensor tensor;
};

/** Where a tensor is, in DLPack's words. WEIR_EINVAL if a pointer is NULL. */
WEIR_API enum weir_status weir_tensor_dl_device(
    const struct weir_tensor *tensor, struct weir_dl_device *out);

/**
 * Describe a tensor in DLPack's words. Nothing is held and no stream is put in
 * order: shape and strides are the tensor's own, and out is right for as long
 * as the tensor lives. WEIR_EINVAL if a pointer is NULL.
 */
WEIR_API enum weir_status weir_tensor_dl_view(
    const struct weir_tensor *tensor, struct weir_dl_tensor *out);

/**
 * Export a tensor. Its memory is the same; strides are always given.
 *
 * @param stream  the consumer's: work that it queues there comes after all
 *                known work on the tensor (weir_tensor_join()).
 *                WEIR_STREAM_ANY: nothing is put in order. Not used for memory
 *                of the host
 * @param flags   WEIR_DL_IS_COPIED, if the caller has made the tensor for this
 *                purpose; else 0
 * @param out     its deleter must be called once
 * @return WEIR_EINVAL a NULL, other flags, a stream that was destroyed;
 *         WEIR_EHOSTMEM; WEIR_ECAPTURE, WEIR_EDRIVER as weir_tensor_join()
 *
 * A consumer that uses the memory on another stream than the tensor's calls
 * weir_tensor_record() on a tensor of its own, or lets the deleter be called
 * only when that work is done: DLPack has no other way to say so.
 */
WEIR_API enum weir_status weir_tensor_to_dlpack(
    const struct weir_tensor *tensor, weir_stream stream, uint64_t flags,
    struct weir_dl_versioned **out);

/** As weir_tensor_to_dlpack(), in the form before version 1. That form cannot
 * say that memory is read-only: WEIR_ENOTSUP for such a tensor. */
WEIR_API enum weir_status weir_tensor_to_dlpack_unversioned(
    const struct weir_tensor *tensor, weir_stream stream,
    struct weir_dl_managed **out);

/**
 * Make a tensor of another library's memory.
 *
 * @param managed  the tensor's from now on, which calls its deleter once, when
 *                 the storage is dropped and after all work on it that weir
 *                 knows of is done (the host waits for that). On failure it
 *                 stays the caller's
 * @param stream   the stream that was passed to the producer, on which the
 *                 memory can be used. It becomes the tensor's
 * @return WEIR_ENOTSUP   another major version, a type of device or element
 *                        that weir lacks, more than one lane
 *         WEIR_EINVAL    an impossible shape, or addresses that overflow
 *         WEIR_ENODEVICE; WEIR_EHOSTMEM
 */
WEIR_API enum weir_status weir_tensor_from_dlpack(
    struct weir_dl_versioned *managed, weir_stream stream,
    struct weir_tensor **out);

/** As weir_tensor_from_dlpack(), from the form before version 1. */
WEIR_API enum weir_status weir_tensor_from_dlpack_unversioned(
    struct weir_dl_managed *managed, weir_stream stream,
    struct weir_tensor **out);

/** As DLPackExchangeAPIHeader. */
struct weir_dl_exchange_header {
	struct weir_dl_version version;
	struct weir_dl_exchange_header *prev_api;
};

/** As DLPackExchangeAPI: a type's functions for fast access from C, in the
 * order of the standard. All give 0, or -1 on failure. */
struct weir_dl_exchange {
	struct weir_dl_exchange_header header;
	int (*managed_tensor_allocator)(struct weir_dl_tensor *prototype,
	    struct weir_dl_versioned **out, void *error_ctx,
	    void (*set_error)(
		void *error_ctx, const char *kind, const char *message));
	int (*managed_tensor_from_py_object_no_sync)(
	    void *py_object, struct weir_dl_versioned **out);
	int (*managed_tensor_to_py_object_no_sync)(
	    struct weir_dl_versioned *tensor, void **out_py_object);
	int (*dltensor_from_py_object_no_sync)(
	    void *py_object, struct weir_dl_tensor *out); /**< or NULL */
	int (*current_work_stream)(
	    int32_t device_type, int32_t device_id, void **out_stream);
};

/**
 * Fill in the header and the two functions that need no Python: the allocator,
 * which makes tensors of weir's memory for the device's current stream
 * (weir_stream_current()), and the work stream, which is that stream. The
 * others are the caller's to set; here they become NULL. Python's weir.Tensor
 * has a whole table, in __dlpack_c_exchange_api__.
 */
WEIR_API void weir_dl_exchange_init(struct weir_dl_exchange *table);

/* ---- The CUDA Array Interface ---------------------------------------- */

/** The values of a `__cuda_array_interface__`. */
struct weir_array_interface {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	int version;        /**< 0 to 3 */
	char typestr[8];    /**< "<f4" */
	int ndim;
	int64_t shape[WEIR_DIMS_MAX];
	bool has_strides;               /**< not: row-major, without gaps */
	int64_t strides[WEIR_DIMS_MAX]; /**< bytes */
	void *data;                     /**< NULL if there is no element */
	bool read_only;
	bool has_mask;   /**< refused */
	bool has_stream; /**< not: nothing is to be waited for */
	/** 1 is the legacy default stream, 2 the per-thread one, any other a
	 * handle; never 0. */
	uint64_t stream;
};

/** The owner of imported memory, and the call when it is no longer used. */
struct weir_owner {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	/** Called once; see weir_foreign.give. */
	void (*give)(void *closure, void *data);
	void *closure;
};

/**
 * Export a tensor. Its stream, which the struct names, is put behind all known
 * work on the tensor; the host does not wait. Holds nothing: the reader of the
 * struct must keep the tensor alive.
 *
 * @return WEIR_ENOTSUP  memory of the host, or a type that the interface
 *                       cannot name (the eight-bit floating-point ones; DLPack
 *                       can). bfloat16 is "<V2", as in other libraries
 *         WEIR_EINVAL, and any failure of weir_tensor_join()
 */
WEIR_API enum weir_status weir_tensor_array_interface(
    const struct weir_tensor *tensor, struct weir_array_interface *out);

/**
 * Make a tensor of another library's memory. `stream` is put behind the
 * interface's stream. When the storage is dropped, that stream is put behind
 * weir's work, and the owner's `give` is called at once. If the interface has
 * no stream, the host then waits for weir's work first.
 *
 * @param device  the device that the memory is used on; weir does not check it.
 *                With WEIR_DEVICE_CURRENT weir asks the driver for the device
 * @param stream  the tensor's
 * @param owner   NULL: nothing is called
 * @return WEIR_EINVAL  a mask, stream 0, no stream, an unknown version, a
 *                      typestr that is wrong, of bytes in the other order or
 *                      of no type here, strides that are no multiple of the
 *                      element, an address that no device has;
 *                      weir_last_error() has the value
 *         WEIR_ENODEVICE; WEIR_EHOSTMEM; WEIR_EDRIVER
 */
WEIR_API enum weir_status weir_tensor_from_array_interface(
    const struct weir_array_interface *array, int device, weir_stream stream,
    const struct weir_owner *owner, struct weir_tensor **out);

#ifdef __cplusplus
}
#endif

#endif
