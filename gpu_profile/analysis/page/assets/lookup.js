// What is under a point of the timeline, in words.
"use strict";
function describe(timeline, x, y) {
  const index = Math.floor((y - 4) / timeline.block), rank = timeline.ranks[index];
  if (!rank || x < timeline.left || x > timeline.left + timeline.width) return "";
  const within = y - 4 - index * timeline.block, time = timeline.time(x);
  const { data } = timeline, lanes = data.lanes.length, lane = Math.floor(within / LANE);
  const list = lane < lanes ? rank.lanes[lane]
    : rank.ranges[Math.floor((within - lanes * LANE) / RANGE)];
  if (!list) return "";
  if (lane < lanes && timeline.binned(rank)) {
    return share(data, rank, lane, time) + (lane === 1 ? held(rank, time) : "");
  }
  const near = (timeline.t1 - timeline.t0) / timeline.width;
  for (let row = firstAfter(list.start, time + near) - 1; row >= 0; row--) {
    if (list.end[row] + near >= time) {
      const wide = amount(list.end[row] - list.start[row], 4), name = data.names[list.name[row]];
      const from = timeline.when(list.start[row], 9), waits = lane === 1 ? held(rank, time) : "";
      return `${name}\n${wide}, from ${from}, rank ${rank.rank}${waits}`;
    }
    if (time - list.start[row] > list.most) break;
  }
  const exact = lane >= lanes || (time >= rank.exact[0] && time <= rank.exact[1]);
  return exact ? "" : share(data, rank, lane, time);
}

function held(rank, time) {
  const { start, end } = rank.waits, row = firstAfter(end, time);
  if (!(start[row] <= time)) return "";
  return `\nwaiting for another rank for ${amount(end[row] - start[row], 4)}`;
}

function share(data, rank, lane, time) {
  const bin = Math.floor((time - rank.first) / rank.width), busy = rank.bins[lane][bin];
  if (!busy) return "";
  const part = Math.round((100 * busy) / 255);
  return `${data.lanes[lane]}: busy for ${part} % of ${amount(rank.width)}\n`
    + `around ${amount(data.origin + time, 6)}, rank ${rank.rank}`;
}
