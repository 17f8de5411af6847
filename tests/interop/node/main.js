// dynamodb-lock-client behind the line protocol of the interoperability test (see ../run):
//
//     node main.js fail-open|fail-closed ENDPOINT TABLE OWNER LEASE_MS [trust] [key=N|B] [sort=NAME:VALUE]
"use strict";
process.env.AWS_SDK_JS_SUPPRESS_MAINTENANCE_MODE_MESSAGE = "1";
const fs = require("fs");
const readline = require("readline");
const AWS = require("aws-sdk");
const locks = require("dynamodb-lock-client");

const [format, endpoint, lockTable, owner, lease, ...options] = process.argv.slice(2);
const leaseDurationMs = Number(lease);
const sort = (options.find(o => o.startsWith("sort=")) || "").slice(5).split(":");
const dynamodb = new AWS.DynamoDB.DocumentClient({
    endpoint, region: "us-east-1", accessKeyId: "test", secretAccessKey: "test"
});
const held = new Map();

function clientFor(ms) {
    const common = {dynamodb, lockTable, partitionKey: "key", owner};
    if (sort.length === 2) common.sortKey = sort[0];
    if (format === "fail-closed") {
        return new locks.FailClosed({...common, acquirePeriodMs: 100, retryCount: Math.ceil(ms / 100)});
    }
    return new locks.FailOpen({
        ...common, leaseDurationMs, heartbeatPeriodMs: Math.floor(leaseDurationMs / 4),
        trustLocalTime: options.includes("trust"), retryCount: Math.ceil(ms / leaseDurationMs)
    });
}

function acquire(name, ms) {
    const key = options.includes("key=N") ? Number(name)
        : options.includes("key=B") ? Buffer.from(name) : name;
    const id = sort.length === 2 ? {key, [sort[0]]: sort[1]} : typeof key === "object" ? {key} : key;
    return new Promise(resolve => clientFor(ms).acquireLock(id, (error, lock) => {
        if (error) {
            resolve(/ConditionalCheckFailed|Failed to acquire lock/i.test(`${error.code} ${error}`)
                ? "held" : `error ${error}`);
            return;
        }
        lock.on("error", () => {});
        held.set(name, lock);
        resolve(`ok ${lock.fencingToken || 0}`);
    }));
}

function release(name) {
    const lock = held.get(name);
    held.delete(name);
    if (!lock) return Promise.resolve("lost");
    return new Promise(resolve => lock.release(error => resolve(error ? `error ${error}` : "ok")));
}

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

async function count(name, path, ms) {
    let done = 0;
    for (const end = Date.now() + ms; Date.now() < end;) {
        const got = await acquire(name, 5000);
        if (got === "held") continue;
        if (!got.startsWith("ok")) return got;
        const value = Number(fs.readFileSync(path, "utf8"));
        await sleep(3);
        fs.writeFileSync(path, `${value + 1}\n`);
        done++;
        await release(name);
        await sleep(3);
    }
    return `ok ${done}`;
}

async function obey(line) {
    const [command, name, first, second] = line.split(" ");
    switch (command) {
    case "acquire": return acquire(name, Number(first));
    case "release": return release(name);
    case "count": return count(name, first, Number(second));
    default: return `error unknown command ${command}`;
    }
}

(async () => {
    console.log("ready");
    for await (const line of readline.createInterface({input: process.stdin})) {
        if (line === "quit") break;
        console.log(await obey(line));
    }
    process.exit(0);
})();
