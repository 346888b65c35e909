/*
 * A flame graph of allocations: the outermost call is on top, its callees are
 * below it, and the width of a call is the memory that was allocated under it.
 */
import { Plot } from "../plot.js";
import { h } from "../dom.js";
import { css, inkOn } from "../theme.js";
import { bytes, count, percent, frameLabel } from "../format.js";
import { flameTree, ownWeights, WEIGHTS } from "../flamedata.js";
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
		this.showAll = false;
		this.plot = new Plot(app, this, "Flame graph of allocations by stack");
		this.plot.root.classList.add("tall");
		this.root = h("div", { class: "stack-view" }, this.controls(),
		    h("div", { class: "scroll" }, this.plot.root));
	}

	controls() {
		const weight = h("select", { "aria-label": "What width means",
			onchange: (e) => this.set({ weight: e.target.value }) },
		...WEIGHTS.map(([id, name]) => h("option", { value: id }, name)));
		const all = h("input", { type: "checkbox",
			onchange: (e) => this.set({ showAll: e.target.checked }) });
		this.total = h("span", { class: "quiet" });
		return h("div", { class: "bar" },
		    h("label", {}, "Width: ", weight),
		    h("label", {}, all, " interpreter frames"), this.total);
	}

	set(change) {
		Object.assign(this, change);
		this.focus = null;
		this.key0 = "";
		this.app.changed("window");
	}

	/* Make the tree again if its inputs have changed. */
	update() {
		const { app } = this, { model, axis } = app;
		const inView = ["bytes", "count", "kept"].includes(this.weight);
		const p0 = axis.position(app.x0), p1 = axis.position(app.x1);
		const mark = app.mark ?? model.peak;
		const key = [model.device, this.weight, this.showAll,
			inView ? [p0, p1] : "", this.weight === "cursor" ? mark : ""]
		    .join();
		if (key === this.key0)
			return;
		this.key0 = key;
		const own = ownWeights(model, this.weight, { p0, p1, mark });
		const hidden = this.showAll ?
			new Uint8Array(app.sites.noise.length) : app.sites.noise;
		this.own = own;
		this.hidden = hidden;
		this.tree = flameTree(model, own, hidden);
		this.focus = null;
	}

	say(value) {
		return this.weight === "count" ? count(value) : bytes(value);
	}

	name(d) {
		const { snap } = this.app;
		if (d.data.frame < 0)
			return "all allocations";
		return frameLabel(snap.frame(d.data.frame));
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
			`${this.say(this.tree.value)} in all` + (this.own[0] > 0 ?
			`, ${this.say(this.own[0])} without a stack` : "") :
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
				if (d.data.frame >= 0 && matchedFrames[d.data.frame])
					d.ancestors().forEach((a) => this.lit.add(a));
			});
		for (const box of this.boxes)
			this.drawBox(ctx, box);
		app.note("");
	}

	drawBox(ctx, { d, x0, x1, y }) {
		const { app } = this, { theme } = app;
		const f = d.data.frame;
		const colour = f < 0 ? theme.otherRGB :
			theme.slots[hash(app.snap.columns.frame_file[f]) %
			theme.slots.length];
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
		return [
			["Under it", this.say(d.value)],
			["Of all", percent(d.value, this.tree.value)],
			["Of its caller", d.parent ? percent(d.value, d.parent.value) : "—"],
		];
	}
	/* The frames from a frame to the outermost, innermost first. */
	path(d) {
		return d.ancestors().filter((a) => a.data.frame >= 0)
		    .map((a) => a.data.frame);
	}
}

function hash(n) {
	return (Math.imul(n + 1, 2654435761) >>> 15) & 0xffff;
}
