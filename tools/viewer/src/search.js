/*
 * Search for text in the names and files of stacks, or for an address.
 */
import { isKept } from "./flamedata.js";

export function search(app, query) {
	const { snap, model } = app, c = snap.columns;
	const text = query.trim().toLowerCase();
	app.query = text;
	app.matchedAddress = null;
	if (!text) {
		app.matchedFrames = app.matchedNodes = app.found = null;
		return null;
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
	const el = model.elements, found = new Uint8Array(el.n);
	let n = 0, most = -1;
	for (let k = 0; k < el.n; k++) {
		if (nodes[el.stack[k]] || (el.addr[k] <= address &&
		    address < el.addr[k] + el.held[k])) {
			found[k] = 1;
			n++;
			if (most < 0 || el.size[k] > el.size[most])
				most = k;
		}
	}
	app.matchedFrames = frames;
	app.matchedNodes = nodes;
	app.matchedAddress = Number.isNaN(address) ? null : address;
	app.found = found;
	return { n, peak: foundAt(model, found, model.peak) };
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
