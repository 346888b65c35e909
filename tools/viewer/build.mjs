/*
 * Make the page: one file that contains its script and its style, and a mark at
 * the place for the data. Usage: node build.mjs MODULES OUT. MODULES is the
 * folder that `npm ci` filled.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const [modules, out] = process.argv.slice(2);
if (!out) {
	console.error("usage: node build.mjs MODULES OUT");
	process.exit(2);
}
const from = resolve(modules, "node_modules");
const { build } = createRequire(join(from, "x.js"))("esbuild");

const result = await build({
	entryPoints: [join(here, "src/main.js")],
	bundle: true,
	minify: true,
	write: false,
	outdir: "page",
	format: "iife",
	target: ["es2022"],
	charset: "utf8",
	legalComments: "inline",
	nodePaths: [from],
	logLevel: "warning",
	metafile: true,
});

function output(kind) {
	return result.outputFiles.find((f) => f.path.endsWith(kind)).text;
}

/* Escape texts that would end the script element early. */
const script = output(".js").replaceAll("</script", "<\\/script")
    .replaceAll("<!--", "<\\!--");
const style = output(".css");

/* The licences of the bundled libraries, which the page must contain. */
function licences() {
	const names = new Set();
	for (const path of Object.keys(result.metafile.inputs)) {
		const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
		if (found)
			names.add(found[1]);
	}
	return [...names].sort().map((name) => {
		const folder = join(from, name);
		const file = readdirSync(folder).find((f) => /^licen[cs]e/i.test(f));
		const { version } = JSON.parse(readFileSync(
		    join(folder, "package.json"), "utf8"));
		const text = readFileSync(join(folder, file), "utf8").trim();
		return `${name} ${version}\n\n${text}\n`;
	}).join("\n\n");
}

function escape(text) {
	return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}

function hash(text) {
	return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

const policy = [
	"default-src 'none'",
	`script-src ${hash(script)}`,
	`style-src ${hash(style)}`,
	"base-uri 'none'",
	"form-action 'none'",
].join("; ");

const page = readFileSync(join(here, "src/page.html"), "utf8")
    .replace("%CSP%", () => policy)
    .replace("%STYLE%", () => style)
    .replace("%LICENCES%", () => escape(licences()))
    .replace("%SCRIPT%", () => script);
writeFileSync(out, page);
