/*
 * The colour of every element, by the property that the reader chose. The nine
 * largest values of the property have a colour each; all others share a neutral
 * colour.
 */
import { SLOTS, mix, pack, css } from "./theme.js";
import { frameLabel, bytes } from "./format.js";
import { KINDS, kindsOf } from "./kinds.js";

export const MODES = [
	["site", "Call site, caller"],
	["function", "Call site alone"],
	["callers", "Call site, two callers"],
	["kind", "Kind"],
	["stream", "Stream"],
	["pool", "Pool"],
	["size", "Size"],
	["age", "Lifetime"],
];

/* How many callers of a call site a mode tells apart. */
const DEPTHS = { function: 0, site: 1, callers: 2 };

/* The keys of elements, sorted by their bytes at the peak, then by all their
 * bytes. */
function ranked(model, keyOf) {
	const el = model.elements, peak = model.peak;
	const sums = new Map();
	for (let k = 0; k < el.n; k++) {
		const key = keyOf(k);
		const there = el.start[k] <= peak && el.end[k] > peak;
		const sum = sums.get(key) ?? [0, 0];
		sum[0] += there ? el.size[k] : 0;
		sum[1] += el.size[k];
		sums.set(key, sum);
	}
	return [...sums].sort((a, b) => b[1][0] - a[1][0] || b[1][1] - a[1][1])
	    .map(([key, sum]) => ({ key, peak: sum[0], all: sum[1] }));
}

/*
 * The slots of the largest keys. A key keeps the slot that it has had, so that a
 * call site has one colour in all pictures and on all devices; the others take
 * the slots that remain. `given` remembers the slots.
 */
export function slotsOf(keys, given) {
	const slots = new Map(), taken = new Set();
	for (const key of keys) {
		const had = given.get(key);
		if (had !== undefined && !taken.has(had)) {
			slots.set(key, had);
			taken.add(had);
		}
	}
	let next = 0;
	for (const key of keys) {
		if (slots.has(key))
			continue;
		while (taken.has(next))
			next++;
		slots.set(key, next);
		taken.add(next);
		if (!given.has(key))
			given.set(key, next);
	}
	return slots;
}

/* Shades of a colour, which separate neighbours of that colour. */
function shadesOf(colour, theme, shades) {
	return shades.map((t) => pack(mix(colour, theme.groundRGB, t)));
}

function byRank(model, theme, by, given) {
	const { keyOf, label, nothing } = by;
	const list = ranked(model, keyOf);
	const named = list.filter((r) => r.key !== nothing).slice(0, SLOTS);
	const slot = by.slot ?? slotsOf(named.map((r) => r.key), given);
	const entry = (r, colour) => ({ key: r.key, colour: css(colour),
		label: label(r.key), bytes: r.peak });
	const legend = named.map((r) => entry(r, theme.slots[slot.get(r.key)]));
	const rest = list.filter((r) => !slot.has(r.key) && r.key !== nothing);
	const unknown = list.find((r) => r.key === nothing);
	const unknownRGB = mix(theme.otherRGB, theme.groundRGB, 0.5);
	if (rest.length === 1)
		legend.push(entry(rest[0], theme.otherRGB));
	else if (rest.length)
		legend.push({ colour: css(theme.otherRGB),
			label: `${rest.length} others`,
			bytes: rest.reduce((sum, r) => sum + r.peak, 0),
			others: rest.map((r) => entry(r, theme.otherRGB)) });
	if (unknown)
		legend.push(entry(unknown, unknownRGB));
	const grey = shadesOf(theme.otherRGB, theme, [0, 0.1, 0.2, 0.3]);
	const packed = theme.slots.map((c) => shadesOf(c, theme, [0, 0.1, 0.2]));
	const pale = shadesOf(unknownRGB, theme, [0, 0.15, 0.3]);
	/* A grey that was looked for is dark, so that it is seen among others. */
	const hit = shadesOf(theme.quietRGB, theme, [0, 0.1, 0.2]);
	const of = (k, wanted) => {
		const key = keyOf(k), i = slot.get(key);
		const third = (k * 2654435761 >>> 9) % 3;
		if (i !== undefined)
			return packed[i][third];
		if (wanted)
			return hit[third];
		return key === nothing ? pale[third] :
			grey[(k * 2654435761 >>> 8) & 3];
	};
	return { of, legend, keyOf, rgbOf: (key) => slot.has(key) ?
		theme.slots[slot.get(key)] : theme.otherRGB };
}

