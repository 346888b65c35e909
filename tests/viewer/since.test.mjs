/*
 * Tests the flame graph of what changed since an earlier file, against sums of
 * both files that the test makes itself.
 */
import { after } from "node:test";
import assert from "node:assert/strict";
import { axe, close, lookFor, reopen, settle, showView, shown, snapshot,
	text } from "./support.mjs";

after(close);

/* Show the change since the earlier file. */
async function showSince(tab) {
	await showView(tab, "flame");
	await tab.selectOption(".stage select", "since");
	await settle(tab);
}

/* The bytes in use at the end of both files of a page, and the changes of its
 * flame graph, as lists of [whole stack, bytes]. Runs in the page. `before` is
 * the device in the earlier file; -1 is none. */
function sumsOf(before) {
	const { snap, views: { flame }, model: { device } } = window.weir;
	const pathOf = (c, node, frame) => {
		const path = [];
		for (let n = node; n > 0; n = c.node_parent[n]) {
			const { name, file, line } = frame(c.node_frame[n]);
			path.unshift(`${name} ${file}:${line}`);
		}
		return path.join(" > ");
	};
	const sums = new Map(), found = new Map();
	const add = (to, key, by) => to.set(key, (to.get(key) ?? 0) + by);
	for (const [of, wanted, sign] of [[snap, device, 1],
		[snap.before, before, -1]]) {
		const c = of.columns;
		for (let s = 0; s < c.segment_addr.length; s++) {
			const first = c.segment_first[s];
			for (let b = first; b < first + c.segment_blocks[s]; b++)
				if (c.segment_device[s] === wanted &&
				    c.block_state[b] !== 0)
					add(sums, pathOf(c, c.block_stack[b],
					    (f) => of.frame(f)), sign *
					    (c.block_requested[b] || c.block_size[b]));
		}
	}
	flame.own.forEach((by, node) => add(found, pathOf(flame.since.columns,
	    node, (f) => flame.frame(f)), by));
	const list = (map) => [...map].filter(([, by]) => by !== 0).sort();
	return { wanted: list(sums), found: list(found),
		net: [...sums.values()].reduce((a, b) => a + b, 0),
		tree: flame.tree.data.net, compare: window.weir.views.compare
		    .found().rows.reduce((sum, r) => sum + r.change, 0) };
}

async function expectSums(tab, before = 0) {
	await showSince(tab);
	const { wanted, found, net, tree, compare } =
		await tab.evaluate(sumsOf, before);
	assert.deepEqual(found, wanted);
	assert.equal(tree, net);
	assert.equal(compare, net);
	return wanted;
}

for (const [now, then] of [[3000, 1700], [1700, 3000]])
	shown(`changes are those of both files: ${now} since ${then} events`,
	    "training", async (tab) => {
		    assert.ok((await expectSums(tab)).length > 0);
		    await tab.check("text=inverted");
		    await settle(tab);
		    const { net, tree } = await tab.evaluate(sumsOf, 0);
		    assert.equal(tree, net);
	    }, { events: now, flags: ["--compare", snapshot("training", then)
		    .path] });

shown("a file has no change since itself", "training", async (tab) => {
	assert.deepEqual(await expectSums(tab), []);
	assert.match(await text(tab, ".stage .bar"), /nothing to show/);
}, { flags: ["--compare", snapshot("training").path] });

shown("calls that only the earlier file has are shown, named and found",
    "wrapped", async (tab) => {
	    await expectSums(tab);
	    const names = await tab.evaluate(() => weir.views.flame.tree
		.descendants().map((d) => weir.views.flame.name(d)));
	    for (const wanted of ["layer_7", "allocate"])
		    assert.ok(names.some((n) => n.startsWith(`${wanted} `)),
			`${names}`);
	    assert.match(await text(tab, ".stage .bar"),
	        /in all, −[\d.]+ [KM]iB without a stack/);
	    await tab.evaluate(() => {
		    const { flame } = weir.views;
		    weir.hover({ flame: flame.tree.descendants().find((d) =>
			flame.name(d).startsWith("layer_7 ")), flameView: flame },
		    null);
	    });
	    await settle(tab);
	    assert.match(await text(tab, ".found"), /layer_7/);
	    await lookFor(tab, "layer_7");
	    const lit = await tab.evaluate(() => [...weir.views.flame.lit]
		.map((d) => weir.views.flame.name(d).split(" ")[0]).sort());
	    assert.deepEqual(lit, ["all", "layer_7"]);
    }, { flags: ["--compare", snapshot("sites").path] });

shown("interpreter frames of the earlier file are hidden, too", "wrapped",
    async (tab) => {
	    await showSince(tab);
	    const count = () => tab.evaluate(() => weir.views.flame.tree
		.descendants().filter((d) => weir.views.flame.name(d)
		.startsWith("layer_")).length);
	    assert.equal(await count(), 40);
	    await tab.evaluate(() => {
		    const { snap: { before }, views: { flame } } = weir;
		    const grade = before.columns.frame_grade;
		    grade.forEach((_, f) => {
			    if (before.frame(f).name === "layer_7")
				    grade[f] = 0;
		    });
		    flame.set({});
	    });
	    await settle(tab);
	    assert.equal(await count(), 39);
	    await tab.check("text=interpreter frames");
	    await settle(tab);
	    assert.equal(await count(), 40);
    }, { flags: ["--compare", snapshot("sites").path] });

/* Device 1 is page-locked memory in one file, and a GPU in the other one. */
shown("page-locked memory is not compared with a GPU's", "pinned",
    async (tab) => {
	    await tab.evaluate(() => weir.changeDevice(1));
	    assert.ok((await expectSums(tab, -1)).length > 0);
    }, { flags: ["--compare", snapshot("devices").path] });

shown("a GPU's memory is not compared with page-locked memory", "devices",
    async (tab) => {
	    await tab.evaluate(() => weir.changeDevice(1));
	    assert.ok((await expectSums(tab, -1)).length > 0);
    }, { flags: ["--compare", snapshot("pinned").path] });

shown("page-locked memory is compared with its own", "pinned", async (tab) => {
	await tab.evaluate(() => weir.changeDevice(1));
	assert.deepEqual(await expectSums(tab, 1), []);
}, { flags: ["--compare", snapshot("pinned").path] });

shown("the choice of the change is in the address", "training",
    async (tab, answers, path) => {
	    await showSince(tab);
	    await tab.waitForFunction(() => /flame\.weight=since/.test(
		location.hash));
	    const hash = await tab.evaluate(() => location.hash);
	    assert.deepEqual(await axe(tab), []);
	    await reopen(tab, path, hash);
	    await settle(tab);
	    assert.equal(await tab.evaluate(() => weir.views.flame.weight),
		"since");
	    assert.equal(await tab.locator(".stage select").inputValue(), "since");
    }, { flags: ["--compare", snapshot("training", 1700).path],
	    options: { bypassCSP: true }, refused: /request of/ });

shown("without an earlier file there is no such width", "wrapped",
    async (tab) => {
	    await showView(tab, "flame");
	    assert.equal(await tab.locator("option[value=since]").count(), 0);
    });
