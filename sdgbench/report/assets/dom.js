// Elements, the tooltip, and moving between numbers with the keyboard.
// Text always goes through text nodes: a name is never parsed as markup.

const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") node.setAttribute("class", value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

const el = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

const number = (value, digits = 1) =>
  value === null || value === undefined ? "–" : value.toLocaleString("en", {
    minimumFractionDigits: digits, maximumFractionDigits: digits,
  });
const interval = ([mean, half], digits = 1) =>
  number(mean, digits) + (half === null ? "" : ` ±${number(half, digits)}`);
function plural(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}
const unit = (board) => `${board.metric} in per cent`;

function chooser(label, options, chosen, act) {
  const select = el("select", { onchange: () => act(select.value) },
    options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
  return el("label", { class: "choose" }, label, select);
}

const scaleTag = (board) =>
  board.reduced ? el("span", { class: "tag" }, "reduced scale") : null;

// The tooltip. Its content is built when it is shown.

const tip = document.getElementById("tip");
const tips = new WeakMap();
let owner = null;
let pinned = false;
let leaving = 0;

function explain(node, make) {
  tips.set(node, make);
  node.setAttribute("data-tip", "");
  return node;
}

function seedList(row, values, digits) {
  return row.seeds.map((seed, index) => ({
    text: `seed ${seed}` + (values ? `: ${number(values[index], digits)}` : ""),
    record: row.records[index],
  }));
}

function showTip(node) {
  const make = tips.get(node);
  if (!make) return;
  clearTimeout(leaving);
  if (owner !== node) {
    hideTip();
    const { title, big, lines = [], seeds = [] } = make();
    tip.replaceChildren(
      el("p", {}, title),
      big ? el("p", { class: "big" }, big) : "",
      ...lines.filter(Boolean).map((line) => el("p", { class: "note" }, line)),
      seeds.length ? el("ul", {}, seeds.map(({ text, record }) => el("li", {}, text, recordLink(record)))) : "",
    );
    owner = node;
    node.setAttribute("aria-describedby", "tip");
  }
  tip.hidden = false;
  placeTip(node);
}

function placeTip(node) {
  const box = node.getBoundingClientRect();
  const { width, height } = tip.getBoundingClientRect();
  const right = document.documentElement.clientWidth;
  const below = box.bottom + 6 + height <= window.innerHeight;
  tip.style.left = `${Math.max(8, Math.min(box.left + box.width / 2 - width / 2, right - width - 8))}px`;
  tip.style.top = `${below ? box.bottom + 6 : Math.max(8, box.top - height - 6)}px`;
}

function hideTip() {
  clearTimeout(leaving);
  if (owner) owner.removeAttribute("aria-describedby");
  owner = null;
  pinned = false;
  tip.hidden = true;
}

function recordLink(index) {
  const record = DATA.records[index];
  return el("a", { href: `#record-${index}`, onclick: () => openRecord(index) }, `settings ${record.id}`);
}

function pin(node) {
  showTip(node);
  pinned = true;
  const link = tip.querySelector("a");
  if (link) link.focus({ preventScroll: true });
}

document.addEventListener("pointerover", (event) => {
  const node = event.target.closest("[data-tip]");
  if (node && !(pinned && owner !== node)) showTip(node);
  else if (tip.contains(event.target)) clearTimeout(leaving);
  else if (owner && !pinned && document.activeElement !== owner) {
    clearTimeout(leaving);
    leaving = setTimeout(hideTip, 250); // time to reach the links in it
  }
});
document.addEventListener("focusin", (event) => {
  const node = event.target.closest("[data-tip]");
  if (node) showTip(node);
  else if (!tip.contains(event.target)) hideTip();
});
document.addEventListener("pointerdown", (event) => {
  if (!tip.contains(event.target) && !event.target.closest("[data-tip]")) hideTip();
});
document.addEventListener("scroll", (event) => {
  if (!owner || event.target === tip) return;
  const box = owner.getBoundingClientRect();
  const gone = box.bottom < 0 || box.top > window.innerHeight;
  if (gone && document.activeElement !== owner) hideTip();
  else placeTip(owner);
}, { passive: true, capture: true }); // tables scroll, too
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && owner) {
    const node = owner;
    const wasInside = tip.contains(document.activeElement);
    hideTip();
    if (wasInside) {
      node.focus();
      hideTip();
    }
  } else if ((event.key === "Enter" || event.key === " ") && tips.has(event.target)) {
    event.preventDefault();
    pin(event.target);
  }
});

// Tab stops once per table or figure; the arrow keys move inside it.

function rove(container) {
  const grid = [...container.querySelectorAll("[data-tip]")];
  grid.forEach((node, index) => node.setAttribute("tabindex", index ? "-1" : "0"));
  container.onkeydown = (event) => {
    const nodes = [...container.querySelectorAll("[data-tip]")];
    const from = nodes.indexOf(event.target);
    if (from < 0) return;
    const row = event.target.closest("tr");
    const wide = row ? row.querySelectorAll("[data-tip]").length : 1;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: wide, ArrowUp: -wide,
      Home: -from, End: nodes.length - 1 - from };
    const to = nodes[from + (event.key in steps ? steps[event.key] : NaN)];
    if (!to) return;
    event.preventDefault();
    event.target.setAttribute("tabindex", "-1");
    to.setAttribute("tabindex", "0");
    to.focus();
  };
  return container;
}
