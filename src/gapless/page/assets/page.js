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

  for (const button of document.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => gapless.pick_step(Number(button.dataset.step)));
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

  const dress = () => {
    gapless.figures.forEach(gapless.dress);
    gapless.recolours.forEach((recolour) => recolour());
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", dress);

  // Paper is light, and nothing can be opened on it: groups of the account and the call trees are.
  // Figures are as wide as the window was (a canvas that is resized now prints blank): they are
  // zoomed to the width of the sheet, or the browser would shrink all the text with them.
  let opened = [];
  addEventListener("beforeprint", () => {
    const root = document.documentElement, main = document.querySelector("main");
    const width = document.querySelector(".chart")?.clientWidth ?? 0;
    root.classList.add("paper");
    root.style.setProperty("--shrunk", Math.min(1, main.clientWidth / width || 1));
    dress();
    gapless.views.forEach((view) => view.paint()); // now: what waits for a frame comes too late
    opened = [...document.querySelectorAll("details.group:not([open]), #calls details.sheet:not([open])")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("paper");
    dress();
    for (const details of opened) details.open = false;
  });

  // The text can be read before the figures are there.
  requestAnimationFrame(() => setTimeout(async () => {
    await gapless.draw_gains();
    await gapless.draw_arms();
    const range = await gapless.draw_steps();
    await gapless.draw_timeline();
    await gapless.draw_forecast();
    await gapless.draw_series(range);
    await gapless.draw_flame();
    document.body.dataset.drawn = "all";
  }));
})();
