/*
 * Support for the tests: snapshots, pages made of them by the weir command, and
 * a browser. scripts/test-viewer sets their places.
 */
import { test } from "node:test";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync,
	readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
/* Files of tests may run at the same time, so each makes its own snapshots. */
export const work = mkdtempSync(join(process.env.VIEWER_WORK, "files-"));
export const source = join(here, "../../tools/viewer/src");
const weir = process.env.WEIR_BIN;

/* Make a snapshot of a kind. Returns also what a reader must find in it. */
export function snapshot(kind, events = 3000) {
	const path = join(work, `${kind}-${events}.pickle`);
	if (!existsSync(`${path}.json`))
		execFileSync("python3", [join(here, "make_snapshot.py"), kind, path,
			String(events)]);
	return { path, answers: JSON.parse(readFileSync(`${path}.json`, "utf8")) };
}

/* The page of a snapshot, made by `weir view`. */
export function page(kind, events = 3000, ...flags) {
	const { path, answers } = snapshot(kind, events);
	const out = `${path}${flags.join("").replace(/\W/g, "")}.html`;
	execFileSync(weir, ["view", path, "-o", out, ...flags]);
	return { path: out, answers };
}

/* The page of several snapshots that `weir merge` put together. */
export function mergedPage(kinds) {
	const out = join(work, `${kinds.join("-")}.json`);
	/* Each rank has a file of its own. */
	const paths = kinds.map((kind, i) => {
		const path = join(work, `rank${i}.pickle`);
		copyFileSync(snapshot(kind).path, path);
		return path;
	});
	execFileSync(weir, ["merge", "-o", out, ...paths]);
	execFileSync(weir, ["view", out, "-o", `${out}.html`]);
	return `${out}.html`;
}

/* The data of a page, as its script gets them. */
export async function data(kind, events) {
	const { unpack, Snapshot } = await import(join(source, "data.js"));
	const { path, answers } = page(kind, events);
	const text = /id="weir-data">([^<]*)</.exec(readFileSync(path, "utf8"))[1];
	return { snap: new Snapshot(await unpack(text)), answers };
}

/* A browser may be slow on a busy machine. Something that never happens still
 * fails. */
const patience = 180000;

let browser = null;

export async function browse() {
	if (!browser) {
		const require = createRequire(join(process.env.VIEWER_MODULES, "x.js"));
		const { chromium } = require("playwright-core");
		browser = await chromium.launch({
			executablePath: process.env.CHROMIUM,
			/* Its sandbox needs rights that root lacks in a container. */
			args: ["--no-sandbox", "--force-color-profile=srgb"],
			timeout: patience,
		});
	}
	return browser;
}

export async function close() {
	await browser?.close();
}

/* Open a page and wait until it is drawn; `complaints` collects errors, refused
 * content and requests, none of which may happen. A page of a server may ask
 * that server. */
export async function open(path, options = {},
	address = `file://${path}`) {
	const tab = await (await browse()).newPage({
		viewport: { width: 1280, height: 860 }, ...options,
	});
	tab.setDefaultTimeout(patience);
	const complaints = [];
	tab.on("console", (m) => {
		if (m.type() === "error" || m.type() === "warning")
			complaints.push(m.text());
	});
	tab.on("pageerror", (e) => complaints.push(e.stack));
	tab.on("request", (r) => {
		if (r.url() !== address && (path !== null ||
		    !r.url().startsWith(address)))
			complaints.push(`request of ${r.url()}`);
	});
	await tab.goto(address);
	await tab.waitForSelector("html[data-ready]");
	await settle(tab);
	return { tab, complaints };
}

/* Wait for two frames, after which all is drawn. */
export async function settle(tab) {
	await tab.evaluate(() => new Promise((done) =>
		requestAnimationFrame(() => requestAnimationFrame(() =>
			setTimeout(done)))));
}

/* What axe finds wrong with an open page: "rule: elements", one a line. The
 * page was opened with bypassCSP, because axe is a script of the test. */
