/*
 * The site of an allocation: the innermost frame of the program itself. The weir
 * command has graded the frames (tools/weir/snapshot_sites.h), so that the page
 * and `weir top` name the same sites.
 */
const NOISE = 0, FRAMEWORK = 2;

export class Sites {
	constructor(snap) {
		const c = snap.columns, grade = c.frame_grade;
		const nodes = c.node_parent.length;
		this.snap = snap;
		this.grade = grade;
		this.noise = Uint8Array.from(grade, (g) => g === NOISE ? 1 : 0);
		/* The innermost frame of the highest grade. Parents come before
		 * their nodes. */
		this.frameOf = new Int32Array(nodes).fill(-1);
		for (let n = 1; n < nodes; n++) {
			const f = c.node_frame[n], up = this.frameOf[c.node_parent[n]];
			this.frameOf[n] = up < 0 || grade[f] >= grade[up] ? f : up;
		}
	}

	/* The name of a frame of frameOf; -1 is no frame. */
	name(frame, of) {
		if (frame < 0)
			return "no stack recorded";
		const text = of(this.snap.frame(frame));
		return this.grade[frame] > FRAMEWORK ? text :
			`no frame of the program; in ${text}`;
	}

	label(node, of) {
		return this.name(this.frameOf[node], of);
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
