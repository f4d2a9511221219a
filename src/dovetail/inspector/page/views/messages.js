import { get, whole } from "../api.js";
import { button, bytes, clock, duration, empty, fill, h, icon, save, tabs } from "../dom.js";
import { plain } from "../result.js";
import { on, store } from "../store.js";
import { differences, tree } from "../tree.js";
import { virtual } from "../virtual.js";

const ROW = 28;
const POLLING = new Set(["ping", "tasks/get", "tasks/list", "tasks/result"]); // methods that are called again and again
const memory = { text: "", kind: "", way: "", all: false, fold: true, pinned: [] };

function headView(head) {
  if (!head) return h("p", { class: "note" }, "This message was not sent over HTTP.");
  const lines = (headers) => Object.entries(headers ?? {}).map(([name, value]) => `${name}: ${value}`).join("\n");
  const parts = [];
  if (head.method) parts.push(plain(`${head.method} ${head.url}\n${lines(head.headers)}`));
  const answer = head.answer ?? (head.status ? head : null);
  if (answer) parts.push(plain(`HTTP ${answer.status}\n${lines(answer.headers)}`));
  if (head.problem) parts.push(h("p", { class: "bad" }, head.problem));
  return h("div", {}, ...parts);
}

function frameRow(row) {
  const [number, at, connection, server, size, kind, method, id, took, subject, failed] = row;
  return h("div", { class: `frame ${failed ? "error" : kind} ${server ? "in" : "out"}${row.folded ? " folded" : ""}`, "data-number": number },
    h("span", { class: "arrow", title: server ? "from the server" : "from the client" }, server ? "←" : "→"), h("span", { class: "time" }, clock(at)), h("span", { class: "kind" }, failed ? "failed" : kind),
    h("span", { class: "method" }, method || "–"), subject ? h("span", { class: "subject", title: subject }, subject) : null, row.folded ? h("span", { class: "chip" }, `× ${row.folded.length}`) : null, h("span", { class: "id" }, id === null ? "" : `#${id}`), h("span", { class: "took" }, took === null ? "" : duration(took)), h("span", { class: "size" }, bytes(size)),
    memory.all ? h("span", { class: "from" }, store.connections.get(connection)?.label ?? "") : null);
}

