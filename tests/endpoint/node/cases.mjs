// Cases of a driver: each prints "ok NAME", or "FAILED NAME: reason" and the trace on standard error.
import assert from 'node:assert/strict';

export const url = process.env.AWS_ENDPOINT_URL;
export const same = assert.deepEqual;

export async function test(name, run) {
    try {
        await run();
        console.log(`ok ${name}`);
    } catch (error) {
        console.error(error);
        console.log(`FAILED ${name}: ${error.name}: ${String(error.message).replace(/\s+/g, ' ')}`);
        process.exitCode = 1;
    }
}

// The error of this name with which the promise is rejected.
export async function refused(name, promise) {
    const error = await promise.then(() => null, (reason) => reason);
    assert(error, `no ${name}: the call succeeded`);
    assert.equal(error.name, name, error.message);
    return error;
}

export async function all(pages, pick) {
    const found = [];
    for await (const page of pages)
        found.push(...pick(page));
    return found;
}

export const numbers = (from, to, step = 1) =>
    Array.from({length: Math.max(0, Math.ceil((to - from) / step))}, (_, n) => from + n * step);

export async function waitFor(what, condition) {
    const end = Date.now() + 30000;
    while (!await condition()) {
        assert(Date.now() < end, `${what} took more than 30 s`);
        await new Promise((resolve) => setTimeout(resolve, 100));
    }
}
