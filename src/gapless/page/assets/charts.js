"use strict";
// Figures of BokehJS in the colours of the page, and step times with the sampled series below.
const gapless = { figures: [], views: [], recolours: [], columns: JSON.parse(document.getElementById("charts").textContent) };

gapless.colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

gapless.figure = (options) => {
  const figure = Bokeh.Plotting.figure({
    sizing_mode: "stretch_width", toolbar_location: null, min_border_left: 60, min_border_right: 10,
    output_backend: "canvas", ...options,
  });
  gapless.figures.push(figure);
  return figure;
};

// What the style sheet cannot reach: the canvas. Called again when light turns to dark.
gapless.dress = (figure) => {
  const [ink, line] = [gapless.colour("ink"), gapless.colour("line")];
  figure.background_fill_color = null;
  figure.border_fill_color = null;
  figure.outline_line_color = line;
  if (figure.title) figure.title.text_color = ink;
  for (const axis of [...figure.below, ...figure.left]) {
    Object.assign(axis, {
      axis_label_text_color: ink, major_label_text_color: ink, axis_line_color: line,
      major_tick_line_color: line, minor_tick_line_color: null, axis_label_text_font_style: "normal",
    });
  }
  for (const grid of figure.center) grid.grid_line_color = line;
};

// Two documents can share no range: what one shows, the other follows.
gapless.link = (range, other) => {
  for (const [from, to] of [[range, other], [other, range]]) {
    const follow = () => {
      if (from.start !== to.start || from.end !== to.end) to.setv({ start: from.start, end: from.end });
    };
    from.properties.start.change.connect(follow);
    from.properties.end.change.connect(follow);
  }
};

// Several figures are one document, below one another: that is drawn sooner than many.
gapless.show = async (element, ...figures) => {
  figures.forEach(gapless.dress);
  const root = figures.length > 1 ? new Bokeh.Column({ children: figures, sizing_mode: "stretch_width" }) : figures[0];
  const view = await Bokeh.Plotting.show(root, element);
  gapless.views.push(...(figures.length > 1 ? view.child_views : [view]));
};

(() => {
  const { steps, series } = gapless.columns;
  const STRETCH = 20; // times the median step: the longest one that a linear scale still shows well

  gapless.draw_steps = async () => {
    const element = document.getElementById("chart-steps");
    if (!steps || !element) return null;
    const n = steps.x.length;
    const end = steps.end ?? Math.max(...steps.x);
    const begin = steps.end === undefined ? Math.min(...steps.x) : 0;
    const margin = (end - begin || 1) * 0.02;
    const range = new Bokeh.Range1d({ start: begin - margin, end: end + margin, bounds: "auto" });
    // One step that takes twenty times as long as others would press these into a line.
    const sorted = [...steps.y].sort((a, b) => a - b), top = sorted.at(-1), median = sorted[n >> 1];
    const is_wide = top > STRETCH * median && sorted[0] > 0;
    const figure = gapless.figure({
      height: 220, x_range: range, tools: "xpan,xbox_zoom,reset,tap",
      y_axis_type: is_wide ? "log" : "linear",
      y_range: new Bokeh.Range1d(is_wide ? { start: sorted[0] * 0.8, end: top * 1.3 } : { start: 0, end: top * 1.08 }),
    });
    if (is_wide) figure.left[0].formatter = new Bokeh.BasicTickFormatter({ use_scientific: false });
    if (is_wide) document.querySelector("#steps-title small").textContent += ", on a logarithmic scale";
    const colour = (i) => (steps.outlier[i] ? "data" : steps.profiled[i] ? "observer" : "communication");
    const source = new Bokeh.ColumnDataSource({
      data: {
        x: steps.x, y: steps.y, text: steps.text, number: steps.number,
        size: steps.outlier.map((is) => (is ? 9 : 5)),
        colour: steps.x.map((_, i) => gapless.colour(colour(i))),
      },
    });
    const glyph = figure.scatter({ field: "x" }, { field: "y" }, {
      source, size: { field: "size" }, line_color: { field: "colour" }, fill_color: { field: "colour" },
      fill_alpha: 0.45, line_alpha: 0.9,
    });
    gapless.recolours.push(() => {
      source.data = { ...source.data, colour: steps.x.map((_, i) => gapless.colour(colour(i))) };
    });
    figure.add_tools(new Bokeh.HoverTool({ renderers: [glyph], tooltips: "step @number: @text" }));
    source.selected.properties.indices.change.connect(() => {
      const [index] = source.selected.indices;
      if (index !== undefined) gapless.pick_step(index);
    });
    await gapless.show(element, figure);
    element.dataset.points = String(n);
    return range;
  };

  gapless.pick_step = (index) => {
    const place = document.getElementById("picked-step");
    place.textContent = `step ${steps.number[index]}: ${steps.text[index]} `;
    const span = steps.span[index];
    if (span) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "show in the timeline";
      button.addEventListener("click", () => gapless.show_span(span[0], span[1]));
      place.append(button);
    }
  };

  gapless.draw_series = async (range) => {
    const element = document.getElementById("chart-series");
    if (!series || !element) return;
    const end = series[0].end;
    const x_range = new Bokeh.Range1d(range ? { start: range.start, end: range.end } : { start: 0, end });
    const figures = series.map(({ title, unit, points, ceiling }) => {
      const top = ceiling ?? Math.max(...points.filter((y) => y !== null)) * 1.1;
      const figure = gapless.figure({
        height: 84, tools: "xpan", x_axis_type: null,
        x_range,
        y_range: new Bokeh.Range1d({ start: 0, end: top || 1 }), title: `${title}, ${unit}`,
      });
      figure.left[0].ticker = new Bokeh.BasicTicker({ desired_num_ticks: 3 });
      Object.assign(figure.title, { text_font_size: "12px", text_font_style: "normal"});
      // A stretch without a sample is no point: the line goes from sample to sample.
      const sampled = points.map((value, i) => [((i + 0.5) * end) / points.length, value]).filter(([, value]) => value !== null);
      const x = sampled.map(([place]) => place), y = sampled.map(([, value]) => value);
      const line = figure.line(x, y, { line_color: gapless.colour("communication"), line_width: 1.5 });
      figure.scatter(x, y, { size: 3, line_color: null, fill_color: gapless.colour("communication") });
      figure.add_tools(new Bokeh.HoverTool({ renderers: [line], mode: "vline", tooltips: "@x{0.0} s: @y{0,0.0}" }));
      return figure;
    });
    await gapless.show(element, ...figures);
    if (range) gapless.link(range, x_range);
  };
})();
