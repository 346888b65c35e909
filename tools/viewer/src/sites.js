/*
 * The site of an allocation: the innermost frame of the program itself, and the
 * callers that tell stacks with one site apart. The weir command has graded the
 * frames (tools/weir/reading/snapshot_sites.h) and found the callers
 * (snapshot_callers.h), so that the page and `weir top` give the same names.
 */
const NOISE = 0, FRAMEWORK = 2;

/* 1 for each frame of an interpreter or a runtime. */
export function noiseOf(snap) {
	return Uint8Array.from(snap.columns.frame_grade, (g) =>
		g === NOISE ? 1 : 0);
}

export class Sites {
	constructor(snap) {
		const c = snap.columns, grade = c.frame_grade;
		const nodes = c.node_parent.length;
		this.snap = snap;
		this.grade = grade;
		this.noise = noiseOf(snap);
		/* The innermost frame of the highest grade. Parents come before
		 * their nodes. */
		this.frameOf = new Int32Array(nodes).fill(-1);
		for (let n = 1; n < nodes; n++) {
			const f = c.node_frame[n], up = this.frameOf[c.node_parent[n]];
			this.frameOf[n] = up < 0 || grade[f] >= grade[up] ? f : up;
		}
		/* The places of both callers in path(); 0 is none. */
		this.near = new Uint32Array(nodes);
		this.far = new Uint32Array(nodes);
		c.stack_node.forEach((node, s) => {
			this.near[node] = c.stack_near[s];
			this.far[node] = c.stack_far[s];
		});
		this.keyings = [];
	}

	/* The frames of the program from the site outwards. */
	path(node) {
		const site = this.frameOf[node];
		if (site < 0)
			return [];
		const frames = this.snap.stack(node);
		return frames.slice(frames.indexOf(site)).filter((f) =>
			this.grade[f] === this.grade[site]);
	}

	/* The site and at most `depth` callers that tell stacks apart. */
	names(node, depth) {
		const near = this.near[node], far = this.far[node];
		const places = [0, near, far > near ? far : 0].slice(0, depth + 1)
		    .filter((place, i) => i === 0 || place > 0);
		if (places.length === 1)
			return [this.frameOf[node]];
		const path = this.path(node);
		return places.map((place) => path[place]);
	}

	/*
	 * Numbers for the stacks with one site and the same `depth` callers: keys
	 * by node, 0 for no frame, and the frames of each key.
	 */
	keying(depth) {
		if (this.keyings[depth])
			return this.keyings[depth];
		const keys = new Uint32Array(this.frameOf.length), frames = [[-1]];
		const found = new Map([["-1", 0]]);
		for (const node of new Set(this.snap.columns.stack_node)) {
			const names = this.names(node, depth), text = names.join();
			if (!found.has(text)) {
				found.set(text, frames.length);
				frames.push(names);
			}
			keys[node] = found.get(text);
		}
		return this.keyings[depth] = { keys, frames };
	}

	/* The name of a frame of frameOf; -1 is no frame. */
	name(frame, of) {
		if (frame < 0)
			return "no stack recorded";
		const text = of(this.snap.frame(frame));
		return this.grade[frame] > FRAMEWORK ? text :
			`no frame of the program; in ${text}`;
	}

	/* The names of a site and its callers in one text. */
	join([site, ...callers], of) {
		return [this.name(site, of), ...callers.map((f) =>
			`called by ${of(this.snap.frame(f))}`)].join(", ");
	}

	/* This name begins with the callers, for places that cut a text. */
	joinOutside([site, ...callers], of) {
		return [...[...callers].reverse().map((f) => of(this.snap.frame(f))),
			this.name(site, of)].join(" → ");
	}

	label(node, of) {
		return this.join(this.names(node, 1), of);
	}

	/* The site of a stack; -1 if it has no frame of the program. */
	own(node) {
		const f = this.frameOf[node];
		return f >= 0 && this.grade[f] > FRAMEWORK ? f : -1;
	}

	/* The frames of a stack, innermost first; without noise unless `all`. */
	stack(node, all = false) {
		const frames = this.snap.stack(node);
		const clear = frames.filter((f) => !this.noise[f]);
		return all || clear.length === 0 ? frames : clear;
	}
}
