/*
 * What keeps the page up to date: it lists all locks, then follows /v2/events. After a lost connection
 * it resumes where it was, or lists all locks anew if it has missed events.
 */
const live = (() => {
  const KEPT = 4000, CHECK_MS = 5000;
  let lastEvent = "0", following = false, listedAt = 0, storeMs;

  const put = (lock) => {
    const before = page.locks.get(lock.name);
    const merged = Object.assign(before || { heldBy: [], waiting: [] }, lock);
    if (!before) page.locks.set(lock.name, merged);
    table.arrange();
    detail.changed(lock.name);
    return merged;
  };

  /* ---- events ---- */

  const apply = (event) => {
    const held = event.type === "granted" || event.type === "renewed";
    const known = page.locks.get(event.name);
    if (event.type === "granted" && known?.held && known.token >= event.token) return; /* listed since */
    if (event.mode === "shared" || known?.mode === "shared" || event.type === "forced") {
      detail.look(event.name).catch(() => {}); /* there may be other holders */
      return;
    }
    const change = { name: event.name, held, state: held ? "held" : event.type === "expired" ? "expired" : "free" };
    if (event.owner) change.owner = event.owner;
    if (event.token) change.token = event.token;
    if (held) {
      change.mode = event.mode || "exclusive";
      change.expires = event.expires_unix_ms;
      change.lease = event.lease_ms;
      if (event.type === "granted") {
        change.since = event.at_unix_ms;
        change.instance = event.instance;
        change.heldBy = [{ owner: event.owner, instance: event.instance, since_unix_ms: event.at_unix_ms,
          expires_unix_ms: event.expires_unix_ms }];
        change.data = undefined;
        change.isNew = true;
      } else if (known?.heldBy.length === 1) {
        change.heldBy = [{ ...known.heldBy[0], expires_unix_ms: event.expires_unix_ms }];
      }
    } else change.heldBy = [];
    put(change);
    if (byId("detail").open && table.view.lock === event.name && event.type === "granted")
      detail.look(event.name).catch(() => {});
  };
  const happened = (event, replayed) => {
    if (event.type === "queue") {
      if (!replayed && page.locks.has(event.name)) {
        put({ name: event.name, waiters: event.waiters });
        if (table.view.lock === event.name) detail.look(event.name).catch(() => {});
      }
      return;
    }
    if (!detail.told[event.type] || event.api === "v1") return;
    page.history.push(event);
    if (page.history.length > KEPT) page.history.splice(0, page.history.length - KEPT);
    tiles.happened(event);
    if (!replayed) apply(event);
    detail.happened(event.name);
  };

  /* ---- asking the service ---- */

  const ask = async (path) => {
    const answer = await fetch(path, { headers: headers() });
    if (answer.status === 401) throw Object.assign(new Error("not signed in"), { unknown: true });
    if (!answer.ok) throw Object.assign(new Error(path), { answer });
    return answer.json();
  };

  const list = async () => {
    const seen = new Set();
    let cursor = "";
    listedAt = now();
    while (seen.size < 100000) {
      const part = await ask(`v2/locks?limit=500&cursor=${encodeURIComponent(cursor)}`);
      for (const lock of part.locks) {
        seen.add(lock.name);
        put(fromApi(lock));
      }
      cursor = part.cursor;
      if (!cursor) break;
    }
    for (const name of [...page.locks.keys()]) if (!seen.has(name)) page.locks.delete(name);
    table.arrange();
  };

  const follow = async () => {
    let replaying = lastEvent === "0"; /* what the list shows already */
    const answer = await fetch("v2/events", { headers: { ...headers(), "Last-Event-ID": lastEvent } });
    if (answer.status === 401) throw Object.assign(new Error("not signed in"), { unknown: true });
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
          if (replaying && event.at_unix_ms > listedAt - 1000) replaying = false;
          happened(event, replaying);
        }
      }
    }
  };

  /* ---- the service itself ---- */

  const state = (className, text) => {
    byId("state").className = className;
    byId("state").textContent = text;
  };
  const banner = (text) => {
    byId("banner").hidden = !text;
    if (byId("banner").textContent !== text) byId("banner").textContent = text;
  };

  const greet = async () => {
    const asked = Date.now();
    const who = await ask("v2/whoami");
    Object.assign(page, { admin: who.admin, me: who.owner, format: who.format });
    Object.assign(page, { version: who.version, store: who.store });
    page.skew = who.now_unix_ms - (asked + Date.now()) / 2;
    storeMs = who.store_us ? who.store_us / 1000 : undefined;
    return who;
  };
  /* Whether the store answers is found out by asking it. */
  const check = async () => {
    if (!following || document.hidden) return;
    try {
      const ready = await fetch("readyz");
      const who = await greet();
      page.sessions = (await ask("v2/sessions")).sessions;
      const failing = ready.status === 503 && !who.store_failing_ms ? (await ready.json()).message : "";
      banner(who.store_failing_ms
        ? `The store has not answered for ${span(who.store_failing_ms)}. Locks cannot be acquired, and held ones ` +
          "expire; see the service's log."
        : failing ? `Not ready: ${failing}` : "");
      tiles.update(storeMs);
    } catch { /* run() finds out, and says so */ }
  };
  const showFooter = () => {
    const footer = byId("footer"), role = page.admin ? " (administrator)" : "";
    const parts = [element("span", `Signed in as ${page.me}${role}`)];
    if (page.token) {
      const out = element("button", "Sign out", "link");
      out.type = "button";
      out.addEventListener("click", () => {
        sessionStorage.removeItem("token");
        location.reload();
      });
      parts.push(out);
    }
    parts.push(element("span", `holdfast ${page.version}`),
      element("span", `Store: ${page.store}, format ${page.format}`));
    footer.replaceChildren(...parts);
    footer.hidden = false;
  };

  const run = async () => {
    if (following) return;
    following = true;
    for (let failures = 0; following;) {
      try {
        await greet();
        byId("entry").hidden = true;
        byId("view").hidden = false;
        showFooter();
        await list();
        if (table.view.lock && !byId("detail").open) detail.open(table.view.lock);
        check();
        failures = 0;
        await follow();
      } catch (error) {
        if (error.unknown) {
          following = false;
          state("broken", "Not signed in");
          byId("entry-error").textContent = page.token ? "Invalid token." : "";
          byId("entry").hidden = false;
          byId("view").hidden = true;
          byId("token").focus();
          return;
        }
        if (error.answer?.status === 503) banner("The store does not answer; retrying.");
      }
      state("broken", "The service does not answer; retrying…");
      await new Promise((done) => setTimeout(done, Math.min(10000, 500 * 2 ** failures++)));
    }
  };

  byId("entry").addEventListener("submit", (event) => {
    event.preventDefault();
    page.token = byId("token").value.trim();
    sessionStorage.setItem("token", page.token);
    byId("token").value = "";
    run();
  });
  setInterval(check, CHECK_MS);
  setInterval(() => {
    if (document.hidden) return;
    table.tick();
    detail.tick();
  }, 200);
  return { list, put, run };
})();
live.run();
