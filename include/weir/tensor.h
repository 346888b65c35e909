/**
 * weir: storages and tensors.
 *
 * A *storage* is one range of memory with a count of its holders: memory of a
 * device or page-locked memory from weir's allocator, memory of the host, or
 * foreign memory with a function that gives it back. A *tensor*
 * views a storage: elements of one type at an offset, with a shape and a
 * stride for each dimension. Views share their storage and copy nothing.
 *
 * Shapes, strides, indices and lengths are in elements; offsets, sizes and
 * everything named `bytes` are in bytes. Dimensions are numbered from 0; a
 * negative number counts from the end, -1 being the last dimension.
 *
 * Streams
 *
 * Every tensor has a stream: the one it was made for. Calls that queue work
 * take the stream to queue it on. weir remembers the streams on which it has
 * queued work for a storage: freed memory is not used again before that work is
 * done, whichever thread drops the tensor and whenever. A program that uses the
 * memory on another stream by itself calls weir_tensor_record(). weir puts no
 * two streams in order on its own: call weir_tensor_join() or
 * weir_stream_wait_stream().
 *
 * Threads
 *
 * A tensor never changes: its functions may be called from any thread, and
 * each tensor is destroyed once, on any thread. A storage is counted and may be
 * acquired and released from any thread. Accesses to the *contents* are ordered
 * by streams, and for host memory by the program.
 *
 * The rules of <weir/weir.h> hold: a failed call changes nothing and writes no
 * result, and weir_last_error() names the argument and the value.
 */
#ifndef WEIR_TENSOR_H
#define WEIR_TENSOR_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Types of elements ----------------------------------------------- */

/**
 * X(name, text, bytes): the types, their names and the bytes of an element.
 *
 * A bool is a byte; zero is false, any other byte is read as true, and 1 is
 * written. (Calls that write no element leave the byte as it is: views and
 * aliases, exchange, and files.) Complex numbers are two floating-point
 * numbers, the real part first. The eight-bit kinds of floating point are those
 * of DLPack: e and m are the bits of exponent and mantissa, `fn` has no
 * infinity, `uz` no negative zero, `b11` a bias of 11; e8m0fnu has neither sign
 * nor mantissa.
 */
#define WEIR_DTYPES(X)                                                         \
	X(WEIR_BOOL, "bool", 1)                                                \
	X(WEIR_INT8, "int8", 1)                                                \
	X(WEIR_INT16, "int16", 2)                                              \
	X(WEIR_INT32, "int32", 4)                                              \
	X(WEIR_INT64, "int64", 8)                                              \
	X(WEIR_UINT8, "uint8", 1)                                              \
	X(WEIR_UINT16, "uint16", 2)                                            \
	X(WEIR_UINT32, "uint32", 4)                                            \
	X(WEIR_UINT64, "uint64", 8)                                            \
	X(WEIR_FLOAT16, "float16", 2)                                          \
	X(WEIR_BFLOAT16, "bfloat16", 2)                                        \
	X(WEIR_FLOAT32, "float32", 4)                                          \
	X(WEIR_FLOAT64, "float64", 8)                                          \
	X(WEIR_COMPLEX64, "complex64", 8)                                      \
	X(WEIR_COMPLEX128, "complex128", 16)                                   \
	X(WEIR_FLOAT8_E3M4, "float8_e3m4", 1)                                  \
	X(WEIR_FLOAT8_E4M3, "float8_e4m3", 1)                                  \
	X(WEIR_FLOAT8_E4M3B11FNUZ, "float8_e4m3b11fnuz", 1)                    \
	X(WEIR_FLOAT8_E4M3FN, "float8_e4m3fn", 1)                              \
	X(WEIR_FLOAT8_E4M3FNUZ, "float8_e4m3fnuz", 1)                          \
	X(WEIR_FLOAT8_E5M2, "float8_e5m2", 1)                                  \
	X(WEIR_FLOAT8_E5M2FNUZ, "float8_e5m2fnuz", 1)                          \
	X(WEIR_FLOAT8_E8M0FNU, "float8_e8m0fnu", 1)