export function view() {
  const filter = h("input", { type: "search", placeholder: "Filter: method, name, id", "aria-label": "Filter messages", value: memory.text });
  const kind = h("select", { "aria-label": "Kind" }, ...["", "request", "response", "error", "notification", "http", "unreadable"].map((one) => h("option", { value: one }, one || "all kinds")));
  const way = h("select", { "aria-label": "Direction" }, h("option", { value: "" }, "both directions"), h("option", { value: "0" }, "from the client"), h("option", { value: "1" }, "from the server"));
  const all = h("input", { type: "checkbox", checked: memory.all });
  const fold = h("input", { type: "checkbox", checked: memory.fold });
  const follow = h("input", { type: "checkbox", checked: true });
  const count = h("span", { class: "type", role: "status" });
  const pane = h("div", { class: "detail" });
  const pins = h("div", { class: "pins" });
  kind.value = memory.kind;
  way.value = memory.way;
  const list = virtual("frames", ROW, frameRow, show);
  let shown = [];
  let seen = 0;

  function matches(row) {
    if (!memory.all && row[2] !== store.current) return false;
    if (memory.kind && row[5] !== memory.kind) return false;
    if (memory.way && String(row[3]) !== memory.way) return false;
    return !memory.text || row[6].toLowerCase().includes(memory.text) || (row[9] ?? "").toLowerCase().includes(memory.text) || (row[7] !== null && `#${row[7]}`.includes(memory.text)) || row[5].includes(memory.text);
  }

  // Polls that follow each other are one row, which has the newest of them.
  function append(row) {
    const before = shown.at(-1);
    if (!fold.checked || !POLLING.has(row[6])) shown.push(row);
    else if (before && before[6] === row[6] && before[2] === row[2]) {
      const folded = before.folded ?? [before];
      folded.push(row);
      shown[shown.length - 1] = Object.assign([...row], { folded });
    } else shown.push(row);
  }

  function anew() {
    Object.assign(memory, { text: filter.value.toLowerCase(), kind: kind.value, way: way.value, all: all.checked, fold: fold.checked });
    shown = [];
    for (const row of store.frames) if (matches(row)) append(row);
    seen = store.frames.length ? store.frames[store.frames.length - 1][0] : 0;
    list.show(shown, { follow: follow.checked });
    told();
  }

  function more() {
    let at = store.frames.length;
    while (at > 0 && store.frames[at - 1][0] > seen) at -= 1;
    if (at === 0) {
      anew();
      return;
    }
    const fresh = store.frames.slice(at);
    seen = store.frames[store.frames.length - 1]?.[0] ?? seen;
    for (const row of fresh) if (matches(row)) append(row);
    if (shown.length > 132000) shown = shown.slice(-120000);
    list.show(shown, { follow: follow.checked, fresh: false });
    told();
  }

  let saidAt = 0;
  function told() {
    // Do not announce every new number to screen readers.
    const now = performance.now();
    if (now - saidAt < 250 && count.textContent) {
      clearTimeout(told.timer);
      told.timer = setTimeout(told, 260);
      return;
    }
    saidAt = now;
    count.textContent = `${shown.length.toLocaleString("en")} of ${store.frames.length.toLocaleString("en")}`;
  }

  async function show(row) {
    follow.checked = false;
    try {
      const frame = await get("frame", { id: row[0] });
      const place = h("div", { class: "shown" });
      const ways = { decoded: () => (frame.size ? tree(frame.decoded) : headView(frame.head)), raw: () => plain(frame.raw), head: () => headView(frame.head) };
      const bar = tabs("Show the message as", [["decoded", "Decoded"], ["raw", "Raw"], ["head", "HTTP headers"]], "decoded", (id) => fill(place, ways[id]()));
      fill(place, ways.decoded());
      fill(pane, h("div", { class: "block-head" }, h("strong", {}, `Message ${row[0]}`), h("span", { class: "type" }, `${row[5]} ${row[6]}${row[9] ? ` ${row[9]}` : ""}, ${bytes(frame.size)}${row[8] === null ? "" : `, ${duration(row[8])}`}`),
        button([icon("pin"), " Pin"], () => pin(row, frame), { class: "small" }), button("Save", async () => save(`message-${row[0]}.json`, await whole("frame", { id: row[0], whole: 1 })), { class: "small" })),
      row.folded ? foldedRows(row) : null, frame.cut.length ? h("p", { class: "notice" }, "Too large to show in full: save it.") : null, bar, place);
    } catch (error) {
      fill(pane, h("p", { class: "bad" }, error.message));
    }
  }

  function foldedRows(row) {
    return h("details", { class: "folded-rows" }, h("summary", {}, `${row.folded.length} messages are folded here`),
      h("ul", {}, ...row.folded.slice(-200).map((one) => h("li", {}, button(`${one[3] ? "←" : "→"} ${clock(one[1])} ${one[5]} ${one[6]}`, () => show(one), { class: "quiet small" })))));
  }

  function pin(row, frame) {
    if (!memory.pinned.some((one) => one.row[0] === row[0])) memory.pinned.push({ row, frame });
    drawPins();
  }

  function drawPins() {
    const [one, other] = memory.pinned.slice(-2);
    fill(pins, ...memory.pinned.map((each) => h("span", { class: "chip" }, button(`${each.row[0]} ${each.row[6] || each.row[5]}`, () => show(each.row), { class: "quiet small" }),
      button(icon("close"), () => { memory.pinned = memory.pinned.filter((left) => left !== each); drawPins(); }, { class: "quiet square small", "aria-label": `Unpin ${each.row[0]}` }))),
    other ? button(`Compare ${one.row[0]} and ${other.row[0]}`, () => compare(one, other), { class: "small" }) : null);
  }

  function compare(one, other) {
    const marks = differences(one.frame.decoded, other.frame.decoded);
    // Members of the first only were removed; members of the second only were added.
    const back = new Map([...marks].filter(([, kind]) => kind !== "added"));
    fill(pane, h("h2", {}, `Messages ${one.row[0]} and ${other.row[0]}: ${marks.size ? `${marks.size} differences` : "no difference"}`),
      h("div", { class: "side-by-side" }, h("div", {}, h("h3", {}, `Message ${one.row[0]}`), tree(one.frame.decoded, "first", back)), h("div", {}, h("h3", {}, `Message ${other.row[0]}`), tree(other.frame.decoded, "second", marks))));
  }

  filter.addEventListener("input", anew);
  for (const control of [kind, way, all, fold]) control.addEventListener("change", anew);
  list.element.addEventListener("wheel", () => { follow.checked = list.atEnd(); }, { passive: true });
  const offs = [on("frames", more), on("current", anew), on("state", anew)];
  fill(pane, empty("Messages", "All messages in both directions. Select one to see it decoded, raw, and with its HTTP headers; pin two to compare them."));
  drawPins();
  const element = h("div", { class: "bench messages" }, h("div", { class: "bench-list wide" },
    h("div", { class: "bench-filter" }, filter, kind, way, h("label", { class: "inline" }, all, " all servers"), h("label", { class: "inline" }, fold, " fold polling"), h("label", { class: "inline" }, follow, " follow"), count), list.element), h("div", { class: "bench-detail" }, pins, pane));
  requestAnimationFrame(anew);
  return { element, destroy: () => offs.forEach((off) => off()) };
}
