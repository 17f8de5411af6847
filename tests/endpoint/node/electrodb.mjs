// ElectroDB: two entities in one table, with collections over an index.
import assert from 'node:assert/strict';
import {
    CreateTableCommand, DeleteTableCommand, DynamoDBClient, waitUntilTableExists, waitUntilTableNotExists,
} from '@aws-sdk/client-dynamodb';
import {Entity, Service} from 'electrodb';
import {numbers, same, test} from './cases.mjs';

const table = 'electrodb-tasks';
const client = new DynamoDBClient({});
const waiting = {client, minDelay: 1, maxDelay: 2, maxWaitTime: 30};
const keys = (hash, range) => [{AttributeName: hash, KeyType: 'HASH'}, {AttributeName: range, KeyType: 'RANGE'}];

const Task = new Entity({
    model: {entity: 'task', version: '1', service: 'work'},
    attributes: {
        team: {type: 'string', required: true}, id: {type: 'number', required: true, padding: {length: 3, char: '0'}},
        owner: {type: 'string', required: true}, points: {type: 'number', default: 1},
        state: {type: ['open', 'done'], default: 'open'},
        labels: {type: 'set', items: 'string'}, log: {type: 'list', items: {type: 'string'}},
    },
    indexes: {
        tasks: {pk: {field: 'pk', composite: ['team']}, sk: {field: 'sk', composite: ['id']}},
        byOwner: {collection: 'assigned', index: 'gsi1', pk: {field: 'gsi1pk', composite: ['owner']},
            sk: {field: 'gsi1sk', composite: ['state', 'id']}},
        byState: {index: 'lsi1', pk: {field: 'pk', composite: ['team']},
            sk: {field: 'lsi1sk', composite: ['state', 'id']}},
    },
}, {client, table});
const Person = new Entity({
    model: {entity: 'person', version: '1', service: 'work'},
    attributes: {team: {type: 'string', required: true}, owner: {type: 'string', required: true},
        email: {type: 'string'}},
    indexes: {
        people: {pk: {field: 'pk', composite: ['team']}, sk: {field: 'sk', composite: ['owner']}},
        assigned: {collection: 'assigned', index: 'gsi1', pk: {field: 'gsi1pk', composite: ['owner']},
            sk: {field: 'gsi1sk', composite: []}},
    },
}, {client, table});
const work = new Service({task: Task, person: Person}, {client, table});

// What DynamoDB answered, within ElectroDB's own error.
async function refused(name, promise) {
    const error = await promise.then(() => null, (reason) => reason);
    assert(error, `no ${name}: the call succeeded`);
    same(error.cause?.name, name, error.message);
    return error;
}

await test('create table with indexes', async () => {
    await client.send(new CreateTableCommand({
        TableName: table, BillingMode: 'PAY_PER_REQUEST', KeySchema: keys('pk', 'sk'),
        AttributeDefinitions: ['pk', 'sk', 'gsi1pk', 'gsi1sk', 'lsi1sk']
            .map((AttributeName) => ({AttributeName, AttributeType: 'S'})),
        GlobalSecondaryIndexes: [{IndexName: 'gsi1', KeySchema: keys('gsi1pk', 'gsi1sk'),
            Projection: {ProjectionType: 'ALL'}}],
        LocalSecondaryIndexes: [{IndexName: 'lsi1', KeySchema: keys('pk', 'lsi1sk'),
            Projection: {ProjectionType: 'ALL'}}],
    }));
    same((await waitUntilTableExists(waiting, {TableName: table})).state, 'SUCCESS');
});