/** The type of an element. 0 is none, so that a zeroed struct names none. */
enum weir_dtype {
	WEIR_DTYPE_NONE,
#define WEIR_DTYPE_ENUM(name, text, bytes) name,
	WEIR_DTYPES(WEIR_DTYPE_ENUM)
#undef WEIR_DTYPE_ENUM
};

/** Bytes of an element; 0 for no type. */
WEIR_API size_t weir_dtype_size(enum weir_dtype dtype);

/** The name of a type, "float32"; "none" for no type. */
WEIR_API const char *weir_dtype_name(enum weir_dtype dtype);

/** The type of a name. WEIR_EINVAL if there is none of that name. */
WEIR_API enum weir_status weir_dtype_find(
    const char *name, enum weir_dtype *out);

/* ---- Places ---------------------------------------------------------- */

/** The kind of memory. */
enum weir_memory {
	WEIR_MEMORY_DEVICE,  /**< of a device, from weir_malloc_on() */
	WEIR_MEMORY_PINNED,  /**< page-locked, from weir_host_malloc_on() */
	WEIR_MEMORY_HOST,    /**< of the host, pageable */
	WEIR_MEMORY_MANAGED, /**< migrates between host and devices; never
			       allocated by weir, only wrapped */
};

/** "device", "pinned", "host" or "managed"; "?" for anything else. */
WEIR_API const char *weir_memory_name(enum weir_memory memory);

/** Where a tensor is to be. */
struct weir_place {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	enum weir_memory memory;
	/** A device or WEIR_DEVICE_CURRENT. Of pinned and host memory it is
	 * the device that copies are queued on. */
	int device;
	/** Where device memory is first used; NULL is the default stream,
	 * WEIR_STREAM_ANY any. */
	weir_stream stream;
};

/**
 * Read a place from text: "cuda", "cuda:1", "cpu" (pageable memory),
 * "pinned" or "cuda_host" (page-locked memory). The stream of the result is
 * the device's current stream (weir_stream_current()), or NULL where no device
 * is needed.
 *
 * @return WEIR_EINVAL "invalid device string", with the text;
 *         WEIR_ENODEVICE if there is no such device
 */
WEIR_API enum weir_status weir_place_parse(
    const char *text, struct weir_place *out);

/* ---- Storages -------------------------------------------------------- */

/** Counted memory. */
struct weir_storage;

/** Foreign memory, to be wrapped: another owner allocated it. */
struct weir_foreign {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	void *data;         /**< the first byte; NULL only if bytes is 0 */
	size_t bytes;
	enum weir_memory memory;
	int device;      /**< the device it is of; not asked of the driver */
	bool read_only;  /**< calls of weir that would write to it fail */
	bool has_stream; /**< `stream` orders the owner's use of it */
	/** With has_stream: when the storage is dropped, this stream is put
	 * behind all work that weir has queued on the memory, and `give` is
	 * called at once. Without, `give` is called after the host has waited
	 * for that work. */
	weir_stream stream;
	/** Give the memory back; called once, on the thread that drops the
	 * last hold, with no lock of weir held. NULL: nothing is called. */
	void (*give)(void *closure, void *data);
	void *closure;
};

/** A storage: its memory, size and place. */
struct weir_storage_info {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	void *data;         /**< the first byte; NULL if bytes is 0 */
	size_t bytes;
	enum weir_memory memory;
	int device;
	weir_stream stream; /**< that it was made for */
	bool foreign;
	bool read_only;
	size_t use_count; /**< holders, tensors among them */
};

/**
 * Allocate a storage; the caller holds it.
 *
 * @param place  NULL: the current device's memory, for its current stream
 * @param bytes  may be 0: no memory is allocated then
 * @return WEIR_EINVAL  unknown or managed memory, bytes above WEIR_SIZE_MAX,
 *                      struct_size not set
 *         WEIR_ENOMEM, WEIR_EHOSTMEM, and any failure of weir_malloc_on() and
 *         weir_host_malloc_on()
 *
 * Memory of the host needs no driver. The contents are undefined.
 */
