// The figures of a board. Each returns what stands in it and its controls.

const visible = (board, state) =>
  board.rows.map((row, place) => ({ row, place })).filter(({ row }) => state.matches(row.name));
const scaleNote = (board) => (board.reduced ? `Reduced scale: ${board.reduced}` : "");
const clip = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function bars(board, state) {
  const table = board.tables[0];
  const columns = table.columns.map((column, place) => [String(place), column])
    .filter(([, column]) => column.better && !column.name.startsWith("mCE") && !column.name.startsWith("RmCE"));
  let chosen = columns.find(([, column]) => column.name === board.ranked)?.[0] ?? columns[0][0];

  function make(width) {
    const lines = table.lines.filter((one) => state.matches(one.name) && one.cells[chosen].mean !== undefined);
    const space = width < 520 ? 104 : 190;
    const box = { left: space, right: 96, top: 6, bottom: 26 };
    const step = 30;
    const height = box.top + step * lines.length + box.bottom;
    const values = lines.map((one) => [one.cells[chosen].mean, ...(one.cells[chosen].seeds ?? [])]);
    const highest = Math.max(1, ...values.flat(), ...lines.map((one) => one.cells[chosen].mean + halfOf(one.cells[chosen])));
    const x = linear(0, highest, box.left, width - box.right);
    const parts = [];
    for (const tick of x.ticks(width < 520 ? 3 : 6)) {
      parts.push(draw("path", { class: "axis", d: `M${x(tick)} ${box.top}V${height - box.bottom}` }),
        draw("text", { x: x(tick), y: height - 8, "text-anchor": "middle" }, short(tick)));
    }
    lines.forEach((one, place) => {
      const cell = one.cells[chosen];
      const row = board.rows[one.row];
      const y = box.top + place * step;
      const middle = y + step / 2;
      const half = halfOf(cell);
      parts.push(draw("text", { class: "strong", x: box.left - 8, y: middle + 4, "text-anchor": "end" },
        clip(one.name, Math.floor(space / 7))));
      parts.push(draw("rect", { x: x(0), y: y + 6, width: Math.max(0, x(cell.mean) - x(0)), height: step - 12,
        rx: 1.5, fill: colourOf(row), opacity: 0.85 }));
      if (half) {
        const reach = `M${x(Math.max(0, cell.mean - half))} ${middle}H${x(cell.mean + half)}`;
        const ends = [-1, 1].map((side) => `M${x(Math.max(0, cell.mean + side * half))} ${middle - 5}v10`).join("");
        parts.push(draw("path", { class: "on-bar", d: reach + ends }), draw("path", { class: "whisker", d: reach + ends }));
      }
      parts.push(draw("text", { class: "strong", x: x(cell.mean + half) + 7, y: middle + 4,
        "font-weight": cell.rank === 1 ? 700 : 400 }, cell.shown));
      parts.push(explain(draw("rect", { class: "hit", x: 0, y, width, height: step, role: "img",
        "aria-label": `${one.name}: ${cell.shown}` }), () => ({
        title: `${one.name}, ${table.columns[chosen].name}`, big: cell.shown,
        lines: [unit(board), `n = ${one.n}`, scaleNote(board)],
        seeds: seedList(row, cell.seeds, 2),
      })));
    });
    return { height, parts };
  }
  const place = canvas(make, state, "Bars with 95% intervals");
  const control = chooser("Column", columns.map(([key, column]) => [key, column.name]), chosen, (key) => {
    chosen = key;
    place.redraw();
  });
  return { place, controls: [control] };
}

function halfOf(cell) {
  const found = /±([\d.,]+)/.exec(cell.shown);
  return found ? Number(found[1].replaceAll(",", "")) : 0;
}

// Severity curves: all corruptions as small panels, or one of them large.

