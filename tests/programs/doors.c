/*
 * Prints what names of the driver are resolved to, by dlsym() and by
 * cuGetProcAddress(): "driver", another library's name, or "-" for nothing.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int (*query_old)(const char *, void **, int, uint64_t);
typedef int (*query_now)(const char *, void **, int, uint64_t, int *);

static const char *const exported[] = { "cuInit", "cuGetProcAddress",
	"cuGetProcAddress_v2", "cuMemAlloc", "cuMemAlloc_v2", "cuMemFree_v2",
	"cuMemAllocAsync", "cuMemAllocAsync_ptsz", "cuMemFreeAsync",
	"cuMemFreeAsync_ptsz", "cuMemAllocPitch_v2", "cuMemGetInfo_v2",
	"cuMemGetAddressRange_v2", "cuPointerGetAttribute",
	"cuPointerGetAttributes", "cuStreamDestroy_v2", "cuMemCreate",
	"cuStreamCreate", "cuCtxGetCurrent", "cuStreamBeginCapture_v2",
	"cuStreamEndCapture", "cuDevicePrimaryCtxReset_v2", "cuNoSuchEntry",
	"cu", "" };

static const char *const bases[] = { "cuInit", "cuGetProcAddress", "cuMemAlloc",
	"cuMemFree", "cuMemAllocAsync", "cuMemFreeAsync", "cuMemGetInfo",
	"cuStreamBeginCapture", "cuStreamDestroy", "cuCtxGetCurrent",
	"cuNoSuchEntry", "" };

static const int versions[] = { 2000, 3020, 11020, 11030, 12000, 13000, 99990 };

static const char *
place(void *found)
{
	Dl_info info;
	const char *name;

	if (found == NULL)
		return "-";
	if (dladdr(found, &info) == 0)
		return "?";
	name = strrchr(info.dli_fname, '/');
	name = name == NULL ? info.dli_fname : name + 1;
	return strncmp(name, "libcuda.so", 10) == 0 ? "driver" : name;
}

/* The exported name of an address, which distinguishes the forms of an entry
 * point. */
static const char *
name_of(void *found)
{
	Dl_info info;

	if (found == NULL || dladdr(found, &info) == 0 ||
	    info.dli_sname == NULL || strcmp(place(found), "driver") == 0)
		return "";
	return info.dli_sname;
}

static void
look_up_all(void *library)
{
	for (size_t i = 0; i < sizeof(exported) / sizeof(*exported); i++) {
		void *found = dlsym(library, exported[i]);
		const char *error = dlerror();

		printf("dlsym %s: %s%s\n", exported[i], place(found),
		    (found == NULL) != (error != NULL) ? ", and an error" : "");
	}
}

static void
query_one(query_now query, const char *base, int version, uint64_t flags)
{
	void *found = (void *)(uintptr_t)1;
	int status = -1;
	int code = query(base, &found, version, flags, &status);

	if (code != 0)
		found = NULL;
	printf("query %s %d %d: %d %d %s %s\n", base, version, (int)flags, code,
	    status, place(found), name_of(found));
	/* The status is optional. */
	if (query(base, &found, version, flags, NULL) != code)
		printf("without status it differs\n");
}

static void
query_all(void *library)
{
	void *symbol = dlsym(library, "cuGetProcAddress_v2");
	query_now query;

	memcpy(&query, &symbol, sizeof(symbol));
	for (size_t i = 0; i < sizeof(bases) / sizeof(*bases); i++)
		for (size_t k = 0; k < sizeof(versions) / sizeof(*versions);
		     k++)
			for (uint64_t flags = 0; flags <= 2; flags++)
				query_one(query, bases[i], versions[k], flags);
}

/* Each form of the function returns both forms of itself. */
static void
query_itself(void *library)
{
	void *symbol = dlsym(library, "cuGetProcAddress");
	void *found = NULL;
	query_old old;
	query_now now;

	memcpy(&old, &symbol, sizeof(symbol));
	printf("old: %d", old("cuGetProcAddress", &found, 12000, 0));
	memcpy(&now, &found, sizeof(found));
	printf(" %d", now("cuGetProcAddress", &found, 11030, 0, NULL));
	memcpy(&old, &found, sizeof(found));
	printf(" %d", old("cuMemAlloc", &found, 3020, 0));
	printf(" %s\n", place(found));
}

int
main(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (library == NULL)
		return 3;
	look_up_all(library);
	query_all(library);
	query_itself(library);
	return 0;
}