WEIR_API enum weir_status weir_storage_create(
    const struct weir_place *place, size_t bytes, struct weir_storage **out);

/**
 * Wrap foreign memory; the caller holds the storage. On failure `give` is not
 * called.
 *
 * @return WEIR_EINVAL if data is NULL and bytes is not 0, or the memory is
 *         unknown; WEIR_ENODEVICE; WEIR_EHOSTMEM
 */
WEIR_API enum weir_status weir_storage_wrap(
    const struct weir_foreign *foreign, struct weir_storage **out);

/** Hold a storage once more; returns it. */
WEIR_API struct weir_storage *weir_storage_acquire(
    struct weir_storage *storage);

/**
 * Release one hold on a storage; NULL does nothing. The last release frees the
 * memory. It never waits, except for foreign memory without a stream of its
 * owner's.
 */
WEIR_API void weir_storage_release(struct weir_storage *storage);

/** Describe a storage. WEIR_EINVAL if a pointer is NULL or struct_size is not
 * set. */
WEIR_API enum weir_status weir_storage_info(
    const struct weir_storage *storage, struct weir_storage_info *out);

/* ---- Tensors --------------------------------------------------------- */

/** Dimensions of a tensor, at most. */
#define WEIR_DIMS_MAX 32

/** A view of a storage. */
struct weir_tensor;

/** The elements of a storage that a tensor views. */
struct weir_layout {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	enum weir_dtype dtype;
	int ndim;             /**< 0: one element */
	const int64_t *shape; /**< ndim lengths, >= 0; NULL if ndim is 0 */
	/** ndim strides, in elements; NULL: row-major, without gaps. May be
	 * negative. */
	const int64_t *strides;
	/** Where the element at index 0, 0, ... is, from the storage's first
	 * byte; any number, also one that is not aligned. */
	size_t offset_bytes;
};

/** A tensor. The arrays live as long as the tensor. */
struct weir_tensor_info {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	enum weir_dtype dtype;
	int ndim;
	const int64_t *shape;   /**< never NULL, also if ndim is 0 */
	const int64_t *strides; /**< never NULL, in elements */
	size_t offset_bytes;
	/** The element at index 0, 0, ...; NULL if there is no element. */
	void *data;
	int64_t elements; /**< the product of the shape */
	size_t bytes;     /**< elements times the bytes of one */
	bool contiguous;  /**< row-major, without gaps */
	bool read_only;
	enum weir_memory memory;
	int device;
	weir_stream stream;
	struct weir_storage *storage; /**< not held for the caller */
};

/**
 * Allocate a tensor of a shape, row-major and without gaps. Its contents are
 * undefined.
 *
 * @param dtype  any but WEIR_DTYPE_NONE
 * @param ndim   0 to WEIR_DIMS_MAX
 * @param shape  ndim lengths >= 0; a length of 0 makes a tensor of no elements
 * @param place  NULL: the current device's memory, for its current stream
 * @return WEIR_EINVAL  a wrong type, ndim or length; more than WEIR_SIZE_MAX
 *                      bytes
 *         or any failure of weir_storage_create()
 */
WEIR_API enum weir_status weir_tensor_empty(enum weir_dtype dtype, int ndim,
    const int64_t *shape, const struct weir_place *place,
    struct weir_tensor **out);

/**
 * View a storage. The tensor holds it.
 *
 * @param storage  also of no bytes, if there are no elements
 * @param layout   which elements
 * @param stream   the tensor's
 * @return WEIR_EINVAL if the layout is wrong or an element lies outside of the
 *         storage (weir_last_error() says by how much); WEIR_EHOSTMEM
 */
WEIR_API enum weir_status weir_tensor_over(struct weir_storage *storage,
    const struct weir_layout *layout, weir_stream stream,
    struct weir_tensor **out);

