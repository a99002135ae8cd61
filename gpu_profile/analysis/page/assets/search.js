// Search the events of all ranks by their names; step through what was found, by time.
"use strict";
// The codes of the names that hold all words, or that are `exact`ly one name or function.
function matchNames(data, text, exact) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return Uint8Array.from(data.names, (name, code) => {
    if (exact) return Number([name, data.short[code], data.function[code]].includes(text));
    const low = name.toLowerCase();
    return Number(words.every((word) => low.includes(word)));
  });
}

// The events of a list that were found, as a list; `row` is their place in the first one.
function hitsOf(list, found) {
  let count = 0;
  for (const code of list.name) count += found[code];
  const hits = { start: new Float64Array(count), end: new Float64Array(count),
    name: new Uint32Array(count), row: new Uint32Array(count) };
  for (let row = 0, to = 0; row < list.name.length; row++) {
    if (!found[list.name[row]]) continue;
    hits.start[to] = list.start[row];
    hits.end[to] = list.end[row];
    hits.name[to] = list.name[row];
    hits.row[to++] = row;
  }
  return count ? indexed(hits) : undefined;
}

function search(timeline, text, exact = false) {
  timeline.hits = new Map();
  timeline.found = text.trim() ? matchNames(timeline.data, text, exact) : null;
  let count = 0, total = 0;
  const ranks = new Set();
  for (const rank of timeline.found ? timeline.data.ranks : []) {
    for (const row of timeline.rows) {
      for (const list of listsOf(rank, row)) {
        const hits = hitsOf(list, timeline.found);
        if (!hits) continue;
        timeline.hits.set(list, hits);
        count += hits.start.length;
        ranks.add(rank);
        for (let at = 0; at < hits.start.length; at++) total += hits.end[at] - hits.start[at];
      }
    }
  }
  timeline.draw();
  return { count, total, ranks: ranks.size };
}

// The next event found after the chosen one (or the view's begin), or the one before it.
function nextHit(timeline, forward) {
  const { picked } = timeline;
  const from = picked ? picked.start - picked.rank.shift : timeline.t0;
  const order = timeline.data.ranks.flatMap((rank) => timeline.rows.flatMap((row) =>
    listsOf(rank, row).map((list) => ({ rank, row, list }))));
  const here = picked ? order.findIndex((one) => one.list === picked.list) : -1;
  let best = null;
  order.forEach((one, place) => {
    const hits = timeline.hits.get(one.list);
    if (!hits) return;
    // Of events that start at one time, those of later rows are after.
    const own = picked && one.list === picked.list;
    const first = own ? firstAfter(hits.row, picked.at + (forward ? 1 : 0))
      : firstAfter(hits.start, (place > here ? from : from + 1) + one.rank.shift);
    const at = forward ? first : first - 1;
    if (at < 0 || at >= hits.start.length) return;
    const time = hits.start[at] - one.rank.shift;
    const better = !best || (forward ? time < best.time : time >= best.time);
    if (better) best = { ...one, time, at: hits.row[at], start: hits.start[at], end: hits.end[at] };
  });
  return best;
}
