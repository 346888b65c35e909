/*
 * The history of one device's memory, from the events of a snapshot and its
 * final state.
 *
 * An *element* is the life of one allocation at one address, from the event
 * that begins it to the event that ends it. A *range* is memory that was held
 * from the driver for a time: a segment, or a mapped part of an expandable
 * segment. Event i is at position i, and its effect begins there. The end of the
 * trace is position `length`. Elements and ranges that are older than the first
 * event begin at 0.
 */
import { Series, countUpTo } from "./series.js";
import { Ranges } from "./ranges.js";

export const STATE_INACTIVE = 0, STATE_ACTIVE = 1, STATE_PENDING = 2;

/* Flags of elements. */
export const BEFORE = 1;    /* older than the first event */
export const AT_END = 2;    /* part of the final state */
export const BROKEN = 4;    /* the trace lacks its end */

const CHUNK = 1024;
const GRANULE = 512;

function roundUp(size) {
	return Math.max(GRANULE, Math.ceil(size / GRANULE) * GRANULE);
}

/* Elements, as one array for each field. Elements of the trace and elements
 * that prove to be older are collected apart, so that the older ones are
 * first in the end. */
class Elements {
	constructor(capacity) {
		this.n = 0;
		this.start = new Int32Array(capacity);
		this.end = new Int32Array(capacity);
		this.freed = new Int32Array(capacity);
		this.freeStack = new Uint32Array(capacity);
		this.addr = new Float64Array(capacity);
		this.size = new Float64Array(capacity);
		this.held = new Float64Array(capacity);
		this.stream = new Uint32Array(capacity);
		this.stack = new Uint32Array(capacity);
		this.pool = new Uint32Array(capacity);
		this.flags = new Uint8Array(capacity);
		this.event = new Int32Array(capacity);
	}
	add(event, start, addr, size, stream, stack, pool, flags) {
		const i = this.n++;
		this.event[i] = event;
		this.start[i] = start;
		this.end[i] = this.freed[i] = -1;
		this.addr[i] = addr;
		this.size[i] = size;
		this.held[i] = roundUp(size);
		this.stream[i] = stream;
		this.stack[i] = stack;
		this.pool[i] = pool;
		this.flags[i] = flags;
		return i;
	}
	/* The elements of `older`, followed by these. */
	after(older) {
		const all = new Elements(older.n + this.n);
		for (const key of Object.keys(this)) {
			if (key === "n")
				continue;
			all[key].set(older[key].subarray(0, older.n));
			all[key].set(this[key].subarray(0, this.n), older.n);
		}
		all.n = older.n + this.n;
		return all;
	}
}

const code = {
	alloc: 0, free_requested: 1, free_completed: 2, segment_alloc: 3,
	segment_free: 4, segment_map: 5, segment_unmap: 6, snapshot: 7, oom: 8,
	free: 2,
};
export const OTHER = 9;
export const ACTION = {
	ALLOC: 0, FREE_REQUESTED: 1, FREE_COMPLETED: 2, SEGMENT_ALLOC: 3,
	SEGMENT_FREE: 4, SEGMENT_MAP: 5, SEGMENT_UNMAP: 6, SNAPSHOT: 7, OOM: 8,
};

