/*
 * A map of blocks: addresses from bottom to top, time from left to right.
 * Addresses that were never held are left out. Behind the blocks is the memory
 * that was held from the driver: segments, and the mapped parts of expandable
 * segments.
 */
import { Plot, Raster, GUTTER, MARGIN, tickLabel } from "../plot.js";
import { pack, mix } from "../theme.js";
import { clip } from "./streams.js";

export class AddressMap {
	constructor(app) {
		this.app = app;
		this.id = "map";
		this.label = "Address map";
		this.hint = "The addresses of blocks. Pale: held but free. Hatched: freed, " +
		    "waiting for work to end. Drag a box to zoom both ways.";
		this.box = true;
		this.raster = new Raster();
		this.plot = new Plot(app, this, "Addresses of blocks through time");
		this.root = this.plot.root;
		this.resetY();
	}

	resetY() {
		this.y0 = 0;
		this.y1 = null;
	}
	get top() {
		return this.y1 ?? Math.max(1, this.app.model.regions.size);
	}
	setY(y0, y1) {
		const size = Math.max(1, this.app.model.regions.size);
		const span = Math.min(size, Math.max(2048, y1 - y0));
		this.y0 = Math.max(0, Math.min(size - span, y0));
		this.y1 = span >= size ? null : this.y0 + span;
		this.app.changed("window");
	}
	/* The address without gaps at a pixel. */
	yAt(plot, py) {
		return this.top - py / plot.height * (this.top - this.y0);
	}
	py(plot, y) {
		return (this.top - y) / (this.top - this.y0) * plot.height;
	}
	zoomY(plot, py0, py1) {
		this.setY(this.yAt(plot, py1), this.yAt(plot, py0));
	}
	wheelY(plot, py, factor) {
		const y = this.yAt(plot, py);
		this.setY(y - (y - this.y0) * factor, y + (this.top - y) * factor);
	}
	key(e) {
		const span = this.top - this.y0;
		const move = { ArrowUp: 0.1, ArrowDown: -0.1 }[e.key];
		if (e.shiftKey && move) {
			this.setY(this.y0 + move * span, this.top + move * span);
			return true;
		}
		return false;
	}

	state() {
		return this.y1 === null ? [] : [["y", `${this.y0}-${this.y1}`]];
	}
	restore(get) {
		const y = /^([\d.]{1,20})-([\d.]{1,20})$/.exec(get("y") ?? "");
		if (y && Number(y[1]) < Number(y[2]))
			this.setY(Number(y[1]), Number(y[2]));
	}

	draw(plot, ctx) {
		const { raster, app } = this, { theme } = app;
		const width = Math.max(1, Math.round(plot.inner * plot.ratio));
		const height = Math.max(1, Math.round(plot.height * plot.ratio));
		raster.resize(width, height);
		raster.clear(pack(theme.groundRGB));
		this.scaleY = height / (this.top - this.y0);
		this.drawRanges(width, height);
		this.drawBlocks(width, height);
		ctx.putImageData(raster.image, Math.round(GUTTER * plot.ratio), 0);
		this.drawLabels(plot, ctx);
		app.note("");
	}

	rowOf(y) {
		return (this.top - y) * this.scaleY;
	}

	drawRanges(width, height) {
		const { model, theme } = this.app, { colours } = this.raster;
		const held = pack(mix(theme.heldRGB, theme.groundRGB, 0.72));
		const edge = pack(mix(theme.heldRGB, theme.groundRGB, 0.25));
		const { axis, x0: left, x1: right } = this.app;
		const column = columns(axis, left, width / (right - left));
		for (const r of model.ranges.all) {
			const y = model.regions.y(r.addr);
			const x0 = Math.max(0, column(r.start));
			const x1 = Math.min(width, Math.max(x0 + 1,
			    column(r.end)));
			const top = Math.round(this.rowOf(y + r.size));
			const bottom = Math.round(this.rowOf(y));
			const q0 = Math.max(0, top), q1 = Math.min(height, bottom);
			for (let q = q0; q < q1; q++)
				colours.fill(q === bottom - 1 && bottom - top > 3 ? edge : held,
				    q * width + x0, q * width + x1);
		}
	}