/** Destroy a tensor and drop its hold on the storage; NULL does nothing. Work
 * that is queued on the memory is not disturbed. */
WEIR_API void weir_tensor_destroy(struct weir_tensor *tensor);

/** Describe a tensor. WEIR_EINVAL if a pointer is NULL or struct_size is not
 * set. */
WEIR_API enum weir_status weir_tensor_info(
    const struct weir_tensor *tensor, struct weir_tensor_info *out);

/** In words: `<weir.tensor float32[2, 3] strides [3, 1] cuda:0>`. As
 * snprintf(). */
WEIR_API int weir_tensor_format(
    const struct weir_tensor *tensor, char *text, size_t size);

/* ---- Views ----------------------------------------------------------- */

/*
 * Each makes another tensor on the same storage, with the same stream; no
 * memory is read or written, and no device is needed. All fail with
 * WEIR_EHOSTMEM where there is no memory for the tensor itself, and with
 * WEIR_EINVAL as they say.
 */

/** A view of the same elements, for another stream. */
WEIR_API enum weir_status weir_tensor_alias(const struct weir_tensor *tensor,
    weir_stream stream, struct weir_tensor **out);

/** One dimension from start up to, and without, stop, in steps. */
struct weir_slice {
	int64_t start; /**< negative: from the end */
	int64_t stop;  /**< negative: from the end; INT64_MAX: all the rest */
	int64_t step;  /**< not 0; 1 is every element */
};

/**
 * Part of a dimension, as Python's slices: bounds beyond the ends are cut to
 * them. With a negative step the order is reversed: start is the higher bound,
 * INT64_MAX the last element, and a stop of INT64_MIN goes through element 0.
 *
 * @return WEIR_EINVAL if there is no such dimension or step is 0
 */
WEIR_API enum weir_status weir_tensor_slice(const struct weir_tensor *tensor,
    int dim, const struct weir_slice *slice, struct weir_tensor **out);

/** `length` elements of a dimension from `start`. WEIR_EINVAL if these are not
 * all there. */
WEIR_API enum weir_status weir_tensor_narrow(const struct weir_tensor *tensor,
    int dim, int64_t start, int64_t length, struct weir_tensor **out);

/** One index of a dimension, which goes. WEIR_EINVAL if there is no such
 * index; a negative one counts from the end. */
WEIR_API enum weir_status weir_tensor_select(const struct weir_tensor *tensor,
    int dim, int64_t index, struct weir_tensor **out);

/** The dimensions in another order: dimension i of the result is dims[i].
 * WEIR_EINVAL unless each of the ndim dimensions is there once. */
WEIR_API enum weir_status weir_tensor_permute(const struct weir_tensor *tensor,
    const int *dims, struct weir_tensor **out);

/** Two dimensions swapped. */
WEIR_API enum weir_status weir_tensor_transpose(
    const struct weir_tensor *tensor, int a, int b, struct weir_tensor **out);

/**
 * Repeat without copying: dimensions of length 1 become as long as asked, by a
 * stride of 0, and new dimensions may come before the first. A length of -1
 * leaves a dimension as it is. weir's calls do not write to the result; it
 * counts as read-only only if the tensor does.
 *
 * @return WEIR_EINVAL if ndim is too small, or another dimension would change
 */
WEIR_API enum weir_status weir_tensor_expand(const struct weir_tensor *tensor,
    int ndim, const int64_t *shape, struct weir_tensor **out);

/**
 * A view of all elements, in row-major order, with another shape. One length
 * may be -1: it is worked out.
 *
 * @return WEIR_EINVAL if the shape has another number of elements, or the
 *         strides do not allow a view: then weir_tensor_contiguous() first
 */
WEIR_API enum weir_status weir_tensor_reshape(const struct weir_tensor *tensor,
    int ndim, const int64_t *shape, struct weir_tensor **out);

/** Any elements of the storage, as by weir_tensor_over(), with the tensor's
 * stream. */
