/*
 * The whole trace, with a slider for the part in view.
 */
import { h } from "./dom.js";
import { GUTTER, MARGIN } from "./plot.js";

const EDGE = 7;

export class Minimap {
	constructor(app) {
		this.app = app;
		this.canvas = h("canvas");
		this.root = h("div", { class: "minimap", tabindex: "0", role: "slider",
			"aria-label": "Part of the trace in view", "aria-valuemin": "0" },
		this.canvas);
		new ResizeObserver(() => app.changed("size")).observe(this.root);
		this.root.addEventListener("pointerdown", (e) => this.down(e));
		this.root.addEventListener("pointermove", (e) => this.move(e));
		this.root.addEventListener("pointerup", () => this.drag = null);
		this.root.addEventListener("dblclick", () => app.zoomAll());
	}

	get inner() {
		return Math.max(1, this.root.clientWidth - GUTTER - MARGIN);
	}
	px(x) {
		const { axis } = this.app;
		return GUTTER + (x - axis.start) / (axis.end - axis.start) * this.inner;
	}
	x(e) {
		const { axis } = this.app;
		const px = e.clientX - this.root.getBoundingClientRect().left;
		return axis.start + (px - GUTTER) / this.inner * (axis.end - axis.start);
	}

	down(e) {
		const { app } = this, x = this.x(e);
		const near = EDGE / this.inner * (app.axis.end - app.axis.start);
		this.root.setPointerCapture?.(e.pointerId);
		if (Math.abs(x - app.x0) < near)
			this.drag = { edge: 0 };
		else if (Math.abs(x - app.x1) < near)
			this.drag = { edge: 1 };
		else {
			const span = app.x1 - app.x0;
			if (x < app.x0 || x > app.x1)
				app.setWindow(x - span / 2, x + span / 2);
			this.drag = { by: x - app.x0, span };
		}
	}

	move(e) {
		const { app, drag } = this, x = this.x(e);
		if (!drag)
			return;
		if (drag.edge === 0)
			app.setWindow(Math.min(x, app.x1), app.x1);
		else if (drag.edge === 1)
			app.setWindow(app.x0, Math.max(x, app.x0));
		else
			app.setWindow(x - drag.by, x - drag.by + drag.span);
	}

	draw() {
		const { app, canvas, root } = this, { theme, model, axis } = app;
		const width = root.clientWidth, height = root.clientHeight;
		const ratio = Math.min(2, window.devicePixelRatio || 1);
		canvas.width = width * ratio;
		canvas.height = height * ratio;
		const ctx = canvas.getContext("2d");
		ctx.scale(ratio, ratio);
		const most = Math.max(1, model.reserved.max, model.active.max);
		const shade = (series, colour) => {
			ctx.fillStyle = colour;
			for (let c = 0; c < this.inner; c++) {
				const left = axis.start + c / this.inner *
					(axis.end - axis.start);
				const right = axis.start + (c + 1) / this.inner *
					(axis.end - axis.start);
				const p = axis.position(left);
				const high = series.range(p, Math.max(p + 1e-6,
				    axis.position(right)))[1];
				const tall = high / most * (height - 4);
				ctx.fillRect(GUTTER + c, height - tall, 1, tall);
			}
		};
		ctx.globalAlpha = 0.35;
		shade(model.reserved, theme.held);
		ctx.globalAlpha = 0.75;
		shade(model.active, theme.use);
		ctx.globalAlpha = 1;
		ctx.fillStyle = theme.alarm;
		for (const i of model.marks.oom)
			ctx.fillRect(this.px(axis.x(i)) - 1, 0, 2, height);
		const a = this.px(app.x0), b = this.px(app.x1);
		ctx.globalAlpha = 0.72;
		ctx.fillStyle = theme.paper;
		ctx.fillRect(GUTTER, 0, Math.max(0, a - GUTTER), height);
		ctx.fillRect(b, 0, Math.max(0, width - MARGIN - b), height);
		ctx.globalAlpha = 1;
		ctx.strokeStyle = theme.accent;
		ctx.lineWidth = 1.5;
		ctx.strokeRect(a + 0.75, 0.75, Math.max(3, b - a - 1.5), height - 1.5);
		ctx.fillStyle = theme.accent;
		for (const x of [a, Math.max(b, a + 4)])
			ctx.fillRect(x - 2, height / 2 - 7, 4, 14);
		const whole = axis.end - axis.start;
		root.setAttribute("aria-valuemax", "100");
		root.setAttribute("aria-valuenow",
		    String(Math.round((app.x0 - axis.start) / whole * 100)));
		root.setAttribute("aria-valuetext",
		    `${Math.round((app.x0 - axis.start) / whole * 100)} to ` +
		    `${Math.round((app.x1 - axis.start) / whole * 100)} percent`);
	}
}