	drawBlocks(width, height) {
		const { model, axis, x0, x1, colourOf, theme } = this.app;
		const wait = pack(theme.waitRGB), ground = pack(theme.groundRGB);
		const { start, end, freed, y, held } = model.elements;
		const { colours, owners } = this.raster;
		const p0 = Math.floor(axis.position(x0)), p1 = axis.position(x1);
		const { top: yTop, y0: yLow, scaleY } = this;
		const column = columns(axis, x0, width / (x1 - x0));
		model.overlapping(p0, p1, (k) => {
			const from = y[k], to = from + held[k];
			if (from >= yTop || to <= yLow)
				return;
			let a = column(start[k]), b = column(end[k]);
			let top = Math.round((yTop - to) * scaleY);
			let low = Math.round((yTop - from) * scaleY);
			/* Leave a line between blocks that are large enough. */
			if (b - a > 4)
				b--;
			if (low - top > 4)
				top++;
			a = Math.max(0, a);
			b = Math.min(width, Math.max(a + 1, b));
			low = Math.min(height, Math.max(low, top + 1));
			top = Math.max(0, top);
			const colour = colourOf[k];
			const whole = freed[k] === end[k] ? b :
				Math.max(a, Math.min(b, column(freed[k])));
			for (let q = top; q < low; q++) {
				const row = q * width;
				if (b - a > 24) {
					colours.fill(colour, row + a, row + whole);
					owners.fill(k, row + a, row + b);
				} else {
					for (let c = row + a; c < row + b; c++) {
						owners[c] = k;
						if (c < row + whole)
							colours[c] = colour;
					}
				}
				for (let c = whole; c < b; c++) {
					const stripe = ((c + q) >> 1) % 3;
					colours[row + c] = stripe === 0 ? wait :
						stripe === 1 ? ground : colour;
				}
			}
		});
	}

	/* Draw each region's address and size, where they fit. */
	drawLabels(plot, ctx) {
		const { model, theme, snap } = this.app, { regions } = model;
		let last = Infinity;
		ctx.textAlign = "right";
		ctx.font = `10px ${theme.font}`;
		for (let i = 0; i < regions.n; i++) {
			const low = this.py(plot, regions.offset[i]);
			const top = this.py(plot, regions.offset[i + 1]);
			if (low < 0 || top > plot.height)
				continue;
			ctx.strokeStyle = theme.quiet;
			ctx.beginPath();
			ctx.moveTo(GUTTER - 6, Math.round(low) - 0.5);
			ctx.lineTo(GUTTER, Math.round(low) - 0.5);
			ctx.stroke();
			const seen = Math.min(plot.height, low) - Math.max(0, top);
			const at = Math.min(plot.height, low) - 8;
			if (seen < 14 || at > last - 14)
				continue;
			last = at;
			ctx.fillStyle = theme.quiet;
			ctx.fillText(clip(ctx, snap.address(regions.from[i]), GUTTER - 10),
			    GUTTER - 8, at);
			if (seen > 30) {
				ctx.fillText(tickLabel(regions.to[i] - regions.from[i]),
				    GUTTER - 8, at - 14);
				last = at - 14;
			}
		}
	}

	/* The block at a pixel, or the held memory between blocks. */
	pick(plot, x, y) {
		const k = this.raster.owner((x - GUTTER) * plot.ratio, y * plot.ratio);
		if (k >= 0)
			return { element: k };
		if (x < GUTTER || x > plot.width - MARGIN)
			return null;
		const { model, axis } = this.app;
		const addr = model.regions.addr(this.yAt(plot, y));
		const p = axis.position(plot.x(x));
		const range = model.ranges.all.find((r) => r.addr <= addr &&
		    addr < r.addr + r.size && r.start <= p && p < r.end);
		return range ? { range } : null;
	}

	select(found) {
		this.app.select(found);
	}

	overlay(plot, ctx) {
		const { hovered, selected, theme, model, axis } = this.app;
		const el = model.elements;
		for (const [what, width] of [[hovered, 1], [selected, 2]]) {
			let box = null;
			if (what?.element !== undefined) {
				const k = what.element;
				box = [el.start[k], el.end[k], el.y[k], el.held[k]];
			} else if (what?.range) {
				const r = what.range;
				box = [r.start, r.end, model.regions.y(r.addr), r.size];
			}
			if (!box)
				continue;
			const x = Math.max(GUTTER, plot.px(axis.x(box[0])));
			const right = Math.min(plot.width - MARGIN, plot.px(axis.x(box[1])));
			const top = this.py(plot, box[2] + box[3]);
			const low = this.py(plot, box[2]);
			ctx.strokeStyle = theme.ink;
			ctx.lineWidth = width;
			ctx.strokeRect(x, top, Math.max(1, right - x), Math.max(1, low - top));
		}
	}
}

/* A fast function from a position to a column of pixels. */
function columns(axis, x0, scale) {
	if (axis.kind === "event")
		return (p) => Math.round((p - x0) * scale);
	const { times } = axis;
	return (p) => Math.round((times[p] - x0) * scale);
}
