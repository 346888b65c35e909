/**
 * Memory and events that processes share.
 *
 * The owner *exports* a block or an event and gets a handle of 64 bytes, which
 * it passes on in any way: a pipe, a file, MPI. Another process of the same
 * user *opens* the handle, uses the memory where it lies, and closes it. The
 * memory is not copied.
 *
 *	owner                            another process
 *	weir_ipc_export(ptr, s, &e)
 *	weir_ipc_handle_of(e, &h)   ->   weir_ipc_open(&h, 0, s, &m)
 *	...                              ...
 *	weir_ipc_release(e)              weir_ipc_close(m, s)
 *
 * References are counted across processes. What is exported belongs to the
 * export: weir_ipc_release() frees it, not weir_free(). It is freed when the
 * owner has released it and every process that opened it has closed it or has
 * ended, in whatever way. A process that has hung up but still runs may still
 * use the memory, so it counts until it ends.
 *
 * Both kinds of memory can be shared: segments of the driver by its handles,
 * and mapped (expandable) memory by file descriptors. Both processes must run
 * as the same user on one machine and see each other's process ids and abstract
 * Unix sockets, as processes of one container do. A thread of weir's own, made
 * by the first export, answers those who open.
 *
 * Neither side trusts the other. Each asks the system who the other is. Handles
 * carry a secret. Sizes, offsets, counts and file types are checked, and the
 * driver has the last word on how much memory there is. A silent peer holds up
 * only the caller that waits for its answer, for 30 seconds at most.
 *
 * PyTorch's processes exchange handles of their own, which
 * weir_ipc_torch_handle() writes and weir_ipc_torch_open() reads. They count no
 * references; PyTorch does.
 *
 * All calls are thread-safe, but for one import: one thread closes it.
 */
#ifndef WEIR_IPC_H
#define WEIR_IPC_H

#include <weir/stream.h>
#include <weir/tensor.h>
#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_IPC_HANDLE_BYTES 64

/** Names an export. Plain bytes, to be copied and sent as they are. Whoever of
 * the same user has them can open the memory. */
struct weir_ipc_handle {
	unsigned char bytes[WEIR_IPC_HANDLE_BYTES];
};

/** Memory or an event that a process lets others open. */
struct weir_ipc_export;

/** Memory or an event of another process that this one has opened. */
struct weir_ipc_import;

/* ---- The owner --------------------------------------------------------- */

/**
 * Let other processes open a block. The block belongs to the export from now
 * on: it must not be freed by weir_free(). The owner may go on using it. Its
 * pages stay where they are (weir_pin()).
 *
 * A second export of a block returns the same export; release it once for each
 * call.
 *
 * @param ptr     what weir_malloc() returned, live, memory of a device
 * @param stream  work queued here so far comes before all work of other
 *                processes on the memory; counts at the first export of a
 *                block. WEIR_STREAM_ANY: there is nothing to wait for
 * @return WEIR_OK
 *         WEIR_EINVAL   no live block starts at ptr; out is NULL; the stream
 *                       was destroyed
 *         WEIR_ENOTSUP  host memory, memory of a source of the program's that
 *                       the driver cannot share, more than 65,536 physical
 *                       pieces, or a system without pidfds (before Linux 5.3)
 *         WEIR_ECAPTURE the stream is being captured
 *         WEIR_EHOSTMEM, WEIR_EDRIVER, WEIR_EFORK
 *
 * Waits for the stream if the device has no events that processes can share.
 */
WEIR_API enum weir_status weir_ipc_export(
    void *ptr, weir_stream stream, struct weir_ipc_export **out);

/**
 * Let other processes open a block that stays the caller's: as
 * weir_ipc_export(), but at the end `done` is called once and the block is not
 * freed. From then on the caller may free the block or use it for something
 * else. Each call makes an export of its own.
 *
 * @param done  called when it is released and no process has it open any more:
 *              by weir_ipc_release(), or on a thread of weir's; with no lock of
 *              weir held. It must not wait for another process
 * @return as weir_ipc_export(); WEIR_EINVAL also if done is NULL. `done` is not
 *         called then
 */
WEIR_API enum weir_status weir_ipc_lend(void *ptr, weir_stream stream,
    void (*done)(void *closure, void *ptr), void *closure,
    struct weir_ipc_export **out);

/**
 * Let other processes open an event: they wait for its latest record before
 * their wait. The event belongs to the export: weir_ipc_release()
 * destroys it. The owner may record it again at any time.
 *
 * @param event  made with WEIR_EVENT_INTERPROCESS and recorded at least once
 * @return as weir_ipc_export(); WEIR_EINVAL also for another event or one that
 *         is exported already
 */
