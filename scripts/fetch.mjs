/*
 * Fetch a file that is known by its hash. Usage: node fetch.mjs URL SHA512 OUT,
 * the hash in base64.
 */
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";

const [url, hash, out] = process.argv.slice(2);
try {
	const answer = await fetch(url);
	if (!answer.ok)
		throw new Error(`${url}: ${answer.status} ${answer.statusText}`);
	const bytes = Buffer.from(await answer.arrayBuffer());
	if (createHash("sha512").update(bytes).digest("base64") !== hash)
		throw new Error(`${url} is not the file it was`);
	writeFileSync(out, bytes);
} catch (error) {
	console.error(`fetch.mjs: ${error.cause ?? error.message}`);
	process.exit(1);
}
