/*
 * A flame graph of allocations: the outermost call is on top, its callees are
 * below it, and the width of a call is the memory that was allocated under it.
 * Inverted, the innermost call is on top and its callers are below. A frame has
 * the colour that most of its memory has in the other pictures.
 */
import { Plot } from "../plot.js";
import { h } from "../dom.js";
import { css, inkOn, mix } from "../theme.js";
import { bytes, count, percent, signed, frameLabel } from "../format.js";
import { changeSince, flameTree, keysOfTree, ownWeights, SINCE,
	WEIGHTS } from "../flamedata.js";
import { findsFrame } from "../search.js";
import { clip } from "./streams.js";

const ROW = 20, PAD = 8;

export class Flame {
	constructor(app) {
		this.app = app;
		this.id = "flame";
		this.label = "Flame graph";
		this.hint = "Width is memory; callers above, callees below. Click a frame " +
		    "to widen it, Escape to show all.";
		this.free = true;
		this.weight = "peak";
		this.focus = null;
		this.showAll = this.inverted = false;
		this.weights = [...WEIGHTS, ...(app.snap.before ? [SINCE] : [])];
		this.plot = new Plot(app, this, "Flame graph of allocations by stack");
		this.plot.root.classList.add("tall");
		this.root = h("div", { class: "stack-view" }, this.controls(),
		    h("div", { class: "scroll" }, this.plot.root));
	}

	controls() {
		this.chosen = h("select", { "aria-label": "What width means",
			onchange: (e) => this.set({ weight: e.target.value }) },
		...this.weights.map(([id, name]) => h("option", { value: id },
		    name)));
		const all = h("input", { type: "checkbox",
			onchange: (e) => this.set({ showAll: e.target.checked }) });
		this.turned = h("input", { type: "checkbox",
			onchange: (e) => this.set({ inverted: e.target.checked }) });
		this.total = h("span", { class: "quiet" });
		return h("div", { class: "bar" },
		    h("label", {}, "Width: ", this.chosen),
		    h("label", {}, this.turned, " inverted"),
		    h("label", {}, all, " interpreter frames"), this.total);
	}

	set(change) {
		Object.assign(this, change);
		this.focus = null;
		this.key0 = "";
		this.app.changed("window");
	}

	/* ---- The state in the page's address ---- */

	state() {
		const out = [["weight", this.weight]];
		if (this.inverted)
			out.push(["inverted", "1"]);
		if (this.focus)
			out.push(["focus", this.path(this.focus).reverse().join("."),
			]);
		return out;
	}
	restore(get) {
		if (this.weights.some(([id]) => id === get("weight")))
			this.weight = this.chosen.value = get("weight");
		this.inverted = this.turned.checked = get("inverted") === "1";
		if (/^\d{1,9}(\.\d{1,9}){0,300}$/.test(get("focus") ?? ""))
			this.wanted = get("focus").split(".").map(Number);
	}
	/* Focus on the frames that the address named, as far as they are there. */
	refocus() {
		let d = this.tree;
		for (const f of this.wanted ?? [])
			d = d.children?.find((c) => c.data.frame === f) ?? d;
		this.wanted = null;
		this.focus = d.parent ? d : null;
	}

	get isChange() {
		return this.weight === "change" || this.weight === "since";
	}

	/* Make the tree again if its inputs have changed. */
	update() {
		const { app } = this, { model, axis } = app;
		const inView = ["bytes", "count", "kept", "change"]
		    .includes(this.weight);
		const p0 = axis.position(app.x0), p1 = axis.position(app.x1);
		const mark = app.mark ?? model.peak;
		const key = [model.device, this.weight, this.showAll, this.inverted,
			app.colour, inView ? [p0, p1] : "",
			this.weight === "cursor" ? mark : ""].join();
		if (key === this.key0)
			return;
		this.key0 = key;
		const since = this.weight === "since" ?
			changeSince(app.snap, model.device) : null;
		const columns = since?.columns ?? model.columns;
		const { own, weights } = since ?? ownWeights(model, this.weight,
		    { p0, p1, mark }, app.keying.keyOf);
		const hidden = this.showAll ?
			[] : since?.noise ?? app.sites.noise;
		this.since = since;
		this.own = own;
		this.tree = flameTree(columns, own, hidden,
		    { inverted: this.inverted });
		if (!this.isChange)
			keysOfTree(this.tree, columns, hidden, this.inverted, weights);
		this.refocus();
	}

	say(value) {
		return this.weight === "count" ? count(value) : bytes(value);
	}
	/* The value of a frame: of a change the sum with its sign. */
	value(d) {
		return this.isChange ? signed(d.data.net) : this.say(d.value);
	}

	frame(f) {
		const { since } = this;
		return since && f >= since.added ? since.extra[f - since.added] :
			this.app.snap.frame(f);
	}
	isMatched(f) {
		const { app, since } = this;
		return since && f >= since.added ? findsFrame(app, this.frame(f)) :
			app.matchedFrames[f];
	}
	name(d) {
		return d.data.frame < 0 ? "all allocations" :
			frameLabel(this.frame(d.data.frame));
	}

