// Tables sort by their headings, are searched by the field above them, and lead to the timeline.
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

// Columns whose cells name events of the timeline.
const NAMING = ["Kernel", "Name", "Operation", "Collective", "Range"];
const rowsByName = new Map();

const headingsOf = (table) => [...table.tHead.rows[0].cells].map((cell) => cell.textContent.replace(/ \(.*$/, ""));
const textOf = (cell) => cell.title || cell.textContent.trim();

// Give rows links to their events: those of a name that the timeline has, or a longest gap.
function linkRows(timeline) {
  const { names, short, function: functions } = timeline.data;
  const known = new Set([...names, ...Object.values(short), ...Object.values(functions)]);
  for (const table of document.querySelectorAll(".data table[data-table]")) {
    const heads = headingsOf(table), naming = heads.findIndex((head) => NAMING.includes(head));
    const [rank, at, most] = ["Rank", "Longest At", "Max"].map((head) => heads.indexOf(head));
    for (const row of table.tBodies[0].rows) {
      const name = naming < 0 ? "" : textOf(row.cells[naming]);
      if (at >= 0 && rank >= 0) {
        const [number, from, long] = [rank, at, most].map((place) => Number(row.cells[place].dataset.value));
        addLink(row.cells[at], address("at", { rank: number, from: from / 1e6, to: (from + long) / 1e6 }), "Show the longest in the timeline");
      } else if (known.has(name)) {
        if (!rowsByName.has(name)) rowsByName.set(name, { row, title: table.dataset.table });
        addLink(row.cells[naming], address("at", { name }), "Show its events in the timeline");
      }
    }
  }
}

function addLink(cell, href, title) {
  const link = document.createElement("a");
  link.href = href;
  link.className = "go";
  link.title = title;
  link.setAttribute("aria-label", title);
  cell.prepend(link);
}

function tableOf(name) {
  const found = rowsByName.get(name);
  return found && { title: found.title, values: { table: found.title, name } };
}

function openRow({ table, name }) {
  const found = rowsByName.get(name);
  if (!found || found.title !== table) return;
  for (const old of document.querySelectorAll("tr.here")) old.classList.remove("here");
  for (let part = found.row.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  found.row.hidden = false;
  found.row.classList.add("here");
  found.row.scrollIntoView({ block: "center" });
}
