// Draw lists of events: what is narrower than a pixel is drawn together, by blocks of the list.
"use strict";
const BLOCKS = [64, 8];

// The list with `reach`, the last end so far, and by block of 64 and 8 events its last end.
function indexed(list) {
  const count = list.start.length;
  list.reach = new Float64Array(count);
  list.blocks = BLOCKS.map((size) => new Float64Array(Math.floor(count / size)));
  let last = -Infinity;
  for (let row = 0; row < count; row++) {
    last = Math.max(last, list.end[row]);
    list.reach[row] = last;
  }
  BLOCKS.forEach((size, level) => {
    const ends = list.blocks[level];
    for (let block = 0; block < ends.length; block++) {
      let end = 0;
      for (let row = block * size; row < (block + 1) * size; row++) end = Math.max(end, list.end[row]);
      ends[block] = end;
    }
  });
  return list;
}

// How many events from `row` on fit into `wide` ns together, 1 if they do not; and their end.
function together(list, row, wide) {
  for (let level = 0; level < BLOCKS.length; level++) {
    const size = BLOCKS[level], block = row / size;
    if (row % size || block >= list.blocks[level].length) continue;
    const end = list.blocks[level][block];
    if (end - list.start[row] < wide) return [size, end];
  }
  return [1, list.end[row]];
}

// Rectangles of one colour; neighbours that touch are one.
class Pencil {
  constructor(pen, y, height, colour) {
    Object.assign(this, { pen, y, height, from: 0, to: -1 });
    pen.fillStyle = colour;
  }

  add(x, to) {
    if (x <= this.to + 0.5) {
      if (to > this.to) this.to = to;
      return;
    }
    this.flush();
    this.from = x;
    this.to = to;
  }

  flush() {
    if (this.to > this.from) this.pen.fillRect(this.from, this.y, this.to - this.from, this.height);
    this.to = -1;
  }
}

// `paint`: {colour, text, labelled}.
function drawEvents(timeline, pen, list, y, height, paint) {
  const { t0, t1, left, width } = timeline, { start, name } = list;
  const scale = width / (t1 - t0), pixel = 1 / scale, right = left + width;
  const pencil = new Pencil(pen, y, height, paint.colour), boxes = [];
  let row = firstAfter(list.reach, t0);
  while (row < start.length && start[row] < t1) {
    const [count, until] = together(list, row, pixel);
    const x = left + (start[row] - t0) * scale, to = left + (until - t0) * scale;
    if (to >= left) {
      const from = x < left ? left : x, wide = Math.min(to, right) - from;
      if (wide > 5) {
        pencil.add(from, from + wide - 0.6);
        pencil.flush();
        if (wide > 34 && paint.labelled) boxes.push([row, from, wide]);
      } else pencil.add(from, from + Math.max(wide, 0.7));
    }
    row += count;
  }
  pencil.flush();
  for (const [at, from, wide] of boxes) {
    timeline.label(pen, timeline.short(name[at]), from + 3, y + height / 2, wide - 6, paint.text);
  }
}

// The bins of a lane between two times, a bar a pixel; neighbours of one height are one.
function drawBins(timeline, pen, rank, lane, y, colour, from, to) {
  const bins = rank.bins[lane], { width: wide, first } = rank;
  const low = Math.max(timeline.t0, from, first);
  const high = Math.min(timeline.t1, to, first + bins.length * wide);
  const step = Math.max((timeline.t1 - timeline.t0) / timeline.width, wide);
  pen.fillStyle = colour;
  let since = low, tall = 0;
  const flush = (until) => {
    const x = timeline.x(since);
    if (tall) pen.fillRect(x, y + LANE - 1 - tall, Math.max(1, timeline.x(until) - x + 0.3), tall);
  };
  for (let time = low; time < high; time += step) {
    const one = Math.max(0, Math.floor((time - first) / wide));
    const other = Math.min(bins.length, Math.max(one + 1, Math.floor((time + step - first) / wide)));
    let sum = 0;
    for (let bin = one; bin < other; bin++) sum += bins[bin];
    const now = sum ? Math.max(2, Math.round((LANE - 2) * (sum / (255 * (other - one))))) : 0;
    if (now === tall) continue;
    flush(time);
    since = time;
    tall = now;
  }
  flush(high);
}

function drawWaits(timeline, pen, waits, y) {
  const { left, width, t1 } = timeline, labels = [];
  const pencil = new Pencil(pen, y + 1, LANE - 2, timeline.ink.wait);
  for (let row = firstAfter(waits.end, timeline.t0); row < waits.start.length && waits.start[row] < t1; row++) {
    const x = Math.max(timeline.x(waits.start[row]), left);
    const wide = Math.min(timeline.x(waits.end[row]), left + width) - x;
    if (wide < 0.8) continue;
    pencil.add(x, x + wide);
    if (wide > 34) labels.push([x, wide]);
  }
  pencil.flush();
  for (const [x, wide] of labels) timeline.label(pen, "wait", x + 3, y + LANE / 2, wide - 6, "#fff");
}
