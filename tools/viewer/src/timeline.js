/*
 * Memory in the part in view: held from the driver, in use, and waiting. uPlot
 * draws two points for each pixel, the largest and the smallest value there, so
 * that no peak and no dip is lost in a long trace.
 */
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { GUTTER, MARGIN, byteTicks, tickLabel } from "./plot.js";
import { count, duration } from "./format.js";
import { drawSpanRows, hatch } from "./views/streams.js";

/* Rows of the program's ranges above the curves, and pixels of a row. */
const SPAN_ROWS = 2, SPAN = 13;

/* The points of a window: all positions, or two for each pixel of a long
 * part. */
export function sample(series, axis, x0, x1, width) {
	const p0 = Math.floor(axis.position(x0));
	const p1 = Math.min(axis.length, Math.ceil(axis.position(x1)) + 1);
	const xs = [], all = series.map(() => []);
	if (p1 - p0 <= 2 * width) {
		for (let p = p0; p < p1; p++) {
			xs.push(axis.x(p));
			series.forEach((s, i) => all[i].push(s.at(p)));
		}
		xs.push(axis.x(p1));
		series.forEach((s, i) => all[i].push(s.at(p1 - 1)));
		return [xs, ...all];
	}
	const step = (x1 - x0) / width;
	for (let c = 0; c < width; c++) {
		const x = x0 + c * step;
		if (x + step < axis.start || x > axis.end)
			continue;
		const from = axis.position(x);
		const to = Math.max(from + 1e-6, axis.position(x + step));
		xs.push(x, x + step / 2);
		series.forEach((s, i) => {
			const [low, high] = s.range(from, to);
			all[i].push(high, low);
		});
	}
	return [xs, ...all];
}

export class Timeline {
	constructor(app, root) {
		this.app = app;
		this.root = root;
		this.plot = null;
		new ResizeObserver(() => app.changed("size")).observe(root);
	}

	options(width, height) {
		const { app } = this, { theme } = app;
		const font = `11px ${theme.font}`;
		const line = { stroke: theme.line, width: 1 };
		return {
			width, height, padding: [8 + this.spans, MARGIN, 0, 0], legend: { show: false },
			cursor: { y: false, points: { show: false },
				drag: { x: true, y: false, setScale: false } },
			scales: {
				x: { time: false, range: () => [app.x0, app.x1] },
				y: { range: (u, low, high) => [0, (high || 1 << 20) * 1.08] },
			},
			axes: [
				{ stroke: theme.quiet, font, grid: { show: false }, ticks: line,
					size: 26, gap: 2, values: (u, v) => v.map((x) =>
						app.axis.kind === "time" ? duration(x) :
						x === Math.round(x) ? count(x) : "") },
				{ stroke: theme.quiet, font, grid: line, ticks: { show: false },
					size: GUTTER, gap: 8,
					splits: (u, i, low, high) =>
						byteTicks(high, Math.max(2, height / 40)),
					values: (u, v) => v.map((n) => tickLabel(n)) },
			],
			series: [
				{},
				{ label: "held", stroke: theme.held, width: 1.5,
					paths: uPlot.paths.stepped({ align: 1 }),
					points: { show: false } },
				{ label: "in use", stroke: theme.use, width: 1.25,
					fill: theme.use + "40",
					paths: uPlot.paths.stepped({ align: 1 }),
					points: { show: false } },
				{ label: "waiting", stroke: theme.wait, width: 1.25,
					fill: (u) => hatch(u.ctx, theme),
					paths: uPlot.paths.stepped({ align: 1 }),
					points: { show: false } },
			],
			hooks: {
				setSelect: [(u) => this.marked(u)],
				draw: [(u) => this.drawMarks(u)],
			},
		};
	}

	marked(u) {
		const { left, width } = u.select;
		if (width < 4)
			return;
		const x0 = u.posToVal(left, "x"), x1 = u.posToVal(left + width, "x");
		u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
		this.app.setWindow(x0, x1);
	}

	/* The height of the ranges above the curves. */
	get spans() {
		return Math.min(SPAN_ROWS, this.app.model.spanRows) * SPAN;
	}

	/* Draw the program's ranges above the curves. */
	drawSpans(u) {
		const { app } = this, ratio = uPlot.pxRatio, { ctx, bbox } = u;
		ctx.save();
		ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
		ctx.font = `10px ${app.theme.font}`;
		ctx.textBaseline = "middle";
		drawSpanRows(ctx, app, {
			left: bbox.left / ratio, right: (bbox.left + bbox.width) / ratio,
			top: 4, row: SPAN, rows: SPAN_ROWS,
			px: (x) => u.valToPos(x, "x") + bbox.left / ratio,
		});
		ctx.restore();
	}

