/*
 * Looking up entry points, and the texts of results.
 *
 * A name may stand for several functions. A lookup returns the newest one that
 * is not newer than the requested version. Of functions with a stream it
 * returns the variant that the flags ask for.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "simcuda/conf.h"
#include "simcuda/sim.h"

/* ISO C has no cast between functions and objects; POSIX gives both the same
 * form. */
#define SIM_FUNCTION(symbol) ((void *)(uintptr_t)(symbol))

static const struct entry_address entries[] = {
#define SIM_ENTRY(symbol, base, version, flags, params)                        \
	{ #base, version, SIM_FUNCTION(symbol), SIM_FUNCTION(symbol) },
#define SIM_ENTRY_PTSZ(symbol, base, version, flags, params)                   \
	{ #base, version, SIM_FUNCTION(symbol), SIM_FUNCTION(symbol##_ptsz) },
#define SIM_ENTRY_PTDS(symbol, base, version, flags, params)                   \
	{ #base, version, SIM_FUNCTION(symbol), SIM_FUNCTION(symbol##_ptds) },
	SIM_ENTRIES(SIM_ENTRY, SIM_ENTRY_PTSZ, SIM_ENTRY_PTDS)
#undef SIM_ENTRY_PTDS
#undef SIM_ENTRY_PTSZ
#undef SIM_ENTRY
};

/* The newest of `n` entries with this name that is not newer than `version`; or
 * `best` if that is newer still. */
static const struct entry_address *
find_among(const struct entry_address *among, size_t n, const char *name,
    int version, const struct entry_address *best, bool *named)
{
	for (size_t i = 0; i < n; i++) {
		const struct entry_address *entry = &among[i];

		if (strcmp(entry->base, name) != 0)
			continue;
		*named = true;
		if (entry->version <= version &&
		    (best == NULL || best->version < entry->version))
			best = entry;
	}
	return best;
}

static CUdriverProcAddressQueryResult
find_sim_entry(const char *name, void **function, int version, cuuint64_t flags)
{
	bool named = false;
	const struct entry_address *best =
	    find_among(entries, SIM_N_ENTRIES, name, version, NULL, &named);

	best = find_among(
	    sim_unsimulated, sim_n_unsimulated, name, version, best, &named);
	if (best == NULL)
		return named ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT :
			       CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	*function =
	    (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0 ?
	    best->per_thread :
	    best->function;
	return CU_GET_PROC_ADDRESS_SUCCESS;
}

/* The version from SIMCUDA_CONF, because entries are looked up before cuInit().
 */
static int
driver_version(void)
{
	if (sim.state == SIM_NEW && !conf_read())
		return 0;
	return (int)conf.version;
}

static CUresult
get_entry_address(const char *symbol, void **function, int version,
    cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	const cuuint64_t all = CU_GET_PROC_ADDRESS_LEGACY_STREAM |
	    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

	if (symbol == NULL || function == NULL || (flags & ~all) != 0 ||
	    flags == all || version > driver_version())
		return CUDA_ERROR_INVALID_VALUE;
	*status = find_sim_entry(symbol, function, version, flags);
	return CUDA_SUCCESS;
}

CUresult
cuGetProcAddress(
    const char *symbol, void **function, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status;
	CUresult code = gate_enter(E_cuGetProcAddress);

	if (code == CUDA_SUCCESS)
		code = get_entry_address(
		    symbol, function, version, flags, &status);
	if (code == CUDA_SUCCESS && status != CU_GET_PROC_ADDRESS_SUCCESS)
		code = CUDA_ERROR_NOT_FOUND;
	return gate_leave(code);
}

CUresult
cuGetProcAddress_v2(const char *symbol, void **function, int version,
    cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	CUdriverProcAddressQueryResult found;
	CUresult code = gate_enter(E_cuGetProcAddress_v2);

	if (code == CUDA_SUCCESS)
		code =
		    get_entry_address(symbol, function, version, flags, &found);
	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	/* In this form an entry that is not found is no error. */
	if (found != CU_GET_PROC_ADDRESS_SUCCESS)
		*function = NULL;
	if (status != NULL)
		*status = found;
	return gate_leave(CUDA_SUCCESS);
}

/* The first table that NVIDIA's runtime requires. */
static const CUuuid runtime_table = { { 0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4,
    0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9 } };

/* Print how to build a program that runs here. simcuda's folder has a runtime
 * to link with. */
static void
name_our_runtime(void)
{
	Dl_info self;
	const char *path = "DIR/";

	if (dladdr(&runtime_table, &self) != 0 && self.dli_fname != NULL &&
	    strrchr(self.dli_fname, '/') != NULL)
		path = self.dli_fname;
	fprintf(stderr,
	    "simcuda: this program contains NVIDIA's CUDA runtime, "
	    "which accepts NVIDIA's driver only.\n"
	    "simcuda: Link it with weir's runtime for simcuda: nvcc "
	    "-L %.*s (libcudart_static.a is there).\n",
	    (int)(strrchr(path, '/') - path), path);
}

/*
 * Tables of undocumented functions. simcuda has none, so NVIDIA's runtime does
 * not run on it (docs/adr/0008). A message on stderr names a runtime that does.
 */
static CUresult
refuse_table(const CUuuid *id)
{
	static bool said;

	if (memcmp(id, &runtime_table, sizeof(*id)) != 0)
		return CUDA_ERROR_NOT_FOUND;
	if (!said)
		name_our_runtime();
	said = true;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult
cuGetExportTable(const void **table, const CUuuid *id)
{
	CUresult code = gate_enter(E_cuGetExportTable);

	if (code == CUDA_SUCCESS && (table == NULL || id == NULL))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = refuse_table(id);
	return gate_leave(code);
}

static const struct {
	CUresult code;
	const char *name, *text;
} results[] = {
#define SIM_RESULT(name, value, text) { name, #name, text },
	DRIVER_RESULTS(SIM_RESULT)
#undef SIM_RESULT
};

enum { RESULTS = sizeof(results) / sizeof(results[0]) };

CUresult
cuGetErrorName(CUresult error, const char **name)
{
	CUresult code = gate_enter(E_cuGetErrorName);

	if (code != CUDA_SUCCESS || name == NULL)
		return gate_leave(
		    code != CUDA_SUCCESS ? code : CUDA_ERROR_INVALID_VALUE);
	*name = NULL;
	for (size_t i = 0; i < RESULTS; i++) {
		if (results[i].code == error)
			*name = results[i].name;
	}
	return gate_leave(
	    *name == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

CUresult
cuGetErrorString(CUresult error, const char **text)
{
	CUresult code = gate_enter(E_cuGetErrorString);

	if (code != CUDA_SUCCESS || text == NULL)
		return gate_leave(
		    code != CUDA_SUCCESS ? code : CUDA_ERROR_INVALID_VALUE);
	*text = NULL;
	for (size_t i = 0; i < RESULTS; i++) {
		if (results[i].code == error)
			*text = results[i].text;
	}
	return gate_leave(
	    *text == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}
