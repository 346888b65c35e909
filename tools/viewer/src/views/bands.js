/*
 * Memory in use, with one band for each allocation, the oldest at the bottom.
 * When memory is freed, the bands above it move down. Every column of pixels
 * shows its moment with most memory in use, so that no peak is lost. If tens of
 * thousands of allocations are in use at once, only the largest have bands; the
 * others are the grey area on top. The picture may show a part of the heights
 * only, so that 46 MiB on top of 3 GiB can be seen.
 */
import { Plot, Raster, GUTTER, drawByteScale } from "../plot.js";
import { pack, mix } from "../theme.js";
import { bytes, count } from "../format.js";

/* Blocks over columns: some 50 ms of drawing. */
const STEPS = 2e7;

export class Bands {
	constructor(app) {
		this.app = app;
		this.id = "memory";
		this.label = "Allocations";
		this.hint = "One band per allocation: height is size, length is life. " +
		    "Drag to zoom, click to select, Z for the heights that change.";
		this.raster = new Raster();
		this.box = true;
		this.resetY();
		this.plot = new Plot(app, this, "Memory in use, by allocation");
		this.root = this.plot.root;
	}

	/* ---- The heights in view ---- */

	resetY() {
		this.low = 0;
		this.high = null; /* null: up to the most in view */
	}
	setY(low, high) {
		const span = Math.max(4096, high - low);
		this.low = Math.max(0, low);
		this.high = this.low + span;
		if (this.low === 0 && this.high >= this.most * 1.04)
			this.resetY();
		this.app.changed("window");
	}
	yAt(plot, py) {
		return this.max - py / plot.height * (this.max - this.low);
	}
	zoomY(plot, py0, py1) {
		this.setY(this.yAt(plot, py1), this.yAt(plot, py0));
	}
	wheelY(plot, py, factor) {
		const y = this.yAt(plot, py);
		this.setY(y - (y - this.low) * factor,
		    y + (this.max - y) * factor);
	}
	/* Show the heights between the least and the most memory in view, or
	 * all. */
	toggleFit() {
		const { model, axis, x0, x1 } = this.app;
		if (this.high !== null) {
			this.resetY();
			this.app.changed("window");
			this.app.say("All heights are shown");
			return;
		}
		const p0 = axis.position(x0);
		const [least, most] = model.active.range(p0,
		    Math.max(p0 + 1, axis.position(x1)));
		const room = (most - least) * 0.04;
		this.setY(least - room, most + room);
		this.app.say("The heights at which memory changes are shown");
	}
	key(e) {
		const move = { ArrowUp: 0.1, ArrowDown: -0.1 }[e.key];
		if (!e.shiftKey || !move || this.high === null)
			return false;
		const by = Math.max(-this.low, move * (this.max - this.low));
		this.setY(this.low + by, this.high + by);
		return true;
	}
	state() {
		return this.high === null ? [] : [["y", `${Math.round(this.low)}-` +
			`${Math.round(this.high)}`]];
	}
	restore(get) {
		const y = /^(\d{1,16})-(\d{1,16})$/.exec(get("y") ?? "");
		if (y && Number(y[1]) < Number(y[2])) {
			this.low = Number(y[1]);
			this.high = Number(y[2]);
			this.app.changed("window");
		}
	}

	/*
	 * The elements of a window, in the order of their begins. The time of a
	 * column is in proportion to its blocks, so that small elements are left
	 * out if there are too many.
	 */
	candidates(p0, p1, width) {
		const { model } = this.app, { sizeClass } = model;
		const least = this.leastClass(p0, p1, width);
		this.list ??= new Uint32Array(0);
		if (this.list.length < model.elements.n)
			this.list = new Uint32Array(model.elements.n);
		let n = 0, all = 0;
		model.overlapping(p0, p1, (k) => {
			all++;
			if (sizeClass[k] >= least)
				this.list[n++] = k;
		});
		this.leftOut = all - n;
		return this.list.subarray(0, n);
	}

	/* The smallest class of sizes that is drawn. */
	leastClass(p0, p1, width) {
		const { model } = this.app, el = model.elements;
		const values = model.blocks.values;
		const limit = STEPS / width;
		const last = Math.max(p0 + 1, Math.ceil(p1));
		if (model.blocks.range(p0, last)[1] <= limit)
			return 0;
		let fullest = Math.floor(p0);
		for (let p = fullest; p < Math.min(last, model.length); p++)
			if (values[p] > values[fullest])
				fullest = p;
		const counts = new Uint32Array(257);
		model.overlapping(fullest, fullest, (k) => {
			if (el.end[k] > fullest)
				counts[model.sizeClass[k]]++;
		});
		let least = 256, kept = 0;
		while (least > 1 && kept + counts[least - 1] <= limit)
			kept += counts[--least];
		return least;
	}

	/* The position of each column at which most memory is in use. */
	samples(plot, width) {
		const { axis, model, x0, x1 } = this.app;
		const at = new Int32Array(width).fill(-1);
		const values = model.active.values;
		for (let c = 0; c < width; c++) {
			const left = x0 + c / width * (x1 - x0);
			const right = x0 + (c + 1) / width * (x1 - x0);
			if (right < axis.start || left >= axis.end)
				continue;
			let from = Math.floor(axis.position(left));
			const to = Math.min(model.length, Math.ceil(axis.position(right)));
			let best = Math.min(from, model.length - 1);
			for (; from < to; from++)
				if (values[from] > values[best])
					best = from;
			at[c] = best;
		}
		return at;
	}