WEIR_API enum weir_status weir_tensor_as_strided(
    const struct weir_tensor *tensor, const struct weir_layout *layout,
    struct weir_tensor **out);

/** Without a dimension of length 1; WEIR_EINVAL if it is longer. */
WEIR_API enum weir_status weir_tensor_squeeze(
    const struct weir_tensor *tensor, int dim, struct weir_tensor **out);

/** Without any dimension of length 1. */
WEIR_API enum weir_status weir_tensor_squeeze_all(
    const struct weir_tensor *tensor, struct weir_tensor **out);

/** With a dimension of length 1 before `dim`; 0 to ndim, or -1 for last. */
WEIR_API enum weir_status weir_tensor_unsqueeze(
    const struct weir_tensor *tensor, int dim, struct weir_tensor **out);

/**
 * A view of the bytes as elements of another type. If the sizes differ the last
 * dimension becomes longer or shorter by their ratio.
 *
 * @return WEIR_EINVAL if the sizes differ and the last dimension has gaps,
 *         there is none, its bytes are no multiple of the new size, or another
 *         stride is not one of whole new elements
 */
WEIR_API enum weir_status weir_tensor_view_dtype(
    const struct weir_tensor *tensor, enum weir_dtype dtype,
    struct weir_tensor **out);

/* ---- Filling and copying --------------------------------------------- */

/** How to copy; bits. */
enum weir_copy_flags {
	WEIR_COPY_DEFAULT = 0,
	/** Do not wait for the device where that is possible: from and to
	 * page-locked memory, and from pageable memory as far as the driver
	 * has taken it. A copy to pageable memory waits all the same. */
	WEIR_COPY_NON_BLOCKING = 1,
	/** weir_tensor_to() only: copy also where nothing would change. */
	WEIR_COPY_ALWAYS = 2,
};

/**
 * Set every element to a value.
 *
 * @param dtype   the type of *value; it is converted as by weir_tensor_copy()
 * @param value   one element, in host memory; read before the call returns
 * @param stream  of the tensor's device; NULL is its default stream. Host
 *                memory is filled by the host, at once
 * @return WEIR_EINVAL  a read-only tensor, one that repeats elements by
 *                      a stride of 0 (weir_tensor_expand()), a stream that is
 *                      destroyed or of another device
 *         WEIR_EDRIVER
 *
 * Does not wait for a device. May be captured.
 */
WEIR_API enum weir_status weir_tensor_fill(const struct weir_tensor *tensor,
    enum weir_dtype dtype, const void *value, weir_stream stream);

