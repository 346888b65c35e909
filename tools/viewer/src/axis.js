/*
 * The places of events on the horizontal axis: evenly spaced, or by their times.
 * Event i has position i. Positions range from 0 to length, the end of the
 * trace.
 */
import { countUpTo } from "./series.js";

export class EventAxis {
	constructor(length) {
		this.kind = "event";
		this.length = length;
		this.start = 0;
		this.end = length;
	}
	x(p) {
		return p;
	}
	position(x) {
		return Math.max(0, Math.min(this.length, x));
	}
}

export class TimeAxis {
	/* The times of several threads may step back a little. The axis does
	 * not: each time is at least the one before. */
	constructor(times, from, length) {
		this.kind = "time";
		this.length = length;
		this.times = new Float64Array(length + 1);
		let last = length > 0 ? times[from] : 0;
		const first = last;
		for (let p = 0; p < length; p++) {
			last = Math.max(last, times[from + p] ?? last);
			this.times[p] = last - first;
		}
		this.times[length] = (this.times[length - 1] ?? 0) + 1;
		this.start = 0;
		this.end = this.times[length];
	}
	x(p) {
		const i = Math.max(0, Math.min(this.length, Math.floor(p)));
		return this.times[i];
	}
	/* The event at or before x. */
	position(x) {
		return Math.max(0, Math.min(this.length, countUpTo(this.times, x) - 1));
	}
	/* True if the events have times. Old snapshots have none. */
	get useful() {
		return this.length > 1 && this.times[this.length - 1] > 0;
	}
}
