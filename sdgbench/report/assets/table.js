// Tables: the leaderboard with its views, published numbers, the heat map.

const nameCompare = new Intl.Collator("en", { numeric: true }).compare;

function resultTable(board, table, state) {
  const ours = board !== null;
  const ranked = ours ? table.columns.findIndex((column) => column.name === board.ranked) : -1;
  const order = { column: ranked < 0 ? null : ranked, down: true }; // as the lines come
  const body = el("tbody");
  const heads = [];
  const head = (text, column, attributes = {}) => {
    const button = el("button", { type: "button" }, text);
    const cell = el("th", { scope: "col", "aria-sort": "none", ...attributes }, button);
    button.addEventListener("click", () => {
      const before = state.sort ?? order;
      state.sort = { column, down: before.column === column ? !before.down : startsDown(column) };
      show();
    });
    heads.push([column, cell]);
    return cell;
  };
  const startsDown = (column) => {
    if (column === "name") return false;
    if (column === "n") return true;
    const { better, text, name } = table.columns[column];
    return better === "higher" || (!better && !text && name.startsWith("gain"));
  };
  const titles = el("tr", {},
    head(table.label, "name", { class: "first" }),
    table.counted ? head("n", "n") : null,
    table.columns.map((column, place) => head(column.name, place, {
      class: column.text ? "text" : ours && column.name === board.ranked ? "ranked" : null,
      title: column.definition || null,
    })));
  const thead = el("thead", {}, groupRow(table), titles);
  const caption = el("caption", { class: "skip" }, table.title);
  const shown = el("table", { class: "results" }, caption, thead, body);

  function show() {
    const { column, down } = state.sort ?? order;
    const lines = table.lines.filter((line) => !ours || state.matches(line.name));
    if (column !== null) lines.sort((a, b) => compareLines(a, b, column, down, table));
    body.replaceChildren(...lines.map((line) => tableLine(board, table, line)));
    for (const [own, cell] of heads) {
      cell.setAttribute("aria-sort", own !== column ? "none" : down ? "descending" : "ascending");
    }
    rove(shown);
  }
  show();
  return { node: el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": table.title }, shown), show };
}

function compareLines(a, b, column, down, table) {
  const sign = down ? -1 : 1;
  if (column === "name") return sign * nameCompare(a.name, b.name);
  if (column === "n") return sign * ((a.n ?? 0) - (b.n ?? 0));
  const [left, right] = [a.cells[column], b.cells[column]];
  if (table.columns[column].text) return sign * nameCompare(left.shown, right.shown);
  if (left.mean === undefined || right.mean === undefined) { // no number: always last
    return (left.mean === undefined) - (right.mean === undefined);
  }
  return sign * (left.mean - right.mean);
}

function groupRow(table) {
  if (!table.columns.some((column) => column.group)) return null;
  const cells = [el("td", { colspan: table.counted ? 2 : 1 })];
  let place = 0;
  while (place < table.columns.length) {
    const { group } = table.columns[place];
    let wide = 1;
    while (table.columns[place + wide]?.group === group) wide += 1;
    cells.push(group ? el("th", { scope: "colgroup", class: "group", colspan: wide }, group) : el("td", { colspan: wide }));
    place += wide;
  }
  return el("tr", {}, cells);
}

function tableLine(board, table, line) {
  const row = board && line.row !== undefined ? board.rows[line.row] : null;
  const name = el("th", { scope: "row", class: "first", title: line.name }, row ? swatch(row) : null, line.name);
  const cells = line.cells.map((cell, place) => {
    const column = table.columns[place];
    const mark = cell.rank === 1 ? el("strong", {}, cell.shown) : cell.rank === 2 ? el("u", {}, cell.shown) : cell.shown;
    const ranked = board && column.name === board.ranked;
    const made = el("td", { class: column.text ? "text" : ranked ? "ranked" : null }, mark);
    const theirs = table.kind === "paper" && column.name === "paper";
    if (!row || column.text || theirs) return made;
    return explain(made, () => ({
      title: `${line.name}, ${column.name}`,
      big: cell.shown,
      lines: [
        column.definition,
        cell.rank === 1 ? "best of this column" : cell.rank === 2 ? "second of this column" : "",
        `n = ${line.n}`,
        board.reduced ? `Reduced scale: ${board.reduced}` : "",
      ],
      seeds: seedList(row, cell.seeds, decimals(cell.shown) + 1),
    }));
  });
  return el("tr", {}, name, table.counted ? el("td", {}, line.n ?? "–") : null, cells);
}

const decimals = (shown) => (/\.(\d+)/.exec(shown)?.[1] ?? "").length;

function tableNotes(table) {
  const items = table.notes.map((note) => el("li", {}, note));
  return [items.length ? el("ul", { class: "notes" }, items) : "",
    table.legend ? el("p", { class: "reading" }, table.legend) : ""];
}

function leaderboard(board, state) {
  const place = el("div", { class: "leaderboard" });
  const buttons = board.tables.map((table, number) => el("button", {
    type: "button", "aria-pressed": String(number === 0), onclick: () => open(number),
  }, table.name));
  let shown = null;
  function open(number) {
    state.sort = null;
    buttons.forEach((button, own) => button.setAttribute("aria-pressed", own === number));
    const table = board.tables[number];
    shown = resultTable(board, table, state);
    place.replaceChildren(shown.node, ...tableNotes(table));
  }
  open(0);
  state.redraw.push(() => shown.show());
  const empty = el("p", { class: "note", role: "status" });
  const input = el("input", { type: "search", placeholder: "such as mada", autocomplete: "off" });
  input.addEventListener("input", () => {
    state.filter = input.value.trim().toLowerCase();
    const left = board.rows.filter((row) => state.matches(row.name)).length;
    empty.textContent = state.filter ? `${left} of ${board.rows.length} methods shown` : "";
    state.redraw.forEach((redraw) => redraw());
  });
  return [
    el("div", { class: "tools" },
      el("label", {}, "Filter methods, here and in the figures below", input),
      buttons.length > 1 ? el("div", { class: "views", role: "group", "aria-label": "Views" }, buttons) : null),
    empty, place,
  ];
}

function published(board) {
  if (!board.published.length) return null;
  return el("details", { class: "published" },
    el("summary", {}, "Published numbers, beside ours and on their own (never ranked with ours)"),
    board.published.map((table) => [
      el("h3", {}, table.title),
      table.reduced ? el("p", { class: "callout" }, el("strong", {}, "Reduced scale. "), table.reduced) : "",
      // Only the comparison holds numbers of ours, which have records.
      resultTable(table.kind === "paper" ? board : null, table, { sort: null, matches: () => true }).node,
      tableNotes(table),
    ]));
}

// Heat map: a table whose cells are coloured, with the number in each.

function heatmap(board, state) {
  const base = board.rows.findIndex((row) => row.name === DATA.baseline);
  const panels = board.panels.slice(1);
  const levels = board.panels.length ? board.panels[0].levels.filter((level) => level) : [];
  const wanted = { level: String(board.highest), colour: "score" };
  const place = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Heat map" });

  function lines() {
    if (!panels.length) return board.domains.map((name, domain) => ({ name, domain }));
    const clean = { name: "clean", domain: panels[0].places[0][0] };
    const found = panels.map((panel) => {
      const at = panel.levels.indexOf(Number(wanted.level));
      return { name: panel.name, domain: at < 0 ? null : panel.places[at][0] };
    });
    return [...(panels[0].levels[0] === 0 ? [clean] : []), ...found.filter((line) => line.domain !== null)];
  }

  function show() {
    const rows = board.rows.map((row, number) => [row, number]).filter(([row]) => state.matches(row.name));
    const shown = lines();
    const gains = wanted.colour === "gain";
    const value = (number, domain) => board.scores[number][domain][0] - (gains ? board.scores[base][domain][0] : 0);
    const every = rows.flatMap(([, number]) => shown.map(({ domain }) => value(number, domain)));
    const [least, most] = [Math.min(...every), Math.max(...every)];
    const reach = Math.max(Math.abs(least), Math.abs(most), 1e-9);
    const paint = (cell, score) => {
      const share = gains ? Math.abs(score) / reach : (score - least) / Math.max(most - least, 1e-9);
      const [from, to] = gains ? ["--even", score < 0 ? "--minus" : "--plus"] : ["--low", "--high"];
      cell.style.setProperty("--cell", `color-mix(in oklab, var(${to}) ${(100 * share).toFixed(0)}%, var(${from}))`);
    };
    const table = el("table", { class: "heat" },
      el("thead", {}, el("tr", {}, el("td"), rows.map(([row]) => el("th", { scope: "col", title: row.name }, clip(row.name, 28))))),
      el("tbody", {}, shown.map(({ name, domain }) => el("tr", {}, el("th", { scope: "row" }, name),
        rows.map(([row, number]) => {
          const score = value(number, domain);
          const cell = el("td", {}, (gains && score > 0 ? "+" : "") + number_(score));
          paint(cell, score);
          return explain(cell, () => ({
            title: `${row.name} on ${board.domains[domain]}`,
            big: interval(board.scores[number][domain]),
            lines: [unit(board), gains ? `${number_(score)} points from ${DATA.baseline}` : "",
              board.reduced ? `Reduced scale: ${board.reduced}` : ""],
            seeds: seedList(row, board.by_seed[number].map((scores) => scores[domain]), 2),
          }));
        })))));
    place.replaceChildren(rove(table));
  }
  const number_ = (score) => number(Math.abs(score) < 0.05 ? 0 : score, 1);
  state.redraw.push(show);
  show();
  const controls = [];
  if (levels.length) {
    controls.push(chooser("Severity", levels.map((level) => [String(level), `level ${level}`]), wanted.level, (level) => {
      wanted.level = level;
      show();
    }));
  }
  if (base >= 0 && board.rows.length > 1) {
    controls.push(chooser("Numbers", [["score", "score"], ["gain", `difference from ${DATA.baseline}`]], "score", (colour) => {
      wanted.colour = colour;
      show();
    }));
  }
  return { place, controls };
}
