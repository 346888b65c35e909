/*
 * The data of a page: one buffer of columns, made by `weir view`.
 *
 *	"weirview"  u32 version  u32 length  JSON of that length  columns
 *
 * The JSON is {columns: {name: [type, offset, count]}, base, pinned_from}.
 * Device pinned_from + D is the page-locked host memory of device D. Offsets are
 * multiples of 8, and count from the first multiple of 8 after the JSON.
 * Addresses are distances from `base`, so that they are exact as doubles. All
 * text of a snapshot is in one table of strings, and the page shows it as text
 * only, never as HTML.
 */
const VERSION = 5;

/* Streams from this value on are handles. Smaller values are numbers of a trace
 * in CSV, which has at most 1,024 streams; a handle is an address above the
 * first page. The last value is the stream of device-scope memory. */
const HANDLES = 4096n, NO_STREAM = (1n << 64n) - 1n;

const arrays = {
	u8: Uint8Array,
	u32: Uint32Array,
	f64: Float64Array,
};

function fromBase64(text) {
	if (Uint8Array.fromBase64)
		return Uint8Array.fromBase64(text);
	const binary = atob(text);
	const bytes = new Uint8Array(binary.length);
	for (let i = 0; i < bytes.length; i++)
		bytes[i] = binary.charCodeAt(i);
	return bytes;
}

/* Characters that are invisible, or that change the direction of text. */
const UNSEEN =
	/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/* The runs of base64 in a page: the snapshot, and the earlier snapshot that it
 * is compared with, if any; or the word "live". */
export function runs(text) {
	return text.trim().split(/\s+/);
}

/* Decode such a run, which is a zlib stream in base64, into a buffer. */
export async function unpack(text) {
	const packed = new Blob([fromBase64(text.trim())]);
	const stream = packed.stream()
	    .pipeThrough(new DecompressionStream("deflate"));
	return new Response(stream).arrayBuffer();
}

/* The columns by name. Throws an Error with the fault of the buffer. */
function columnsOf(buffer) {
	const view = new DataView(buffer);
	const magic = new TextDecoder().decode(new Uint8Array(buffer, 0, 8));
	if (magic !== "weirview")
		throw new Error("this page holds no snapshot");
	const version = view.getUint32(8, true);
	if (version !== VERSION)
		throw new Error(`data of version ${version}; this page reads ${VERSION}`);
	const length = view.getUint32(12, true);
	const meta = JSON.parse(
	    new TextDecoder().decode(new Uint8Array(buffer, 16, length)));
	const start = 16 + Math.ceil(length / 8) * 8;
	const columns = {};
	for (const [name, [type, offset, count]] of Object.entries(meta.columns))
		columns[name] = new arrays[type](buffer, start + offset, count);
	return { meta, columns };
}

/* A snapshot. Its strings are decoded at their first use. */
export class Snapshot {
	constructor(buffer) {
		const { meta, columns } = columnsOf(buffer);
		this.columns = columns;
		this.base = BigInt(meta.base);
		this.pinnedFrom = meta.pinned_from;
		this.bytes = buffer.byteLength;
		this.stringCache = new Map();
		this.decoder = new TextDecoder();
		this.deviceEvents = Array.from(columns.trace_events);
		this.eventStart = Array.from(columns.trace_first);
		const most = columns.segment_device.reduce((a, b) =>
			Math.max(a, b), 0);
		while (this.deviceEvents.length <= most) {
			this.deviceEvents.push(0);
			this.eventStart.push(0);
		}
		this.devices = this.deviceEvents.length;
		this.actions = Array.from(columns.action_name, (i) => this.string(i));
		this.streams = Array.from(columns.stream_low, (low, i) =>
			(BigInt(columns.stream_high[i]) << 32n) | BigInt(low));
		this.settings = Array.from(columns.setting_name, (k, i) =>
			[this.string(k), this.string(columns.setting_value[i])]);
		this.before = null; /* the earlier Snapshot of a comparison */
		this.title = this.decoder.decode(columns.title)
		    .replace(UNSEEN, "\ufffd");
		const parsed = (column) => JSON.parse(this.decoder.decode(column),
		    (key, value) => typeof value === "string" ?
			value.replace(UNSEEN, "\ufffd") : value);
		this.verdicts = parsed(columns.verdicts);
		this.findings = parsed(columns.findings);
		this.whatIf = parsed(columns.what_if);
		this.advice = parsed(columns.advice);
		this.ranks = this.findRanks();
		this.growTree();
	}

