/* The dialog of one lock: who holds it, who waits, what happened, and taking it away. */
const detail = (() => {
  let shown = null, session = null; /* the lock; the session whose locks are shown instead */

  const told = {
    granted: (event) => `granted to ${party(event)}` + (event.mode === "shared" ? ", shared" : ""),
    expired: (event) => "expired" + (event.owner ? `, held by ${party(event)}` : ""),
    renewed: (event) => `renewed by ${party(event)}`,
    released: (event) => "released" + (event.owner ? ` by ${party(event)}` : "") +
      (event.detail ? `: ${event.detail}` : ""),
    lost: (event) => `lost by ${party(event)}: ${event.reason}` + (event.detail ? `, ${event.detail}` : ""),
    forced: (event) => `force-released by ${event.by}: ${event.reason}`,
  };
  const party = (one) => (one.owner || "unknown") + (one.instance ? ` (${one.instance})` : "");

  /* ---- history, with renewals in a row folded into one line ---- */

  const fold = (events) => {
    const lines = [];
    for (const event of events) {
      const last = lines[lines.length - 1];
      if (event.type === "renewed" && last?.event.type === "renewed" && last.event.owner === event.owner) {
        last.count++;
        last.event = event;
      } else lines.push({ event, count: 1 });
    }
    return lines;
  };
  const showHistory = () => {
    const list = byId("history");
    const lines = fold(page.history.filter((one) => one.name === shown)).slice(-50).reverse();
    list.replaceChildren(...lines.map(({ event, count }) => {
      const line = element("li"), text = told[event.type](event);
      line.append(when(event.at_unix_ms), element("span", count > 1 ? `${text} ${count} times` : text));
      if (event.type === "lost" || event.type === "forced" || event.type === "expired") line.className = "bad";
      return line;
    }));
    if (!lines.length) list.append(element("li", "No recent events."));
  };

  /* ---- facts ---- */

  const people = (title, all, columns) => {
    const box = element("section"), made = element("table"), head = element("tr"), top = element("thead");
    box.append(element("h3", `${title} (${all.length})`), made);
    for (const column of Object.keys(columns)) head.append(element("th", column));
    top.append(head);
    const body = element("tbody");
    for (const one of all) {
      const row = element("tr");
      for (const cell of Object.values(columns)) {
        const td = element("td"), value = cell(one);
        if (value !== undefined && value !== null && value !== "") td.append(value);
        if (typeof value === "string") td.title = value;
        row.append(td);
      }
      body.append(row);
    }
    made.append(top, body);
    return box;
  };
  const since = (one) => (one.since_unix_ms ? when(one.since_unix_ms) : "");
  const remaining = (at) => (at > now() ? span(at - now()) : "expired");
  const left = (one) => {
    if (!one.expires_unix_ms) return "";
    const made = element("span", remaining(one.expires_unix_ms));
    made.dataset.until = one.expires_unix_ms;
    return made;
  };

  const showFacts = () => {
    if (session) {
      showSession();
      return;
    }
    const lock = page.locks.get(shown), box = byId("facts");
    if (!lock) {
      box.replaceChildren(element("p", "This lock does not exist, or was not held for a long time."));
      byId("force").hidden = true;
      return;
    }
    const list = element("dl"), fact = (name, ...values) => {
      const value = element("dd");
      value.append(...values);
      list.append(element("dt", name), value);
    };
    fact("State", table.stateOf(lock));
    if (lock.held && lock.owner) fact("Holder", party(lock));
    if (lock.held && lock.since) fact("Held since", when(lock.since));
    if (lock.held && lock.lease) {
      const bar = element("div", undefined, "left"), track = element("div", undefined, "track");
      track.append(element("i"));
      bar.append(track, element("span"));
      table.paintLeft(bar, lock);
      fact(`Lease, ${span(lock.lease)}`, bar);
    }
    if (lock.token) fact("Token", String(lock.token));
    if (lock.waiters) fact("Waiters", String(lock.waiters));
    if (lock.damage) fact("Damaged", `the attribute “${lock.damage}” is invalid; repair the record`);
    if (lock.forcedBy) fact("Last force-release", `by ${lock.forcedBy}: ${lock.forcedReason}`);
    if (lock.data !== undefined && lock.data !== "") {
      const text = pretty(lock.data);
      fact("Data", element("pre", text), copyButton(lock.data, "Copy the data"));
    }
    for (const [name, value] of Object.entries(lock.attributes || {})) fact(name, value);
    const parts = [list];
    if (lock.heldBy.length) parts.push(people("Holders", lock.heldBy, {
      Owner: (one) => one.owner, Instance: (one) => one.instance, Since: since, Left: left,
      Session: (one) => (one.session ? sessionLink(one.session) : ""),
    }));
    if (lock.waiting.length) parts.push(people("Waiters", lock.waiting,
      { Owner: (one) => one.owner, Instance: (one) => one.instance, Since: since }));
    box.replaceChildren(...parts);
    byId("force").hidden = !page.admin || !lock.held;
    byId("force-warning").textContent = `This takes the lock away from ${lock.owner ? party(lock) : "its holder"}, ` +
      "who may still be working under it.";
  };

  /* Locks are found by the session that holds them. */
  const sessionLink = (id) => {
    const button = element("button", id.slice(0, 8) + "…", "link");
    button.type = "button";
    button.title = "Show all locks of this session";
    button.addEventListener("click", () => {
      session = id;
      showSession();
      live.list().then(showFacts).catch(() => {}); /* events do not tell sessions */
    });
    return button;
  };
  const showSession = () => {
    const all = [...page.locks.values()].filter((lock) => lock.heldBy.some((one) => one.session === session));
    const box = byId("facts"), back = element("button", "Back to the lock");
    back.type = "button";
    back.addEventListener("click", () => {
      session = null;
      showFacts();
    });
    box.replaceChildren(element("p", `Session ${session}: one renewal keeps all of its locks.`),
      people("Locks", all, {
        Lock: (lock) => {
          const button = element("button", lock.name, "link");
          button.type = "button";
          button.addEventListener("click", () => open(lock.name));
          return button;
        },
        State: (lock) => table.stateOf(lock), Owner: (lock) => party(lock),
      }), back);
    byId("force").hidden = true;
  };

  const look = async (name) => {
    const answer = await fetch("v2/locks/" + encodeURIComponent(name), { headers: headers() });
    if (answer.ok) live.put(fromApi(await answer.json()));
  };

  const open = (name) => {
    shown = name;
    session = null;
    table.change({ lock: name });
    byId("detail-name").replaceChildren(name, " ", copyButton(name, "Copy the name"));
    byId("force-error").textContent = "";
    confirmForce(false);
    showFacts();
    showHistory();
    if (!byId("detail").open) byId("detail").showModal();
    look(name).catch(() => {});
  };

  /* ---- force-release ---- */

  const confirmForce = (asks) => {
    byId("force-ask").hidden = asks;
    byId("force-form").hidden = !asks;
    byId("reason").value = "";
    byId("reason").disabled = !asks; /* a hidden field must not be required */
    if (asks) byId("reason").focus();
  };
  byId("force-ask").addEventListener("click", () => confirmForce(true));
  byId("force-cancel").addEventListener("click", () => confirmForce(false));
  byId("force").addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = shown;
    if (!byId("reason").value.trim()) return;
    byId("force-error").textContent = "";
    try {
      const answer = await fetch("v2/locks/" + encodeURIComponent(name) + "/force-release", {
        method: "POST", headers: { ...headers(), "Content-Type": "application/json" },
        body: JSON.stringify({ reason: byId("reason").value }),
      });
      if (!answer.ok) byId("force-error").textContent = (await answer.json()).message;
      else confirmForce(false);
      await look(name);
    } catch {
      byId("force-error").textContent = "The service does not answer; try again.";
    }
  });

  byId("detail").addEventListener("close", () => {
    shown = null;
    table.change({ lock: "" });
  });
  byId("close").addEventListener("click", () => byId("detail").close());
  byId("detail").addEventListener("click", (event) => { if (event.target === byId("detail")) byId("detail").close(); });

  const changed = (name) => { if (shown === name) showFacts(); };
  const happened = (name) => { if (shown === name) showHistory(); };
  const tick = () => {
    const lock = shown && page.locks.get(shown), bar = byId("facts").querySelector(".left");
    if (!shown) return;
    if (lock && bar) table.paintLeft(bar, lock);
    refreshTimes(byId("detail"));
    for (const one of byId("facts").querySelectorAll("[data-until]"))
      one.textContent = remaining(Number(one.dataset.until));
  };
  return { open, look, changed, happened, tick, told };
})();