/* Joins allocations with their ends. */
class Pairing {
	constructor(model) {
		this.m = model;
		const n = model.length;
		this.now = new Elements(n + 1);
		this.before = new Elements(n + model.finalBlocks.length + 1);
		this.live = new Map(); /* address to index, or -index - 1 if older */
		this.broken = 0;
	}
	side(ref) {
		return ref >= 0 ? [this.now, ref] : [this.before, -ref - 1];
	}
	older(addr, size, stream, stack, pool) {
		const i = this.before.add(-1, 0, addr, size, stream, stack, pool,
		    BEFORE);
		this.live.set(addr, -i - 1);
		return -i - 1;
	}
	alloc(i, addr, size, stream, stack, pool) {
		const old = this.live.get(addr);
		if (old !== undefined) {
			const [els, k] = this.side(old);
			els.end[k] = i;
			if (els.freed[k] < 0) {
				els.flags[k] |= BROKEN;
				this.broken++;
			}
		}
		this.live.set(addr, this.now.add(i, i, addr, size, stream, stack, pool,
		    0));
	}
	request(i, addr, size, stream, stack, pool) {
		const ref = this.live.get(addr) ??
			this.older(addr, size, stream, 0, pool);
		const [els, k] = this.side(ref);
		els.freed[k] = i;
		els.freeStack[k] = stack;
	}
	complete(i, addr, size, stream, stack, pool) {
		const ref = this.live.get(addr) ??
			this.older(addr, size, stream, 0, pool);
		const [els, k] = this.side(ref);
		/* A history may begin between the two events of a free. */
		if (els.freed[k] < 0) {
			els.freed[k] = els.flags[k] & BEFORE ? 0 : i;
			els.freeStack[k] = stack;
		} else if (els.freed[k] === i - 1) {
			els.freed[k] = i; /* both events at once: it never waited */
		}
		els.end[k] = i;
		this.live.delete(addr);
	}
	/* Add a block of the final state that is in use or pending. */
	final(block) {
		let ref = this.live.get(block.addr);
		if (ref === undefined) {
			ref = this.older(block.addr, block.requested || block.size,
			    block.stream, block.stack, block.pool);
		}
		const [els, k] = this.side(ref);
		els.flags[k] |= AT_END;
		els.held[k] = block.size;
		els.pool[k] = block.pool;
		if (els.stack[k] === 0)
			els.stack[k] = block.stack;
		if (block.state === STATE_PENDING && els.freed[k] < 0)
			els.freed[k] = els.start[k];
	}
	finish(length) {
		for (const ref of this.live.values()) {
			const [els, k] = this.side(ref);
			els.end[k] = length;
		}
		for (const els of [this.now, this.before])
			for (let k = 0; k < els.n; k++)
				if (els.freed[k] < 0)
					els.freed[k] = els.end[k];
		return this.now.after(this.before);
	}
}

export class Model {
	constructor(snap, device) {
		const c = snap.columns;
		this.snap = snap;
		this.device = device;
		this.first = snap.eventStart[device];
		this.events = snap.deviceEvents[device];
		this.length = Math.max(1, this.events);
		this.kinds = snap.actions.map((a) => code[a] ?? OTHER);
		this.columns = c;
	}

	kind(i) {
		return this.kinds[this.columns.event_action[this.first + i]];
	}
	actionName(i) {
		return this.snap.actions[this.columns.event_action[this.first + i]];
	}

	/* Read the segments and blocks of the final state. */
	readFinal() {
		const c = this.columns;
		this.finalBlocks = [];
		this.finalSegments = [];
		for (let s = 0; s < c.segment_addr.length; s++) {
			if (c.segment_device[s] !== this.device)
				continue;
			const segment = {
				addr: c.segment_addr[s], size: c.segment_size[s],
				stream: c.segment_stream[s], stack: c.segment_stack[s],
				expandable: c.segment_expandable[s] === 1,
				small: c.segment_small[s] === 1, pool: c.segment_pool[s],
				free: 0, largest: 0,
			};
			const first = c.segment_first[s];
			for (let b = first; b < first + c.segment_blocks[s]; b++) {
				const state = c.block_state[b], size = c.block_size[b];
				if (state === STATE_INACTIVE) {
					segment.free += size;
					segment.largest = Math.max(segment.largest, size);
					continue;
				}
				this.finalBlocks.push({
					addr: c.block_addr[b], size,
					requested: c.block_requested[b], state,
					stack: c.block_stack[b], stream: c.block_stream[b],
					pool: segment.pool,
				});
			}
			this.finalSegments.push(segment);
		}
	}

