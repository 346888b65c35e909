/*
 * Whether weir takes part in a call at all.
 *
 * It does not under a memory checker, which must see each allocation; in a
 * forked child; if weir itself has caused the call; and, after one message, if
 * weir cannot start.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os.h"
#include "driver/driver.h"
#include "preload/preload.h"
#include "streams/capture.h"

PRELOAD_THREAD int gate_in_weir;

/* ---- Enabled at all ---------------------------------------------------- */

/* compute-sanitizer passes the connection to its injected library in variables
 * with this prefix. */
static bool
under_checker(void)
{
	static const char prefix[] = "NV_SANITIZER_INJECTION";

	for (char **e = environ; e != NULL && *e != NULL; e++)
		if (strncmp(*e, prefix, sizeof(prefix) - 1) == 0)
			return true;
	return false;
}

static bool enabled;
static bool ipc;
static enum gate_free free_mode = FREE_DEFERRED;

/* Unset and empty mean `otherwise`, "0" means no, any other value yes. */
static bool
variable_set(const char *name, bool otherwise)
{
	const char *value = getenv(name);

	if (value == NULL || *value == '\0')
		return otherwise;
	return strcmp(value, "0") != 0;
}

static void
read_free_mode(void)
{
	const char *value = getenv("WEIR_PRELOAD_FREE");

	if (value == NULL || *value == '\0' || strcmp(value, "deferred") == 0)
		return;
	if (strcmp(value, "strict") == 0)
		free_mode = FREE_STRICT;
	else if (strcmp(value, "fast") == 0)
		free_mode = FREE_FAST;
	else if (enabled)
		log_write(LOG_ERROR,
		    "WEIR_PRELOAD_FREE: \"%s\" is not strict, deferred or "
		    "fast; "
		    "deferred is used",
		    value);
}

/* WEIR_DISABLE=0 enables weir even under a checker. */
static void
read_gate_settings(void)
{
	enabled = !variable_set("WEIR_DISABLE", under_checker());
	ipc = variable_set("WEIR_PRELOAD_IPC", false);
	read_free_mode();
}

/* On the path of every call: one load once the environment has been read. */
static void
need_environment(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static atomic_bool ready;

	if (atomic_load_explicit(&ready, memory_order_acquire))
		return;
	pthread_once(&once, read_gate_settings);
	atomic_store_explicit(&ready, true, memory_order_release);
}

bool
gate_enabled(void)
{
	need_environment();
	return enabled;
}

bool
gate_ipc(void)
{
	need_environment();
	return ipc;
}

enum gate_free
gate_free_mode(void)
{
	need_environment();
	return free_mode;
}

/* ---- Started ----------------------------------------------------------- */

enum state { NOT_STARTED, STARTED, FAILED };

static _Atomic(enum state) state;

static atomic_bool ending;

/* The program is ending, and with it the driver. From now on the driver is
 * asked at each call, because it knows when it has ended. */
static void
end_program(void)
{
	atomic_store(&ending, true);
	gate_changed();
}

/* The driver is initialised already. So end_program() runs before the driver's
 * own exit handlers. */
static void
expect_end(void)
{
	atexit(end_program);
}

static enum state
start_weir(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static atomic_bool told;
	enum weir_status status;

	os_watch_fork();
	pthread_once(&once, expect_end);
	capture_announce_all();
	gate_enter_weir();
	status = weir_init();
	gate_leave_weir();
	if (status == WEIR_OK) {
		atomic_store(&state, STARTED);
		return STARTED;
	}
	if (!atomic_exchange(&told, true))
		log_write(LOG_ERROR, "%s; the program runs without weir",
		    weir_last_error());
	atomic_store(&state, FAILED);
	return FAILED;
}

/* A program that calls weir directly, as with PyTorch's adapter, may never make
 * a call that weir serves. Then the preload starts here. */
bool
gate_started(void)
{
	if (gate_in_weir != 0 || os_forked())
		return false;
	enum state now = atomic_load(&state);
	if (now == NOT_STARTED && driver_peek() != NULL && gate_enabled())
		now = start_weir();
	return now == STARTED;
}

bool
gate_start(void)
{
	enum state now = atomic_load(&state);

	if (now == NOT_STARTED)
		now = start_weir();
	return now == STARTED;
}

const struct real *
gate_driver(void)
{
	if (gate_in_weir != 0 || !gate_enabled() || os_forked() ||
	    atomic_load(&state) == FAILED)
		return NULL;
	return real_driver();
}

bool
gate_admits(void)
{
	return gate_driver() != NULL;
}

/* ---- Changes ----------------------------------------------------------- */

_Atomic(uint64_t) gate_changes = 1;
atomic_uint gate_handles_ended;

void
gate_changed(void)
{
	atomic_fetch_add(&gate_changes, 1);
}

uint64_t
gate_change(void)
{
	uint64_t change = atomic_load(&gate_changes);

	return capture_any() || atomic_load(&ending) ? 0 : change;
}

void
gate_handles_changed(void)
{
	atomic_fetch_add(&gate_handles_ended, 1);
	gate_changed();
}
