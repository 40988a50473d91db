// Tables as CSV, figures as SVG and PNG. A figure is taken as it is shown: the same size, theme and
// choice; each piece of text and each coloured box becomes an element of one SVG file.

function saveFile(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

const fileName = (...words) => words.join("-").toLowerCase().replaceAll(/[^a-z0-9.]+/g, "-");
const smallButton = (text, title, act) => el("button", { type: "button", class: "save", title, onclick: act }, text);

// The same columns as `sdgbench compare --format csv`; the shown lines in their order.

function tableCsv(board, table, lines) {
  const rows = lines.map((line) => {
    const row = { ...table.facts, table: table.kind, method: line.name, n: line.n };
    row.seeds = board && line.row !== undefined ? board.rows[line.row].seeds.join(",") : "";
    table.columns.forEach(({ name, text }, index) => {
      const cell = line.cells[index];
      if (text) row[name] = cell.text ?? "";
      else {
        row[name] = cell.mean;
        if (cell.half !== undefined) row[`${name} ${table.spread}`] = cell.half;
        if (cell.text) row[`${name} says`] = cell.text;
      }
    });
    row.ties_with_best = table.columns.filter((_, index) => line.cells[index].ties).map(({ name }) => name).join(", ");
    row.notes = table.notes.join("; ");
    return row;
  });
  const last = ["ties_with_best", "notes"];
  const names = [...new Set(rows.flatMap(Object.keys))].filter((name) => !last.includes(name)).concat(last);
  return [names.map(csvCell), ...rows.map((row) => names.map((name) => csvCell(row[name])))]
    .map((cells) => `${cells.join(",")}\n`).join("");
}

function csvCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const inert = /^[=+\-@]/.test(value) ? `'${value}` : String(value); // a spreadsheet runs no formula
  return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
}

function figureButtons(board, title, find) {
  const take = (act) => () => {
    const figure = find();
    figure.classList.add("taken"); // without its buttons
    const picture = figurePicture(figure, board.title, title);
    figure.classList.remove("taken");
    act(picture, fileName(board.key, title));
  };
  return el("span", { class: "saves" },
    smallButton("SVG", "Download this figure as it is shown", take(({ text }, name) => saveFile(`${name}.svg`, text, "image/svg+xml"))),
    smallButton("PNG", "Download this figure as it is shown", take((picture, name) => savePng(picture, `${name}.png`))));
}

