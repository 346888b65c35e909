/*
 * A picture of a part of the trace. It has a canvas for the parts that take long
 * to draw, and a second canvas above it for the parts that follow the pointer.
 * All pictures have the same gestures. Wheel: zoom at the pointer. Drag: zoom to
 * the marked part. Shift and drag or wheel: move. Click: select. Double click:
 * show the whole trace.
 */
import { h } from "./dom.js";

export const GUTTER = 98, MARGIN = 30;
const CLICK = 4; /* pixels that the pointer may move during a click */

export class Plot {
	/* `view` has draw(plot) and overlay(plot). It may have pick(plot, x, y),
	 * select(found, x, y), `box` for marking in both directions, and
	 * zoomY(). */
	constructor(app, view, label) {
		this.app = app;
		this.view = view;
		this.base = h("canvas");
		this.top = h("canvas", { class: "top" });
		this.root = h("div", { class: "plot", tabindex: "0",
			role: "group", "aria-roledescription": "chart",
			"aria-label": label }, this.base, this.top);
		this.width = this.height = 0;
		this.drag = null;
		this.pointer = null;
		new ResizeObserver(() => this.resize()).observe(this.root);
		this.listen();
	}

	resize() {
		const { clientWidth: w, clientHeight: h } = this.root;
		const ratio = Math.min(2, window.devicePixelRatio || 1);
		if (w === this.width && h === this.height && ratio === this.ratio)
			return;
		this.width = w;
		this.height = h;
		this.ratio = ratio;
		for (const canvas of [this.base, this.top]) {
			canvas.width = Math.round(w * ratio);
			canvas.height = Math.round(h * ratio);
		}
		this.app.changed("size");
	}

	get inner() {
		return Math.max(1, this.width - GUTTER - MARGIN);
	}
	px(x) {
		const { x0, x1 } = this.app;
		return GUTTER + (x - x0) / (x1 - x0) * this.inner;
	}
	x(px) {
		const { x0, x1 } = this.app;
		return x0 + (px - GUTTER) / this.inner * (x1 - x0);
	}

	/* A drawing context in CSS pixels, cleared. */
	context(canvas) {
		const ctx = canvas.getContext("2d");
		ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
		ctx.clearRect(0, 0, this.width, this.height);
		ctx.font = `11px ${this.app.theme.font}`;
		ctx.textBaseline = "middle";
		return ctx;
	}

	draw() {
		if (this.width > 0 && this.height > 0 && this.root.isConnected) {
			this.view.draw(this, this.context(this.base));
			this.over();
		}
	}

	over() {
		if (!(this.width > 0 && this.root.isConnected))
			return;
		const ctx = this.context(this.top), { theme, cursor } = this.app;
		this.view.overlay?.(this, ctx);
		this.drawMark(ctx);
		if (cursor !== null && !this.view.free) {
			const x = Math.round(this.px(cursor)) + 0.5;
			if (x >= GUTTER && x <= this.width - MARGIN) {
				ctx.strokeStyle = theme.ink;
				ctx.globalAlpha = 0.55;
				ctx.setLineDash([3, 3]);
				ctx.beginPath();
				ctx.moveTo(x, 0);
				ctx.lineTo(x, this.height);
				ctx.stroke();
				ctx.setLineDash([]);
				ctx.globalAlpha = 1;
			}
		}
		this.drawMarked(ctx);
	}

	/* Draw the marked event, as the timeline does. */
	drawMark(ctx) {
		const { mark, axis, theme } = this.app;
		if (mark === null || this.view.free)
			return;
		const x = Math.round(this.px(axis.x(mark)));
		if (x < GUTTER || x > this.width - MARGIN)
			return;
		ctx.fillStyle = theme.ink;
		ctx.fillRect(x, 0, 1, this.height);
	}

	drawMarked(ctx) {
		const d = this.drag;
		if (!d || !d.moved || d.pan)
			return;
		const box = this.marked();
		ctx.fillStyle = this.app.theme.accent;
		ctx.globalAlpha = 0.18;
		ctx.fillRect(box.x0, box.y0, box.x1 - box.x0, box.y1 - box.y0);
		ctx.globalAlpha = 1;
		ctx.strokeStyle = this.app.theme.accent;
		ctx.strokeRect(box.x0 + 0.5, box.y0 + 0.5, box.x1 - box.x0 - 1,
		    box.y1 - box.y0 - 1);
	}

	/* The marked box. It has the full height unless it is marked in both
	 * directions. */
	marked() {
		const { from, to } = this.drag;
		const high = this.view.box && Math.abs(to.y - from.y) > 24;
		const clamp = (v) => Math.max(GUTTER, Math.min(this.width - MARGIN, v));
		return {
			x0: clamp(Math.min(from.x, to.x)), x1: clamp(Math.max(from.x, to.x)),
			y0: high ? Math.min(from.y, to.y) : 0,
			y1: high ? Math.max(from.y, to.y) : this.height, high,
		};
	}

	at(event) {
		const box = this.root.getBoundingClientRect();
		return { x: event.clientX - box.left, y: event.clientY - box.top };
	}

