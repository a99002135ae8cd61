// The timeline: coarse bins when far, every event when near. Drag pans; see the keys below.
"use strict";
const LANE = 13, RANGE = 15, GAP = 10, AXIS = 26;
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

function amount(ns, digits = 3) {
  const [size, unit] = UNITS.find(([unitSize]) => Math.abs(ns) >= unitSize) || UNITS[3];
  return `${Number((ns / size).toPrecision(digits))} ${unit}`;
}

class Timeline {
  constructor(data, root) {
    Object.assign(this, { data, root, t0: 0, t1: data.end, group: 0 });
    this.axis = root.querySelector(".axis");
    this.canvas = root.querySelector(".lanes");
    this.tip = root.querySelector(".tip");
    this.view = document.getElementById("timeline-view");
    this.colours();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.colours();
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(root);
  }

  colours() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    this.ink = { text: colour("ink"), soft: colour("soft"), line: colour("line"),
      card: colour("card"), wait: this.hatched(colour("wait")), lanes: ["compute", "transfer", "memory"].map(colour),
      ranges: ["s3", "s6", "s5"].map(colour) };
  }

  // Stripes, so that waiting is told from moving data without its colour too.
  hatched(colour) {
    const tile = new OffscreenCanvas(10, 10), pen = tile.getContext("2d");
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 10, 10);
    pen.strokeStyle = "#0005";
    pen.lineWidth = 2.5;
    for (const at of [-5, 5, 15]) {
      pen.moveTo(at - 6, 11);
      pen.lineTo(at + 6, -1);
    }
    pen.stroke();
    return pen.createPattern(tile, "repeat");
  }

  get ranks() { return this.data.ranks.slice(this.group, this.group + this.data.most); }
  get left() { return this.root.clientWidth < 600 ? 62 : 112; }
  get width() { return Math.max(60, this.root.clientWidth - this.left - 8); }
  get block() { return this.data.lanes.length * LANE + this.data.depth * RANGE + GAP; }
  x(time) { return this.left + ((time - this.t0) / (this.t1 - this.t0)) * this.width; }
  time(x) { return this.t0 + ((x - this.left) / this.width) * (this.t1 - this.t0); }

  // A time as the findings and tables have it: in the run's clock.
  when(time, digits) { return amount(this.data.origin + time, digits); }

  show(t0, t1) {
    const span = Math.min(Math.max(t1 - t0, 200), this.data.end);
    this.t0 = Math.min(Math.max(t0, 0), this.data.end - span);
    this.t1 = this.t0 + span;
    this.draw();
  }

  zoom(factor, at = (this.t0 + this.t1) / 2) {
    this.show(at - (at - this.t0) * factor, at + (this.t1 - at) * factor);
  }

  pan(part) {
    const by = (this.t1 - this.t0) * part;
    this.show(this.t0 + by, this.t1 + by);
  }

  size(canvas, height) {
    const scale = devicePixelRatio || 1, width = this.root.clientWidth;
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    return pen;
  }

  draw() {
    if (!this.root.clientWidth) return;
    this.drawAxis(this.size(this.axis, AXIS));
    const pen = this.size(this.canvas, this.ranks.length * this.block + 4);
    this.ranks.forEach((rank, index) => this.drawRank(pen, rank, 4 + index * this.block));
    const exact = this.ranks.some((rank) => this.t0 < rank.exact[1] && this.t1 > rank.exact[0]);
    const near = this.binned(this.ranks[0]) ? "aggregated" : exact ? "every operation"
      : "aggregated: single operations are kept for the framed stretch only";
    const from = this.when(this.t0, 6), wide = amount(this.t1 - this.t0);
    this.view.textContent = `from ${from}, ${wide} wide, ${near}`;
  }

  drawAxis(pen) {
    const wish = (this.t1 - this.t0) / Math.max(2, this.width / 110);
    const size = 10 ** Math.floor(Math.log10(wish));
    const step = size * [1, 2, 5, 10].find((factor) => size * factor >= wish);
    pen.fillStyle = this.ink.soft;
    pen.strokeStyle = this.ink.line;
    const { origin } = this.data, last = origin + this.t1;
    for (let tick = Math.ceil((origin + this.t0) / step) * step; tick <= last; tick += step) {
      const x = this.x(tick - origin);
      pen.beginPath();
      pen.moveTo(x, AXIS - 6);
      pen.lineTo(x, AXIS);
      pen.stroke();
      const digits = Math.max(3, Math.ceil(Math.log10(Math.max(Math.abs(last), 1) / step)) + 1);
      const label = amount(tick, digits), half = pen.measureText(label).width / 2;
      if (x - half > this.left - 30 && x + half < this.left + this.width + 6) {
        pen.fillText(label, x - half, 10);
      }
    }
  }

  drawRank(pen, rank, top) {
    pen.fillStyle = this.ink.text;
    const small = this.left < 100;
    pen.textAlign = "right";
    pen.fillText(small ? `r${rank.rank}` : `rank ${rank.rank}`, small ? 20 : 46, top + LANE / 2);
    pen.fillStyle = this.ink.soft;
    const short = ["comp", "comm", "mem"];
    this.data.lanes.forEach((name, lane) => {
      const y = top + lane * LANE;
      const label = small ? short[lane] : ["compute", "comm.", "memory"][lane];
      pen.textAlign = "right";
      pen.fillStyle = this.ink.soft;
      pen.font = "11px system-ui, sans-serif";
      pen.fillText(label, this.left - 6, y + LANE / 2);
      this.drawLane(pen, rank, lane, y);
    });
    const below = top + this.data.lanes.length * LANE;
    if (rank.depth) pen.fillText("NVTX", this.left - 6, below + RANGE / 2);
    pen.textAlign = "left";
    rank.ranges.forEach((list, level) =>
      this.drawEvents(pen, list, below + level * RANGE + 1, RANGE - 2, this.ink.ranges[level]));
    this.drawSteps(pen, rank, top);
  }

  drawSteps(pen, rank, top) {
    const high = this.block - GAP;
    pen.fillStyle = this.ink.soft;
    const rows = rank.stepStart.length, perStep = (this.x(this.data.end) - this.x(0)) / (rows || 1);
    if (perStep > 6) {
      pen.globalAlpha = 0.55;
      for (let row = 0; row < rows; row++) {
        const x = this.x(rank.stepStart[row]);
        if (x >= this.left && x <= this.left + this.width) pen.fillRect(x, top - 1, 1, high);
      }
      pen.globalAlpha = 1;
    }
    if (rank.exact[2]) return;
    const from = Math.max(this.x(rank.exact[0]), this.left);
    const to = Math.min(this.x(rank.exact[1]), this.left + this.width);
    pen.strokeStyle = this.ink.text;
    pen.setLineDash([4, 3]);
    if (to > from) pen.strokeRect(from, top - 2, to - from, high);
    pen.setLineDash([]);
  }

  binned(rank) { return (this.t1 - this.t0) / this.width >= rank.width; }

  drawLane(pen, rank, lane, y) {
    const colour = this.ink.lanes[lane];
    pen.save();
    pen.beginPath();
    pen.rect(this.left, y, this.width, LANE);
    pen.clip();
    if (this.binned(rank)) this.drawBins(pen, rank, lane, y, colour, -Infinity, Infinity);
    else {
      this.drawBins(pen, rank, lane, y, colour, -Infinity, rank.exact[0]);
      this.drawBins(pen, rank, lane, y, colour, rank.exact[1], Infinity);
      // The bars of waiting stand over those of communication, and have labels of their own.
      this.drawEvents(pen, rank.lanes[lane], y + 1, LANE - 2, colour, lane !== 1);
    }
    if (lane === 1) this.drawWaits(pen, rank.waits, y);
    pen.restore();
  }

  drawWaits(pen, waits, y) {
    pen.fillStyle = this.ink.wait;
    let row = Math.max(0, firstAfter(waits.end, this.t0));
    for (; row < waits.start.length && waits.start[row] < this.t1; row++) {
      const x = Math.max(this.x(waits.start[row]), this.left);
      const wide = Math.min(this.x(waits.end[row]), this.left + this.width) - x;
      if (wide < 0.8) continue;
      pen.fillStyle = this.ink.wait;
      pen.fillRect(x, y + 1, wide, LANE - 2);
      if (wide > 34) this.label(pen, "waiting", x + 3, y + LANE / 2, wide - 6, "#fff");
    }
  }

  drawBins(pen, rank, lane, y, colour, from, to) {
    const bins = rank.bins[lane], width = rank.width, first = rank.first;
    const low = Math.max(this.t0, from, first), high = Math.min(this.t1, to);
    const step = Math.max((this.t1 - this.t0) / this.width, width);
    pen.fillStyle = colour;
    for (let time = low; time < high; time += step) {
      const one = Math.max(0, Math.floor((time - first) / width));
      const other = Math.min(bins.length, Math.max(one + 1, Math.floor((time + step - first) / width)));
      let sum = 0;
      for (let bin = one; bin < other; bin++) sum += bins[bin];
      if (!sum) continue;
      const high2 = Math.max(1.5, (LANE - 2) * (sum / (255 * (other - one))));
      const x = this.x(time);
      pen.fillRect(x, y + LANE - 1 - high2, Math.max(1, this.x(time + step) - x + 0.3), high2);
    }
  }

  drawEvents(pen, list, y, height, colour, named = true) {
    const scale = this.width / (this.t1 - this.t0);
    let row = firstAfter(list.start, this.t0 - list.most), filled = -1;
    for (; row < list.start.length && list.start[row] < this.t1; row++) {
      const x = Math.max(this.x(list.start[row]), this.left);
      const to = Math.min(this.x(list.end[row]), this.left + this.width);
      if (to < this.left || (to <= filled && to - x < 1)) continue;
      const wide = Math.max(to - x, 0.7);
      pen.fillStyle = colour;
      pen.fillRect(x, y, wide, height);
      filled = x + wide;
      if (wide > 5 && scale) {
        pen.fillStyle = this.ink.card;
        pen.fillRect(x + wide - 0.6, y, 0.6, height);
      }
      const label = this.data.names[list.name[row]];
      if (named && wide > 34) this.label(pen, label, x + 3, y + height / 2, wide - 6, this.on(colour));
    }
  }

  // Black or white, whichever reads better on a colour (#rrggbb).
  on(colour) {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
    return 0.21 * r ** 2.2 + 0.72 * g ** 2.2 + 0.07 * b ** 2.2 > 0.22 ? "#111" : "#fff";
  }

  label(pen, text, x, y, room, colour) {
    pen.fillStyle = colour;
    pen.font = "11px system-ui, sans-serif";
    const fits = Math.floor(room / 5.6);
    const short = text.length > fits ? `${text.slice(0, Math.max(1, fits - 1))}…` : text;
    pen.textAlign = "left";
    pen.fillText(short, x, y + 0.5, room);
  }
}
