/*
 * Tests what the page says of settings that help: the answer of `weir advise`,
 * with the lines to copy.
 */
import { after } from "node:test";
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { axe, close, shown, snapshot, text } from "./support.mjs";

after(close);

/* What `weir advise` says of device 0. Its status is 1 if there is advice. */
function advised(kind) {
	const { stdout } = spawnSync(process.env.WEIR_BIN,
	    ["advise", "--json", snapshot(kind).path], { encoding: "utf8" });
	return JSON.parse(stdout).devices[0].advice;
}

shown("the page has the sentences of weir advise, and lines to copy",
    "training", async (tab) => {
	    const wanted = advised("training");
	    assert.ok(wanted.length > 0);
	    const story = await tab.locator(".story .advice").allInnerTexts();
	    assert.equal(story.length, wanted.length);
	    for (const [i, { text: sentence, setting }] of wanted.entries())
		    assert.equal(story[i].replace(/\s+/g, " "),
			`${sentence} ${setting} copy`);
	    await tab.evaluate(() => Object.defineProperty(navigator,
		"clipboard", { value: { writeText: async (written) => {
			window.written = written;
		} } }));
	    await tab.click(".story .advice .copy >> nth=0");
	    await tab.waitForFunction(() => window.written);
	    assert.equal(await tab.evaluate(() => window.written),
		wanted[0].setting);
	    await tab.click("#why");
	    const why = await text(tab, ".verdict");
	    for (const { text: sentence, setting } of wanted)
		    assert.ok(why.includes(sentence) && why.includes(setting),
			sentence);
	    assert.match(why, /in a replay the request still fails|a replay shows/);
	    assert.deepEqual(await axe(tab), []);
    }, { options: { bypassCSP: true } });
