/*
 * One lane for each stream: the bytes of its blocks, and the part of them that
 * was freed and waited for other streams. Above the lanes are the program's
 * annotations, and the calls that allocated memory from the driver or freed it.
 */
import { Plot, GUTTER, MARGIN } from "../plot.js";
import { css, inkOn } from "../theme.js";
import { bytes, count } from "../format.js";

const SPAN = 18, SPAN_ROWS = 6, DRIVER = 34, LANE_LEAST = 44, LANE_MOST = 120, HEAD = 8;

export class Streams {
	constructor(app) {
		this.app = app;
		this.id = "streams";
		this.label = "Streams";
		this.hint = "One lane per stream, all to one scale. Hatched: freed, " +
		    "waiting for work to end.";
		this.plot = new Plot(app, this, "Memory by stream");
		this.plot.root.classList.add("tall");
		this.root = this.plot.root;
	}

	get head() {
		const { model } = this.app;
		return HEAD + Math.min(SPAN_ROWS, model.spanRows) * SPAN + DRIVER;
	}

	lane(plot) {
		const n = Math.max(1, this.app.model.streams.length);
		return Math.max(LANE_LEAST,
		    Math.min(LANE_MOST, (plot.height - this.head - 8) / n));
	}

	draw(plot, ctx) {
		const { model } = this.app;
		const lane = this.lane(plot);
		/* The least height. The layout makes it higher if there is more
		 * space. A change of the size draws the picture again. */
		this.root.style.height =
		    `${this.head + LANE_LEAST * model.streams.length + 8}px`;
		this.drawSpans(plot, ctx);
		this.drawDriver(plot, ctx);
		const most = Math.max(1, ...model.streams.map((s) => s.active.max));
		model.streams.forEach((s, i) =>
			this.drawLane(plot, ctx, s, this.head + i * lane, lane, most));
		this.app.note("");
	}

	drawSpans(plot, ctx) {
		drawSpanRows(ctx, this.app, { left: GUTTER,
			right: plot.width - MARGIN, top: HEAD, row: SPAN,
			rows: SPAN_ROWS, px: (x) => plot.px(x) });
	}

	drawDriver(plot, ctx) {
		const { model, axis, theme } = this.app;
		const middle = this.head - DRIVER / 2 - 2;
		ctx.fillStyle = theme.quiet;
		ctx.textAlign = "right";
		ctx.fillText("driver", GUTTER - 8, middle);
		ctx.strokeStyle = theme.line;
		ctx.beginPath();
		ctx.moveTo(GUTTER, middle);
		ctx.lineTo(plot.width - MARGIN, middle);
		ctx.stroke();
		const seen = new Set();
		for (const i of model.marks.driver) {
			const up = model.kind(i) % 2 === 1; /* alloc and map are odd */
			const x = Math.round(plot.px(axis.x(i)));
			if (x < GUTTER || x > plot.width - MARGIN || seen.has(2 * x + up))
				continue;
			seen.add(2 * x + up);
			ctx.fillStyle = up ? theme.use : theme.wait;
			ctx.fillRect(x, up ? middle - 11 : middle + 1, 1.5, 10);
		}
		ctx.fillStyle = theme.alarm;
		for (const i of model.marks.oom) {
			const x = plot.px(axis.x(i));
			if (x < GUTTER || x > plot.width - MARGIN)
				continue;
			ctx.beginPath();
			ctx.moveTo(x, middle - 13);
			ctx.lineTo(x + 6, middle - 2);
			ctx.lineTo(x - 6, middle - 2);
			ctx.fill();
		}
	}

