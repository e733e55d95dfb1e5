"use strict";
// Timelines: bars of the ledger, threads and streams. What is thinner than a pixel is merged, for
// the part that is in sight, each time it changes; so a zoom shows what the whole hides.
(() => {
  const ROW = 15; // pixels
  const COLOURS = { account: "unknown", thread: "soft", stream: "unknown", worker: "link" }; // without a leaf

  // One row of the figure for each strip, and for each level of nested events in it.
  function lay_out(strips) {
    const rows = [];
    for (const strip of strips) {
      const levels = strip.depth.reduce((most, level) => Math.max(most, level), 0) + 1;
      strip.top = rows.length;
      for (let level = 0; level < levels; level++) rows.push(level ? "" : strip.title);
      rows.push(null); // a gap
    }
    rows.pop();
    return rows;
  }

  // The bars in sight; neighbours of one row that are thinner than a pixel become one, in the colour
  // of the longest of them.
  function bars_within(picture, begin, end, pixel) {
    const data = { left: [], right: [], y: [], leaf: [], group: [], name: [], count: [], kind: [] };
    for (const strip of picture.strips) {
      const open = new Map();
      for (let i = 0; i < strip.start.length; i++) {
        const [left, right] = [strip.start[i], strip.end[i]];
        if (right < begin || left > end) continue;
        const level = strip.depth[i], thin = right - left < pixel;
        const last = open.get(level);
        if (thin && last !== undefined && data.right[last.at] - data.left[last.at] < pixel && right - data.left[last.at] < 2 * pixel) {
          const { at } = last;
          data.right[at] = Math.max(data.right[at], right);
          data.count[at] += 1;
          if (right - left > last.length) {
            last.length = right - left;
            data.leaf[at] = strip.leaf[i];
            data.group[at] = strip.group[i];
            data.name[at] = strip.name[i];
          }
          continue;
        }
        open.set(level, { at: data.left.length, length: right - left });
        data.left.push(left); data.right.push(right); data.y.push(strip.top + level + 0.5);
        data.leaf.push(strip.leaf[i]); data.group.push(strip.group[i]); data.name.push(strip.name[i]); data.count.push(1);
        data.kind.push(strip.kind);
      }
    }
    return data;
  }

  function length_text(ns) {
    if (ns >= 1e9) return `${(ns / 1e9).toFixed(3)} s`;
    if (ns >= 1e6) return `${(ns / 1e6).toFixed(3)} ms`;
    return ns >= 1e3 ? `${(ns / 1e3).toFixed(2)} µs` : `${ns} ns`;
  }

  function what(picture, data, i) {
    const group = data.group[i] < 0 ? null : gapless.columns.groups[picture.groups[data.group[i]]];
    const cause = data.leaf[i] < 0 ? group : `${group}: ${picture.leaves[data.leaf[i]]}`;
    const parts = [cause, data.name[i] < 0 ? null : picture.names[data.name[i]]];
    const text = parts.filter((part) => part !== null).join(" · ") || "nothing recorded";
    return data.count[i] > 1 ? `${data.count[i]} bars, the longest: ${text}` : text;
  }

  function colours(picture, data) {
    const found = {};
    const name = (i) => (data.group[i] < 0 ? COLOURS[data.kind[i]] : picture.groups[data.group[i]]);
    const colour = (group) => (found[group] ??= gapless.colour(group));
    return data.left.map((_, i) => colour(name(i)));
  }

  function columns(picture, begin, end, width) {
    const data = bars_within(picture, begin, end, (end - begin) / width);
    return {
      ...data,
      x1: data.left.map((ns) => ns / 1e6), x2: data.right.map((ns) => ns / 1e6),
      colour: colours(picture, data),
      text: data.left.map((_, i) => what(picture, data, i)),
      length: data.left.map((left, i) => length_text(data.right[i] - left)),
    };
  }

  function write_legend(picture, legend) {
    const groups = new Set(picture.strips.flatMap((strip) => strip.group.filter((group) => group >= 0).map((group) => picture.groups[group])));
    for (const [group, name] of Object.entries(gapless.columns.groups)) {
      if (!groups.has(group)) continue;
      const entry = document.createElement("span"), swatch = document.createElement("i");
      swatch.className = `swatch g-${group}`;
      entry.append(swatch, name);
      legend.append(entry);
    }
  }

  // Draw a picture, and return its range and how to colour it anew. ids: of the chart, of what a
  // click writes, of the legend.
  async function draw(picture, ids) {
    const element = document.getElementById(ids.chart);
    if (!picture || !element) return null;
    const rows = lay_out(picture.strips), length = picture.length / 1e6;
    const range = new Bokeh.Range1d({ start: 0, end: length, bounds: [0, length], min_interval: 1e-6 });
    const figure = gapless.figure({
      height: rows.length * ROW + 30, x_range: range, y_range: new Bokeh.Range1d({ start: rows.length, end: 0 }),
      tools: "xpan,tap", min_border_left: 10,
    });
    const ticks = rows.map((title, row) => [row + 0.5, title]).filter(([, title]) => title);
    const left = figure.left[0];
    left.ticker = new Bokeh.FixedTicker({ ticks: ticks.map(([row]) => row) });
    const room = element.clientWidth < 600 ? 16 : 28; // characters
    const shorten = (title) => (title.length > room ? `${title.slice(0, room - 1)}…` : title);
    left.major_label_overrides = new Map(ticks.map(([row, title]) => [row, shorten(title)]));
    figure.center.forEach((grid) => { grid.visible = grid.dimension === 0; });
    const width = () => Math.max(200, figure.inner_width || element.clientWidth);
    const source = new Bokeh.ColumnDataSource({ data: columns(picture, 0, picture.length, element.clientWidth) });
    const bars = figure.hbar({ y: { field: "y" }, left: { field: "x1" }, right: { field: "x2" }, height: 0.86,
      source, fill_color: { field: "colour" }, line_color: null, nonselection_fill_alpha: 1, nonselection_line_color: null });
    figure.add_tools(
      new Bokeh.HoverTool({ renderers: [bars], tooltips: "@length: @text" }),
      new Bokeh.WheelZoomTool({ dimensions: "width", modifiers: { ctrl: true } }),
    );
    for (const [, start] of picture.steps) {
      figure.add_layout(new Bokeh.Span({ location: start / 1e6, dimension: "height", line_color: gapless.colour("ink"), line_dash: "dotted", line_width: 1 }));
    }
    let waiting = false;
    const redraw = () => {
      source.selected.indices = [];
      source.data = columns(picture, range.start * 1e6, range.end * 1e6, width());
      element.dataset.bars = String(source.data.left.length);
    };
    const redraw_soon = () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        redraw();
      });
    };
    range.properties.start.change.connect(redraw_soon);
    range.properties.end.change.connect(redraw_soon);
    source.selected.properties.indices.change.connect(() => {
      const [index] = source.selected.indices;
      if (index === undefined) return;
      const { text, length: lengths, left: starts } = source.data;
      document.getElementById(ids.picked).textContent = `${lengths[index]} at ${length_text(starts[index])}: ${text[index]}`;
    });
    await gapless.show(element, figure);
    element.dataset.bars = String(source.data.left.length);
    write_legend(picture, document.getElementById(ids.legend));
    gapless.recolours.push(redraw);
    return range;
  }

  const { picture, forecast } = gapless.columns;
  gapless.draw_timeline = async () => {
    gapless.timeline_range = await draw(picture, { chart: "chart-timeline", picked: "picked-bar", legend: "legend" });
  };
  gapless.draw_forecast = async () => {
    await draw(forecast, { chart: "chart-forecast", picked: "picked-forecast", legend: "legend-forecast" });
  };

  const set = (start, end) => {
    const range = gapless.timeline_range, length = picture.length / 1e6;
    const span = Math.min(Math.max(end - start, 1e-5), length);
    const first = Math.min(Math.max(start, 0), length - span);
    range.setv({ start: first, end: first + span });
  };
  gapless.show_span = (start, end) => {
    set(start / 1e6, end / 1e6);
    document.getElementById("timeline").scrollIntoView();
  };
  gapless.move = (way) => {
    const { start, end } = gapless.timeline_range, span = end - start, middle = (start + end) / 2;
    const moves = {
      in: () => set(middle - span / 4, middle + span / 4), out: () => set(middle - span, middle + span),
      left: () => set(start - span / 4, end - span / 4), right: () => set(start + span / 4, end + span / 4),
      all: () => set(0, picture.length / 1e6),
    };
    moves[way]();
  };
})();
