/*
 * Changes since an earlier snapshot, with one row for each call site.
 */
import { h, fill } from "../dom.js";
import { bytes, count, percent, plural, signed } from "../format.js";
import { compare } from "../compare.js";

const MOST = 300; /* the most rows */

export class Compare {
	constructor(app) {
		this.app = app;
		this.id = "compare";
		this.label = "Compare";
		this.hint = "Memory in use by call site at the end of each snapshot. " +
		    "A search shows only its results.";
		this.sums = h("p", { class: "sums" });
		this.rows = h("div", { class: "body", tabindex: "0",
			role: "rowgroup", "aria-label": "Changes by call site" });
		this.grid = h("div", { class: "stack-view", role: "grid",
			"aria-label": "Changes by call site" },
		h("div", { class: "row head", role: "row" }, ...["Change", "Share",
			"Before", "Now", "Blocks", "Allocated by"].map((t) =>
			h("span", { role: "columnheader" }, t))), this.rows);
		this.root = h("div", { class: "compare stack-view" }, this.sums,
		    this.grid);
		this.chosen = null;
	}

	found() {
		const { app } = this, { device } = app.model;
		if (this.device !== device) {
			this.device = device;
			this.result = compare(app.snap, app.sites, device);
		}
		return this.result;
	}

	draw() {
		const { app } = this, { before, after, rows } = this.found();
		const wanted = app.query ?? "";
		const shown = rows.filter((r) => r.name.toLowerCase().includes(wanted));
		const most = Math.max(1, ...shown.slice(0, 1).map((r) =>
			Math.abs(r.change)));
		fill(this.sums, ...this.say(before, after).map((t) =>
			h("span", {}, t)));
		fill(this.rows, ...shown.slice(0, MOST).map((r) =>
			this.row(r, most)));
		app.note(shown.length === 0 ? "Nothing here in either snapshot." :
			shown.length > MOST ? `${count(MOST)} of ` +
			`${plural(shown.length, "call site")}, largest change first` :
				plural(shown.length, "call site"));
	}

	say(before, after) {
		const one = (name, a, b) => `${name}: ${bytes(a)} → ${bytes(b)} ` +
			`(${signed(b - a)}` +
			(a > 0 && b !== a ? `, ${percent(Math.abs(b - a), a)}` : "") + ")";
		return [`Since ${this.app.snap.before.title}`,
			one("In use", before.use, after.use),
			one("Held", before.held, after.held),
			`Blocks: ${count(before.blocks)} → ${count(after.blocks)}`];
	}

	row(r, most) {
		const bar = h("i", { class: r.change < 0 ? "less" : "more" });
		bar.style.width = `${Math.abs(r.change) / most * 100}%`;
		const cell = (style, ...what) => h("span", { class: style,
			role: "gridcell" }, ...what);
		return h("div", { class: "row", role: "row",
			"aria-selected": String(this.chosen === r),
			onclick: () => this.choose(r) },
		cell("number", signed(r.change)), cell("amount", bar),
		cell("number", bytes(r.before.bytes)),
		cell("number", bytes(r.after.bytes)),
		cell("number", r.before.blocks === r.after.blocks ?
			count(r.after.blocks) :
			`${count(r.before.blocks)} → ${count(r.after.blocks)}`),
		h("span", { class: "site", role: "gridcell", title: r.name },
		    r.name));
	}

	choose(r) {
		this.chosen = r;
		this.app.select({ change: r });
		this.draw();
	}
	over() {}
}
