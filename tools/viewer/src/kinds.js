/*
 * The kind of each allocation, from the best evidence that a snapshot has: the
 * program's own text beside the event, then the ranges that it named (NVTX,
 * PyTorch's annotations), then a guess from the pool, the stack and the life,
 * by the rules of `weir fit`.
 */
import { ACTION, BEFORE } from "./model.js";

/* In the order of their colours. */
export const KINDS = ["parameters", "gradients", "optimiser's state",
	"activations", "workspaces", "graphs", "page-locked"];
const PARAMETERS = 0, GRADIENTS = 1, OPTIMISER = 2, ACTIVATIONS = 3,
	WORKSPACES = 4, GRAPHS = 5, PINNED = 6;

export const FROM_METADATA = 0, FROM_RANGE = 1, GUESSED = 2;
export const EVIDENCE = ["the program's metadata", "a range that it named",
	"guessed"];

/* Allocations in a life that is short enough for a workspace. */
const SHORT_LIFE = 3;

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

/* Words that a stack has. */
const OF_OPTIMISER = 1, OF_BACKWARD = 2, OF_MODULE = 4;
const STACK_WORDS = [
	[OF_OPTIMISER, /optim|Optimizer/], [OF_BACKWARD, /Engine::|backward/],
	[OF_MODULE, /_call_impl/],
];

/* The words of each stack. */
function stackWords(snap) {
	const c = snap.columns, n = c.node_parent.length;
	const frames = new Uint8Array(c.frame_name.length);
	for (let f = 0; f < frames.length; f++) {
		const { name, file } = snap.frame(f);
		for (const [bit, word] of STACK_WORDS)
			if (word.test(name) || word.test(file))
				frames[f] |= bit;
	}
	const nodes = new Uint8Array(n);
	for (let i = 1; i < n; i++)
		nodes[i] = frames[c.node_frame[i]] | nodes[c.node_parent[i]];
	return nodes;
}

/* For each position the number of allocations before it. */
function countMade(model) {
	const made = new Uint32Array(model.length + 1);
	for (let p = 0; p < model.length; p++)
		made[p + 1] = made[p] + (p < model.events &&
			model.kind(p) === ACTION.ALLOC ? 1 : 0);
	return made;
}

/* A guess by the rules of tools/weir/fit/fit_judge.c. */
class Guess {
	constructor(model) {
		this.model = model;
		this.words = stackWords(model.snap);
		this.made = countMade(model);
		this.all = this.made[model.length];
		this.countShares();
		const el = model.elements;
		this.parameterSizes = new Set();
		for (let k = 0; k < el.n; k++)
			if (this.lasts(k) && this.kind(k) === PARAMETERS)
				this.parameterSizes.add(el.size[k]);
	}

	/* For each stack: the allocations in the trace, and how many of them are
	 * freed. */
	countShares() {
		const { elements: el, columns: c } = this.model;
		const n = c.node_parent.length;
		this.stackMade = new Uint32Array(n);
		this.stackFreed = new Uint32Array(n);
		for (let k = 0; k < el.n; k++) {
			if (el.flags[k] & BEFORE)
				continue;
			this.stackMade[el.stack[k]]++;
			if (this.isFreed(k))
				this.stackFreed[el.stack[k]]++;
		}
	}

	/* True for a block that is freed before the last allocation. */
	isFreed(k) {
		return this.made[this.model.elements.freed[k]] < this.all;
	}

	/* Allocations in a block's life, with its own. */
	life(k) {
		const el = this.model.elements;
		return this.made[el.freed[k]] - this.made[el.start[k]];
	}

	/* A block lasts if it lives for most of the trace, or to its end when
	 * its stack keeps most of its blocks: a snapshot in the middle of a step
	 * ends with live activations, which earlier steps have freed. */
	lasts(k) {
		const el = this.model.elements, s = el.stack[k];
		if (this.life(k) > Math.floor(this.all / 2))
			return true;
		if (this.isFreed(k))
			return false;
		return (el.flags[k] & BEFORE) !== 0 || s === 0 ||
			2 * this.stackFreed[s] <= this.stackMade[s];
	}

	/* The kind of a block that lasts. A module's call makes no parameters;
	 * what it makes may be alive at the end of a trace that ends within a
	 * step. */
	lastingKind(k) {
		const el = this.model.elements, words = this.words[el.stack[k]];
		if (words & OF_OPTIMISER)
			return OPTIMISER;
		if (words & OF_BACKWARD)
			return GRADIENTS;
		return el.flags[k] & BEFORE || !(words & OF_MODULE) ?
			PARAMETERS : ACTIVATIONS;
	}

	kind(k) {
		const { model } = this, el = model.elements, c = model.columns;
		if (model.device >= model.snap.pinnedFrom)
			return PINNED;
		const pool = el.pool[k], words = this.words[el.stack[k]];
		if (c.pool_first[pool] !== 0 || c.pool_second[pool] !== 0)
			return GRAPHS;
		if (this.lasts(k))
			return this.lastingKind(k);
		if (words & OF_OPTIMISER || this.life(k) <= SHORT_LIFE)
			return WORKSPACES;
		return (words & OF_BACKWARD || el.stack[k] === 0) &&
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