function savePng({ text, width, height }, name) {
  const image = new Image();
  image.onload = () => {
    const canvas = el("canvas", { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
    canvas.toBlob((blob) => saveFile(name, blob));
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}

// Other programs know neither light-dark() nor oklab(): a pixel says what colour it is.

const pixel = el("canvas", { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
const plainColours = new Map();

function plainColour(text) {
  if (!plainColours.has(text)) {
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = text;
    pixel.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = pixel.getImageData(0, 0, 1, 1).data;
    plainColours.set(text, alpha === 0 ? null : { fill: `rgb(${red},${green},${blue})`, opacity: (alpha / 255).toFixed(3) });
  }
  return plainColours.get(text);
}

const DRAWN = ["stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "font-family", "text-anchor"];

function withPlainStyle(svg) {
  const copy = svg.cloneNode(true);
  const originals = svg.querySelectorAll("*");
  [...copy.querySelectorAll("*")].forEach((node, index) => {
    if (node.matches(".hit")) {
      node.remove();
      return;
    }
    const style = getComputedStyle(originals[index]);
    for (const name of ["fill", "stroke"]) {
      const colour = style[name] === "none" ? null : plainColour(style[name]);
      node.setAttribute(name, colour?.fill ?? "none");
      if (colour && colour.opacity !== "1.000") node.setAttribute(`${name}-opacity`, colour.opacity);
    }
    for (const name of DRAWN) {
      const value = style.getPropertyValue(name);
      if (value && value !== "none" && (node.tagName === "text" || !/^(font|text)/.test(name))) node.setAttribute(name, value);
    }
    for (const name of ["class", "tabindex", "data-tip", "aria-describedby"]) node.removeAttribute(name);
  });
  copy.removeAttribute("class");
  return copy;
}

const MARGIN = 16;
const HEADING = 26; // room for the title of the board

function figurePicture(figure, board, title) {
  for (const scrolled of figure.querySelectorAll(".scroll")) scrolled.scrollLeft = 0;
  const origin = figure.getBoundingClientRect();
  const left = origin.left - MARGIN;
  const top = origin.top - MARGIN - HEADING;
  const parts = [];
  let [width, height] = [origin.width, origin.height];
  const at = (box) => {
    width = Math.max(width, box.right - origin.left);
    height = Math.max(height, box.bottom - origin.top);
    return { x: (box.left - left).toFixed(1), y: (box.top - top).toFixed(1), width: box.width.toFixed(1), height: box.height.toFixed(1) };
  };
  const visit = (node) => {
    if (node.nodeType === Node.TEXT_NODE) {
      parts.push(...textLines(node, left, top));
      return;
    }
    if (node.nodeType !== Node.ELEMENT_NODE || node.matches(".tools")) return;
    const style = getComputedStyle(node);
    if (style.display === "none" || style.visibility === "hidden") return;
    const box = node.getBoundingClientRect();
    if (node instanceof SVGElement) {
      parts.push(fill(withPlainStyle(node), { ...at(box), overflow: "visible" }, []));
      return;
    }
    const colour = plainColour(style.backgroundColor);
    if (colour) parts.push(draw("rect", { ...at(box), rx: Number.parseFloat(style.borderRadius) || 0, fill: colour.fill, "fill-opacity": colour.opacity }));
    if (node.matches(".tile")) {
      const { fill: stroke } = plainColour(style.borderTopColor);
      parts.push(draw("rect", { ...at(box), rx: 4, fill: "none", stroke, "stroke-width": 2, "stroke-dasharray": style.borderTopStyle === "dashed" ? "4 3" : null }));
    }
    if (node.tagName === "IMG") parts.push(draw("image", { ...at(box), href: node.src, preserveAspectRatio: "none", "image-rendering": "pixelated" }));
    const strip = /^url\("(data:[^"]+)"\)$/.exec(style.backgroundImage);
    if (strip) parts.push(stripTile(strip[1], style, at(box)));
    node.childNodes.forEach(visit);
  };
  visit(figure);
  const size = { width: Math.ceil(width + 2 * MARGIN), height: Math.ceil(height + 2 * MARGIN + HEADING) };
  const body = getComputedStyle(document.body);
  const picture = draw("svg", { xmlns: SVG, ...size, viewBox: `0 0 ${size.width} ${size.height}` },
    draw("title", {}, `${board}: ${title}`),
    draw("rect", { ...size, fill: plainColour(body.backgroundColor).fill }),
    draw("text", { x: MARGIN, y: MARGIN + 12, fill: plainColour(body.color).fill, "font-size": "14px", "font-family": "sans-serif" }, board),
    parts);
  return { text: new XMLSerializer().serializeToString(picture), ...size };
}

// One image of a strip: the strip is wider than the tile, and only its part is seen.
function stripTile(source, style, box) {
  const count = Math.round(Number.parseFloat(style.backgroundSize) / 100) || 1;
  const share = (Number.parseFloat(style.backgroundPosition) || 0) / 100;
  return draw("svg", { ...box, viewBox: `${share * (count - 1)} 0 1 1`, preserveAspectRatio: "none" },
    draw("image", { href: source, width: count, height: 1, preserveAspectRatio: "none", "image-rendering": "pixelated" }));
}

// Text as the browser broke it into lines.
function textLines(node, left, top) {
  const lines = [];
  const range = document.createRange();
  let index = 0;
  for (const sign of node.textContent) {
    range.setStart(node, index);
    index += sign.length;
    range.setEnd(node, index);
    const box = range.getBoundingClientRect();
    const last = lines.at(-1);
    if (last && (!box.width || Math.abs(last.top - box.top) < 2)) last.text += sign;
    else if (sign.trim() && box.width) lines.push({ left: box.left, top: box.top, height: box.height, text: sign });
  }
  const style = getComputedStyle(node.parentElement);
  const colour = plainColour(style.color);
  if (!colour || node.parentElement.closest(".skip")) return [];
  return lines.map((line) => draw("text", {
    x: (line.left - left).toFixed(1), y: (line.top - top + 0.78 * line.height).toFixed(1), fill: colour.fill,
    "font-size": style.fontSize, "font-weight": style.fontWeight, "font-family": style.fontFamily.replaceAll('"', "'"),
  }, line.text.trim().replaceAll(/\s+/g, " ")));
}
