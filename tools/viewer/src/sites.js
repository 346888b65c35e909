/*
 * What to call an allocation: the innermost frame that is the program's own.
 * Frames of interpreters and of the recording itself say nothing to anybody.
 */
const NOISE = new RegExp([
	"unwind::unwind", "CapturedTraceback", "gather_with_cpp", "^_start$",
	"^__libc_", "^_?Py[A-Z]\\w*_", "^Py_", "^pymain", "^method_vectorcall",
	"^cfunction_", "^slot_tp_", "^type_call", "^type_new", "^partial_",
	"^clone3?$", "^start_thread",
].join("|"));
const NOISY_FILE = new RegExp([
	"core/boxing", "/Register", "/Redispatch", "pythonrun\\.c",
	"Modules/main\\.c", "Objects/call\\.c", "Objects/methodobject\\.c",
	"pycore_ceval\\.h", "ceval\\.c", "cpython/abstract\\.h",
].join("|"));
const LIBRARY_NAME =
	/(^|[ <*&(])(at|c10|c10d|torch|std|caffe2|pybind11)::|^THPVariable/;
const LIBRARY_FILE = /site-packages|dist-packages|[\\/]lib[\\/]python\d|[\\/]python[\d.]*[\\/]lib[\\/]|^<|^\?\?$|^$/i;

const SCRIPT = /\.(py|ipynb|pyx)$|^<ipython/i;

/* How well a frame names an allocation. */
const SOME = 1, OWN = 2, OWN_SCRIPT = 3;

function gradeOf({ name, file }) {
	if (LIBRARY_FILE.test(file) || LIBRARY_NAME.test(name))
		return SOME;
	return SCRIPT.test(file) ? OWN_SCRIPT : OWN;
}

export class Sites {
	constructor(snap) {
		const c = snap.columns;
		const frames = c.frame_name.length, nodes = c.node_parent.length;
		this.snap = snap;
		this.noise = new Uint8Array(frames);
		const grade = new Uint8Array(frames);
		for (let f = 0; f < frames; f++) {
			const frame = snap.frame(f);
			this.noise[f] = NOISE.test(frame.name) ||
				NOISY_FILE.test(frame.file) ? 1 : 0;
			grade[f] = this.noise[f] ? 0 : gradeOf(frame);
		}
		/* The innermost of the best grade; parents come before their nodes. */
		this.frameOf = new Int32Array(nodes).fill(-1);
		for (let n = 1; n < nodes; n++) {
			const f = c.node_frame[n], up = this.frameOf[c.node_parent[n]];
			this.frameOf[n] = up < 0 || grade[f] >= grade[up] ? f : up;
		}
	}

	label(node, of) {
		const f = this.frameOf[node];
		return f < 0 ? "no stack recorded" : of(this.snap.frame(f));
	}

	/* The frames of a stack, innermost first, without noise unless asked. */
	stack(node, all = false) {
		const frames = this.snap.stack(node);
		const clear = frames.filter((f) => !this.noise[f]);
		return all || clear.length === 0 ? frames : clear;
	}
}
