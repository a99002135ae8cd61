// The timeline: coarse bins when far, every event when near. The canvas is as high as the frame
// that scrolls: only the ranks in it are drawn.
"use strict";
const AXIS = 26, PAPER = 560;
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

function amount(ns, digits = 3) {
  const [size, unit] = UNITS.find(([unitSize]) => Math.abs(ns) >= unitSize) || UNITS[3];
  return `${Number((ns / size).toPrecision(digits))} ${unit}`;
}

// A comparison begins at its steps: start-up of seconds would leave them a corner.
function firstStep({ sides, ranks }) {
  const starts = ranks.map((rank) => rank.stepStart[0]);
  return sides.length > 1 && starts.every((start) => start >= 0) ? Math.min(...starts) : 0;
}

class Timeline {
  constructor(data, root) {
    Object.assign(this, { data, root, t0: firstStep(data), t1: data.end, group: 0, whole: false });
    Object.assign(this, { found: null, hits: new Map(), picked: null, place: null });
    this.alone = data.ranks.length === 1 && data.ranks[0].rank === 0;
    // Of several runs each rank says whose it is, and has its own shift of time (see choices).
    for (const rank of data.ranks) {
      const side = data.sides[rank.side];
      const lone = side && data.ranks.filter((one) => one.side === rank.side).length === 1;
      rank.name = lone ? side : side ? `${side} ${rank.rank}` : `rank ${rank.rank}`;
      rank.title = lone ? side : side ? `${side}, rank ${rank.rank}` : rank.name;
      rank.brief = lone ? side : `${side ? side[0] : "r"}${rank.rank}`;
      rank.key = `${side}${rank.rank}`;
      rank.shift = 0;
    }
    this.axis = root.querySelector(".axis");
    this.frame = root.querySelector(".rows");
    this.tall = root.querySelector(".tall");
    this.canvas = root.querySelector(".lanes");
    this.tip = root.querySelector(".tip");
    this.view = document.getElementById("timeline-view");
    this.hosts = true;
    this.rows = listRows(this);
    this.measure();
    this.colours();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.colours();
      this.draw();
    });
    new ResizeObserver(() => { this.measure(); this.draw(); }).observe(root);
    this.frame.addEventListener("scroll", () => this.draw());
  }

  // Sizes that a redraw must not ask the browser for.
  measure() {
    this.across = this.root.clientWidth;
    const letters = Math.max(3, ...this.data.ranks.map((rank) => rank.brief.length));
    this.left = this.across < 600 ? 40 + 8 * Math.min(letters, 6) : 124;
    this.width = Math.max(60, this.across - this.left - 8);
    const total = this.ranks.length * this.block + 4;
    this.tall.style.height = `${total}px`;
    this.high = this.whole ? Math.min(total, PAPER) : Math.min(total, Math.round(innerHeight * 0.78));
    this.frame.style.height = `${this.high}px`;
    this.canvas.style.height = `${this.high}px`;
  }

  colours() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const card = colour("card"), paints = {};
    const names = { compute: "compute", communication: "transfer", transfer: "transfer",
      memory: "memory", calls: "calls", stacks: "stacks", host: "stacks", waiting: "idle",
      range0: "s3", range1: "s6", range2: "s5" };
    for (const [key, name] of Object.entries(names)) {
      const own = colour(name);
      const faded = { colour: mixed(own, card, 0.78), text: "", labelled: false };
      paints[key] = { colour: own, faded, text: on(own), labelled: true };
    }
    this.ink = { text: colour("ink"), soft: colour("soft"), line: colour("line"), card,
      accent: colour("accent"), wait: hatched(colour("wait")), paints };
  }

  get ranks() { return this.data.ranks.slice(this.group, this.group + this.data.most); }
  get block() {
    const last = this.rows[this.rows.length - 1];
    return (last ? last.top + last.high : 0) + GAP;
  }
  x(time) { return this.left + ((time - this.t0) / (this.t1 - this.t0)) * this.width; }
  time(x) { return this.t0 + ((x - this.left) / this.width) * (this.t1 - this.t0); }
  binned(rank) { return (this.t1 - this.t0) / this.width >= rank.width; }
  short(code) { return this.data.short[code] || this.data.names[code]; }

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

  showHosts(hosts) {
    this.hosts = hosts;
    this.rows = listRows(this);
    this.measure();
    this.draw();
  }

  showGroup(group) {
    this.group = group;
    this.measure();
    this.frame.scrollTop = 0;
    this.draw();
  }

  size(canvas, height) {
    const scale = devicePixelRatio || 1;
    const [wide, high] = [Math.round(this.across * scale), Math.round(height * scale)];
    if (canvas.width !== wide || canvas.height !== high) {
      canvas.width = wide;
      canvas.height = high;
      canvas.style.height = `${height}px`;
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, this.across, height);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    return pen;
  }

  // The top of a rank in the canvas, which shows the scrolled part of the frame.
  top(index) { return 4 + index * this.block - this.frame.scrollTop; }

  draw() {
    if (!this.across) return;
    this.drawAxis(this.size(this.axis, AXIS));
    const pen = this.size(this.canvas, this.high), scrolled = this.frame.scrollTop;
    this.ranks.forEach((rank, index) => {
      const top = 4 + index * this.block - scrolled;
      if (top + this.block < 0 || top > this.high) return;
      this.t0 += rank.shift;
      this.t1 += rank.shift;
      drawRank(this, pen, rank, top);
      this.drawMarks(pen, rank, top);
      this.t0 -= rank.shift;
      this.t1 -= rank.shift;
    });
    const exact = this.ranks.some((rank) => this.t0 < rank.exact[1] && this.t1 > rank.exact[0]);
    const near = this.binned(this.ranks[0]) ? "aggregated" : exact ? "every operation"
      : "aggregated: single operations are kept for the framed stretch only";
    const from = this.when(this.t0, 6), wide = amount(this.t1 - this.t0);
    this.view.textContent = `from ${from}, ${wide} wide, ${near}`;
  }

  // The place that a link led to, and the event that was chosen.
  drawMarks(pen, rank, top) {
    const { place, picked } = this, right = this.left + this.width;
    pen.strokeStyle = this.ink.accent;
    pen.lineWidth = 2;
    if (place && place.rank === rank) {
      const from = Math.max(this.x(place.start), this.left), to = Math.min(this.x(place.end), right);
      if (to >= from) pen.strokeRect(from - 1, top - 1, Math.max(to - from, 1) + 2, this.block - GAP + 2);
    }
    if (picked && picked.rank === rank && this.rows.includes(picked.row)) {
      const { row } = picked;
      const from = Math.max(this.x(picked.start), this.left), to = Math.min(this.x(picked.end), right);
      pen.strokeStyle = this.ink.text;
      if (to >= from) pen.strokeRect(from - 1, top + row.top, Math.max(to - from, 1) + 2, row.high);
    }
    pen.lineWidth = 1;
  }

  drawAxis(pen) {
    const wish = (this.t1 - this.t0) / Math.max(2, this.width / 110);
    const size = 10 ** Math.floor(Math.log10(wish));
    const step = size * [1, 2, 5, 10].find((factor) => size * factor >= wish);
    pen.fillStyle = this.ink.soft;
    pen.strokeStyle = this.ink.line;
    pen.textAlign = "left";
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

  label(pen, text, x, y, room, colour) {
    pen.fillStyle = colour;
    pen.font = "11px system-ui, sans-serif";
    const fits = Math.floor(room / 5.6);
    const short = text.length > fits ? `${text.slice(0, Math.max(1, fits - 1))}…` : text;
    pen.textAlign = "left";
    pen.fillText(short, x, y + 0.5, room);
  }
}

const rgb = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

// Black or white, whichever reads better on a colour (#rrggbb).
function on(colour) {
  const [r, g, b] = rgb(colour).map((value) => value / 255);
  return 0.21 * r ** 2.2 + 0.72 * g ** 2.2 + 0.07 * b ** 2.2 > 0.22 ? "#111" : "#fff";
}

function mixed(colour, other, part) {
  const to = rgb(other.length === 4 ? other.replace(/[^#]/g, "$&$&") : other);
  return `rgb(${rgb(colour).map((value, at) => Math.round(value + (to[at] - value) * part)).join(",")})`;
}

// Stripes, so that waiting is told from moving data without its colour too.
function hatched(colour) {
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
