/**
 * weir: tensors in files.
 *
 * Files are in the safetensors format, which every framework reads: eight
 * bytes of length, a header in JSON, and the tensors' elements, row-major, one
 * after the other. Facts that the format has no place for are in its metadata,
 * under keys that begin with "weir."; other readers may ignore them:
 *
 * - where a tensor was (weir.place, weir.place.NAME),
 * - the type of elements that the format has no name for: complex128 is
 *   written as F64 with one more dimension of 2, float8_e3m4, float8_e4m3 and
 *   float8_e4m3b11fnuz as U8 (weir.dtype.NAME),
 * - which tensors are views of another's memory (weir.view.NAME). Of tensors
 *   that share memory each byte is written once: one that lies within another
 *   is a view of it, and has no entry of its own. If no tensor contains the
 *   others, the memory around them is written as the bytes of an entry
 *   weir.storage.N. Tensors that share a storage but no byte are written, and
 *   loaded, each by itself.
 *
 * What the format's reference (huggingface/safetensors) accepts is accepted,
 * also members of an entry that nobody knows. Only a name or a key that is
 * there twice is refused, as the format demands and its reference does not.
 * Tensors that weir has no type or shape for (weir_loaded_opaque()) are read as
 * their bytes. A zero character in a name, a key or a value, which no C string
 * can hold, becomes the bytes C0 80, which are no UTF-8.
 *
 * The rules of <weir/weir.h> and <weir/tensor.h> hold.
 */
#ifndef WEIR_SAVE_H
#define WEIR_SAVE_H

#include <weir/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A tensor and its name in a file. */
struct weir_named {
	const char *name; /**< UTF-8, not empty, each once; not "__metadata__",
			     and not beginning with "weir." */
	const struct weir_tensor *tensor;
};

/** How to save. */
struct weir_save_options {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	/** Metadata of the program's: key, value, key, value, ..., NULL. May be
	 * NULL. Keys do not begin with "weir.". */
	const char *const *metadata;
	/** Called on the calling thread, with no lock held, as bytes are
	 * written, and once at the end with done == total. May be NULL. */
	void (*progress)(void *closure, uint64_t done, uint64_t total);
	void *closure;
};

/**
 * Write tensors to a file, which appears complete or not at all: it is written
 * under another name in the same folder, with mode 0600, and renamed. A
 * symbolic link at `path` is replaced and not followed; a device, a pipe or a
 * socket there is an error.
 *
 * Elements are read after all known work on each tensor (weir_tensor_join()).
 * Several threads of weir's own copy from the device and write at the same
 * time, by way of page-locked memory. A tensor with gaps is made contiguous
 * first, in memory of its own kind.
 *
 * @param tensors  n of them; 0 writes a file of none
 * @param options  NULL: as if all were 0
 * @return WEIR_EINVAL    a name that is wrong or there twice, a NULL
 *         WEIR_EHOSTMEM, WEIR_ENOMEM
 *         WEIR_ECAPTURE  a tensor's stream is captured
 *         WEIR_EDRIVER
 *         WEIR_EFILE     the file cannot be written; weir_last_error() has the
 *                        system's text
 */
WEIR_API enum weir_status weir_save(const char *path,
    const struct weir_named *tensors, size_t n,
    const struct weir_save_options *options);

/** How to load. */
struct weir_load_options {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	/** Where all tensors go. NULL: where they were when they were saved,
	 * after `map`; a file that does not say, to the current device. */
	const struct weir_place *place;
	/** Places by name: saved, wanted, saved, wanted, ..., NULL; as
	 * weir_place_parse() has them: "cuda:1", "cuda:0". May be NULL. Not
	 * used with `place`. */
	const char *const *map;
	/** As of weir_save_options, of bytes that are read. */
	void (*progress)(void *closure, uint64_t done, uint64_t total);
	void *closure;
};

/** The tensors of a file. Read by any thread; dropped once. */
struct weir_loaded;

/**
 * Read all tensors of a file. When it returns they are complete and may be used
 * on any stream.
 *
 * The header is checked before anything is allocated for it: every length,
 * offset and size against the file's own, as the format demands: entries have
 * no gap and no overlap. The cost of refusing a file is bounded by the bytes
 * that are really there. Elements are read by several threads of weir's own
 * into page-locked memory and copied to the device meanwhile; those for the
 * host are read where they belong.
 *
 * @param options  NULL: as if all were 0
 * @return WEIR_EFILE     the file cannot be read, or is not in the format: the
 *                        text says what is wrong, and at which byte
 *         WEIR_EINVAL    a NULL; "invalid device string"
 *         WEIR_ENODEVICE a saved place that is not here, and is not mapped
 *         WEIR_ENOMEM, WEIR_EHOSTMEM, WEIR_EDRIVER
 */
WEIR_API enum weir_status weir_load(const char *path,
    const struct weir_load_options *options, struct weir_loaded **out);

/** The number of tensors. */
WEIR_API size_t weir_loaded_count(const struct weir_loaded *loaded);

/** The name of the i-th, in the order of their names; NULL if there is none.
 * Lives as long as `loaded`. */
WEIR_API const char *weir_loaded_name(
    const struct weir_loaded *loaded, size_t i);

/** The i-th tensor, owned by `loaded`: weir_tensor_alias() keeps it. NULL if
 * there is none. */
WEIR_API const struct weir_tensor *weir_loaded_tensor(
    const struct weir_loaded *loaded, size_t i);

/** The tensor of a name, likewise; NULL if there is none. */
WEIR_API const struct weir_tensor *weir_loaded_find(
    const struct weir_loaded *loaded, const char *name);

/**
 * The format's name of the i-th tensor's type if weir cannot describe the
 * tensor: elements of four or six bits (F4, F6_E2M3, F6_E3M2), more than
 * WEIR_DIMS_MAX dimensions, or a length above INT64_MAX. The tensor has the
 * bytes of the file then, as uint8 in one dimension, and would be saved as
 * such. NULL for all others.
 *
 * @param ndim   the dimensions that the file states; may be NULL
 * @param shape  their lengths; lives as long as `loaded`; may be NULL
 */
WEIR_API const char *weir_loaded_opaque(const struct weir_loaded *loaded,
    size_t i, size_t *ndim, const uint64_t **shape);

/** The value of a key of the program's metadata; NULL if there is none. Lives
 * as long as `loaded`. */
WEIR_API const char *weir_loaded_metadata(
    const struct weir_loaded *loaded, const char *key);

/** The i-th key of the program's metadata, in their order; NULL if there is
 * none. Lives as long as `loaded`. */
WEIR_API const char *weir_loaded_key(
    const struct weir_loaded *loaded, size_t i);

/** Drop the tensors; NULL does nothing. */
WEIR_API void weir_loaded_drop(struct weir_loaded *loaded);

#ifdef __cplusplus
}
#endif

#endif
