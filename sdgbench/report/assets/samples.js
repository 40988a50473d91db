// Sample images with decisions, and the settings of each record.

function samples(board, state) {
  const found = board.samples;
  if (found.missing) return { place: el("p", { class: "note" }, found.missing), controls: [] };
  return found.kind === "segmentation" ? scenes(board, state) : strips(board);
}

const rowNamed = (board, name) => board.rows.find((row) => row.name === name);

function shownRun(board, name) {
  const row = rowNamed(board, name);
  const place = row.seeds.indexOf(board.samples.seeds[name]);
  return { seed: row.seeds[place], link: recordLink(row.records[place]) };
}

function strips(board) {
  const { domains, classes, seeds } = board.samples;
  const names = Object.keys(seeds);
  const sheet = document.styleSheets[0];
  const first = sheet.cssRules.length;
  // One rule per strip: the same long address in each tile would weigh as much as all images.
  domains.forEach((domain, place) => sheet.insertRule(
    `.strip-${first + place} { background-image: url("${domain.strip}"); }`, sheet.cssRules.length));
  const place = el("div", { class: "strips" });
  const said = el("p", { class: "note" });
  function show(name) {
    const { seed, link } = shownRun(board, name);
    said.replaceChildren(`Decisions of ${name}, seed ${seed} (`, link, `). Each image: ✓ and the class where it is right; ✗, what was decided and the truth where it is wrong.`);
    place.replaceChildren(...domains.map((domain, number) => {
      const decided = domain.decided[name];
      const right = decided ? domain.truth.filter((truth, at) => truth === decided[at]).length : 0;
      return el("section", {},
        el("h4", {}, domain.name, el("span", {}, decided ? `  ${right} of ${domain.truth.length} shown are right` : "  no decisions kept")),
        el("ul", { class: "tiles" }, domain.truth.map((truth, at) =>
          tile(truth, decided ? decided[at] : null, classes, `strip-${first + number}`, at, domain.truth.length))));
    }));
  }
  show(names[0]);
  return { place: [said, place], controls: [chooser("Method", names.map((name) => [name, name]), names[0], show)] };
}

function tile(truth, decided, classes, strip, at, count) {
  const right = truth === decided;
  const named = (label) => classes[label] ?? String(label);
  const image = el("i", { class: strip });
  image.style.backgroundSize = `${100 * count}% 100%`;
  image.style.backgroundPosition = `${count > 1 ? (100 * at) / (count - 1) : 0}% 0`;
  const text = decided === null ? named(truth) : right ? `✓ ${named(truth)}` : `✗ ${named(decided)} (${named(truth)})`;
  const said = decided === null ? `truth ${named(truth)}` : `${right ? "right" : "wrong"}: decided ${named(decided)}, truth ${named(truth)}`;
  return el("li", { class: `tile ${decided === null ? "" : right ? "right" : "wrong"}`, title: said },
    image, el("b", { "aria-label": said }, text));
}

function scenes(board, state) {
  const { domains, classes, palette, seeds } = board.samples;
  const names = Object.keys(seeds);
  const place = el("div", { class: "scenes" });
  function show() {
    const methods = names.filter((name) => state.matches(name));
    place.replaceChildren(...domains.map((domain) => {
      const parts = [["image", domain.image, ""], ["truth", domain.truth, ""]];
      for (const name of methods) {
        const decided = domain.decided[name];
        if (decided) parts.push([name, decided.map, `${number(100 * decided.right)}% of pixels right`]);
      }
      const grid = el("div", { class: "scene" }, parts.map(([name, source, remark]) => el("figure", {},
        el("img", { src: source, alt: `${domain.name}: ${name}` }),
        el("figcaption", {}, el("b", {}, name), remark ? ` ${remark}` : ""))));
      grid.style.setProperty("--columns", Math.max(4, 2 + methods.length));
      return el("section", {}, el("h4", {}, domain.name), grid);
    }));
  }
  state.redraw.push(show);
  show();
  const key = el("ul", { class: "key classes" }, classes.map((name, at) => {
    const colour = el("i");
    colour.style.background = `rgb(${palette[at].join(" ")})`;
    return el("li", {}, colour, name);
  }));
  const runs = el("p", { class: "note" }, "Decisions of: ", names.flatMap((name, at) => {
    const { seed, link } = shownRun(board, name);
    return [at ? "; " : "", `${name}, seed ${seed} (`, link, ")"];
  }), ".");
  return { place: [key, place, runs], controls: [] };
}

// Records

const SECTIONS = {
  params: "Parameters of the method", recipe: "Recipe", options: "Options of the dataset",
  flags: "Flags", efficiency: "Efficiency", cost: "Cost", code: "Code", packages: "Packages",
  machine: "Machine", source: "Source domain", files: "Hashes of its files",
};

function* flatten(value, prefix = "") {
  for (const [key, item] of Object.entries(value)) {
    const name = prefix ? `${prefix}.${key}` : key;
    const nested = item !== null && typeof item === "object";
    if (Array.isArray(item)) yield [name, item.map(inLine).join("; ")];
    else if (nested && Object.keys(item).length) yield* flatten(item, name);
    else yield [name, item];
  }
}

function inLine(item) {
  if (item === null || typeof item !== "object") return said(item);
  return [...flatten(item)].map(([name, value]) => `${name} ${said(value)}`).join(", ");
}

function said(value) {
  if (value === null || value === "" || (typeof value === "object" && !Object.keys(value).length)) return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return value.toLocaleString("en", { maximumSignificantDigits: 15, useGrouping: Math.abs(value) >= 1e4 });
  return String(value);
}

function recordParts(record) {
  const about = {
    method: record.method, seed: record.seed, dataset: record.dataset, "dataset version": record.version,
    preset: record.preset, "reduced scale": record.reduced || "no",
    "set by hand": record.changed.join(", ") || "nothing", id: record.id, folder: record.place,
    started: record.started, finished: record.finished,
  };
  const part = (title, values) => el("section", {}, el("h4", {}, title), el("dl", {},
    [...flatten(values)].map(([name, value]) => [el("dt", {}, name), el("dd", {}, said(value))])));
  return el("div", { class: "parts" }, part("Run", about),
    Object.entries(record.sections).map(([name, place]) => part(SECTIONS[name] ?? name, DATA.pool[place])));
}

function recordDetails(record, place) {
  const details = el("details", { class: "record", id: `record-${place}` },
    el("summary", {}, `${record.row}, seed ${record.seed}, ${record.board} (${record.id})`));
  details.addEventListener("toggle", () => fillRecord(details, record));
  return details;
}

function fillRecord(details, record) {
  if (details.childElementCount === 1) details.append(recordParts(record));
}

function openRecord(place) {
  const details = document.getElementById(`record-${place}`);
  if (!details) return;
  details.open = true;
  fillRecord(details, DATA.records[place]);
  hideTip();
}

function records() {
  return el("section", { class: "board records", id: "records" }, el("h2", {}, "Records"),
    el("p", { class: "about" }, "What each run was asked and what it ran on. A number's tooltip links to the records behind it."),
    DATA.records.map(recordDetails));
}
