/*
 * The panel of details: figures and stacks of the object under the pointer, or
 * of the selected object.
 */
import { h, fill, swatch } from "./dom.js";
import { bytes, count, duration, fileName, plural, signed } from "./format.js";
import { EVIDENCE, GUESSED, KINDS, kindsOf } from "./kinds.js";
import { BEFORE, AT_END, BROKEN } from "./model.js";

export class Panel {
	constructor(app) {
		this.app = app;
		this.now = h("dl", { class: "facts" });
		this.title = h("h2", {}, "Under the pointer");
		this.body = h("div", { class: "found" });
		this.root = h("aside", { class: "panel", "aria-label": "Details" },
		    h("h2", {}, "At this moment"), this.now, this.title, this.body);
		this.all = false;
	}

	facts(list, rows) {
		fill(list, ...rows.flatMap(([name, value]) =>
			[h("dt", {}, name), h("dd", {}, value)]));
		return list;
	}

	moment() {
		const { app } = this, { model, axis } = app;
		const x = app.cursor ?? (app.mark !== null ? axis.x(app.mark) : null);
		const p = x === null ? model.length - 1 :
			Math.min(model.length - 1, Math.floor(axis.position(x)));
		const held = model.reserved.at(p), use = model.active.at(p);
		const rows = [];
		if (model.events)
			rows.push(["Event", x === null ? `${count(p)}, the last` : count(p)]);
		if (app.times.useful)
			rows.push(["Time", duration(app.times.times[p])]);
		rows.push(
		    [h("span", {}, swatch(app.theme.held), "Held"), bytes(held)],
		    [h("span", {}, swatch(app.theme.use), "In use"), bytes(use)],
		    [h("span", {}, swatch(app.theme.wait), "Waiting"),
			    bytes(model.pending.at(p))],
		    ["Free", bytes(Math.max(0, held - use))],
		    ["Blocks", count(model.blocks.at(p))]);
		this.facts(this.now, rows);
	}

	draw() {
		const { app } = this;
		this.moment();
		const what = app.hovered ?? app.selected;
		const pinned = what !== null && same(what, app.selected);
		if (what === this.shown && pinned === this.pinned && !this.stale)
			return;
		this.shown = what;
		this.pinned = pinned;
		this.stale = false;
		this.title.textContent = pinned ? "Selected" : "Under the pointer";
		fill(this.body, ...this.describe(what));
	}

	describe(what) {
		if (!what)
			return [h("p", { class: "quiet" }, "Move the pointer over a picture " +
				"to see details here; click to keep them.")];
		if (what.element !== undefined)
			return this.element(what.element);
		if (what.range)
			return this.range(what.range);
		if (what.flame)
			return this.flame(what.flame, what.flameView);
		if (what.lane)
			return this.lane(what.lane);
		if (what.event !== undefined)
			return this.event(what.event);
		if (what.change)
			return this.change(what.change);
		if (what.others)
			return this.others(what.others);
		return [h("p", {}, what.text ?? "")];
	}

	element(k) {
		const { app } = this, { model, snap } = app, el = model.elements;
		const flags = el.flags[k];
		const rows = [
			["Size", bytes(el.size[k])],
			["Address", snap.address(el.addr[k])],
			["Stream", snap.streamFullName(el.stream[k])],
			["Allocated", flags & BEFORE ? "before the first event" :
				`event ${count(el.start[k])}`],
			["Freed", this.freed(k)],
		];
		if (el.held[k] !== el.size[k] && flags & AT_END)
			rows.splice(1, 0, ["Block", bytes(el.held[k])]);
		const life = this.length(el.start[k], el.end[k]);
		const { kind, evidence } = kindsOf(model);
		rows.push(["Kind", `${KINDS[kind[k]]}, ${evidence[k] === GUESSED ?
			"guessed" : `by ${EVIDENCE[evidence[k]]}`}`]);
		if (snap.pools > 1)
			rows.push(["Pool", snap.pool(el.pool[k])]);
		rows.push([flags & (BEFORE | AT_END) ? "Lived at least" : "Lived", life]);
		if (el.freed[k] < el.end[k])
			rows.push(["Waited", this.length(el.freed[k], el.end[k])]);
		return [
			h("div", { class: "headline" },
			    swatchOf(app.colourOf[k]), bytes(el.size[k])),
			this.facts(h("dl", { class: "facts" }), rows.slice(1)),
			...this.stacks(el.stack[k], el.freeStack[k], el.event[k]),
		];
	}

