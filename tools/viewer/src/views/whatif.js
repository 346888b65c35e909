/*
 * The memory that the recording held, and what it would have held under other
 * settings, with the price of each in waits. The weir command has played the
 * recording (tools/weir/replay/what_if.h).
 */
import { Plot, GUTTER, MARGIN, drawByteScale } from "../plot.js";
import { h, fill, swatch } from "../dom.js";
import { css } from "../theme.js";
import { bytes, count, duration, percent, signed } from "../format.js";

/* The name of a setting for people. */
export function settingName(setting) {
	if (setting === "weir")
		return "weir with its defaults";
	if (setting === "torch")
		return "PyTorch with its defaults";
	return setting.startsWith("torch,") ? `PyTorch, ${setting.slice(6)}` :
		`weir, ${setting}`;
}

/* The price of a setting in words. */
export function price(one) {
	if (one.host_waits === null)
		return `${count(one.driver_calls)} driver calls`;
	const waits = one.host_waits + one.gpu_waits;
	return `${count(one.driver_calls)} driver calls, ` + (waits === 0 ?
		"no waits" : `${count(one.host_waits)} waits of the host, ` +
		`${count(one.gpu_waits)} on the GPU` + (one.gpu_wait_us ?
		`, ${duration(one.gpu_wait_us)}` : ""));
}

export class WhatIf {
	constructor(app) {
		this.app = app;
		this.id = "whatif";
		this.label = "What if";
		this.hint = "Held memory as recorded, and as the recording would have " +
		    "held it under other settings. The peak of each is in the table.";
		this.hidden = new Set();
		this.plot = new Plot(app, this, "Held memory under other settings");
		this.rows = h("div", { class: "what-rows", role: "group",
			"aria-label": "Settings" });
		this.root = h("div", { class: "stack-view" }, this.rows,
		    h("div", { class: "scroll what-plot" }, this.plot.root));
	}

	/* The curves of the device: those that the command played. */
	get curves() {
		const { snap, model, theme } = this.app;
		return snap.whatIf.filter(({ device }) => device === model.device)
		    .map((one, i) => ({ ...one, name: settingName(one.setting),
			    colour: css(theme.slots[i % theme.slots.length]) }));
	}

	state() {
		return this.hidden.size === 0 ? [] :
			[["without", [...this.hidden].join(".")]];
	}
	restore(get) {
		if (/^\d{1,2}(\.\d{1,2}){0,20}$/.test(get("without") ?? ""))
			this.hidden = new Set(get("without").split(".").map(Number));
	}

	toggle(i) {
		if (!this.hidden.delete(i))
			this.hidden.add(i);
		this.app.changed("window");
	}

	list(curves, peak) {
		if (this.listed === this.app.model && this.theme === this.app.theme)
			return;
		this.listed = this.app.model;
		this.theme = this.app.theme;
		const row = (i, colour, name, held, note, alarm) => h(i < 0 ? "div" : "label",
		    { class: "what-row" }, i < 0 ? h("span") : h("input", {
			    type: "checkbox", checked: !this.hidden.has(i),
			    onchange: () => this.toggle(i) }),
		    swatch(colour), h("span", { class: "what-name" }, name),
		    h("span", { class: "number" }, bytes(held)),
		    h("span", { class: "number quiet" }, i < 0 ? "" :
			`${signed(held - peak)}, ${percent(Math.abs(held - peak),
				peak)}`),
		    h("span", { class: alarm ? "alarm" : "quiet" }, note));
		fill(this.rows, row(-1, this.app.theme.held, "as recorded", peak, ""),
		    ...curves.map((one, i) => row(i, one.colour, one.name,
			one.peak_held_bytes, price(one) + (one.ooms ?
				`; ${count(one.ooms)} requests failed` : ""), one.ooms)));
	}

	draw(plot, ctx) {
		const { app } = this, { model, theme } = app;
		const curves = this.curves, peak = model.reserved.max;
		this.list(curves, peak);
		const shown = curves.filter((_, i) => !this.hidden.has(i));
		this.max = Math.max(1 << 20, peak, ...shown.map((one) =>
			Math.max(...one.held))) * 1.06;
		drawByteScale(plot, ctx, this.max);
		const y = (v) => plot.height - v / this.max * plot.height;
		this.drawRecorded(plot, ctx, y);
		for (const one of shown)
			this.drawCurve(plot, ctx, one, y);
		ctx.lineWidth = 1;
		ctx.strokeStyle = theme.line;
		app.note(curves.length === 0 ? "This device has no recording to play." :
			app.times.useful ? "" : "The recording has no times: curves " +
			"of other settings are spread evenly");
	}

	/* Draw the most that was held in each column. */
	drawRecorded(plot, ctx, y) {
		const { axis, model, theme } = this.app;
		ctx.fillStyle = css(theme.heldRGB);
		ctx.globalAlpha = 0.35;
		for (let x = GUTTER; x < plot.width - MARGIN; x++) {
			const left = plot.x(x), right = plot.x(x + 1);
			if (right < axis.start || left > axis.end)
				continue;
			const p0 = axis.position(left);
			const [, v] = model.reserved.range(p0,
			    Math.max(p0 + 1e-6, axis.position(right)));
			ctx.fillRect(x, y(v), 1, plot.height - y(v));
		}
		ctx.globalAlpha = 1;
	}

	/* The place on the axis at which part i of a curve begins. */
	partAt(one, i) {
		const { model, axis, times } = this.app, n = one.held.length;
		if (!times.useful)
			return axis.x(i / n * model.length);
		const first = model.columns.event_time[model.first];
		return axis.x(model.positionOfTime(first + i / n * one.span_us));
	}

	drawCurve(plot, ctx, one, y) {
		ctx.strokeStyle = one.colour;
		ctx.lineWidth = 1.75;
		ctx.save();
		ctx.beginPath();
		ctx.rect(GUTTER, 0, plot.inner, plot.height);
		ctx.clip();
		ctx.beginPath();
		one.held.forEach((v, i) => {
			const x = plot.px(this.partAt(one, i));
			ctx.lineTo(x, y(v));
			ctx.lineTo(plot.px(this.partAt(one, i + 1)), y(v));
		});
		ctx.stroke();
		ctx.restore();
	}
}
