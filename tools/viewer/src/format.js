/* Numbers as text for people. */
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(n) {
	let value = Math.abs(n), unit = 0;
	while (value >= 1024 && unit < UNITS.length - 1) {
		value /= 1024;
		unit++;
	}
	const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
	return `${n < 0 ? "−" : ""}${value.toFixed(digits)} ${UNITS[unit]}`;
}

/* Bytes with a sign: "+3.00 MiB", "−3.00 MiB", "0 B". */
export function signed(n) {
	return n > 0 ? `+${bytes(n)}` : bytes(n);
}

const grouped = new Intl.NumberFormat("en-US");

export function count(n) {
	return grouped.format(n);
}

export function plural(n, one, many = one + "s") {
	return `${count(n)} ${n === 1 ? one : many}`;
}

export function percent(part, whole) {
	if (!(whole > 0))
		return "0 %";
	const p = 100 * part / whole;
	return p > 0 && p < 1 ? "under 1 %" : `${Math.round(p)} %`;
}

/* Microseconds as a duration. */
export function duration(us) {
	if (us < 1000)
		return `${Math.round(us)} µs`;
	if (us < 1e6)
		return `${(us / 1e3).toFixed(us < 1e4 ? 2 : 1)} ms`;
	if (us < 120e6)
		return `${(us / 1e6).toFixed(us < 1e7 ? 2 : 1)} s`;
	return `${Math.floor(us / 60e6)} min ${Math.round(us / 1e6) % 60} s`;
}

/* The last part of a path with slashes or backslashes. */
export function fileName(path) {
	return path.slice(Math.max(path.lastIndexOf("/"),
	    path.lastIndexOf("\\")) + 1);
}

export function frameLabel(frame) {
	if (!frame.file || frame.file === "??")
		return frame.name || "(no name)";
	const place = frame.line ?
		`${fileName(frame.file)}:${frame.line}` : fileName(frame.file);
	return `${frame.name || "(no name)"} · ${place}`;
}
