// Run a Python Worker in Pyodide: worker.mjs PYODIDE MSGSPEC SOURCE PROJECT
// Prints one line of JSON: what was imported in which time, and the responses to three requests.
import { readFileSync } from "node:fs";

const [, , pyodide, msgspec, source, project] = process.argv;
const { loadPyodide } = await import(`${pyodide}/pyodide.mjs`);
const python = await loadPyodide({ env: { PYTHONDONTWRITEBYTECODE: "1", HOME: "/home/pyodide" } });
for (const [folder, root] of [["/wheels", msgspec], ["/dovetail", source], ["/project", project]]) {
  python.FS.mkdirTree(folder);
  python.FS.mount(python.FS.filesystems.NODEFS, { root }, folder);
}

// Seconds for which this process was ready to run and had no core.
const unserved = () => Number(readFileSync("/proc/self/schedstat", "utf8").split(" ")[1]) / 1e9;

python.runPython(readFileSync(new URL("worker_runtime.py", import.meta.url), "utf8"));
const waited = unserved();
const begun = performance.now();
python.runPython("import dovetail; from dovetail import Context, Server");
const seconds = (performance.now() - begun) / 1e3 - (unserved() - waited);

// A request as a Worker gets it.
async function fetched(method, url, headers, body) {
  const request = new Request(url, { method, headers: JSON.parse(headers), body: body ?? undefined });
  return [request.method, request.url, JSON.stringify([...request.headers]), new Uint8Array(await request.arrayBuffer())];
}

const requests = readFileSync(`${project}/requests.json`, "utf8");
const result = JSON.parse(await python.globals.get("converse")(fetched, requests));
process.stdout.write(JSON.stringify({ ...result, seconds }) + "\n");
process.exit(0);
