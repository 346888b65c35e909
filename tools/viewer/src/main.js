/*
 * The page: its state, and the drawing of the parts that a change concerns.
 */
import "./style.css";
import { runs, unpack, Snapshot } from "./data.js";
import { buildModel } from "./model.js";
import { EventAxis, TimeAxis } from "./axis.js";
import { Sites } from "./sites.js";
import { colour, MODES } from "./colours.js";
import { css, readTheme } from "./theme.js";
import { h, fill, swatch } from "./dom.js";
import { bytes, count, percent, plural } from "./format.js";
import { adviceFor, adviceNote, changes, figures, sentences,
	servedIn } from "./summary.js";
import { foundIn, keepOnly, next, search, sumFound } from "./search.js";
import { Live } from "./live.js";
import { Ranks, rankSentence } from "./ranks.js";
import { Timeline } from "./timeline.js";
import { Minimap } from "./minimap.js";
import { Panel, same } from "./panel.js";
import { Bands } from "./views/bands.js";
import { AddressMap } from "./views/map.js";
import { Streams } from "./views/streams.js";
import { Flame } from "./views/flame.js";
import { Events } from "./views/events.js";
import { Compare } from "./views/compare.js";
import { WhatIf } from "./views/whatif.js";

const KEYS = [
	["← →", "move along the trace"],
	["+ −", "zoom in and out; the wheel does too"],
	["0", "show the whole trace"],
	["1 to 7", "choose a picture"],
	["P", "go to the peak"],
	["Z", "in Allocations, show only the heights at which memory changes"],
	["K", "show only memory that was allocated in view and is in use at its end"],
	["/", "search stacks, files and addresses"],
	["N, Shift N", "go to the next or the previous result"],
	["[ ]", "move the mark to the event before or after"],
	["Enter", "select the allocation at the mark"],
	["↑ ↓", "in the address map, select the next or the previous block at this address"],
	["Escape", "clear the selection, then what the legend shows, then the search"],
	["T", "dark or light"],
	["?", "show this list"],
];

class App {
	constructor(snap, root) {
		this.snap = snap;
		this.root = root;
		this.sites = new Sites(snap);
		this.theme = readTheme();
		/* Without stacks there are no call sites. */
		this.colour = snap.columns.node_parent.length > 1 ? "site" : "stream";
		this.hovered = this.selected = null;
		this.cursor = this.mark = null;
		this.found = this.matchedFrames = this.matchedNodes = null;
		this.matchedAddress = null;
		this.kept = null; /* {p0, p1}: show only memory kept between them */
		this.picked = null; /* {mode, key, label}: chosen in the legend */
		this.slots = {}; /* the colours' slots by mode, of all devices */
		this.dirty = new Set();
		this.models = new Map();
	}

	async start(step) {
		const wanted = new URLSearchParams(location.hash.slice(1));
		let device = 0;
		while (device + 1 < this.snap.devices && !this.hasSomething(device))
			device++;
		const asked = Number(wanted.get("device") ?? -1);
		if (asked >= 0 && asked < this.snap.devices)
			device = asked;
		await this.load(this.hasSomething(device) ? device : 0, step);
		this.build();
		this.setDevice();
		this.restore(wanted);
		this.loadOthers();
	}

	/* Make the models of the other devices, one after the other, while the
	 * page can be used. */
	async loadOthers() {
		if (!this.ranks)
			return;
		for (const device of this.ranks.devices) {
			if (!this.models.has(device))
				await this.makeModel(device, () =>
					new Promise((done) => setTimeout(done)));
			this.ranks.models = this.ranks.devices.flatMap((d) =>
				this.models.get(d) ?? []);
			this.ranks.draw();
		}
		this.tellRanks();
	}

	/* Add the live part, of a page that a server gave. */
	follow() {
		this.liveView = new Live(this);
		this.root.querySelector(".summary").after(this.liveView.root);
	}

	tellRanks() {
		const { models, devices } = this.ranks;
		if (models.length !== devices.length)
			return;
		const item = h("li", { id: "rank-story" },
		    rankSentence(models, this.snap, this.sites));
		const urgent = this.story.querySelector(".urgent");
		if (urgent)
			urgent.after(item);
		else
			this.story.prepend(item);
	}