	freed(k) {
		const el = this.app.model.elements, flags = el.flags[k];
		if (flags & BROKEN)
			return "not in the trace";
		if (el.freed[k] < el.end[k])
			return el.end[k] >= this.app.model.length ?
				`event ${count(el.freed[k])}, still waiting` :
				`event ${count(el.freed[k])}`;
		if (el.end[k] >= this.app.model.length)
			return flags & AT_END ? "still in use" : "not in the trace";
		return `event ${count(el.end[k])}`;
	}

	length(from, to) {
		const { times, model } = this.app;
		const events = `${count(to - from)} events`;
		return times.useful ? `${duration(times.times[Math.min(to,
		    model.length)] - times.times[from])}, ${events}` : events;
	}

	stacks(made, freed, event) {
		const out = [this.stack("Allocated by", made)];
		if (freed && freed !== made)
			out.push(this.stack("Freed by", freed));
		const c = this.app.model.columns, { snap, model } = this.app;
		if (event >= 0) {
			const e = model.first + event;
			for (const [column, name] of [["event_context", "Compiled in"],
				["event_metadata", "Metadata"]]) {
				const text = snap.string(c[column][e]);
				if (text && text !== "N/A")
					out.push(h("p", { class: "quiet" }, `${name}: ${text}`));
			}
		}
		return out;
	}

	stack(title, node) {
		const { app } = this;
		const frames = app.sites.stack(node, this.all);
		const hidden = app.snap.stack(node).length - frames.length;
		const own = frames.indexOf(app.sites.own(node));
		const list = h("ol", { class: "frames" }, ...frames.map((f, i) => {
			const { name, file, line } = app.snap.frame(f);
			const place = file && file !== "??" ?
				`${fileName(file)}${line ? `:${line}` : ""}` : "";
			return h("li", { class: i === own ? "own" : "", title: file },
			    h("span", { class: "name" }, name || "(no name)"),
			    h("span", { class: "place" }, place));
		}));
		const more = hidden > 0 || this.all ? h("button", { class: "link",
			onclick: () => {
				this.all = !this.all;
				this.stale = true;
				this.draw();
			} }, this.all ? "hide interpreter frames" :
			`show ${hidden} interpreter frames`) : null;
		const copy = frames.length ? this.copyButton("Copy this stack as text",
		    () => this.stackText(node)) : null;
		return h("section", {}, h("h3", {}, title, copy),
		    frames.length ? list :
			    h("p", { class: "quiet" }, "no stack recorded"), more);
	}

	/* A stack as text: one line for each frame, innermost first. */
	stackText(node) {
		const { snap, sites } = this.app;
		return sites.stack(node, this.all).map((f) => {
			const { name, file, line } = snap.frame(f);
			return `${name || "(no name)"} (${file || "??"}` +
				`${line ? `:${line}` : ""})\n`;
		}).join("");
	}

	/* A button that copies a text. */
	copyButton(title, text) {
		return h("button", { class: "link copy", type: "button", title,
			onclick: ({ currentTarget }) =>
				this.copy(text(), currentTarget) }, "copy");
	}
	async copy(text, button) {
		const done = await copyText(text, button.parentElement);
		button.textContent = done ? "copied" : "cannot copy here";
		this.app.say(button.textContent);
		setTimeout(() => button.textContent = "copy", 1500);
	}

