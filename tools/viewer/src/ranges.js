/*
 * Memory that was held from the driver, with the times. A segment of the driver
 * is allocated and freed as a whole. An expandable segment is mapped and
 * unmapped in parts, which may differ, so that an unmap may cut a range.
 */
import { countUpTo } from "./series.js";

const SEGMENT_ALLOC = 3, SEGMENT_FREE = 4, SEGMENT_MAP = 5, SEGMENT_UNMAP = 6;

export class Ranges {
	constructor(model) {
		this.model = model;
		this.all = [];
		this.live = []; /* by address */
		const c = model.columns;
		for (let i = 0; i < model.events; i++) {
			const kind = model.kind(i);
			if (kind < SEGMENT_ALLOC || kind > SEGMENT_UNMAP)
				continue;
			const e = model.first + i;
			const range = {
				addr: c.event_addr[e], size: c.event_size[e], start: i,
				end: -1, stream: c.event_stream[e], stack: c.event_stack[e],
				expandable: kind >= SEGMENT_MAP,
			};
			if (kind === SEGMENT_ALLOC || kind === SEGMENT_MAP)
				this.add(range);
			else
				this.remove(range, i);
		}
		this.addFinal(model.finalSegments);
		for (const range of this.live)
			range.end = model.length;
	}

	/* The first live range that ends after an address. */
	find(addr) {
		let lo = 0, hi = this.live.length;
		while (lo < hi) {
			const mid = (lo + hi) >>> 1;
			if (this.live[mid].addr + this.live[mid].size <= addr)
				lo = mid + 1;
			else
				hi = mid;
		}
		return lo;
	}

	add(range) {
		if (!(range.size > 0))
			return;
		this.all.push(range);
		this.live.splice(this.find(range.addr), 0, range);
	}

	/* End all memory in a range. Parts that no event has mapped are older
	 * than the trace. */
	remove(gone, i) {
		let at = gone.addr;
		const stop = gone.addr + gone.size;
		const keep = [];
		const k = this.find(at);
		let n = 0;
		for (; k + n < this.live.length; n++) {
			const r = this.live[k + n], end = r.addr + r.size;
			if (r.addr >= stop)
				break;
			this.older(at, r.addr, gone, i);
			at = Math.max(at, end);
			r.end = i;
			if (r.addr < gone.addr)
				keep.push({ ...r, size: gone.addr - r.addr, start: i });
			if (end > stop)
				keep.push({ ...r, addr: stop, size: end - stop, start: i });
		}
		this.older(at, stop, gone, i);
		this.live.splice(k, n, ...keep);
		this.all.push(...keep);
	}

	older(from, to, like, end) {
		if (from < to)
			this.all.push({ ...like, addr: from, size: to - from, start: 0,
				end, before: true });
	}

	/* Add ranges of the final state that no event has mapped: they are older
	 * than the trace. */
	addFinal(segments) {
		for (const s of segments) {
			let at = s.addr;
			const stop = s.addr + s.size, found = [];
			const like = { stream: s.stream, stack: s.stack, start: 0, end: -1,
				before: true, expandable: s.expandable };
			for (let k = this.find(at); k < this.live.length &&
			    this.live[k].addr < stop; k++) {
				const r = this.live[k];
				if (r.addr > at)
					found.push({ ...like, addr: at, size: r.addr - at });
				at = Math.max(at, r.addr + r.size);
			}
			if (at < stop)
				found.push({ ...like, addr: at, size: stop - at });
			found.forEach((r) => this.add(r));
		}
	}

	/* The bytes held after each event. */
	reserved(n) {
		const sum = new Float64Array(n + 1);
		for (const r of this.all) {
			sum[r.start] += r.size;
			sum[r.end] -= r.size;
		}
		for (let i = 1; i <= n; i++)
			sum[i] += sum[i - 1];
		return sum.subarray(0, n);
	}

	/* The regions of all addresses that were ever held or in use. */
	regions(elements) {
		const spans = this.all.map((r) => [r.addr, r.addr + r.size]);
		const held = new Regions(spans);
		for (let k = 0; k < elements.n; k++)
			if (!held.holds(elements.addr[k]))
				spans.push([elements.addr[k],
					elements.addr[k] + elements.held[k]]);
		return spans.length === this.all.length ? held : new Regions(spans);
	}
}

export class Regions {
	constructor(spans) {
		this.from = [];
		this.to = [];
		for (const [from, to] of [...spans].sort((a, b) => a[0] - b[0])) {
			if (this.to.length && from <= this.to.at(-1)) {
				this.to[this.to.length - 1] = Math.max(this.to.at(-1), to);
			} else {
				this.from.push(from);
				this.to.push(to);
			}
		}
		this.offset = [0];
		for (let i = 0; i < this.from.length; i++)
			this.offset.push(this.offset[i] + this.to[i] - this.from[i]);
	}
	get n() {
		return this.from.length;
	}
	get size() {
		return this.offset.at(-1);
	}
	holds(addr) {
		const i = countUpTo(this.from, addr) - 1;
		return i >= 0 && addr < this.to[i];
	}
	y(addr) {
		const i = Math.max(0, countUpTo(this.from, addr) - 1);
		return this.offset[i] + addr - (this.from[i] ?? 0);
	}
	/* The address at a height. */
	addr(y) {
		const i = Math.max(0, Math.min(this.n - 1,
		    countUpTo(this.offset, y) - 1));
		return this.from[i] + y - this.offset[i];
	}
}
