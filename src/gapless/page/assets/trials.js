"use strict";
// What trials measured: intervals of the gains, and the arms one by one.
(() => {
  const { gains = [], arms = {} } = gapless.columns;

  gapless.draw_gains = async () => {
    const element = document.getElementById("chart-gains");
    if (!element) return;
    const bounds = gains.flatMap(({ predicted = [], measured = [] }) => [...predicted, ...measured]);
    const [low, high] = [Math.min(1, ...bounds), Math.max(1, ...bounds)], margin = (high - low || 1) * 0.06;
    const figure = gapless.figure({
      height: gains.length * 34 + 40, tools: "xpan", min_border_left: 10, min_border_right: 20,
      x_range: new Bokeh.Range1d({ start: low - margin, end: high + margin }),
      y_range: new Bokeh.Range1d({ start: gains.length, end: 0 }),
    });
    const shorten = (label) => (label.length > 28 ? `${label.slice(0, 27)}…` : label);
    figure.left[0].ticker = new Bokeh.FixedTicker({ ticks: gains.map((_, row) => row + 0.5) });
    figure.left[0].major_label_overrides = new Map(gains.map(({ label }, row) => [row + 0.5, shorten(label)]));
    figure.add_layout(new Bokeh.Span({ location: 1, dimension: "height", line_color: gapless.colour("ink"), line_dash: "dotted" }));
    for (const [name, shift, colour] of [["predicted", -0.14, "observer"], ["measured", 0.14, "compute"]]) {
      const rows = gains.map((gain, row) => [gain, row + 0.5 + shift]).filter(([gain]) => gain[name]);
      const data = {
        low: rows.map(([gain]) => gain[name][0]), mid: rows.map(([gain]) => gain[name][1]),
        high: rows.map(([gain]) => gain[name][2]), y: rows.map(([, y]) => y), label: rows.map(([gain]) => gain.label),
      };
      const source = new Bokeh.ColumnDataSource({ data }), line_color = gapless.colour(colour);
      const bars = figure.segment({ field: "low" }, { field: "y" }, { field: "high" }, { field: "y" }, { source, line_color, line_width: 4 });
      figure.scatter({ field: "mid" }, { field: "y" }, { source, size: 9, line_color, fill_color: line_color });
      figure.add_tools(new Bokeh.HoverTool({ renderers: [bars], tooltips: `@label, ${name}: @mid{0.00}× [@low{0.00} … @high{0.00}]` }));
    }
    await gapless.show(element, figure);
  };

  gapless.draw_arms = async () => {
    const element = document.getElementById("chart-arms");
    if (!element) return;
    const colours = ["observer", "communication", "host", "sync", "copy", "runtime", "io", "data"];
    const sides = [...new Set(arms.side)].sort();
    const figure = gapless.figure({
      height: 220, tools: "", y_range: new Bokeh.Range1d({ start: 0, end: Math.max(...arms.y) * 1.15 }),
      x_range: new Bokeh.Range1d({ start: -0.7, end: arms.y.length - 0.3 }),
    });
    figure.below[0].ticker = new Bokeh.FixedTicker({ ticks: arms.y.map((_, place) => place) });
    figure.below[0].major_label_overrides = new Map(arms.side.map((side, place) => [place, side]));
    figure.left[0].formatter = new Bokeh.PrintfTickFormatter({ format: `%s ${arms.unit}` });
    const source = new Bokeh.ColumnDataSource({
      data: {
        x: arms.y.map((_, place) => place), y: arms.y, text: arms.text, side: arms.side,
        colour: arms.side.map((side) => gapless.colour(colours[sides.indexOf(side) % colours.length])),
      },
    });
    const bars = figure.vbar({ x: { field: "x" }, top: { field: "y" }, width: 0.7, source, fill_color: { field: "colour" }, line_color: null });
    figure.add_tools(new Bokeh.HoverTool({ renderers: [bars], tooltips: "@side: @text" }));
    await gapless.show(element, figure);
  };
})();
