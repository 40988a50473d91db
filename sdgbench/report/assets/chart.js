// The parts of a chart: scales, axes, markers. A chart is drawn at the width of its container.

const COLOURS = 8;
const DASHES = ["", "6 3", "2 2", "8 3 2 3"];
const colourOf = (row) => `var(--c${row.look[0] % COLOURS})`;
const dashOf = (row) => DASHES[row.look[2]] || null;

const MARKERS = [
  (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  (r) => `M${-r} ${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  (r) => `M0 ${-1.35 * r}L${1.35 * r} 0L0 ${1.35 * r}L${-1.35 * r} 0z`,
  (r) => `M0 ${-1.2 * r}L${1.2 * r} ${r}H${-1.2 * r}z`,
  (r) => `M${-r} ${-0.4 * r}L${-0.4 * r} ${-r}L0 ${-0.5 * r}L${0.4 * r} ${-r}L${r} ${-0.4 * r}L${0.5 * r} 0L${r} ${0.4 * r}L${0.4 * r} ${r}L0 ${0.5 * r}L${-0.4 * r} ${r}L${-r} ${0.4 * r}L${-0.5 * r} 0z`,
  (r) => `M${-0.4 * r} ${-1.2 * r}h${0.8 * r}v${0.8 * r}h${0.8 * r}v${0.8 * r}h${-0.8 * r}v${0.8 * r}h${-0.8 * r}v${-0.8 * r}h${-0.8 * r}v${-0.8 * r}h${0.8 * r}z`,
  (r) => `M0 ${1.2 * r}L${1.2 * r} ${-r}H${-1.2 * r}z`,
  (r) => "M" + Array.from({ length: 10 }, (_, i) => {
    const far = i % 2 ? 0.55 * r : 1.35 * r;
    const angle = (Math.PI * i) / 5;
    return `${(far * Math.sin(angle)).toFixed(2)} ${(-far * Math.cos(angle)).toFixed(2)}`;
  }).join("L") + "z",
];

function marker(row, x, y, size = 4.5) {
  return draw("path", {
    d: MARKERS[row.look[1]](size), transform: `translate(${x} ${y})`, fill: colourOf(row),
    stroke: "var(--paper)", "stroke-width": 1,
  });
}

function swatch(row) {
  return draw("svg", { class: "swatch", viewBox: "0 0 30 16", "aria-hidden": "true" },
    draw("path", { d: "M0 8H30", stroke: colourOf(row), "stroke-width": 2, "stroke-dasharray": dashOf(row) }),
    marker(row, 15, 8, 5));
}

function legend(board, state) {
  const list = el("ul", { class: "key" });
  const show = () => list.replaceChildren(...board.rows.filter((row) => state.matches(row.name))
    .map((row) => el("li", {}, swatch(row), row.name)));
  state.redraw.push(show);
  show();
  return list;
}

function niceTicks(low, high, count) {
  const rough = (high - low || 1) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const ticks = [];
  for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + step * 1e-6; tick += step) {
    ticks.push(Math.abs(tick) < step * 1e-6 ? 0 : tick);
  }
  return ticks;
}

function linear(low, high, from, to) {
  const scale = (value) => from + ((value - low) / (high - low || 1)) * (to - from);
  scale.ticks = (count) => niceTicks(low, high, count);
  return scale;
}

function logarithmic(low, high, from, to) {
  const inner = linear(Math.log10(low), Math.log10(high), from, to);
  const scale = (value) => inner(Math.log10(Math.max(value, low)));
  scale.ticks = (count) => {
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      for (const factor of [1, 2, 5]) {
        const tick = factor * 10 ** power;
        if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
      }
    }
    const few = ticks.length > 2 * count ? ticks.filter((tick) => Number.isInteger(Math.round(1e6 * Math.log10(tick)) / 1e6)) : ticks;
    return few.length > 1 ? few : niceTicks(low, high, count).filter((tick) => tick > 0);
  };
  return scale;
}

function span(values, pad = 0.06) {
  const known = values.filter((value) => value !== null && Number.isFinite(value));
  const [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [0, 1];
  const room = (high - low) * pad || Math.abs(high) * 0.1 || 1;
  return [low - room, high + room];
}

// At most three decimals, without trailing zeros; smaller numbers with their power of ten.
const short = (tick) => (tick && Math.abs(tick) < 5e-4 ? Number(tick.toPrecision(2)).toExponential()
  : Number(tick.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 3 }));

function frame(width, height, box, x, y, options = {}) {
  const parts = [];
  for (const tick of y.ticks(options.rows ?? 4)) {
    parts.push(draw("path", { class: "axis", d: `M${box.left} ${y(tick)}H${width - box.right}` }));
    parts.push(draw("text", { x: box.left - 6, y: y(tick) + 4, "text-anchor": "end" }, short(tick)));
  }
  const ticks = options.xTicks ?? x.ticks(options.columns ?? 4);
  for (const tick of ticks) {
    parts.push(draw("text", { x: x(tick), y: height - box.bottom + 15, "text-anchor": "middle" },
      options.xName ? options.xName(tick) : short(tick)));
  }
  if (options.xLabel) {
    parts.push(draw("text", { x: (box.left + width - box.right) / 2, y: height - 3, "text-anchor": "middle" }, options.xLabel));
  }
  return parts;
}

const line = (points) => "M" + points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
const sideways = (y, left, right) => `M${left} ${y - 3}v6M${left} ${y}H${right}M${right} ${y - 3}v6`;
const whisker = (x, top, bottom) => `M${x - 3} ${top}h6M${x} ${top}V${bottom}M${x - 3} ${bottom}h6`;

// Charts are redrawn when their width changes.
const widths = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const width = Math.floor(contentRect.width);
    if (width && target.drawnWidth !== width) {
      target.drawnWidth = width;
      target.redraw();
    }
  }
});

function canvas(make, state, label) {
  const host = el("div");
  host.redraw = () => {
    const width = host.drawnWidth || Math.floor(host.clientWidth);
    if (!width || !host.isConnected) return;
    const { height, parts } = make(width);
    host.replaceChildren(rove(draw("svg", {
      width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label,
    }, parts)));
  };
  state.redraw.push(() => host.redraw());
  widths.observe(host);
  return host;
}
