/*
 * Tests what the page says of other settings: the figures of `weir replay`, and
 * curves that reach them.
 */
import { after } from "node:test";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { axe, close, press, settle, shown, snapshot, text } from "./support.mjs";

after(close);

const replay = (...flags) => JSON.parse(execFileSync(process.env.WEIR_BIN,
    ["replay", "--json", ...flags, snapshot("training").path],
    { encoding: "utf8" }));

shown("other settings are drawn beside what was recorded", "training",
    async (tab) => {
	    await press(tab, "6");
	    assert.equal(await tab.evaluate(() => weir.view.id), "whatif");
	    const curves = await tab.evaluate(() => weir.view.curves);
	    assert.deepEqual(curves.map((c) => c.setting),
	        ["prefer:memory", "torch,expandable_segments:True"]);
	    const memory = replay("--sim", "--conf", "prefer:memory");
	    const torch = replay("--as", "torch,expandable_segments:True");
	    assert.equal(curves[0].peak_held_bytes, memory.peak_held_bytes);
	    assert.equal(curves[1].peak_held_bytes, torch.peak_reserved_bytes);
	    assert.equal(curves[0].gpu_waits, memory.gpu_waits);
	    for (const curve of curves) {
		    assert.equal(Math.max(...curve.held), curve.peak_held_bytes);
		    assert.ok(new Set(curve.held).size > 2, curve.setting);
	    }
	    const rows = await tab.locator(".what-row").allInnerTexts();
	    assert.equal(rows.length, 3);
	    assert.match(rows[0], /as recorded/);
	    assert.match(rows[1], /weir, prefer:memory[^]*driver calls/);
	    assert.match(rows[2], /PyTorch, expandable_segments:True/);
	    assert.match(await text(tab, ".story"),
	        /(Of|None of) 2 settings that were tried/);
	    assert.deepEqual(await axe(tab), []);
    }, { flags: ["--what-if=prefer:memory",
	    "--what-if=torch,expandable_segments:True"],
    options: { bypassCSP: true } });

shown("a setting's curve has its colour, and can be hidden", "training",
    async (tab) => {
	    await press(tab, "6");
	    const drawn = () => tab.evaluate(() => {
		    const { base } = weir.view.plot, [one] = weir.view.curves;
		    const wanted = /rgb\((\d+) (\d+) (\d+)\)/.exec(one.colour)
			.slice(1).map(Number);
		    const { data } = base.getContext("2d").getImageData(0, 0,
		        base.width, base.height);
		    let n = 0;
		    for (let i = 0; i < data.length; i += 4)
			    n += data[i + 3] === 255 && wanted.every((v, c) =>
				data[i + c] === v);
		    return n;
	    });
	    assert.ok(await drawn() > 100, `${await drawn()}`);
	    await tab.uncheck(".what-row input >> nth=0");
	    await settle(tab);
	    assert.ok(await drawn() < 20, `${await drawn()}`);
	    await tab.waitForFunction(() => /whatif\.without=0/.test(
		location.hash));
    }, { flags: ["--what-if=weir"], refused: /willReadFrequently/ });

shown("a limit that is too small fails requests, and the page says so",
    "training", async (tab) => {
	    await press(tab, "6");
	    assert.match(await tab.locator(".what-row").nth(1).innerText(),
	        /requests failed/);
	    assert.ok(await tab.evaluate(() =>
		weir.view.curves[0].peak_held_bytes) <= 64 * 2 ** 20);
    }, { flags: ["--what-if=weir,limit:64M"] });
