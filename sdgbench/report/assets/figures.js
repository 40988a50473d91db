// The figures of a board. Each returns its content and its controls.

const chosenFigures = (board, state) => board.choices[state.choice] ?? board.choices.last;
const visible = (board, state) =>
  board.rows.map((row, index) => ({ row, index })).filter(({ row, index }) =>
    state.matches(row.name) && chosenFigures(board, state).scores[index]);
const scaleNote = (board) => (board.reduced ? `Reduced scale: ${board.reduced}` : "");
const clip = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function bars(board, state) {
  const names = board.tables[0].columns.filter(({ name, better }) =>
    better && !name.startsWith("mCE") && !name.startsWith("RmCE")).map(({ name }) => name);
  let wanted = names.includes(board.ranked) ? board.ranked : names[0];

  function make(width) {
    // The same weights as in the table above.
    const table = board.tables.find(({ kind, choice }) => kind === "domains" && choice === state.choice) ?? board.tables[0];
    const chosen = table.columns.findIndex(({ name }) => name === wanted);
    const lines = table.lines.filter((line) => state.matches(line.name) && line.cells[chosen].mean !== undefined);
    const space = width < 520 ? 104 : 190;
    const box = { left: space, right: 96, top: 6, bottom: 26 };
    const step = 30;
    const height = box.top + step * lines.length + box.bottom;
    const values = lines.map((line) => [line.cells[chosen].mean, ...(line.cells[chosen].seeds ?? [])]);
    const highest = Math.max(1, ...values.flat(), ...lines.map((line) => line.cells[chosen].mean + halfOf(line.cells[chosen])));
    const x = linear(0, highest, box.left, width - box.right);
    const parts = [];
    for (const tick of x.ticks(width < 520 ? 3 : 6)) {
      parts.push(draw("path", { class: "axis", d: `M${x(tick)} ${box.top}V${height - box.bottom}` }),
        draw("text", { x: x(tick), y: height - 8, "text-anchor": "middle" }, short(tick)));
    }
    lines.forEach((line, index) => {
      const cell = line.cells[chosen];
      const row = board.rows[line.row];
      const y = box.top + index * step;
      const middle = y + step / 2;
      const half = halfOf(cell);
      parts.push(draw("text", { class: "strong", x: box.left - 8, y: middle + 4, "text-anchor": "end" },
        clip(line.name, Math.floor(space / 7))));
      parts.push(draw("rect", { x: x(0), y: y + 6, width: Math.max(0, x(cell.mean) - x(0)), height: step - 12,
        rx: 1.5, fill: colourOf(row) }));
      if (half) {
        const reach = `M${x(Math.max(0, cell.mean - half))} ${middle}H${x(cell.mean + half)}`;
        const ends = [-1, 1].map((side) => `M${x(Math.max(0, cell.mean + side * half))} ${middle - 5}v10`).join("");
        parts.push(draw("path", { class: "on-bar", d: reach + ends }), draw("path", { class: "whisker", d: reach + ends }));
      }
      parts.push(draw("text", { class: "strong", x: x(cell.mean + half) + 7, y: middle + 4,
        "font-weight": cell.rank === 1 ? 700 : 400 }, cell.shown));
      parts.push(explain(draw("rect", { class: "hit", x: 0, y, width, height: step, role: "img",
        "aria-label": `${line.name}: ${cell.shown}` }), () => ({
        title: `${line.name}, ${table.columns[chosen].name}`, big: cell.shown,
        lines: [unit(board), `n = ${line.n}`, scaleNote(board)],
        seeds: seedList(row, cell.seeds, 2),
      })));
    });
    return { height, parts };
  }
  const host = canvas(make, state, "Bars with 95% intervals");
  const control = choice(state, "bars", "Column", names.map((name) => [name, name]), wanted, (name) => {
    wanted = name;
    host.redraw();
  });
  return { content: host, controls: [control] };
}

const halfOf = (cell) => cell.half ?? 0;

// Severity curves: all corruptions as small panels, or one of them large.

