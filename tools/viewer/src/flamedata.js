/*
 * Weights of stacks, and the visible part of the tree of calls.
 */
import { hierarchy, partition } from "d3-hierarchy";
import { argmax } from "./series.js";

/* The weights that a reader may choose: [id, name]. */
export const WEIGHTS = [
	["peak", "In use at the peak"],
	["cursor", "In use at the mark"],
	["bytes", "Bytes allocated in view"],
	["count", "Allocations in view"],
	["kept", "Allocated in view, in use at its end"],
	["wait", "Waiting bytes at their most"],
];

/* The weight of each node without its children. */
export function ownWeights(model, kind, { p0, p1, mark }) {
	const el = model.elements;
	const own = new Float64Array(model.columns.node_parent.length);
	const live = (p) => {
		for (let k = 0; k < el.n; k++)
			if (el.start[k] <= p && el.end[k] > p)
				own[el.stack[k]] += el.size[k];
	};
	switch (kind) {
	case "peak":
		live(model.peak);
		break;
	case "cursor":
		live(Math.min(model.length - 1, Math.floor(mark)));
		break;
	case "wait": {
		const p = argmax(model.pending.values);
		for (let k = 0; k < el.n; k++)
			if (el.freed[k] <= p && el.end[k] > p)
				own[el.stack[k]] += el.size[k];
		break;
	}
	case "kept":
		for (let k = 0; k < el.n; k++)
			if (isKept(el, k, p0, p1))
				own[el.stack[k]] += el.size[k];
		break;
	default:
		for (let k = 0; k < el.n; k++)
			if (el.event[k] >= p0 && el.event[k] < p1)
				own[el.stack[k]] += kind === "count" ? 1 : el.size[k];
	}
	return own;
}

/* True if an element was allocated between two positions and is in use at the
 * second. */
export function isKept(el, k, p0, p1) {
	return el.event[k] >= p0 && el.event[k] < p1 && el.end[k] >= p1;
}

/*
 * The tree of calls, outermost first. Frames in `hidden` are left out: their
 * callers get their weight and their callees. Nodes below the share `least` of
 * the total are left out too, so that a picture has at most some thousand nodes
 * for any trace. Returns d3's partition with x from 0 to 1.
 */
export function flameTree(model, own, hidden, least = 1 / 2500) {
	const { node_parent: parent, node_frame: frame } = model.columns;
	const n = parent.length;
	const total = Float64Array.from(own);
	for (let i = n - 1; i > 0; i--)
		total[parent[i]] += total[i];
	const root = { node: 0, frame: -1, value: total[0], children: new Map() };
	const place = new Array(n);
	place[0] = root;
	const floor = total[0] * least;
	for (let i = 1; i < n; i++) {
		const up = place[parent[i]];
		if (!up || total[i] <= floor || total[i] === 0)
			continue;
		if (hidden[frame[i]]) {
			place[i] = up;
			continue;
		}
		let node = up.children.get(frame[i]);
		if (!node) {
			node = { node: i, frame: frame[i], value: 0, parent: up,
				children: new Map() };
			up.children.set(frame[i], node);
		}
		node.value += total[i];
		place[i] = node;
	}
	const tree = hierarchy(root, (d) => [...d.children.values()]);
	/* The values are sums over subtrees already. */
	tree.each((d) => {
		d.value = d.data.value;
	});
	tree.sort((a, b) => b.value - a.value);
	return partition().size([1, 1])(tree);
}
