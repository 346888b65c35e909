/*
 * Records of the memory that the driver serves to the program.
 *
 * Memory that the program frees twice, or that weir has not seen, has no record
 * and changes no count. A record is taken out of the table before the driver
 * frees its memory, because the driver may give another thread the same name
 * right after, and is put back if the driver refuses.
 *
 * Memory of cuMemAlloc(), managed memory, arrays and what is imported end with
 * their context. Memory of pools and of handles does not.
 */
#include "preload/serving/outside.h"

#include "allocator/allocator.h"
#include "base/log.h"
#include "base/meta.h"
#include "base/os.h"
#include "preload/ends.h"
#include "preload/lock.h"
#include "preload/tuning.h"
#include "streams/capture.h"

struct outside_record {
	struct outside_record *next;
	enum outside_space space;
	uint64_t name;
	size_t times; /* that it is open */
	int device;
	enum outside_kind kind;
	size_t bytes;
	CUcontext context;
};

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_TABLE);
static struct outside_record *records[OUTSIDE_BUCKETS]; /* under the lock */
static atomic_size_t n_records;

/* ---- The table ---------------------------------------------------------- */

static struct outside_record **
outside_place(enum outside_space space, uint64_t name) HOLDS(lock)
{
	struct outside_record **at =
	    &records[hash_bucket_of(name, OUTSIDE_BUCKETS)];

	while (*at != NULL && ((*at)->space != space || (*at)->name != name))
		at = &(*at)->next;
	return at;
}

static void
drop_record(struct outside_record *record)
{
	outside_release(record->device, record->kind, record->bytes);
	meta_free(record, sizeof(*record));
}

/* Insert a record. One with its name is left from memory whose end weir has not
 * seen. */
static void
insert_record(struct outside_record *record)
{
	struct outside_record **at;
	struct outside_record *stale;

	preload_lock(&lock);
	at = outside_place(record->space, record->name);
	stale = *at;
	record->next = stale != NULL ? stale->next : NULL;
	*at = record;
	preload_unlock(&lock);
	if (stale != NULL)
		drop_record(stale);
	else
		atomic_fetch_add(&n_records, 1);
}

struct outside_record *
outside_take(enum outside_space space, uint64_t name)
{
	struct outside_record **at;
	struct outside_record *record;

	if (atomic_load_explicit(&n_records, memory_order_relaxed) == 0 ||
	    !gate_admits())
		return NULL;
	preload_lock(&lock);
	at = outside_place(space, name);
	record = *at;
	if (record != NULL && record->times > 1) {
		record->times--;
		record = NULL;
	}
	if (record != NULL) {
		*at = record->next;
		atomic_fetch_sub(&n_records, 1);
	}
	preload_unlock(&lock);
	return record;
}

void
outside_taken(struct outside_record *record, CUresult code)
{
	if (record == NULL)
		return;
	if (code == CUDA_SUCCESS)
		drop_record(record);
	else
		insert_record(record);
}

void
outside_device_ends(int device)
{
	outside_measure(device, true);
}

void
outside_context_ends(CUcontext context)
{
	struct outside_record *gone = NULL;

	if (os_forked())
		return;
	preload_lock(&lock);
	for (int i = 0; i < OUTSIDE_BUCKETS; i++) {
		struct outside_record **at = &records[i];

		while (*at != NULL) {
			struct outside_record *record = *at;

			if (context == NULL || record->context != context) {
				at = &record->next;
				continue;
			}
			*at = record->next;
			record->next = gone;
			gone = record;
			atomic_fetch_sub(&n_records, 1);
		}
	}
	preload_unlock(&lock);
	while (gone != NULL) {
		struct outside_record *record = gone;

		gone = record->next;
		drop_record(record);
	}
}

/* ---- Contexts ----------------------------------------------------------- */

void
outside_measure(int device, bool now)
{
	static _Atomic(uint64_t) measured_ns[PRELOAD_DEVICES];
	uint64_t time_ns;
	uint64_t last;

	if (!outside_counts() || device < 0 || device >= PRELOAD_DEVICES ||
	    !gate_admits())
		return;
	time_ns = os_monotonic_ns();
	last = atomic_exchange(&measured_ns[device], time_ns);
	if (!now && last != 0 &&
	    time_ns - last < OUTSIDE_MEASURE_MS * UINT64_C(1000000)) {
		atomic_store(&measured_ns[device], last);
		return;
	}
	gate_enter_weir();
	allocator_measure_contexts(device);
	gate_leave_weir();
}

void
outside_contexts_changed(void)
{
	const struct real *real = outside_counts() ? gate_driver() : NULL;
	CUdevice device;

	if (real != NULL && real->cuCtxGetDevice(&device) == CUDA_SUCCESS)
		outside_measure(device, true);
}

/* ---- Claims ------------------------------------------------------------- */

bool
outside_make_room(int device)
{
	size_t freed = 0;

	if (!gate_started() || capture_any())
		return false;
	gate_enter_weir();
	weir_trim(device, 0, &freed);
	gate_leave_weir();
	return freed > 0;
}

/* Say which limit refused a call, and what holds the memory. */
static void
tell_refused(const char *call)
{
	static atomic_uint told;

	if (atomic_fetch_add(&told, 1) < OUTSIDE_REFUSALS)
		log_write(LOG_WARN, "%s refused: %s", call, weir_last_error());
}

static bool
reserve_once(int device, enum outside_kind kind, size_t bytes)
{
	enum weir_status status;

	gate_enter_weir();
	status = allocator_claim_outside(device, kind, bytes);
	gate_leave_weir();
	return status == WEIR_OK;
}