	draw(plot, ctx) {
		const { app } = this;
		this.update();
		const depth = this.tree.height + 1;
		const visible = this.root.querySelector(".scroll").clientHeight;
		const height = Math.max(visible, depth * ROW + 2 * PAD);
		if (plot.root.style.height !== `${height}px`)
			plot.root.style.height = `${height}px`;
		this.total.textContent = this.tree.value > 0 ?
			`${this.value(this.tree)} in all` + (this.own[0] !== 0 ?
			`, ${this.isChange ? signed(this.own[0]) :
				this.say(this.own[0])} without a stack` : "") :
			"nothing to show: no allocation here";
		const focus = this.focus ?? this.tree;
		this.boxes = [];
		const span = focus.x1 - focus.x0 || 1;
		const left = PAD, width = plot.width - 2 * PAD;
		this.tree.each((d) => {
			if (d.x1 <= focus.x0 || d.x0 >= focus.x1)
				return;
			const x0 = left + Math.max(0, (d.x0 - focus.x0) / span) * width;
			const x1 = left + Math.min(1, (d.x1 - focus.x0) / span) * width;
			if (x1 - x0 >= 0.6)
				this.boxes.push({ d, x0, x1, y: PAD + d.depth * ROW });
		});
		const { matchedFrames } = app;
		this.lit = matchedFrames ? new Set() : null;
		if (matchedFrames)
			this.tree.each((d) => {
				if (d.data.frame >= 0 && this.isMatched(d.data.frame))
					d.ancestors().forEach((a) => this.lit.add(a));
			});
		for (const box of this.boxes)
			this.drawBox(ctx, box);
		app.note("");
	}

	drawBox(ctx, { d, x0, x1, y }) {
		const colour = this.colourOf(d);
		ctx.globalAlpha = this.lit && !this.lit.has(d) ? 0.35 : 1;
		ctx.fillStyle = css(colour);
		ctx.fillRect(x0, y, Math.max(0.6, x1 - x0 - 1), ROW - 1);
		if (x1 - x0 > 34) {
			ctx.textAlign = "left";
			ctx.fillStyle = inkOn(colour);
			ctx.fillText(clip(ctx, this.name(d), x1 - x0 - 10), x0 + 5,
			    y + ROW / 2);
		}
		ctx.globalAlpha = 1;
	}

	/* A frame has the colour of its memory; of a change orange if more came
	 * than went, blue if less. */
	colourOf(d) {
		const { theme, keying } = this.app;
		if (this.isChange) {
			const share = Math.abs(d.data.net) / Math.max(1, d.data.value);
			return mix(theme.otherRGB, d.data.net > 0 ? theme.waitRGB :
				theme.useRGB, d.data.net === 0 ? 0 : 0.35 + 0.65 * share);
		}
		const own = d.key < 0 ? theme.otherRGB : keying.rgbOf(d.key);
		return mix(own, theme.groundRGB, d.depth % 2 ? 0.12 : 0);
	}

	pick(plot, x, y) {
		const box = this.boxes?.find((b) => x >= b.x0 && x < b.x1 && y >= b.y &&
		    y < b.y + ROW);
		return box ? { flame: box.d, flameView: this } : null;
	}

	select(found) {
		this.focus = found?.flame?.parent ? found.flame : null;
		this.app.changed("window");
	}

	key(e) {
		if (e.key === "Escape" && this.focus) {
			this.focus = null;
			this.app.changed("window");
			return true;
		}
		if (!this.tree)
			return false;
		const d = this.focus ?? this.tree;
		const siblings = d.parent?.children ?? [d];
		const next = {
			ArrowUp: d.parent, ArrowDown: d.children?.[0],
			ArrowLeft: siblings[siblings.indexOf(d) - 1],
			ArrowRight: siblings[siblings.indexOf(d) + 1],
		}[e.key];
		if (!next)
			return e.key.startsWith("Arrow");
		this.focus = next.parent ? next : null;
		this.app.hover({ flame: next, flameView: this }, null);
		this.app.changed("window");
		return true;
	}

	overlay(plot, ctx) {
		const d = this.app.hovered?.flame;
		const box = d && this.boxes?.find((b) => b.d === d);
		if (!box)
			return;
		ctx.strokeStyle = this.app.theme.ink;
		ctx.lineWidth = 1.5;
		ctx.strokeRect(box.x0, box.y, Math.max(1, box.x1 - box.x0 - 1), ROW - 1);
	}

	describe(d) {
		const rows = [
			["Under it", this.value(d)],
			["Of all", percent(d.value, this.tree.value)],
			[this.inverted ? "Of its callee" : "Of its caller",
				d.parent ? percent(d.value, d.parent.value) : "—"],
		];
		if (this.isChange)
			rows.splice(1, 1, ["Came and went", bytes(d.value)]);
		return rows;
	}
	/* The frames from a frame to the outermost, innermost first; inverted,
	 * from a frame to the innermost. */
	path(d) {
		return d.ancestors().filter((a) => a.data.frame >= 0)
		    .map((a) => a.data.frame);
	}
}