WEIR_API enum weir_status weir_ipc_export_event(
    struct weir_event *event, struct weir_ipc_export **out);

/** The handle of an export: valid until it is released. */
WEIR_API enum weir_status weir_ipc_handle_of(
    const struct weir_ipc_export *shared, struct weir_ipc_handle *out);

/** How often an export is open in other processes now. */
WEIR_API size_t weir_ipc_peers(const struct weir_ipc_export *shared);

/** How often other processes have opened an export until now. It never falls,
 * so the sender of a handle can see that it has arrived. */
WEIR_API uint64_t weir_ipc_opened(const struct weir_ipc_export *shared);

/**
 * Close an export to other processes; those that have it open keep it. Once all
 * have closed it, and at once if none has it, the block is freed, as by
 * weir_free(), or the event destroyed. The caller must not use the export after
 * its last release. NULL does nothing.
 */
WEIR_API void weir_ipc_release(struct weir_ipc_export *shared);

/* ---- The others -------------------------------------------------------- */

/**
 * Open an export of another process.
 *
 * @param device  the device that will use it, or WEIR_DEVICE_CURRENT. If the
 *                memory is another device's, this one must be able to reach it
 * @param stream  of that device: work queued here after this call comes after
 *                the owner's; WEIR_STREAM_ANY: this call waits instead
 * @return WEIR_OK
 *         WEIR_EINVAL    not a handle, or of this process; its owner has ended,
 *                        has released it, is another user's, or does not
 *                        answer as weir does (weir_last_error() says which)
 *         WEIR_ENOTREADY the owner does not answer
 *         WEIR_ENODEVICE no such device
 *         WEIR_ENOTSUP   the device cannot reach the memory
 *         WEIR_ENOMEM, WEIR_EHOSTMEM, WEIR_EDRIVER, WEIR_EFORK
 *         Nothing has changed then.
 */
WEIR_API enum weir_status weir_ipc_open(const struct weir_ipc_handle *handle,
    int device, weir_stream stream, struct weir_ipc_import **out);

/** An opened export. */
struct weir_ipc_info {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	void *ptr;          /**< the memory, in this process; NULL: an event */
	size_t size;        /**< bytes that may be used */
	int device;         /**< that it was opened for: never derived from ptr,
			     * of which CUDA may say either device */
	int home;           /**< the memory's device; -1: not visible here */
	int owner;          /**< process id; 0: not known */
	bool owner_alive;   /**< it has not ended, as far as is known */
	struct weir_event *event; /**< valid until the close; NULL: memory */
};

/** WEIR_EINVAL if import or out is NULL, or struct_size is too small. */
WEIR_API enum weir_status weir_ipc_info(
    const struct weir_ipc_import *import, struct weir_ipc_info *out);

/**
 * Close an import: all use in this process is queued on `stream`
 * (WEIR_STREAM_ANY: on any stream of its device). Waits for that work, so that
 * the owner may use the memory for something else afterwards. NULL does
 * nothing.
 *
 * Memory that was opened twice, by this process, is closed twice. The memory
 * may be used after the owner has ended; mapped memory is then this process's
 * alone.
 *
 * @return WEIR_OK; WEIR_EINVAL if the stream was destroyed; WEIR_ECAPTURE;
 *         WEIR_EDRIVER if the wait fails. It is still open then. WEIR_EFORK
 */
WEIR_API enum weir_status weir_ipc_close(
    struct weir_ipc_import *import, weir_stream stream);

/* ---- Tensors ----------------------------------------------------------- */

/** A tensor of another process: plain bytes, to be sent as they are. Whoever
 * opens it checks every number. */
struct weir_ipc_tensor {
	struct weir_ipc_handle storage; /**< zeros if it has no bytes */
	uint32_t dtype;                 /**< of enum weir_dtype */
	int32_t ndim;
	uint64_t storage_bytes;
	uint64_t offset_bytes;
	int64_t shape[WEIR_DIMS_MAX];   /**< ndim of them; then zeros */
	int64_t strides[WEIR_DIMS_MAX]; /**< in elements */
};

/**
 * Let other processes view a tensor: the same elements of its storage, without
 * a copy. The export holds the storage until it is released and nobody has it
 * open any more; the tensor itself may be destroyed at any time.
 *
 * @param tensor  in memory of a device, allocated by weir
 * @param stream  put behind all known work on the tensor's storage, as by
 *                weir_tensor_join(); work queued on it so far comes before work
 *                of other processes
 * @param shared  to be released with weir_ipc_release(); NULL is written for a
 *                storage of no bytes
 * @return WEIR_OK; WEIR_EINVAL if a pointer is NULL; WEIR_ENOTSUP for memory of
 *         the host or of somebody else's, such as a tensor that came from
 *         another process; or as weir_tensor_join() and weir_ipc_lend()
 */
