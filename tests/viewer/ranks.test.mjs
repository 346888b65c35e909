/*
 * Tests the page of several ranks, and the meaning that it gives to memory:
 * kinds, leaks, and faults.
 */
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { axe, close, mergedPage, lookFor, open, press, reopen, settle,
	showView, shown, text } from "./support.mjs";

after(close);

const ranksReady = (tab) => tab.waitForSelector(".rank-list[data-ready=true]");

/* Run `f` on an open page of a merged file. */
function merged(name, kinds, f, options = {}) {
	test(name, async () => {
		const path = mergedPage(kinds);
		const { tab, complaints } = await open(path, options);
		try {
			await ranksReady(tab);
			await f(tab, path);
			assert.deepEqual(complaints.filter((c) =>
				!options.refused?.test(c)), []);
		} finally {
			await tab.close();
		}
	});
}

/* ---- Ranks ---- */

const FIVE = ["rank", "rank", "rank", "bigrank", "rank"];

merged("ranks have names, and the one that stands out is marked", FIVE,
    async (tab) => {
	    assert.deepEqual(await tab.locator(".rank-name").allInnerTexts(),
	        [0, 1, 2, 3, 4].map((r) => `rank ${r}`));
	    assert.deepEqual(await tab.locator(".rank-file").allInnerTexts(),
	        [0, 1, 2, 3, 4].map((r) => `rank${r}.pickle`));
	    assert.deepEqual(await tab.locator(".rank.out .rank-name")
	        .allInnerTexts(), ["rank 3"]);
	    const peaks = await tab.evaluate(() => weir.ranks.models.map((m) =>
		m.active.max));
	    assert.equal(peaks.length, 5);
	    assert.equal(peaks[3], peaks[0] + 120 * 2 ** 20);
	    assert.match(await text(tab, ".rank.out .rank-note"),
	        new RegExp(`▲ ${Math.round(120 * 2 ** 20 / peaks[0] * 100)} % above`));
	    const said = await text(tab, "#rank-story");
	    assert.match(said, /^The peaks of 5 ranks are from .* to .*rank 3/);
	    assert.match(said, /rank 3 has 120 MiB \(\d+ %\) more than the median/);
	    assert.match(said, /cache\.stash · cache\.py:\d+: 120 MiB there, 0 B/);
	    assert.deepEqual(await tab.locator("select[aria-label=Device] option")
	        .allInnerTexts(), [0, 1, 2, 3, 4].map((r) => `rank ${r}`));
    });

merged("ranks with one peak are said to be alike", ["rank", "rank", "rank"],
    async (tab) => {
	    assert.equal(await tab.locator(".rank.out").count(), 0);
	    assert.match(await text(tab, "#rank-story"), /none stands out/);
    });

merged("of two ranks the larger is compared with the other",
    ["bigrank", "rank"], async (tab) => {
	    assert.match(await text(tab, "#rank-story"),
	        /rank 0 has 120 MiB \(\d+ %\) more than rank 1, most of it by cache/);
    });

merged("one selection holds for all ranks", FIVE, async (tab) => {
	await lookFor(tab, "cache.stash");
	const found = () => tab.locator(".rank-peak").allInnerTexts();
	assert.match((await found())[0], /^0 B of /);
	assert.match((await found())[3], /^120 MiB of /);
	await tab.evaluate(() => weir.setWindow(100, 200));
	await tab.evaluate(() => weir.goPeak());
	const before = await tab.evaluate(() => [weir.mark / weir.model.length]);
	await tab.locator(".rank").nth(3).click();
	await tab.waitForFunction(() => weir.model.device === 3);
	await settle(tab);
	assert.equal(await tab.locator(".rank[aria-pressed=true] .rank-name")
	    .innerText(), "rank 3");
	assert.equal(await tab.inputValue("select[aria-label=Device]"), "3");
	/* The search, the part in view and the mark have moved along. */
	assert.match(await text(tab, ".hits"), /^3 allocations, /);
	const after = await tab.evaluate(() => [weir.mark / weir.model.length,
		(weir.x1 - weir.x0) / weir.model.length]);
	assert.ok(Math.abs(after[0] - before[0]) < 0.1, `${after} ${before}`);
	assert.ok(after[1] < 0.5, `${after}`);
});

