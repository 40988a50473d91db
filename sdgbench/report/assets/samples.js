// Sample images with predictions, and the settings of each record.

function samples(board, state) {
  const { missing, kind } = board.samples;
  if (missing) return { content: el("p", { class: "note" }, missing), controls: [], plain: true };
  return kind === "segmentation" ? scenes(board, state) : strips(board, state);
}

const rowNamed = (board, name) => board.rows.find((row) => row.name === name);

function shownRun(board, name) {
  const row = rowNamed(board, name);
  const index = row.seeds.indexOf(board.samples.seeds[name]);
  return { seed: row.seeds[index], link: recordLink(row.records[index]) };
}

function strips(board, state) {
  const { domains, classes, seeds } = board.samples;
  const names = Object.keys(seeds);
  const sheet = document.styleSheets[0];
  const first = sheet.cssRules.length;
  // One CSS rule per strip: its data URL in every tile would be as large as all the images.
  domains.forEach((domain, index) => sheet.insertRule(
    `.strip-${first + index} { background-image: url("${domain.strip}"); }`, sheet.cssRules.length));
  const host = el("div", { class: "strips" });
  const note = el("p", { class: "note" });
  function show(name) {
    const { seed, link } = shownRun(board, name);
    note.replaceChildren(`Predictions of ${name}, seed ${seed} (`, link, `). Each image: ✓ and the class where it is right; ✗, the predicted class and the truth where it is wrong.`);
    host.replaceChildren(...domains.map((domain, index) => {
      const predicted = domain.predicted[name];
      const right = predicted ? domain.truth.filter((truth, at) => truth === predicted[at]).length : 0;
      return el("section", {},
        el("h4", {}, domain.name, el("span", {}, predicted ? `  ${right} of ${domain.truth.length} shown are right` : "  no predictions kept")),
        el("ul", { class: "tiles" }, domain.truth.map((truth, at) =>
          tile(truth, predicted ? predicted[at] : null, classes, `strip-${first + index}`, at, domain.truth.length))));
    }));
  }
  show(names[0]);
  return { content: [note, host], controls: [choice(state, "sample", "Method", names.map((name) => [name, name]), names[0], show)] };
}

function tile(truth, predicted, classes, strip, at, count) {
  const right = truth === predicted;
  const named = (label) => classes[label] ?? String(label);
  const image = el("i", { class: strip });
  image.style.backgroundSize = `${100 * count}% 100%`;
  image.style.backgroundPosition = `${count > 1 ? (100 * at) / (count - 1) : 0}% 0`;
  const text = predicted === null ? named(truth) : right ? `✓ ${named(truth)}` : `✗ ${named(predicted)} (${named(truth)})`;
  const description = predicted === null ? `truth ${named(truth)}` : `${right ? "right" : "wrong"}: predicted ${named(predicted)}, truth ${named(truth)}`;
  return el("li", { class: `tile ${predicted === null ? "" : right ? "right" : "wrong"}`, title: description },
    image, el("b", { "aria-label": description }, text));
}

function scenes(board, state) {
  const { domains, classes, palette, seeds } = board.samples;
  const names = Object.keys(seeds);
  const host = el("div", { class: "scenes" });
  function show() {
    const methods = names.filter((name) => state.matches(name));
    host.replaceChildren(...domains.map((domain) => {
      const parts = [["image", domain.image, ""], ["truth", domain.truth, ""]];
      for (const name of methods) {
        const predicted = domain.predicted[name];
        if (predicted) parts.push([name, predicted.map, `${number(100 * predicted.right)}% of pixels right`]);
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
  const runs = el("p", { class: "note" }, "Predictions of: ", names.flatMap((name, at) => {
    const { seed, link } = shownRun(board, name);
    return [at ? "; " : "", `${name}, seed ${seed} (`, link, ")"];
  }), ".");
  return { content: [key, host, runs], controls: [] };
}

// Records

const SECTIONS = {
  params: "Parameters of the method", recipe: "Recipe", options: "Options of the dataset",
  flags: "Flags", efficiency: "Efficiency", cost: "Cost", code: "Code", packages: "Packages",
  machine: "Machine", source: "Source domain", files: "Hashes of its files", submission: "Submission",
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
  if (item === null || typeof item !== "object") return display(item);
  return [...flatten(item)].map(([name, value]) => `${name} ${display(value)}`).join(", ");
}

function display(value) {
  if (value === null || value === "" || (typeof value === "object" && !Object.keys(value).length)) return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return value.toLocaleString("en", { maximumSignificantDigits: 15, useGrouping: Math.abs(value) >= 1e4 });
  return String(value);
}

function recordParts(record) {
  const about = {
    method: record.method, seed: record.seed, dataset: record.dataset, "dataset version": record.version,
    preset: record.preset, "reduced scale": record.reduced || "no",
    "set by hand": record.changed.join(", ") || "nothing", id: record.id, folder: record.folder,
    started: record.started, finished: record.finished,
  };
  const part = (title, values) => el("section", {}, el("h4", {}, title), el("dl", {},
    [...flatten(values)].map(([name, value]) => [el("dt", {}, name), el("dd", {}, display(value))])));
  return el("div", { class: "parts" }, part("Run", about),
    Object.entries(record.sections).map(([name, index]) => part(SECTIONS[name] ?? name, DATA.pool[index])));
}

function recordDetails(record, index) {
  const details = el("details", { class: "record", id: `record-${index}` },
    el("summary", {}, `${record.row}, seed ${record.seed}, ${record.board} (${record.id})`));
  details.addEventListener("toggle", () => {
    fillRecord(details, record);
    if (details.open) saveAddress(`record:${record.id}`);
  });
  return details;
}

function fillRecord(details, record) {
  if (details.childElementCount === 1) details.append(recordParts(record));
}

function openRecord(index) {
  const details = document.getElementById(`record-${index}`);
  if (!details) return;
  details.open = true;
  fillRecord(details, DATA.records[index]);
  hideTip();
}

function records() {
  return el("section", { class: "board records", id: "records" }, el("h2", {}, "Records"),
    el("p", { class: "about" }, "The settings of each run and the machine that it ran on. The tooltip of a number links to its records."),
    DATA.records.map(recordDetails));
}