function severity(board, state) {
  let chosen = "all";
  const place = el("div", { class: "panels" });
  const range = span(board.panels.flatMap((panel) => panel.scores.flat().map(([mean]) => mean)), 0.03);

  function chart(panel, large) {
    return canvas((width) => {
      const height = large ? 320 : 128;
      const box = { left: 30, right: 8, top: 8, bottom: large ? 38 : 20 };
      const x = linear(panel.levels[0], panel.levels.at(-1), box.left + 4, width - box.right);
      const y = linear(Math.max(0, range[0]), Math.min(100, range[1]), height - box.bottom, box.top);
      const parts = frame(width, height, box, x, y, {
        xTicks: panel.levels, xName: (level) => (level ? String(level) : large ? "clean" : "0"), rows: large ? 6 : 3,
        xLabel: large ? "severity" : "",
      });
      const hits = [];
      for (const { row, place: number } of visible(board, state)) {
        const points = panel.scores[number].map(([mean], at) => [x(panel.levels[at]), y(mean)]);
        parts.push(draw("path", { d: line(points), fill: "none", stroke: colourOf(row),
          "stroke-width": large ? 2 : 1.6, "stroke-dasharray": dashOf(row) }));
        points.forEach(([left, top], at) => {
          const [mean, half] = panel.scores[number][at];
          if (large && half) {
            parts.push(draw("path", { class: "whisker", opacity: 0.6, d: whisker(left, y(Math.min(100, mean + half)), y(Math.max(0, mean - half))) }));
          }
          parts.push(marker(row, left, top, large ? 4.5 : 2.6));
          hits.push(explain(draw("circle", { class: "hit", cx: left, cy: top, r: large ? 9 : 6, role: "img",
            "aria-label": `${row.name}, severity ${panel.levels[at]}: ${interval([mean, half])}` }), () => ({
            title: `${row.name}, ${panel.name}, ${panel.levels[at] ? `severity ${panel.levels[at]}` : "clean"}`,
            big: interval([mean, half]), lines: [unit(board), scaleNote(board)],
            seeds: seedList(row, seedMeans(board, number, panel.places[at]), 2),
          })));
        });
      }
      return { height, parts: [...parts, ...hits] };
    }, state, `${panel.name}: ${unit(board)} by severity`);
  }

  function show() {
    const panels = chosen === "all" ? board.panels : [board.panels[Number(chosen)]];
    const large = panels.length === 1;
    place.style.setProperty("--narrow", large ? "100%" : "9.4rem");
    place.replaceChildren(...panels.map((panel) => el("div", {},
      el("h4", {}, panel.name.replaceAll("_", " "), panel.group ? el("span", {}, ` ${panel.group}`) : ""),
      chart(panel, large))));
  }
  show();
  const options = [["all", "all, small"], ...board.panels.map((panel, at) => [String(at), panel.name])];
  return { place: [place, legend(board, state)], controls: [chooser("Corruption", options, "all", (key) => {
    chosen = key;
    show();
  })] };
}

const seedMeans = (board, number, places) => board.by_seed[number].map((scores) =>
  places.reduce((sum, at) => sum + scores[at], 0) / places.length);

// Scores against costs; the dashed steps are the Pareto front.

function scatter(board, state) {
  const place = el("div", { class: "panels" }, board.clouds.map((cloud) => el("div", {},
    el("h4", {}, cloud.label),
    canvas((width) => cloudChart(board, state, cloud, width), state, `${unit(board)} against ${cloud.label}`))));
  place.style.setProperty("--narrow", "17rem");
  return { place: [place, legend(board, state)], controls: [] };
}

function cloudChart(board, state, cloud, width) {
  const shown = cloud.points.filter((point) => state.matches(board.rows[point.row].name));
  const height = 250;
  const box = { left: 36, right: 12, top: 10, bottom: 36 };
  const costs = shown.map((point) => point.x);
  const wide = costs.length > 0 && Math.min(...costs) > 0 && Math.max(...costs) / Math.min(...costs) > 20;
  const [low, high] = span(costs, 0.12);
  const x = wide
    ? logarithmic(Math.min(...costs) / 1.4, Math.max(...costs) * 1.4, box.left, width - box.right)
    : linear(Math.max(0, low), high, box.left, width - box.right);
  const ends = ([mean, half]) => [Math.max(0, mean - (half ?? 0)), Math.min(100, mean + (half ?? 0))];
  const [least, most] = span(shown.flatMap((point) => ends(point.y)), 0.1);
  const y = linear(Math.max(0, least), Math.min(100, most), height - box.bottom, box.top);
  const parts = frame(width, height, box, x, y, { xLabel: cloud.label + (wide ? ", log scale" : ""), columns: 4 });
  const front = cloud.front.map((row) => shown.find((point) => point.row === row)).filter(Boolean);
  if (front.length > 1) {
    const steps = front.flatMap((point, at) => (at ? [[x(point.x), y(front[at - 1].y[0])]] : []).concat([[x(point.x), y(point.y[0])]]));
    parts.push(draw("path", { class: "front", d: line(steps) }));
  }
  const hits = [];
  for (const point of shown) {
    const row = board.rows[point.row];
    const [mean, half] = point.y;
    const best = cloud.front.includes(point.row);
    if (half) parts.push(draw("path", { class: "whisker", opacity: 0.45, d: whisker(x(point.x), ...ends(point.y).reverse().map(y)) }));
    if (best) parts.push(draw("circle", { cx: x(point.x), cy: y(mean), r: 9, fill: "none", stroke: "var(--soft)" }));
    parts.push(marker(row, x(point.x), y(mean), 5));
    hits.push(explain(draw("circle", { class: "hit", cx: x(point.x), cy: y(mean), r: 11, role: "img",
      "aria-label": `${row.name}: ${interval(point.y)} at ${short(point.x)}` }), () => ({
      title: row.name, big: `${board.ranked} ${interval(point.y)}`,
      lines: [`${cloud.label}: ${short(point.x)}`, best ? "on the Pareto front" : "", scaleNote(board)],
      seeds: seedList(row, null, 1),
    })));
  }
  return { height, parts: [...parts, ...hits] };
}

