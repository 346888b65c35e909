/*
 * The snapshot in sentences, for people who see a snapshot for the first time,
 * and the figures of the tiles.
 */
import { bytes, count, duration, percent, plural, signed,
	frameLabel } from "./format.js";
import { KINDS, kindSums } from "./kinds.js";
import { argmax } from "./series.js";
import { price, settingName } from "./views/whatif.js";

/* The call site that holds most memory at the peak, and its bytes. */
function largestSite(model, sites) {
	const el = model.elements, p = model.peak;
	const { keys, frames } = sites.keying(1);
	const sums = new Map();
	let blocks = 0;
	for (let k = 0; k < el.n; k++) {
		if (el.start[k] > p || el.end[k] <= p)
			continue;
		blocks++;
		const site = keys[el.stack[k]];
		sums.set(site, (sums.get(site) ?? 0) + el.size[k]);
	}
	let best = null;
	for (const [site, sum] of sums)
		if (site > 0 && (!best || sum > best.sum))
			best = { names: frames[site], sum };
	return { blocks, best };
}

function when(model, times, p) {
	if (!model.events)
		return "";
	return times.useful ? ` ${duration(times.times[p])} after the start` :
		` at event ${count(p)}`;
}

/* The answer of `weir advise` for the device: {reason} if there is none, or
 * {advice: [{text, setting}], skipped, serves}. undefined without a history. */
export function adviceFor(model) {
	return model.snap.advice.find(({ device }) => device === model.device);
}

/* What is to be said of the answer as a whole, or "". */
export function adviceNote({ reason, advice, skipped }) {
	if (reason)
		return `What would help was not computed: ${reason}.`;
	return (advice.length === 0 ? "Nothing helps: no setting that was " +
		"tried in replays holds notably less. " : "") + (skipped > 0 ?
		`${plural(skipped, "setting")} not tried; \`weir advise\` tries ` +
			"all." : "");
}

/* What a replay with a remedy's setting has shown of the failed request. */
export function servedIn(answer, setting) {
	const serves = answer?.serves?.[setting];
	return serves === undefined ? "" : serves ?
		"; a replay shows that it serves the request" :
		"; in a replay the request still fails";
}

/* Figures of the tiles: [label, value, note, meaning, alarm]. */
export function figures(model, times) {
	const peak = model.active.max, held = model.reserved.max;
	const end = model.length - 1;
	const free = Math.max(0, model.reserved.at(end) - model.active.at(end));
	const tiles = [
		["Most in use", bytes(peak), when(model, times, model.peak).trim(),
			"The largest sum of all allocations that were in use at one moment."],
		["Most held", bytes(held), peak > 0 && held > 2 * peak ?
			`${(held / peak).toFixed(1)} times what is in use` :
			`${percent(peak, held)} of it in use`,
			"The most memory that was held from the device at one moment. Held " +
			"memory that is not in use can serve this program only.",
			peak > 0 && held > 2 * peak],
		["Free at the end", bytes(free), free > 0 ?
			`${percent(free, model.reserved.at(end))} of the held memory` :
			model.reserved.at(end) > 0 ? "all that is held is in use" :
			"nothing is held",
		"Held from the device at the end of the trace, and not in use."],
		["Waiting", bytes(model.pending.max), model.pending.max > 0 ?
			"at its most" : "nothing ever waited",
		"Freed memory that could not be used again yet: the allocator had " +
			"not seen that the work on it was done."],
		["Out of memory", count(model.marks.oom.length),
			["no request failed", "request failed"][model.marks.oom.length] ??
				"requests failed",
			"Requests that could not be served."],
	];
	return tiles;
}

/* A sentence on the changes since the snapshot `title`. `most` is the call site
 * that changed most, if any. */
export function changes(title, before, after, most) {
	const by = (n) => n === 0 ? "as much" : signed(n);
	return `Since ${title}: ${by(after.use - before.use)} in use at the ` +
		`end, ${by(after.held - before.held)} held` + (most?.change ?
		`; most changed ${most.name}, ${signed(most.change)}.` : ".");
}

/* The sentences of the summary: what is wrong, then the figures and what they
 * mean. */
