// The token of this run, requests to the inspector, and its event stream.

const KEPT = "dovetail-token";
const given = new URLSearchParams(location.search).get("token");
if (given) {
  sessionStorage.setItem(KEPT, given);
  history.replaceState(null, "", location.pathname + location.hash);
}
export const token = given ?? sessionStorage.getItem(KEPT);

const headers = { "X-Dovetail-Token": token ?? "" };

export class Problem extends Error {
  constructor(error) {
    super(error.message);
    this.details = error;
  }
}

async function read(response) {
  if (response.ok) return response;
  let error = { kind: "failed", message: `HTTP ${response.status}` };
  try {
    const text = await response.text();
    error = response.headers.get("content-type")?.startsWith("application/json") ? JSON.parse(text).error : { ...error, message: text };
  } catch { /* the status says it */ }
  throw new Problem(error);
}

export async function get(path, query = {}) {
  const text = new URLSearchParams(query).toString();
  return (await read(await fetch(`/api/${path}${text ? `?${text}` : ""}`, { headers }))).json();
}

export async function post(path, body = {}) {
  const response = await fetch(`/api/${path}`, {
    method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  return (await read(response)).json();
}

export async function whole(path, query) {
  const text = new URLSearchParams(query).toString();
  return (await read(await fetch(`/api/${path}?${text}`, { headers }))).blob();
}

// Calls `heard` with each batch of events, and `state` with whether it is connected; reconnects automatically.
export async function listen(heard, state) {
  for (let pause = 250; ; pause = Math.min(pause * 2, 5000)) {
    try {
      const response = await read(await fetch("/events", { headers }));
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      state(true);
      pause = 250;
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines) if (line.startsWith("data: ")) heard(JSON.parse(line.slice(6)));
      }
    } catch (error) {
      state(false, error);
      if (error instanceof Problem) return;
    }
    state(false);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}
