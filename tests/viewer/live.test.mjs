/*
 * Tests the page of a running program: only who knows its address gets it, it
 * follows the program, and it can set values.
 */
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { mkdtempSync } from "node:fs";
import { axe, close, open, text } from "./support.mjs";

const weir = process.env.WEIR_BIN;
const build = join(dirname(weir), "..");
const steps = join(build, "tests/programs/driver_steps");

after(close);

/* A line that a program prints. */
function line(stream) {
	return new Promise((done, failed) => {
		let all = "";
		const more = (part) => {
			all += part;
			const end = all.indexOf("\n");
			if (end >= 0) {
				stream.off("data", more);
				done(all.slice(0, end));
			}
		};
		stream.on("data", more);
		stream.on("end", () => failed(new Error(`it ended: ${all}`)));
	});
}

/* Run `f` on the live page of a program that makes steps, and is stopped for a
 * while when the server begins. */
function served(name, f, { refused, options, conf, stopMs } = {}) {
	test(name, async () => {
		const env = { ...process.env, XDG_RUNTIME_DIR: mkdtempSync(
		    join(process.env.VIEWER_WORK, "run-")),
		WEIR_CONF: conf ?? "",
		WEIR_LIBCUDA: join(build, "lib/sim/libcuda.so.1"),
		LD_LIBRARY_PATH: join(build, "lib/sim") };
		const program = spawn(weir, ["run", "-q", "--sim", "--watch",
			"--history", "--", steps], { env });
		const step = async (letter) => {
			program.stdin.write(`${letter}\n`);
			await new Promise((done) =>
				program.stdout.once("data", done));
		};
		await step("a");
		if (stopMs)
			program.kill("SIGSTOP");
		const server = spawn(weir, ["view", "--live", String(program.pid)],
		    { env });
		if (stopMs)
			setTimeout(() => program.kill("SIGCONT"), stopMs);
		const ended = new Promise((done) => server.on("exit", done));
		try {
			const address = await line(server.stdout);
			const { tab, complaints } = await open(null, options,
			    address);
			await f(tab, { address, step, program, ended, env });
			assert.deepEqual(complaints.filter((c) =>
				!refused?.test(c)), []);
			await tab.close();
		} finally {
			program.kill();
			server.kill();
		}
	});
}

served("a page follows the program and takes new snapshots",
    async (tab, { step, program, ended }) => {
	    await tab.waitForFunction(() => weir.liveView.samples.length > 1);
	    assert.match(await text(tab, ".live p"),
	        /device 0: 1\.00 MiB in use, .* held of/);
	    const before = await tab.evaluate(() => weir.model.active.max);
	    assert.equal(before, 2 ** 20);
	    assert.match(await text(tab, ".story"),
	        new RegExp(`the program is running; .weir advise ${program.pid}`));
	    await step("a");
	    await tab.waitForFunction(() =>
		/device 0: 2\.00 MiB in use/.test(document.querySelector(
		    ".live p").innerText));
	    await Promise.all([tab.waitForNavigation(),
		tab.click("#renew")]);
	    await tab.waitForSelector("html[data-ready]");
	    assert.equal(await tab.evaluate(() => weir.model.active.max),
	        2 * 2 ** 20);
	    program.stdin.end();
	    await tab.waitForFunction(() => weir.liveView.ended);
	    assert.match(await text(tab, ".live p"), /has ended/);
	    await ended;
    }, { refused: /Failed to load|ERR_CONNECTION/ });

/* Colours of the group's picture, at the last sample with one process and at
 * the last one, at parts of its height from the bottom. */
function groupColours(tab, heights) {
	return tab.evaluate((heights) => {
		const canvas = document.querySelector(".group canvas");
		const { width, height } = canvas;
		const { data } = canvas.getContext("2d")
		    .getImageData(0, 0, width, height);
		const [device] = weir.liveView.group.devices.values();
		const { samples } = device, last = samples.length - 1;
		const alone = samples.findLastIndex((s) => s.held.size === 1);
		const left = 70 * width / canvas.clientWidth;
		return [alone, last].map((i) => heights.map((part) => {
			const time = (samples[i].t - samples[0].t) /
			    (samples[last].t - samples[0].t);
			const x = Math.floor(left + time * (width - left - 2));
			const y = Math.floor(height * (1 - part));
			return [...data.slice(4 * (y * width + x))
			    .slice(0, 4)].join();
		}));
	}, heights);
}

