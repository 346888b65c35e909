/*
 * The events in view, one row each. Only the visible rows exist.
 */
import { h, fill } from "../dom.js";
import { bytes, count, duration, frameLabel } from "../format.js";
import { ACTION } from "../model.js";

const ROW = 26, TALLEST = 8e6; /* pixels of a scroll area in every browser */

export class Events {
	constructor(app) {
		this.app = app;
		this.id = "events";
		this.label = "Events";
		this.hint = "The events of the part in view, in order. " +
		    "A search shows only its results.";
		this.rows = h("div", { class: "rows", role: "presentation" });
		this.space = h("div", { class: "space", role: "presentation" },
		    this.rows);
		this.body = h("div", { class: "body", tabindex: "0",
			role: "rowgroup", "aria-label": "Events in view",
			onscroll: () => this.list() }, this.space);
		this.root = h("div", { class: "events stack-view", role: "grid",
			"aria-label": "Events in view" },
		h("div", { class: "row head", role: "row" }, ...["Event", "Time",
			"What", "Size", "Address", "Stream", "Allocated by"]
		    .map((t) => h("span", { role: "columnheader" }, t))),
		this.body);
		this.current = -1;
		new ResizeObserver(() => this.root.isConnected && this.list())
		    .observe(this.body);
	}

	/* Choose the events to show: a range, or the results of a search. */
	draw() {
		const { app } = this, { model, axis } = app;
		const p0 = Math.floor(axis.position(app.x0));
		const p1 = Math.min(model.events, Math.ceil(axis.position(app.x1)));
		this.from = p0;
		this.n = Math.max(0, p1 - p0);
		this.chosen = null;
		if (app.matchedNodes) {
			const chosen = [];
			const { event_stack: stack, event_addr: addr } = model.columns;
			for (let i = p0; i < p1; i++)
				if (app.matchedNodes?.[stack[model.first + i]] ||
				    (app.matchedAddress !== null &&
				    addr[model.first + i] === app.matchedAddress))
					chosen.push(i);
			this.chosen = chosen;
			this.n = chosen.length;
		}
		this.root.setAttribute("aria-rowcount", String(this.n + 1));
		this.height = Math.min(TALLEST, this.n * ROW);
		this.space.style.height = `${this.height}px`;
		app.note(this.n === 0 ? "No events here." :
			`${count(this.n)} events${app.matchedNodes ? " found" : ""} in view`);
		this.list();
	}

	event(row) {
		return this.chosen ? this.chosen[row] : this.from + row;
	}

	list() {
		if (this.n === undefined)
			return;
		const visible = this.body.clientHeight;
		const fits = Math.ceil(visible / ROW) + 1;
		const way = Math.max(1, this.height - visible);
		const share = Math.min(1, this.body.scrollTop / way);
		const first = this.n * ROW <= TALLEST ?
			Math.floor(this.body.scrollTop / ROW) :
			Math.floor(share * Math.max(0, this.n - fits + 1));
		const rows = [];
		for (let r = first; r < Math.min(this.n, first + fits); r++)
			rows.push(this.row(this.event(r), r));
		const exact = this.n * ROW <= TALLEST ? first * ROW :
			this.body.scrollTop;
		this.rows.style.transform = `translateY(${exact}px)`;
		fill(this.rows, ...rows);
	}

	row(i, place) {
		const { app } = this, { model, snap, sites } = app, c = model.columns;
		const e = model.first + i, kind = model.kind(i);
		const placed = kind !== ACTION.SNAPSHOT && kind !== ACTION.OOM;
		const cell = (style, text) => h("span", { class: style,
			role: "gridcell" }, text);
		return h("div", { class: `row kind-${kind}`, role: "row",
			"aria-rowindex": place + 2,
			"aria-selected": String(this.current === i),
			onclick: () => this.choose(i) },
		cell("number", count(i)),
		cell("number", app.times?.useful ? duration(app.times.times[i]) : "—"),
		cell("", model.actionName(i).replaceAll("_", " ")),
		cell("number", bytes(c.event_size[e])),
		cell("mono", placed ? snap.address(c.event_addr[e]) :
			kind === ACTION.OOM ? `${bytes(c.event_addr[e])} free` : "—"),
		cell("", snap.streamName(c.event_stream[e])),
		cell("site", sites.label(c.event_stack[e], frameLabel)));
	}

	choose(i) {
		const { app } = this;
		this.current = i;
		app.setMark(i);
		app.select(app.elementOfEvent(i) ?? { event: i });
		this.list();
	}

	key(e) {
		const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -20,
			PageDown: 20 }[e.key];
		if (!by || !this.n)
			return false;
		const rowNow = this.chosen ? this.chosen.indexOf(this.current) :
			this.current - this.from;
		const row = Math.max(0, Math.min(this.n - 1, rowNow + by));
		this.choose(this.event(row));
		const top = row * Math.min(ROW, this.height / this.n);
		if (top < this.body.scrollTop)
			this.body.scrollTop = top;
		else if (top > this.body.scrollTop + this.body.clientHeight - ROW)
			this.body.scrollTop = top - this.body.clientHeight + ROW;
		return true;
	}
	over() {}
}
