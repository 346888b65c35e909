/* The colours of style.css, which is the only place that sets them. */
export const SLOTS = 9;

function parse(text) {
	const n = parseInt(text.trim().slice(1), 16);
	return [n >> 16, (n >> 8) & 255, n & 255];
}

export function pack([r, g, b]) {
	return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
}

export function mix(a, b, t) {
	return a.map((v, i) => Math.round(v + (b[i] - v) * t));
}

export function readTheme() {
	const style = getComputedStyle(document.documentElement);
	const text = (name) => style.getPropertyValue(name).trim();
	const theme = {};
	for (const name of ["paper", "sheet", "ink", "quiet", "line", "accent",
		"use", "held", "wait", "other", "alarm", "ground"]) {
		theme[name] = text(`--${name}`);
		theme[`${name}RGB`] = parse(theme[name]);
	}
	theme.slots = [];
	for (let i = 0; i < SLOTS; i++)
		theme.slots.push(parse(text(`--slot-${i}`)));
	theme.ramp = [];
	for (let i = 0; i < 6; i++)
		theme.ramp.push(parse(text(`--ramp-${i}`)));
	theme.font = text("--font");
	return theme;
}

export function css([r, g, b]) {
	return `rgb(${r} ${g} ${b})`;
}

/* Black or white: the one with more contrast on a colour. */
export function inkOn([r, g, b]) {
	return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#14191c" : "#ffffff";
}
