/*
 * Weights of stacks, and the visible part of the tree of calls.
 *
 * A weight may be a change, between two moments or two files: then a stack has a
 * signed weight, and the tree is as wide as what came and what went together.
 */
import { hierarchy, partition } from "d3-hierarchy";
import { argmax } from "./series.js";
import { STATE_INACTIVE } from "./model.js";
import { noiseOf } from "./sites.js";

/* The weights that a reader may choose: [id, name]. */
export const WEIGHTS = [
	["peak", "In use at the peak"],
	["cursor", "In use at the mark"],
	["bytes", "Bytes allocated in view"],
	["count", "Allocations in view"],
	["kept", "Allocated in view, in use at its end"],
	["wait", "Waiting bytes at their most"],
	["change", "Change from the begin to the end of the view"],
];
/* This one is there if the page has an earlier snapshot. */
export const SINCE = ["since", "Change since the earlier snapshot"];

/* True if an element counts for a weight, which is not a change. */
function weighs(model, kind, { p0, p1, mark }) {
	const el = model.elements;
	const live = (p) => (k) => el.start[k] <= p && el.end[k] > p;

	switch (kind) {
	case "peak":
		return live(model.peak);
	case "cursor":
		return live(Math.min(model.length - 1, Math.floor(mark)));
	case "wait": {
		const p = argmax(model.pending.values);
		return (k) => el.freed[k] <= p && el.end[k] > p;
	}
	case "kept":
		return (k) => isKept(el, k, p0, p1);
	default:
		return (k) => el.event[k] >= p0 && el.event[k] < p1;
	}
}

/* The weight of each node without its children; and by node, the weight of
 * each key, for which `keyOf` is asked. A change has no keys. */
export function ownWeights(model, kind, range, keyOf) {
	const el = model.elements, weights = new Map();
	const own = new Float64Array(model.columns.node_parent.length);
	if (kind === "change") {
		const { p0, p1 } = range;
		const at = (k, p) => Number(el.start[k] <= p && el.end[k] > p);
		const last = Math.min(p1, model.length - 1);
		for (let k = 0; k < el.n; k++)
			own[el.stack[k]] += el.size[k] * (at(k, last) - at(k, p0));
		return { own, weights };
	}
	const counts = weighs(model, kind, range);
	for (let k = 0; k < el.n; k++) {
		if (!counts(k))
			continue;
		const node = el.stack[k], by = kind === "count" ? 1 : el.size[k];
		own[node] += by;
		if (!weights.has(node))
			weights.set(node, new Map());
		const keys = weights.get(node), key = keyOf(k);
		keys.set(key, (keys.get(key) ?? 0) + by);
	}
	return { own, weights };
}

/* True if an element was allocated between two positions and is in use at the
 * second. */
export function isKept(el, k, p0, p1) {
	return el.event[k] >= p0 && el.event[k] < p1 && el.end[k] >= p1;
}

/* The calls of two snapshots in one tree. Frames with one name and place are
 * one; `columns` has node_parent and node_frame as a snapshot's, and frames from
 * `added` on are `extra`. `own` has the change of each node, and `noise` is
 * noiseOf() for all frames. */
export function changeSince(snap, device) {
	const { before } = snap, c = snap.columns;
	const parent = Array.from(c.node_parent), frame = Array.from(c.node_frame);
	const added = c.frame_name.length, extra = [];
	const noise = Array.from(noiseOf(snap)), noiseBefore = noiseOf(before);
	const text = ({ name, file, line }) => JSON.stringify([name, file, line]);
	const frames = new Map(), children = new Map();
	for (let f = 0; f < added; f++)
		if (!frames.has(text(snap.frame(f))))
			frames.set(text(snap.frame(f)), f);
	const child = (up, key) => `${up},${key}`;
	for (let n = 1; n < parent.length; n++)
		children.set(child(parent[n], frames.get(text(snap.frame(frame[n])))),
		    n);
	const b = before.columns, nodeOf = [0];
	for (let n = 1; n < b.node_parent.length; n++) {
		const is = before.frame(b.node_frame[n]), key = text(is);
		let f = frames.get(key);
		if (f === undefined) {
			f = added + extra.length;
			extra.push(is);
			noise.push(noiseBefore[b.node_frame[n]]);
			frames.set(key, f);
		}
		const up = nodeOf[b.node_parent[n]];
		let node = children.get(child(up, f));
		if (node === undefined) {
			node = parent.length;
			parent.push(up);
			frame.push(f);
			children.set(child(up, f), node);
		}
		nodeOf.push(node);
	}
	const own = new Float64Array(parent.length);
	const sum = (of, map, sign, device) => {
		for (let s = 0; s < of.segment_addr.length; s++) {
			if (of.segment_device[s] !== device)
				continue;
			const first = of.segment_first[s];
			for (let i = first; i < first + of.segment_blocks[s]; i++)
				if (of.block_state[i] !== STATE_INACTIVE)
					own[map(of.block_stack[i])] += sign *
						(of.block_requested[i] || of.block_size[i]);
		}
	};
	sum(c, (n) => n, 1, device);
	sum(b, (n) => nodeOf[n], -1, snap.deviceBefore(device));
	return { columns: { node_parent: parent, node_frame: frame }, own, added,
		extra, noise };
}