/**
 * Copy the elements of one tensor to another, whatever the two tensors' types,
 * strides and memory are.
 *
 * The source is repeated as by weir_tensor_expand() if it is smaller. Types
 * are converted:
 *
 * - to the same type: every bit is kept, also those of a NaN; except that a
 *   bool is written as 0 or 1, whatever byte it was, also in a copy of a
 *   tensor to itself;
 * - to a bool: any number but 0 is true, also NaN, and a complex number of
 *   which either part is not 0;
 * - between integers: the low bits are kept; a bool counts as 0 or 1;
 * - to an integer: a floating-point number is cut towards zero and held within
 *   the integer's range, also if it is infinite; NaN becomes 0;
 * - to floating point: numbers are rounded to nearest, ties to even, and to
 *   subnormal numbers too. float16, bfloat16 and the eight-bit kinds are
 *   rounded from float32, to which float64 and integers are rounded before, as
 *   PyTorch does (NumPy rounds float64 to float16 once). What rounds to a
 *   number beyond the range is infinite, or NaN in kinds without infinity, and
 *   so is an infinity. The sign of zero is kept; kinds without negative zero
 *   write 0;
 * - to float8_e8m0fnu: the sign is dropped, and the nearest power of two is
 *   written, the upper one halfway. Zero and all below are 2^-127; numbers from
 *   1.5 * 2^127 on, infinities and NaN are NaN;
 * - to a complex type: each part is converted, and a missing imaginary part is
 *   0; from a complex to a real type, the imaginary part is dropped.
 *
 * The GPU, the simulated device and the host give the same bits, but for the
 * sign and payload of a NaN that was converted.
 *
 * Two tensors that overlap are copied as if the source was read first. A
 * destination whose own elements overlap by other strides than 0 gets one of
 * the values that are written to each byte.
 *
 * @param stream  where the work is queued, of the device of either; NULL is
 *                the default stream of the source's device, or the
 *                destination's if the source is host memory. Between two
 *                devices the copy runs on this stream, and work on the other
 *                device on that tensor's own stream; the two streams are put in
 *                order
 * @param flags   of enum weir_copy_flags. A copy from or to the host waits
 *                until it is done, unless WEIR_COPY_NON_BLOCKING is given;
 *                copies within and between devices never wait
 * @return WEIR_EINVAL    shapes that do not fit, a read-only destination, one
 *                        that repeats elements by a stride of 0, a wrong
 *                        stream, unknown flags
 *         WEIR_ECAPTURE  the copy would have to wait, or needs pageable memory
 *                        beside the tensors, and the stream is captured
 *         WEIR_ENOMEM, WEIR_EHOSTMEM  no memory for a copy on the way
 *         WEIR_EDRIVER
 *
 * Memory that the copy uses is not used for anything else before the copy is
 * done, also when both tensors are destroyed at once. Contiguous copies of one
 * type are the driver's own, but for bools; a copy that converts or reorders is
 * a kernel on the device, before it goes to the host or after it came from
 * there.
 */
WEIR_API enum weir_status weir_tensor_copy(const struct weir_tensor *to,
    const struct weir_tensor *from, weir_stream stream, unsigned flags);

/**
 * The tensor as another type or elsewhere: itself again (weir_tensor_alias())
 * if nothing would change, else a new contiguous one and a copy to it. A copy
 * to WEIR_MEMORY_HOST with WEIR_COPY_NON_BLOCKING comes in page-locked memory
 * instead, since the program would wait for a copy to pageable memory; it can
 * be read once the stream is synchronised.
 *
 * @param dtype  WEIR_DTYPE_NONE: the tensor's own
 * @param place  NULL: where the tensor is; its stream is the one to copy on,
 *               and the new tensor's
 * @param flags  of enum weir_copy_flags
 * @return as weir_tensor_empty() and weir_tensor_copy()
 */
WEIR_API enum weir_status weir_tensor_to(const struct weir_tensor *tensor,
    enum weir_dtype dtype, const struct weir_place *place, unsigned flags,
    struct weir_tensor **out);

/** The tensor itself (weir_tensor_alias()) if it is contiguous, else a
 * contiguous copy in the same memory, made on `stream`. */
WEIR_API enum weir_status weir_tensor_contiguous(
    const struct weir_tensor *tensor, weir_stream stream,
    struct weir_tensor **out);

/* ---- Streams and use ------------------------------------------------- */

/**
 * Say that work queued on a stream uses the tensor's memory, so that it is not
 * used again before that work is done. weir's own calls do this by themselves.
 *
 * @return WEIR_EINVAL if the stream is destroyed; WEIR_EHOSTMEM
 */
WEIR_API enum weir_status weir_tensor_record(
    const struct weir_tensor *tensor, weir_stream stream);

/**
 * Make work queued on `stream` after this call come after all known work on the
 * tensor's storage: of its own stream, of weir's calls, and of
 * weir_tensor_record(). The host does not wait. Call it before a stream takes
 * the tensor over.
 *
 * @return WEIR_EINVAL for WEIR_STREAM_ANY or a destroyed stream; WEIR_EDRIVER
 */
WEIR_API enum weir_status weir_tensor_join(
    const struct weir_tensor *tensor, weir_stream stream);

/** Wait until all known work on the tensor's storage is done. */
WEIR_API enum weir_status weir_tensor_synchronize(
    const struct weir_tensor *tensor);

#ifdef __cplusplus
}
#endif

#endif
