/*
 * Tests the page in a browser: it shows what the snapshot has, gestures and keys
 * work as documented, no text of a snapshot is read as HTML, and the page sends
 * nothing.
 */
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { close, colours, difference, lookFor, open, page, pixels, press,
	reopen, settle, showView, shown, snapshot, spot, text, view,
	work } from "./support.mjs";

after(close);

/* ---- Loading ---- */

shown("the summary has the figures of the snapshot", "training",
    async (tab, [answer]) => {
	    const mib = (n) => `${(n / 2 ** 20).toFixed(n < 100 * 2 ** 20 ?
		1 : 0)} MiB`;
	    const tiles = await tab.locator(".tile strong").allInnerTexts();
	    assert.deepEqual(tiles, [mib(answer.peak), mib(answer.held),
		mib(answer.held - answer.in_use_at_end), mib(answer.waiting), "1"]);
	    const story = await text(tab, ".story");
	    assert.match(story, /Most was in use .* after the start: 160 MiB in/);
	    assert.match(story, /A request for 3.00 GiB failed: the device had 700/);
	    assert.equal(await tab.title(), "training-3000.pickle · weir");
	    /* The failure is seen without scrolling. */
	    const [link, list] = await Promise.all(["#why", ".story"].map(
		(at) => tab.locator(at).boundingBox()));
	    assert.ok(link.y >= list.y && link.y + link.height <=
		list.y + list.height, `${link.y}, ${list.y}`);
	    await tab.click("#why");
	    const why = await text(tab, ".verdict");
	    const said = execFileSync(process.env.WEIR_BIN,
		["oom", "--json", snapshot("training").path]);
	    const { causes } = JSON.parse(said);
	    assert.ok(causes.length > 0);
	    for (const cause of causes) {
		assert.ok(why.includes(cause.text), cause.text);
		for (const { setting, text: gives } of cause.remedies)
		    assert.ok(why.includes(setting ?? "") && why.includes(gives),
			gives);
	    }
    });

