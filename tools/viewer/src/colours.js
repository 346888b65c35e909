/*
 * The colour of every element, by the property that the reader chose. The nine
 * largest values of the property have a colour each; all others share a neutral
 * colour.
 */
import { SLOTS, mix, pack, css } from "./theme.js";
import { frameLabel, bytes } from "./format.js";

export const MODES = [
	["site", "Call site, caller"],
	["function", "Call site alone"],
	["callers", "Call site, two callers"],
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

function byRank(model, theme, keyOf, label, nothing) {
	const list = ranked(model, keyOf);
	const named = list.filter((r) => r.key !== nothing).slice(0, SLOTS);
	const slot = new Map(named.map((r, i) => [r.key, i]));
	const legend = named.map((r, i) => ({
		colour: css(theme.slots[i]), label: label(r.key), bytes: r.peak,
	}));
	const rest = list.filter((r) => !slot.has(r.key) && r.key !== nothing);
	const unknown = list.find((r) => r.key === nothing);
	if (rest.length)
		legend.push({ colour: css(theme.otherRGB),
			label: rest.length === 1 ? label(rest[0].key) :
				`${rest.length} others`,
			bytes: rest.reduce((sum, r) => sum + r.peak, 0),
			others: rest.length === 1 ? null : rest.map((r) =>
				({ label: label(r.key), bytes: r.peak })) });
	const unknownRGB = mix(theme.otherRGB, theme.groundRGB, 0.5);
	if (unknown)
		legend.push({ colour: css(unknownRGB), label: label(nothing),
			bytes: unknown.peak });
	/* Shades separate neighbours among the others. */
	const shades = [0, 0.1, 0.2, 0.3].map((t) =>
		pack(mix(theme.otherRGB, theme.groundRGB, t)));
	/* Shades also separate two elements of one key. */
	const packed = [0, 0.1, 0.2].map((t) =>
		theme.slots.map((c) => pack(mix(c, theme.groundRGB, t))));
	const unknownShades = [0, 0.15, 0.3].map((t) =>
		pack(mix(unknownRGB, theme.groundRGB, t)));
	const of = (k) => {
		const key = keyOf(k), i = slot.get(key);
		if (key === nothing)
			return unknownShades[(k * 2654435761 >>> 9) % 3];
		return i === undefined ? shades[(k * 2654435761 >>> 8) & 3] :
			packed[(k * 2654435761 >>> 9) % 3][i];
	};
	return { of, legend };
}

function byScale(model, theme, valueOf, limits, label) {
	const packed = theme.ramp.map(pack);
	const el = model.elements, peak = model.peak;
	const sums = new Float64Array(limits.length + 1);
	const slot = (v) => {
		let i = 0;
		while (i < limits.length && v >= limits[i])
			i++;
		return i;
	};
	for (let k = 0; k < el.n; k++)
		if (el.start[k] <= peak && el.end[k] > peak)
			sums[slot(valueOf(k))] += el.size[k];
	return {
		of: (k) => packed[slot(valueOf(k))],
		legend: Array.from(sums, (sum, i) => ({
			colour: css(theme.ramp[i]), label: label(i, limits), bytes: sum,
		})),
	};
}

const KIB = 1024, MIB = 1048576, GIB = 1073741824;
const SIZES = [64 * KIB, MIB, 16 * MIB, 128 * MIB, GIB];

function colouring(app) {
	const { model, sites, theme, snap } = app, el = model.elements;
	const between = (f) => (i, l) => i === 0 ? `under ${f(l[0])}` :
		i === l.length ? `${f(l[i - 1])} and more` :
		`${f(l[i - 1])} to ${f(l[i])}`;

	switch (app.colour) {
	case "stream":
		return byRank(model, theme, (k) => el.stream[k],
		    (key) => snap.streamName(key));
	case "pool":
		return byRank(model, theme, (k) => el.pool[k],
		    (key) => snap.pool(key));
	case "size":
		return byScale(model, theme, (k) => el.size[k], SIZES,
		    between(bytes));
	case "age": {
		const n = model.length;
		const limits = [0.0005, 0.005, 0.05, 0.3, 0.9].map((t) =>
			Math.max(1, Math.round(t * n)));
		return byScale(model, theme, (k) => el.end[k] - el.start[k], limits,
		    between((v) => `${v} events`));
	}
	default: {
		const { keys, frames } = sites.keying(DEPTHS[app.colour]);
		return byRank(model, theme, (k) => keys[el.stack[k]],
		    (key) => sites.joinOutside(frames[key], frameLabel), 0);
	}
	}
}

/* Set app.colourOf, the colour of each element. Returns the legend. */
export function colour(app) {
	const { model, theme } = app, el = model.elements;
	const { of, legend } = colouring(app);
	const colours = new Uint32Array(el.n);
	const faint = pack(mix(theme.otherRGB, theme.groundRGB, 0.65));
	const found = app.found;
	for (let k = 0; k < el.n; k++)
		colours[k] = found && !found[k] ? faint : of(k);
	app.colourOf = colours;
	return legend;
}