shown("devices of one process are named by their numbers", "devices",
    async (tab) => {
	    assert.equal(await tab.locator(".ranks").count(), 0);
    });

/* ---- The legend ---- */

shown("an entry of the legend selects", "training", async (tab) => {
	const total = await tab.evaluate(() => weir.model.elements.n);
	await tab.locator(".legend .pick").nth(1).click();
	await settle(tab);
	const [n, wanted] = await tab.evaluate(() => {
		const { key } = weir.legendList[1];
		const keys = weir.keying.keyOf, el = weir.model.elements;
		let sum = 0, n = 0;
		for (let k = 0; k < el.n; k++) {
			sum += keys(k) === key;
			n += weir.found[k];
		}
		return [n, sum];
	});
	assert.ok(n > 0 && n < total);
	assert.equal(n, wanted);
	assert.equal(await tab.locator(".legend .pick").nth(1)
	    .getAttribute("aria-pressed"), "true");
	await tab.waitForFunction(() => /pick=site-\d+/.test(location.hash));
	/* With the keyboard, too; the focus stays there. */
	await tab.keyboard.press("Enter");
	await settle(tab);
	assert.equal(await tab.evaluate(() => weir.found), null);
	assert.equal(await tab.evaluate(() =>
		document.activeElement.className), "pick");
});

