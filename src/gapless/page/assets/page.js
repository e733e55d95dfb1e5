"use strict";
// What opens, what the keys do, and the figures one after the other.
(() => {
  for (const button of document.querySelectorAll("[data-opens]")) {
    button.addEventListener("click", () => {
      const details = document.getElementById(button.dataset.opens);
      details.open = !details.open;
      if (details.open) details.scrollIntoView({ block: "nearest" });
    });
  }

  for (const button of document.querySelectorAll("[data-moves]")) {
    button.addEventListener("click", () => gapless.move(button.dataset.moves));
  }
  const KEYS = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all" };
  document.getElementById("chart-timeline")?.addEventListener("keydown", (event) => {
    if (KEYS[event.key] === undefined || event.ctrlKey || event.metaKey) return;
    gapless.move(KEYS[event.key]);
    event.preventDefault();
  });

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    gapless.figures.forEach(gapless.dress);
    gapless.recolour_steps?.();
    gapless.redraw_timeline?.();
  });

  // On paper nothing can be opened.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => opened.forEach((details) => { details.open = false; }));

  // The text can be read before the figures are there.
  requestAnimationFrame(() => setTimeout(async () => {
    const range = await gapless.draw_steps();
    await gapless.draw_timeline();
    await gapless.draw_series(range);
    document.body.dataset.drawn = "all";
  }));
})();