served("the processes of a group are shown over time, until they end",
    async (tab, { step, program, env }) => {
	    const own = `${program.pid} driver_steps (this program): `;
	    const legend = (words) => tab.waitForFunction((words) =>
		words.every((w) => document.querySelector(".group")
		    .innerText.includes(w)), words);
	    for (let i = 1; i < 6; i++)
		    await step("a");
	    await legend(["group g: 1 process, 6.00 MiB held of 16.0 MiB",
		    `${own}6.00 MiB held`]);
	    const other = spawn(weir, ["run", "-q", "--sim", "--may-sleep",
	        "--", steps], { env });
	    for (let i = 0; i < 6; i++) {
		    other.stdin.write("a\n");
		    await new Promise((done) => other.stdout.once("data", done));
	    }
	    await legend(["group g: 2 processes, 12.0 MiB held of 16.0 MiB",
		    `${own}6.00 MiB held`,
		    `${other.pid} driver_steps: 6.00 MiB held, ` +
			"1.00 MiB guaranteed"]);
	    await tab.waitForFunction(() => [...weir.liveView.group.devices
	        .values()][0].samples.at(-1).held.size === 2);
	    const [alone, both] = await groupColours(tab, [0.2, 0.6, 0.9]);
	    const nothing = "0,0,0,0";
	    assert.deepEqual(alone.slice(1), [nothing, nothing]);
	    assert.notEqual(alone[0], nothing);
	    assert.equal(both[0], alone[0]);
	    assert.notEqual(both[1], both[0]);
	    assert.notEqual(both[1], nothing);
	    assert.equal(both[2], nothing);
	    assert.deepEqual(await axe(tab), []);
	    execFileSync(weir, ["sleep", String(other.pid)], { env });
	    await legend([`${other.pid} driver_steps: 0 B held, ` +
	        "1.00 MiB guaranteed, asleep"]);
	    other.kill("SIGKILL");
	    await legend(["group g: 1 process, 6.00 MiB held"]);
    }, { conf: "group:g,group_limit_mb:16,group_guarantee_mb:1",
	    refused: /404 \(Not Found\)|Failed to load|ERR_/,
	    options: { bypassCSP: true } });

served("the group of a program that answers late is shown", async (tab) => {
	await tab.waitForFunction(() => document.querySelector(".group")
	    .innerText.includes("group g: 1 process"));
}, { conf: "group:g", stopMs: 2500 });

served("a page stays when an answer is lost, and ends when all are",
    async (tab) => {
	    await tab.waitForFunction(() => weir.liveView.samples.length > 1);
	    await tab.evaluate(() => {
		    const view = weir.liveView, ask = view.ask;
		    view.lose = 2;
		    view.ask = (...a) => view.lose-- > 0 ?
			Promise.reject(new Error("lost")) : ask.apply(view, a);
	    });
	    await tab.waitForFunction(() => weir.liveView.lose < -3);
	    assert.ok(!await tab.evaluate(() => weir.liveView.ended));
	    await tab.evaluate(() => { weir.liveView.lose = 9; });
	    await tab.waitForFunction(() => weir.liveView.ended);
	    assert.equal(await text(tab, ".live p"), "The server has ended");
    });

served("a program without a group has no such picture", async (tab) => {
	await tab.waitForFunction(() => weir.liveView.alone);
	assert.equal(await text(tab, ".group"), "");
});

served("values can be set, and a refusal is said", async (tab) => {
	await tab.waitForSelector(".live option[value='limit.0']",
	    { state: "attached" });
	const set = async (path, value) => {
		await tab.selectOption(".live select", path);
		await tab.fill(".live input", value);
		await tab.click(".live form button");
		await tab.waitForFunction(() => document.querySelector(
		    ".live form [role=status]").innerText !== "");
		return text(tab, ".live form [role=status]");
	};
	assert.equal(await set("limit.0", "8G"), "set");
	await tab.waitForFunction(() => weir.liveView.values.find((v) =>
		v.path === "limit.0").value === 8 * 2 ** 30);
	await tab.evaluate(() => document.querySelector(
	    ".live form [role=status]").textContent = "");
	assert.match(await set("limit.0", "many"), /many/);
	assert.deepEqual(await axe(tab), []);
/* Without the policy the browser looks for an icon, too. */
}, { refused: /400 \(Bad Request\)|404 \(Not Found\)/,
	options: { bypassCSP: true } });

served("only who knows the address gets anything", async (tab, { address }) => {
	const at = new URL(address);
	const status = async (path, options) => (await fetch(
	    new URL(path, at), options)).status;
	assert.equal(at.hostname, "127.0.0.1");
	assert.match(at.pathname, /^\/[0-9a-f]{32}\/$/);
	assert.equal(await status("/"), 404);
	const page = await (await fetch(at)).text();
	assert.match(page, /Content-Security-Policy" content="default-src 'none'; connect-src 'self'; script-src 'sha256-/);
	assert.equal(await status("/metrics"), 404);
	assert.equal(await status(`/${"0".repeat(32)}/sample`), 404);
	assert.equal(await status(`/${"0".repeat(32)}/group`), 404);
	assert.equal(await status(`${at.pathname}group`,
	    { method: "POST" }), 405);
	assert.equal(await status(`${at.pathname}group`), 200);
	assert.equal(await status(`${at.pathname}sample`), 200);
	assert.equal(await status(`${at.pathname}sample/x`), 404);
	assert.equal(await status(`${at.pathname}set?limit.0=8G`), 405);
	assert.equal(await status(`${at.pathname}`, { method: "POST" }), 405);
	for (const query of ["", "?", "?nothing", "?%zz=1", "?%", "?a%00=1",
		`?${"x".repeat(7000)}=1`])
		assert.equal(await status(`${at.pathname}set${query}`,
		    { method: "POST" }), 400, query.slice(0, 20));
	assert.equal(await status(`${at.pathname}set?limit.0=7G`,
	    { method: "POST" }), 200);
});
