/*
 * Elements of the page. Text is always set as text, so that no text of a
 * snapshot is parsed as HTML.
 */
export function h(tag, attributes = {}, ...children) {
	const element = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes)) {
		if (name.startsWith("on"))
			element.addEventListener(name.slice(2), value);
		else if (value === true)
			element.setAttribute(name, "");
		else if (value !== false && value !== undefined)
			element.setAttribute(name, value);
	}
	element.append(...children.filter((c) => c !== null && c !== undefined));
	return element;
}

/* A square in a colour. */
export function swatch(colour) {
	const square = h("i", { class: "swatch", "aria-hidden": "true" });
	square.style.background = colour;
	return square;
}

export function fill(element, ...children) {
	element.replaceChildren(...children.filter((c) => c));
	return element;
}

/* The context of a canvas, with its size in pixels of the page, or null if it
 * is not shown. */
export function place(canvas) {
	const ratio = Math.min(2, window.devicePixelRatio || 1);
	const width = canvas.clientWidth, height = canvas.clientHeight;
	if (width < 10 || height < 10)
		return null;
	canvas.width = Math.round(width * ratio);
	canvas.height = Math.round(height * ratio);
	const ctx = canvas.getContext("2d");
	ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
	return { ctx, width, height };
}
