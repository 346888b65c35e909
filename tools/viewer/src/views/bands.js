/*
 * Memory in use, one band for each allocation, the oldest at the bottom. When
 * memory below is freed the bands above move down. Every column of pixels shows
 * the moment of it at which most was in use, so no peak is lost. Of a long part
 * only the largest allocations have bands; the others are the grey on top.
 */
import { Plot, Raster, GUTTER, drawByteScale } from "../plot.js";
import { pack, mix } from "../theme.js";
import { count } from "../format.js";

const MOST = 20000;

export class Bands {
	constructor(app) {
		this.app = app;
		this.id = "memory";
		this.label = "Allocations";
		this.hint = "One band per allocation: height is size, length is life. " +
		    "Drag to zoom, click to select.";
		this.raster = new Raster();
		this.plot = new Plot(app, this, "Memory in use, by allocation");
		this.root = this.plot.root;
	}

	/* The largest elements of a window, in order of their beginning. */
	candidates(p0, p1) {
		const { model } = this.app, { sizeClass } = model;
		const counts = new Uint32Array(257);
		model.overlapping(p0, p1, (k) => counts[sizeClass[k]]++);
		let least = 256, kept = 0;
		while (least > 0 && kept + counts[least - 1] <= MOST)
			kept += counts[--least];
		const list = new Uint32Array(kept);
		let n = 0, all = 0;
		model.overlapping(p0, p1, (k) => {
			all++;
			if (sizeClass[k] >= least)
				list[n++] = k;
		});
		this.left = all - n;
		return list;
	}

	/* For each column the position where most is in use. */
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
		this.max = (most || 1 << 20) * 1.04;
		raster.resize(width, height);
		raster.clear(pack(theme.groundRGB));
		const list = this.candidates(p0, p1);
		const at = this.samples(plot, width);
		const scale = height / this.max, values = model.active.values;
		const rest = pack(mix(theme.otherRGB, theme.groundRGB, 0.45));
		const stack = [];
		let next = 0;
		for (let c = 0; c < width; c++) {
			const p = at[c];
			if (p < 0)
				continue;
			while (next < list.length && el.start[list[next]] <= p)
				stack.push(list[next++]);
			this.column(c, p, stack, scale);
			const top = Math.round(height - values[p] * scale);
			const above = Math.round(height - this.sum * scale);
			for (let y = Math.max(0, top); y < above; y++)
				raster.colours[y * width + c] = rest;
		}
		ctx.putImageData(raster.image, Math.round(GUTTER * plot.ratio), 0);
		drawByteScale(plot, ctx, this.max);
		app.note(this.left ? `${count(this.left)} smaller allocations of this ` +
		    "part are the grey on top; zoom in to tell them apart" : "");
	}

	/* One column, from the bottom; what has ended leaves the stack. */
	column(c, p, stack, scale) {
		const { model, colourOf } = this.app, el = model.elements;
		const { colours, owners, width, height } = this.raster;
		let sum = 0, n = 0, y = height;
		for (let i = 0; i < stack.length; i++) {
			const k = stack[i];
			if (el.end[k] <= p)
				continue;
			stack[n++] = k;
			sum += el.size[k];
			const top = Math.max(0, Math.round(height - sum * scale));
			/* Bands that are high enough have a line between them. */
			const edge = y - top > 3 ? top + 1 : top;
			const waits = el.freed[k] <= p;
			for (let q = edge; q < y; q++) {
				const hole = waits && ((c + q) >> 1) % 3 === 0;
				if (!hole)
					colours[q * width + c] = colourOf[k];
				owners[q * width + c] = k;
			}
			y = top;
		}
		stack.length = n;
		this.sum = sum;
	}

	pick(plot, x, y) {
		const k = this.raster.owner((x - GUTTER) * plot.ratio, y * plot.ratio);
		return k < 0 ? null : { element: k };
	}

	select(found) {
		this.app.select(found);
	}

	/* The outline of an element: where its pixels begin and end. */
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