function byScale(model, theme, { keyOf, label, scale }) {
	const packed = theme.ramp.map(pack);
	const el = model.elements, peak = model.peak;
	const sums = new Float64Array(scale);
	for (let k = 0; k < el.n; k++)
		if (el.start[k] <= peak && el.end[k] > peak)
			sums[keyOf(k)] += el.size[k];
	return {
		of: (k) => packed[keyOf(k)], keyOf,
		legend: Array.from(sums, (sum, i) => ({ key: i,
			colour: css(theme.ramp[i]), label: label(i), bytes: sum,
		})),
		rgbOf: (key) => theme.ramp[key],
	};
}

const KIB = 1024, MIB = 1048576, GIB = 1073741824;
const SIZES = [64 * KIB, MIB, 16 * MIB, 128 * MIB, GIB];

function place(limits, v) {
	let i = 0;
	while (i < limits.length && v >= limits[i])
		i++;
	return i;
}

function between(limits, of) {
	return (i) => i === 0 ? `under ${of(limits[0])}` :
		i === limits.length ? `${of(limits[i - 1])} and more` :
		`${of(limits[i - 1])} to ${of(limits[i])}`;
}

/* What tells elements apart in a mode: the key of each, one for all devices,
 * and the label of a key. `nothing` is the key of what is unknown. */
export function keyed(app, model, mode) {
	const { sites, snap } = app, el = model.elements;

	switch (mode) {
	case "kind": {
		const { kind } = kindsOf(model);
		return { keyOf: (k) => kind[k], label: (key) => KINDS[key],
			slot: new Map(KINDS.map((_, i) => [i, i])) };
	}
	case "stream":
		return { keyOf: (k) => el.stream[k],
			label: (key) => snap.streamName(key) };
	case "pool":
		return { keyOf: (k) => el.pool[k], label: (key) => snap.pool(key) };
	case "size":
		return { keyOf: (k) => place(SIZES, el.size[k]),
			label: between(SIZES, bytes), scale: SIZES.length + 1 };
	case "age": {
		const limits = [0.0005, 0.005, 0.05, 0.3, 0.9].map((t) =>
			Math.max(1, Math.round(t * model.length)));
		return { keyOf: (k) => place(limits, el.end[k] - el.start[k]),
			label: between(limits, (v) => `${v} events`),
			scale: limits.length + 1 };
	}
	default: {
		const { keys, frames } = sites.keying(DEPTHS[mode]);
		return { keyOf: (k) => keys[el.stack[k]], nothing: 0,
			label: (key) => sites.joinOutside(frames[key], frameLabel) };
	}
	}
}

function colouring(app) {
	const { model, theme, colour: mode } = app;
	const by = keyed(app, model, mode);
	if (by.scale)
		return byScale(model, theme, by);
	const given = app.slots[mode] ??= new Map();
	return byRank(model, theme, by, given);
}

/* Set app.colourOf, the colour of each element, and app.keying, which tells
 * their keys and the colours of keys. Returns the legend. */
export function colour(app) {
	const { model, theme } = app, el = model.elements;
	const { of, legend, keyOf, rgbOf } = colouring(app);
	const colours = new Uint32Array(el.n);
	const faint = pack(mix(theme.otherRGB, theme.groundRGB, 0.75));
	const found = app.found;
	for (let k = 0; k < el.n; k++)
		colours[k] = found && !found[k] ? faint : of(k, found !== null);
	app.colourOf = colours;
	app.keying = { keyOf, rgbOf };
	return legend;
}
