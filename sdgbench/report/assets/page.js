// Builds the page from its parts.

function figure(board, state, title, caption, { content, controls, plain = false }, broad = true, choices = true) {
  const weights = el("span", { class: "tag" });
  const update = () => {
    weights.textContent = "chosen on source";
    weights.hidden = !choices || state.choice === "last";
  };
  state.redraw.push(update);
  update();
  const node = el("figure", { class: broad ? "broad" : null },
    el("div", { class: "figure-head" }, el("h3", {}, title),
      el("div", { class: "tools" }, controls, plain ? null : figureButtons(board, title, () => node))),
    content, el("figcaption", {}, scaleTag(board), board.reduced ? " " : "", weights, " ", caption));
  return node;
}

function boardSection(board, index) {
  const state = { key: board.key, filter: "", sort: null, choice: "last", redraw: [] };
  state.changed = () => saveAddress(board.key);
  boardFields.set(board.key, new Map());
  state.matches = (name) => name.toLowerCase().includes(state.filter);
  const count = board.domains.length;
  const times = board.machines.length > 1
    ? "Times do not compare, they were measured on: " + board.machines.join("; ") + "."
    : board.machines.length ? `Measured on ${board.machines[0]}.` : "";
  const figures = [
    figure(board, state, "Bars", "Means over seeds with 95% t-intervals; one seed has no interval.", bars(board, state), false),
    figure(board, state, "Heat map", `${unit(board)} on each unseen domain, mean over seeds.`, heatmap(board, state), board.rows.length > 8),
  ];
  if (board.panels.length) {
    figures.push(figure(board, state, "Severities", `${unit(board)} from clean images to severity ${board.highest}; all panels share one scale.`, severity(board, state)));
  }
  if (board.choices.last.clouds.length) {
    figures.push(figure(board, state, "Score against cost", `${board.ranked}, ${unit(board)}, with 95% intervals both ways. Ringed: the Pareto front, which no other method beats by a difference that the intervals support; no ring: they support none. ${times}`, scatter(board, state)));
  }
  if (board.curves.length) {
    figures.push(figure(board, state, "Training", "Mean over seeds with its 95% band, of a positive loss the geometric one; long curves are means of neighbouring points.", curves(board, state), true, false));
  }
  const leftOut = board.samples.left_out?.length ? ` Left out: ${board.samples.left_out.join(" ")}` : "";
  const shown = board.samples.missing ? "" : "Which images are shown does not depend on any prediction." + leftOut;
  if (Object.keys(board.samples).length) {
    figures.push(figure(board, state, "Samples", shown, samples(board, state), true, false));
  }
  const section = el("details", { class: "board", id: `board-${index}`, open: true },
    el("summary", {}, el("h2", {}, board.title)),
    el("p", { class: "about" }, `${unit(board)}; trained on ${board.source}, tested on ${count} unseen domain${count === 1 ? "" : "s"}; ranked by ${board.ranked}.`),
    board.reduced ? el("p", { class: "callout" }, el("strong", {}, "Reduced scale. "), board.reduced) : null,
    leaderboard(board, state), published(board, state), el("div", { class: "figures" }, figures));
  rememberOpen(state, "board", section, true);
  return section;
}

function foldButton() {
  const button = document.getElementById("fold");
  const boards = [...document.querySelectorAll("details.board")];
  const update = () => {
    button.textContent = boards.some((board) => board.open) ? "Fold all" : "Unfold all";
  };
  button.addEventListener("click", () => {
    const open = !boards.some((board) => board.open);
    boards.forEach((board) => { board.open = open; });
  });
  boards.forEach((board) => board.addEventListener("toggle", update));
  update();
}

function start() {
  const methods = new Set(DATA.records.map((record) => record.method)).size;
  const datasets = new Set(DATA.boards.map((board) => board.dataset)).size;
  document.getElementById("summary").textContent =
    `${plural(methods, "method")}, ${plural(datasets, "dataset")}, ${plural(DATA.records.length, "run")}.`;
  const skipped = DATA.skipped ? ` ${plural(DATA.skipped, "record")} could not be read and ${DATA.skipped === 1 ? "is" : "are"} left out.` : "";
  document.getElementById("foot").textContent = `Made by sdgbench ${DATA.version} from records alone.${skipped}`;
  const jump = document.getElementById("jump");
  DATA.boards.forEach((board, index) => jump.append(el("a", { href: `#board-${index}` }, board.title)));
  jump.append(el("a", { href: "#records" }, "Records"));
  const main = document.getElementById("boards");
  DATA.boards.forEach((board, index) => main.append(boardSection(board, index)));
  main.append(records());
  themeButton();
  foldButton();
  window.addEventListener("hashchange", openAddress);
  openAddress();
}

start();