function severity(board, state) {
  let chosen = "all";
  const host = el("div", { class: "panels" });

  function chart(panel, at, large) {
    return canvas((width) => {
      const { panels } = chosenFigures(board, state);
      const scores = panels[at];
      const range = span(panels.flatMap((rows) => rows.flatMap((row) => (row ?? []).map(([mean]) => mean))), 0.03);
      const height = large ? 320 : 128;
      const box = { left: 30, right: 8, top: 8, bottom: large ? 38 : 20 };
      const x = linear(panel.levels[0], panel.levels.at(-1), box.left + 4, width - box.right);
      const y = linear(Math.max(0, range[0]), Math.min(100, range[1]), height - box.bottom, box.top);
      const parts = frame(width, height, box, x, y, {
        xTicks: panel.levels, xName: (level) => (level ? String(level) : large ? "clean" : "0"), rows: large ? 6 : 3,
        xLabel: large ? "severity" : "",
      });
      const hits = [];
      for (const { row, index } of visible(board, state)) {
        const points = scores[index].map(([mean], level) => [x(panel.levels[level]), y(mean)]);
        parts.push(draw("path", { d: line(points), fill: "none", stroke: colourOf(row),
          "stroke-width": large ? 2 : 1.6, "stroke-dasharray": dashOf(row) }));
        points.forEach(([left, top], at) => {
          const [mean, half] = scores[index][at];
          if (large && half) {
            parts.push(draw("path", { class: "whisker", opacity: 0.6, d: whisker(left, y(Math.min(100, mean + half)), y(Math.max(0, mean - half))) }));
          }
          parts.push(marker(row, left, top, large ? 4.5 : 2.6));
          hits.push(explain(draw("circle", { class: "hit", cx: left, cy: top, r: large ? 9 : 6, role: "img",
            "aria-label": `${row.name}, severity ${panel.levels[at]}: ${interval([mean, half])}` }), () => ({
            title: `${row.name}, ${panel.name}, ${panel.levels[at] ? `severity ${panel.levels[at]}` : "clean"}`,
            big: interval([mean, half]), lines: [unit(board), scaleNote(board)],
            seeds: seedList(row, seedMeans(chosenFigures(board, state), index, panel.indices[at]), 2),
          })));
        });
      }
      return { height, parts: [...parts, ...hits] };
    }, state, `${panel.name}: ${unit(board)} by severity`);
  }

  function show() {
    const shown = [...board.panels.entries()].filter(([at]) => chosen === "all" || String(at) === chosen);
    const large = shown.length === 1;
    host.style.setProperty("--narrow", large ? "100%" : "9.4rem");
    host.replaceChildren(...shown.map(([at, panel]) => el("div", {},
      el("h4", {}, panel.name.replaceAll("_", " "), panel.group ? el("span", {}, ` ${panel.group}`) : ""),
      chart(panel, at, large))));
  }
  show();
  const options = [["all", "all, small"], ...board.panels.map((panel, at) => [String(at), panel.name])];
  return { content: [host, legend(board, state)], controls: [choice(state, "corruption", "Corruption", options, "all", (key) => {
    chosen = key;
    show();
  })] };
}

const seedMeans = (figures, row, indices) => figures.by_seed[row].map((scores) =>
  indices.reduce((sum, index) => sum + scores[index], 0) / indices.length);

// Scores against costs; rings are around what no other row beats.

function scatter(board, state) {
  const host = el("div", { class: "panels" }, board.choices.last.clouds.map(({ name, label }) => el("div", {},
    el("h4", {}, label),
    canvas((width) => {
      const cloud = chosenFigures(board, state).clouds.find((other) => other.name === name);
      return cloud ? cloudChart(board, state, cloud, width) : { height: 40, parts: [draw("text", { x: 0, y: 20 }, "No such weights.")] };
    }, state, `${unit(board)} against ${label}`))));
  host.style.setProperty("--narrow", "17rem");
  return { content: [host, legend(board, state)], controls: [] };
}

function cloudChart(board, state, cloud, width) {
  const shown = cloud.points.filter((point) => state.matches(board.rows[point.row].name));
  const height = 250;
  const box = { left: 36, right: 12, top: 10, bottom: 36 };
  const costs = shown.flatMap(({ x: [mean, half] }) => [Math.max(mean - (half ?? 0), mean / 10), mean + (half ?? 0)]);
  const wide = costs.length > 0 && Math.min(...costs) > 0 && Math.max(...costs) / Math.min(...costs) > 20;
  const [low, high] = span(costs, 0.12);
  const x = wide
    ? logarithmic(Math.min(...costs) / 1.4, Math.max(...costs) * 1.4, box.left, width - box.right)
    : linear(Math.max(0, low), high, box.left, width - box.right);
  const ends = ([mean, half]) => [Math.max(0, mean - (half ?? 0)), Math.min(100, mean + (half ?? 0))];
  const [least, most] = span(shown.flatMap((point) => ends(point.y)), 0.1);
  const y = linear(Math.max(0, least), Math.min(100, most), height - box.bottom, box.top);
  const parts = frame(width, height, box, x, y, { xLabel: cloud.label + (wide ? ", log scale" : ""), columns: 4 });
  const hits = [];
  for (const point of shown) {
    const row = board.rows[point.row];
    const [mean, half] = point.y;
    const [cost, spread] = point.x;
    const best = cloud.front.includes(point.row);
    const bar = { class: "whisker", opacity: 0.6 };
    if (half) parts.push(draw("path", { ...bar, d: whisker(x(cost), ...ends(point.y).reverse().map(y)) }));
    if (spread) parts.push(draw("path", { ...bar, d: sideways(y(mean), x(Math.max(cost - spread, cost / 10)), x(cost + spread)) }));
    if (best) parts.push(draw("circle", { cx: x(cost), cy: y(mean), r: 9, fill: "none", stroke: "var(--soft)" }));
    parts.push(marker(row, x(cost), y(mean), 5));
    const costText = short(cost) + (spread ? ` ±${short(spread)}` : "");
    hits.push(explain(draw("circle", { class: "hit", cx: x(cost), cy: y(mean), r: 11, role: "img",
      "aria-label": `${row.name}: ${interval(point.y)} at ${costText}` }), () => ({
      title: row.name, big: `${board.ranked} ${interval(point.y)}`,
      lines: [`${cloud.label}: ${costText}`, best ? "beaten by no other" : "", scaleNote(board)],
      seeds: seedList(row, null, 1),
    })));
  }
  return { height, parts: [...parts, ...hits] };
}

