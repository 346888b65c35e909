/*
 * The kind of each allocation, from the best evidence that a snapshot has: the
 * program's own text beside the event, then the ranges that it named (NVTX,
 * PyTorch's annotations), then a guess from the pool, the stack and the life,
 * by the rules of `weir fit`.
 */
import { AT_END, BEFORE } from "./model.js";

/* In the order of their colours. */
export const KINDS = ["parameters", "gradients", "optimiser's state",
	"activations", "workspaces", "graphs", "page-locked"];
const PARAMETERS = 0, GRADIENTS = 1, OPTIMISER = 2, ACTIVATIONS = 3,
	WORKSPACES = 4, GRAPHS = 5, PINNED = 6;

export const FROM_METADATA = 0, FROM_RANGE = 1, GUESSED = 2;
export const EVIDENCE = ["the program's metadata", "a range that it named",
	"guessed"];

/* Events of a life that is short enough for a workspace. */
const SHORT_LIFE = 8;

/* Words that name a kind, in the order in which they are looked for: an
 * "optimizer step on gradients" is the optimiser's. */
const WORDS = [
	[OPTIMISER, /optimi[sz]er|\boptim\b|\badamw?\b|momentum/i],
	[GRADIENTS, /\bgrad(ient)?s?\b/i],
	[ACTIVATIONS, /activation/i],
	[WORKSPACES, /workspace|scratch|temporar/i],
	[PARAMETERS, /\bparam(eter)?s?\b|\bweights?\b/i],
	[GRAPHS, /\b(cuda ?)?graphs?\b/i],
	[PINNED, /page.?locked|\bpinned\b/i],
];

/* The kind that a text names, or -1. */
export function kindOfText(text) {
	const words = text.replace(/[_#]+/g, " ");
	return WORDS.find(([, word]) => word.test(words))?.[0] ?? -1;
}

/* The innermost range at each event, as a number of model.spans, or -1. Ranges
 * are entered at their begins and left when their ends have passed. */
export function innermostSpans(model) {
	const at = new Int32Array(model.length).fill(-1), open = [];
	let next = 0;
	for (let p = 0; p < model.length; p++) {
		while (next < model.spans.length && model.spans[next].p0 <= p)
			open.push(next++);
		while (open.length && model.spans[open.at(-1)].p1 <= p)
			open.pop();
		at[p] = open.length ? open.at(-1) : -1;
	}
	return at;
}

/* For each stack: does it name an optimiser, or the backward pass? */
function stackWords(snap) {
	const c = snap.columns, n = c.node_parent.length;
	const frames = new Uint8Array(c.frame_name.length);
	for (let f = 0; f < frames.length; f++) {
		const { name, file } = snap.frame(f);
		if (/optim|Optimizer/.test(name) || /optim/.test(file))
			frames[f] |= 1;
		if (/Engine::|backward|AccumulateGrad/.test(name))
			frames[f] |= 2;
	}
	const nodes = new Uint8Array(n);
	for (let i = 1; i < n; i++)
		nodes[i] = frames[c.node_frame[i]] | nodes[c.node_parent[i]];
	return nodes;
}

/* Of each stack: the allocations in the trace, and how many of them ended. */
function freedShares(model) {
	const el = model.elements, n = model.columns.node_parent.length;
	const made = new Uint32Array(n), ended = new Uint32Array(n);
	for (let k = 0; k < el.n; k++) {
		if (el.flags[k] & BEFORE)
			continue;
		made[el.stack[k]]++;
		if (!(el.flags[k] & AT_END))
			ended[el.stack[k]]++;
	}
	return { made, ended };
}

class Guess {
	constructor(model) {
		this.model = model;
		this.words = stackWords(model.snap);
		this.shares = freedShares(model);
		const el = model.elements;
		this.parameterSizes = new Set();
		for (let k = 0; k < el.n; k++)
			if (this.lasts(k) && this.words[el.stack[k]] === 0)
				this.parameterSizes.add(el.size[k]);
	}

	/* A block lasts if it lives for most of the trace, or to its end when
	 * its stack keeps most of its blocks: a snapshot in the middle of a step
	 * ends with live activations, which earlier steps have freed. */
	lasts(k) {
		const { model } = this, el = model.elements, s = el.stack[k];
		if (el.end[k] - el.start[k] > model.length / 2)
			return true;
		return (el.flags[k] & AT_END) !== 0 &&
			2 * this.shares.ended[s] <= this.shares.made[s];
	}

	kind(k) {
		const { model } = this, el = model.elements, c = model.columns;
		if (model.device >= model.snap.pinnedFrom)
			return PINNED;
		const pool = el.pool[k];
		if (c.pool_first[pool] !== 0 || c.pool_second[pool] !== 0)
			return GRAPHS;
		const words = this.words[el.stack[k]], lasts = this.lasts(k);
		if (words & 1)
			return lasts ? OPTIMISER : WORKSPACES;
		if (lasts)
			return words & 2 ? GRADIENTS : PARAMETERS;
		if (el.end[k] - el.start[k] <= SHORT_LIFE)
			return WORKSPACES;
		return (words & 2 || el.stack[k] === 0) &&
			this.parameterSizes.has(el.size[k]) ? GRADIENTS :
			ACTIVATIONS;
	}
}

/*
 * The kind of each element of a model, and the evidence for it. The result is
 * kept in the model.
 */
export function kindsOf(model) {
	if (model.kinded)
		return model.kinded;
	const { elements: el, columns: c, snap } = model;
	const kind = new Uint8Array(el.n), evidence = new Uint8Array(el.n);
	const guess = new Guess(model), span = innermostSpans(model);
	const named = new Map();
	const ofString = (i) => {
		if (!named.has(i))
			named.set(i, kindOfText(snap.string(i)));
		return named.get(i);
	};
	for (let k = 0; k < el.n; k++) {
		const i = el.event[k];
		let found = i < 0 ? -1 : ofString(c.event_metadata[model.first + i]);
		evidence[k] = FROM_METADATA;
		if (found < 0 && i >= 0 && span[i] >= 0) {
			found = ofString(model.spans[span[i]].name);
			evidence[k] = FROM_RANGE;
			/* A range is a phase, in which temporaries come and go. */
			if (found === OPTIMISER && !guess.lasts(k))
				found = WORKSPACES;
		}
		if (found < 0) {
			found = guess.kind(k);
			evidence[k] = GUESSED;
		}
		kind[k] = found;
	}
	return model.kinded = { kind, evidence };
}

/* The bytes of each kind at a position, and those that are guessed. */
export function kindSums(model, p) {
	const { kind, evidence } = kindsOf(model), el = model.elements;
	const sums = KINDS.map(() => 0);
	let guessed = 0;
	for (let k = 0; k < el.n; k++) {
		if (el.start[k] > p || el.end[k] <= p)
			continue;
		sums[kind[k]] += el.size[k];
		guessed += evidence[k] === GUESSED ? el.size[k] : 0;
	}
	return { sums, guessed };
}