	drawLane(plot, ctx, stream, top, height, most) {
		const { app } = this, { theme, axis, snap } = app;
		const low = top + height - 6, tall = height - 14;
		const x0 = GUTTER, x1 = plot.width - MARGIN;
		const area = (series, style) => {
			ctx.fillStyle = style;
			for (let x = x0; x < x1; x++) {
				const left = plot.x(x), right = plot.x(x + 1);
				if (right < axis.start || left > axis.end)
					continue;
				const p0 = axis.position(left);
				const p1 = Math.max(p0 + 1e-6, axis.position(right));
				const [, v] = series.range(p0, p1);
				if (v > 0) {
					const h = Math.max(1, v / most * tall);
					ctx.fillRect(x, low - h, 1, h);
				}
			}
		};
		ctx.fillStyle = theme.ground;
		ctx.fillRect(x0, low - tall, x1 - x0, tall);
		area(stream.active, css(theme.useRGB));
		area(stream.pending, hatch(ctx, theme));
		ctx.strokeStyle = theme.line;
		ctx.beginPath();
		ctx.moveTo(0, low + 0.5);
		ctx.lineTo(x1, low + 0.5);
		ctx.stroke();
		ctx.textAlign = "right";
		ctx.fillStyle = theme.ink;
		const name = snap.streamName(stream.stream);
		ctx.fillText(clip(ctx, name, GUTTER - 14),
		    GUTTER - 8, low - tall + 7);
		ctx.fillStyle = theme.quiet;
		ctx.fillText(bytes(stream.active.max), GUTTER - 8, low - tall + 21);
		const waits = stream.pending.max;
		if (waits > 0 && tall > 40)
			ctx.fillText(`${bytes(waits)} wait`, GUTTER - 8, low - tall + 35);
	}

	pick(plot, x, y) {
		const { model, axis, snap } = this.app;
		if (y < this.head) {
			const row = Math.floor((y - HEAD) / SPAN), p = axis.position(plot.x(x));
			const span = model.spans.find((s) => s.row === row && s.p0 <= p &&
			    p <= Math.max(s.p1, s.p0 + 1));
			return span ? { text: snap.string(span.name) } : null;
		}
		const lane = model.streams[Math.floor((y - this.head) /
		    this.lane(plot))];
		return lane ? { lane } : null;
	}

	describe(lane, p) {
		const { snap } = this.app;
		return [
			["Stream", snap.streamFullName(lane.stream)],
			["In use here", bytes(lane.active.at(p))],
			["Waiting here", bytes(lane.pending.at(p))],
			["At most in use", bytes(lane.active.max)],
			["At most waiting", bytes(lane.pending.max)],
			["Allocations", count(lane.blocks)],
		];
	}
}

/* Draw the program's ranges in rows between `left` and `right`; `px` is the
 * place of a value of the axis. */
export function drawSpanRows(ctx, app, { left, right, top, row, rows, px }) {
	const { model, snap, axis, theme } = app;
	const drawn = new Float64Array(rows); /* the end, by row */
	ctx.textAlign = "left";
	for (const span of model.spans) {
		if (span.row >= rows)
			continue;
		const x0 = Math.max(left, px(axis.x(span.p0)));
		const x1 = Math.min(right, px(axis.x(span.p1)));
		/* Draw at most one mark for each pixel. */
		if (x1 < left || x0 > right || x1 < drawn[span.row])
			continue;
		drawn[span.row] = Math.max(x1, x0 + 1);
		const y = top + span.row * row;
		const colour = theme.slots[span.name % theme.slots.length];
		ctx.fillStyle = css(colour);
		ctx.fillRect(x0, y, Math.max(1.5, x1 - x0 - 1), row - 3);
		if (x1 - x0 > 40) {
			ctx.fillStyle = inkOn(colour);
			ctx.fillText(clip(ctx, snap.string(span.name), x1 - x0 - 10),
			    x0 + 5, y + (row - 3) / 2);
		}
	}
}

/* The pattern of waiting memory in every picture. */
export function hatch(ctx, theme) {
	const tile = document.createElement("canvas");
	tile.width = tile.height = 6;
	const t = tile.getContext("2d");
	t.fillStyle = theme.ground;
	t.fillRect(0, 0, 6, 6);
	t.strokeStyle = theme.wait;
	t.lineWidth = 2.4;
	t.beginPath();
	for (const d of [-6, 0, 6]) {
		t.moveTo(d - 1, 7);
		t.lineTo(d + 7, -1);
	}
	t.stroke();
	return ctx.createPattern(tile, "repeat");
}

/* Text cut to a width, with an ellipsis. */
export function clip(ctx, text, width) {
	if (ctx.measureText(text).width <= width)
		return text;
	let lo = 0, hi = text.length;
	while (lo < hi) {
		const mid = (lo + hi + 1) >> 1;
		if (ctx.measureText(text.slice(0, mid) + "…").width <= width)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo ? text.slice(0, lo) + "…" : "";
}
