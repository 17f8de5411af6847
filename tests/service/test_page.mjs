// The page in a real browser: Debian's Chromium, driven by playwright-core.
//
//   node test_page.mjs PLAYWRIGHT-DIRECTORY HOLDFAST [SCREENSHOT]
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createRequire } from "node:module";

const [, , place, holdfast, screenshot] = process.argv;
const { chromium } = createRequire(join(resolve(place), "x.js"))("playwright-core");
const directory = mkdtempSync(join(tmpdir(), "page-"));
const running = [];

async function serve(...args) {
  const service = spawn(holdfast, ["--store", `file:${directory}/${running.length}.db`, "-q", "serve", "--listen",
    "127.0.0.1:0", "--look", "200ms", ...args], { stdio: ["ignore", "pipe", "inherit"] });
  running.push(service);
  for await (const chunk of service.stdout) {
    const found = /on (http:\/\/[^/]+\/)/.exec(chunk);
    if (found) return found[1];
  }
  throw new Error("the service did not start");
}

async function post(base, path, body = {}, token) {
  const answer = await fetch(base + path, { method: "POST", body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", ...(token ? { Authorization: "Bearer " + token } : {}) } });
  return answer.json();
}

const tests = {
  async "locks appear, count down and disappear, live"(page, base) {
    await page.goto(base);
    await page.getByText("No lock is held.").waitFor();
    await page.getByText("holdfast run nightly").waitFor(); // and what to do about it
    const grant = await post(base, "v2/locks/nightly-report/acquire", { lease_ms: 30000 });
    const row = page.locator("tr", { hasText: "nightly-report" });
    await row.waitFor();
    assert.match(await row.innerText(), /anonymous/);
    assert.match(await row.innerText(), new RegExp(String(grant.token)));
    const left = async () => parseFloat(await row.locator(".left span").innerText());
    const width = async () => (await row.locator(".track i").boundingBox()).width;
    const [first, wide] = [await left(), await width()];
    await page.waitForTimeout(1500);
    assert.ok((await left()) < first, "the time goes down");
    assert.ok((await width()) < wide, "the bar gets shorter");
    await post(base, "v2/locks/nightly-report/renew", { grant: grant.grant });
    await page.waitForFunction(() => parseFloat(document.querySelector(".left span").textContent) > 28);
    await post(base, "v2/locks/nightly-report/release", { grant: grant.grant });
    await row.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Free", exact: true }).click();
    await row.waitFor();
    assert.match(await row.innerText(), /free/);
  },

  async "what others do to the table is shown too"(page, base) {
    await page.goto(base);
    await page.locator("#state.live").waitFor();
    const other = spawn(holdfast, ["--store", `file:${directory}/0.db`, "-q", "acquire", "-n", "--lease", "60s", "by-hand"],
      { stdio: "inherit" });
    await new Promise((done) => other.on("exit", done));
    await page.locator("tr", { hasText: "by-hand" }).waitFor();
    await post(base, "v2/locks/by-hand/force-release", { reason: "tidy" });
  },

  async "search by name and by owner, from the keyboard"(page, base) {
    const grants = {};
    for (const name of ["alpha", "beta", "gamma"]) grants[name] = await post(base, `v2/locks/${name}/acquire`, { lease_ms: 60000 });
    await page.goto(base);
    await page.locator("tr", { hasText: "gamma" }).waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("bet");
    await page.locator("tr", { hasText: "alpha" }).waitFor({ state: "detached" });
    assert.equal(await page.locator("tbody tr").count(), 1);
    await page.keyboard.type("zzz");
    await page.getByText("No lock matches this search.").waitFor();
    await page.keyboard.press("Escape");
    await page.locator("tr", { hasText: "alpha" }).waitFor();
    for (const [name, grant] of Object.entries(grants)) await post(base, `v2/locks/${name}/release`, { grant: grant.grant });
  },

  async "waiters are counted"(page, base) {
    const grant = await post(base, "v2/locks/busy/acquire", { lease_ms: 60000 });
    await page.goto(base);
    await page.locator("tr", { hasText: "busy" }).waitFor();
    const waiting = new AbortController();
    const call = fetch(base + "v2/locks/busy/acquire", { method: "POST", signal: waiting.signal,
      headers: { "Content-Type": "application/json" }, body: "{\"wait_ms\":60000}" }).catch(() => {});
    await page.waitForFunction(() => document.querySelector("#locks td:last-child").textContent === "1");
    waiting.abort();
    await call;
    await page.waitForFunction(() => document.querySelector("#locks td:last-child").textContent === "");
    await post(base, "v2/locks/busy/release", { grant: grant.grant });
  },

  async "detail, history and force-release behind a confirmation, by keyboard alone"(page, base) {
    await post(base, "v2/locks/stuck/acquire", { lease_ms: 600000, data: "host-7" });
    await page.goto(base);
    await page.locator("tr", { hasText: "stuck" }).waitFor();
    await page.locator("#search").focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    const dialog = page.locator("#detail");
    await dialog.getByText("host-7").waitFor();
    await dialog.getByText("granted to anonymous").waitFor();
    assert.equal(await page.locator("#reason").isVisible(), false, "nothing happens by accident");
    await page.getByRole("button", { name: "Force release…" }).focus();
    await page.keyboard.press("Enter");
    await dialog.getByText("takes the lock away from anonymous").waitFor();
    await page.keyboard.type("its machine burnt");
    await page.keyboard.press("Enter");
    await dialog.getByText("by anonymous: its machine burnt").first().waitFor();
    await dialog.locator("#force").waitFor({ state: "hidden" });
    await page.keyboard.press("Escape");
    await page.locator("tr", { hasText: "stuck" }).waitFor({ state: "detached" });
  },

  async "all holders and waiters, with instance and since"(page, base) {
    const session = (await post(base, "v2/sessions", { lease_ms: 60000, instance: "pod-7" })).session;
    const pool = [];
    for (const instance of ["one", "two"]) pool.push(await post(base, "v2/locks/pool/acquire", { session, limit: 2, instance }));
    const other = await post(base, "v2/locks/also/acquire", { session });
    const waiting = new AbortController();
    const call = fetch(base + "v2/locks/pool/acquire", { method: "POST", signal: waiting.signal,
      headers: { "Content-Type": "application/json" }, body: JSON.stringify({ session, limit: 2, wait_ms: 60000, instance: "three" }) }).catch(() => {});
    await page.goto(base + "?lock=pool");
    await page.locator("#detail").getByText("Holders (2)").waitFor();
    await page.locator("#detail").getByText("Waiters (1)").waitFor();
    await page.locator("#detail").getByText("three").waitFor();
    assert.match(await page.locator("#facts time").first().getAttribute("title"), /\d/, "the moment itself on hover");
    await page.locator("#facts button.link").first().click();
    await page.locator("#facts").getByText("Locks (2)").waitFor();
    await page.getByRole("button", { name: "also" }).last().click();
    await page.locator("#detail-name", { hasText: "also" }).waitFor();
    waiting.abort();
    await call;
    for (const one of pool) await post(base, "v2/locks/pool/release", { grant: one.grant });
    await post(base, "v2/locks/also/release", { grant: other.grant });
  },

  async "renewals in a row are one line, and losses are explained"(page, base) {
    const lock = await post(base, "v2/locks/kept/acquire", { lease_ms: 60000 });
    await page.goto(base + "?lock=kept");
    await page.locator("#state.live").waitFor();
    for (let i = 0; i < 9; i++) await post(base, "v2/locks/kept/renew", { grant: lock.grant });
    await page.locator("#history").getByText("renewed by anonymous 9 times").waitFor();
    assert.equal(await page.locator("#history li").count(), 2);
    await post(base, "v2/locks/kept/force-release", { reason: "tidy" });
    await page.locator("#history li.bad").getByText("tidy").first().waitFor();
  },

  async "data that is JSON is pretty, and can be copied"(page, base) {
    const lock = await post(base, "v2/locks/config/acquire", { lease_ms: 60000, data: "{\"a\":[1,2]}", attributes: { ticket: "OPS-1" } });
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.goto(base + "?lock=config");
    await page.locator("#facts pre").waitFor();
    assert.equal(await page.locator("#facts pre").textContent(), JSON.stringify({ a: [1, 2] }, null, 2));
    await page.locator("#facts").getByText("OPS-1").waitFor();
    await page.getByRole("button", { name: "Copy the data" }).click();
    await page.getByText("Copied").waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "{\"a\":[1,2]}");
    await post(base, "v2/locks/config/release", { grant: lock.grant });
  },

  async "filters, order and groups are in the address"(page, base) {
    const grants = [];
    for (const name of ["b/1", "a/2", "a/1"]) grants.push([name, await post(base, `v2/locks/${encodeURIComponent(name)}/acquire`, { lease_ms: 60000 })]);
    const names = () => page.locator("#locks button.name").allInnerTexts();
    await page.goto(base + "?q=/&sort=name&down=1");
    await page.locator("tr", { hasText: "b/1" }).waitFor();
    assert.deepEqual(await names(), ["b/1", "a/2", "a/1"]);
    assert.equal(await page.locator("th[data-sort=name]").getAttribute("aria-sort"), "descending");
    await page.getByRole("button", { name: "Token" }).click();
    await page.waitForFunction(() => location.search.includes("sort=token"));
    assert.deepEqual(await names(), ["b/1", "a/2", "a/1"], "in the order in which they were granted");
    await page.getByLabel("Group by prefix").check();
    await page.getByRole("button", { name: /a\/ \(2\)/ }).click(); // folds it
    await page.waitForFunction(() => document.querySelectorAll("#locks button.name").length === 1);
    await page.getByRole("button", { name: "Mine", exact: true }).click();
    const address = page.url();
    assert.match(address, /show=mine/);
    assert.match(address, /group=1/);
    const colleague = await page.context().newPage();
    await colleague.goto(address);
    await colleague.locator("tr", { hasText: "b/1" }).waitFor();
    assert.equal(await colleague.getByRole("button", { name: "Mine", exact: true }).getAttribute("aria-pressed"), "true");
    await colleague.close();
    for (const [name, one] of grants) await post(base, `v2/locks/${encodeURIComponent(name)}/release`, { grant: one.grant });
  },

  async "expired locks are not held"(page) {
    const base = await serve();
    await post(base, "v2/locks/brief/acquire", { lease_ms: 300 });
    await page.goto(base);
    await page.getByRole("button", { name: "All", exact: true }).click();
    await page.locator("tr", { hasText: "brief" }).waitFor();
    await page.waitForFunction(() => /expired|free/.test(document.querySelector("#locks tbody").textContent));
    await page.waitForFunction(() => document.querySelector("[data-tile=held] strong").textContent === "0");
  },

  async "thousands of locks, of which only those on the screen are rows"(page) {
    const base = await serve();
    const session = (await post(base, "v2/sessions", { lease_ms: 600000 })).session;
    for (let i = 0; i < 3000; i += 50)
      await Promise.all([...Array(50).keys()].map((k) => post(base, `v2/locks/lock-${String(i + k).padStart(5, "0")}/acquire`, { session })));
    await page.goto(base);
    await page.getByText("3000 of 3000 locks").waitFor();
    assert.ok((await page.locator("#locks tbody tr").count()) < 150, "rows");
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
    await page.locator("tr", { hasText: "lock-02999" }).waitFor();
    assert.ok((await page.locator("#locks tbody tr").count()) < 150, "rows at the end");
  },

  async "numbers at the top, who I am, version and store at the bottom"(page, base) {
    const lock = await post(base, "v2/locks/counted/acquire", { lease_ms: 60000 });
    await page.goto(base);
    await page.waitForFunction(() => Number(document.querySelector("[data-tile=held] strong").textContent) >= 1);
    await page.waitForFunction(() => parseInt(document.querySelector("[data-tile=grants] strong").textContent, 10) >= 1);
    assert.match(await page.locator("[data-tile=grants] polyline").getAttribute("points"), /,/);
    assert.match(await page.locator("[data-tile=store] strong").innerText(), /ms/);
    const footer = await page.locator("footer").innerText();
    assert.match(footer, /Signed in as anonymous/);
    assert.match(footer, /holdfast \d/);
    assert.match(footer, /Store: embedded, format holdfast/);
    await post(base, "v2/locks/counted/release", { grant: lock.grant });
  },

  async "a banner while the store does not answer"(page, base) {
    await page.goto(base);
    await page.locator("#state.live").waitFor();
    await page.route("**/v2/whoami", async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, json: { ...(await answer.json()), store_failing_ms: 90000 } });
    });
    await page.getByText("The store has not answered for 90 s.").waitFor({ timeout: 20000 });
    await page.unroute("**/v2/whoami");
    await page.locator("#banner").waitFor({ state: "hidden", timeout: 20000 });
  },

  async "a long name breaks no column at any width"(page, base) {
    const name = "team/" + "a-very-long-name-".repeat(12);
    const lock = await post(base, `v2/locks/${encodeURIComponent(name)}/acquire`, { lease_ms: 60000 });
    for (const width of [390, 800, 1280, 1920]) {
      await page.setViewportSize({ width, height: 800 });
      await page.goto(base);
      const row = page.locator("tr", { hasText: "a-very-long-name" });
      await row.waitFor();
      const { height } = await row.boundingBox();
      assert.ok(height <= (width < 704 ? 70 : 40), `${height} px high at ${width}`);
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, `too wide at ${width}`);
      assert.equal(await row.locator("button.name").getAttribute("title"), name, "in full on hover");
    }
    await post(base, `v2/locks/${encodeURIComponent(name)}/release`, { grant: lock.grant });
  },

  async "names and data are text, whatever they say"(page, base) {
    const name = "<img src=x onerror=alert(1)>";
    const grant = await post(base, `v2/locks/${encodeURIComponent(name)}/acquire`, { data: "<script>alert(1)</script>" });
    let alerted = false;
    page.on("dialog", () => { alerted = true; });
    await page.goto(base);
    await page.getByRole("button", { name }).click();
    await page.locator("#facts").getByText("<script>").waitFor();
    assert.equal(await page.locator("img").count(), 0);
    assert.equal(alerted, false);
    await post(base, `v2/locks/${encodeURIComponent(name)}/release`, { grant: grant.grant });
  },

  async "it finds its way back when the service was away"(page, base) {
    await page.goto(base);
    await page.locator("#state.live").waitFor();
    await page.route("**/v2/**", (route) => route.abort());
    await page.evaluate(() => {}); // what is under way goes on; the stream is cut by a reload of the network
    await page.context().setOffline(true);
    await page.context().setOffline(false);
    await page.unroute("**/v2/**");
    const grant = await post(base, "v2/locks/after/acquire", { lease_ms: 60000 });
    await page.locator("tr", { hasText: "after" }).waitFor();
    await post(base, "v2/locks/after/release", { grant: grant.grant });
  },

  async "without a token nothing is shown; with one, no more than it may do"(page) {
    writeFileSync(join(directory, "tokens"), "reader-0123456789abcdef reader\nroot-0123456789abcdef root admin\n");
    const base = await serve("--tokens", join(directory, "tokens"));
    await post(base, "v2/locks/guarded/acquire", { lease_ms: 60000 }, "root-0123456789abcdef");
    await page.goto(base);
    await page.locator("#entry").waitFor();
    assert.equal(await page.locator("tbody tr").count(), 0);
    await page.locator("#token").fill("wrong");
    await page.keyboard.press("Enter");
    await page.getByText("Invalid token.").waitFor();
    await page.locator("#token").fill("reader-0123456789abcdef");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "guarded" }).click();
    await page.locator("#facts").getByText("root").first().waitFor();
    assert.equal(await page.locator("#force").isVisible(), false);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.locator("#entry").waitFor();
    assert.equal(await page.locator("tbody tr").count(), 0);
  },

  async "it fits a phone, in the dark"(page, base) {
    await page.emulateMedia({ colorScheme: "dark" });
    await page.setViewportSize({ width: 360, height: 640 });
    const grant = await post(base, "v2/locks/a-rather-long-name-of-a-lock/acquire", { lease_ms: 60000 });
    await page.goto(base);
    await page.locator("tr", { hasText: "a-rather-long" }).waitFor();
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `${overflow} px too wide`);
    const paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.match(paper, /rgb\((\d|[1-5]\d), /);
    await post(base, "v2/locks/a-rather-long-name-of-a-lock/release", { grant: grant.grant });
  },
};