	draw(plot, ctx) {
		const { app, raster } = this, { model, theme, axis } = app;
		const el = model.elements;
		const width = Math.max(1, Math.round(plot.inner * plot.ratio));
		const height = Math.max(1, Math.round(plot.height * plot.ratio));
		const p0 = axis.position(app.x0), p1 = axis.position(app.x1);
		const most = model.active.range(p0, Math.max(p0 + 1, p1))[1];
		this.most = most || 1 << 20;
		this.max = this.high ?? this.most * 1.04;
		this.wait = pack(theme.waitRGB);
		this.ground = pack(theme.groundRGB);
		raster.resize(width, height);
		raster.clear(pack(theme.groundRGB));
		const list = this.candidates(p0, p1, width);
		const at = this.samples(plot, width);
		const scale = height / (this.max - this.low);
		const values = model.active.values;
		const row = (bytes) => Math.max(0, Math.min(height,
		    Math.round(height - (bytes - this.low) * scale)));
		const rest = pack(mix(theme.otherRGB, theme.groundRGB, 0.45));
		const stack = new Stack(el);
		let next = 0;
		for (let c = 0; c < width; c++) {
			const p = at[c];
			if (p < 0)
				continue;
			for (; next < list.length && el.start[list[next]] <= p; next++)
				if (el.end[list[next]] > p)
					stack.push(list[next]);
			this.column(c, p, stack, row);
			const top = row(values[p]), above = row(this.sum);
			for (let y = top; y < above; y++)
				raster.colours[y * width + c] = rest;
		}
		ctx.putImageData(raster.image, Math.round(GUTTER * plot.ratio), 0);
		drawByteScale(plot, ctx, this.max, this.low);
		app.note(this.high !== null ? `From ${bytes(this.low)} to ` +
		    `${bytes(this.high)}; Z or a double click shows all heights` :
			this.leftOut ? `${count(this.leftOut)} small allocations of ` +
		    "this part are the grey area on top" : "");
	}

	/* Draw one column from the bottom. Elements that have ended are removed
	 * from the stack. */
	column(c, p, stack, row) {
		const { colourOf } = this.app;
		const { colours, owners, width, height } = this.raster;
		const { wait, ground } = this;
		const { id, end, freed, size } = stack;
		let sum = 0, n = 0, y = height;
		for (let i = 0; i < stack.n; i++) {
			if (end[i] <= p)
				continue;
			const k = id[i], waits = freed[i] <= p;
			id[n] = k;
			end[n] = end[i];
			freed[n] = freed[i];
			sum += size[n++] = size[i];
			const top = row(sum);
			if (top === y)
				continue;
			/* Bands that are high enough have a line between them. */
			const edge = y - top > 3 ? top + 1 : top;
			const colour = colourOf[k];
			for (let q = edge; q < y; q++) {
				const stripe = waits ? ((c + q) >> 1) % 3 : 2;
				colours[q * width + c] = stripe === 0 ? wait :
					stripe === 1 ? ground : colour;
				owners[q * width + c] = k;
			}
			y = top;
		}
		stack.n = n;
		this.sum = sum;
	}

	pick(plot, x, y) {
		const k = this.raster.owner((x - GUTTER) * plot.ratio, y * plot.ratio);
		return k < 0 ? null : { element: k };
	}

	select(found) {
		this.app.select(found);
	}

	/* Draw the outlines of the element under the pointer and of the selected
	 * one, along the edges of their pixels. */
	overlay(plot, ctx) {
		const { hovered, selected, theme } = this.app;
		for (const [what, width] of [[hovered, 1], [selected, 2]])
			if (what?.element !== undefined)
				this.outline(plot, ctx, what.element, theme.ink, width);
	}

	outline(plot, ctx, k, colour, width) {
		const { raster, app } = this, { model, axis } = app, el = model.elements;
		const from = Math.max(0, Math.floor((plot.px(axis.x(el.start[k])) -
		    GUTTER) * plot.ratio) - 1);
		const to = Math.min(raster.width, Math.ceil((plot.px(axis.x(el.end[k])) -
		    GUTTER) * plot.ratio) + 1);
		ctx.fillStyle = colour;
		const one = width / plot.ratio;
		for (let c = from; c < to; c++) {
			let top = -1, bottom = -1;
			for (let y = 0; y < raster.height; y++) {
				if (raster.owners[y * raster.width + c] !== k)
					continue;
				if (top < 0)
					top = y;
				bottom = y;
			}
			if (top < 0)
				continue;
			const x = GUTTER + c / plot.ratio;
			ctx.fillRect(x, top / plot.ratio - one / 2, 1 / plot.ratio, one);
			ctx.fillRect(x, (bottom + 1) / plot.ratio - one / 2,
			    1 / plot.ratio, one);
		}
	}
}

/* The live elements. The values that a column needs are in arrays of their
 * own. */
class Stack {
	constructor(elements) {
		this.el = elements;
		this.n = 0;
		this.resize(1024);
	}
	resize(capacity) {
		const grown = (old, kind) => {
			const array = new kind(capacity);
			array.set(old ?? []);
			return array;
		};
		this.id = grown(this.id, Int32Array);
		this.end = grown(this.end, Int32Array);
		this.freed = grown(this.freed, Int32Array);
		this.size = grown(this.size, Float64Array);
	}
	push(k) {
		if (this.n === this.id.length)
			this.resize(2 * this.n);
		const { el, n } = this;
		this.id[n] = k;
		this.end[n] = el.end[k];
		this.freed[n] = el.freed[k];
		this.size[n] = el.size[k];
		this.n++;
	}
}