	pair() {
		const c = this.columns, first = this.first;
		const p = new Pairing(this);
		let completes = false;
		for (let i = 0; i < this.events && !completes; i++)
			completes = this.kind(i) === ACTION.FREE_COMPLETED;
		for (let i = 0; i < this.events; i++) {
			const e = first + i, kind = this.kind(i);
			if (kind > ACTION.FREE_COMPLETED)
				continue;
			const args = [i, c.event_addr[e], c.event_size[e],
				c.event_stream[e], c.event_stack[e], c.event_pool[e]];
			if (kind === ACTION.ALLOC)
				p.alloc(...args);
			else if (kind === ACTION.FREE_COMPLETED || !completes)
				p.complete(...args);
			else
				p.request(...args);
		}
		for (const block of this.finalBlocks)
			p.final(block);
		this.elements = p.finish(this.length);
		this.broken = p.broken;
		const el = this.elements, chunks = Math.ceil(el.n / CHUNK);
		this.chunkEnd = new Int32Array(chunks);
		/* Classes of sizes, four for each doubling, by which the largest
		 * elements are chosen. */
		this.sizeClass = Uint8Array.from(el.size.subarray(0, el.n),
		    (size) => Math.log2(Math.max(1, size)) * 4);
		for (let i = 0; i < el.n; i++) {
			const k = Math.floor(i / CHUNK);
			this.chunkEnd[k] = Math.max(this.chunkEnd[k], el.end[i]);
		}
	}

	/* Compute the bytes in use and pending after each event, in all and for
	 * each stream. */
	count() {
		const el = this.elements, n = this.length;
		const active = new Float64Array(n + 1), pending = new Float64Array(n + 1);
		const blocks = new Float64Array(n + 1);
		for (let k = 0; k < el.n; k++) {
			active[el.start[k]] += el.size[k];
			active[el.end[k]] -= el.size[k];
			blocks[el.start[k]]++;
			blocks[el.end[k]]--;
			if (el.freed[k] < el.end[k]) {
				pending[el.freed[k]] += el.size[k];
				pending[el.end[k]] -= el.size[k];
			}
		}
		for (let i = 1; i <= n; i++) {
			active[i] += active[i - 1];
			pending[i] += pending[i - 1];
			blocks[i] += blocks[i - 1];
		}
		this.active = new Series(active.subarray(0, n));
		this.pending = new Series(pending.subarray(0, n));
		this.blocks = new Series(blocks.subarray(0, n));
		this.reserved = new Series(this.ranges.reserved(n));
		this.countStreams();
	}

	/* The begin (3k), the free (3k + 1) and the end (3k + 2) of each element
	 * k, sorted by position. */
	steps() {
		const el = this.elements;
		const from = new Uint32Array(this.length + 2);
		const place = (visit) => {
			for (let k = 0; k < el.n; k++) {
				visit(el.start[k], 3 * k);
				if (el.freed[k] < el.end[k])
					visit(el.freed[k], 3 * k + 1);
				visit(el.end[k], 3 * k + 2);
			}
		};
		place((p) => from[p + 1]++);
		for (let i = 1; i < from.length; i++)
			from[i] += from[i - 1];
		const order = new Uint32Array(from[this.length + 1]);
		place((p, step) => order[from[p]++] = step);
		return order;
	}

	countStreams() {
		const el = this.elements;
		const lanes = new Map();
		for (let k = 0; k < el.n; k++) {
			let lane = lanes.get(el.stream[k]);
			if (!lane)
				lanes.set(el.stream[k], lane = { stream: el.stream[k], blocks: 0,
					total: 0, a: 0, p: 0, at: [], active: [], pending: [] });
			lane.blocks++;
			lane.total += el.size[k];
		}
		for (const step of this.steps()) {
			const k = Math.floor(step / 3), what = step % 3;
			const lane = lanes.get(el.stream[k]), size = el.size[k];
			const at = [el.start, el.freed, el.end][what][k];
			if (what === 0)
				lane.a += size;
			else if (what === 1)
				lane.p += size;
			else {
				lane.a -= size;
				lane.p -= el.freed[k] < at ? size : 0;
			}
			if (lane.at.at(-1) !== at) {
				lane.at.push(at);
				lane.active.push(0);
				lane.pending.push(0);
			}
			lane.active[lane.active.length - 1] = lane.a;
			lane.pending[lane.pending.length - 1] = lane.p;
		}
		this.streams = [...lanes.values()].map((lane) => {
			const at = Float64Array.from(lane.at);
			return {
				stream: lane.stream, total: lane.total, blocks: lane.blocks,
				active: new Series(Float64Array.from(lane.active), at),
				pending: new Series(Float64Array.from(lane.pending), at),
			};
		}).sort((a, b) => b.active.max - a.active.max);
	}