export async function axe(tab) {
	const file = join(process.env.VIEWER_MODULES,
	    "node_modules/axe-core/axe.min.js");
	await tab.evaluate(readFileSync(file, "utf8"));
	return tab.evaluate(async () => {
		const { violations, passes } = await window.axe.run();
		if (passes.length < 10)
			throw new Error(`axe checked ${passes.length} rules only`);
		return violations.map((v) => `${v.id}: ${v.nodes.map((n) =>
			n.target.join(" ")).slice(0, 4).join("; ")}`);
	});
}

/* Pixels of a screenshot of one element: {width, height, rgba}. */
export async function pixels(tab, selector) {
	const png = await tab.locator(selector).first().screenshot();
	const helper = await (await browse()).newPage();
	const out = await helper.evaluate(async (base64) => {
		const image = new Image();
		image.src = `data:image/png;base64,${base64}`;
		await image.decode();
		const canvas = new OffscreenCanvas(image.width, image.height);
		const ctx = canvas.getContext("2d");
		ctx.drawImage(image, 0, 0);
		const { data } = ctx.getImageData(0, 0, image.width, image.height);
		let text = "";
		for (let i = 0; i < data.length; i += 8192)
			text += String.fromCharCode(...data.subarray(i, i + 8192));
		return { width: image.width, height: image.height,
			rgba: btoa(text) };
	}, png.toString("base64"));
	await helper.close();
	return { ...out, rgba: Buffer.from(out.rgba, "base64") };
}

/* The number of colours of a picture; 1: it is blank. */
export function colours({ rgba }) {
	const seen = new Set();
	for (let i = 0; i < rgba.length; i += 4)
		seen.add(rgba[i] << 16 | rgba[i + 1] << 8 | rgba[i + 2]);
	return seen.size;
}

/* The share of pixels that differ. */
export function difference(a, b) {
	if (a.width !== b.width || a.height !== b.height)
		return 1;
	let n = 0;
	for (let i = 0; i < a.rgba.length; i += 4)
		n += a.rgba[i] !== b.rgba[i] || a.rgba[i + 1] !== b.rgba[i + 1] ||
			a.rgba[i + 2] !== b.rgba[i + 2];
	return 4 * n / a.rgba.length;
}

/* ---- Tests of a page ---- */

/* Run `f` on an open page, and check that there were no complaints. */
export function shown(name, kind, f, { events, flags = [], options, refused } = {}) {
	test(name, async () => {
		const { path, answers } = page(kind, events, ...flags);
		const { tab, complaints } = await open(path, options);
		try {
			await f(tab, answers, path);
			assert.deepEqual(complaints.filter((c) => !refused?.test(c)), []);
		} finally {
			await tab.close();
		}
	});
}

export const text = (tab, selector) => tab.locator(selector).first().innerText();
export const view = (tab) => tab.evaluate(() => [weir.x0, weir.x1]);
export async function press(tab, ...keys) {
	for (const key of keys)
		await tab.keyboard.press(key);
	await settle(tab);
}
/* The place of a fraction of the shown picture, in pixels of the page. */
export async function spot(tab, fx, fy) {
	const box = await tab.locator(".stage .plot").boundingBox();
	const inner = await tab.evaluate(() => weir.view.plot.inner);
	const left = await tab.evaluate(() => weir.view.plot.px(weir.x0));
	return [box.x + left + fx * inner, box.y + fy * box.height];
}
/* Search for a text. It is entered at once, as if pasted, because the page
 * searches when nothing was typed for a moment. */
export async function lookFor(tab, wanted) {
	await press(tab, "/");
	await tab.keyboard.insertText(wanted);
	await tab.waitForFunction(() => weir.found !== null);
	await settle(tab);
}
export async function showView(tab, id) {
	await tab.click(`#tab-${id}`);
	await settle(tab);
}
/* Load the page anew with another state in its address. An empty page comes
 * first, because an open one writes its own state there soon after it is drawn. */
export async function reopen(tab, path, hash) {
	await tab.goto("about:blank");
	await tab.goto(`file://${path}${hash}`);
	await tab.waitForSelector("html[data-ready]");
}
