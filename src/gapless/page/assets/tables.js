"use strict";
// Tables that sort by a click on a head and show the rows that hold what is typed.
(() => {
  const SCALES = {
    "%": 1, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
    "MB/s": 1e6, "GB/s": 1e9, ns: 1, µs: 1e3, ms: 1e6, s: 1e9,
  };

  // The number that a cell begins with, in the unit that follows it; null: the cell is no number.
  function number(text) {
    const found = /^[<>±]?\s*(-?[\d,]*\.?\d+)\s*([^\s\d]*)/.exec(text);
    return found ? Number(found[1].replaceAll(",", "")) * (SCALES[found[2]] ?? 1) : null;
  }

  function compare(a, b) {
    const [x, y] = [number(a), number(b)];
    if (x !== null && y !== null) return x - y;
    return a.localeCompare(b);
  }

  function sort(table, column, head) {
    const falls = head.getAttribute("aria-sort") !== "descending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", falls ? "descending" : "ascending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [row.cells[column].textContent, row]);
    const is_absent = (text) => text === "–" || text === "";
    rows.sort(([a], [b]) => {
      if (is_absent(a) || is_absent(b)) return is_absent(a) - is_absent(b);
      return falls ? compare(b, a) : compare(a, b);
    });
    body.append(...rows.map(([, row]) => row));
  }

  function filter(input) {
    const wanted = input.value.toLowerCase();
    for (const row of document.getElementById(input.dataset.filters).tBodies[0].rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
    }
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => sort(table, column, head));
    });
  }
  for (const input of document.querySelectorAll("input[data-filters]")) {
    input.addEventListener("input", () => filter(input));
  }
})();
