// Puts the page together.

function figure(board, title, caption, { place, controls }, broad = true) {
  return el("figure", { class: broad ? "broad" : null },
    el("div", { class: "figure-head" }, el("h3", {}, title), el("div", { class: "tools" }, controls)),
    place, el("figcaption", {}, scaleTag(board), board.reduced ? " " : "", caption));
}

function boardSection(board, place) {
  const state = { filter: "", sort: null, redraw: [] };
  state.matches = (name) => name.toLowerCase().includes(state.filter);
  const count = board.domains.length;
  const times = board.machines.length > 1
    ? "Times are from several machines and do not compare: " + board.machines.join("; ") + "."
    : board.machines.length ? `Measured on ${board.machines[0]}.` : "";
  const figures = [
    figure(board, "Bars", "Means over seeds with 95% t-intervals; one seed has no interval.", bars(board, state), false),
    figure(board, "Heat map", `${unit(board)} on each unseen domain, mean over seeds.`, heatmap(board, state), board.rows.length > 8),
  ];
  if (board.panels.length) {
    figures.push(figure(board, "Severities", `${unit(board)} from clean images to severity ${board.highest}; all panels share one scale.`, severity(board, state)));
  }
  if (board.clouds.length) {
    figures.push(figure(board, "Score against cost", `${board.ranked}, ${unit(board)}. Ringed and joined by dashes: the Pareto front, which no other method beats in both. ${times}`, scatter(board, state)));
  }
  if (board.curves.length) {
    figures.push(figure(board, "Training", "One line per run; long curves are means of neighbouring points.", curves(board, state)));
  }
  const left = board.samples.left_out?.length ? ` Left out: ${board.samples.left_out.join(" ")}` : "";
  const shown = board.samples.missing ? "" : "Which images are shown does not depend on any decision." + left;
  figures.push(figure(board, "Samples", shown, samples(board, state)));
  return el("section", { class: "board", id: `board-${place}`, "aria-labelledby": `title-${place}` },
    el("h2", { id: `title-${place}` }, board.title),
    el("p", { class: "about" }, `${unit(board)}; trained on ${board.source}, tested on ${count} unseen domain${count === 1 ? "" : "s"}; ranked by ${board.ranked}.`),
    board.reduced ? el("p", { class: "callout" }, el("strong", {}, "Reduced scale. "), board.reduced) : null,
    leaderboard(board, state), published(board), el("div", { class: "figures" }, figures));
}

function plural(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

function themeButton() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.classList.contains("dark") || root.classList.contains("light")
    ? root.classList.contains("dark") : system.matches);
  const say = () => {
    button.textContent = isDark() ? "Light theme" : "Dark theme";
  };
  button.addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    root.classList.remove("light", "dark");
    root.classList.add(next);
    say();
  });
  system.addEventListener("change", say);
  say();
}

function start() {
  const methods = new Set(DATA.records.map((record) => record.method)).size;
  const datasets = new Set(DATA.boards.map((board) => board.dataset)).size;
  document.getElementById("summary").textContent =
    `${plural(methods, "method")}, ${plural(datasets, "dataset")}, ${plural(DATA.records.length, "run")}.`;
  const skipped = DATA.skipped ? ` ${plural(DATA.skipped, "record")} could not be read and ${DATA.skipped === 1 ? "is" : "are"} left out.` : "";
  document.getElementById("foot").textContent = `Made by sdgbench ${DATA.version} from records alone.${skipped}`;
  const jump = document.getElementById("jump");
  DATA.boards.forEach((board, place) => jump.append(el("a", { href: `#board-${place}` }, board.title)));
  jump.append(el("a", { href: "#records" }, "records"));
  const main = document.getElementById("boards");
  DATA.boards.forEach((board, place) => main.append(boardSection(board, place)));
  main.append(records());
  themeButton();
  const follow = () => {
    const found = /^#record-(\d+)$/.exec(window.location.hash);
    if (!found) return;
    openRecord(Number(found[1]));
    document.getElementById(`record-${found[1]}`)?.scrollIntoView();
  };
  window.addEventListener("hashchange", follow);
  follow();
}

start();