WEIR_API enum weir_status weir_ipc_share_tensor(
    const struct weir_tensor *tensor, weir_stream stream,
    struct weir_ipc_tensor *out, struct weir_ipc_export **shared);

/**
 * View a tensor of another process. Its storage is foreign memory: it is
 * closed when the last tensor on it is destroyed, which puts `stream` behind
 * all known work on it and waits for that stream.
 *
 * @param device  the device that will use it, or WEIR_DEVICE_CURRENT
 * @param stream  the tensor's, not WEIR_STREAM_ANY; work queued here comes
 *                after the owner's
 * @return as weir_ipc_open(); WEIR_EINVAL also if the elements do not lie in
 *         the storage, and for WEIR_STREAM_ANY
 */
WEIR_API enum weir_status weir_ipc_open_tensor(const struct weir_ipc_tensor *in,
    int device, weir_stream stream, struct weir_tensor **out);

/**
 * View the bytes of memory that was opened, as a tensor of uint8. The import
 * belongs to the tensor's storage from then on, as by weir_ipc_open_tensor().
 * If the call fails, the import is closed.
 *
 * @param import  of memory, not of an event
 * @param stream  the tensor's, not WEIR_STREAM_ANY
 * @return WEIR_EINVAL if an argument is none of these, and nothing is closed;
 *         WEIR_EHOSTMEM
 */
WEIR_API enum weir_status weir_ipc_view(struct weir_ipc_import *import,
    weir_stream stream, struct weir_tensor **out);

/* ---- PyTorch's handles ------------------------------------------------- */

/**
 * Write the handle by which PyTorch opens the memory of an export: the bytes
 * that Storage._share_cuda_() gives, of format 2 (PyTorch 2.6 to 2.12). It is
 * valid as long as the export. The caller counts references in PyTorch's way.
 *
 * PyTorch opens mapped memory only if all of its pieces have one size. Memory
 * of the driver has, so has mapped memory of pools of WEIR_POOL_REGISTRABLE,
 * and so has a block that lies on one piece. The descriptors of the pieces stay
 * open in this process, which PyTorch fetches with pidfd_getfd(): where the
 * system forbids that, share memory of the driver (WEIR_STREAM_ANY).
 *
 * @param bytes     where to write; may be NULL to ask for the length
 * @param capacity  bytes there are
 * @param length    bytes of the handle; set for WEIR_EINVAL too
 * @param offset    bytes of the memory before the block, the storage offset
 * @return WEIR_OK; WEIR_EINVAL if capacity is too small, or it is an event;
 *         WEIR_ENOTSUP if pieces differ in size, or are over 4,096;
 *         WEIR_EHOSTMEM; WEIR_EDRIVER
 */
WEIR_API enum weir_status weir_ipc_torch_handle(struct weir_ipc_export *shared,
    void *bytes, size_t capacity, size_t *length, size_t *offset);

/**
 * As weir_ipc_torch_handle(), with fabric handles in place of descriptors.
 * PyTorch opens them if its segments are made for a fabric
 * (expandable_segments_handle_type). No descriptor stays open, and the reader
 * needs none of the owner's: it may be in another container, or on another
 * machine of the fabric.
 *
 * @param shared  of a pool of WEIR_POOL_REGISTRABLE, on a system with a fabric
 * @return as weir_ipc_torch_handle(); WEIR_ENOTSUP also for memory of the
 *         driver, and where the memory has no fabric handles
 */
WEIR_API enum weir_status weir_ipc_torch_fabric_handle(
    struct weir_ipc_export *shared, void *bytes, size_t capacity,
    size_t *length, size_t *offset);

/**
 * Open the memory behind a handle of PyTorch's: 64 bytes of the driver alone,
 * those of formats 1 to 3 for memory of cudaMalloc, or of 1 and 2 (up to
 * PyTorch 2.12) for expandable segments, with descriptors or fabric handles.
 * The caller waits for PyTorch's event itself, and counts its references.
 *
 * @param bytes, length  the handle
 * @param offset, size   the part of the memory that is meant, in bytes; size 0:
 *                       all from the offset on
 * @param device         that will use it, or WEIR_DEVICE_CURRENT
 * @return as weir_ipc_open(); WEIR_EINVAL names what is wrong with the handle.
 *         WEIR_ENOTSUP if the system does not let this process have another's
 *         descriptors (pidfd_getfd(); ptrace_scope)
 */
WEIR_API enum weir_status weir_ipc_torch_open(const void *bytes, size_t length,
    size_t offset, size_t size, int device, struct weir_ipc_import **out);

#ifdef __cplusplus
}
#endif

#endif
