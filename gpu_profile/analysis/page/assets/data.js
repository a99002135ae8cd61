// The timeline's numbers out of the page: byte planes, deflated, base64 (see pack.py).
"use strict";
async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function column(bytes, [offset, count, width]) {
  const values = new Float64Array(count);
  for (let plane = 0, scale = 1; plane < width; plane++, scale *= 256) {
    const from = offset + plane * count;
    for (let row = 0; row < count; row++) values[row] += bytes[from + row] * scale;
  }
  return values;
}

// {start, end, name, lane} of events; starts are kept as gaps between neighbours.
function events(bytes, packed, first) {
  const start = column(bytes, packed.gap), end = column(bytes, packed.length);
  for (let row = 0, time = first; row < start.length; row++) {
    time += start[row];
    start[row] = time;
    end[row] += time;
  }
  return { start, end, name: column(bytes, packed.name), lane: column(bytes, packed.lane) };
}

// One list of events for each lane; `most` is the longest, to know where to begin to look.
function byLane(all, lanes) {
  return Array.from({ length: lanes }, (_, lane) => {
    const rows = [];
    for (let row = 0; row < all.lane.length; row++) if (all.lane[row] === lane) rows.push(row);
    const pick = (values) => Float64Array.from(rows, (row) => values[row]);
    const found = { start: pick(all.start), end: pick(all.end), name: pick(all.name), most: 0 };
    for (let row = 0; row < rows.length; row++) {
      found.most = Math.max(found.most, found.end[row] - found.start[row]);
    }
    return found;
  });
}

function firstAfter(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

async function loadTimeline() {
  const facts = JSON.parse(document.getElementById("timeline-facts").textContent);
  const bytes = await unpack(document.getElementById("timeline-data").textContent.trim());
  const depth = Math.max(0, ...facts.ranks.map((rank) => rank.depth));
  for (const rank of facts.ranks) {
    const [offset, count] = rank.busy, lanes = facts.lanes.length;
    const size = count / lanes;
    rank.bins = facts.lanes.map((_, lane) =>
      bytes.subarray(offset + lane * size, offset + (lane + 1) * size));
    rank.lanes = byLane(events(bytes, rank.events, rank.events.first), lanes);
    rank.ranges = byLane(events(bytes, rank.nvtx, rank.nvtx.first), rank.depth);
    rank.waits = { start: column(bytes, rank.waits.start), end: column(bytes, rank.waits.length) };
    rank.waits.start.forEach((start, row) => { rank.waits.end[row] += start; });
    rank.stepStart = column(bytes, rank.steps.start);
    rank.stepEnd = column(bytes, rank.steps.end);
  }
  return { ...facts, depth };
}
