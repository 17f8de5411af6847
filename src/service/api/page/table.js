/*
 * The table: what is shown of the locks, in which order. All of it is in the address, so that a view
 * can be sent to a colleague. Only the rows on the screen exist: every row has the same height.
 */
const table = (() => {
  const FILTERS = {
    held: ["Held", (lock) => lock.held],
    waiting: ["Waiting", (lock) => lock.waiters > 0],
    shared: ["Shared", (lock) => lock.held && lock.mode === "shared"],
    expired: ["Expired", (lock) => isExpired(lock)],
    free: ["Free", (lock) => !lock.held && !isExpired(lock)],
    mine: ["Mine", (lock) => lock.held && lock.owner === page.me],
    all: ["All", () => true],
  };
  const COLUMNS = {
    name: ["Lock", (lock) => lock.name],
    owner: ["Holder", (lock) => (lock.held ? lock.owner || "" : "")],
    mode: ["State", (lock) => stateOf(lock)],
    since: ["Held for", (lock) => (lock.held ? lock.since || 0 : Infinity)],
    left: ["Time left", (lock) => (lock.held && lock.expires ? lock.expires : Infinity)],
    token: ["Token", (lock) => lock.token || 0],
    waiters: ["Waiters", (lock) => -(lock.waiters || 0)],
  };
  const SPARE = 20; /* rows beyond the screen, on either side */
  const view = { q: "", show: "held", sort: "name", down: false, group: false, lock: "" };
  const folded = new Set();
  const rows = new Map(); /* those that exist, by key */
  let shown = []; /* {lock} or {group, count} in order */

  const isExpired = (lock) => lock.state === "expired" || (lock.held && lock.expires && lock.expires < now());
  const stateOf = (lock) => {
    if (lock.state === "damaged") return "damaged";
    if (isExpired(lock)) return "expired";
    if (!lock.held) return "free";
    if (lock.mode !== "shared") return "exclusive";
    return lock.limit ? `${lock.holders} of ${lock.limit}` : `shared by ${lock.holders}`;
  };
  const prefixOf = (name) => {
    const end = name.search(/[/:.]/);
    return end > 0 ? name.slice(0, end + 1) : "";
  };

  /* ---- the address ---- */

  const readAddress = () => {
    const given = new URLSearchParams(location.search);
    view.q = given.get("q") || "";
    view.show = FILTERS[given.get("show")] ? given.get("show") : "held";
    view.sort = COLUMNS[given.get("sort")] ? given.get("sort") : "name";
    view.down = given.get("down") === "1";
    view.group = given.get("group") === "1";
    view.lock = given.get("lock") || "";
  };
  const writeAddress = () => {
    const told = new URLSearchParams();
    if (view.q) told.set("q", view.q);
    if (view.show !== "held") told.set("show", view.show);
    if (view.sort !== "name") told.set("sort", view.sort);
    if (view.down) told.set("down", "1");
    if (view.group) told.set("group", "1");
    if (view.lock) told.set("lock", view.lock);
    const text = told.toString();
    history.replaceState(null, "", location.pathname + (text ? "?" + text : ""));
  };

  /* ---- which rows, in which order ---- */

  const matches = (lock, words) => {
    if (!FILTERS[view.show][1](lock)) return false;
    if (!words.length) return true;
    const parties = [...lock.heldBy, ...lock.waiting].map((party) => `${party.owner} ${party.instance || ""}`);
    const text = [lock.name, lock.owner, lock.instance, ...parties].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const compare = (a, b) => {
    const [x, y] = [COLUMNS[view.sort][1](a), COLUMNS[view.sort][1](b)];
    const order = x < y ? -1 : x > y ? 1 : a.name < b.name ? -1 : 1;
    return view.down ? -order : order;
  };
  const choose = () => {
    const words = view.q.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [...page.locks.values()].filter((lock) => matches(lock, words)).sort(compare);
    if (!view.group) return found.map((lock) => ({ lock }));
    const groups = new Map();
    for (const lock of found) {
      const prefix = prefixOf(lock.name);
      groups.set(prefix, [...(groups.get(prefix) || []), lock]);
    }
    const all = [];
    for (const [prefix, members] of [...groups].sort(([a], [b]) => (a < b ? -1 : 1))) {
      all.push({ group: prefix, count: members.length });
      if (!folded.has(prefix)) for (const lock of members) all.push({ lock });
    }
    return all;
  };

  /* ---- rows ---- */

  const lockRow = (lock) => {
    const row = element("tr");
    const name = element("button", lock.name, "name");
    name.type = "button";
    name.title = lock.name;
    name.addEventListener("click", () => detail.open(lock.name));
    const first = element("td");
    first.append(name);
    const left = element("td", undefined, "left"), track = element("div", undefined, "track");
    track.append(element("i"));
    left.append(track, element("span"));
    row.append(first, element("td"), element("td"), element("td", "", "quiet"), left, element("td", "", "quiet number"),
      element("td", "", "number"));
    row.cells[3].dataset.label = "for";
    row.cells[6].dataset.label = "waiting:";
    return row;
  };
  const setText = (cell, text) => {
    if (cell.textContent === text) return;
    cell.textContent = text;
    cell.title = text;
  };
  const paintLock = (row, lock) => {
    const [, owner, mode, since, , token, waiters] = row.cells;
    const expired = isExpired(lock);
    row.className = !lock.held || expired ? "free" : lock.isNew ? "new" : "";
    setText(owner, lock.held ? (lock.owner || "unknown") + (lock.instance ? ` (${lock.instance})` : "") : "");
    setText(mode, stateOf(lock));
    mode.className = expired || lock.state === "damaged" ? "bad" : "";
    setText(token, lock.token ? String(lock.token) : "");
    setText(waiters, lock.waiters ? String(lock.waiters) : "");
    since.textContent = lock.held && lock.since ? span(now() - lock.since) : "";
    since.title = lock.since ? new Date(lock.since).toLocaleString() : "";
    paintLeft(row.cells[4], lock);
  };
  /* The bar and the time, in the table and in the dialog. */
  const paintLeft = (box, lock) => {
    const [track, time] = box.children;
    const timed = lock.held && lock.expires && lock.lease;
    track.hidden = !timed;
    if (!timed) {
      time.textContent = !lock.held ? "" : page.format === "holdfast" ? "session" : "unknown";
      return;
    }
    const left = lock.expires - now();
    time.textContent = left > 0 ? span(left) : "expired";
    track.firstChild.style.transform = `scaleX(${Math.max(0, Math.min(1, left / lock.lease)).toFixed(4)})`;
    track.classList.toggle("low", left < lock.lease / 4);
  };
  const groupRow = (group) => {
    const row = element("tr", undefined, "group"), cell = element("td");
    const button = element("button");
    button.type = "button";
    cell.colSpan = Object.keys(COLUMNS).length;
    button.addEventListener("click", () => {
      if (!folded.delete(group)) folded.add(group);
      arrange();
    });
    cell.append(button);
    row.append(cell);
    return row;
  };
  const paintGroup = (row, item) => {
    const button = row.querySelector("button"), open = !folded.has(item.group);
    button.setAttribute("aria-expanded", String(open));
    button.textContent = `${open ? "▾" : "▸"} ${item.group || "no prefix"} (${item.count})`;
  };

  const keyOf = (item) => (item.lock ? "lock " + item.lock.name : "group " + item.group);
  const paint = (row, item) => (item.lock ? paintLock(row, item.lock) : paintGroup(row, item));
  const rowOf = (item) => {
    const key = keyOf(item);
    let row = rows.get(key);
    if (!row) {
      row = item.lock ? lockRow(item.lock) : groupRow(item.group);
      rows.set(key, row);
    }
    paint(row, item);
    return row;
  };

  /* ---- what is on the screen ---- */

  const spacer = (height) => {
    const row = element("tr", undefined, "spacer");
    row.setAttribute("aria-hidden", "true");
    row.style.height = height + "px";
    return row;
  };
  const height = () => parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row"));
  const render = () => {
    const body = byId("locks").tBodies[0], each = height();
    const top = body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / each) - SPARE);
    const last = Math.min(shown.length, Math.ceil((innerHeight - top) / each) + SPARE);
    const focused = document.activeElement?.closest("tr");
    const wanted = shown.slice(first, last);
    for (const key of [...rows.keys()]) if (!wanted.some((item) => keyOf(item) === key)) rows.delete(key);
    const made = wanted.map(rowOf);
    if (first > 0) made.unshift(spacer(first * each));
    if (last < shown.length) made.push(spacer((shown.length - last) * each));
    const same = made.length === body.children.length && made.every((row, i) => row === body.children[i]);
    if (!same) {
      body.replaceChildren(...made);
      if (focused && made.includes(focused)) focused.querySelector("button")?.focus({ preventScroll: true });
    }
    for (const lock of page.locks.values()) delete lock.isNew;
  };

  const EMPTY = {
    q: "No lock matches this search. Clear it with Escape, or choose another filter.",
    held: "No lock is held. Acquire one:  holdfast run nightly -- ./report.sh",
    waiting: "Nobody waits for a lock.", shared: "No shared lock is held.", expired: "No lock has expired.",
    free: "No lock is free: each known lock is held.", mine: "You hold no lock.", all: "There are no locks yet.",
  };
  let arranging = false;
  const arrange = () => {
    if (arranging) return;
    arranging = true;
    requestAnimationFrame(() => {
      arranging = false;
      shown = choose();
      const count = shown.filter((item) => item.lock).length;
      byId("locks").hidden = shown.length === 0;
      byId("empty").hidden = shown.length > 0;
      byId("empty").textContent = view.q ? EMPTY.q : EMPTY[view.show];
      byId("summary").textContent = `${count} of ${page.locks.size} locks`;
      render();
    });
  };

  /* ---- controls ---- */

  const showControls = () => {
    for (const button of byId("filters").children)
      button.setAttribute("aria-pressed", String(button.dataset.show === view.show));
    for (const head of byId("locks").tHead.rows[0].cells) {
      const sorts = head.dataset.sort === view.sort;
      head.setAttribute("aria-sort", !sorts ? "none" : view.down ? "descending" : "ascending");
    }
    byId("search").value = view.q;
    byId("group").checked = view.group;
  };
  const change = (what) => {
    Object.assign(view, what);
    writeAddress();
    showControls();
    arrange();
  };
  for (const [show, [title]] of Object.entries(FILTERS)) {
    const button = element("button", title);
    button.type = "button";
    button.dataset.show = show;
    button.addEventListener("click", () => change({ show }));
    byId("filters").append(button);
  }
  for (const [sort, [title]] of Object.entries(COLUMNS)) {
    const head = element("th"), button = element("button", title);
    head.scope = "col";
    head.dataset.sort = sort;
    button.type = "button";
    button.addEventListener("click", () => change({ sort, down: view.sort === sort ? !view.down : false }));
    head.append(button);
    byId("locks").tHead.rows[0].append(head);
  }
  byId("search").addEventListener("input", () => change({ q: byId("search").value }));
  byId("group").addEventListener("change", () => change({ group: byId("group").checked }));
  addEventListener("scroll", render, { passive: true });
  addEventListener("resize", render);
  addEventListener("popstate", () => { readAddress(); showControls(); arrange(); });
  document.addEventListener("keydown", (event) => {
    if (byId("detail").open) return;
    const typing = event.target.matches("input");
    const row = event.target.closest?.("tbody tr");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      byId("search").focus();
    } else if (event.key === "Escape" && event.target === byId("search")) {
      change({ q: "" });
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && (row || event.target === byId("search"))) {
      const next = !row ? byId("locks").tBodies[0].querySelector("tr:not(.spacer)")
        : event.key === "ArrowDown" ? row.nextElementSibling : row.previousElementSibling;
      const button = next?.querySelector("button");
      if (!button) return;
      event.preventDefault();
      button.focus();
    }
  });
  readAddress();
  showControls();
  const tick = () => {
    for (const item of shown) if (item.lock && rows.has(keyOf(item))) paintLock(rows.get(keyOf(item)), item.lock);
  };
  return { arrange, change, tick, view, stateOf, isExpired, paintLeft };
})();