test("the page is complete in itself and its policy lets nothing in", () => {
	const html = readFileSync(page("training").path, "utf8");
	const policy = /Content-Security-Policy" content="([^"]*)"/.exec(html)[1];
	assert.match(policy, /default-src 'none'/);
	assert.match(policy, /script-src 'sha256-[^']+'; style-src 'sha256-[^']+'/);
	assert.doesNotMatch(policy, /unsafe|https?:|\*/);
	assert.doesNotMatch(html, /<(link|img|iframe|script src)/);
	assert.equal(html.match(/<script/g).length, 2);
	for (const name of ["uplot", "d3-hierarchy"])
		assert.match(html, new RegExp(`\n?${name} \\d.*\n\n.*\n`));
	assert.match(html, /Permission is hereby granted, free of charge/);
});

shown("scripts and requests of others are refused", "training",
    async (tab) => {
	    const kinds = ["script-src-elem", "img-src", "connect-src"];
	    const broken = await tab.evaluate(async (wanted) => {
		    const missing = new Set(wanted);
		    const all = new Promise((done) => document.addEventListener(
			"securitypolicyviolation", (e) => {
				missing.delete(e.effectiveDirective);
				if (missing.size === 0)
					done();
			}));
		    const script = document.createElement("script");
		    script.textContent = "window.broken = 1";
		    document.body.append(script);
		    const image = new Image();
		    image.src = "data:image/png;base64,AAAA";
		    document.body.append(image);
		    await fetch("data:text/plain,hello").catch(() => 0);
		    await Promise.race([all, new Promise((done) =>
			setTimeout(done, 60000))]);
		    if (missing.size > 0)
			    throw new Error(`not refused: ${[...missing]}`);
		    return window.broken ?? null;
	    }, kinds);
	    assert.equal(broken, null);
    }, { refused: /Content Security Policy/ });

/* ---- Pictures ---- */

for (const theme of ["light", "dark"])
	shown(`every view draws in the ${theme} theme`, "training",
	    async (tab) => {
		    for (const id of ["memory", "map", "streams", "flame"]) {
			    await showView(tab, id);
			    const seen = await pixels(tab, ".stage .plot");
			    assert.ok(colours(seen) > 12, `${id}: ${colours(seen)}`);
		    }
		    const timeline = await pixels(tab, ".timeline");
		    assert.ok(colours(timeline) > 12);
		    await showView(tab, "events");
		    assert.ok(await tab.locator(".events .body .row").count() > 5);
		    const background = await tab.evaluate(() =>
			getComputedStyle(document.body).backgroundColor);
		    assert.equal(background, theme === "dark" ?
			"rgb(16, 22, 26)" : "rgb(246, 247, 247)");
	    }, { options: { colorScheme: theme } });

/*
 * The map must show the state that the model computes. For each point of a grid
 * the model has a block of a colour, held memory, or nothing. The test compares
 * that with the pixels of a screenshot.
 */
shown("the address map shows what was where", "training", async (tab) => {
	await showView(tab, "map");
	const points = await tab.evaluate(() => {
		const { model, theme, colourOf, axis } = weir, el = model.elements;
		const view = weir.views.map, plot = view.plot, out = [];
		const rgb = (p) => [p & 255, p >> 8 & 255, p >> 16 & 255];
		for (let i = 0; i < 60; i++) {
			for (let j = 0; j < 40; j++) {
				const x = plot.px(weir.x0) + (i + 0.5) / 60 * plot.inner;
				const y = (j + 0.5) / 40 * plot.height;
				const p = Math.floor(axis.position(plot.x(x)));
				const at = view.yAt(plot, y);
				let want = "nothing";
				for (const r of model.ranges.all) {
					const low = model.regions.y(r.addr);
					if (low <= at && at < low + r.size && r.start <= p &&
					    p < r.end)
						want = "held";
				}
				for (let k = 0; k < el.n; k++)
					if (el.y[k] <= at && at < el.y[k] + el.held[k] &&
					    el.start[k] <= p && p < el.end[k])
						want = el.freed[k] <= p ? "held" :
							rgb(colourOf[k]);
				out.push({ x, y, want });
			}
		}
		return { out, ground: theme.groundRGB };
	});
	const seen = await pixels(tab, ".stage .plot");
	const at = (x, y) => {
		const i = 4 * (Math.floor(y) * seen.width + Math.floor(x));
		return [...seen.rgba.subarray(i, i + 3)];
	};
	const near = (a, b) => a.every((v, i) => Math.abs(v - b[i]) <= 3);
	const fits = (found, want) => want === "nothing" ?
		near(found, points.ground) : want === "held" ?
		!near(found, points.ground) : near(found, want);
	let right = 0, blocks = 0;
	for (const { x, y, want } of points.out) {
		blocks += Array.isArray(want);
		/* A line of one pixel separates blocks. */
		right += [0, -1, 1].some((dx) => [0, -1, 1].some((dy) =>
			fits(at(x + dx, y + dy), want)));
	}
	assert.ok(blocks > 400, `${blocks} points are in blocks`);
	/* Points on an edge may fall to either side. */
	assert.ok(right / points.out.length > 0.96,
	    `${right} of ${points.out.length}`);
});

shown("the bands are as high as the memory in use", "training",
    async (tab) => {
	    const wrong = await tab.evaluate(() => {
		    const view = weir.views.memory, r = view.raster;
		    const { model } = weir;
		    let worst = 0;
		    const at = view.samples(view.plot, r.width);
		    for (let c = 0; c < r.width; c++) {
			    let n = 0;
			    for (let y = 0; y < r.height; y++)
				    n += r.owners[y * r.width + c] >= 0;
			    const bytes = model.active.values[at[c]];
			    /* One row of pixels of a band may be its edge. */
			    const live = model.blocks.values[at[c]];
			    const want = bytes / view.max * r.height;
			    worst = Math.max(worst, Math.abs(n - want) - live);
		    }
		    return worst;
	    });
	    assert.ok(wrong <= 1, `${wrong} pixels`);
    });

shown("a block under the pointer is described with its stack", "training",
    async (tab) => {
	    /* The lowest band is the block that was there first. */
	    await tab.mouse.move(...await spot(tab, 0.5, 0.97));
	    await settle(tab);
	    assert.match(await text(tab, ".found .headline"), /30\.0 MiB/);
	    const names = await tab.locator(".found section").first()
		.locator(".name").allInnerTexts();
	    assert.deepEqual(names, ["cache.fill", "main.run"]);
	    assert.match(await text(tab, ".found .facts"), /stream 9/);
    });

shown("a click selects, Escape lets go", "training", async (tab) => {
	await tab.mouse.click(...await spot(tab, 0.5, 0.97));
	await tab.mouse.move(5, 5);
	await settle(tab);
	assert.equal(await text(tab, ".panel h2 >> nth=1"), "Selected");
	assert.match(await text(tab, ".found .headline"), /30\.0 MiB/);
	await press(tab, "Escape");
	assert.match(await text(tab, ".found"), /Move the pointer/);
});

/* ---- Gestures ---- */

shown("the wheel zooms at the pointer", "training", async (tab) => {
	const before = await view(tab);
	const first = await pixels(tab, ".stage .plot");
	await tab.mouse.move(...await spot(tab, 0.25, 0.5));
	const under = await tab.evaluate(() => weir.cursor);
	await tab.mouse.wheel(0, -400);
	await settle(tab);
	const after = await view(tab);
	assert.ok(after[1] - after[0] < 0.7 * (before[1] - before[0]));
	const share = (under - after[0]) / (after[1] - after[0]);
	assert.ok(Math.abs(share - 0.25) < 0.02, `${share}`);
	assert.ok(difference(first, await pixels(tab, ".stage .plot")) > 0.1);
	await tab.mouse.dblclick(...await spot(tab, 0.5, 0.2));
	await settle(tab);
	assert.deepEqual(await view(tab), before);
	await tab.mouse.move(5, 5);
	await settle(tab);
});

shown("a drag zooms to what it marked, also in the timeline", "training",
    async (tab, [answer]) => {
	    const drag = async (from, to) => {
		    await tab.mouse.move(...from);
		    await tab.mouse.down();
		    await tab.mouse.move(...to, { steps: 4 });
		    await tab.mouse.up();
		    await settle(tab);
	    };
	    await drag(await spot(tab, 0.2, 0.5), await spot(tab, 0.6, 0.52));
	    let [x0, x1] = await view(tab);
	    assert.ok(Math.abs(x0 - 0.2 * answer.events) < 30, `${x0}`);
	    assert.ok(Math.abs(x1 - 0.6 * answer.events) < 30, `${x1}`);
	    await press(tab, "0");
	    const box = await tab.locator(".timeline .u-over").boundingBox();
	    const at = (f) => [box.x + f * box.width, box.y + box.height / 2];
	    await drag(at(0.5), at(0.75));
	    [x0, x1] = await view(tab);
	    assert.ok(Math.abs(x0 - 0.5 * answer.events) < 30, `${x0}`);
	    assert.ok(Math.abs(x1 - 0.75 * answer.events) < 30, `${x1}`);
    });

shown("a box in the map zooms to its addresses", "training", async (tab) => {
	await showView(tab, "map");
	const whole = await tab.evaluate(() => weir.views.map.top);
	const [x, y] = await spot(tab, 0.3, 0.5), to = await spot(tab, 0.6, 0.75);
	await tab.mouse.move(x, y);
	await tab.mouse.down();
	await tab.mouse.move(...to, { steps: 4 });
	await tab.mouse.up();
	await settle(tab);
	const [low, high] = await tab.evaluate(() => [weir.views.map.y0,
		weir.views.map.top]);
	assert.ok(Math.abs(low / whole - 0.25) < 0.02, `${low / whole}`);
	assert.ok(Math.abs(high / whole - 0.5) < 0.02, `${high / whole}`);
	await press(tab, "0");
	assert.equal(await tab.evaluate(() => weir.views.map.top), whole);
});

shown("the slider moves the part in view", "training", async (tab) => {
	await press(tab, "+", "+", "+");
	const before = await view(tab);
	const box = await tab.locator(".minimap").boundingBox();
	const middle = await tab.evaluate(() =>
		weir.minimap.px((weir.x0 + weir.x1) / 2));
	await tab.mouse.move(box.x + middle, box.y + 15);
	await tab.mouse.down();
	await tab.mouse.move(box.x + middle + 80, box.y + 15, { steps: 3 });
	await tab.mouse.up();
	await settle(tab);
	const after = await view(tab);
	assert.ok(after[0] > before[0] + 50);
	assert.ok(Math.abs((after[1] - after[0]) - (before[1] - before[0])) < 1);
});

/* ---- Keys ---- */

shown("every view and every step can be had by keys", "training",
    async (tab, [answer]) => {
	    for (const [key, id] of [["2", "map"], ["3", "streams"],
		["4", "flame"], ["5", "events"], ["1", "memory"]]) {
		    await press(tab, key);
		    assert.equal(await tab.evaluate(() => weir.view.id), id);
	    }
	    const whole = await view(tab);
	    await press(tab, "+", "+");
	    const near = await view(tab);
	    assert.ok(near[1] - near[0] < 0.6 * (whole[1] - whole[0]));
	    await press(tab, "ArrowRight");
	    assert.ok((await view(tab))[0] > near[0]);
	    await press(tab, "-", "-", "-", "-");
	    assert.deepEqual(await view(tab), whole);
	    await press(tab, "p");
	    assert.equal(await tab.evaluate(() => weir.mark), answer.peak_event);
	    await press(tab, "]");
	    assert.equal(await tab.evaluate(() => weir.mark),
	        answer.peak_event + 1);
	    await press(tab, "[", "Enter");
	    assert.equal(await text(tab, ".panel h2 >> nth=1"), "Selected");
	    assert.match(await text(tab, "[aria-live]"),
	        new RegExp(answer.peak_name));
	    await press(tab, "t");
	    assert.equal(await tab.evaluate(() =>
		document.documentElement.dataset.theme), "dark");
	    await press(tab, "?");
	    assert.ok(await tab.locator("dialog[open]").isVisible());
	    await press(tab, "Escape");
	    assert.equal(await tab.locator("dialog[open]").count(), 0);
    });

shown("the tab key reaches every control, and focus is seen", "training",
    async (tab) => {
	    const reached = new Set();
	    for (let i = 0; i < 28; i++) {
		    await tab.keyboard.press("Tab");
		    reached.add(await tab.evaluate(() => {
			    const e = document.activeElement;
			    const ring = getComputedStyle(e).outlineStyle;
			    return `${e.getAttribute("aria-label") ?? e.innerText}` +
				(ring === "none" ? ", not seen" : "");
		    }));
	    }
	    for (const name of ["Search", "Help", "Events", "Allocations",
		"Colour by", "Memory in use, by allocation",
		"Part of the trace in view"])
		    assert.ok(reached.has(name), `${name} of ${[...reached]}`);
    });

/* ---- Search, flame graph, streams, events ---- */

shown("a search finds every allocation under a frame", "training",
    async (tab, [answer]) => {
	    const before = await pixels(tab, ".stage .plot");
	    await lookFor(tab, "comm.gather");
	    assert.match(await text(tab, ".hits"), new RegExp(
	        `^${answer.allocations["comm.gather"]} allocations, `));
	    assert.ok(difference(before, await pixels(tab, ".stage .plot")) > 0.2);
	    await tab.keyboard.press("Enter");
	    await settle(tab);
	    const names = await tab.locator(".found .name").allInnerTexts();
	    assert.ok(names.includes("comm.gather"));
	    await press(tab, "Escape");
	    assert.equal(await text(tab, ".hits"), "");
    });

shown("a search finds the block at an address", "training", async (tab) => {
	await lookFor(tab, "0x7f3000200001");
	assert.match(await text(tab, ".hits"), /^1 allocation, /);
});

shown("the flame graph adds up, and a click widens a frame", "training",
    async (tab, [answer]) => {
	    await showView(tab, "flame");
	    const sums = await tab.evaluate(() => {
		    const bad = [];
		    weir.views.flame.tree.each((d) => {
			    const below = (d.children ?? []).reduce((s, c) =>
				s + c.value, 0);
			    if (below > d.value)
				    bad.push(d.depth);
		    });
		    return { total: weir.views.flame.tree.value, bad };
	    });
	    assert.equal(sums.total, answer.peak);
	    assert.deepEqual(sums.bad, []);
	    const find = (name) => tab.evaluate((wanted) => {
		    const v = weir.views.flame;
		    const b = v.boxes.find((box) => v.name(box.d).startsWith(wanted));
		    return b && { x: (b.x0 + b.x1) / 2, y: b.y + 8,
			wide: b.x1 - b.x0 };
	    }, name);
	    const at = await find("model.build");
	    const box = await tab.locator(".stage .plot").boundingBox();
	    await tab.mouse.click(box.x + at.x, box.y + at.y);
	    await settle(tab);
	    assert.ok((await find("model.build")).wide > 1.5 * at.wide);
	    assert.match(await text(tab, ".found .headline"), /^model\.build/);
	    await press(tab, "Escape");
	    assert.ok(Math.abs((await find("model.build")).wide - at.wide) < 1);
	    await tab.selectOption("select[aria-label='What width means']", "count");
	    await settle(tab);
	    const made = Object.values(answer.allocations).reduce((a, b) => a + b);
	    assert.equal(await tab.evaluate(() => weir.views.flame.tree.value),
	        made);
    });

test("the address of the page holds the view", async () => {
	const { path } = page("training");
	const state = "#view=map&colour=size&from=100&to=400&mark=250&find=layer";
	const first = await open(path);
	await reopen(first.tab, path, state);
	const shownNow = () => first.tab.evaluate(() => [weir.view.id, weir.colour,
		Math.round(weir.axis.position(weir.x0)),
		Math.round(weir.axis.position(weir.x1)), weir.mark,
		weir.input.value]);
	assert.deepEqual(await shownNow(), ["map", "size", 100, 400, 250, "layer"]);
	await showView(first.tab, "flame");
	await first.tab.waitForFunction(() => location.hash.includes("view=flame"));
	/* Invalid parts are ignored. */
	await reopen(first.tab, path,
	    "#view=__proto__&from=x&to=-4&mark=1e99&colour=<b>&device=77");
	assert.deepEqual((await shownNow()).slice(0, 2), ["memory", "site"]);
	assert.deepEqual(first.complaints.filter((c) => !/request of/.test(c)), []);
	await first.tab.close();
});

shown("streams have a lane each, with what waits in them", "training",
    async (tab, [answer]) => {
	    await showView(tab, "streams");
	    const lanes = await tab.evaluate(() => weir.model.streams.map((s) =>
		[weir.snap.streamName(s.stream), s.pending.max]));
	    assert.equal(lanes.length, answer.streams);
	    assert.deepEqual(lanes.map((l) => l[0]), ["default stream", "stream 9",
		"stream #1", "stream 7"]);
	    assert.ok(lanes[2][1] > 0);
	    await tab.mouse.move(...await spot(tab, 0.5, 0.55));
	    await settle(tab);
	    assert.match(await text(tab, ".found"), /stream 9/);
    });

shown("private pools are named and have colours", "training",
    async (tab, [answer]) => {
	    await tab.selectOption("select[aria-label='Colour by']", "pool");
	    await settle(tab);
	    const legend = await tab.locator(".legend li").allInnerTexts();
	    assert.equal(legend.length, 2);
	    assert.match(legend[0], /^common pool/);
	    assert.match(legend[1], /^pool \(3, 0\)/);
	    const pools = await tab.evaluate(() => {
		    const el = weir.model.elements, n = [0, 0];
		    for (let k = 0; k < el.n; k++)
			    n[weir.snap.pool(el.pool[k]) === "pool (3, 0)" ? 1 : 0]++;
		    return n;
	    });
	    assert.equal(pools[1], answer.allocations["offload.copy"]);
    });

shown("the list of events has every event in view", "training",
    async (tab, [answer]) => {
	    await showView(tab, "events");
	    assert.match(await text(tab, ".note"), new RegExp(
	        `^${answer.events.toLocaleString("en-US")} events in view`));
	    await tab.locator(".events .body").focus();
	    await press(tab, "PageDown", "PageDown", "ArrowDown");
	    const row = await tab.locator("[aria-selected=true].row").innerText();
	    assert.match(row, /^40\s/);
	    await tab.evaluate(() => {
		    weir.view.body.scrollTop = 1e9;
	    });
	    await settle(tab);
	    const last = await tab.locator(".events .body .row").last().innerText();
	    assert.ok(last.startsWith((answer.events - 1).toLocaleString("en-US")),
	        last);
    });

shown("time and events are two ways to see the same", "training",
    async (tab) => {
	    const before = await pixels(tab, ".stage .plot");
	    await tab.click("[data-axis=time]");
	    await settle(tab);
	    assert.ok(difference(before, await pixels(tab, ".stage .plot")) > 0.02);
	    assert.equal(await tab.evaluate(() => weir.axis.kind), "time");
	    await tab.mouse.move(...await spot(tab, 0.5, 0.97));
	    await settle(tab);
	    assert.match(await text(tab, ".found .headline"), /30\.0 MiB/);
    });

/* ---- Unusual snapshots ---- */

shown("names that are HTML are text", "hostile", async (tab) => {
	const count = () => tab.evaluate(() => [window.broken ?? null,
		document.querySelectorAll("img, iframe, h1, [onload], [onerror]")
		.length, document.querySelectorAll("script").length]);
	for (const key of ["1", "2", "3", "4", "5"]) {
		await press(tab, key);
		await tab.mouse.move(...(key === "5" ? [500, 700] :
			await spot(tab, 0.4, 0.8)));
		await settle(tab);
	}
	await lookFor(tab, "</script>");
	assert.match(await text(tab, ".hits"), /allocations/);
	await tab.click("header button[aria-label=Help]");
	/* There is one heading. The data's element is gone, and the page's script is
	 * there. */
	assert.deepEqual(await count(), [null, 1, 1]);
	assert.match(await tab.locator(".legend").innerText(),
	    /<\/script><script>window\.b|<img src=x onerror/);
	assert.equal(await text(tab, "header .title"),
	    "</title><script>window.broken=1</script>");
	const unseen = /[\u0000-\u0008\u001b\u202e]/;
	assert.doesNotMatch(await tab.evaluate(() => document.body.innerText),
	    unseen);
}, { flags: ["--title=</title><script>window.broken=1</script>"] });

shown("a state without a history is shown", "state", async (tab) => {
	assert.match(await text(tab, ".story"), /has no history/);
	await showView(tab, "map");
	assert.ok(colours(await pixels(tab, ".stage .plot")) > 8);
	assert.ok(await tab.locator("[data-axis=time]").isDisabled());
});

shown("keys that come before a picture is drawn do no harm", "training",
    async (tab) => {
	    for (const view of ["2", "3", "4", "5", "1"])
		    for (const key of ["0", "ArrowUp", "ArrowDown", "PageDown",
			"Escape"]) {
			    await tab.keyboard.press(view);
			    await tab.keyboard.press(key);
		    }
	    await settle(tab);
    });

shown("an empty snapshot says that it is empty", "empty", async (tab) => {
	assert.match(await text(tab, ".story"), /no allocation/);
	for (const key of ["1", "2", "3", "4", "5", "p", "+", "n", "Enter"])
		await press(tab, key);
});

shown("the first device that has something is shown, others can be", "devices",
    async (tab) => {
	    const select = tab.locator("select[aria-label=Device]");
	    assert.equal(await select.inputValue(), "1");
	    assert.notEqual(await text(tab, ".tile strong"), "0 B");
	    await select.selectOption("0");
	    await settle(tab);
	    assert.equal(await text(tab, ".tile strong"), "0 B");
    });

shown("page-locked memory can be looked at as a device can", "pinned",
    async (tab) => {
	    const select = tab.locator("select[aria-label=Device]");
	    assert.equal(await select.inputValue(), "0");
	    assert.deepEqual(await select.locator("option").allInnerTexts(),
		["device 0", "pinned memory of device 0"]);
	    await select.selectOption("1");
	    await settle(tab);
	    assert.equal(await text(tab, ".tile strong"), "20.0 MiB");
	    await showView(tab, "map");
	    assert.ok(colours(await pixels(tab, ".stage")) > 2);
    });

for (const events of [0, 1, 2, 57, 400])
	shown(`${events} events that fit nothing do no harm`, "wild",
	    async (tab) => {
		    for (const key of ["1", "2", "3", "4", "5"]) {
			    await press(tab, key);
			    await tab.mouse.move(...(key === "5" ? [500, 700] :
				await spot(tab, 0.3, 0.7)));
			    await press(tab, "+", "ArrowRight", "]", "Enter", "ArrowUp",
			        "p", "0");
		    }
		    await tab.evaluate(() => weir.setAxis(weir.times.useful ?
			"time" : "event"));
		    for (const mode of ["stream", "size", "age", "site"])
			    await tab.evaluate((m) => {
				    weir.colour = m;
				    weir.recolour();
			    }, mode);
		    await press(tab, "2", "+", "1", "-", "3");
		    assert.doesNotMatch(await text(tab, "body"),
		        /NaN|undefined|Infinity|\[object/);
	    }, { events });

/* ---- Size ---- */

for (const [width, height] of [[1920, 1080], [1600, 1000], [1280, 720],
	[900, 700], [600, 900], [390, 844], [360, 740]])
	shown(`it fits ${width} by ${height}`, "training", async (tab) => {
		await tab.setViewportSize({ width, height });
		await settle(tab);
		await settle(tab);
		const over = await tab.evaluate(() =>
			document.documentElement.scrollWidth - innerWidth);
		assert.ok(over <= 0, `${over} pixels too wide`);
		for (const selector of [".timeline canvas", ".minimap canvas",
			".stage .plot canvas"]) {
			const box = await tab.locator(selector).first().boundingBox();
			assert.ok(box.width > 0.85 * Math.min(width, 300) &&
			    box.x + box.width <= width, selector);
		}
		const stage = await tab.locator(".stage .plot").boundingBox();
		assert.ok(stage.height >= 150, `${stage.height}`);
		assert.ok(colours(await pixels(tab, ".stage .plot")) > 12);
		/* Each picture is drawn and keeps its size when it is drawn again. */
		for (const id of ["map", "streams", "flame"]) {
			await showView(tab, id);
			await settle(tab);
			const { height: first } =
			    await tab.locator(".stage .plot").boundingBox();
			await settle(tab);
			const { height: next } =
			    await tab.locator(".stage .plot").boundingBox();
			assert.equal(next, first, id);
			const seen = colours(await pixels(tab, ".stage .plot"));
			assert.ok(seen > 8, `${id}: ${seen}`);
		}
	});

/* ---- A million events ---- */

/* A function that gives the milliseconds that the page's thread has worked
 * since, without the time of other programs. */
async function clock(tab) {
	const devtools = await tab.context().newCDPSession(tab);
	await devtools.send("Performance.enable");
	return async () => {
		const { metrics } = await devtools.send("Performance.getMetrics");
		return 1000 * metrics.find((m) => m.name === "ThreadTime").value;
	};
}

shown("a million events stay fluid", "million", async (tab, [answer]) => {
	assert.equal(answer.events, 1000000);
	assert.equal(await tab.evaluate(() => weir.model.active.max), answer.peak);
	const spent = await clock(tab);
	const times = {};
	for (const [key, id] of [["1", "memory"], ["2", "map"], ["3", "streams"],
		["4", "flame"], ["5", "events"]]) {
		await press(tab, key, "0");
		const drawn = [];
		for (let i = 0; i < 12; i++) {
			const before = await spent();
			await tab.evaluate((by) => weir.zoom(by, 400000 + 1000),
			    i < 8 ? 0.5 : 2);
			await settle(tab);
			drawn.push(await spent() - before);
		}
		drawn.sort((a, b) => a - b);
		times[id] = drawn[6];
		/* Some 10 to 60 ms without a GPU, of which more where processors
		 * share a core. */
		assert.ok(drawn[6] < 250, `${id}: ${drawn.map(Math.round)} ms`);
	}
	const elements = await tab.evaluate(() =>
		document.querySelectorAll("*").length);
	assert.ok(elements < 1500, `${elements} elements`);
	const loaded = await tab.evaluate(() => weir.loaded);
	assert.ok(loaded < 60000, `${loaded} ms`);
	console.log(`# loaded in ${Math.round(loaded)} ms; drawn in ` +
	    Object.entries(times).map(([id, ms]) =>
		`${id} ${ms.toFixed(0)}`).join(", ") + " ms");
}, { events: 1000000 });

/* ---- Two snapshots ---- */

shown("two snapshots are compared by call site", "training",
    async (tab) => {
	    const ends = (events) => JSON.parse(execFileSync(
	        process.env.WEIR_BIN, ["top", "--json", "-n", "100", "--frames",
		    "1", snapshot("training", events).path], { encoding: "utf8" }));
	    const now = ends(3000), before = ends(1700);
	    assert.match(await text(tab, ".story"),
	        /^Since training-1700\.pickle: .* in use at the end, /m);
	    await press(tab, "6");
	    assert.equal(await tab.evaluate(() => weir.view.id), "compare");
	    const found = await tab.evaluate(() => {
		    const { before: b, after: a, rows } = weir.view.found();
		    return { before: b.use, after: a.use, rows: rows.map((r) =>
			[r.change, r.before.bytes, r.after.bytes]) };
	    });
	    const sum = (list, i) => list.reduce((s, r) => s + r[i], 0);
	    assert.equal(sum(found.rows, 1), found.before);
	    assert.equal(sum(found.rows, 2), found.after);
	    assert.equal(sum(found.rows, 0), found.after - found.before);
	    const blocks = (top) => top.rows.reduce((s, r) => s + r.blocks, 0);
	    assert.match(await text(tab, ".compare .sums"), new RegExp(
	        `Blocks: ${blocks(before)} → ${blocks(now)}`));
	    for (let i = 1; i < found.rows.length; i++)
		    assert.ok(Math.abs(found.rows[i][0]) <=
			Math.abs(found.rows[i - 1][0]));
	    await tab.locator(".compare .body .row").first().click();
	    await settle(tab);
	    assert.match(await text(tab, ".found .headline"), /^[+−]/);
	    assert.match(await text(tab, ".found"), /Before/);
	    /* A search hides all that it does not find. */
	    await lookFor(tab, "cache.fill");
	    assert.equal(await tab.locator(".compare .body .row").count(), 1);
    }, { flags: ["--compare", snapshot("training", 1700).path] });

shown("a page of one snapshot has no comparison", "training", async (tab) => {
	assert.equal(await tab.locator("#tab-compare").count(), 0);
	await press(tab, "6");
	assert.equal(await tab.evaluate(() => weir.view.id), "memory");
});

/* ---- Kept blocks ---- */

/* By the events alone: allocated in [p0, p1) and not freed before p1. */
const keptBetween = (tab, p0, p1) => tab.evaluate(([from, to]) => {
	const { model } = weir, c = model.columns, live = new Map();
	for (let i = from; i < to; i++) {
		const e = model.first + i, action = model.actionName(i);
		if (action === "alloc")
			live.set(c.event_addr[e], c.event_size[e]);
		if (action === "free_completed")
			live.delete(c.event_addr[e]);
	}
	return { n: live.size, sum: [...live.values()].reduce((a, b) =>
		a + b, 0) };
}, [p0, p1]);

shown("what was allocated in view and is in use at its end is found",
    "training", async (tab) => {
	    await tab.evaluate(() => weir.setWindow(300, 1200));
	    await press(tab, "k");
	    const wanted = await keptBetween(tab, 300, 1200);
	    assert.ok(wanted.n > 5);
	    const marked = await tab.evaluate(() => {
		    const el = weir.model.elements;
		    let n = 0, sum = 0;
		    for (let k = 0; k < el.n; k++)
			    if (weir.found[k]) {
				    n++;
				    sum += el.size[k];
			    }
		    return { n, sum };
	    });
	    assert.deepEqual(marked, wanted);
	    assert.match(await text(tab, ".hits"),
	        new RegExp(`^${wanted.n} allocations, .* kept from event 300 to 1,200`));
	    await tab.waitForFunction(() => location.hash.includes("kept=300-1200"));
	    await showView(tab, "flame");
	    await tab.selectOption("select[aria-label='What width means']", "kept");
	    await settle(tab);
	    assert.equal(await tab.evaluate(() => weir.views.flame.tree.value),
	        wanted.sum);
	    await press(tab, "k");
	    assert.equal(await tab.evaluate(() => weir.found), null);
	    assert.equal(await text(tab, ".hits"), "");
    });

test("kept blocks are in the address of the page", async () => {
	const { path } = page("training");
	const { tab } = await open(path);
	const reopened = async (hash) => {
		await reopen(tab, path, hash);
		return tab.evaluate(() => weir.kept);
	};
	assert.deepEqual(await reopened("#kept=300-1200"), { p0: 300, p1: 1200 });
	assert.equal(await reopened("#kept=1200-300"), null);
	assert.equal(await reopened("#kept=x-y"), null);
	await tab.close();
});

/* ---- Copies and pictures ---- */

shown("a stack is copied as text", "training", async (tab) => {
	await tab.evaluate(() => Object.defineProperty(navigator, "clipboard", {
		value: { writeText: async (t) => {
			window.copied = t;
		} } }));
	await press(tab, "p", "Enter");
	await tab.locator(".found .copy").first().click();
	await settle(tab);
	const names = await tab.locator(".found .frames").first()
	    .locator(".name").allInnerTexts();
	const copied = await tab.evaluate(() => window.copied);
	assert.ok(names.length > 1);
	assert.deepEqual(copied.trim().split("\n").map((l) =>
		/^(.*) \(.+:\d+\)$/.exec(l)[1]), names);
	assert.equal(await text(tab, ".found .copy"), "copied");
});

shown("a picture is saved as a file", "training", async (tab) => {
	const [download] = await Promise.all([tab.waitForEvent("download"),
		tab.click("text=Save picture")]);
	assert.equal(download.suggestedFilename(),
	    "training-3000.pickle-memory.png");
	const png = readFileSync(await download.path());
	assert.equal(png.subarray(1, 4).toString(), "PNG");
	const size = await tab.evaluate(() => [weir.view.plot.base.width,
		weir.view.plot.base.height]);
	assert.deepEqual([png.readUInt32BE(16), png.readUInt32BE(20)], size);
	await showView(tab, "events");
	assert.equal(await tab.locator("text=Save picture").isVisible(), false);
}, { refused: /request of blob:/ });

/* ---- The neutral colour ---- */

test("a trace in CSV is shown, by its streams", async () => {
	const rows = ["action,addr,size,stream,time_us"];
	for (let i = 0; i < 40; i++)
		rows.push(`a,${(4096 * (i + 1)).toString(16)},1024,${i % 3},${i}`);
	for (let i = 0; i < 30; i++)
		rows.push(`f,${(4096 * (i + 1)).toString(16)},1024,${i % 3},` +
			`${50 + i}`);
	const csv = join(work, "rows.csv"), out = `${csv}.html`;
	writeFileSync(csv, `${rows.join("\n")}\n`);
	execFileSync(process.env.WEIR_BIN, ["view", csv, "-o", out]);
	const { tab, complaints } = await open(out);
	assert.equal(await tab.evaluate(() => weir.model.active.max), 40 * 1024);
	assert.equal(await tab.evaluate(() => weir.model.active.at(
	    weir.model.length - 1)), 10 * 1024);
	assert.equal(await tab.evaluate(() => weir.model.reserved.max), 40 * 1024);
	assert.equal(await tab.inputValue("select[aria-label='Colour by']"),
	    "stream");
	assert.equal(await tab.locator(".legend li").count(), 3);
	assert.deepEqual(complaints, []);
	await tab.close();
});

shown("each caller of a shared function has its colour", "wrapped",
    async (tab) => {
	    const legend = () => tab.locator(".legend li").allInnerTexts();
	    const first = (await legend()).map((t) => t.split(" ")[0]);
	    assert.deepEqual(first.sort(), ["load", "run", "save"]);
	    await tab.selectOption("select[aria-label='Colour by']", "callers");
	    await settle(tab);
	    assert.equal((await legend()).length, 4);
	    await tab.selectOption("select[aria-label='Colour by']", "function");
	    await settle(tab);
	    assert.equal((await legend()).length, 1);
    });

shown("others are listed, and apart from what has no stack", "sites",
    async (tab) => {
	    const legend = await tab.locator(".legend li").allInnerTexts();
	    assert.equal(legend.length, 11);
	    assert.match(legend[9], /^31 others/);
	    assert.match(legend[10], /^no stack recorded/);
	    const colours = await tab.locator(".legend .swatch").evaluateAll(
	        (all) => all.map((s) => s.style.background));
	    assert.equal(new Set(colours).size, 11);
	    await tab.click(".legend li:has-text('31 others') button");
	    await settle(tab);
	    assert.match(await text(tab, ".found .headline"),
	        /^31 others/);
	    assert.equal(await tab.locator(".found dt").count(), 31);
    });
