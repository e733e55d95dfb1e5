// The tab: which run or trace, and its page below. TensorBoard calls render() in a frame of its own.
const address = (name) => new URL(name, import.meta.url).href;

function make(tag, properties, style) {
  const element = Object.assign(document.createElement(tag), properties);
  Object.assign(element.style, style);
  return element;
}

export async function render() {
  const entries = await (await fetch(address("entries"))).json();
  Object.assign(document.body.style, { margin: 0, display: "flex", flexDirection: "column", height: "100vh", fontFamily: "system-ui, sans-serif" });
  const bar = make("div", {}, { padding: "8px 12px", display: "flex", gap: "8px", alignItems: "center", fontSize: "14px", background: "light-dark(#f5f6f7, #1f2429)", color: "light-dark(#1d2126, #e6e8eb)" });
  document.documentElement.style.colorScheme = "light dark"; // as the page below
  document.body.append(bar);
  if (!entries.length) {
    bar.append("There is no run and no trace below the folder of logs: gapless run, or torch.profiler's tensorboard_trace_handler, write some.");
    return;
  }
  const choice = make("select", { id: "entry", ariaLabel: "Run or trace" }, { font: "inherit", maxWidth: "70vw" });
  for (const { name, kind } of entries) choice.append(make("option", { value: name, textContent: `${name} (${kind})` }, {}));
  const state = make("span", { id: "state", ariaLive: "polite" }, {});
  const frame = make("iframe", { id: "page", title: "The page" }, { flex: "1", border: 0, width: "100%" });
  const show = () => {
    state.textContent = "reading …";
    frame.src = `${address("page")}?name=${encodeURIComponent(choice.value)}`;
  };
  frame.addEventListener("load", () => { state.textContent = ""; });
  choice.addEventListener("change", show);
  bar.append("run or trace", choice, state);
  document.body.append(frame);
  show();
}