// Training curves: the mean over seeds with its band, or the runs of one seed.

function curves(board, state) {
  const seeds = [...new Set(board.rows.flatMap((row) => row.seeds))].sort((a, b) => a - b);
  let chosen = "mean";
  const kinds = [["loss", "loss in training"], ["validation", `${board.metric} on held-out source`]];
  const panels = kinds.map(([kind, title]) => el("div", {}, el("h4", {}, title),
    canvas((width) => curveChart(board, state, kind, title, width, chosen), state, `${title} by step`)));
  const host = el("div", { class: "panels" }, panels);
  host.style.setProperty("--narrow", "24rem");
  const options = [["mean", "mean"], ...seeds.map((seed) => [String(seed), String(seed)])];
  const control = choice(state, "seed", "Seed", options, "mean", (key) => {
    chosen = key;
    panels.forEach((panel) => panel.lastChild.redraw());
  });
  return { content: [host, legend(board, state)], controls: seeds.length > 1 ? [control] : [] };
}

// Lines of a chart: steps, values, ends of intervals (none for one run), and the records behind them.
function curveLines(board, state, kind, chosen) {
  if (chosen === "mean") {
    return board.mean_curves.filter(({ row }) => state.matches(board.rows[row].name)).map((curve) => {
      const row = board.rows[curve.row];
      const [xs, ys, lows, highs] = curve[kind];
      return { row, xs, ys, lows, highs, name: `mean of ${row.seeds.length}`,
        seeds: seedList(row, null, 1) };
    }).filter(({ xs }) => xs.length);
  }
  return board.curves.filter((curve) => curve[kind][0].length && state.matches(board.rows[curve.row].name)
    && String(board.rows[curve.row].seeds[curve.seed]) === chosen).map((curve) => {
    const row = board.rows[curve.row];
    return { row, xs: curve[kind][0], ys: curve[kind][1], lows: [], highs: [], name: `seed ${chosen}`,
      seeds: [{ text: `seed ${chosen}`, record: row.records[curve.seed] }] };
  });
}

function curveChart(board, state, kind, title, width, chosen) {
  const shown = curveLines(board, state, kind, chosen);
  const height = 240;
  const box = { left: 42, right: 10, top: 8, bottom: 36 };
  if (!shown.length) return { height: 40, parts: [draw("text", { x: 0, y: 20 }, "No such curve was recorded.")] };
  const values = shown.flatMap(({ ys }) => ys).filter((value) => value !== null);
  const x = linear(0, Math.max(...shown.flatMap(({ xs }) => xs)), box.left, width - box.right);
  const positive = kind === "loss" && Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 10;
  const y = positive
    ? logarithmic(Math.min(...values) / 1.1, Math.max(...values) * 1.1, height - box.bottom, box.top)
    : linear(...span(values), height - box.bottom, box.top);
  const parts = frame(width, height, box, x, y, { xLabel: `step of training${positive ? "; log scale" : ""}`, columns: 5 });
  const inside = (value) => Math.min(height - box.bottom, Math.max(box.top, y(value)));
  const bands = [];
  const lines = [];
  const hits = [];
  for (const { row, xs, ys, lows, highs, name, seeds } of shown) {
    const points = xs.map((step, index) => [x(step), y(ys[index])]);
    const path = line(points.length > 1 ? points : [points[0], points[0]]);
    const banded = lows.length && lows.every((low) => low !== null);
    if (banded) {
      const edge = (ends) => xs.map((step, index) => [x(step), inside(ends[index])]);
      bands.push(draw("path", { class: "band", d: `${line([...edge(highs), ...edge(lows).reverse()])}z`, fill: colourOf(row) }));
    }
    const last = short(ys.at(-1)) + (banded ? ` (${short(lows.at(-1))} to ${short(highs.at(-1))})` : "");
    lines.push(draw("path", { d: path, fill: "none", stroke: colourOf(row), "stroke-width": 1.8,
      "stroke-dasharray": dashOf(row), "stroke-linejoin": "round" }));
    if (points.length <= 12) lines.push(...points.map(([left, top]) => marker(row, left, top, 3)));
    else lines.push(marker(row, ...points.at(-1), 3.5));
    hits.push(explain(draw("path", { class: "hit", d: path, role: "img", "aria-label": `${row.name}, ${name}` }), () => ({
      title: `${row.name}, ${name}: ${title}`, big: `${last} at the end`,
      lines: [`${xs.length} points to step ${short(xs.at(-1))}`, scaleNote(board)], seeds,
    })));
  }
  return { height, parts: [...parts, ...bands, ...lines, ...hits] };
}
