"use strict";
/*
 * The live view of locks. It lists all locks, then follows /v2/events. After a lost connection it
 * resumes where it was, or lists all locks anew if it has missed events.
 */
(() => {
  const byId = (id) => document.getElementById(id);
  const locks = new Map(); /* name: {name, held, owner, mode, since, expires, lease, token, waiters, row} */
  const history = []; /* events of all locks, oldest first */
  const MOST = 2000, KEPT = 1000;
  let token = sessionStorage.getItem("token") || "";
  let lastEvent = "0", admin = false, me = "", format = "", skew = 0, shown = null, following = false;

  const headers = () => (token ? { Authorization: "Bearer " + token } : {});
  const now = () => Date.now() + skew;

  /* ---- text ---- */

  const span = (ms) => {
    const s = Math.max(0, ms) / 1000;
    if (s < 10) return s.toFixed(1) + " s";
    if (s < 120) return Math.floor(s) + " s";
    if (s < 7200) return Math.floor(s / 60) + " min";
    if (s < 172800) return Math.floor(s / 3600) + " h";
    return Math.floor(s / 86400) + " d";
  };
  const moment = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });
  const element = (tag, text, className) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };

  /* ---- the table ---- */

  const makeRow = (lock) => {
    const row = element("tr");
    const name = element("button", lock.name, "name");
    name.type = "button";
    name.addEventListener("click", () => open(lock.name));
    const first = element("td");
    first.append(name);
    const left = element("td"), box = element("div", undefined, "left"), track = element("div", undefined, "track");
    track.append(element("i"));
    box.append(track, element("span"));
    left.append(box);
    const cells = [first, element("td"), element("td", "", "quiet"), element("td", "", "quiet"), left,
      element("td", "", "quiet"), element("td", "", "number")];
    cells[3].dataset.label = "for";
    cells[6].dataset.label = "waiting:";
    row.append(...cells);
    lock.row = row;
    lock.cells = cells;
    lock.fill = track.firstChild;
    lock.track = track;
    lock.box = box;
    lock.time = box.lastChild;
  };

  const paint = (lock) => {
    if (!lock.row) makeRow(lock);
    const [, owner, mode, , , number, waiters] = lock.cells;
    owner.textContent = lock.held ? (lock.owner || "?") + (lock.instance ? ` (${lock.instance})` : "") : "";
    mode.textContent = !lock.held ? lock.state || "free" : lock.mode === "shared" && lock.holders > 1 ? `shared by ${lock.holders}` : lock.mode || "";
    number.textContent = lock.token || "";
    waiters.textContent = lock.waiters || "";
    lock.row.classList.toggle("free", !lock.held);
    tick(lock);
  };

  const tick = (lock) => {
    lock.cells[3].textContent = lock.held && lock.since ? span(now() - lock.since) : "";
    const timed = lock.held && lock.expires && lock.lease;
    lock.track.hidden = !timed;
    if (!timed) {
      lock.time.textContent = !lock.held ? "" : format === "holdfast" ? "Session lease" : "Unknown";
      lock.box.classList.add("untimed");
      return;
    }
    const left = lock.expires - now();
    lock.box.classList.remove("untimed");
    lock.time.textContent = left > 0 ? span(left) : "Expired";
    lock.fill.style.transform = `scaleX(${Math.max(0, Math.min(1, left / lock.lease)).toFixed(4)})`;
    lock.track.classList.toggle("low", left < lock.lease / 4);
  };

  const matches = (lock) => {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!lock.held && !byId("all").checked) return false;
    const text = (lock.name + " " + (lock.owner || "") + " " + (lock.instance || "")).toLowerCase();
    return words.every((word) => text.includes(word));
  };

  let arranging = false;
  const arrange = () => {
    if (arranging) return;
    arranging = true;
    requestAnimationFrame(() => {
      arranging = false;
      const body = byId("locks").tBodies[0];
      const wanted = [...locks.values()].filter(matches).sort((a, b) => (a.name < b.name ? -1 : 1)).slice(0, MOST);
      const held = [...locks.values()].filter((lock) => lock.held).length;
      let at = body.firstChild;
      for (const lock of wanted) {
        if (!lock.row) paint(lock);
        if (lock.row === at) at = at.nextSibling;
        else body.insertBefore(lock.row, at);
      }
      while (at) {
        const next = at.nextSibling;
        at.remove();
        at = next;
      }
      byId("locks").hidden = wanted.length === 0;
      byId("empty").hidden = wanted.length > 0;
      byId("empty").textContent = byId("search").value ? "No matches." : "No lock is held.";
      byId("summary").textContent = `${held} held` + (wanted.length !== held ? `, ${wanted.length} shown` : "");
    });
  };

  const put = (lock, isNew) => {
    const before = locks.get(lock.name);
    const merged = Object.assign(before || {}, lock);
    if (!before) {
      locks.set(lock.name, merged);
      makeRow(merged);
      if (isNew) merged.row.classList.add("new");
    }
    paint(merged);
    arrange();
    if (shown === lock.name) showFacts();
  };

  const fromList = (lock) => ({
    name: lock.name, held: lock.held, owner: lock.last_owner, instance: lock.instance, mode: lock.mode, holders: lock.holders, limit: lock.limit,
    since: lock.since_unix_ms, expires: lock.expires_unix_ms, lease: lock.lease_ms, token: lock.token,
    waiters: lock.waiters ?? (lock.waiting || []).length, data: lock.data, forcedBy: lock.forced_by, forcedReason: lock.forced_reason,
    state: lock.state, damage: lock.damage,
  });

  /* ---- one lock ---- */

  const told = {
    granted: (event) => `granted to ${event.owner || "?"}` + (event.mode === "shared" ? ", shared" : ""),
    expired: (event) => `expired` + (event.owner ? `, held by ${event.owner}` : ""),
    renewed: (event) => `renewed by ${event.owner || "?"}`,
    released: (event) => `released` + (event.owner ? ` by ${event.owner}` : "") + (event.detail ? `: ${event.detail}` : ""),
    lost: (event) => `lost by ${event.owner || "?"}: ${event.reason}` + (event.detail ? `, ${event.detail}` : ""),
    forced: (event) => `force-released by ${event.by}: ${event.reason}`,
  };

  const showHistory = () => {
    const list = byId("history");
    list.replaceChildren();
    for (const event of history.filter((one) => one.name === shown).slice(-50).reverse()) {
      const line = element("li");
      line.append(element("time", moment(event.at_unix_ms)), element("span", told[event.type](event)));
      list.append(line);
    }
    if (!list.firstChild) list.append(element("li", "no recent events"));
  };

  const showFacts = () => {
    const lock = locks.get(shown);
    if (!lock) return;
    const facts = [
      ["Holder", lock.held ? lock.owner : "nobody"], ["Instance", lock.held ? lock.instance : ""], ["Mode", lock.held ? lock.mode : ""],
      ["Holders", lock.holders > 1 ? lock.holders + (lock.limit ? ` of ${lock.limit}` : "") : ""],
      ["Since", lock.held && lock.since ? new Date(lock.since).toLocaleString() : ""],
      ["Lease", lock.held && lock.lease ? span(lock.lease) : ""], ["Token", lock.token], ["Waiters", lock.waiters || ""],
      ["Data", lock.data], ["Damaged", lock.damage ? `the attribute “${lock.damage}” is invalid` : ""],
      ["Last force-release", lock.forcedBy ? `by ${lock.forcedBy}: ${lock.forcedReason}` : ""],
    ];
    byId("facts").replaceChildren();
    for (const [name, value] of facts) {
      if (value === undefined || value === null || value === "") continue;
      byId("facts").append(element("dt", name), element("dd", String(value)));
    }
    byId("force").hidden = !admin || !lock.held;
  };

  const look = async (name) => {
    const answer = await fetch("v2/locks/" + encodeURIComponent(name), { headers: headers() });
    if (answer.ok) put(fromList(await answer.json()));
  };

  const open = (name) => {
    shown = name;
    byId("detail-name").textContent = name;
    byId("force-error").textContent = "";
    byId("reason").value = "";
    showFacts();
    showHistory();
    byId("detail").showModal();
    look(name).catch(() => {});
  };

  byId("detail").addEventListener("close", () => { shown = null; });
  byId("close").addEventListener("click", () => byId("detail").close());
  byId("detail").addEventListener("click", (event) => { if (event.target === byId("detail")) byId("detail").close(); });

  byId("force").addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = event.target.querySelector("button"), name = shown;
    button.disabled = true;
    byId("force-error").textContent = "";
    try {
      const answer = await fetch("v2/locks/" + encodeURIComponent(name) + "/force-release", {
        method: "POST", headers: { ...headers(), "Content-Type": "application/json" },
        body: JSON.stringify({ reason: byId("reason").value }),
      });
      if (!answer.ok) byId("force-error").textContent = (await answer.json()).message;
      else byId("reason").value = "";
      await look(name);
    } catch {
      byId("force-error").textContent = "The service does not answer.";
    }
    button.disabled = false;
  });

  /* ---- events ---- */

  const happened = (event, replayed) => {
    if (event.type === "queue") {
      const lock = locks.get(event.name);
      if (lock && !replayed) put({ name: event.name, waiters: event.waiters });
      return;
    }
    if (!told[event.type] || event.api === "v1") return;
    history.push(event);
    if (history.length > KEPT) history.splice(0, history.length - KEPT);
    if (shown === event.name) showHistory();
    if (replayed) return;
    const held = event.type === "granted" || event.type === "renewed";
    const change = { name: event.name, held, state: held ? "held" : event.type === "expired" ? "expired" : "free" };
    if (event.owner) change.owner = event.owner;
    if (event.type === "granted") change.instance = event.instance;
    if (event.token) change.token = event.token;
    if (held) {
      change.mode = event.mode || "exclusive";
      change.expires = event.expires_unix_ms;
      change.lease = event.lease_ms;
      if (event.type === "granted") change.since = event.at_unix_ms;
    }
    if (event.mode === "shared" || (!held && locks.get(event.name)?.mode === "shared")) look(event.name).catch(() => {});
    else put(change, event.type === "granted");
    if (!held && event.type === "forced") look(event.name).catch(() => {});
  };

  const list = async () => {
    const seen = new Set();
    let cursor = "";
    while (seen.size < 50000) {
      const answer = await fetch(`v2/locks?limit=500&cursor=${encodeURIComponent(cursor)}`, { headers: headers() });
      if (answer.status === 401) throw Object.assign(new Error("who"), { unknown: true });
      if (!answer.ok) throw new Error("list");
      const page = await answer.json();
      for (const lock of page.locks) {
        seen.add(lock.name);
        put(fromList(lock));
      }
      cursor = page.cursor;
      if (!cursor) break;
    }
    for (const [name, lock] of locks) {
      if (seen.has(name)) continue;
      lock.row.remove();
      locks.delete(name);
    }
    arrange();
  };

  const follow = async () => {
    let replaying = lastEvent === "0";
    const started = Date.now() + skew;
    const answer = await fetch("v2/events", { headers: { ...headers(), "Last-Event-ID": lastEvent } });
    if (answer.status === 401) throw Object.assign(new Error("who"), { unknown: true });
    if (!answer.ok) throw new Error("events");
    state("live", "Live");
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const fields = {};
        for (const line of text.slice(0, end).split("\n")) {
          const colon = line.indexOf(": ");
          if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 2);
        }
        text = text.slice(end + 2);
        if (fields.id) lastEvent = fields.id;
        if (fields.event === "reset") await list();
        else if (fields.data && fields.event !== "end") { // after an end event the stream is reopened
          const event = JSON.parse(fields.data);
          if (replaying && event.at_unix_ms > started - 1000) replaying = false;
          happened(event, replaying);
        }
      }
    }
  };

  const state = (className, text) => {
    byId("state").className = className;
    byId("state").textContent = text;
  };

  const greet = async () => {
    const asked = Date.now();
    const answer = await fetch("v2/whoami", { headers: headers() });
    if (answer.status === 401) throw Object.assign(new Error("who"), { unknown: true });
    if (!answer.ok) throw new Error("whoami");
    const who = await answer.json();
    admin = who.admin;
    me = who.owner;
    format = who.format;
    skew = who.now_unix_ms - (asked + Date.now()) / 2;
    byId("state").title = `signed in as ${me}`;
  };

  const run = async () => {
    if (following) return;
    following = true;
    for (let failures = 0; following;) {
      try {
        await greet();
        byId("entry").hidden = true;
        await list();
        failures = 0;
        await follow();
      } catch (error) {
        if (error.unknown) {
          following = false;
          state("broken", "Not signed in");
          byId("entry-error").textContent = token ? "Invalid token." : "";
          byId("entry").hidden = false;
          byId("token").focus();
          return;
        }
      }
      state("broken", "The service does not answer; retrying…");
      await new Promise((done) => setTimeout(done, Math.min(10000, 500 * 2 ** failures++)));
    }
  };

  byId("entry").addEventListener("submit", (event) => {
    event.preventDefault();
    token = byId("token").value.trim();
    sessionStorage.setItem("token", token);
    byId("token").value = "";
    run();
  });
  byId("search").addEventListener("input", arrange);
  byId("all").addEventListener("change", arrange);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input");
    if (event.key === "/" && !typing && !byId("detail").open) {
      event.preventDefault();
      byId("search").focus();
    } else if (event.key === "Escape" && event.target === byId("search")) {
      byId("search").value = "";
      arrange();
    }
  });
  setInterval(() => {
    if (!document.hidden) for (const lock of locks.values()) if (lock.row.isConnected) tick(lock);
  }, 100);
  run();
})();
