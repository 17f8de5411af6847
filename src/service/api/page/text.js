"use strict";
/*
 * The live view of locks, in five files that the service serves as one: texts (this one), the table,
 * the tiles at the top, the dialog of one lock, and what keeps them up to date (live.js).
 *
 * Everything that comes from the service is put in as text, never as markup.
 */
const page = {
  locks: new Map(), /* name: see fromApi */
  history: [], /* events of all locks, oldest first */
  sessions: [], /* live sessions that this service knows */
  me: "", admin: false, format: "", version: "", store: "", skew: 0, token: sessionStorage.getItem("token") || "",
};

const byId = (id) => document.getElementById(id);
const now = () => Date.now() + page.skew;
const headers = () => (page.token ? { Authorization: "Bearer " + page.token } : {});

const element = (tag, text, className) => {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
};

/* A length of time: 4.2 s, 3 min, 5 h, 2 d. */
const span = (ms) => {
  const s = Math.max(0, ms) / 1000;
  if (s < 10) return s.toFixed(1) + " s";
  if (s < 120) return Math.floor(s) + " s";
  if (s < 7200) return Math.floor(s / 60) + " min";
  if (s < 172800) return Math.floor(s / 3600) + " h";
  return Math.floor(s / 86400) + " d";
};

/* A moment: relative, and absolute on hover. refreshTimes() keeps it up to date. */
const ago = (ms) => (now() - ms < 1000 ? "just now" : span(now() - ms) + " ago");
const when = (ms) => {
  const made = element("time", ago(ms));
  made.dateTime = new Date(ms).toISOString();
  made.title = new Date(ms).toLocaleString();
  made.dataset.at = ms;
  return made;
};
const refreshTimes = (root) => {
  for (const one of root.querySelectorAll("time[data-at]")) one.textContent = ago(Number(one.dataset.at));
};

const pretty = (text) => {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null ? JSON.stringify(value, null, 2) : text;
  } catch {
    return text;
  }
};

const copyButton = (text, label) => {
  const button = element("button", "Copy", "copy");
  button.type = "button";
  button.setAttribute("aria-label", label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return button;
};

/* A lock as GET /v2/locks has it, as the page keeps it. */
const fromApi = (lock) => ({
  name: lock.name, state: lock.state, held: lock.state === "held" || lock.state === "damaged", owner: lock.last_owner,
  instance: lock.instance, mode: lock.mode, holders: lock.holders, limit: lock.limit, since: lock.since_unix_ms,
  expires: lock.expires_unix_ms, lease: lock.lease_ms, token: lock.token,
  waiters: lock.waiters ?? (lock.waiting || []).length, heldBy: lock.held_by || [], waiting: lock.waiting || [],
  data: lock.data ?? lock.data_base64, attributes: lock.attributes, damage: lock.damage,
  forcedBy: lock.forced_by, forcedReason: lock.forced_reason,
});
