/*
 * Comparison of two snapshots: the memory in use at the end of each, by call
 * site. Sites are matched by their names, because the numbers of stacks and
 * strings differ between snapshots.
 */
import { Sites } from "./sites.js";
import { STATE_INACTIVE } from "./model.js";
import { frameLabel } from "./format.js";

/* The place of the first caller that tells stacks of a site apart, by the name
 * of the site, in any of these snapshots. */
export function callerPlaces(...all) {
	const places = new Map();
	for (const sites of all)
		sites.near.forEach((near, node) => {
			if (near === 0)
				return;
			const name = sites.join([sites.frameOf[node]], frameLabel);
			places.set(name, Math.min(near, places.get(name) ?? near));
		});
	return places;
}

/* The name of a site with its caller, in both snapshots by one rule. */
function nameOf(sites, node, places) {
	const site = sites.join([sites.frameOf[node]], frameLabel);
	const place = places.get(site);
	const caller = place && sites.path(node)[place];
	return caller === undefined ? site :
		sites.join([sites.frameOf[node], caller], frameLabel);
}

/* Sum up the memory in use at the end by site, and the held memory. `places`
 * are those of callerPlaces(). */
export function finalState(snap, sites, device, places) {
	const c = snap.columns, bySite = new Map(), names = new Map();
	const sums = { use: 0, held: 0, blocks: 0, bySite };
	for (let s = 0; s < c.segment_addr.length; s++) {
		if (c.segment_device[s] !== device)
			continue;
		sums.held += c.segment_size[s];
		const first = c.segment_first[s];
		for (let b = first; b < first + c.segment_blocks[s]; b++) {
			if (c.block_state[b] === STATE_INACTIVE)
				continue;
			const size = c.block_requested[b] || c.block_size[b];
			const node = c.block_stack[b];
			if (!names.has(node))
				names.set(node, nameOf(sites, node, places));
			const name = names.get(node);
			const site = bySite.get(name) ??
				{ bytes: 0, blocks: 0, node, largest: 0 };
			site.bytes += size;
			site.blocks++;
			if (size > site.largest) {
				site.largest = size;
				site.node = node;
			}
			bySite.set(name, site);
			sums.use += size;
			sums.blocks++;
		}
	}
	return sums;
}

/* Compare both final states. Rows are {name, before, after, change}, with the
 * largest changes first. */
export function compare(snap, sites, device) {
	const old = new Sites(snap.before), places = callerPlaces(old, sites);
	const before = finalState(snap.before, old,
	    snap.deviceBefore(device), places);
	const after = finalState(snap, sites, device, places);
	const none = { bytes: 0, blocks: 0, node: 0 };
	const names = new Set([...before.bySite.keys(), ...after.bySite.keys()]);
	const rows = Array.from(names, (name) => {
		const a = before.bySite.get(name) ?? none;
		const b = after.bySite.get(name) ?? none;
		return { name, before: a, after: b, change: b.bytes - a.bytes };
	});
	rows.sort((x, y) => Math.abs(y.change) - Math.abs(x.change) ||
		y.after.bytes - x.after.bytes || (x.name < y.name ? -1 : 1));
	return { before, after, rows };
}
