// Tables: the leaderboard with its views, published numbers, the heat map.

const nameCompare = new Intl.Collator("en", { numeric: true }).compare;

function resultTable(board, table, state) {
  const ours = board !== null;
  const ranked = ours ? table.columns.findIndex((column) => column.name === board.ranked) : -1;
  // The order of the data: best first, but variants of one method in the order of their values.
  const order = { column: ranked < 0 || board.has_variants ? null : ranked, down: true };
  const body = el("tbody");
  const heads = [];
  const head = (text, column, attributes = {}) => {
    const button = el("button", { type: "button" }, text);
    const cell = el("th", { scope: "col", "aria-sort": "none", ...attributes }, button);
    button.addEventListener("click", () => {
      const before = state.sort ?? order;
      state.sort = { column, down: before.column === column ? !before.down : startsDown(column) };
      show();
      state.changed?.();
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
    table.columns.map((column, index) => head(column.name, index, {
      class: column.text ? "text" : ours && column.name === board.ranked ? "ranked" : null,
      title: column.definition || null,
    })));
  const thead = el("thead", {}, groupRow(table), titles);
  const caption = el("caption", { class: "skip" }, table.title);
  const shown = el("table", { class: "results" }, caption, thead, body);

  function shownLines() {
    const { column, down } = state.sort ?? order;
    const lines = table.lines.filter((line) => !ours || state.matches(line.name));
    if (column !== null) lines.sort((a, b) => compareLines(a, b, column, down, table));
    return lines;
  }

  function show() {
    const { column, down } = state.sort ?? order;
    const lines = shownLines();
    body.replaceChildren(...lines.map((line) => tableLine(board, table, line)));
    for (const [key, cell] of heads) {
      cell.setAttribute("aria-sort", key !== column ? "none" : down ? "descending" : "ascending");
    }
    rove(shown);
  }
  show();
  return { node: el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": table.title }, shown), show, shownLines };
}

function compareLines(a, b, column, down, table) {
  const sign = down ? -1 : 1;
  if (column === "name") return sign * nameCompare(a.name, b.name);
  if (column === "n") return sign * ((a.n ?? 0) - (b.n ?? 0));
  if (a.unranked !== b.unranked) return a.unranked ? 1 : -1; // its means are over other seeds
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
  let index = 0;
  while (index < table.columns.length) {
    const { group } = table.columns[index];
    let wide = 1;
    while (table.columns[index + wide]?.group === group) wide += 1;
    cells.push(group ? el("th", { scope: "colgroup", class: "group", colspan: wide }, group) : el("td", { colspan: wide }));
    index += wide;
  }
  return el("tr", {}, cells);
}

function tableLine(board, table, line) {
  const row = board && line.row !== undefined ? board.rows[line.row] : null;
  const name = el("th", { scope: "row", class: "first", title: line.name }, row ? swatch(row) : null, line.name);
  const cells = line.cells.map((cell, index) => {
    const column = table.columns[index];
    const mark = cell.rank === 1 ? el("strong", {}, cell.shown) : cell.rank === 2 ? el("u", {}, cell.shown) : cell.shown;
    const ranked = board && column.name === board.ranked;
    const td = el("td", { class: column.text ? "text" : ranked ? "ranked" : null },
      column.name === "badge" ? el("span", { class: `badge ${cell.shown}`, title: column.definition }, cell.shown) : mark);
    const theirs = table.kind === "paper" && column.name === "paper";
    if (!row || column.text || theirs) return td;
    return explain(td, () => ({
      title: `${line.name}, ${column.name}`,
      big: cell.shown,
      lines: [
        column.definition,
        cell.rank === 1 ? "best of this column" : cell.rank === 2 ? "second of this column" : "",
        `n = ${line.n}`,
        line.badge ?? "",
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
  const host = el("div", { class: "leaderboard" });
  const buttons = board.tables.map((table, index) => el("button", {
    type: "button", "aria-pressed": String(index === 0), onclick: () => {
      open(index);
      state.changed();
    },
  }, table.name));
  const keys = board.tables.map((table) => (table.choice === "last" ? table.kind : table.choice));
  let shown = null;
  let current = 0;
  function open(index) {
    current = index;
    state.sort = null;
    state.choice = board.tables[index].choice;
    buttons.forEach((button, other) => button.setAttribute("aria-pressed", other === index));
    const table = board.tables[index];
    shown = resultTable(board, table, state);
    host.replaceChildren(shown.node, ...tableNotes(table));
    state.redraw.forEach((redraw) => redraw()); // figures show the same weights
  }
  open(0);
  state.redraw.push(() => shown.show());
  const empty = el("p", { class: "note", role: "status" });
  const input = el("input", { type: "search", placeholder: "method name", autocomplete: "off" });
  function filter() {
    state.filter = input.value.trim().toLowerCase();
    const count = board.rows.filter((row) => state.matches(row.name)).length;
    empty.textContent = state.filter ? `${count} of ${board.rows.length} methods shown` : "";
    state.redraw.forEach((redraw) => redraw());
  }
  input.addEventListener("input", () => {
    filter();
    state.changed();
  });
  remember(state, "view", keys[0], () => keys[current], (key) => {
    if (keys.includes(key)) open(keys.indexOf(key));
  });
  const named = { name: "method", n: "n" };
  remember(state, "sort", "", () => {
    if (!state.sort) return "";
    const { column, down } = state.sort;
    return `${named[column] ?? board.tables[current].columns[column].name}:${down ? "down" : "up"}`;
  }, (text) => {
    const [, name, way] = /^(.*):(up|down)$/.exec(text) ?? [];
    const index = board.tables[current].columns.findIndex((column) => column.name === name);
    const column = Object.keys(named).find((key) => named[key] === name) ?? (index < 0 ? null : index);
    state.sort = column === null ? null : { column, down: way === "down" };
    shown.show();
  });
  remember(state, "filter", "", () => input.value.trim(), (text) => {
    input.value = text;
    filter();
  });
  const csv = smallButton("CSV", "Download this table as it is shown", () => {
    const table = board.tables[current];
    saveFile(`${fileName(board.key, keys[current])}.csv`, tableCsv(board, table, shown.shownLines()), "text/csv");
  });
  return [
    el("div", { class: "tools" },
      el("label", {}, "Filter methods, here and in the figures below", input),
      buttons.length > 1 ? el("div", { class: "views", role: "group", "aria-label": "Views" }, buttons) : null, csv),
    empty, host,
  ];
}

function published(board, state) {
  if (!board.published.length) return null;
  const details = el("details", { class: "published" },
    el("summary", {}, "Published numbers, next to ours and on their own (never ranked with ours)"),
    board.published.map((table, index) => [
      el("h3", {}, table.title, " ", smallButton("CSV", "Download this table", () => {
        const name = `${fileName(board.key, table.kind, String(index + 1))}.csv`;
        saveFile(name, tableCsv(table.kind === "paper" ? board : null, table, table.lines), "text/csv");
      })),
      table.reduced ? el("p", { class: "callout" }, el("strong", {}, "Reduced scale. "), table.reduced) : "",
      // Only the comparison contains our own numbers, which have records.
      resultTable(table.kind === "paper" ? board : null, table, { sort: null, matches: () => true }).node,
      tableNotes(table),
    ]));
  rememberOpen(state, "published", details, false);
  return details;
}

// Heat map: a table whose cells are coloured, with the number in each.

// A narrow heading may break within a setting, but never within a word.
const breakable = (name) => name.replace(/[=_,]/g, "$&\u200b");

function heatmap(board, state) {
  const base = board.rows.findIndex((row) => row.name === DATA.baseline);
  const panels = board.panels.slice(1);
  const levels = board.panels.length ? board.panels[0].levels.filter((level) => level) : [];
  const wanted = { level: String(board.highest), colour: "score" };
  const host = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Heat map" });

  function lines() {
    if (!panels.length) return board.domains.map((name, domain) => ({ name, domain }));
    const clean = { name: "clean", domain: panels[0].indices[0][0] };
    const corruptions = panels.map((panel) => {
      const at = panel.levels.indexOf(Number(wanted.level));
      return { name: panel.name, domain: at < 0 ? null : panel.indices[at][0] };
    });
    return [...(panels[0].levels[0] === 0 ? [clean] : []), ...corruptions.filter((line) => line.domain !== null)];
  }

  function show() {
    const { scores, by_seed: bySeed } = chosenFigures(board, state);
    const rows = visible(board, state).map(({ row, index }) => [row, index]);
    const shown = lines();
    const gains = wanted.colour === "gain";
    const value = (index, domain) => scores[index][domain][0] - (gains ? scores[base]?.[domain][0] ?? NaN : 0);
    const every = rows.flatMap(([, index]) => shown.map(({ domain }) => value(index, domain)));
    const [least, most] = [Math.min(...every), Math.max(...every)];
    const reach = Math.max(Math.abs(least), Math.abs(most), 1e-9);
    const paint = (cell, score) => {
      const share = gains ? Math.abs(score) / reach : (score - least) / Math.max(most - least, 1e-9);
      const [from, to] = gains ? ["--even", score < 0 ? "--minus" : "--plus"] : ["--low", "--high"];
      cell.style.setProperty("--cell", `color-mix(in oklab, var(${to}) ${(100 * share).toFixed(0)}%, var(${from}))`);
    };
    const table = el("table", { class: "heat" },
      el("thead", {}, el("tr", {}, el("td"), rows.map(([row]) => el("th", { scope: "col", title: row.name }, breakable(clip(row.name, 28)))))),
      el("tbody", {}, shown.map(({ name, domain }) => el("tr", {}, el("th", { scope: "row" }, name),
        rows.map(([row, index]) => {
          const score = value(index, domain);
          const cell = el("td", {}, (gains && score > 0 ? "+" : "") + scoreText(score));
          paint(cell, score);
          return explain(cell, () => ({
            title: `${row.name} on ${board.domains[domain]}`,
            big: interval(scores[index][domain]),
            lines: [unit(board), gains ? `${scoreText(score)} points from ${DATA.baseline}` : "",
              board.reduced ? `Reduced scale: ${board.reduced}` : ""],
            seeds: seedList(row, bySeed[index].map((values) => values[domain]), 2),
          }));
        })))));
    host.replaceChildren(rove(table));
  }
  const scoreText = (score) => number(Math.abs(score) < 0.05 ? 0 : score, 1);
  state.redraw.push(show);
  show();
  const controls = [];
  if (levels.length) {
    controls.push(choice(state, "severity", "Severity", levels.map((level) => [String(level), `level ${level}`]), wanted.level, (level) => {
      wanted.level = level;
      show();
    }));
  }
  if (base >= 0 && board.rows.length > 1) {
    controls.push(choice(state, "numbers", "Numbers", [["score", "score"], ["gain", `difference from ${DATA.baseline}`]], "score", (colour) => {
      wanted.colour = colour;
      show();
    }));
  }
  return { content: host, controls };
}
