// The rows of a rank: what they are, where they stand, and how each is drawn.
"use strict";
const LANE = 13, RANGE = 15, GAP = 10;
const SHORT = { compute: "comp", communication: "comm", memory: "mem", "critical path": "path",
  "CUDA calls": "calls" };
const LABEL = { communication: "comm." };

// {kind, title, level, top, high, colour} of each row; rows that no rank has are left out.
function listRows(timeline) {
  const { data, hosts } = timeline, { lanes, onGpu, ranks } = data, rows = [];
  const add = (kind, title, level, high, colour) => {
    const last = rows[rows.length - 1];
    rows.push({ kind, title, level, high, colour, top: last ? last.top + last.high : 0 });
  };
  const busy = (lane) => ranks.some((rank) => rank.bins[lane].some((part) => part));
  lanes.slice(0, onGpu).forEach((title, lane) => {
    if (busy(lane)) add("lane", title, lane, LANE, title);
  });
  if (hosts) {
    const used = (lists) => ranks.some((rank) => lists(rank).some((list) => list.start.length));
    if (used((rank) => rank.path)) add("path", "critical path", 0, LANE, "");
    lanes.slice(onGpu).forEach((title, number) => {
      const lane = onGpu + number;
      if (used((rank) => [rank.lanes[lane]])) add("lane", number ? `calls ${number + 1}` : "CUDA calls", lane, LANE, "calls");
    });
    if (used((rank) => rank.stacks)) add("stacks", "host", 0, LANE, "stacks");
  }
  for (let level = 0; level < data.depth; level++) {
    add("range", level ? "" : "NVTX", level, RANGE, `range${level}`);
  }
  return rows;
}

// The lists of events of a row; the critical path has one for each kind of its stretches.
function listsOf(rank, row) {
  if (row.kind === "lane") return [rank.lanes[row.level]];
  if (row.kind === "path") return rank.path;
  if (row.kind === "stacks") return rank.stacks;
  return rank.ranges[row.level] ? [rank.ranges[row.level]] : [];
}

function drawRank(timeline, pen, rank, top) {
  const { ink, left } = timeline, small = left < 100;
  pen.font = "12px system-ui, sans-serif";
  pen.textAlign = "right";
  if (!timeline.alone) {
    pen.fillStyle = ink.text;
    const name = small ? rank.brief : rank.name;
    pen.fillText(name, Math.max(small ? 22 : 46, pen.measureText(name).width), top + LANE / 2);
  }
  pen.font = "11px system-ui, sans-serif";
  pen.fillStyle = ink.soft;
  for (const row of timeline.rows) {
    const title = small ? SHORT[row.title] || row.title : LABEL[row.title] || row.title;
    if (title) pen.fillText(title, left - 6, top + row.top + row.high / 2);
  }
  pen.save();
  pen.beginPath();
  pen.rect(left, top - 2, timeline.width, timeline.block);
  pen.clip();
  for (const row of timeline.rows) drawRow(timeline, pen, rank, row, top + row.top);
  drawSteps(timeline, pen, rank, top);
  pen.restore();
}

// Where a search is on, what it did not find is faded, and what it found is drawn over it.
function drawRow(timeline, pen, rank, row, y) {
  const { ink, found } = timeline, faded = (paint) => (found ? paint.faded : paint);
  if (row.kind === "lane") drawLane(timeline, pen, rank, row, y, faded(ink.paints[row.colour]));
  listsOf(rank, row).forEach((list, kind) => {
    const paint = ink.paints[row.kind === "path" ? timeline.data.pathKinds[kind] : row.colour];
    if (row.kind !== "lane") drawEvents(timeline, pen, list, y + 1, row.high - 2, faded(paint));
    const hits = timeline.hits.get(list);
    if (hits) drawEvents(timeline, pen, hits, y + 1, row.high - 2, paint);
  });
}

function drawLane(timeline, pen, rank, row, y, paint) {
  const binned = timeline.binned(rank), waits = row.level === 1 && !timeline.found;
  const [first, last] = binned ? [Infinity, Infinity] : rank.exact;
  drawBins(timeline, pen, rank, row.level, y, paint.colour, -Infinity, first);
  if (!binned) {
    drawBins(timeline, pen, rank, row.level, y, paint.colour, last, Infinity);
    // The bars of waiting stand over those of communication, and have labels of their own.
    const own = { ...paint, labelled: paint.labelled && row.level !== 1 };
    drawEvents(timeline, pen, rank.lanes[row.level], y + 1, LANE - 2, own);
  }
  if (waits) drawWaits(timeline, pen, rank.waits, y);
}

function drawSteps(timeline, pen, rank, top) {
  const high = timeline.block - GAP, { ink, left, width } = timeline;
  pen.fillStyle = ink.soft;
  const rows = rank.stepStart.length;
  const perStep = (timeline.x(timeline.data.end) - timeline.x(0)) / (rows || 1);
  if (perStep > 6) {
    pen.globalAlpha = 0.55;
    for (let row = firstAfter(rank.stepStart, timeline.t0); row < rows; row++) {
      if (rank.stepStart[row] > timeline.t1) break;
      pen.fillRect(timeline.x(rank.stepStart[row]), top - 1, 1, high);
    }
    pen.globalAlpha = 1;
  }
  if (rank.exact[2]) return;
  const from = Math.max(timeline.x(rank.exact[0]), left);
  const to = Math.min(timeline.x(rank.exact[1]), left + width);
  pen.strokeStyle = ink.text;
  pen.setLineDash([4, 3]);
  if (to > from) pen.strokeRect(from, top - 1, to - from, high);
  pen.setLineDash([]);
}
