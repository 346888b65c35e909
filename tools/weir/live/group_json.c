/*
 * Groups as JSON.
 */
#include "tools/weir/live/group_json.h"

#include <jansson.h>

#include "tools/weir/tool.h"

static json_t *
member_json(const struct ledger_slot *slot)
{
	bool waits = atomic_load(&slot->since_ns) != 0;
	char program[LEDGER_PROGRAM];

	ledgers_program(slot, program);
	return json_pack("{sI so ss sI sI sI sI sI sI}", "pid",
	    (json_int_t)atomic_load(&slot->pid), "program",
	    json_of_text(program), "state", ledgers_state(slot), "priority",
	    (json_int_t)atomic_load(&slot->priority), "lease_bytes",
	    (json_int_t)atomic_load(&slot->lease), "guarantee_bytes",
	    (json_int_t)atomic_load(&slot->guarantee), "idle_bytes",
	    (json_int_t)atomic_load(&slot->idle), "waits_for_bytes",
	    (json_int_t)(waits ? atomic_load(&slot->want) : 0), "waits_ms",
	    (json_int_t)(ledgers_wait_ns(slot) / 1000000));
}

json_t *
group_json(const struct found_ledger *found)
{
	const struct ledger *ledger = found->file.ledger;
	json_t *members = json_array();

	for (int i = 0; i < LEDGER_MEMBERS; i++)
		if (atomic_load(&ledger->slots[i].pid) != 0)
			json_array_append_new(
			    members, member_json(&ledger->slots[i]));
	return json_pack("{ss ss sI sI sI so}", "group", found->group,
	    "device_uuid", found->uuid, "device_bytes",
	    (json_int_t)ledger->total_bytes, "limit_bytes",
	    (json_int_t)atomic_load(&ledger->limit), "charged_bytes",
	    (json_int_t)ledger_charged(ledger), "members", members);
}