/* The calls with the innermost first: a tree in which the callers of a frame
 * are below it. Returns a root as flameTree() makes it. */
function invertedRoot({ node_parent: parent, node_frame: frame }, own, hidden) {
	const root = { frame: -1, value: 0, net: 0, children: new Map() };
	for (let i = 0; i < own.length; i++) {
		if (own[i] === 0)
			continue;
		let at = root;
		at.value += Math.abs(own[i]);
		at.net += own[i];
		for (let n = i; n > 0; n = parent[n]) {
			if (hidden[frame[n]])
				continue;
			let next = at.children.get(frame[n]);
			if (!next)
				at.children.set(frame[n], next = { frame: frame[n],
					value: 0, net: 0, children: new Map() });
			at = next;
			at.value += Math.abs(own[i]);
			at.net += own[i];
		}
	}
	return root;
}

function callersRoot({ node_parent: parent, node_frame: frame }, own, hidden,
    least) {
	const n = parent.length;
	const total = Float64Array.from(own, Math.abs), net = Float64Array.from(own);
	for (let i = n - 1; i > 0; i--) {
		total[parent[i]] += total[i];
		net[parent[i]] += net[i];
	}
	const root = { frame: -1, value: total[0], net: net[0],
		children: new Map() };
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
		if (!node)
			up.children.set(frame[i], node = { frame: frame[i], value: 0,
				net: 0, children: new Map() });
		node.value += total[i];
		node.net += net[i];
		place[i] = node;
	}
	return root;
}

/*
 * The tree of calls, outermost first, or innermost first if `inverted`. Frames
 * in `hidden` are left out: their callers get their weight and their callees.
 * Nodes below the share `least` of the total are left out too, so that a picture
 * has at most some thousand nodes for any trace. A node's `value` is its width,
 * and `net` the sum with signs. Returns d3's partition with x from 0 to 1.
 */
export function flameTree(columns, own, hidden, { least = 1 / 2500,
	inverted = false } = {}) {
	const root = inverted ? invertedRoot(columns, own, hidden) :
		callersRoot(columns, own, hidden, least);
	const floor = root.value * least;
	const tree = hierarchy(root, (d) => [...d.children.values()].filter((c) =>
		c.value > floor));
	/* The values are sums over subtrees already. */
	tree.each((d) => {
		d.value = d.data.value;
	});
	tree.sort((a, b) => b.value - a.value);
	return partition().size([1, 1])(tree);
}

/*
 * The key that has more than half of the bytes of each frame and path in a
 * tree, or -1: the frame has that key's colour. `weights` are those of ownWeights().
 */
export function keysOfTree(tree, { node_parent: parent, node_frame: frame },
    hidden, inverted, weights) {
	const sums = new Map();
	for (const [node, byKey] of weights) {
		const path = [];
		for (let n = node; n > 0; n = parent[n])
			if (!hidden[frame[n]])
				path.push(frame[n]);
		if (!inverted)
			path.reverse();
		let at = tree.data;
		const add = (to) => {
			const own = sums.get(to) ?? new Map();
			for (const [key, sum] of byKey)
				own.set(key, (own.get(key) ?? 0) + sum);
			sums.set(to, own);
		};
		add(at);
		for (const f of path) {
			at = at.children.get(f);
			if (!at)
				break;
			add(at);
		}
	}
	tree.each((d) => {
		d.key = -1;
		for (const [key, sum] of sums.get(d.data) ?? [])
			if (sum > d.data.value / 2)
				d.key = key;
	});
}
