// What is under a point of the timeline: an event, or the bin of a lane.
"use strict";
const LONGEST = 160;

// {rank, row, time} of a point of the canvas, or undefined.
function pointAt(timeline, x, y) {
  const below = y + timeline.frame.scrollTop - 4, index = Math.floor(below / timeline.block);
  const rank = timeline.ranks[index], within = below - index * timeline.block;
  if (!rank || x < timeline.left || x > timeline.left + timeline.width) return undefined;
  const row = timeline.rows.find((one) => within >= one.top && within < one.top + one.high);
  return row && { rank, row, time: timeline.time(x) + rank.shift };
}

// {list, at} of the innermost event at a time, or undefined.
function eventAt(timeline, { rank, row, time }) {
  const near = (timeline.t1 - timeline.t0) / timeline.width;
  for (const list of listsOf(rank, row)) {
    for (let at = firstAfter(list.start, time + near) - 1; at >= 0; at--) {
      if (list.end[at] + near >= time) return { list, at };
      if (list.reach[at] + near < time) break;
    }
  }
  return undefined;
}

function isBinned(timeline, { rank, row }) { return row.kind === "lane" && timeline.binned(rank); }

function describe(timeline, x, y) {
  const point = pointAt(timeline, x, y);
  if (!point) return "";
  const { rank, row, time } = point, waits = row.kind === "lane" && row.level === 1;
  const found = isBinned(timeline, point) ? undefined : eventAt(timeline, point);
  if (!found) {
    const exact = row.kind !== "lane" || (time >= rank.exact[0] && time <= rank.exact[1]);
    if (exact && !isBinned(timeline, point)) return "";
    return share(timeline, rank, row.level, time) + (waits ? held(rank, time) : "");
  }
  const { list, at } = found, name = timeline.data.names[list.name[at]];
  const wide = amount(list.end[at] - list.start[at], 4), from = timeline.when(list.start[at], 9);
  const short = name.length > LONGEST ? `${name.slice(0, LONGEST)}…` : name;
  return `${short}\n${wide}, from ${from}${of(timeline, rank)}${waits ? held(rank, time) : ""}`;
}

// ", rank 3"; nothing in a run of one rank.
function of(timeline, rank) { return timeline.alone ? "" : `, ${rank.title}`; }

function held(rank, time) {
  const { start, end } = rank.waits, row = firstAfter(end, time);
  if (!(start[row] <= time)) return "";
  return `\nwait for another rank: ${amount(end[row] - start[row], 4)}`;
}

function share(timeline, rank, lane, time) {
  const { data } = timeline;
  const bin = Math.floor((time - rank.first) / rank.width), busy = rank.bins[lane][bin];
  if (!busy) return "";
  const part = Math.round((100 * busy) / 255);
  return `${data.lanes[lane]}: busy for ${part} % of ${amount(rank.width)}\n`
    + `around ${amount(data.origin + time, 6)}${of(timeline, rank)}`;
}
