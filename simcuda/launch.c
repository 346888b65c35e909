/*
 * The executable graphs that exist, and launches of them that start and end.
 */
#include <stdlib.h>

#include "simcuda/capture.h"

/* ---- executable graphs -------------------------------------------------- */

static struct exec *execs;
static bool guarded;

void
simcuda_guard_graphs(int on)
{
	gate_lock();
	guarded = on != 0;
	gate_unlock();
}

static bool
access_meets(const struct access *access, const struct range *range)
{
	size_t n = access_rows(access);

	for (size_t i = 0; i < n; i++) {
		struct access row = access_row(access, i);

		if (row.address < range->start + range->size &&
		    range->start < row.address + row.size)
			return true;
	}
	return false;
}

static bool
node_uses(const struct exec_node *node, const struct range *range)
{
	struct access accesses[SIM_ACCESSES];
	size_t n = action_accesses(&node->action, accesses);

	for (size_t i = 0; i < n; i++) {
		if (access_meets(&accesses[i], range))
			return true;
	}
	return false;
}

void
exec_check_unused(const struct range *range, const char *what)
{
	for (struct exec *e = execs; guarded && e != NULL; e = e->next) {
		for (size_t i = 0; i < e->n; i++) {
			if (!node_uses(&e->nodes[i], range))
				continue;
			violation("%s of %#llx (%zu bytes) that a graph works "
				  "with",
			    what, (unsigned long long)range->start,
			    range->size);
			return;
		}
	}
}

void
exec_list(struct exec *exec)
{
	exec->next = execs;
	execs = exec;
}

static void
forget_exec(const struct exec *exec)
{
	struct exec **link = &execs;

	while (*link != exec)
		link = &(*link)->next;
	*link = exec->next;
}

void
exec_drop(struct exec *exec)
{
	if (--exec->refs > 0)
		return;
	forget_exec(exec);
	for (size_t i = 1; i <= exec->n_lines; i++)
		line_fini(&exec->lines[i]);
	point_drop(&exec->last);
	mark_drop(exec->last_mark);
	graph_drop(exec->graph);
	free(exec->lines);
	free(exec->line_of);
	free(exec->nodes);
	free(exec);
}

/* ---- launching ---------------------------------------------------------- */

uint64_t
launch_start(struct launch *launch, uint64_t start_ns)
{
	struct graph *graph = launch->exec->graph;
	size_t n = launch->exec->n;
	uint64_t *ends = sim_alloc((n + 1) * sizeof(uint64_t));
	uint64_t end_ns = start_ns;

	for (size_t i = 0; i < n; i++) {
		struct node *node = graph->nodes[i];
		struct op *op = launch->ops[i];

		ends[i] = start_ns;
		for (size_t j = 0; j < node->n_deps; j++) {
			if (ends[i] < ends[node->deps[j]->index])
				ends[i] = ends[node->deps[j]->index];
		}
		ends[i] += op->action.duration_ns;
		if (end_ns < ends[i])
			end_ns = ends[i];
		launch->ops[i] = NULL;
		if (op->action.kind == OP_MARK) {
			mark_resolve(op->action.mark, ends[i]);
			op_free(op);
		} else {
			op_schedule(op, ends[i]);
		}
	}
	free(ends);
	return end_ns;
}

void
launch_free(struct launch *launch)
{
	for (size_t i = 0; i < launch->exec->n; i++) {
		if (launch->ops[i] != NULL)
			op_free(launch->ops[i]);
	}
	exec_drop(launch->exec);
	free(launch->ops);
	free(launch);
}