	listen() {
		const on = (name, f, options) =>
			this.root.addEventListener(name, f, options);
		on("pointerdown", (e) => this.down(e));
		on("pointermove", (e) => this.move(e));
		on("pointerup", (e) => this.up(e));
		on("pointercancel", () => this.drag = null);
		on("pointerleave", () => {
			this.pointer = null;
			this.app.hover(null, null);
		});
		on("wheel", (e) => this.wheel(e), { passive: false });
		on("dblclick", () => {
			if (!this.view.free) {
				this.view.resetY?.();
				this.app.zoomAll();
			}
		});
	}

	down(e) {
		if (e.button !== 0 && e.button !== 1)
			return;
		this.root.setPointerCapture?.(e.pointerId);
		const from = this.at(e);
		this.drag = { from, to: from, moved: false,
			pan: e.shiftKey || e.button === 1,
			x0: this.app.x0, x1: this.app.x1 };
	}

	move(e) {
		const to = this.at(e), d = this.drag;
		this.pointer = to;
		if (d) {
			d.to = to;
			d.moved ||= Math.hypot(to.x - d.from.x, to.y - d.from.y) > CLICK;
			if (d.pan && d.moved && !this.view.free) {
				const by = (d.from.x - to.x) / this.inner * (d.x1 - d.x0);
				this.app.setWindow(d.x0 + by, d.x1 + by);
			}
		}
		const inside = to.x >= GUTTER && to.x <= this.width - MARGIN;
		const cursor = inside && !this.view.free ? this.x(to.x) : null;
		this.app.hover(this.view.pick?.(this, to.x, to.y) ?? null, cursor);
	}

	up() {
		const d = this.drag;
		this.drag = null;
		if (!d)
			return;
		if (!d.moved) {
			this.view.select?.(this.view.pick?.(this, d.to.x, d.to.y) ?? null,
			    this, d.to);
			return;
		}
		if (d.pan || this.view.free)
			return;
		this.drag = d;
		const box = this.marked();
		this.drag = null;
		if (box.x1 - box.x0 > CLICK) {
			if (box.high)
				this.view.zoomY?.(this, box.y0, box.y1);
			this.app.setWindow(this.x(box.x0), this.x(box.x1));
		}
	}

	wheel(e) {
		if (this.view.free)
			return;
		e.preventDefault();
		const unit = e.deltaMode === 1 ? 18 : e.deltaMode === 2 ? 400 : 1;
		const { app } = this, at = this.at(e);
		if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
			const d = (e.deltaX || e.deltaY) * unit / this.inner;
			app.pan(d);
			return;
		}
		const factor = Math.exp(e.deltaY * unit * 0.0016);
		if ((e.ctrlKey || e.metaKey || e.altKey) && this.view.wheelY)
			this.view.wheelY(this, at.y, factor);
		else
			app.zoom(factor, this.x(Math.max(GUTTER,
			    Math.min(this.width - MARGIN, at.x))));
	}
}

/* An image of packed colours, and the element of each pixel. */
export class Raster {
	resize(width, height) {
		if (this.width === width && this.height === height)
			return;
		this.width = width;
		this.height = height;
		this.image = new ImageData(width, height);
		this.colours = new Uint32Array(this.image.data.buffer);
		this.owners = new Int32Array(width * height);
	}
	clear(colour) {
		this.colours.fill(colour);
		this.owners.fill(-1);
	}
	owner(x, y) {
		if (x < 0 || y < 0 || x >= this.width || y >= this.height)
			return -1;
		return this.owners[Math.floor(y) * this.width + Math.floor(x)];
	}
}

/* The power of two of bytes of which `span` has at most `most`. */
function byteStep(span, most) {
	let step = 1;
	while (span / step > most)
		step *= 2;
	return step;
}

/* At most `most` steps of a power of two of bytes, from `low` up by `span`. */
export function byteTicks(span, most, low = 0) {
	const step = byteStep(span, most), ticks = [];
	for (let v = Math.ceil(low / step) * step; v <= low + span; v += step)
		ticks.push(v);
	return ticks;
}

/* Bytes with as few digits as ticks need that are `step` apart. */
export function tickLabel(n, step = Infinity) {
	const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
	let unit = 0;
	while (n >= 1024 && unit < 5 && step >= 10.24) {
		n /= 1024;
		step /= 1024;
		unit++;
	}
	return `${Math.round(n * 100) / 100} ${units[unit]}`;
}

/* Draw the labels and lines of a scale of bytes from `low`, at the bottom, to
 * `max`. */
export function drawByteScale(plot, ctx, max, low = 0) {
	const { theme } = plot.app;
	const most = Math.max(2, plot.height / 44);
	const step = byteStep(max - low, most);
	for (const v of byteTicks(max - low, most, low)) {
		const y = Math.round(plot.height -
			(v - low) / (max - low) * plot.height) - 0.5;
		ctx.fillStyle = theme.quiet;
		ctx.textAlign = "right";
		if (y > 6)
			ctx.fillText(tickLabel(v, step), GUTTER - 8,
			    Math.min(y, plot.height - 7));
		ctx.strokeStyle = theme.line;
		ctx.beginPath();
		ctx.moveTo(GUTTER - 4, y);
		ctx.lineTo(GUTTER, y);
		ctx.stroke();
	}
}
