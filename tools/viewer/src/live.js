/*
 * The live part of a page that `weir view --live` serves: memory since the page
 * was opened, the program's group, a new snapshot, and values that can be set.
 * The server has the address of the page, which is its token; nothing else is
 * asked.
 */
import { h, fill, place } from "./dom.js";
import { bytes, count, duration } from "./format.js";
import { GUTTER, Group } from "./group.js";
import { tickLabel } from "./plot.js";

const EVERY_MS = 1000, SAMPLES = 600;
/* Failed answers in a row after which the server has ended. A machine that is
 * busy may lose one, because a request must arrive within some seconds. */
const FAILURES = 3;

export class Live {
	constructor(app) {
		this.app = app;
		this.samples = []; /* of the shown device: {t, live, held} */
		this.group = new Group(app);
		this.canvas = h("canvas", { role: "img",
			"aria-label": "Memory since the page was opened" });
		this.text = h("p", { class: "quiet" }, "Connecting…");
		this.answer = h("span", { class: "quiet", role: "status" });
		this.path = h("select", { "aria-label": "Value to set",
			onchange: () => this.choose() });
		this.value = h("input", { type: "text", "aria-label": "New value",
			spellcheck: "false", autocomplete: "off" });
		this.button = h("button", { class: "plain" }, "Set");
		const form = h("form", { class: "bar", onsubmit: (e) => {
			e.preventDefault();
			this.set();
		} }, this.path, this.value, this.button, this.answer);
		form.addEventListener("keydown", (e) => e.stopPropagation());
		this.root = h("section", { class: "live", "aria-label": "Live" },
		    h("div", { class: "bar" }, h("h2", {}, "Live"), this.text,
			h("span", { class: "space" }),
			h("button", { class: "plain", id: "renew",
				onclick: () => location.reload() }, "New snapshot")),
		    h("div", { class: "live-plot" }, this.canvas),
		    this.group.root, form);
		new ResizeObserver(() => this.draw()).observe(this.canvas);
		this.list();
		this.follow();
	}

	/* The URL of an answer of the server, below the page's own. */
	async ask(name, options) {
		const answer = await fetch(new URL(name, location.href), options);
		return answer.json();
	}

	async follow() {
		for (let failed = 0; !this.ended;) {
			try {
				this.take(await this.ask("sample"));
				await this.takeGroup();
				failed = 0;
			} catch {
				if (++failed === FAILURES)
					this.end("The server has ended");
			}
			await new Promise((done) => setTimeout(done, EVERY_MS));
		}
	}

	/* A program without a group has none later either. */
	async takeGroup() {
		if (this.ended || this.alone)
			return;
		const { ledgers } = await this.ask("group");
		this.alone = ledgers.length === 0;
		this.group.take(ledgers, this.pid);
	}

	end(why) {
		this.ended = true;
		this.text.textContent = why;
		this.button.disabled = true;
		document.getElementById("renew").disabled = true;
	}

	take(sample) {
		if (sample.ended) {
			this.end("The program has ended; this is its last snapshot");
			return;
		}
		this.pid = sample.pid;
		const device = sample.devices.find(({ device: d }) =>
			d === this.app.model.device) ?? sample.devices[0];
		if (!device)
			return;
		const { memory } = device;
		if (this.device !== device.device)
			this.samples = [];
		this.device = device.device;
		this.samples.push({ t: sample.time_ns / 1e3,
			live: memory.live_bytes, held: memory.held_bytes });
		if (this.samples.length > SAMPLES)
			this.samples.shift();
		const rate = device.allocations_per_s;
		this.text.textContent = `device ${device.device}: ` +
			`${bytes(memory.live_bytes)} in use, ` +
			`${bytes(memory.held_bytes)} held of ` +
			`${bytes(device.total_bytes)}` + (rate === null ? "" :
			`, ${count(Math.round(rate))} allocations a second`);
		this.draw();
	}

	draw() {
		const { canvas, samples } = this, { theme } = this.app;
		const at = place(canvas);
		if (!at)
			return;
		const { ctx, width, height } = at;
		if (samples.length < 2)
			return;
		const most = Math.max(1, ...samples.map((s) => s.held)) * 1.06;
		const first = samples[0].t, span = samples.at(-1).t - first || 1;
		const inner = width - GUTTER;
		const x = (s) => GUTTER + (s.t - first) / span * inner;
		const y = (v) => height - 1 - v / most * (height - 2);
		const line = (key, colour) => {
			ctx.strokeStyle = colour;
			ctx.lineWidth = 1.5;
			ctx.beginPath();
			for (const s of samples)
				ctx.lineTo(x(s), y(s[key]));
			ctx.stroke();
		};
		line("held", theme.held);
		line("live", theme.use);
		ctx.fillStyle = theme.quiet;
		ctx.font = `11px ${theme.font}`;
		ctx.fillText(tickLabel(Math.max(...samples.map((s) => s.held))), 4, 12);
		ctx.fillText(duration(span), 4, height - 4);
	}

	/* ---- Values ---- */

	/* Fill the list of the values that may be set. */
	async list() {
		try {
			const { values } = await this.ask("values");
			const chosen = this.path.value;
			this.values = values;
			fill(this.path, ...values.map(({ path }) =>
				h("option", { value: path, selected: path === chosen },
				    path)));
			this.choose();
		} catch {
			this.answer.textContent = "The values cannot be read";
		}
	}

	choose() {
		const one = this.values?.find(({ path }) => path === this.path.value);
		this.value.value = one?.value ?? "";
		this.path.title = this.value.title = one ?
			`${one.help} May be set to: ${one.accepted}.` : "";
	}

	async set() {
		const query = `${this.path.value}=${this.value.value}`;
		try {
			const done = await this.ask(`set?${encodeURIComponent(query)}`,
			    { method: "POST" });
			this.answer.textContent = done.set ? "set" : done.why;
			if (done.set)
				await this.list();
		} catch {
			this.answer.textContent = "The server does not answer";
		}
	}
}
