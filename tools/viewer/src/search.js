/*
 * Search for text in the names and files of stacks, or for an address.
 */
import { keyed } from "./colours.js";
import { isKept } from "./flamedata.js";

/* Find the frames and stacks with a text, or read an address. */
export function search(app, query) {
	const { snap } = app, c = snap.columns;
	const text = query.trim().toLowerCase();
	app.query = text;
	app.matchedAddress = null;
	if (!text) {
		app.matchedFrames = app.matchedNodes = null;
		return;
	}
	const strings = new Uint8Array(snap.strings);
	for (let i = 0; i < strings.length; i++)
		strings[i] = snap.string(i).toLowerCase().includes(text) ? 1 : 0;
	const line = /^(.*):(\d+)$/.exec(text);
	const frames = new Uint8Array(c.frame_name.length);
	for (let f = 0; f < frames.length; f++) {
		frames[f] = strings[c.frame_name[f]] | strings[c.frame_file[f]];
		if (!frames[f] && line && c.frame_line[f] === Number(line[2]))
			frames[f] = snap.string(c.frame_file[f]).toLowerCase()
			    .endsWith(line[1]) ? 1 : 0;
	}
	const nodes = new Uint8Array(c.node_parent.length);
	for (let n = 1; n < nodes.length; n++)
		nodes[n] = frames[c.node_frame[n]] | nodes[c.node_parent[n]];
	const address = /^0x[0-9a-f]+$/.test(text) ?
		Number(BigInt(text) - snap.base) : NaN;
	app.matchedFrames = frames;
	app.matchedNodes = nodes;
	app.matchedAddress = Number.isNaN(address) ? null : address;
}

/* True if the search finds a frame, which no column of the snapshot has. */
export function findsFrame(app, { name, file, line }) {
	const of = file.toLowerCase(), at = /^(.*):(\d+)$/.exec(app.query);
	return name.toLowerCase().includes(app.query) || of.includes(app.query) ||
		(at !== null && line === Number(at[2]) && of.endsWith(at[1]));
}

/*
 * The elements of a model that the search found, and that have the key which is
 * picked in the legend. Null if there is neither. Devices share the choice.
 */
export function foundIn(app, model) {
	const { matchedNodes: nodes, matchedAddress: address, picked } = app;
	if (!nodes && !picked)
		return null;
	const el = model.elements, found = new Uint8Array(el.n);
	const keyOf = picked && keyed(app, model, picked.mode).keyOf;
	for (let k = 0; k < el.n; k++)
		found[k] = (!nodes || nodes[el.stack[k]] || (address !== null &&
			el.addr[k] <= address && address < el.addr[k] + el.held[k])) &&
			(!keyOf || keyOf(k) === picked.key) ? 1 : 0;
	return found;
}

/* The number of found elements, and their bytes at the peak. */
export function sumFound(model, found) {
	return { n: found.reduce((sum, f) => sum + f, 0),
		peak: foundAt(model, found, model.peak) };
}

/*
 * Keep only elements that were allocated between two positions and are in use at
 * the second. With a search, keep only those that it found.
 */
export function keepOnly(app, { p0, p1 }) {
	const { model, found } = app, el = model.elements;
	const kept = new Uint8Array(el.n);
	let n = 0, sum = 0;
	for (let k = 0; k < el.n; k++) {
		if ((found && !found[k]) || !isKept(el, k, p0, p1))
			continue;
		kept[k] = 1;
		n++;
		sum += el.size[k];
	}
	app.found = kept;
	return { n, sum };
}

function foundAt(model, found, p) {
	const el = model.elements;
	let sum = 0;
	for (let k = 0; k < el.n; k++)
		if (found[k] && el.start[k] <= p && el.end[k] > p)
			sum += el.size[k];
	return sum;
}

/* The next found element in the order of begins; -1 if there is none. */
export function next(app, from, by) {
	const n = app.model.elements.n;
	for (let i = 1; i <= n; i++) {
		const k = ((from + by * i) % n + n) % n;
		if (app.found?.[k])
			return k;
	}
	return -1;
}