	hasSomething(device) {
		return this.snap.deviceEvents[device] > 0 ||
			this.snap.columns.segment_device.includes(device);
	}

	async makeModel(device, step) {
		const model = await buildModel(this.snap, device, step);
		if (!this.models.has(device))
			this.models.set(device, model);
		return this.models.get(device);
	}

	async load(device, step) {
		const model = this.models.get(device) ??
			await this.makeModel(device, step);
		this.model = model;
		this.times = new TimeAxis(this.snap.columns.event_time, model.first,
		    model.length);
		this.axis = new EventAxis(model.length);
		this.x0 = this.axis.start;
		this.x1 = this.axis.end;
		this.selected = this.hovered = null;
		this.mark = this.cursor = this.kept = null;
	}

	/* ---- The frame around the pictures ---- */

	build() {
		this.timeline = new Timeline(this, h("div", { class: "timeline" }));
		this.minimap = new Minimap(this);
		this.panel = new Panel(this);
		this.list = [new Bands(this), new AddressMap(this), new Streams(this),
			new Flame(this), new Events(this),
			...(this.snap.before ? [new Compare(this)] : []),
			...(this.snap.whatIf.length ? [new WhatIf(this)] : [])];
		this.views = Object.fromEntries(this.list.map((v) => [v.id, v]));
		this.view = this.list[0];
		this.legend = h("ul", { class: "legend", "aria-label": "Colours" });
		this.footnote = h("p", { class: "note", role: "status" });
		this.hint = h("p", { class: "hint" });
		this.live = h("p", { class: "unseen", "aria-live": "polite" });
		this.stage = h("div", { class: "stage", role: "tabpanel",
			id: "stage" });
		this.story = h("ul", { class: "story" });
		const devices = Array.from({ length: this.snap.devices }, (_, d) => d)
		    .filter((d) => d < this.snap.pinnedFrom && this.hasSomething(d));
		this.ranks = devices.length > 1 ? new Ranks(this, devices) : null;
		this.why = h("dialog", { class: "verdict",
			"aria-label": "Why it failed" });
		this.tiles = h("dl", { class: "tiles" });
		const main = h("main", {},
		    h("section", { class: "overview", "aria-label": "Overview" },
			this.key(), this.timeline.root, this.minimap.root),
		    h("section", { class: "picture", "aria-label": "Pictures" },
			this.tabs(), this.legend, this.stage,
			h("div", { class: "foot" }, this.hint, this.footnote)));
		fill(this.root, this.header(),
		    h("section", { class: "summary", "aria-label": "Summary" },
			this.tiles, this.story), this.ranks?.root,
		    h("div", { class: "work" }, main, this.panel.root), this.live,
		    this.help(), this.why);
		document.addEventListener("keydown", (e) => this.keydown(e));
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change",
		    () => this.retheme());
	}

	header() {
		this.input = h("input", { type: "search", placeholder:
			"Search stacks, files, addresses  ( / )", "aria-label": "Search",
		spellcheck: "false", oninput: () => this.searchSoon(),
		onkeydown: (e) => {
			if (e.key === "Enter")
				this.goNext(e.shiftKey ? -1 : 1);
			if (e.key === "Escape") {
				this.input.value = "";
				this.search();
				this.input.blur();
			}
			e.stopPropagation();
		} });
		this.hits = h("span", { class: "quiet hits", role: "status" });
		const devices = this.deviceChoice = h("select", { "aria-label": "Device",
			onchange: (e) => this.changeDevice(Number(e.target.value)) },
		...Array.from({ length: this.snap.devices }, (_, d) => h("option",
		    { value: d, selected: d === this.model.device },
		    this.snap.deviceName(d) +
			(this.hasSomething(d) ? "" : " (empty)"))));
		return h("header", {},
		    h("h1", {}, mark(), "weir"),
		    h("span", { class: "title", title: this.snap.title },
			this.snap.title),
		    this.snap.devices > 1 ? devices : null,
		    h("span", { class: "space" }),
		    h("div", { class: "search" }, this.input, this.hits),
		    h("button", { class: "tool", title: "Dark or light (T)",
			"aria-label": "Dark or light", onclick: () => this.flip() }, "◐"),
		    h("button", { class: "tool", title: "Keys and words (?)",
			"aria-label": "Help", onclick: () => this.dialog.showModal() },
		    "?"));
	}

	/* The timeline's key, and the choice of the axis. */
	key() {
		const entry = (style, text, meaning) => h("span",
		    { class: `entry ${style}`, title: meaning }, h("i", {}), text);
		const axis = (kind, text) => h("button", { "data-axis": kind,
			onclick: () => this.setAxis(kind) }, text);
		this.axisButtons = h("div", { class: "choice", role: "group",
			"aria-label": "Horizontal axis" }, axis("event", "Events"),
		axis("time", "Time"));
		return h("div", { class: "bar" },
		    h("h2", {}, "Memory through time"),
		    entry("held", "held", "Reserved: allocated from the device"),
		    entry("use", "in use", "Active: allocated, or freed and waiting"),
		    entry("wait", "waiting",
		    "Pending: freed, and not yet seen to be complete"),
		    h("span", { class: "space" }),
		    this.keepButton = h("button", { class: "plain", "aria-pressed":
			"false", title: "Show only memory that was allocated in view " +
			"and is in use at its end (K)",
		    onclick: () => this.toggleKept() },
		    "Kept in view"),
		    h("button", { class: "plain", onclick: () => this.goPeak() },
		    "Go to the peak"),
		    h("button", { class: "plain", onclick: () => this.zoomAll() },
		    "Show all"),
		    this.axisButtons);
	}

	tabs() {
		this.tabList = h("div", { class: "tabs", role: "tablist",
			"aria-label": "Pictures" }, ...this.list.map((view, i) =>
			h("button", { role: "tab", id: `tab-${view.id}`,
				"aria-controls": "stage", title: `${view.label} (${i + 1})`,
				onclick: () => this.show(view) }, view.label)));
		this.colours = h("select", { "aria-label": "Colour by",
			onchange: (e) => {
				this.colour = e.target.value;
				this.recolour();
			} }, ...MODES.map(([id, name]) => h("option", { value: id,
			selected: id === this.colour }, name)));
		this.colourBar = h("label", { class: "colour" }, "Colour: ",
		    this.colours);
		this.saveButton = h("button", { class: "plain", title:
			"Save the picture as a PNG file",
		onclick: () => this.savePicture() }, "Save picture");
		return h("div", { class: "bar tabbar" }, this.tabList,
		    h("span", { class: "space" }), this.saveButton, this.colourBar);
	}

	help() {
		const words = [
			["Held", "Or reserved: memory that the allocator got from the " +
				"device, in segments. An expandable segment grows and " +
				"shrinks in parts."],
			["In use", "Or active: memory that the program allocated and that " +
				"is not free again. Waiting memory is part of it."],
			["Waiting", "Or pending: freed, but the allocator has not yet seen " +
				"that the work on it is done. The allocator checks that when " +
				"the program requests memory."],
			["Free", "Held and not in use. Much free memory in small pieces is " +
				"fragmentation: a large request may fail in spite of it."],
			["Stack", "The calls that led to an allocation. The frame in bold is " +
				"the innermost frame of the program itself."],
			["Event", "One entry of the history: an allocation, a free, or a " +
				"call for memory of the device."],
		];
		const rows = (list) => h("dl", { class: "facts wide" },
		    ...list.flatMap(([a, b]) => [h("dt", {}, a), h("dd", {}, b)]));
		this.settings = h("div");
		if (this.snap.settings.length)
			this.settings.append(h("h3", {}, "Settings of the allocator"),
			    rows(this.snap.settings.map(([name, value]) =>
				[name.replace(/^allocator_settings\./, ""), value])));
		const licences = document.getElementById("licences");
		this.settings.append(h("details", {}, h("summary", {},
		    "Libraries in this page, and their licences"),
		h("pre", {}, licences.content.textContent)));
		return this.dialog = h("dialog", { "aria-label": "Help" },
		    h("form", { method: "dialog" }, h("h2", {}, "Keys and words"),
			h("button", { class: "tool", "aria-label": "Close" }, "✕")),
		    h("div", { class: "columns" },
			h("div", {}, h("h3", {}, "Keys"), rows(KEYS)),
			h("div", {}, h("h3", {}, "Words"), rows(words))),
		    this.settings);
	}

	/* ---- Changes of the state ---- */

	async changeDevice(device) {
		const { axis } = this, place = this.place();
		await this.load(device);
		this.setDevice(axis.kind);
		this.goTo(place);
		this.deviceChoice.value = String(device);
		this.say(this.snap.deviceName(device));
	}

	/* The view and the mark as shares of the trace, and as times, so that
	 * another device can show the same moment. */
	place() {
		const { model, axis, times } = this, c = model.columns;
		const at = (p) => ({ share: p / model.length, time: times.useful ?
			c.event_time[model.first + Math.max(0,
			    Math.min(model.events - 1, Math.floor(p)))] : null });
		const p0 = axis.position(this.x0), p1 = axis.position(this.x1);
		return { whole: this.x0 <= axis.start && this.x1 >= axis.end,
			from: at(p0), to: at(p1),
			mark: this.mark === null ? null : at(this.mark) };
	}

	goTo({ whole, from, to, mark }) {
		const { model, times } = this, c = model.columns;
		const first = c.event_time[model.first];
		const last = c.event_time[model.first + model.events - 1];
		const byTime = times.useful && from.time !== null &&
			from.time <= last && to.time >= first;
		const position = ({ share, time }) => byTime ?
			model.positionOfTime(time) : share * model.length;
		if (!whole)
			this.setWindow(this.axis.x(position(from)),
			    this.axis.x(position(to)));
		if (mark)
			this.setMark(position(mark));
	}

	setDevice(axis = "event") {
		for (const view of this.list)
			view.resetY?.();
		fill(this.tiles, ...figures(this.model, this.times).map(
		    ([label, value, text, meaning, alarm], i) => h("div", {
			    class: "tile", title: meaning, "data-tile": i },
		    h("dt", {}, label), h("dd", {}, h("strong", {}, value),
			h("small", { class: alarm ? "alarm" : "" }, text)))));
		fill(this.story, ...sentences(this.model, this.sites, this.snap,
		    this.times).map((text) => h("li", {}, text)), ...this.advice());
		if (this.views.compare)
			this.story.prepend(h("li", {}, this.sinceBefore()));
		const why = this.verdict();
		fill(this.why, ...why);
		/* First, since the list may be longer than its place. */
		if (why.length > 0)
			this.story.prepend(h("li", { class: "urgent" }, h("button", {
				class: "link", id: "why",
				onclick: () => this.why.showModal() },
			"Why it failed, and what would help")));
		if (this.ranks) {
			this.tellRanks();
			this.ranks.draw();
		}
		this.axisButtons.querySelector("[data-axis=time]").disabled =
			!this.times.useful;
		this.setAxis(axis === "time" && this.times.useful ? axis : "event");
		this.search();
		this.show(this.view);
	}

	/* ---- The state in the address of the page ---- */

	save() {
		const { axis } = this;
		const state = new URLSearchParams({ device: this.model.device,
			view: this.view.id, colour: this.colour });
		if (axis === this.times)
			state.set("axis", "time");
		if (this.x0 > axis.start || this.x1 < axis.end)
			state.set("from", Math.round(axis.position(this.x0))),
			state.set("to", Math.round(axis.position(this.x1)));
		if (this.mark !== null)
			state.set("mark", this.mark);
		if (this.kept)
			state.set("kept", `${this.kept.p0}-${this.kept.p1}`);
		if (this.input.value)
			state.set("find", this.input.value);
		if (this.picked)
			state.set("pick", `${this.picked.mode}-${this.picked.key}`);
		if (this.selected?.element !== undefined)
			state.set("at", this.selected.element);
		for (const view of this.list)
			for (const [name, value] of view.state?.() ?? [])
				state.set(`${view.id}.${name}`, value);
		history.replaceState(null, "", `#${state}`);
	}

	/* Restore a state. Parts that are missing or no numbers are ignored. */
	restore(state) {
		const number = (name) => {
			const n = Number(state.get(name) ?? NaN);
			return Number.isInteger(n) && n >= 0 ? n : null;
		};
		if (MODES.some(([id]) => id === state.get("colour")))
			this.colour = this.colours.value = state.get("colour");
		if (state.get("axis") === "time" && this.times.useful)
			this.setAxis("time");
		const from = number("from"), to = number("to");
		if (from !== null && to !== null && from < to)
			this.setWindow(this.axis.x(Math.min(from, this.model.length)),
			    this.axis.x(Math.min(to, this.model.length)));
		if (number("mark") !== null)
			this.setMark(number("mark"));
		const kept = /^(\d{1,12})-(\d{1,12})$/.exec(state.get("kept") ?? "");
		if (kept && Number(kept[1]) < Number(kept[2]))
			this.kept = { p0: Number(kept[1]), p1:
				Math.min(Number(kept[2]), this.model.length) };
		this.input.value = state.get("find") ?? "";
		const pick = /^([a-z]+)-(\d{1,10})$/.exec(state.get("pick") ?? "");
		if (pick && MODES.some(([id]) => id === pick[1]))
			this.picked = { mode: pick[1], key: Number(pick[2]) };
		this.search();
		if (number("at") !== null && number("at") < this.model.elements.n)
			this.select({ element: number("at") });
		for (const view of this.list)
			view.restore?.((name) => state.get(`${view.id}.${name}`));
		if (Object.hasOwn(this.views, state.get("view") ?? ""))
			this.show(this.views[state.get("view")]);
	}

	/* A sentence on the comparison. */
	sinceBefore() {
		const { before, after, rows } = this.views.compare.found();
		return changes(this.snap.before.title, before, after, rows[0]);
	}

	/* What would help, with the lines to copy: the answer of `weir advise`. */
	advice() {
		const answer = adviceFor(this.model);
		if (!answer)
			return [];
		const item = (...parts) => h("li", { class: "advice" }, ...parts);
		const list = (answer.advice ?? []).map(({ text, setting }) =>
			item(`${text} `, h("code", {}, setting), " ",
			    this.panel.copyButton("Copy this line", () => setting)));
		const note = adviceNote(answer);
		return note ? [...list, item(note)] : list;
	}

	/* The verdict of `weir oom` on the last failed request. */
	verdict() {
		const found = this.snap.verdicts.find(({ device }) =>
			device === this.model.device);
		if (!found)
			return [];
		return [h("form", { method: "dialog" },
		    h("h2", {}, "Why it failed"),
		    h("button", { class: "tool", "aria-label": "Close" }, "✕")),
		h("p", {}, found.headline[0].toUpperCase() +
		    `${found.headline.slice(1)}; requested by ${found.site}.`),
		h("ul", {}, ...found.causes.map(({ text, remedies }) =>
		    h("li", {}, text, ...remedies.map((remedy) =>
			h("div", { class: "remedy" },
			    remedy.setting ? h("code", {}, remedy.setting) : null,
			    remedy.text + servedIn(adviceFor(this.model),
				remedy.setting)))))),
		h("h3", {}, "In replays of the recording"),
		h("ul", {}, ...this.advice())];
	}

	show(view) {
		this.view = view;
		fill(this.stage, view.root);
		for (const tab of this.tabList.children) {
			const on = tab.id === `tab-${view.id}`;
			tab.setAttribute("aria-selected", String(on));
			tab.tabIndex = on ? 0 : -1;
		}
		this.stage.setAttribute("aria-labelledby", `tab-${view.id}`);
		this.hint.textContent = view.hint;
		const coloured = ["memory", "map", "flame"].includes(view.id);
		this.colourBar.hidden = this.legend.hidden = !coloured;
		this.saveButton.hidden = !view.plot;
		this.hovered = null;
		this.note("");
		(view.plot ?? view).resize?.();
		this.changed("window");
	}

	recolour() {
		const legend = colour(this);
		this.legendList = legend;
		fill(this.legend, ...legend.map((l) => h("li", { title:
			`${l.label}: ${bytes(l.bytes)} at the peak` },
		l.others ? h("button", { class: "link", title: "List them",
			onclick: () => this.select({ others: l.others }) },
		swatch(l.colour), l.label) : h("button", { class: "pick",
			"aria-pressed": String(this.isPicked(l.key)),
			onclick: () => this.pick(l.key, l.label) },
		swatch(l.colour), h("span", {}, l.label)),
		h("small", {}, l.bytes > 0 ? bytes(l.bytes) : ""))));
		this.panel.stale = true;
		this.changed("window");
	}

	isPicked(key) {
		return this.picked !== null && this.picked.mode === this.colour &&
			this.picked.key === key;
	}

	/* Show only the allocations of one entry of the legend, or all again. */
	pick(key, label) {
		const { activeElement } = document;
		const index = [...this.legend.querySelectorAll("button")]
		    .indexOf(activeElement);
		this.picked = this.isPicked(key) ? null :
			{ mode: this.colour, key, label };
		this.search();
		/* The legend is new. */
		this.legend.querySelectorAll("button")[index]?.focus();
		this.say(this.picked ? this.hits.textContent : "all are shown");
	}

	retheme() {
		this.theme = readTheme();
		this.recolour();
	}
	flip() {
		const root = document.documentElement;
		const dark = root.dataset.theme ? root.dataset.theme === "dark" :
			matchMedia("(prefers-color-scheme: dark)").matches;
		root.dataset.theme = dark ? "light" : "dark";
		this.retheme();
	}

	setAxis(kind) {
		const p0 = this.axis.position(this.x0), p1 = this.axis.position(this.x1);
		const all = this.x0 <= this.axis.start && this.x1 >= this.axis.end;
		this.axis = kind === "time" ? this.times :
			new EventAxis(this.model.length);
		for (const b of this.axisButtons.children)
			b.setAttribute("aria-pressed", String(b.dataset.axis === kind));
		this.cursor = null;
		if (all)
			this.zoomAll();
		else
			this.setWindow(this.axis.x(p0), this.axis.x(p1));
	}

	setWindow(x0, x1) {
		const { start, end, kind } = this.axis, whole = end - start;
		const least = kind === "event" ? Math.min(8, whole) : Math.min(20, whole);
		let span = Math.max(least, Math.min(whole, x1 - x0));
		let from = x0 - Math.max(0, (span - (x1 - x0)) / 2);
		from = Math.max(start, Math.min(end - span, from));
		if (span > whole * 0.9999) {
			span = whole;
			from = start;
		}
		this.x0 = from;
		this.x1 = from + span;
		this.changed("window");
	}
	zoom(factor, around) {
		const x = around ?? this.cursor ?? (this.mark !== null ?
			this.axis.x(this.mark) : (this.x0 + this.x1) / 2);
		const at = Math.max(this.x0, Math.min(this.x1, x));
		const least = this.axis.kind === "event" ? 8 : 20;
		if (factor < 1 && (this.x1 - this.x0) * factor < least)
			factor = least / (this.x1 - this.x0);
		this.setWindow(at - (at - this.x0) * factor,
		    at + (this.x1 - at) * factor);
	}
	pan(share) {
		const by = share * (this.x1 - this.x0);
		this.setWindow(this.x0 + by, this.x1 + by);
	}
	zoomAll() {
		this.setWindow(this.axis.start, this.axis.end);
	}
	/* Move the view so that it shows a position. */
	reveal(p) {
		const a = this.axis.x(p);
		const span = this.x1 - this.x0;
		if (a >= this.x0 && a <= this.x1)
			return;
		this.setWindow(a - span / 4, a + span * 3 / 4);
	}

	hover(what, cursor) {
		const still = same(what, this.hovered);
		if (still && cursor === this.cursor)
			return;
		if (!still)
			this.hovered = what;
		this.cursor = cursor;
		this.changed("hover");
	}
	setMark(p) {
		this.mark = Math.max(0, Math.min(this.model.length - 1, Math.floor(p)));
		this.changed("window");
	}
	select(what) {
		this.selected = what;
		this.panel.stale = true;
		if (what?.element !== undefined) {
			const k = what.element, el = this.model.elements;
			this.say(`${bytes(el.size[k])} at ${this.snap.address(el.addr[k])}, ` +
			    this.sites.label(el.stack[k], (f) => f.name));
		}
		this.changed("hover");
	}

	/* The element of an event. */
	elementOfEvent(i) {
		const { model } = this, c = model.columns, el = model.elements;
		const addr = c.event_addr[model.first + i];
		let found = -1;
		if (model.kind(i) <= 2)
			model.overlapping(i - 1, i, (k) => {
				if (el.addr[k] === addr && el.start[k] <= i)
					found = k;
			});
		return found < 0 ? null : { element: found };
	}

	goPeak() {
		const p = this.model.peak;
		this.setMark(p);
		this.reveal(p);
		this.say(`The peak: ${bytes(this.model.active.max)} in use`);
	}

	searchSoon() {
		clearTimeout(this.waiting);
		this.waiting = setTimeout(() => this.search(), 120);
	}
	search() {
		search(this, this.input.value);
		this.found = foundIn(this, this.model);
		const result = this.found ? sumFound(this.model, this.found) : null;
		this.hits.textContent = !result ? "" : result.n === 0 ? "nothing" :
			`${plural(result.n, "allocation")}, ` +
			`${percent(result.peak, this.model.active.max)} of the peak`;
		this.ranks?.draw();
		this.keepButton.setAttribute("aria-pressed", String(this.kept !== null));
		if (this.kept) {
			const { n, sum } = keepOnly(this, this.kept);
			this.hits.textContent = n === 0 ? "nothing was kept" :
				`${plural(n, "allocation")}, ${bytes(sum)} kept from event ` +
				`${count(this.kept.p0)} to ${count(this.kept.p1)}`;
		}
		this.recolour();
	}
	/* Show only memory that was allocated in the present view and is in use
	 * at its end. Later moves of the view do not change the choice. */
	toggleKept() {
		this.kept = this.kept ? null : {
			p0: Math.max(0, Math.floor(this.axis.position(this.x0))),
			p1: Math.min(this.model.length,
			    Math.ceil(this.axis.position(this.x1))),
		};
		this.search();
		this.say(this.hits.textContent);
	}

	/* Save the picture, with its background, as a file. */
	async savePicture() {
		const { base } = this.view.plot;
		const canvas = h("canvas", { width: base.width, height: base.height });
		const ctx = canvas.getContext("2d");
		ctx.fillStyle = css(this.theme.groundRGB);
		ctx.fillRect(0, 0, base.width, base.height);
		ctx.drawImage(base, 0, 0);
		const blob = await new Promise((done) => canvas.toBlob(done));
		const url = URL.createObjectURL(blob);
		const name = this.snap.title.replace(/[^\w.-]+/g, "-").slice(0, 80);
		h("a", { href: url, download: `${name}-${this.view.id}.png` }).click();
		setTimeout(() => URL.revokeObjectURL(url), 10000);
	}

	goNext(by) {
		const now = this.selected?.element ?? (by > 0 ? -1 : 0);
		const k = next(this, now, by);
		if (k < 0)
			return;
		const el = this.model.elements;
		this.select({ element: k });
		this.mark = el.start[k];
		this.reveal(el.start[k]);
		this.changed("window");
	}

	/* Select the block before or after at the same address. */
	neighbour(by) {
		const k = this.selected?.element, el = this.model.elements;
		if (k === undefined)
			return;
		for (let i = k + by; i >= 0 && i < el.n; i += by) {
			if (el.addr[i] < el.addr[k] + el.held[k] &&
			    el.addr[k] < el.addr[i] + el.held[i]) {
				this.select({ element: i });
				this.reveal(el.start[i]);
				return;
			}
		}
		this.say("no other block had this address");
	}

	note(text) {
		if (this.footnote.textContent !== text)
			this.footnote.textContent = text;
	}
	say(text) {
		this.live.textContent = text;
	}

	/* ---- Keys ---- */

	keydown(e) {
		if (e.target.closest?.("dialog, select, input") || e.ctrlKey ||
		    e.metaKey || e.altKey)
			return;
		if (e.key.startsWith("Arrow") && e.target.role === "tab") {
			const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key] ?? 0;
			const n = this.list.length;
			this.show(this.list[(this.list.indexOf(this.view) + by + n) % n]);
			document.getElementById(`tab-${this.view.id}`).focus();
			e.preventDefault();
			return;
		}
		if (this.view.key?.(e) || this.globalKey(e))
			e.preventDefault();
	}

	globalKey(e) {
		const index = "1234567".slice(0, this.list.length).indexOf(e.key);
		const action = {
			ArrowLeft: () => this.pan(e.shiftKey ? -0.5 : -0.1),
			ArrowRight: () => this.pan(e.shiftKey ? 0.5 : 0.1),
			ArrowUp: () => this.neighbour(1),
			ArrowDown: () => this.neighbour(-1),
			"+": () => this.zoom(0.7), "=": () => this.zoom(0.7),
			"-": () => this.zoom(1 / 0.7), "0": () => {
				this.view.resetY?.();
				this.zoomAll();
			},
			p: () => this.goPeak(), k: () => this.toggleKept(), "/": () => this.input.focus(),
			n: () => this.goNext(1), N: () => this.goNext(-1),
			"[": () => this.stepMark(-1), "]": () => this.stepMark(1),
			z: () => this.views.memory.toggleFit(),
			t: () => this.flip(), "?": () => this.dialog.showModal(),
			Enter: () => this.selectAtMark(),
			Escape: () => this.letGo(),
		}[e.key] ?? (index >= 0 && e.key !== "" ?
			() => this.show(this.list[index]) : null);
		if (e.key === "Enter" && e.target.tagName === "BUTTON")
			return false;
		action?.();
		return Boolean(action);
	}

	stepMark(by) {
		this.setMark((this.mark ?? this.model.peak) + by);
		this.reveal(this.mark);
		this.say(`event ${count(this.mark)}`);
	}
	selectAtMark() {
		const found = this.mark === null ? null : this.elementOfEvent(this.mark);
		if (found)
			this.select(found);
	}
	letGo() {
		if (this.selected || this.mark !== null) {
			this.mark = null;
			this.select(null);
			this.changed("window");
		} else if (this.kept) {
			this.toggleKept();
		} else if (this.picked) {
			this.picked = null;
			this.search();
		} else if (this.input.value) {
			this.input.value = "";
			this.search();
		}
	}

	/* ---- Drawing, once for each frame ---- */

	changed(what) {
		if (!this.view)
			return;
		if (this.dirty.size === 0)
			requestAnimationFrame(() => this.frame());
		this.dirty.add(what);
	}

	frame() {
		const heavy = this.dirty.has("window") || this.dirty.has("size");
		const began = performance.now();
		this.dirty.clear();
		if (heavy) {
			this.timeline.draw();
			this.minimap.draw();
			(this.view.plot ?? this.view).draw();
		} else {
			(this.view.plot ?? this.view).over();
		}
		this.timeline.over();
		this.panel.draw();
		this.drawn = performance.now() - began;
		clearTimeout(this.saving);
		this.saving = setTimeout(() => this.save(), 300);
		this.frames = (this.frames ?? 0) + 1;
	}
}

