// The icicle of the model: zoom by click or keys, search, and the kernels of the chosen module.
"use strict";
(() => {
  const frame = document.getElementById("icicle");
  if (!frame) return;
  const data = JSON.parse(document.getElementById("icicle-data").textContent);
  const boxes = [...frame.querySelectorAll("button")];
  const places = boxes.map((box) => ({
    left: parseFloat(box.style.left), width: parseFloat(box.style.width),
    row: parseFloat(box.style.top),
  }));
  const panel = document.getElementById("icicle-panel");
  const search = document.getElementById("icicle-search");
  const hits = document.getElementById("icicle-found");
  const tiny = 1e-6;

  function zoom(number) {
    const to = places[number];
    boxes.forEach((box, index) => {
      const at = places[index];
      const around = at.row < to.row && at.left <= to.left + tiny
        && at.left + at.width >= to.left + to.width - tiny;
      const inside = at.row >= to.row && at.left >= to.left - tiny
        && at.left + at.width <= to.left + to.width + tiny;
      box.hidden = !around && !inside;
      box.classList.toggle("around", around);
      box.style.left = `${around ? 0 : (100 * (at.left - to.left)) / to.width}%`;
      box.style.width = `${around ? 100 : (100 * at.width) / to.width}%`;
      box.ariaCurrent = index === number ? "true" : null;
      box.tabIndex = index === number ? 0 : -1;
    });
    show(number);
  }

  function show(number) {
    const [path, kind, time, backward, kernels] = data[number];
    const part = (ns) => `${((100 * ns) / time).toFixed(1)} %`;
    const head = document.createElement("h3");
    head.textContent = kind && kind !== path ? `${path} (${kind})` : path;
    const about = document.createElement("p");
    about.className = "note";
    about.textContent = `${amount(time)} of GPU time`
      + (data[0][3] ? `, ${part(backward)} of it backward` : "")
      + ` - ${((100 * time) / data[0][2]).toFixed(1)} % of all kernels`;
    const table = document.createElement("table"), body = table.createTBody();
    const top = table.createTHead().insertRow();
    for (const name of ["Kernel", "Work", "Time", "Share", "Launches"]) {
      const cell = document.createElement("th");
      cell.textContent = name;
      cell.scope = "col";
      if (!["Kernel", "Work"].includes(name)) cell.className = "number";
      top.append(cell);
    }
    for (const [name, work, ns, count] of kernels) {
      const row = body.insertRow();
      for (const text of [name, work, amount(ns), part(ns), count ?? ""]) {
        const cell = row.insertCell();
        cell.textContent = text;
        if (row.cells.length > 2) cell.className = "number";
        else if (row.cells.length === 1) cell.title = name;
      }
    }
    const scroll = document.createElement("div");
    scroll.className = "scroll";
    scroll.append(table);
    panel.replaceChildren(head, about, scroll);
  }

  const move = (number, step) => {
    const shown = boxes.filter((box) => !box.hidden);
    const next = shown[shown.indexOf(boxes[number]) + step];
    if (next) next.focus();
  };
  frame.addEventListener("click", (event) => {
    const box = event.target.closest("button");
    if (box) zoom(Number(box.dataset.box));
  });
  frame.addEventListener("keydown", (event) => {
    const number = Number(event.target.dataset.box);
    const keys = {
      ArrowRight: () => move(number, 1), ArrowDown: () => move(number, 1),
      ArrowLeft: () => move(number, -1), ArrowUp: () => move(number, -1),
      Escape: () => { zoom(0); boxes[0].focus(); }, Home: () => { zoom(0); boxes[0].focus(); },
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    boxes.forEach((box, index) => {
      const [path, kind, , , kernels] = data[index];
      const names = index ? kernels.map(([name]) => name).join(" ") : "";
      const text = `${path} ${kind} ${names}`.toLowerCase();
      const hit = words.length > 0 && words.every((word) => text.includes(word));
      count += hit ? 1 : 0;
      box.classList.toggle("hit", hit);
    });
    frame.classList.toggle("searched", words.length > 0);
    hits.textContent = words.length ? `${count} of ${boxes.length} boxes` : "";
  });
  zoom(0);
})();
