/*
 * A value over the positions of a trace. It has the smallest and the largest
 * value of each 8, 64, 512... entries, so that the time of a picture depends on
 * its pixels and not on the length of the trace. Entry k is valid from
 * positions[k] to positions[k + 1]. Without positions, entry k is at position k.
 */
const FAN = 8;

/* The index of the first largest value. */
export function argmax(values) {
	let best = 0;
	for (let i = 1; i < values.length; i++)
		if (values[i] > values[best])
			best = i;
	return best;
}

function reduce(from, pick) {
	const to = new Float64Array(Math.ceil(from.length / FAN));
	for (let i = 0; i < to.length; i++) {
		let best = from[i * FAN];
		const end = Math.min(from.length, i * FAN + FAN);
		for (let j = i * FAN + 1; j < end; j++)
			best = pick(best, from[j]);
		to[i] = best;
	}
	return to;
}

/* The number of entries of a rising array that are <= x. */
export function countUpTo(array, x) {
	let lo = 0, hi = array.length;
	while (lo < hi) {
		const mid = (lo + hi) >>> 1;
		if (array[mid] <= x)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

export class Series {
	constructor(values, positions = null) {
		this.values = values;
		this.positions = positions;
		this.low = [values];
		this.high = [values];
		while (this.low.at(-1).length > FAN) {
			this.low.push(reduce(this.low.at(-1), Math.min));
			this.high.push(reduce(this.high.at(-1), Math.max));
		}
	}

	/* The entry that is valid at position p; -1 before the first. */
	entry(p) {
		if (this.positions)
			return countUpTo(this.positions, p) - 1;
		return Math.min(Math.floor(p), this.values.length - 1);
	}

	at(p) {
		const k = this.entry(p);
		return k < 0 ? 0 : this.values[k];
	}

	/* The best of the entries [from, to), with steps up and down the
	 * levels. */
	scan(levels, pick, from, to) {
		let best = levels[0][from];
		let level = 0;
		while (from < to) {
			while (level + 1 < levels.length && from % FAN === 0 &&
			    to - from >= FAN) {
				from /= FAN;
				to = to / FAN;
				level++;
			}
			/* `to` may lie inside an entry here. A lower level scans that
			 * part. */
			if (from + 1 <= to) {
				best = pick(best, levels[level][from]);
				from++;
				continue;
			}
			from *= FAN;
			to *= FAN;
			level--;
		}
		return best;
	}

	/* The smallest and the largest value between two positions. */
	range(p0, p1) {
		const from = Math.max(0, this.entry(p0));
		const last = this.positions ?
			countUpTo(this.positions, p1 - 1e-9) :
			Math.min(Math.ceil(p1), this.values.length);
		const to = Math.max(from + 1, last);
		return [this.scan(this.low, Math.min, from, to),
			this.scan(this.high, Math.max, from, to)];
	}

	get max() {
		return this.values.length ? this.range(0, Infinity)[1] : 0;
	}
}