	/* The ranks of a file that `weir merge` wrote: {first device, name}, by
	 * their devices. Empty for other files. */
	findRanks() {
		const key = "weir_ranks.";
		const ranks = this.settings.filter(([name]) => name.startsWith(key))
		    .map(([name, value]) => ({ first: Number(name.slice(key.length)),
			    name: value }))
		    .filter(({ first }) => Number.isInteger(first) && first >= 0 &&
			first < this.devices)
		    .sort((a, b) => a.first - b.first);
		this.settings = this.settings.filter(([name]) =>
			!name.startsWith(key));
		return ranks.length > 1 ? ranks : [];
	}

	/*
	 * Replace stacks by nodes of one tree of calls. Node 0 is the root, and a
	 * parent has a smaller number than its children. Afterwards the columns
	 * of stacks have the numbers of nodes.
	 */
	growTree() {
		const c = this.columns, frames = c.frame_name.length + 1;
		const children = new Map();
		const parent = [0], frame = [0];
		const nodeOf = new Uint32Array(c.stack_first.length);
		for (let s = 0; s < nodeOf.length; s++) {
			const first = c.stack_first[s];
			let node = 0;
			for (let i = first + c.stack_frames[s] - 1; i >= first; i--) {
				const key = node * frames + c.stack_frame[i];
				let child = children.get(key);
				if (child === undefined) {
					child = parent.length;
					children.set(key, child);
					parent.push(node);
					frame.push(c.stack_frame[i]);
				}
				node = child;
			}
			nodeOf[s] = node;
		}
		c.stack_node = nodeOf;
		c.node_parent = Uint32Array.from(parent);
		c.node_frame = Uint32Array.from(frame);
		for (const name of ["event_stack", "segment_stack", "block_stack"])
			c[name] = c[name].map((s) => nodeOf[s]);
	}

	string(i) {
		let text = this.stringCache.get(i);
		if (text === undefined) {
			const { text: all, string_start: start } = this.columns;
			text = this.decoder.decode(all.subarray(start[i],
			    all.indexOf(0, start[i]))).replace(UNSEEN, "\ufffd");
			this.stringCache.set(i, text);
		}
		return text;
	}

	deviceName(device) {
		return device < this.pinnedFrom ? this.ownName(device) :
			`pinned memory of ${this.ownName(device - this.pinnedFrom)}`;
	}

	/* The device of the earlier snapshot that a device is compared with; -1:
	 * it has none. Its numbers of page-locked memory may be other ones. */
	deviceBefore(device) {
		const { pinnedFrom, devices } = this.before;
		const pinned = device >= this.pinnedFrom;
		const there = pinned ? device - this.pinnedFrom + pinnedFrom : device;
		return there < (pinned ? devices : pinnedFrom) ? there : -1;
	}

	/* A device of a rank is named by the rank, if that is its only one. */
	ownName(device) {
		let rank = this.ranks.length - 1;
		while (rank >= 0 && this.ranks[rank].first > device)
			rank--;
		if (rank < 0)
			return `device ${device}`;
		const { first } = this.ranks[rank];
		const next = this.ranks[rank + 1]?.first ?? this.pinnedFrom;
		return next - first === 1 ? `rank ${rank}` :
			`rank ${rank}, device ${device - first}`;
	}

	/* The file of a device's rank, or "". */
	rankFile(device) {
		return this.ranks.findLast(({ first }) => first <= device)?.name ??
			"";
	}

	get strings() {
		return this.columns.string_start.length;
	}

	frame(i) {
		const c = this.columns;
		return {
			name: this.string(c.frame_name[i]),
			file: this.string(c.frame_file[i]),
			line: c.frame_line[i],
		};
	}

	/* The frames of a stack, innermost first. Stack 0 has none. */
	stack(node) {
		const frames = [];
		for (let n = node; n !== 0; n = this.columns.node_parent[n])
			frames.push(this.columns.node_frame[n]);
		return frames;
	}

	address(offset) {
		return "0x" + (this.base + BigInt(offset)).toString(16);
	}

	streamName(i) {
		const value = this.streams[i];
		if (value === 0n)
			return "default stream";
		if (value === NO_STREAM)
			return "no stream";
		if (value < HANDLES)
			return `stream ${value}`;
		/* Handles are too long to compare at a glance, so they are
		 * numbered. */
		return `stream #${this.streams.filter((s) => s >= HANDLES &&
			s < value).length + 1}`;
	}

	/* The name with the handle, for places with enough space. */
	streamFullName(i) {
		const value = this.streams[i];
		return value >= HANDLES && value !== NO_STREAM ?
			`${this.streamName(i)}, 0x${value.toString(16)}` :
			this.streamName(i);
	}

	get pools() {
		return this.columns.pool_first.length;
	}
	pool(i) {
		const c = this.columns;
		if (c.pool_first[i] === 0 && c.pool_second[i] === 0)
			return "common pool";
		return `pool (${c.pool_first[i]}, ${c.pool_second[i]})`;
	}
}