bool
outside_reserve(
    int device, enum outside_kind kind, size_t bytes, const char *call)
{
	/* A report shows the memory even if weir serves no request. */
	if (report_wanted())
		(void)gate_start();
	if (!outside_is_limited(kind))
		return outside_claim(device, kind, bytes, SIZE_MAX);
	outside_measure(device, false);
	if (reserve_once(device, kind, bytes))
		return true;
	outside_measure(device, true);
	if (reserve_once(device, kind, bytes) ||
	    (outside_make_room(device) && reserve_once(device, kind, bytes)))
		return true;
	tell_refused(call);
	if (report_wanted())
		report_count_failed();
	return false;
}

bool
outside_begin(struct outside_claim *claim, enum outside_kind kind, size_t bytes,
    const char *call)
{
	const struct real *real = gate_driver();
	CUdevice device;

	*claim = (struct outside_claim){
		.device = -1, .kind = kind, .bytes = bytes
	};
	if (real == NULL || bytes == 0 || bytes > WEIR_SIZE_MAX ||
	    real->cuCtxGetCurrent(&claim->context) != CUDA_SUCCESS ||
	    claim->context == NULL ||
	    real->cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 ||
	    device >= PRELOAD_DEVICES)
		return true;
	claim->record = meta_zalloc(sizeof(*claim->record));
	if (claim->record == NULL) /* no host memory to count it */
		return true;
	if (outside_reserve(device, kind, bytes, call)) {
		claim->device = device;
		return true;
	}
	meta_free(claim->record, sizeof(*claim->record));
	return false;
}

/* Take a claim back. */
static void
outside_cancel(struct outside_claim *claim)
{
	if (claim->device < 0)
		return;
	outside_drop(claim->device, claim->kind, claim->bytes);
	meta_free(claim->record, sizeof(*claim->record));
	claim->device = -1;
}

void
outside_end(struct outside_claim *claim, enum outside_space space,
    uint64_t name, CUresult code)
{
	if (claim->device < 0)
		return;
	if (code != CUDA_SUCCESS) {
		outside_cancel(claim);
		return;
	}
	outside_keep(claim->device, claim->kind, claim->bytes);
	*claim->record = (struct outside_record){ .space = space,
		.name = name,
		.times = 1,
		.device = claim->device,
		.kind = claim->kind,
		.bytes = claim->bytes,
		.context = claim->context };
	insert_record(claim->record);
}

/* The memory is there, whether the limit allows it or not. */
static void
claim_anyway(int device, enum outside_kind kind, size_t bytes)
{
	if (bytes <= WEIR_SIZE_MAX)
		(void)outside_claim(device, kind, bytes, SIZE_MAX);
}

void
outside_resize(struct outside_claim *claim, size_t bytes)
{
	if (claim->device < 0)
		return;
	claim_anyway(claim->device, claim->kind, bytes);
	outside_drop(claim->device, claim->kind, claim->bytes);
	claim->bytes = bytes;
}

void
outside_move(struct outside_claim *claim, int device)
{
	if (claim->device < 0 || claim->device == device)
		return;
	if (device < 0 || device >= PRELOAD_DEVICES) {
		outside_cancel(claim);
		return;
	}
	claim_anyway(device, claim->kind, claim->bytes);
	outside_drop(claim->device, claim->kind, claim->bytes);
	claim->device = device;
}

/* Is it open already? Then it is so once more. */
static bool
is_open_again(CUdeviceptr base)
{
	struct outside_record *record;

	preload_lock(&lock);
	record = *outside_place(OUTSIDE_ADDRESS, base);
	if (record != NULL)
		record->times++;
	preload_unlock(&lock);
	return record != NULL;
}

void
outside_opened(CUdeviceptr ptr, const char *call)
{
	struct outside_claim claim;
	CUdeviceptr base;
	size_t bytes;

	if (!gate_admits() ||
	    REAL(cuMemGetAddressRange_v2)(&base, &bytes, ptr) != CUDA_SUCCESS ||
	    is_open_again(ptr))
		return;
	(void)outside_begin(&claim, OUTSIDE_imported, bytes, call);
	outside_end(&claim, OUTSIDE_ADDRESS, ptr, CUDA_SUCCESS);
}

/* ---- Memory of graphs --------------------------------------------------- */

/* The driver has the sum of it, and keeps it when a graph ends. */
enum { GRAPH_MEM_RESERVED_CURRENT = 2 };

static atomic_bool graphs_have_memory;

void
outside_graphs_begin(void)
{
	if (gate_admits())
		atomic_store(&graphs_have_memory, true);
}

void
outside_graphs_changed(void)
{
	static _Atomic(void *) found;
	CUresult (*ask)(CUdevice, int, void *);
	const struct real *real;
	void *entry;
	int count;

	if (!atomic_load_explicit(&graphs_have_memory, memory_order_relaxed))
		return;
	real = gate_driver();
	entry = atomic_load(&found);
	if (entry == NULL && real != NULL) {
		entry = real_find("cuDeviceGetGraphMemAttribute");
		atomic_store(&found, entry);
	}
	if (real == NULL || entry == NULL ||
	    real->cuDeviceGetCount(&count) != CUDA_SUCCESS)
		return;
	ask = (CUresult(*)(CUdevice, int, void *))entry;
	for (int i = 0; i < count && i < PRELOAD_DEVICES; i++) {
		cuuint64_t bytes = 0;

		if (ask(i, GRAPH_MEM_RESERVED_CURRENT, &bytes) == CUDA_SUCCESS)
			outside_set(i, OUTSIDE_graphs, bytes);
	}
}
