/*
 * What to call an allocation: the innermost frame that is the program's own.
 * Frames of interpreters and of the recording itself say nothing to anybody.
 */
const NOISE = new RegExp([
	"unwind::unwind", "CapturedTraceback", "gather_with_cpp", "^_start$",
	"^__libc_start", "^PyEval_", "^_PyEval", "^PyObject_", "^_PyObject",
	"^PyFunction_", "^_PyFunction", "^PyVectorcall", "^_?PyRun_", "^Py_",
	"^pymain", "^method_vectorcall", "^cfunction_", "^slot_tp_",
	"^type_call", "^clone3?$", "^start_thread", "^_PyCFunction",
	"^cfunction_call", "^partial_", "^_?PyMethod", "^type_new",
].join("|"));
const NOISY_FILE = new RegExp([
	"core/boxing", "/Register", "/Redispatch", "pythonrun\\.c",
	"Modules/main\\.c", "Objects/call\\.c", "Objects/methodobject\\.c",
	"pycore_ceval\\.h", "ceval\\.c", "cpython/abstract\\.h",
].join("|"));
const LIBRARY_NAME = /^(at|c10|torch|std|c10d|void at|caffe2|pybind11)::/;
const LIBRARY_FILE =
	/site-packages|dist-packages|[\\/]lib[\\/]python\d|^<|^\?\?$|^$/;

const USER = 2, SOME = 1;

export class Sites {
	constructor(snap) {
		const c = snap.columns;
		const frames = c.frame_name.length, nodes = c.node_parent.length;
		this.snap = snap;
		this.noise = new Uint8Array(frames);
		const grade = new Uint8Array(frames);
		for (let f = 0; f < frames; f++) {
			const { name, file } = snap.frame(f);
			this.noise[f] = NOISE.test(name) || NOISY_FILE.test(file) ? 1 : 0;
			if (this.noise[f])
				continue;
			grade[f] = LIBRARY_FILE.test(file) || LIBRARY_NAME.test(name) ?
				SOME : USER;
		}
		/* One more than the frame; 0 for none. Parents come first. */
		const user = new Uint32Array(nodes), some = new Uint32Array(nodes);
		this.frameOf = new Int32Array(nodes).fill(-1);
		for (let n = 1; n < nodes; n++) {
			const f = c.node_frame[n], p = c.node_parent[n];
			user[n] = grade[f] === USER ? f + 1 : user[p];
			some[n] = grade[f] !== 0 ? f + 1 : some[p];
			this.frameOf[n] = (user[n] || some[n] || f + 1) - 1;
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