/* For the documentation: list, detail, in the dark, on a phone. */
async function pictures(browser) {
  const owners = ["deploy-bot", "reports", "api", "indexer", "operator"];
  const token = (owner) => owner.padEnd(16, "x");
  writeFileSync(join(directory, "owners"), owners.map((owner) => `${token(owner)} ${owner}${owner === "operator" ? " admin" : ""}\n`).join(""));
  const base = await serve("--tokens", join(directory, "owners"));
  const call = (owner, path, body) => post(base, path, body, token(owner));
  const session = (await call("indexer", "v2/sessions", { lease_ms: 300000, instance: "indexer-0" })).session;
  const report = await call("reports", "v2/locks/nightly-report/acquire",
    { lease_ms: 60000, instance: "host-3", data: "{\"stage\":\"export\",\"rows\":48213}" });
  await call("deploy-bot", "v2/locks/deploy%2Fproduction/acquire", { lease_ms: 90000, instance: "runner-12", data: "release 4.2" });
  await call("deploy-bot", "v2/locks/deploy%2Fstaging/acquire", { lease_ms: 90000, instance: "runner-9" });
  for (let i = 0; i < 9; i++)
    await call("api", `v2/locks/customer%2F${1042 + 7 * i}/acquire`, { lease_ms: 25000 + 4000 * i, instance: `pod-${i % 4}` });
  await call("indexer", "v2/locks/index-rebuild/acquire", { session });
  await call("indexer", "v2/locks/licence-pool/acquire", { session, limit: 3 });
  for (const instance of ["host-1", "host-2"])
    call("reports", "v2/locks/nightly-report/acquire", { wait_ms: 60000, instance }).catch(() => {});
  const shoot = async (name, viewport, options, address) => {
    const context = await browser.newContext({ viewport, ...options });
    const page = await context.newPage();
    await page.addInitScript((value) => sessionStorage.setItem("token", value), token("operator"));
    await page.goto(base + address);
    await page.locator("#state.live").waitFor();
    for (let i = 0; i < 4; i++) await call("reports", "v2/locks/nightly-report/renew", { grant: report.grant });
    await page.waitForTimeout(6000);
    await page.screenshot({ path: screenshot.replace(".png", `${name}.png`) });
    await context.close();
  };
  await shoot("", { width: 1280, height: 760 }, {}, "");
  await shoot("-detail", { width: 1280, height: 900 }, {}, "?lock=nightly-report");
  await shoot("-dark", { width: 1280, height: 760 }, { colorScheme: "dark" }, "?group=1");
  await shoot("-phone", { width: 390, height: 844 }, {}, "");
}

let failed = 0;
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
try {
  const base = await serve();
  for (const [name, test] of Object.entries(tests)) {
    const context = await browser.newContext();
    const page = await context.newPage();
    const complaints = [];
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("console", (message) => { if (/Content Security Policy/.test(message.text())) complaints.push(message.text()); });
    page.setDefaultTimeout(20000);
    try {
      await test(page, base);
      assert.deepEqual(complaints, []);
      console.log(`ok      ${name}`);
    } catch (error) {
      failed++;
      console.log(`FAILED  ${name}\n${error.stack}`);
    }
    await context.close();
  }
  if (screenshot) await pictures(browser);
} finally {
  await browser.close();
  for (const service of running) service.kill();
  rmSync(directory, { recursive: true, force: true });
}
console.log(`page: ${Object.keys(tests).length - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
