// dynamo-lock from npm, on the AWS SDK for JavaScript v2: reads with AttributesToGet. Its locks end by expiring.
import assert from 'node:assert/strict';
import {createRequire} from 'node:module';
import {promisify} from 'node:util';
import {same, test, url} from './cases.mjs';

const require = createRequire(import.meta.url);
require('aws-sdk/lib/maintenance_mode_message').suppress = true;
const locks = require('dynamo-lock');
console.info = () => {};

function contender() {
    const client = locks.createClient('npm-dynamo-lock', {awsConfig: {endpoint: url, region: 'us-east-1'}});
    const calls = ['createLockTable', 'getLock', 'deleteLockTable'];
    return Object.fromEntries(calls.map((name) => [name, promisify(client[name].bind(client))]));
}

const [first, second] = [contender(), contender()];

await test('create its table', async () => {
    same(await first.createLockTable(), 'SUCCESS');
    await assert.rejects(second.createLockTable(),
        (reason) => reason === 'TABLE_EXISTS' || reason.cause === 'TABLE_EXISTS');
});

await test('one holder at a time', async () => {
    same(await first.getLock('nightly', 60000), 'SUCCESS');
    const reason = await second.getLock('nightly', 60000).then(() => 'acquired', String);
    assert.match(reason, /Lock expires on/);
});

await test('acquired by the second when expired', async () => {
    same(await first.getLock('hourly', -1), 'SUCCESS');
    same(await second.getLock('hourly', 60000), 'SUCCESS');
    assert.match(await first.getLock('hourly', 60000).then(() => 'acquired', String), /Lock expires on/);
});

await test('delete its table', async () => same(await first.deleteLockTable(), 'SUCCESS'));
