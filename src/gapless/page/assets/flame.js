"use strict";
// The flame view: what was called, from the script at the top down to what spent the time. A bar is as
// wide as its share; a click makes it as wide as the view, a search lights up what holds the text.
(() => {
  const trees = gapless.columns.calls ?? [];
  const ROW = 18, CHARACTER = 6.7, WIDE = 12; // pixels; a bar so wide decides how deep the view is
  const state = { tree: 0, zoomed: -1, picked: -1, text: "" };
  let figure, source, labels;

  const tree = () => trees[state.tree];
  const element = () => document.getElementById("chart-calls");
  const span = () => {
    const { start, total, seen } = tree();
    return state.zoomed < 0 ? [0, seen] : [start[state.zoomed], start[state.zoomed] + total[state.zoomed]];
  };
  const share = (ns) => `${((100 * ns) / tree().seen).toFixed(1)} %`;
  const length = (ns) => (ns >= 1e9 ? `${(ns / 1e9).toFixed(2)} s` : `${(ns / 1e6).toFixed(1)} ms`);
  const describe = (bar) => {
    const { name, place, total, own } = tree();
    return `${name[bar]}: ${length(total[bar])}, ${share(total[bar])}; itself ${share(own[bar])}${place[bar] ? ` · ${place[bar]}` : ""}`;
  };
  const matches = (bar) => {
    const { name, place } = tree();
    return state.text !== "" && `${name[bar]} ${place[bar]}`.toLowerCase().includes(state.text);
  };

  // The bars in sight that are wider than half a pixel; those around the view fill its width.
  function columns() {
    const { name, place, start, total, own, depth, kind, kinds } = tree();
    const [begin, end] = span(), width = Math.max(300, element().clientWidth - 24), pixel = (end - begin) / width;
    const data = { bar: [], left: [], right: [], top: [], bottom: [], colour: [], line: [], name: [], place: [], total: [], own: [], share: [], label: [], x: [], y: [] };
    const colours = Object.fromEntries(kinds.map((one) => [one, gapless.colour(`call-${one}`)]));
    const [ink, lit, line] = [gapless.colour("ink"), gapless.colour("call-lit"), gapless.colour("paper")];
    for (let bar = 0; bar < name.length; bar++) {
      const left = Math.max(start[bar], begin), right = Math.min(start[bar] + total[bar], end);
      if (right - left < pixel / 2) continue;
      const room = Math.floor(((right - left) / pixel - 6) / CHARACTER);
      const text = name[bar].length <= room ? name[bar] : room < 4 ? "" : `${name[bar].slice(0, room - 1)}…`;
      data.bar.push(bar); data.left.push(left); data.right.push(right);
      data.top.push(depth[bar]); data.bottom.push(depth[bar] + 1);
      data.colour.push(matches(bar) ? lit : colours[kinds[kind[bar]]]);
      data.line.push(bar === state.picked ? ink : line);
      data.name.push(name[bar]); data.place.push(place[bar]); data.total.push(length(total[bar]));
      data.share.push(share(total[bar])); data.own.push(share(own[bar]));
      data.label.push(text); data.x.push(left + 4 * pixel); data.y.push(depth[bar] + 0.5);
    }
    return data;
  }

  const redraw = () => {
    const data = columns(), [start, end] = span();
    const pixel = (end - start) / Math.max(300, element().clientWidth - 24);
    const levels = Math.max(3, ...data.bottom.filter((_, i) => data.right[i] - data.left[i] > WIDE * pixel));
    figure.x_range.setv({ start, end });
    figure.y_range.setv({ start: levels, end: 0 });
    figure.height = levels * ROW + 10;
    source.data = data;
    element().dataset.bars = String(data.bar.length);
  };

  const say = (text) => { document.getElementById("picked-call").textContent = text; };
  const pick = (bar) => {
    state.picked = bar;
    if (bar >= 0) say(describe(bar));
  };
  const zoom = (bar) => {
    state.zoomed = bar;
    pick(bar);
    redraw();
  };

  const search = (text) => {
    state.text = text.toLowerCase();
    const { name, start, total } = tree();
    let n = 0, ns = 0, until = -1; // a match within a match is counted once: bars are in order
    for (let bar = 0; bar < name.length; bar++) {
      if (!matches(bar)) continue;
      n += 1;
      if (start[bar] < until) continue;
      ns += total[bar];
      until = start[bar] + total[bar];
    }
    say(text === "" ? "" : `${n} ${n === 1 ? "call holds" : "calls hold"} “${text}”: ${share(ns)}`);
    redraw();
  };

  // Keys: up to the caller, down to what took longest of it, to the sides among what one calls.
  const step = (key) => {
    const { parent, start, depth } = tree(), { picked } = state;
    const of = (caller) => parent.flatMap((number, bar) => (number === caller ? [bar] : []));
    if (picked < 0) return 0;
    const beside = of(parent[picked]), place = beside.indexOf(picked);
    if (key === "ArrowUp") return parent[picked] < 0 ? picked : parent[picked];
    if (key === "ArrowDown") return of(picked)[0] ?? picked;
    return beside[place + (key === "ArrowRight" ? 1 : -1)] ?? picked;
  };
  const press = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow")) {
      pick(step(event.key));
      redraw();
    } else if (event.key === "Enter") zoom(state.picked);
    else if (event.key === "0" || event.key === "Escape") zoom(-1);
    else return;
    event.preventDefault();
  };

  gapless.draw_flame = async () => {
    if (!trees.length || !element()) return;
    const [start, end] = span();
    source = new Bokeh.ColumnDataSource({ data: columns() });
    figure = gapless.figure({
      height: 100, tools: "tap", min_border_left: 4, min_border_right: 4, min_border_top: 0, min_border_bottom: 0,
      x_axis_type: null, y_axis_type: null,
      x_range: new Bokeh.Range1d({ start, end }), y_range: new Bokeh.Range1d({ start: 3, end: 0 }),
    });
    const field = (name) => ({ field: name });
    const bars = figure.quad(field("left"), field("right"), field("bottom"), field("top"), {
      source, fill_color: field("colour"), line_color: field("line"), line_width: 1,
      nonselection_fill_alpha: 1, nonselection_line_alpha: 1,
    });
    labels = figure.text(field("x"), field("y"), field("label"), {
      source, text_font_size: "11px", text_baseline: "middle", text_color: gapless.colour("call-ink"),
      text_font: "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace", nonselection_text_alpha: 1,
    });
    for (const grid of figure.center) grid.visible = false;
    figure.add_tools(new Bokeh.HoverTool({ renderers: [bars], tooltips: [["", "@name"], ["", "@place"], ["with calls", "@total, @share"], ["itself", "@own"]] }));
    source.selected.properties.indices.change.connect(() => {
      const [index] = source.selected.indices;
      if (index === undefined) return;
      const bar = source.data.bar[index];
      source.selected.indices = [];
      zoom(bar);
    });
    gapless.recolours.push(() => {
      labels.glyph.text_color = gapless.colour("call-ink");
      redraw();
    });
    await gapless.show(element(), figure);
    redraw();
    element().addEventListener("keydown", press);
    document.getElementById("calls-all").addEventListener("click", () => zoom(-1));
    document.getElementById("calls-out").addEventListener("click", () => zoom(state.zoomed < 0 ? -1 : tree().parent[state.zoomed]));
    document.getElementById("calls-search").addEventListener("input", (event) => search(event.target.value));
    document.getElementById("calls-tree")?.addEventListener("change", (event) => {
      Object.assign(state, { tree: Number(event.target.value), zoomed: -1, picked: -1 });
      say("");
      redraw();
    });
    let width = element().clientWidth;
    new ResizeObserver(() => {
      if (Math.abs(element().clientWidth - width) < 2) return;
      width = element().clientWidth;
      requestAnimationFrame(redraw);
    }).observe(element());
  };
  gapless.flame_state = state;
})();