	/* The range at a place of the canvas, or null. */
	spanAt(e) {
		const { app, plot } = this, { model, axis } = app;
		const box = plot.over.getBoundingClientRect();
		const y = e.clientY - box.top + this.spans + 4;
		const row = Math.floor((y - 4) / SPAN);
		if (row < 0 || row >= Math.min(SPAN_ROWS, model.spanRows))
			return null;
		const p = axis.position(plot.posToVal(e.clientX - box.left, "x"));
		const span = model.spans.find((s) => s.row === row && s.p0 <= p &&
			p <= Math.max(s.p1, s.p0 + 1));
		return span ? { text: app.snap.string(span.name) } : null;
	}

	/* Draw the failures, the peak, and the mark. */
	drawMarks(u) {
		this.drawSpans(u);
		const { app } = this, { model, axis, theme } = app, { ctx, bbox } = u;
		const ratio = uPlot.pxRatio;
		const at = (p) => u.valToPos(axis.x(p), "x", true);
		const inside = (x) => x >= bbox.left - 1 &&
			x <= bbox.left + bbox.width + 1;
		ctx.save();
		ctx.lineWidth = ratio;
		for (const i of model.marks.oom) {
			const x = at(i);
			if (!inside(x))
				continue;
			ctx.strokeStyle = ctx.fillStyle = theme.alarm;
			ctx.beginPath();
			ctx.moveTo(x, bbox.top);
			ctx.lineTo(x, bbox.top + bbox.height);
			ctx.stroke();
			ctx.beginPath();
			ctx.moveTo(x, bbox.top + 8 * ratio);
			ctx.lineTo(x - 5 * ratio, bbox.top);
			ctx.lineTo(x + 5 * ratio, bbox.top);
			ctx.fill();
		}
		const x = at(model.peak);
		if (inside(x) && model.active.max > 0) {
			const y = u.valToPos(model.active.max, "y", true);
			ctx.fillStyle = theme.paper;
			ctx.strokeStyle = theme.use;
			ctx.lineWidth = 2 * ratio;
			ctx.beginPath();
			ctx.arc(x, y, 4 * ratio, 0, 7);
			ctx.fill();
			ctx.stroke();
		}
		if (app.mark !== null && inside(at(app.mark))) {
			ctx.fillStyle = theme.ink;
			ctx.fillRect(at(app.mark) - ratio / 2, bbox.top, ratio,
			    bbox.height);
		}
		ctx.restore();
	}

	make(width, height) {
		const { app } = this;
		this.plot?.destroy();
		this.plot = new uPlot(this.options(width, height), [[], [], [], []],
		    this.root);
		this.theme = app.theme;
		this.of = app.model;
		const over = this.plot.over;
		const x = (e) => this.plot.posToVal(e.clientX -
			over.getBoundingClientRect().left, "x");
		over.addEventListener("mousemove", (e) => app.hover(null, x(e)));
		over.addEventListener("mouseleave", () => app.hover(null, null));
		over.addEventListener("dblclick", () => app.zoomAll());
		over.addEventListener("click", (e) => {
			if (this.down === undefined ||
			    Math.abs(e.clientX - this.down) < 4)
				app.setMark(Math.floor(app.axis.position(x(e))));
		});
		over.addEventListener("mousedown", (e) => this.down = e.clientX);
		this.plot.root.addEventListener("mousemove", (e) => {
			if (e.target !== over)
				app.hover(this.spanAt(e), null);
		});
		over.addEventListener("wheel", (e) => {
			e.preventDefault();
			const unit = e.deltaMode === 1 ? 18 : 1;
			if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY))
				app.pan((e.deltaX || e.deltaY) * unit / over.clientWidth);
			else
				app.zoom(Math.exp(e.deltaY * unit * 0.0016), x(e));
		}, { passive: false });
	}

	draw() {
		const { app } = this, { model } = app;
		const width = this.root.clientWidth, height = this.root.clientHeight;
		if (width < 10 || height < 10)
			return;
		if (!this.plot || this.theme !== app.theme || this.of !== model)
			this.make(width, height);
		else if (width !== this.plot.width || height !== this.plot.height)
			this.plot.setSize({ width, height });
		const inner = Math.max(1, width - GUTTER - MARGIN);
		const data = sample([model.reserved, model.active, model.pending],
		    app.axis, app.x0, app.x1, inner);
		/* Draw no line along the bottom where no memory waits. */
		data[3] = data[3].map((v, i, all) =>
			v || all[i - 1] || all[i + 1] ? v : null);
		this.plot.setData(data);
	}

	over() {
		const { app, plot } = this;
		if (!plot || !app.axis)
			return;
		const left = app.cursor === null ? -10 :
			plot.valToPos(app.cursor, "x");
		plot.setCursor({ left, top: 0 }, false);
	}
}
