// Mouse, touch, keys and buttons of the timeline.
"use strict";
function control(timeline) {
  const { canvas, tip } = timeline;
  const keys = {
    ArrowLeft: () => timeline.pan(-0.2), ArrowRight: () => timeline.pan(0.2),
    "+": () => timeline.zoom(0.6), "=": () => timeline.zoom(0.6), "-": () => timeline.zoom(1 / 0.6),
    0: () => timeline.show(0, timeline.data.end), Home: () => timeline.show(0, timeline.data.end),
    n: () => stepTo(timeline, true), p: () => stepTo(timeline, false),
    Escape: () => pick(timeline, null),
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  for (const button of document.querySelectorAll("[data-key]")) {
    button.addEventListener("click", () => keys[button.dataset.key]());
  }

  const touching = new Map();
  let apart = 0, moved = 0;
  canvas.addEventListener("pointerdown", (event) => {
    touching.set(event.pointerId, event.offsetX);
    canvas.setPointerCapture(event.pointerId);
    apart = 0;
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = touching.get(event.pointerId);
    if (before === undefined) return point(event);
    touching.set(event.pointerId, event.offsetX);
    moved += Math.abs(event.offsetX - before);
    const at = [...touching.values()];
    if (at.length === 1) {
      const by = timeline.time(before) - timeline.time(event.offsetX);
      timeline.show(timeline.t0 + by, timeline.t1 + by);
    } else {
      const now = Math.max(20, Math.abs(at[0] - at[1]));
      if (apart) timeline.zoom(apart / now, timeline.time((at[0] + at[1]) / 2));
      apart = now;
    }
    return undefined;
  });
  canvas.addEventListener("click", (event) => {
    const at = moved < 4 && pointAt(timeline, event.offsetX, event.offsetY);
    const found = at && !isBinned(timeline, at) && eventAt(timeline, at);
    if (found) {
      const { list, at: row } = found;
      pick(timeline, { ...at, list, at: row, start: list.start[row], end: list.end[row] });
    } else if (moved < 4) pick(timeline, null);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => {
      touching.delete(event.pointerId);
      apart = 0;
    });
  }
  canvas.addEventListener("dblclick", (event) => timeline.zoom(0.3, timeline.time(event.offsetX)));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    timeline.zoom(event.deltaY > 0 ? 1.25 : 0.8, timeline.time(event.offsetX));
  }, { passive: false });

  function point(event) {
    const text = describe(timeline, event.offsetX, event.offsetY);
    tip.hidden = !text;
    if (!text) return;
    tip.innerText = text;
    const room = timeline.root.clientWidth - tip.offsetWidth - 4;
    tip.style.left = `${Math.max(4, Math.min(event.offsetX + 14, room))}px`;
    tip.style.top = `${event.offsetY + AXIS + 18}px`;
  }
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
}

function fill(select, entries) {
  select.append(...entries.map(([value, label]) => new Option(label, value)));
}

// Show a step. Of several runs the same step of each begins at one time.
function showStep(timeline, leads, row) {
  const [first] = leads, start = first.stepStart[row];
  for (const rank of timeline.data.ranks) rank.shift = leads[rank.side].stepStart[row] - start;
  const long = Math.max(...leads.map((rank) => rank.stepEnd[row] - rank.stepStart[row]));
  timeline.show(start - 0.04 * long, start + 1.04 * long);
}

function choices(timeline) {
  const steps = document.getElementById("timeline-step"), { ranks: all, sides } = timeline.data;
  const leads = sides.map((_, side) => all.find((rank) => rank.side === side)).filter(Boolean);
  const rows = [...Array(Math.min(...leads.map((rank) => rank.stepStart.length))).keys()];
  fill(steps, rows.map((row) => [row, `step ${row + 1}`]));
  steps.hidden = !rows.length;
  steps.addEventListener("change", () => {
    const row = Number(steps.value);
    if (steps.value === "") return timeline.show(0, timeline.data.end);
    return showStep(timeline, leads, row);
  });
  const windows = document.getElementById("timeline-window"), { windows: edges } = timeline.data;
  fill(windows, [["", "all windows"], ...edges.map(([number], row) => [row, `window ${number}`])]);
  windows.hidden = !edges.length;
  windows.addEventListener("change", () => {
    if (windows.value === "") return timeline.show(0, timeline.data.end);
    const [, start, end] = edges[Number(windows.value)];
    return timeline.show(start, end);
  });
  const groups = document.getElementById("timeline-ranks"), { ranks, most } = timeline.data;
  groups.hidden = ranks.length <= most;
  const starts = Array.from({ length: Math.ceil(ranks.length / most) }, (_, index) => index * most);
  fill(groups, starts.map((start) => {
    const last = ranks[Math.min(start + most, ranks.length) - 1];
    return [start, `ranks ${ranks[start].rank} to ${last.rank}`];
  }));
  groups.addEventListener("change", () => {
    timeline.showGroup(Number(groups.value));
  });
}

function searching(timeline) {
  const field = document.getElementById("timeline-search");
  field.addEventListener("input", () => {
    timeline.picked = null;
    tellFound(timeline, field.value, false);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") stepTo(timeline, !event.shiftKey);
  });
  for (const way of ["before", "after"]) {
    document.getElementById(`timeline-${way}`).addEventListener("click", () => stepTo(timeline, way === "after"));
  }
  const hosts = document.getElementById("timeline-host");
  hosts.hidden = !timeline.rows.some((row) => !["lane", "range"].includes(row.kind) || row.level >= timeline.data.onGpu);
  hosts.addEventListener("click", () => {
    timeline.showHosts(!timeline.hosts);
    hosts.ariaPressed = String(timeline.hosts);
    tellFound(timeline, field.value, false);
  });
}

// On paper there is no frame to scroll. Many ranks are drawn without the rows of their hosts.
function printing(timeline) {
  let hosts = true;
  const turn = (whole) => {
    timeline.whole = whole;
    if (whole) hosts = timeline.hosts;
    timeline.showHosts(hosts && !(whole && timeline.ranks.length * timeline.block > PAPER));
  };
  addEventListener("beforeprint", () => turn(true));
  addEventListener("afterprint", () => turn(false));
}

const holder = document.querySelector(".time");
if (holder) {
  loadTimeline().then((data) => {
    const timeline = new Timeline(data, holder);
    control(timeline);
    choices(timeline);
    searching(timeline);
    printing(timeline);
    linkRows(timeline);
    timeline.draw();
    holder.dataset.ready = "yes";
    window.timeline = timeline;
    addEventListener("hashchange", () => follow(timeline));
    follow(timeline);
  }, () => {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = "This browser cannot unpack the timeline; one of 2023 or newer can.";
    holder.replaceWith(note);
  });
}
