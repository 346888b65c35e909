/*
 * The page's computations, without a browser: the format, the pairing of
 * allocations with frees, ranges, and the pyramids.
 */
import { test } from "node:test";
import assert from "node:assert/strict";
import { join } from "node:path";
import { readFileSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { data, snapshot, source } from "./support.mjs";

const { Snapshot } = await import(join(source, "data.js"));
const { Series } = await import(join(source, "series.js"));
const { buildModel, AT_END, BEFORE } = await import(join(source, "model.js"));
const { Sites } = await import(join(source, "sites.js"));
const { Regions } = await import(join(source, "ranges.js"));
const { TimeAxis, EventAxis } = await import(join(source, "axis.js"));
const { changes, figures } = await import(join(source, "summary.js"));
const { kindSums } = await import(join(source, "kinds.js"));
const { bytes, duration } = await import(join(source, "format.js"));

function random(seed) {
	return () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
}

test("the page blames the frame of the program, or says there is none",
    async () => {
	const { snap } = await data("blame");
	const sites = new Sites(snap);
	const name = (f) => f.name;
	assert.deepEqual(Array.from(snap.columns.block_stack, (node) =>
		sites.label(node, name)), ["layer",
		"no frame of the program; in at::native::add(long)"]);
	assert.deepEqual(Array.from(snap.columns.block_stack, (node) =>
		sites.own(node) >= 0), [true, false]);
	assert.equal(sites.stack(snap.columns.block_stack[0]).length, 3);
});

test("callers tell stacks of one function apart, at a depth to choose",
    async () => {
	const { snap } = await data("wrapped");
	const sites = new Sites(snap);
	const name = (f) => f.name;
	const nodes = Array.from(snap.columns.block_stack);
	const labels = (depth) => nodes.map((node) =>
		sites.join(sites.names(node, depth), name));
	assert.deepEqual(labels(0), Array(4).fill("allocate"));
	assert.deepEqual(labels(1), ["load", "run", "run", "save"].map((c) =>
		`allocate, called by ${c}`));
	assert.deepEqual(labels(2).slice(1, 3), ["first", "second"].map((c) =>
		`allocate, called by run, called by ${c}`));
	for (const [depth, n] of [[0, 1], [1, 3], [2, 4]]) {
		const { keys, frames } = sites.keying(depth);
		assert.equal(new Set(nodes.map((node) => keys[node])).size, n);
		assert.equal(sites.join(frames[keys[nodes[3]]], name),
		    labels(depth)[3]);
	}
	assert.equal(sites.label(nodes[0], name), "allocate, called by load");
	assert.equal(sites.joinOutside(sites.names(nodes[1], 2), name),
	    "first → run → allocate");
});

test("a comparison names callers by one rule for both snapshots", async () => {
	const { compare } = await import(join(source, "compare.js"));
	const { snap } = await data("wrapped");
	const { snap: one } = await data("wrapped");
	const c = one.columns;
	/* The earlier snapshot has the first block alone, so one caller. */
	c.segment_blocks[0] = 1;
	c.stack_near.fill(0);
	c.stack_far.fill(0);
	snap.before = one;
	const { rows } = compare(snap, new Sites(snap), 0);
	assert.deepEqual(rows.map((r) => [r.name.match(/called by (\w+)/)[1],
		r.before.blocks, r.after.blocks]),
	[["run", 0, 2], ["save", 0, 1], ["load", 1, 1]]);
});

test("more than twice as much held as in use is an alarm", () => {
	const flat = (max) => ({ max, at: () => 0 });
	const held = (reserved) => figures({ active: flat(100),
		reserved: flat(reserved), pending: flat(0), marks: { oom: [] },
		length: 1, events: 0, peak: 0 }, {})[1];
	assert.deepEqual([held(250)[2], held(250)[4]],
	    ["2.5 times what is in use", true]);
	assert.deepEqual([held(200)[2], held(200)[4]],
	    ["50 % of it in use", false]);
});

test("a value that has not changed is shown as such, and is not zero bytes", () => {
	const state = (use, held) => ({ use, held });
	assert.equal(changes("a.pickle", state(5, 9), state(5, 9), { change: 0 }),
	    "Since a.pickle: as much in use at the end, as much held.");
	assert.equal(changes("a.pickle", state(5, 9), state(7, 8),
	    { name: "f", change: 2 }), "Since a.pickle: +2 B in use at the " +
	    "end, −1 B held; most changed f, +2 B.");
});

test("the page and `weir fit` guess the same kinds", async () => {
	const { snap } = await data("cut");
	const model = await buildModel(snap, 0), { path } = snapshot("cut");
	const { by_kind } = JSON.parse(execFileSync(process.env.WEIR_BIN, ["fit",
		"--json", "--was", "batch=1,2", "--ask", "batch=2", path, path],
	{ encoding: "utf8" }));
	const { sums } = kindSums(model, model.peak);
	assert.deepEqual(sums.slice(0, 6).map((sum) => sum / 2 ** 20),
	    [4 * 3 + 4 * 5, 4 * 3 + 4 * 5, 2 * 7, 6 * 2 + 6 * 4 + 6, 0, 16]);
	assert.deepEqual(sums.slice(0, 6), ["parameters", "gradients",
		"optimiser", "activations", "workspaces", "graphs"].map((kind) =>
		by_kind[kind]));
});

/* simcuda's handles are small; traces in CSV number their streams. */
test("a stream is numbered by its handle, or has a trace's number", () => {
	const snap = Object.assign(Object.create(Snapshot.prototype), {
		streams: [0n, 7n, 1023n, 0x7f10n, 0x7f00n, (1n << 64n) - 1n],
	});
	assert.deepEqual(snap.streams.map((s, i) => snap.streamFullName(i)),
	    ["default stream", "stream 7", "stream 1023", "stream #2, 0x7f10",
		"stream #1, 0x7f00", "no stream"]);
});

test("a pyramid gives the smallest and largest of any range", () => {
	const next = random(3);
	for (const n of [1, 7, 8, 9, 64, 65, 1000, 4097]) {
		const values = Float64Array.from({ length: n }, () =>
			Math.floor(next() * 1000));
		const series = new Series(values);
		for (let i = 0; i < 300; i++) {
			const a = Math.floor(next() * n);
			const b = a + 1 + Math.floor(next() * (n - a));
			const part = values.subarray(a, b);
			assert.deepEqual(series.range(a, b),
			    [Math.min(...part), Math.max(...part)], `${n}: ${a} to ${b}`);
		}
	}
});

test("a series with positions holds its value up to the next one", () => {
	const series = new Series(Float64Array.of(5, 9, 2), Float64Array.of(3, 10,
	    20));
	assert.equal(series.at(2), 0);
	assert.equal(series.at(3), 5);
	assert.equal(series.at(9.5), 5);
	assert.equal(series.at(20), 2);
	assert.deepEqual(series.range(4, 10), [5, 5]);
	assert.deepEqual(series.range(4, 11), [5, 9]);
	assert.deepEqual(series.range(0, 100), [2, 9]);
});

test("addresses without gaps keep their order and come back", () => {
	const regions = new Regions([[1000, 1100], [100, 200], [150, 300],
		[5000, 5010]]);
	assert.equal(regions.n, 3);
	assert.equal(regions.size, 200 + 100 + 10);
	for (const addr of [100, 299, 1000, 1099, 5009])
		assert.equal(regions.addr(regions.y(addr)), addr);
	assert.ok(regions.holds(299) && !regions.holds(300));
});

test("time does not run backwards, whatever the clocks say", () => {
	const axis = new TimeAxis(Float64Array.of(50, 40, 60, 55), 0, 4);
	assert.deepEqual([...axis.times], [0, 0, 10, 10, 11]);
	assert.equal(axis.position(10.5), 3);
	assert.equal(new EventAxis(4).position(9), 4);
});

test("sizes and times read as people write them", () => {
	assert.equal(bytes(0), "0 B");
	assert.equal(bytes(1536), "1.50 KiB");
	assert.equal(bytes(3 * 2 ** 30), "3.00 GiB");
	assert.equal(duration(999), "999 µs");
	assert.equal(duration(61e6 * 2), "2 min 2 s");
});

test("the figures are those of the snapshot", async () => {
	const { snap, answers: [answer] } = await data("training");
	const model = await buildModel(snap, 0);
	assert.equal(model.events, answer.events);
	assert.equal(model.active.max, answer.peak);
	assert.equal(model.peak, answer.peak_event);
	assert.equal(model.reserved.max, answer.held);
	assert.equal(model.pending.max, answer.waiting);
	assert.equal(model.marks.oom.length, answer.ooms);
	assert.equal(model.streams.length, answer.streams);
	assert.equal(model.active.values.at(-1), answer.in_use_at_end);
	assert.equal(model.broken, 0);
	const made = Object.values(answer.allocations).reduce((a, b) => a + b);
	assert.equal(model.elements.n, made);
});

test("the final state and the history agree", async () => {
	const { snap } = await data("training");
	const model = await buildModel(snap, 0), el = model.elements;
	const used = model.finalBlocks.reduce((sum, b) => sum + b.requested, 0);
	assert.equal(model.active.values.at(-1), used);
	let live = 0;
	for (let k = 0; k < el.n; k++)
		live += el.flags[k] & AT_END ? 1 : 0;
	assert.equal(live, model.finalBlocks.length);
	const held = model.finalSegments.reduce((sum, s) => sum + s.size, 0);
	assert.equal(model.reserved.values.at(-1), held);
});

test("page-locked memory is a device behind the others", async () => {
	const { snap, answers: [answer] } = await data("pinned");
	assert.equal(snap.pinnedFrom, 1);
	assert.equal(snap.devices, 2);
	assert.equal(snap.deviceName(0), "device 0");
	assert.equal(snap.deviceName(1), "pinned memory of device 0");
	const device = await buildModel(snap, 0);
	const pinned = await buildModel(snap, 1);
	/* The device is unchanged. */
	assert.equal(device.finalSegments.reduce((a, s) => a + s.size, 0),
	    answer.held);
	assert.deepEqual(pinned.finalSegments.map((s) => [s.size, s.free]),
	    [[48 << 20, 28 << 20]]);
	assert.deepEqual(pinned.finalBlocks.map((b) => b.size),
	    [16 << 20, 4 << 20]);
	assert.equal(snap.address(pinned.finalSegments[0].addr), "0x7e0000000000");
	assert.equal(pinned.events, 0);
});

test("streams add up to the whole at every event", async () => {
	const { snap } = await data("training");
	const model = await buildModel(snap, 0);
	for (let p = 0; p < model.length; p += 97) {
		const sum = model.streams.reduce((s, lane) => s + lane.active.at(p), 0);
		assert.equal(sum, model.active.at(p), `event ${p}`);
		const waits = model.streams.reduce((s, l) => s + l.pending.at(p), 0);
		assert.equal(waits, model.pending.at(p), `event ${p}`);
	}
});

test("no two blocks are at one address at one time", async () => {
	const { snap } = await data("training");
	const model = await buildModel(snap, 0), el = model.elements;
	for (const p of [0, 500, 1500, model.length - 1]) {
		const now = [];
		model.overlapping(p, p + 1, (k) => {
			if (el.start[k] <= p && el.end[k] > p)
				now.push([el.addr[k], el.addr[k] + el.held[k]]);
		});
		now.sort((a, b) => a[0] - b[0]);
		for (let i = 1; i < now.length; i++)
			assert.ok(now[i - 1][1] <= now[i][0]);
	}
});

test("a state without a history is there all along", async () => {
	const { snap } = await data("state");
	const model = await buildModel(snap, 0), el = model.elements;
	assert.equal(model.events, 0);
	assert.ok(el.n > 10);
	for (let k = 0; k < el.n; k++) {
		assert.equal(el.start[k], 0);
		assert.equal(el.end[k], 1);
		assert.ok(el.flags[k] & BEFORE && el.flags[k] & AT_END);
	}
	assert.ok(model.active.max > 0 && model.reserved.max >= model.active.max);
});

/* A snapshot of given columns, which no allocator would write. */
function made(events, blocks = []) {
	const names = ["alloc", "free_requested", "free_completed",
		"segment_alloc", "segment_free", "segment_map", "segment_unmap"];
	const n = events.length;
	const column = (f) => Float64Array.from(events, f);
	return {
		actions: names, deviceEvents: [n], eventStart: [0],
		columns: {
			event_action: column((e) => names.indexOf(e[0])),
			event_addr: column((e) => e[1]), event_size: column((e) => e[2]),
			event_stream: column((e) => e[3] ?? 0),
			event_stack: new Uint32Array(n), event_pool: new Uint32Array(n), event_time: new Float64Array(n),
			node_parent: [0],
			segment_addr: blocks.length ? [blocks[0][0]] : [],
			segment_size: [blocks.reduce((s, b) => s + b[1], 0)],
			segment_device: [0], segment_stream: [0], segment_stack: [0],
			segment_pool: [0], segment_small: [0], segment_expandable: [1],
			segment_first: [0], segment_blocks: [blocks.length],
			block_addr: blocks.map((b) => b[0]),
			block_size: blocks.map((b) => b[1]),
			block_requested: blocks.map((b) => b[1]),
			block_state: blocks.map((b) => b[2]),
			block_stack: blocks.map(() => 0),
			block_stream: blocks.map(() => 0),
			annotation_name: [],
		},
	};
}

test("frees of blocks from before the history are older blocks", async () => {
	const model = await buildModel(made([["free_requested", 4096, 512],
		["alloc", 8192, 1024], ["free_completed", 4096, 512]]), 0);
	const el = model.elements;
	assert.equal(el.n, 2);
	assert.equal(el.flags[0] & BEFORE, BEFORE);
	assert.deepEqual([el.start[0], el.freed[0], el.end[0]], [0, 0, 2]);
	assert.deepEqual([...model.active.values], [512, 1536, 1024]);
	assert.deepEqual([...model.pending.values], [512, 512, 0]);
});

test("a history that begins within a free has a block that waits", async () => {
	const model = await buildModel(made([["alloc", 0, 512],
		["free_completed", 4096, 2048]]), 0);
	assert.deepEqual([...model.pending.values], [2048, 0]);
});

test("both halves of a free at once are no wait", async () => {
	const model = await buildModel(made([["alloc", 0, 512],
		["free_requested", 0, 512], ["free_completed", 0, 512]]), 0);
	assert.equal(model.pending.max, 0);
});

test("histories without free_completed end blocks when it is asked", async () => {
	const model = await buildModel(made([["alloc", 0, 512],
		["free_requested", 0, 512], ["alloc", 0, 1024]]), 0);
	assert.deepEqual([...model.active.values], [512, 0, 1024]);
});

test("an address that is allocated twice loses its first block", async () => {
	const model = await buildModel(made([["alloc", 0, 512],
		["alloc", 0, 1024]]), 0);
	assert.equal(model.broken, 1);
	assert.deepEqual([...model.active.values], [512, 1024]);
});

test("unmapping cuts mapped ranges, also across their edges", async () => {
	const model = await buildModel(made([["segment_map", 0, 4096],
		["segment_map", 4096, 4096], ["segment_unmap", 2048, 4096],
		["segment_unmap", 8192, 1024]]), 0);
	/* The last was mapped before the history. */
	assert.deepEqual([...model.reserved.values],
	    [4096 + 1024, 8192 + 1024, 4096 + 1024, 4096]);
	const last = model.ranges.all.filter((r) => r.end === model.length)
	    .map((r) => [r.addr, r.size]).sort((a, b) => a[0] - b[0]);
	assert.deepEqual(last, [[0, 2048], [6144, 2048]]);
});

test("segments of the final state without an event were always there",
    async () => {
	const model = await buildModel(made([["alloc", 1024, 512]],
	    [[1024, 512, 1], [1536, 2560, 0]]), 0);
	assert.deepEqual([...model.reserved.values], [3072]);
	assert.equal(model.regions.n, 1);
});

/* ---- Colours ---- */

function variables(block) {
	const out = {};
	for (const [, name, value] of block.matchAll(/--([\w-]+): (#[0-9a-f]{6})/g))
		out[name] = [1, 3, 5].map((i) => parseInt(value.slice(i, i + 2), 16));
	return out;
}
const style = readFileSync(join(source, "style.css"), "utf8");
const themes = {
	light: variables(/^:root \{([^}]*)\}/m.exec(style)[1]),
	dark: variables(/:root\[data-theme="dark"\] \{([^}]*)\}/.exec(style)[1]),
};

const linear = (c) => c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 :
	((v + 0.055) / 1.055) ** 2.4);

function contrast(a, b) {
	const light = (c) => {
		const [r, g, bl] = linear(c);
		return 0.2126 * r + 0.7152 * g + 0.0722 * bl + 0.05;
	};
	const [x, y] = [light(a), light(b)];
	return Math.max(x, y) / Math.min(x, y);
}

/* Machado, Oliveira and Fernandes 2009, complete deficiency. */
const SIGHT = {
	normal: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
	protanopia: [[0.152286, 1.052583, -0.204868],
		[0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
	deuteranopia: [[0.367322, 0.860646, -0.227968],
		[0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
	tritanopia: [[1.255528, -0.076749, -0.178779],
		[-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

function lab(c, sight) {
	const l = linear(c);
	const [r, g, b] = SIGHT[sight].map((row) => Math.max(0,
	    row[0] * l[0] + row[1] * l[1] + row[2] * l[2]));
	const f = (t) => t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116;
	const x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
	const y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
	const z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
	return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

test("both themes are the same set of colours", () => {
	assert.deepEqual(Object.keys(themes.dark).sort(),
	    Object.keys(themes.light).sort());
	const system = variables(/not\(\[data-theme="light"\]\) \{([^}]*)\}/
	    .exec(style)[1]);
	assert.deepEqual(system, themes.dark);
});

for (const [name, theme] of Object.entries(themes)) {
	test(`text is readable in the ${name} theme`, () => {
		for (const back of ["paper", "sheet", "ground"])
			for (const text of ["ink", "quiet", "accent", "alarm"])
				assert.ok(contrast(theme[text], theme[back]) >= 4.5,
				    `${text} on ${back}: ` +
				    contrast(theme[text], theme[back]).toFixed(2));
	});
	for (const sight of Object.keys(SIGHT))
		test(`colours are distinguishable with ${sight}, ${name} theme`, () => {
			const slots = Array.from({ length: 9 }, (_, i) =>
				lab(theme[`slot-${i}`], sight));
			let worst = [Infinity];
			for (let i = 0; i < 9; i++)
				for (let j = 0; j < i; j++) {
					const d = Math.hypot(...slots[i].map((v, q) =>
						v - slots[j][q]));
					if (d < worst[0])
						worst = [d, i, j];
				}
			assert.ok(worst[0] >= 12, `slots ${worst[1]} and ${worst[2]}: ` +
			    worst[0].toFixed(1));
			const use = lab(theme.use, sight), wait = lab(theme.wait, sight);
			assert.ok(Math.hypot(...use.map((v, q) => v - wait[q])) > 30);
		});
}
