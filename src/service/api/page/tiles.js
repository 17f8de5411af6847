/* The tiles at the top: how much of what, now and in the last quarter of an hour. */
const tiles = (() => {
  const MINUTES = 15, STEP_MS = 15000, POINTS = (MINUTES * 60000) / STEP_MS;
  const TILES = {
    held: ["Held", ""], waiting: ["Waiting", ""], sessions: ["Sessions", ""], grants: ["Granted", "/min"],
    losses: ["Lost", "/min"], store: ["Store", " ms"],
  };
  const points = Object.fromEntries(Object.keys(TILES).map((name) => [name, []])); /* {at, value}, oldest first */
  const counted = { grants: [], losses: [] }; /* when it happened */
  const parts = {};

  for (const [name, [title]] of Object.entries(TILES)) {
    const tile = element("div", undefined, "tile"), svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const value = element("strong", "–"), line = document.createElementNS(svg.namespaceURI, "polyline");
    svg.setAttribute("viewBox", "0 0 100 24");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    svg.append(line);
    tile.dataset.tile = name;
    tile.append(element("span", title), value, svg);
    byId("tiles").append(tile);
    parts[name] = { tile, value, line };
  }

  const happened = (event) => {
    if (event.type === "granted") counted.grants.push(event.at_unix_ms);
    else if (event.type === "lost" || event.type === "expired" || event.type === "forced")
      counted.losses.push(event.at_unix_ms);
  };
  const perMinute = (times, at) => times.filter((time) => time > at - 60000 && time <= at).length;

  const draw = (name) => {
    const { value, line, tile } = parts[name], all = points[name];
    const last = all[all.length - 1]?.value;
    const text = last === undefined ? "–" : name === "store" ? last.toFixed(last < 10 ? 1 : 0) : String(last);
    value.textContent = text + (last === undefined ? "" : TILES[name][1]);
    const most = Math.max(1e-9, ...all.map((point) => point.value)), start = now() - MINUTES * 60000;
    line.setAttribute("points", all.map(({ at, value: y }) =>
      `${(((at - start) / (MINUTES * 60000)) * 100).toFixed(2)},${(22 - (y / most) * 20).toFixed(2)}`).join(" "));
    const peak = most > 1e-9 ? +most.toFixed(1) : 0;
    tile.title = `${TILES[name][0]}: at most ${peak}${TILES[name][1]} in the last ${MINUTES} min`;
  };
  const add = (name, at, value) => {
    const all = points[name], last = all[all.length - 1];
    if (last && Math.floor(last.at / STEP_MS) === Math.floor(at / STEP_MS)) all.pop();
    all.push({ at, value });
    while (all.length > POINTS + 1) all.shift();
  };

  /* Rates are known from the events that the service has kept; the rest from now on. */
  const update = (storeMs) => {
    const at = now(), locks = [...page.locks.values()];
    for (const times of Object.values(counted))
      while (times.length && times[0] < at - (MINUTES + 1) * 60000) times.shift();
    add("held", at, locks.filter((lock) => lock.held && !table.isExpired(lock)).length);
    add("waiting", at, locks.reduce((sum, lock) => sum + (lock.waiters || 0), 0));
    add("sessions", at, page.sessions.length);
    if (storeMs !== undefined) add("store", at, storeMs);
    for (const name of ["grants", "losses"]) {
      points[name] = [];
      for (let i = POINTS; i >= 0; i--) {
        const then = at - i * STEP_MS;
        points[name].push({ at: then, value: perMinute(counted[name], then) });
      }
    }
    for (const name of Object.keys(TILES)) draw(name);
  };
  return { happened, update };
})();
