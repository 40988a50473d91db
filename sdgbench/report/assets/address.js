// The address holds what was chosen on each board: view, order, filter, what its figures show, and
// what was opened last. A copied address opens the same. Only what differs from the start is in it.

const boardFields = new Map(); // by the key of a board: its fields by name
let openedLast = ""; // the key of a board, "records", or "record:" and an id
let addressTimer = 0;
let isApplying = false;

function remember(state, name, usual, read, write) {
  boardFields.get(state.key).set(name, { usual, read, write });
}

// A chooser whose choice is part of the address.
function choice(state, name, label, options, chosen, act) {
  const node = chooser(label, options, chosen, (value) => {
    act(value);
    state.changed();
  });
  const select = node.querySelector("select");
  remember(state, name, chosen, () => select.value, (value) => {
    if (!options.some(([known]) => known === value)) return;
    select.value = value;
    act(value);
  });
  return node;
}

// Details that are open or not, as part of the address.
function rememberOpen(state, name, details, usual) {
  const word = (open) => (open ? "open" : "closed");
  remember(state, name, word(usual), () => word(details.open), (value) => { details.open = value === "open"; });
  details.addEventListener("toggle", () => saveAddress());
}

function saveAddress(opened = null) {
  if (isApplying) return;
  if (opened !== null) openedLast = opened;
  clearTimeout(addressTimer);
  addressTimer = setTimeout(() => { // typing is one change, and browsers limit how often it may change
    const text = addressText();
    const start = window.location.href.split("#")[0];
    if (window.location.hash !== text) window.history.replaceState(null, "", start + text);
  }, 100);
}

function addressText() {
  const parts = new URLSearchParams();
  if (openedLast) parts.set("at", openedLast);
  for (const [key, fields] of boardFields) {
    for (const [name, { usual, read }] of fields) {
      if (read() !== usual) parts.set(`${key}.${name}`, read());
    }
  }
  const text = parts.toString();
  return text ? `#${text}` : "";
}

function openAddress() {
  const text = window.location.hash.slice(1);
  if (!text.includes("=")) {
    followAnchor(text);
    return;
  }
  const parts = new URLSearchParams(text);
  isApplying = true;
  for (const [key, fields] of boardFields) {
    for (const [name, { usual, read, write }] of fields) {
      const wanted = parts.get(`${key}.${name}`) ?? usual;
      if (wanted !== read()) write(wanted);
    }
  }
  isApplying = false;
  openedLast = parts.get("at") ?? "";
  goTo(openedLast);
  // Charts are drawn in the next frames and move what is below them.
  requestAnimationFrame(() => requestAnimationFrame(() => goTo(openedLast)));
}

function goTo(place) {
  const board = DATA.boards.findIndex(({ key }) => key === place);
  const record = DATA.records.findIndex(({ id }) => `record:${id}` === place);
  if (record >= 0) openRecord(record);
  const id = board >= 0 ? `board-${board}` : record >= 0 ? `record-${record}` : place === "records" ? place : null;
  if (id) document.getElementById(id).scrollIntoView();
}

// Links inside the page lead to elements; the address then says the same in a lasting way.
function followAnchor(id) {
  const [, kind, index] = /^(board|record)-(\d+)$/.exec(id) ?? [];
  if (kind === "board" && DATA.boards[index]) {
    document.getElementById(id).open = true;
    saveAddress(DATA.boards[index].key);
  } else if (kind === "record" && DATA.records[index]) {
    openRecord(Number(index));
    document.getElementById(id).scrollIntoView();
    saveAddress(`record:${DATA.records[index].id}`);
  } else if (id) {
    saveAddress(id === "records" ? id : "");
  }
}