	range(r) {
		const { app } = this, { snap, model } = app;
		return [
			h("div", { class: "headline" }, `${bytes(r.size)} held`),
			this.facts(h("dl", { class: "facts" }), [
				["Kind", r.expandable ? "part of an expandable segment" :
					"segment"],
				["Address", snap.address(r.addr)],
				["Stream", snap.streamFullName(r.stream)],
				["From", r.before ? "before the first event" :
					`event ${count(r.start)}`],
				["Until", r.end >= model.length ? "the end" :
					`event ${count(r.end)}`],
			]),
			this.stack("Allocated by", r.stack),
		];
	}

	flame(d, view) {
		const path = view.path(d);
		return [
			h("div", { class: "headline" }, view.name(d)),
			this.facts(h("dl", { class: "facts" }), view.describe(d)),
			h("section", {}, h("h3", {}, view.inverted ? "Calls" : "Called through"),
			    h("ol", { class: "frames" }, ...path.map((f) => {
				    const { name, file, line } = view.frame(f);
				    return h("li", { title: file },
				        h("span", { class: "name" }, name),
				        h("span", { class: "place" },
					    file && file !== "??" ?
					    `${fileName(file)}:${line}` : ""));
			    }))),
		];
	}

	lane(lane) {
		const { app } = this;
		const p = app.cursor === null ? app.model.length - 1 :
			app.axis.position(app.cursor);
		this.stale = true;
		return [this.facts(h("dl", { class: "facts" }),
		    app.views.streams.describe(lane, p))];
	}

	/* A call site of two snapshots. */
	change({ name, before, after, change }) {
		const row = (state) => `${bytes(state.bytes)} in ` +
			`${plural(state.blocks, "block")}`;
		return [
			h("div", { class: "headline" }, signed(change)),
			this.facts(h("dl", { class: "facts" }), [
				["Site", name], ["Before", row(before)], ["Now", row(after)],
			]),
			after.blocks ? this.stack("The largest one now", after.node) :
				h("p", { class: "quiet" }, "nothing of it is in use now"),
		];
	}

	/* The call sites that share the neutral colour. */
	others(list) {
		const shown = list.slice(0, 100);
		return [
			h("div", { class: "headline" }, `${count(list.length)} others`),
			h("p", { class: "quiet" }, "In use at the peak, largest first" +
			    (list.length > shown.length ? "; the first 100" : "")),
			this.facts(h("dl", { class: "facts wide" }),
			    shown.map((r) => [bytes(r.bytes), h("button", { class: "link",
				    title: "Show only these", onclick: () =>
					    this.app.pick(r.key, r.label) }, r.label)])),
		];
	}

	event(i) {
		const { app } = this, { model, snap } = app, c = model.columns;
		const e = model.first + i;
		return [
			h("div", { class: "headline" },
			    model.actionName(i).replaceAll("_", " ")),
			this.facts(h("dl", { class: "facts" }), [
				["Event", count(i)],
				["Size", bytes(c.event_size[e])],
				["Stream", snap.streamFullName(c.event_stream[e])],
			]),
			this.stack("Stack", c.event_stack[e]),
		];
	}
}

/* True if two finds are the same object. */
export function same(a, b) {
	if (!a || !b)
		return a === b;
	return ["element", "range", "flame", "lane", "event", "change",
		"others", "text"].every(
	    (key) => a[key] === b[key]);
}

function swatchOf(packed) {
	return swatch(`rgb(${packed & 255} ${packed >> 8 & 255} ` +
		`${packed >> 16 & 255})`);
}

/* Copy a text to the clipboard. Browsers refuse the clipboard to pages that they
 * do not trust; such a page copies from a text field, which is in `place`: a
 * dialog makes the rest of the page inert. */
async function copyText(text, place) {
	try {
		await navigator.clipboard.writeText(text);
		return true;
	} catch {
		const field = h("textarea", { class: "unseen" });
		field.value = text;
		place.append(field);
		field.select();
		const done = document.execCommand("copy");
		field.remove();
		return done;
	}
}
