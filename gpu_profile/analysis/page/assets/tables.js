// Tables sort by their headings and are searched by the field above them.
"use strict";
for (const block of document.querySelectorAll(".data")) {
  const table = block.querySelector("table"), body = table.tBodies[0];
  const rows = [...body.rows], headings = [...table.tHead.rows[0].cells];
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
  };
  const compare = (column, sign) => (one, other) => {
    const a = value(one, column), b = value(other, column);
    if (a === "" || b === "") return (a === "") - (b === "");
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), "en", { numeric: true });
  };
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const numeric = heading.classList.contains("number");
      const last = heading.ariaSort || (numeric ? "ascending" : "descending");
      const next = last === "ascending" ? "descending" : "ascending";
      for (const other of headings) other.ariaSort = null;
      heading.ariaSort = next;
      body.append(...rows.sort(compare(column, next === "ascending" ? 1 : -1)));
    });
  });
  if (rows.length < 8) continue;
  const search = document.createElement("input");
  search.type = "search";
  search.className = "search";
  search.placeholder = "Search these rows";
  search.setAttribute("aria-label", `Search ${table.caption.textContent}`);
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
  block.prepend(search);
}
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});
