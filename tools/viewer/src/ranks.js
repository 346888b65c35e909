/*
 * The ranks of a job, or the devices of one process: the peak of each, those
 * that stand out, and the difference in a sentence.
 */
import { h, fill } from "./dom.js";
import { bytes, percent, frameLabel, fileName } from "./format.js";
import { foundIn, sumFound } from "./search.js";

/* A peak stands out if it is further from the median than the share LEAST and
 * than SPREAD times the median distance. */
const LEAST = 0.05, SPREAD = 3;

export function median(values) {
	const sorted = [...values].sort((a, b) => a - b), n = sorted.length;
	return n === 0 ? 0 : (sorted[(n - 1) >> 1] + sorted[n >> 1]) / 2;
}

/* The peaks with `off`, their distance from the median as a share of it, and
 * `out`, true for those that stand out. Two peaks have no median between them
 * that one could stand out from. */
export function judge(peaks) {
	const middle = median(peaks);
	const usual = median(peaks.map((p) => Math.abs(p - middle)));
	return peaks.map((peak) => {
		const by = Math.abs(peak - middle);
		return { peak, off: middle > 0 ? (peak - middle) / middle : 0,
			out: peaks.length > 2 && by > LEAST * middle &&
				by > SPREAD * usual };
	});
}

/* The bytes of each call site at the peak of a model. */
function sitesAtPeak(model, keys) {
	const el = model.elements, p = model.peak, sums = new Map();
	for (let k = 0; k < el.n; k++)
		if (el.start[k] <= p && el.end[k] > p) {
			const key = keys[el.stack[k]];
			sums.set(key, (sums.get(key) ?? 0) + el.size[k]);
		}
	return sums;
}

/* The call site in which one model differs most from the median of the others:
 * {key, own, usual}, or null. */
function largestDifference(one, others, keys, sign) {
	const own = sitesAtPeak(one, keys);
	const all = others.map((model) => sitesAtPeak(model, keys));
	const names = new Set([...own.keys(), ...all.flatMap((m) =>
		[...m.keys()])]);
	let best = null;
	for (const key of names) {
		const here = own.get(key) ?? 0;
		const usual = median(all.map((m) => m.get(key) ?? 0));
		const by = sign * (here - usual);
		if (by > 0 && (!best || by > best.by))
			best = { key, own: here, usual, by };
	}
	return best;
}

/* A sentence on the peaks of `models`, which have `device`. */
export function rankSentence(models, snap, sites) {
	const peaks = models.map((m) => m.active.max);
	const judged = judge(peaks), middle = median(peaks);
	const name = (i) => snap.deviceName(models[i].device);
	const low = peaks.indexOf(Math.min(...peaks));
	const high = peaks.indexOf(Math.max(...peaks));
	const what = snap.ranks.length ? "ranks" : "devices";
	if (peaks[high] === 0)
		return `None of the ${models.length} ${what} has memory in use.`;
	const range = `The peaks of ${models.length} ${what} are from ` +
		`${bytes(peaks[low])} (${name(low)}) to ${bytes(peaks[high])} ` +
		`(${name(high)})`;
	/* Of two, the larger is compared with the other. */
	let far = -1;
	judged.forEach(({ off, out }, i) => {
		if (out && (far < 0 || Math.abs(off) > Math.abs(judged[far].off)))
			far = i;
	});
	if (far < 0 && models.length === 2 &&
	    peaks[high] > peaks[low] * (1 + LEAST))
		far = high;
	if (far < 0)
		return `${range}; none stands out.`;
	const sign = peaks[far] < middle ? -1 : 1;
	const others = models.filter((_, i) => i !== far);
	const usual = median(others.map((m) => m.active.max));
	const { keys, frames } = sites.keying(1);
	const most = largestDifference(models[far], others, keys, sign);
	const than = models.length === 2 ? `than ${name(low)}` :
		`than the median of the others, ${bytes(usual)}`;
	let text = `${range}: ${name(far)} has ` +
		`${bytes(Math.abs(peaks[far] - usual))} ` +
		`(${percent(Math.abs(peaks[far] - usual), usual)}) ` +
		`${sign < 0 ? "less" : "more"} ${than}`;
	if (most)
		text += `, most of it by ${sites.join(frames[most.key],
			frameLabel)}: ${bytes(most.own)} there, ` +
			`${bytes(most.usual)} elsewhere`;
	return `${text}.`;
}

/* The row of peaks. A click chooses the rank that the pictures show. */
export class Ranks {
	constructor(app, devices) {
		this.app = app;
		this.devices = devices;
		this.models = [];
		this.list = h("div", { class: "rank-list", role: "group",
			"aria-label": "Peaks" });
		this.root = h("section", { class: "ranks", "aria-label":
			app.snap.ranks.length ? "Ranks" : "Devices" }, this.list);
	}

	/* Show the peaks of the models that there are. */
	draw() {
		const { models } = this;
		const most = Math.max(1, ...models.map((m) => m.active.max));
		const judged = judge(models.map((m) => m.active.max));
		fill(this.list, ...models.map((model, i) =>
			this.one(model, most, judged[i])));
		this.list.dataset.ready = String(models.length ===
			this.devices.length);
	}

	one(model, most, { off, out }) {
		const { app } = this, { snap } = app;
		const found = foundIn(app, model);
		const part = found ? sumFound(model, found).peak : null;
		const bar = h("i", { class: "rank-bar", "aria-hidden": "true" },
		    h("b", {}));
		bar.style.width = `${model.active.max / most * 100}%`;
		bar.firstChild.style.width = part === null ? "0" :
			`${part / Math.max(1, model.active.max) * 100}%`;
		const file = snap.rankFile(model.device);
		const note = out ? `${off > 0 ? "▲" : "▼"} ` +
			`${percent(Math.abs(off), 1)} ${off > 0 ? "above" : "below"}` :
			"";
		return h("button", { class: out ? "rank out" : "rank",
			"aria-pressed": String(model.device === app.model.device),
			title: file || snap.deviceName(model.device),
			onclick: () => app.changeDevice(model.device) },
		h("span", { class: "rank-name" }, snap.deviceName(model.device)),
		h("span", { class: "rank-file" }, fileName(file)),
		bar,
		h("span", { class: "rank-peak" }, part === null ?
			bytes(model.active.max) :
			`${bytes(part)} of ${bytes(model.active.max)}`),
		note ? h("span", { class: "rank-note" }, note) : null);
	}
}
