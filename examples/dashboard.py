"""A page that hosts show beside the result (MCP Apps), and a text for all others. ``dovetail run dashboard.py``"""

from dovetail import App, Server

server = Server("dashboard")
PAGE = """<!DOCTYPE html>
<title>Sales</title>
<ul id="months"></ul>
<script>
  addEventListener("message", ({ data }) => {
    if (data?.method !== "ui/notifications/tool-result") return;
    for (const month of data.params.structuredContent.months) {
      const item = document.createElement("li");
      item.textContent = `${month.name}: ${month.sold}`;  // never innerHTML: the data is not ours
      document.getElementById("months").append(item);
    }
  });
  parent.postMessage({ jsonrpc: "2.0", id: 1, method: "ui/initialize", params: {
    protocolVersion: "2026-01-26", appInfo: { name: "sales", version: "1" }, appCapabilities: {} } }, "*");
</script>
"""
SOLD = {"January": 12, "February": 9, "March": 17}
Months = dict[str, list[dict[str, str | int]]]


def in_words(found: Months) -> str:
    """What clients without apps are told."""
    return ", ".join(f"{month['name']}: {month['sold']}" for month in found["months"])


@server.tool(app=App(html=PAGE, prefers_border=True, fallback=in_words), annotations={"readOnlyHint": True})
def sales() -> Months:
    """What was sold, by month."""
    return {"months": [{"name": name, "sold": sold} for name, sold in SOLD.items()]}