// Training curves: one line per run.

function curves(board, state) {
  const seeds = [...new Set(board.rows.flatMap((row) => row.seeds))].sort((a, b) => a - b);
  let chosen = "all";
  const kinds = [["loss", "loss in training"], ["validation", `${board.metric} on held-out source`]];
  const panels = kinds.map(([kind, title]) => el("div", {}, el("h4", {}, title),
    canvas((width) => curveChart(board, state, kind, title, width, chosen), state, `${title} by step`)));
  const place = el("div", { class: "panels" }, panels);
  place.style.setProperty("--narrow", "24rem");
  const options = [["all", "all"], ...seeds.map((seed) => [String(seed), String(seed)])];
  const control = chooser("Seed", options, "all", (key) => {
    chosen = key;
    panels.forEach((panel) => panel.lastChild.redraw());
  });
  return { place: [place, legend(board, state)], controls: seeds.length > 1 ? [control] : [] };
}

function curveChart(board, state, kind, title, width, chosen) {
  const shown = board.curves.filter(({ row, seed, [kind]: [steps] }) => steps.length
    && state.matches(board.rows[row].name) && (chosen === "all" || String(board.rows[row].seeds[seed]) === chosen));
  const height = 240;
  const box = { left: 42, right: 10, top: 8, bottom: 36 };
  if (!shown.length) return { height: 40, parts: [draw("text", { x: 0, y: 20 }, "No such curve was recorded.")] };
  const steps = shown.flatMap((curve) => curve[kind][0]);
  const values = shown.flatMap((curve) => curve[kind][1]).filter((value) => value !== null);
  const x = linear(Math.min(0, ...steps), Math.max(...steps), box.left, width - box.right);
  const positive = kind === "loss" && Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 10;
  const y = positive
    ? logarithmic(Math.min(...values) / 1.1, Math.max(...values) * 1.1, height - box.bottom, box.top)
    : linear(...span(values), height - box.bottom, box.top);
  const parts = frame(width, height, box, x, y, { xLabel: `step of training${positive ? "; log scale" : ""}`, columns: 5 });
  const hits = [];
  for (const curve of shown) {
    const row = board.rows[curve.row];
    const [at, score] = curve[kind];
    const points = at.map((step, place) => [x(step), y(score[place])]);
    const path = line(points.length > 1 ? points : [points[0], points[0]]);
    parts.push(draw("path", { d: path, fill: "none", stroke: colourOf(row), "stroke-width": 1.6,
      "stroke-dasharray": dashOf(row), opacity: chosen === "all" && row.seeds.length > 1 ? 0.6 : 1, "stroke-linejoin": "round" }));
    if (points.length <= 12) parts.push(...points.map(([left, top]) => marker(row, left, top, 3)));
    else parts.push(marker(row, ...points.at(-1), 3.5));
    const seed = row.seeds[curve.seed];
    hits.push(explain(draw("path", { class: "hit", d: path, role: "img", "aria-label": `${row.name}, seed ${seed}` }), () => ({
      title: `${row.name}, seed ${seed}: ${title}`, big: `${short(score.at(-1))} at the end`,
      lines: [`${at.length} points to step ${short(at.at(-1))}`, scaleNote(board)],
      seeds: [{ text: `seed ${seed}`, record: row.records[curve.seed] }],
    })));
  }
  return { height, parts: [...parts, ...hits] };
}