await test('create, get, patch, remove with conditions', async () => {
    const task = {team: 'a', id: 1, owner: 'ann', labels: ['x', 'y']};
    await Task.create(task).go();
    await refused('ConditionalCheckFailedException', Task.create(task).go());
    same((await Task.get({team: 'a', id: 1}).go({consistent: true})).data, {...task, points: 1, state: 'open'});
    const {data} = await Task.patch({team: 'a', id: 1}).set({state: 'done', log: ['closed']})
        .add({points: 4, labels: ['z']})
        .composite({owner: 'ann'}).where(({points}, {eq}) => eq(points, 1)).go({response: 'all_new'});
    same([data.state, data.points, data.labels.sort(), data.log], ['done', 5, ['x', 'y', 'z'], ['closed']]);
    await refused('ConditionalCheckFailedException', Task.remove({team: 'a', id: 1})
        .where(({points}, {gt}) => gt(points, 5)).go());
    await refused('ConditionalCheckFailedException', Task.patch({team: 'a', id: 2}).set({points: 2}).go());
    await Task.remove({team: 'a', id: 1}).go();
    same((await Task.get({team: 'a', id: 1}).go()).data, null);
});

await test('batch write and get', async () => {
    const {unprocessed} = await Task.put(numbers(0, 40).map((id) => (
        {team: `t${id % 2}`, id, owner: id % 4 ? 'bob' : 'ann', state: id % 8 ? 'open' : 'done'}))).go();
    same(unprocessed, []);
    const {data} = await Task.get(numbers(0, 50).map((id) => ({team: `t${id % 2}`, id}))).go({concurrency: 2});
    same(data.length, 40);
});

await test('query indexes page by page', async () => {
    const found = [];
    for (let cursor = null; ;) {
        const page = await Task.query.byOwner({owner: 'ann', state: 'open'}).go({limit: 2, cursor, order: 'desc'});
        found.push(...page.data.map((task) => task.id));
        if (!(cursor = page.cursor))
            break;
    }
    same(found, numbers(4, 40, 8).reverse());
    same((await Task.query.byState({team: 't0', state: 'done'}).go({pages: 'all', limit: 2}))
        .data.map((task) => task.id), numbers(0, 40, 8));
    same((await Task.query.tasks({team: 't1'}).between({id: 10}, {id: 20})
        .where(({owner}, {eq}) => eq(owner, 'bob')).go())
        .data.map((task) => task.id), numbers(11, 20, 2));
});

await test('collection of two entities', async () => {
    await Person.create({team: 't0', owner: 'ann', email: 'ann@example.com'}).go();
    const {data} = await work.collections.assigned({owner: 'ann'}).go({pages: 'all'});
    same([data.task.length, data.person.map((person) => person.email)], [10, ['ann@example.com']]);
    same((await Task.scan.where(({state}, {eq}) => eq(state, 'done')).go({pages: 'all'})).data.length, 5);
});

await test('transactions', async () => {
    const change = ({task, person}) => [
        task.create({team: 'tx', id: 1, owner: 'cid'}).commit({response: 'all_old'}),
        person.upsert({team: 'tx', owner: 'cid', email: 'cid@example.com'}).commit(),
        task.check({team: 't0', id: 0}).where(({state}, {eq}) => eq(state, 'done')).commit(),
    ];
    for (const _ of numbers(0, 2)) // the second is the same request, and changes nothing
        same((await work.transaction.write(change).go({token: 'electrodb-once'})).canceled, false);
    const again = await work.transaction.write(change).go();
    same([again.canceled, again.data.map((one) => one.code)], [true, ['ConditionalCheckFailed', 'None', 'None']]);
    same(again.data[0].item.owner, 'cid');
    const got = await work.transaction.get(({task, person}) => [
        task.get({team: 'tx', id: 1}).commit(), person.get({team: 'tx', owner: 'cid'}).commit(),
        task.get({team: 'tx', id: 2}).commit()]).go();
    same(got.data.map((one) => one.item?.email ?? one.item?.owner ?? null), ['cid', 'cid@example.com', null]);
});

await test('delete table', async () => {
    await client.send(new DeleteTableCommand({TableName: table}));
    same((await waitUntilTableNotExists(waiting, {TableName: table})).state, 'SUCCESS');
});