export function sentences(model, sites, snap, times) {
	const out = [];
	const peak = model.active.max, p = model.peak;
	const { blocks, best } = largestSite(model, sites);
	if (peak === 0)
		return ["This snapshot has no allocation on this device.",
			...faults(model)];
	let text = `Most was in use${when(model, times, p)}: ${bytes(peak)} in ` +
		`${plural(blocks, "block")}`;
	if (best)
		text += `, ${bytes(best.sum)} (${percent(best.sum, peak)}) of it ` +
			`from ${sites.join(best.names, frameLabel)}`;
	out.push(...faults(model), ...failures(model), `${text}.`);
	const held = model.reserved.at(p);
	if (held > peak * 1.02)
		out.push(`At that moment ${bytes(held)} were held. ` +
		    `${bytes(held - peak)} (${percent(held - peak, held)}) of it ` +
		    "were not in use: they lay free between blocks, or were lost " +
		    "to rounding.");
	const wait = model.pending.max;
	if (wait > 0)
		out.push("Freed memory that waited for its work to end was at most " +
		    `${bytes(wait)},` +
		    `${when(model, times, argmax(model.pending.values))}.`);
	out.push(...leaks(model, sites), ...kinds(model), ...whatIf(model));
	if (!model.events)
		out.push("The snapshot has no history: it shows the state at one moment.");
	return out;
}

function failures(model) {
	const [i] = model.marks.oom;
	if (i === undefined)
		return [];
	const c = model.columns, e = model.first + i;
	const free = Math.max(0, model.reserved.at(i) - model.active.at(i));
	const more = model.marks.oom.length - 1;
	return [`A request for ${bytes(c.event_size[e])} failed: the device had ` +
		`${bytes(c.event_addr[e])} free, and ${bytes(free)} were held but ` +
		`free.${more ? ` ${plural(more, "other")} failed too.` : ""}`];
}

/* The setting that would have held least, of those that no request failed
 * under. */
function whatIf(model) {
	const all = model.snap.whatIf.filter(({ device, ooms }) =>
		device === model.device && !ooms);
	const held = model.reserved.max;
	const best = all.reduce((a, b) => !a ||
		b.peak_held_bytes < a.peak_held_bytes ? b : a, null);
	if (!best || held === 0)
		return [];
	const by = held - best.peak_held_bytes;
	return [by > 0 ? `Of ${plural(all.length, "setting")} that were tried, ` +
		`${settingName(best.setting)} holds least: at most ` +
		`${bytes(best.peak_held_bytes)}, ${bytes(by)} (${percent(by, held)}) ` +
		`less than recorded, with ${price(best)}.` :
		`None of ${plural(all.length, "setting")} that were tried holds ` +
		"less than what was recorded."];
}

/* Bytes by kind at the peak, the largest first. */
function kinds(model) {
	const { sums, guessed } = kindSums(model, model.peak);
	const all = sums.reduce((a, b) => a + b, 0);
	const list = KINDS.map((name, i) => ({ name, sum: sums[i] }))
	    .filter(({ sum }) => sum > 0).sort((a, b) => b.sum - a.sum)
	    .map(({ name, sum }) => `${bytes(sum)} ${name}`);
	if (list.length < 2 || !model.events)
		return [];
	const how = guessed === all ? "guessed from stacks and lifetimes" :
		guessed > 0 ? `${percent(guessed, all)} of it guessed, the rest ` +
			"named by the program" : "named by the program";
	return [`By kind, the peak is ${list.join(", ")} (${how}).`];
}

/* The stacks that `weir leaks` suspects. */
function leaks(model, sites) {
	const { snap } = model;
	const found = snap.findings.leaks.filter(({ device }) =>
		device === model.device);
	if (found.length === 0)
		return [];
	const [{ stack, bytes: live, blocks, allocs, frees }] = found;
	const node = model.columns.stack_node[stack];
	const all = found.reduce((sum, f) => sum + f.bytes, 0);
	const more = found.length > 1 ? ` ${plural(found.length - 1,
		"other stack")} may leak too, ${bytes(all)} with it.` : "";
	return [`${sites.label(node, frameLabel)} may leak: it holds ` +
		`${bytes(live)} in ${plural(blocks, "block")} from all parts of the ` +
		`trace, and freed ${count(frees)} of ${count(allocs)}. \`weir leaks\` ` +
		`prints what speaks for and against a leak.${more}`];
}

/* The faults that `weir check` finds. */
function faults(model) {
	const found = model.snap.findings.faults[model.device];
	if (!found)
		return [];
	const [{ rule, what, address }] = found.first;
	return [`The file is not consistent: \`weir check\` finds ` +
		`${plural(found.count, "fault")} on this device, the first ` +
		`(${rule})${address ? ` at ${address}` : ""}: ${what}. Figures of ` +
		"this page may be wrong."];
}
