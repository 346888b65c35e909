/*
 * The group of a running program: what each process holds of a device, stacked,
 * since the page was opened, below the group's limit. A picture for each device
 * that the group has.
 */
import { h, fill, place, swatch } from "./dom.js";
import { bytes, duration, plural } from "./format.js";
import { tickLabel } from "./plot.js";
import { SLOTS, css } from "./theme.js";

const SAMPLES = 600;
/* Pixels left of the pictures of the live part, for their scale. */
export const GUTTER = 70;
/* A ledger's limit, in bytes, that stands for none. */
const NO_LIMIT = 2 ** 56;

export class Group {
	constructor(app) {
		this.app = app;
		this.devices = new Map(); /* by UUID */
		this.root = h("div", { class: "group" });
	}

	/* Take what `weir group --json` says. `pid` is the page's process. */
	take(ledgers, pid) {
		for (const ledger of ledgers) {
			const uuid = ledger.device_uuid;
			if (!this.devices.has(uuid)) {
				this.devices.set(uuid, new Device(this.app));
				this.root.append(this.devices.get(uuid).root);
			}
			this.devices.get(uuid).take(ledger, pid,
			    ledgers.length > 1 ? `, device ${uuid}` : "");
		}
	}

	draw() {
		for (const device of this.devices.values())
			device.draw();
	}
}

class Device {
	constructor(app) {
		this.app = app;
		this.samples = []; /* {t: microseconds, held: Map of bytes by key} */
		this.slots = new Map(); /* by key, in the order of the stack */
		this.canvas = h("canvas", { role: "img",
			"aria-label": "What each process of the group holds" });
		this.text = h("p", { class: "quiet" });
		this.list = h("ul", { class: "group-list" });
		this.root = h("div", {}, this.text,
		    h("div", { class: "live-plot" }, this.canvas), this.list);
		new ResizeObserver(() => this.draw()).observe(this.canvas);
	}

	take(ledger, pid, where) {
		const held = new Map(ledger.members.map((m) =>
			[`${m.pid} ${m.program}`, m.lease_bytes]));
		this.samples.push({ t: performance.now() * 1e3, held });
		if (this.samples.length > SAMPLES)
			this.samples.shift();
		this.limit = ledger.limit_bytes < NO_LIMIT ? ledger.limit_bytes : 0;
		this.assign();
		const sum = [...held.values()].reduce((a, b) => a + b, 0);
		this.text.textContent = `group ${ledger.group}${where}: ` +
			`${plural(held.size, "process", "processes")}, ` +
			`${bytes(sum)} held` +
			(this.limit ? ` of ${bytes(this.limit)}` : "");
		fill(this.list, ...ledger.members.map((m) =>
			h("li", {}, swatch(this.colour(`${m.pid} ${m.program}`)),
			    memberText(m, m.pid === pid))));
		this.draw();
	}

	/* Give a place in the stack, and a colour, to each process of the
	 * samples. A process that is in none of them any more loses them. */
	assign() {
		const there = new Set(this.samples.flatMap((s) => [...s.held.keys()]));
		for (const key of [...this.slots.keys()])
			if (!there.has(key))
				this.slots.delete(key);
		for (const key of there) {
			if (this.slots.has(key))
				continue;
			const taken = new Set(this.slots.values());
			let slot = 0;
			while (taken.has(slot))
				slot++;
			this.slots.set(key, slot);
		}
	}

	colour(key) {
		const { theme } = this.app, slot = this.slots.get(key);
		return slot < SLOTS ? css(theme.slots[slot]) : theme.other;
	}

	draw() {
		const { samples, limit } = this, { theme } = this.app;
		const at = place(this.canvas);
		if (!at || samples.length < 2)
			return;
		const { ctx, width, height } = at;
		const sums = samples.map((s) =>
			[...s.held.values()].reduce((a, b) => a + b, 0));
		const most = Math.max(1, limit, ...sums) * 1.06;
		const first = samples[0].t, span = samples.at(-1).t - first || 1;
		const x = (s) => GUTTER + (s.t - first) / span * (width - GUTTER);
		const y = (v) => height - 1 - v / most * (height - 2);
		const below = samples.map(() => 0);
		for (const key of this.slots.keys()) {
			ctx.beginPath();
			samples.forEach((s, i) => ctx.lineTo(x(s), y(below[i])));
			samples.forEach((s, i) => {
				below[i] += s.held.get(key) ?? 0;
			});
			for (let i = samples.length - 1; i >= 0; i--)
				ctx.lineTo(x(samples[i]), y(below[i]));
			ctx.fillStyle = this.colour(key);
			ctx.fill();
		}
		ctx.fillStyle = theme.quiet;
		if (limit)
			ctx.fillRect(GUTTER, Math.round(y(limit)),
			    width - GUTTER, 1);
		ctx.font = `11px ${theme.font}`;
		ctx.fillText(tickLabel(limit || Math.max(...sums)), 4, 12);
		ctx.fillText(duration(span), 4, height - 4);
	}
}

function memberText(member, own) {
	const { lease_bytes, idle_bytes, guarantee_bytes,
		waits_for_bytes, state } = member;
	return `${member.pid} ${member.program}` +
		(own ? " (this program)" : "") + `: ${bytes(lease_bytes)} held` +
		(idle_bytes ? `, ${bytes(idle_bytes)} idle` : "") +
		(guarantee_bytes ? `, ${bytes(guarantee_bytes)} guaranteed` : "") +
		(state && state !== "awake" ? `, ${state}` : "") +
		(waits_for_bytes ? `, waits for ${bytes(waits_for_bytes)}` : "");
}
