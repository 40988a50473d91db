// Asks the server every few seconds and updates what has changed.

const EVERY = 2000; // milliseconds between two questions
const AFTER_ERROR = 5000;
const MOST_LINES = 8; // that are chosen by themselves
const MOST_POINTS = 1200; // of a line; then neighbours become their mean

const byId = (id) => document.getElementById(id);
const clock = (seconds) => {
  const two = (value) => String(value).padStart(2, "0");
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
};
const percent = (share) => `${Math.floor(100 * share + 1e-9)}%`;
const ago = (seconds) => (seconds < 90 ? `${Math.max(0, Math.round(seconds))} s` : seconds < 5400
  ? `${Math.round(seconds / 60)} min` : seconds < 129600 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`);

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.text()).trim() || `the server answered ${answer.status}`);
  return answer.json();
}

function bar(share) {
  const node = el("span", { class: "bar", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100,
    "aria-label": "progress" });
  setShare(node, share);
  return node;
}

function setShare(node, share) {
  node.style.setProperty("--share", share ?? 0);
  if (share === null || share === undefined) node.removeAttribute("aria-valuenow");
  else node.setAttribute("aria-valuenow", Math.floor(100 * share));
}

// All runs

function showMatrices(state) {
  const { counts } = state;
  const parts = Object.entries(counts).filter(([, count]) => count).map(([name, count]) => `${count} ${name}`);
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  byId("summary").textContent = total
    ? `${plural(total, "run")} in ${state.folder}: ${parts.join(", ")}.`
    : `${state.folder} ${state.exists ? "has no runs yet" : "does not exist yet"}. This page will show them.`;
  const shown = state.matrices.map((matrix) => ({
    title: `Process ${matrix.pid} on ${matrix.host}`, text: matrix.text, share: matrix.share, left: matrix.left,
  }));
  if (!shown.length && counts.running + counts.pending) { // such as on a cluster
    const running = state.runs.filter((run) => run.state === "running");
    const done = counts.done + running.reduce((sum, run) => sum + (run.share ?? 0), 0);
    shown.push({ title: "All runs of the folder", text: parts.join(", "), share: done / total, left: null });
  }
  byId("matrices").replaceChildren(...shown.map(({ title, text, share, left }) => el("div", { class: "matrix" },
    el("p", {}, el("strong", {}, percent(share)), left === null ? "" : el("span", {}, `about ${clock(left)} left`),
      el("span", { class: "note" }, `${title}. ${text}`)), bar(share))));
  document.title = shown.length ? `${percent(shown[0].share)} · sdgbench watch` : "sdgbench watch";
}

// One run

const rows = new Map(); // by key: the nodes of a run's row
const wanted = new Map(); // by key: what the user ticked or unticked
const lines = new Map(); // by key: the runs whose curves are shown, with their looks and points

function makeRow(run) {
  const box = el("input", { type: "checkbox", "aria-label": `show the curve of ${run.label}`,
    onchange: () => { wanted.set(run.key, box.checked); update(); } });
  const sample = el("span");
  const name = el("span");
  const detail = el("small");
  const progress = bar(null);
  const share = el("span");
  const left = el("td", { class: "time" });
  const node = el("tr", {}, el("td", {}, el("label", {}, box, sample)), el("td", { class: "run" }, name, detail),
    el("td", {}, el("div", { class: "share" }, progress, share)), left);
  return { node, box, sample, name, detail, progress, share, left };
}

function detailOf(run, now) {
  if (run.state === "running" && run.phase) {
    return [run.phase + (run.total ? ` ${run.done.toLocaleString("en")}/${run.total.toLocaleString("en")}` : ""),
      run.loss === null ? "" : `loss ${short(run.loss)}`, run.rate ? `${Math.round(run.rate)} images/s` : "",
    ].filter(Boolean).join(", ");
  }
  if (run.state === "done") return `done ${ago(now - run.finished)} ago`;
  return run.state + (run.detail ? `: ${run.detail}` : "");
}

function showRuns(state) {
  const now = Date.now() / 1000;
  const keys = new Set(state.runs.map((run) => run.key));
  for (const key of [...rows.keys()].filter((other) => !keys.has(other))) {
    rows.get(key).node.remove();
    rows.delete(key);
  }
  const finished = state.runs.filter((run) => run.state === "done");
  const unfinished = state.runs.filter((run) => run.state !== "done");
  fillTable(byId("runs"), unfinished, now);
  fillTable(byId("finished").querySelector("table"), finished, now);
  const { done } = state.counts;
  const newest = done > finished.length ? `, the newest ${finished.length}` : "";
  byId("finished").firstElementChild.textContent = `${plural(done, "finished run")}${newest}`;
  byId("finished").hidden = !done;
  const open = Object.entries(state.counts).reduce((sum, [name, count]) => sum + (name === "done" ? 0 : count), 0);
  byId("runs-note").textContent = open > unfinished.length ? `${open - unfinished.length} more are not listed.` : "";
  byId("runs").hidden = !unfinished.length;
}

function fillTable(table, runs, now) {
  const body = table.tBodies[0];
  runs.forEach((run, index) => {
    if (!rows.has(run.key)) rows.set(run.key, makeRow(run));
    const row = rows.get(run.key);
    const share = run.state === "done" ? 1 : run.share ?? null;
    row.node.className = run.state;
    row.name.textContent = run.label;
    row.detail.textContent = detailOf(run, now);
    setShare(row.progress, share);
    row.share.textContent = share === null ? "" : percent(share);
    row.left.textContent = run.state !== "running" || (run.left ?? null) === null ? "" : clock(run.left);
    row.box.disabled = !run.bytes && !lines.has(run.key);
    if (body.children[index] !== row.node) body.insertBefore(row.node, body.children[index] ?? null);
  });
}

// Which curves are shown: running ones, or else the newest; what the user ticked comes first.

function chooseLines(state) {
  const byKey = new Map(state.runs.map((run) => [run.key, run]));
  const chosen = new Set([...wanted].filter(([key, on]) => on && byKey.has(key)).map(([key]) => key));
  const add = (candidates, most) => {
    for (const run of candidates) {
      if (chosen.size >= most) break;
      if (run.bytes && wanted.get(run.key) !== false) chosen.add(run.key);
    }
  };
  add(state.runs.filter((run) => run.state === "running"), MOST_LINES);
  add(state.runs.filter((run) => lines.has(run.key)), MOST_LINES); // finished while they were watched
  if (!chosen.size) add(state.runs, 4);
  for (const key of [...lines.keys()].filter((other) => !chosen.has(other))) lines.delete(key);
  for (const key of chosen) {
    if (!lines.has(key)) {
      const used = new Set([...lines.values()].map((other) => other.number));
      let number = 0;
      while (used.has(number)) number += 1;
      lines.set(key, { key, number, look: [number % COLOURS, number % MARKERS.length, Math.floor(number / COLOURS) % DASHES.length],
        offset: 0, check: "", size: 0, series: new Map() });
    }
    lines.get(key).label = byKey.get(key).label;
  }
  for (const [key, row] of rows) {
    row.box.checked = lines.has(key);
    const number = lines.get(key)?.number;
    if (row.number !== number) row.sample.replaceChildren(...(lines.has(key) ? [swatch(lines.get(key))] : []));
    row.number = number;
  }
}

async function readCurve(curve, bytes) {
  let more = curve.size !== bytes;
  while (more) {
    const query = new URLSearchParams({ run: curve.key, offset: curve.offset, check: curve.check });
    const news = await ask(`/api/curve?${query}`);
    if (news.from_start) curve.series.clear();
    Object.assign(curve, { offset: news.offset, check: news.check, size: bytes });
    for (const [name, points] of Object.entries(news.series)) addPoints(curve, name, points);
    more = news.is_more;
  }
}

function addPoints(curve, name, points) {
  if (!curve.series.has(name)) curve.series.set(name, { xs: [], ys: [], last: new Map(), count: 0 });
  const series = curve.series.get(name);
  for (const [phase, step, value] of points) {
    let before = 0; // steps of earlier phases of this name; a score counts them itself
    if (name !== "validation") {
      series.last.set(phase, step);
      for (const [other, last] of series.last) if (other < phase) before += last;
    }
    series.xs.push(before + step);
    series.ys.push(value);
  }
  series.count += points.length;
  while (series.xs.length > MOST_POINTS) {
    const pairs = Math.floor(series.xs.length / 2);
    const rest = series.xs.length % 2 ? [series.xs.at(-1), series.ys.at(-1)] : null;
    const ys = Array.from({ length: pairs }, (_, i) => (series.ys[2 * i] + series.ys[2 * i + 1]) / 2);
    series.xs = Array.from({ length: pairs }, (_, i) => series.xs[2 * i + 1]);
    series.ys = ys;
    if (rest) {
      series.xs.push(rest[0]);
      series.ys.push(rest[1]);
    }
  }
}

// Curves: one panel per name, training first, then the scores.

const panels = new Map(); // by name: the nodes
const titleOf = (name) => (name === "validation" ? "score on held-out source, per cent"
  : name === "train" ? "loss in training" : `loss in phase ${name}`);

function showCurves() {
  const found = new Set([...lines.values()].flatMap(({ series }) => [...series.keys()]));
  const order = (name) => ["train", "validation"].indexOf(name) + 1 || 9;
  const names = [...found].sort((a, b) => order(a) - order(b) || nameCompare(a, b));
  for (const name of [...panels.keys()].filter((other) => !found.has(other))) panels.delete(name);
  for (const name of names) {
    if (!panels.has(name)) {
      const host = canvas((width) => curvePanel(name, width), { redraw: [] }, `${titleOf(name)}, by step`);
      panels.set(name, { host, node: el("div", {}, el("h4", {}, titleOf(name)), host) });
    }
  }
  const nodes = names.map((name) => panels.get(name).node);
  const area = byId("panels");
  if (nodes.length !== area.children.length || nodes.some((node, index) => area.children[index] !== node)) {
    area.replaceChildren(...nodes);
  }
  names.forEach((name) => panels.get(name).host.redraw());
  byId("key").replaceChildren(...[...lines.values()].map((curve) => el("li", {}, swatch(curve), curve.label)));
  byId("curves-note").hidden = !names.length;
  byId("curves-title").hidden = !names.length;
}

function curvePanel(name, width) {
  const shown = [...lines.values()].filter(({ series }) => series.get(name)?.xs.length);
  const height = 240;
  const box = { left: 42, right: 10, top: 8, bottom: 36 };
  const values = shown.flatMap(({ series }) => series.get(name).ys);
  const furthest = shown.reduce((most, { series }) => Math.max(most, series.get(name).xs.at(-1)), 1);
  const [low, high] = values.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, -Infinity]);
  const wide = name !== "validation" && low > 0 && high / low > 10;
  const y = wide ? logarithmic(low / 1.1, high * 1.1, height - box.bottom, box.top)
    : linear(...span([low, high]), height - box.bottom, box.top);
  const x = linear(0, furthest, box.left, width - box.right);
  const parts = frame(width, height, box, x, y, { xLabel: `step${wide ? "; log scale" : ""}`, columns: 5 });
  for (const curve of shown) {
    const { xs, ys, count } = curve.series.get(name);
    const points = xs.map((step, index) => [x(step), y(ys[index])]);
    const text = `${curve.label}: ${short(ys.at(-1))} at step ${short(xs.at(-1))}`;
    parts.push(draw("path", { d: line(points.length > 1 ? points : [points[0], points[0]]), fill: "none",
      stroke: colourOf(curve), "stroke-width": 1.8, "stroke-dasharray": dashOf(curve), "stroke-linejoin": "round",
      role: "img", "aria-label": text, "data-run": curve.key, "data-points": count }, draw("title", {}, text)),
    marker(curve, ...points.at(-1), 3.5));
  }
  return { height, parts };
}

// Finished runs

let tablesShown = null;
const sorts = new Map(); // by title: how the user sorted a table

function showTables({ boards, problems }) {
  const note = byId("tables-note");
  note.replaceChildren(...(boards.length
    ? [`${plural(boards.length, "table")}: means over seeds with 95% intervals. `, el("a", { href: "/report", target: "_blank" }, "All views, figures and records")]
    : ["No run has finished yet."]), ...problems.map((problem) => el("span", {}, ` ${problem}`)));
  byId("tables").replaceChildren(...boards.map((board) => {
    if (!sorts.has(board.title)) sorts.set(board.title, { sort: null, matches: () => true });
    const state = sorts.get(board.title);
    if (state.sort && state.sort.column >= board.table.columns.length) state.sort = null;
    return el("div", { class: "finished" }, el("h3", {}, board.title),
      board.reduced ? el("p", { class: "callout" }, el("strong", {}, "Reduced scale. "), board.reduced) : null,
      resultTable(board, board.table, state).node, tableNotes(board.table));
  }));
}

// The loop

let timer = 0;
let busy = false;
let again = false;

async function update() {
  if (busy) {
    again = true;
    return;
  }
  clearTimeout(timer);
  busy = true;
  let pause = EVERY;
  try {
    const state = await ask("/api/state");
    showMatrices(state);
    showRuns(state);
    chooseLines(state);
    const bytes = new Map(state.runs.map((run) => [run.key, run.bytes]));
    await Promise.all([...lines.values()].map((curve) => readCurve(curve, bytes.get(curve.key))));
    showCurves();
    if (tablesShown !== state.tables) {
      showTables(await ask("/api/tables"));
      tablesShown = state.tables;
    }
    byId("problem").hidden = true;
    byId("foot").textContent = `sdgbench ${DATA.version}. Updated ${new Date().toLocaleTimeString("en-GB")}; every ${EVERY / 1000} seconds while this page is visible.`;
  } catch (error) {
    // A TypeError of fetch: nobody answers.
    const gone = error instanceof TypeError && /fetch/i.test(error.message);
    byId("problem").textContent = gone
      ? "Nobody answers: sdgbench watch was stopped? This page shows the last state and goes on trying."
      : `It cannot be shown: ${error.message}`;
    byId("problem").hidden = false;
    pause = AFTER_ERROR;
  }
  busy = false;
  if (again) {
    again = false;
    update();
  } else if (!document.hidden) {
    timer = setTimeout(update, pause);
  }
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) update();
});
themeButton();
update();