shown("a found call site is seen among the grey ones", "sites",
    async (tab) => {
	    await lookFor(tab, "layer_39");
	    const [hit, faint] = await tab.evaluate(() => {
		    const rgb = (p) => [p & 255, p >> 8 & 255, p >> 16 & 255];
		    const k = weir.found.indexOf(1), other = weir.found.indexOf(0);
		    return [rgb(weir.colourOf[k]), rgb(weir.colourOf[other])];
	    });
	    const light = ([r, g, b]) => [r, g, b].reduce((sum, v, i) => {
		    const c = v / 255;
		    return sum + [0.2126, 0.7152, 0.0722][i] * (c <= 0.04045 ?
			c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
	    }, 0);
	    const contrast = (light(faint) + 0.05) / (light(hit) + 0.05);
	    assert.ok(contrast > 3, `${contrast}`);
    });

shown("waiting memory has stripes of its own colour", "training",
    async (tab) => {
	    const share = await tab.evaluate(() => {
		    const { raster, plot } = weir.views.memory;
		    const el = weir.model.elements, { colours, owners } = raster;
		    const wait = weir.views.memory.wait;
		    const at = weir.views.memory.samples(plot, raster.width);
		    let waits = 0, striped = 0, wrong = 0;
		    for (let i = 0; i < owners.length; i++) {
			    const k = owners[i], p = at[i % raster.width];
			    if (k < 0)
				    continue;
			    if (el.freed[k] <= p && p < el.end[k]) {
				    waits++;
				    striped += colours[i] === wait;
			    } else {
				    wrong += colours[i] === wait;
			    }
		    }
		    return [striped / waits, wrong];
	    });
	    assert.ok(share[0] > 0.2 && share[0] < 0.5, `${share}`);
	    assert.equal(share[1], 0);
    });

/* ---- Meaning ---- */

shown("stacks that may leak are said", "leaky", async (tab) => {
	assert.match(await text(tab, ".story"), new RegExp("log\\.remember · " +
		"log\\.py:\\d+ may leak: it holds 80\\.0 MiB in 40 blocks from " +
		"all parts of the trace, and freed 0 of 40"));
});

shown("faults of the file are said", "faulty", async (tab) => {
	assert.match(await text(tab, ".story"), new RegExp("not consistent: " +
		"`weir check` finds 13 faults on this device, the first \\(I-11\\)" +
		" at 0x1000: 2097152 bytes were asked for in a block of 1048576"));
});

shown("a file without faults and leaks says nothing of them", "high",
    async (tab) => {
	    assert.doesNotMatch(await text(tab, ".story"),
	        /may leak|not consistent/);
    });

shown("memory has kinds: by metadata, by range, or guessed", "kinds",
    async (tab) => {
	    const sums = await tab.evaluate(() => {
		    const el = weir.model.elements, out = {};
		    weir.colours.value = "kind";
		    weir.colours.dispatchEvent(new Event("change"));
		    for (let k = 0; k < el.n; k++)
			    if (el.size[k] >= 2 ** 20)
				    out[el.size[k] / 2 ** 20] = weir.legendList.find((l) =>
					l.key === weir.keying.keyOf(k)).label;
		    return out;
	    });
	    assert.deepEqual(sums, { 1: "parameters", 2: "gradients",
		    4: "optimiser's state", 8: "activations", 16: "graphs" });
	    assert.match(await text(tab, ".story"), new RegExp("By kind, the " +
		"peak is .*MiB activations.*\\(\\d+ % of it guessed, the rest " +
		"named by the program\\)"));
	    await settle(tab);
	    const evidence = (mib) => tab.evaluate((size) => {
		    const el = weir.model.elements;
		    weir.select({ element: el.size.indexOf(size * 2 ** 20) });
		    weir.panel.draw();
		    return document.querySelector(".found").innerText;
	    }, mib);
	    assert.match(await evidence(2),
	        /gradients, by the program's metadata/);
	    assert.match(await evidence(4),
	        /optimiser's state, by a range that it named/);
	    assert.match(await evidence(8), /activations, guessed/);
    });

shown("page-locked memory is a kind", "pinned", async (tab) => {
	await tab.selectOption("select[aria-label=Device]", "1");
	await tab.selectOption("select[aria-label='Colour by']", "kind");
	await settle(tab);
	assert.deepEqual(await tab.locator(".legend .pick span")
	    .allInnerTexts(), ["page-locked"]);
});

shown("the program's ranges are on the main timeline", "training",
    async (tab) => {
	    const box = await tab.locator(".timeline .u-over").boundingBox();
	    const span = await tab.evaluate(() => {
		    const s = weir.model.spans[1];
		    return [(s.p0 + s.p1) / 2 / weir.model.length,
			weir.snap.string(s.name)];
	    });
	    await tab.mouse.move(box.x + span[0] * box.width, box.y - 6);
	    await settle(tab);
	    assert.equal(await text(tab, ".found"), span[1]);
    });

/* ---- Flame graph and heights ---- */

shown("heights at which memory changes fill the picture", "high",
    async (tab) => {
	    const height = () => tab.evaluate(() => {
		    const { raster } = weir.views.memory;
		    const el = weir.model.elements;
		    let n = 0;
		    for (let y = 0; y < raster.height; y++) {
			    const row = raster.owners.subarray(y * raster.width,
			        (y + 1) * raster.width);
			    n += row.some((k) => k >= 0 &&
				el.size[k] === 46 * 2 ** 20);
		    }
		    return n / raster.height;
	    });
	    await tab.evaluate(() => weir.setWindow(100, 400));
	    await settle(tab);
	    assert.ok(await height() < 0.1, `${await height()}`);
	    await press(tab, "z");
	    assert.ok(await height() > 0.8, `${await height()}`);
	    await tab.waitForFunction(() => /memory\.y=/.test(location.hash));
	    const hash = await tab.evaluate(() => location.hash);
	    await press(tab, "z");
	    assert.ok(await height() < 0.1);
	    await reopen(tab, await tab.evaluate(() =>
		decodeURIComponent(location.pathname)), hash);
	    await settle(tab);
	    assert.ok(await height() > 0.8);
    }, { refused: /request of/ });

shown("the flame graph can be inverted, and its state is in the address",
    "training", async (tab, [answer], path) => {
	    await showView(tab, "flame");
	    const tops = () => tab.evaluate(() => weir.views.flame.tree.children
		.map((d) => weir.views.flame.name(d).split(" ")[0]));
	    assert.deepEqual(await tops(), ["main.run"]);
	    await tab.check("text=inverted");
	    await settle(tab);
	    assert.ok((await tops()).includes("ops.matmul"));
	    assert.equal(await tab.evaluate(() => weir.views.flame.tree.value),
	        answer.peak);
	    await tab.evaluate(() => {
		    const { flame } = weir.views;
		    flame.select({ flame: flame.tree.children[0].children[0] });
	    });
	    await tab.waitForFunction(() => /flame\.focus=/.test(location.hash));
	    const [hash, name] = await tab.evaluate(() => [location.hash,
		weir.views.flame.name(weir.views.flame.focus)]);
	    await reopen(tab, path, hash);
	    await settle(tab);
	    assert.equal(await tab.evaluate(() =>
		weir.views.flame.name(weir.views.flame.focus)), name);
    }, { refused: /request of/ });

shown("a call site has one colour in all pictures", "sites", async (tab) => {
	const wrong = await tab.evaluate(() => {
		weir.show(weir.views.flame);
		weir.views.flame.update();
		const bad = [];
		const { flame } = weir.views;
		flame.tree.each((d) => {
			if (d.depth === 0)
				return;
			const entry = weir.legendList.find((l) =>
				l.label === flame.name(d));
			if (entry && entry.colour !== `rgb(${weir.keying
			    .rgbOf(d.key).join(" ")})`)
				bad.push(entry.label);
		});
		return [bad, flame.tree.children.length];
	});
	assert.deepEqual(wrong[0], []);
	assert.ok(wrong[1] > 9);
});

shown("a flame graph shows the change between two moments", "training",
    async (tab) => {
	    await tab.evaluate(() => weir.setWindow(300, 1200));
	    await showView(tab, "flame");
	    await tab.selectOption("select[aria-label='What width means']",
	        "change");
	    await settle(tab);
	    const [net, wanted, came] = await tab.evaluate(() => [
		weir.views.flame.tree.data.net,
		weir.model.active.at(1200) - weir.model.active.at(300),
		weir.views.flame.tree.value]);
	    assert.equal(net, wanted);
	    assert.ok(came >= Math.abs(net));
	    await tab.evaluate(() => weir.hover({ flame: weir.views.flame.tree,
		flameView: weir.views.flame }, null));
	    await settle(tab);
	    assert.match(await text(tab, ".found"), /Came and went/);
    });

/* ---- Roles ---- */

shown("rows of events have cells", "training", async (tab) => {
	await showView(tab, "events");
	const tree = await tab.evaluate(() => {
		const grid = document.querySelector("[role=grid]");
		const row = grid.querySelector("[role=rowgroup] [role=row]");
		return [grid.querySelectorAll("[role=columnheader]").length,
			[...row.children].map((c) => c.getAttribute("role")),
			grid.getAttribute("aria-rowcount"),
			row.getAttribute("aria-rowindex")];
	});
	assert.equal(tree[0], 7);
	assert.deepEqual(tree[1], Array(7).fill("gridcell"));
	assert.ok(Number(tree[2]) > 3000);
	assert.equal(tree[3], "2");
});

/* ---- Every picture, with axe ---- */

for (const colorScheme of ["light", "dark"])
	for (const [width, height] of [[390, 844], [900, 800], [1600, 1000]])
		merged(`axe finds nothing at ${width} pixels, ${colorScheme}`,
		    ["bigrank", "rank"], async (tab) => {
			    for (const id of ["memory", "map", "streams", "flame",
				    "events"]) {
				    await showView(tab, id);
				    assert.deepEqual(await axe(tab), [], id);
			    }
			    await press(tab, "?");
			    assert.deepEqual(await axe(tab), [], "help");
		    }, { viewport: { width, height }, colorScheme, bypassCSP: true });
