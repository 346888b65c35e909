/*
 * Support for the tests: snapshots, pages made of them by the weir command, and
 * a browser. scripts/test-viewer sets their places.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
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
 * content and requests, none of which may happen. */
export async function open(path, options = {}) {
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
		if (r.url() !== `file://${path}`)
			complaints.push(`request of ${r.url()}`);
	});
	await tab.goto(`file://${path}`);
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
