/*
 * The data of a page: one buffer of columns, made by `weir view`.
 *
 *	"weirview"  u32 version  u32 length  JSON of that length  columns
 *
 * The JSON has {columns: {name: [type, offset, count]}, base}; offsets are
 * from the buffer's start and multiples of 8. Addresses are kept as distances
 * from `base`, so that they are exact as doubles. All text that comes from a
 * snapshot is in one table of strings, and is put on the page as text only.
 */
const VERSION = 1;

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

/* The buffer from what is in the page: base64 of a zlib stream. */
export async function unpack(text) {
	const packed = new Blob([fromBase64(text.trim())]);
	const stream = packed.stream()
	    .pipeThrough(new DecompressionStream("deflate"));
	return new Response(stream).arrayBuffer();
}

/* The columns by name. Throws an Error that says what is wrong. */
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
	const columns = {};
	for (const [name, [type, offset, count]] of Object.entries(meta.columns))
		columns[name] = new arrays[type](buffer, offset, count);
	return { meta, columns };
}

/* What a snapshot says, with text and stacks decoded when asked for. */
export class Snapshot {
	constructor(buffer) {
		const { meta, columns } = columnsOf(buffer);
		const decoder = new TextDecoder();

		this.columns = columns;
		this.base = BigInt(meta.base);
		this.bytes = buffer.byteLength;
		const lengths = columns.string_length;
		this.stringOffset = new Float64Array(lengths.length + 1);
		for (let i = 0; i < lengths.length; i++)
			this.stringOffset[i + 1] = this.stringOffset[i] + lengths[i];
		this.stringCache = new Map();
		this.decoder = decoder;
		this.deviceEvents = columns.device_events;
		this.devices = this.deviceEvents.length;
		this.eventStart = [0];
		for (const n of this.deviceEvents)
			this.eventStart.push(this.eventStart.at(-1) + n);
		this.actions = Array.from(columns.action_name, (i) => this.string(i));
		this.streams = Array.from(columns.stream_lo, (lo, i) =>
			(BigInt(columns.stream_hi[i]) << 32n) | BigInt(lo));
		this.settings = Array.from(columns.setting_key, (k, i) =>
			[this.string(k), this.string(columns.setting_value[i])]);
		this.title = this.string(columns.title[0]);
	}

	string(i) {
		let text = this.stringCache.get(i);
		if (text === undefined) {
			text = this.decoder.decode(this.columns.string_bytes.subarray(
			    this.stringOffset[i], this.stringOffset[i + 1]));
			this.stringCache.set(i, text);
		}
		return text;
	}

	get strings() {
		return this.columns.string_length.length;
	}

	frame(i) {
		const c = this.columns;
		return {
			name: this.string(c.frame_name[i]),
			file: this.string(c.frame_file[i]),
			line: c.frame_line[i],
		};
	}

	/* The frames of a stack, innermost first; stack 0 has none. */
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
		return value === 0n ? "default stream" :
			value < 65536n ? `stream ${value}` : `stream 0x${value.toString(16)}`;
	}

	pool(i) {
		return `(${this.columns.pool_a[i]}, ${this.columns.pool_b[i]})`;
	}
}