	/* Compute the vertical place of each element: its address, without the
	 * gaps between regions. */
	place() {
		this.regions = this.ranges.regions(this.elements);
		const el = this.elements;
		el.y = new Float64Array(el.n);
		for (let k = 0; k < el.n; k++)
			el.y[k] = this.regions.y(el.addr[k]);
	}

	readMarks() {
		const c = this.columns;
		this.marks = { oom: [], driver: [] };
		for (let i = 0; i < this.events; i++) {
			const kind = this.kind(i);
			if (kind === ACTION.OOM)
				this.marks.oom.push(i);
			else if (kind >= ACTION.SEGMENT_ALLOC &&
			    kind <= ACTION.SEGMENT_UNMAP)
				this.marks.driver.push(i);
		}
		this.spans = this.annotationSpans(c);
	}

	/* Annotations as spans from START to END, in rows without overlaps. */
	annotationSpans(c) {
		const spans = [], open = new Map();
		for (let i = 0; i < c.annotation_name.length; i++) {
			if (c.annotation_device[i] !== this.device)
				continue;
			const name = c.annotation_name[i], time = c.annotation_time[i];
			if (c.annotation_end[i] === 0) {
				const stack = open.get(name) ?? [];
				stack.push(time);
				open.set(name, stack);
			} else {
				const start = open.get(name)?.pop();
				spans.push({ name, start: start ?? -Infinity, end: time });
			}
		}
		for (const [name, starts] of open)
			for (const start of starts)
				spans.push({ name, start, end: Infinity });
		spans.sort((a, b) => a.start - b.start || b.end - a.end);
		const rows = [];
		for (const span of spans) {
			let row = rows.findIndex((end) => end <= span.start);
			if (row < 0)
				row = rows.length;
			rows[row] = span.end;
			span.row = row;
			span.p0 = this.positionOfTime(span.start);
			span.p1 = this.positionOfTime(span.end);
		}
		this.spanRows = rows.length;
		return spans;
	}

	/* The event at or after a time. */
	positionOfTime(time) {
		const times = this.columns.event_time;
		let lo = 0, hi = this.events;
		while (lo < hi) {
			const mid = (lo + hi) >>> 1;
			if (times[this.first + mid] < time)
				lo = mid + 1;
			else
				hi = mid;
		}
		return lo;
	}

	/*
	 * Call `visit` with each element that exists between two positions, in
	 * the order of their begins.
	 */
	overlapping(p0, p1, visit) {
		const el = this.elements;
		const last = countUpTo(el.start, p1);
		for (let k = 0; k < last; k++) {
			if (k % CHUNK === 0 && this.chunkEnd[k / CHUNK] <= p0) {
				k += CHUNK - 1;
				continue;
			}
			if (el.end[k] > p0)
				visit(k);
		}
	}

	/* The position of the peak of memory in use. */
	get peak() {
		if (this._peak === undefined) {
			const v = this.active.values;
			let best = 0;
			for (let i = 1; i < v.length; i++)
				if (v[i] > v[best])
					best = i;
			this._peak = best;
		}
		return this._peak;
	}
}

/* Build a model in steps, so that the page can show the progress. */
export async function buildModel(snap, device, step = async () => {}) {
	const model = new Model(snap, device);
	await step("Reading the final state");
	model.readFinal();
	await step("Pairing allocations with their frees");
	model.pair();
	await step("Following segments");
	model.ranges = new Ranges(model);
	model.count();
	await step("Laying out addresses");
	model.place();
	model.readMarks();
	return model;
}
