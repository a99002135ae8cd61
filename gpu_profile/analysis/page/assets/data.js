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
function events(bytes, packed) {
  const start = column(bytes, packed.gap), end = column(bytes, packed.length);
  for (let row = 0, time = packed.first; row < start.length; row++) {
    time += start[row];
    start[row] = time;
    end[row] += time;
  }
  return { start, end, name: column(bytes, packed.name), lane: column(bytes, packed.lane) };
}

// One list of events for each lane, each with an index (see events.js).
function byLane(all, lanes) {
  const counts = new Uint32Array(lanes);
  for (const lane of all.lane) counts[lane]++;
  const lists = Array.from(counts, (count) => ({ start: new Float64Array(count),
    end: new Float64Array(count), name: new Uint32Array(count) }));
  const next = new Uint32Array(lanes);
  for (let row = 0; row < all.lane.length; row++) {
    const list = lists[all.lane[row]], to = next[all.lane[row]]++;
    list.start[to] = all.start[row];
    list.end[to] = all.end[row];
    list.name[to] = all.name[row];
  }
  return lists.map(indexed);
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
  const { lanes, onGpu, pathKinds } = facts;
  for (const rank of facts.ranks) {
    const [offset, count] = rank.busy, size = count / lanes.length;
    rank.bins = lanes.map((_, lane) =>
      bytes.subarray(offset + lane * size, offset + (lane + 1) * size));
    rank.lanes = [...byLane(events(bytes, rank.events), onGpu),
      ...byLane(events(bytes, rank.calls), lanes.length - onGpu)];
    rank.ranges = byLane(events(bytes, rank.nvtx), rank.depth);
    rank.stacks = byLane(events(bytes, rank.stacks), 1);
    rank.path = byLane(events(bytes, rank.path), pathKinds.length);
    rank.waits = { start: column(bytes, rank.waits.start), end: column(bytes, rank.waits.length) };
    rank.waits.start.forEach((start, row) => { rank.waits.end[row] += start; });
    rank.stepStart = column(bytes, rank.steps.start);
    rank.stepEnd = column(bytes, rank.steps.end);
  }
  return { ...facts, depth };
}
