// Places have addresses: #at&rank=0&from=299.3&to=300.1 (ms on the run's clock), &find=WORDS or
// &name=NAME for events, and #row&table=TABLE&name=NAME for a row of a table.
"use strict";
function address(kind, values) {
  const parts = Object.entries(values).map(([key, value]) => `${key}=${encodeURIComponent(value)}`);
  return `#${[kind, ...parts].join("&")}`;
}

function readAddress(hash) {
  const [kind, ...parts] = hash.slice(1).split("&"), values = {};
  if (kind !== "at" && kind !== "row") return undefined;
  for (const part of parts) {
    const cut = part.indexOf("=");
    try {
      if (cut > 0) values[part.slice(0, cut)] = decodeURIComponent(part.slice(cut + 1));
    } catch {
      return undefined;
    }
  }
  return { kind, values };
}

function makeLink(text, href) {
  const link = document.createElement("a");
  link.textContent = text;
  link.href = href;
  return link;
}

const inMs = (timeline, time) => ((timeline.data.origin + time) / 1e6).toFixed(6).replace(/0{1,4}$/, "");

function addressOf(timeline, rank, start, end) {
  return address("at", { rank: rank.key, from: inMs(timeline, start), to: inMs(timeline, end) });
}

// Show a rank's stretch of time with some room around it, framed.
function goTo(timeline, rank, start, end, room = 0.6) {
  const index = timeline.data.ranks.indexOf(rank), { most } = timeline.data;
  const group = Math.floor(index / most) * most;
  if (group !== timeline.group) timeline.showGroup(group);
  const edge = Math.max((end - start) * room, 500);
  timeline.place = { rank, start, end };
  timeline.frame.scrollTop = Math.max(0, (index - group) * timeline.block - 20);
  timeline.show(start - edge - rank.shift, end + edge - rank.shift);
}

function openTimeline(timeline, values) {
  const words = values.name || values.find || "", field = document.getElementById("timeline-search");
  if (words || field.value) {
    field.value = words;
    tellFound(timeline, words, Boolean(values.name));
  }
  const rank = timeline.data.ranks.find((one) => one.key === values.rank);
  const [from, to] = [values.from, values.to].map((ms) => Number(ms) * 1e6 - timeline.data.origin);
  if (rank && to >= from) goTo(timeline, rank, from, to);
  else if (words) {
    timeline.picked = null;
    timeline.t0 = 0;
    timeline.t1 = timeline.data.end;
    stepTo(timeline, true);
  }
  document.getElementById("timeline").scrollIntoView();
  return true;
}

function tellFound(timeline, text, exact) {
  const said = document.getElementById("timeline-found"), { count, total, ranks } = search(timeline, text, exact);
  const where = ranks === 1 ? "1 rank" : `${ranks} ranks`;
  const some = count ? `${count.toLocaleString("en")} events on ${where}, ${amount(total)} in all`
    : "no such event is kept in this page";
  said.textContent = timeline.found ? (timeline.alone ? some.replace(` on ${where}`, "") : some) : "";
  for (const way of ["before", "after"]) document.getElementById(`timeline-${way}`).disabled = !count;
}

function stepTo(timeline, forward) {
  const hit = nextHit(timeline, forward);
  if (!hit) return;
  pick(timeline, hit);
  const span = Math.min(timeline.t1 - timeline.t0, Math.max((hit.end - hit.start) * 8, 20_000));
  const middle = (hit.start + hit.end) / 2 - hit.rank.shift;
  const index = timeline.ranks.indexOf(hit.rank);
  if (index < 0) timeline.showGroup(Math.floor(timeline.data.ranks.indexOf(hit.rank) / timeline.data.most) * timeline.data.most);
  const top = timeline.ranks.indexOf(hit.rank) * timeline.block, { frame } = timeline;
  if (top < frame.scrollTop || top + timeline.block > frame.scrollTop + timeline.high) frame.scrollTop = top;
  timeline.show(middle - span / 2, middle + span / 2);
}

// Choose an event: its facts, its address, its row in a table and others of its name.
function pick(timeline, event) {
  timeline.picked = event;
  const box = document.getElementById("timeline-picked");
  box.hidden = !event;
  if (!event) return timeline.draw();
  const { rank, row, list, at, start, end } = event, name = timeline.data.names[list.name[at]];
  const bold = document.createElement("b");
  bold.textContent = name;
  const here = addressOf(timeline, rank, start, end), where = timeline.alone ? "" : `${rank.title}, `;
  const facts = ` ${amount(end - start, 4)} from ${timeline.when(start, 9)}, ${where}${row.title || "NVTX"} `;
  const links = [makeLink("all of this name", address("at", { name })), makeLink("link to it", here)];
  const code = list.name[at], others = [timeline.short(code), timeline.data.function[code]];
  const table = [name, ...others].map(tableOf).find(Boolean);
  if (table) links.push(makeLink(`its row in ${table.title}`, address("row", table.values)));
  box.replaceChildren(bold, facts, ...links.flatMap((link) => [link, " "]));
  try {
    history.replaceState(null, "", here);
  } catch { /* a page without an address of its own */ }
  return timeline.draw();
}

// Findings and rows lead to the timeline, and what is chosen there to a row.
function follow(timeline) {
  const address_ = readAddress(location.hash);
  if (!address_) return;
  if (address_.kind === "row") openRow(address_.values);
  else if (timeline) openTimeline(timeline, address_.values);
}
