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
    await page.getByLabel("Show free locks").check();
    await row.waitFor();
    await page.getByLabel("Show free locks").uncheck();
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
    await page.getByText("No matches.").waitFor();
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
    await page.waitForFunction(() => document.querySelector("td.number").textContent === "1");
    waiting.abort();
    await call;
    await page.waitForFunction(() => document.querySelector("td.number").textContent === "");
    await post(base, "v2/locks/busy/release", { grant: grant.grant });
  },

  async "detail, history and force-release, by keyboard alone"(page, base) {
    await post(base, "v2/locks/stuck/acquire", { lease_ms: 600000, data: "host-7" });
    await page.goto(base);
    await page.locator("tr", { hasText: "stuck" }).waitFor();
    await page.getByRole("button", { name: "stuck" }).focus();
    await page.keyboard.press("Enter");
    const dialog = page.locator("#detail");
    await dialog.getByText("host-7").waitFor();
    await dialog.getByText("granted to anonymous").waitFor();
    await page.locator("#reason").focus();
    await page.keyboard.type("its machine burnt");
    await page.keyboard.press("Enter");
    await dialog.getByText("by anonymous: its machine burnt").first().waitFor();
    await dialog.locator("#force").waitFor({ state: "hidden" });
    await page.keyboard.press("Escape");
    await page.locator("tr", { hasText: "stuck" }).waitFor({ state: "detached" });
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
    await page.locator("#facts").getByText("root").waitFor();
    assert.equal(await page.locator("#force").isVisible(), false);
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
    if (screenshot) await page.screenshot({ path: screenshot.replace(".png", "-phone.png") });
    await post(base, "v2/locks/a-rather-long-name-of-a-lock/release", { grant: grant.grant });
  },
};

/* For the documentation. */
async function picture(browser) {
  const page = await (await browser.newContext({ viewport: { width: 1100, height: 360 } })).newPage();
  const owners = ["deploy-bot", "reports@host-3", "api-7", "api-9", "indexer"];
  const token = (owner) => owner.padEnd(16, "x");
  writeFileSync(join(directory, "owners"), owners.map((owner) => `${token(owner)} ${owner}\n`).join(""));
  const base = await serve("--tokens", join(directory, "owners"));
  const call = (owner, path, body) => post(base, path, body, token(owner));
  const session = (await call("indexer", "v2/sessions", { lease_ms: 300000 })).session;
  await call("deploy-bot", "v2/locks/deploy%2Fproduction/acquire", { lease_ms: 90000, data: "release 4.2" });
  await call("reports@host-3", "v2/locks/nightly-report/acquire", { lease_ms: 30000 });
  await call("api-7", "v2/locks/customer%2F1042/acquire", { lease_ms: 12000 });
  await call("indexer", "v2/locks/index-rebuild/acquire", { session });
  await call("indexer", "v2/locks/licence-pool/acquire", { session, limit: 3 });
  for (const owner of ["api-7", "api-9"]) call(owner, "v2/locks/nightly-report/acquire", { wait_ms: 20000 }).catch(() => {});
  await page.addInitScript((value) => sessionStorage.setItem("token", value), token("api-9"));
  await page.goto(base);
  await page.locator("tr", { hasText: "licence-pool" }).waitFor();
  await page.waitForTimeout(4000);
  await page.screenshot({ path: screenshot });
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
  if (screenshot) await picture(browser);
} finally {
  await browser.close();
  for (const service of running) service.kill();
  rmSync(directory, { recursive: true, force: true });
}
console.log(`page: ${Object.keys(tests).length - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