/* The logo: water that runs over a weir. */
function mark() {
	const ns = "http://www.w3.org/2000/svg";
	const svg = document.createElementNS(ns, "svg");
	svg.setAttribute("viewBox", "0 0 24 24");
	svg.setAttribute("aria-hidden", "true");
	for (const d of ["M2 7h9c3 0 3 7 6 7h5", "M2 12h6c3 0 3 6 6 6h8"]) {
		const path = document.createElementNS(ns, "path");
		path.setAttribute("d", d);
		svg.append(path);
	}
	return svg;
}

async function start() {
	const root = document.getElementById("app");
	const loading = document.getElementById("loading");
	const step = async (text) => {
		loading.textContent = `${text}…`;
		await new Promise((done) => setTimeout(done));
	};
	const began = performance.now();
	try {
		const data = document.getElementById("weir-data");
		const [now, before] = runs(data.textContent);
		const live = before === "live";
		data.remove();
		const snap = new Snapshot(await unpack(now));
		if (before && !live)
			snap.before = new Snapshot(await unpack(before));
		document.title = `${snap.title} · weir`;
		const app = new App(snap, root);
		await app.start(step);
		if (live)
			app.follow();
		app.loaded = performance.now() - began;
		window.weir = app; /* for the console, and for tests */
		document.documentElement.dataset.ready = "true";
	} catch (error) {
		console.error(error);
		loading.textContent = `This page cannot be shown: ${error.message}`;
		loading.setAttribute("role", "alert");
	}
}

start();
