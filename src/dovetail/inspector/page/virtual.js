// A list of any length; only the visible rows are built.
import { h } from "./dom.js";

const BESIDE = 8;

export function virtual(label, height, draw, picked) {
  const space = h("div", { class: "virtual-space" });
  const rows = h("div", { class: "virtual-rows" });
  space.append(rows);
  const element = h("div", { class: "virtual", role: "listbox", "aria-label": label, tabindex: "0" }, space);
  let items = [];
  let chosen = -1;
  let asked = false;
  let from = -1;
  let to = -1;

  function paint() {
    asked = false;
    const first = Math.max(0, Math.floor(element.scrollTop / height) - BESIDE);
    const last = Math.min(items.length, Math.ceil((element.scrollTop + element.clientHeight) / height) + BESIDE);
    from = first;
    to = last;
    rows.style.transform = `translateY(${first * height}px)`;
    rows.replaceChildren(...items.slice(first, last).map((item, offset) => {
      const index = first + offset;
      const row = draw(item);
      row.style.height = `${height}px`;
      row.setAttribute("role", "option");
      row.setAttribute("aria-posinset", index + 1);
      row.setAttribute("aria-setsize", items.length);
      row.setAttribute("aria-selected", String(index === chosen));
      row.id = `${label}-${index}`;
      // Not "click": a redraw between press and release would select another row.
      row.addEventListener("mousedown", (event) => { if (event.button === 0) take(item); });
      row.addEventListener("click", (event) => { if (!event.detail) take(item); }); // without a mouse
      return row;
    }));
  }

  function later() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(paint);
  }

  function take(item) {
    // The list may have changed without a redraw: select the row that was visible.
    const index = items.indexOf(item);
    if (index < 0) picked(item);
    else pick(index);
  }

  function pick(index) {
    if (index < 0 || index >= items.length) return;
    chosen = index;
    element.setAttribute("aria-activedescendant", `${label}-${index}`);
    const top = index * height;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + height > element.scrollTop + element.clientHeight) element.scrollTop = top + height - element.clientHeight;
    later();
    picked(items[index]);
  }

  element.addEventListener("scroll", later, { passive: true });
  element.addEventListener("keydown", (event) => {
    const page = Math.floor(element.clientHeight / height);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -items.length, End: items.length }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    pick(Math.min(items.length - 1, Math.max(0, chosen + step)));
  });
  new ResizeObserver(later).observe(element);

  return {
    element,
    show(list, { follow = false, fresh = true } = {}) {
      const before = items.length;
      items = list;
      if (fresh) chosen = -1;
      space.style.height = `${items.length * height}px`;
      if (follow) element.scrollTop = items.length * height;
      // Rows outside the visible area are not drawn: there may be a thousand per second.
      if (fresh || follow || before < to || before > items.length || from < 0 || to - from < 2 * BESIDE) later();
    },
    atEnd: () => element.scrollTop + element.clientHeight >= items.length * height - 2 * height,
  };
}
