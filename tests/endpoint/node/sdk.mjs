// The AWS SDK for JavaScript v3: its client, document client, paginators and waiters.
import assert from 'node:assert/strict';
import {
    CreateTableCommand, DeleteTableCommand, DescribeTableCommand, DescribeTimeToLiveCommand, DynamoDBClient,
    UpdateTableCommand,
    UpdateTimeToLiveCommand, waitUntilTableExists, waitUntilTableNotExists,
} from '@aws-sdk/client-dynamodb';
import {
    BatchGetCommand, BatchWriteCommand, DeleteCommand, DynamoDBDocumentClient, GetCommand, PutCommand, QueryCommand,
    TransactGetCommand,
    TransactWriteCommand, UpdateCommand, paginateQuery, paginateScan,
} from '@aws-sdk/lib-dynamodb';
import {all, numbers, refused, same, test, waitFor} from './cases.mjs';

const TableName = 'javascript-orders';
const client = new DynamoDBClient({});
const documents = DynamoDBDocumentClient.from(client);
const key = (customer, id) => ({customer, id});
const keys = (hash, range) => [{AttributeName: hash, KeyType: 'HASH'},
    ...range ? [{AttributeName: range, KeyType: 'RANGE'}] : []];
const waiting = {client, minDelay: 1, maxDelay: 2, maxWaitTime: 30};

const indexes = async () => {
    const {Table} = await client.send(new DescribeTableCommand({TableName}));
    return Object.fromEntries((Table.GlobalSecondaryIndexes ?? [])
        .map((index) => [index.IndexName, index.IndexStatus]));
};

await test('create table with indexes', async () => {
    await client.send(new CreateTableCommand({
        TableName, BillingMode: 'PAY_PER_REQUEST', KeySchema: keys('customer', 'id'),
        AttributeDefinitions: Object.entries({customer: 'S', id: 'N', state: 'S', amount: 'N', code: 'B'})
            .map(([AttributeName, AttributeType]) => ({AttributeName, AttributeType})),
        GlobalSecondaryIndexes: [{IndexName: 'by-state', KeySchema: keys('state', 'amount'),
            Projection: {ProjectionType: 'ALL'}}],
        LocalSecondaryIndexes: [{IndexName: 'by-code', KeySchema: keys('customer', 'code'),
            Projection: {ProjectionType: 'KEYS_ONLY'}}],
    }));
    same((await waitUntilTableExists(waiting, {TableName})).state, 'SUCCESS');
    same(await indexes(), {'by-state': 'ACTIVE'});
});

await test('put, get, update, delete with conditions', async () => {
    const item = {...key('ann', 1), state: 'open', list: [1, 'two', {three: true}], empty: null,
        words: new Set(['a', 'b'])};
    const put = {TableName, Item: item, ConditionExpression: 'attribute_not_exists(id)'};
    await documents.send(new PutCommand(put));
    const error = await refused('ConditionalCheckFailedException',
        documents.send(new PutCommand({...put, ReturnValuesOnConditionCheckFailure: 'ALL_OLD'})));
    same(error.Item.state, {S: 'open'});
    same((await documents.send(new GetCommand({TableName, Key: key('ann', 1), ConsistentRead: true}))).Item, item);
    const updated = await documents.send(new UpdateCommand({
        TableName, Key: key('ann', 1), ReturnValues: 'UPDATED_NEW',
        ConditionExpression: 'size(words) = :two AND #l[0] IN (:one, :two)',
        UpdateExpression: 'SET #l = list_append(#l, :more), amount = :two - :one DELETE words :a REMOVE #e',
        ExpressionAttributeNames: {'#l': 'list', '#e': 'empty'},
        ExpressionAttributeValues: {':one': 1, ':two': 2, ':more': [4], ':a': new Set(['a'])},
    }));
    same(updated.Attributes, {list: [1, 'two', {three: true}, 4], amount: 1, words: new Set(['b'])});
    await refused('ConditionalCheckFailedException', documents.send(new DeleteCommand({
        TableName, Key: key('ann', 1), ConditionExpression: 'amount > :one', ExpressionAttributeValues: {':one': 1}})));
    const deleted = await documents.send(new DeleteCommand({
        TableName, Key: key('ann', 1), ReturnValues: 'ALL_OLD', ReturnConsumedCapacity: 'INDEXES'}));
    same(deleted.Attributes.amount, 1);
    assert(deleted.ConsumedCapacity.CapacityUnits > 0);
});

await test('batch write and get', async () => {
    for (const first of [0, 25]) {
        const writes = numbers(first, first + 25).map((n) => ({PutRequest: {Item: {
            ...key(`c${n % 2}`, n), state: n % 5 ? 'open' : 'paid', amount: n, code: Uint8Array.of(255 - n)}}}));
        const answer = await documents.send(new BatchWriteCommand({RequestItems: {[TableName]: writes}}));
        same(answer.UnprocessedItems, {});
    }
    const answer = await documents.send(new BatchGetCommand({RequestItems: {[TableName]: {
        Keys: numbers(0, 60).map((n) => key(`c${n % 2}`, n)), ProjectionExpression: 'amount'}}}));
    same(answer.Responses[TableName].map((item) => item.amount).sort((a, b) => a - b), numbers(0, 50));
});

await test('query indexes page by page', async () => {
    const pick = (page) => page.Items.map((item) => item.id);
    same(await all(paginateQuery({client: documents, pageSize: 3}, {
        TableName, IndexName: 'by-state', KeyConditionExpression: '#s = :s AND amount >= :a',
        ExpressionAttributeNames: {'#s': 'state'}, ExpressionAttributeValues: {':s': 'paid', ':a': 10}}), pick),
        numbers(10, 50, 5));
    same(await all(paginateQuery({client: documents, pageSize: 4}, {
        TableName, IndexName: 'by-code', KeyConditionExpression: 'customer = :c AND code > :code',
        ExpressionAttributeValues: {':c': 'c1', ':code': Uint8Array.of(235)}}), pick), numbers(1, 20, 2).reverse());
    const counted = await documents.send(new QueryCommand({
        TableName, IndexName: 'by-state', Select: 'COUNT', KeyConditionExpression: '#s = :s',
        FilterExpression: 'id BETWEEN :low AND :high',
        ExpressionAttributeNames: {'#s': 'state'}, ExpressionAttributeValues: {':s': 'open', ':low': 0, ':high': 9}}));
    same([counted.Count, counted.ScannedCount, counted.Items], [8, 40, undefined]);
});

await test('scan in parallel segments', async () => {
    const found = await Promise.all(numbers(0, 4).map((Segment) => all(
        paginateScan({client: documents, pageSize: 6}, {TableName, Segment, TotalSegments: 4}),
        (page) => page.Items.map((item) => item.id))));
    same(found.flat().sort((a, b) => a - b), numbers(0, 50));
});

await test('transactions', async () => {
    const put = {Put: {TableName, Item: key('tx', 1), ConditionExpression: 'attribute_not_exists(id)',
        ReturnValuesOnConditionCheckFailure: 'ALL_OLD'}};
    const add = {Update: {TableName, Key: key('tx', 2), UpdateExpression: 'ADD amount :n',
        ExpressionAttributeValues: {':n': 1}}};
    for (const _ of numbers(0, 2)) // the second is the same request, and changes nothing
        await documents.send(new TransactWriteCommand({TransactItems: [put, add],
            ClientRequestToken: 'javascript-once'}));
    await refused('IdempotentParameterMismatchException',
        documents.send(new TransactWriteCommand({TransactItems: [add], ClientRequestToken: 'javascript-once'})));
    const error = await refused('TransactionCanceledException',
        documents.send(new TransactWriteCommand({TransactItems: [
        {Delete: {TableName, Key: key('tx', 2)}}, put,
        {ConditionCheck: {TableName, Key: key('c0', 0), ConditionExpression: 'attribute_exists(id)'}}]})));
    same(error.CancellationReasons.map((reason) => reason.Code), ['None', 'ConditionalCheckFailed', 'None']);
    same(error.CancellationReasons[1].Item, {customer: {S: 'tx'}, id: {N: '1'}});
    const got = await documents.send(new TransactGetCommand({TransactItems: numbers(1, 4)
        .map((n) => ({Get: {TableName, Key: key('tx', n)}}))}));
    same(got.Responses.map((one) => one.Item), [key('tx', 1), {...key('tx', 2), amount: 1}, undefined]);
});

await test('time to live', async () => {
    await client.send(new UpdateTimeToLiveCommand({TableName,
        TimeToLiveSpecification: {Enabled: true, AttributeName: 'expires'}}));
    same((await client.send(new DescribeTimeToLiveCommand({TableName}))).TimeToLiveDescription.AttributeName,
        'expires');
});

await test('update table adds and deletes an index', async () => {
    await client.send(new UpdateTableCommand({
        TableName, AttributeDefinitions: [{AttributeName: 'code', AttributeType: 'B'}],
        GlobalSecondaryIndexUpdates: [{Create: {
            IndexName: 'all-codes', KeySchema: keys('code'),
            Projection: {ProjectionType: 'INCLUDE', NonKeyAttributes: ['state']}}}],
    }));
    await waitFor('the backfill', async () => (await indexes())['all-codes'] === 'ACTIVE');
    const found = await documents.send(new QueryCommand({
        TableName, IndexName: 'all-codes', KeyConditionExpression: 'code = :c',
        ExpressionAttributeValues: {':c': Uint8Array.of(250)}}));
    same(found.Items, [{...key('c1', 5), code: Uint8Array.of(250), state: 'paid'}]);
    await client.send(new UpdateTableCommand({TableName,
        GlobalSecondaryIndexUpdates: [{Delete: {IndexName: 'all-codes'}}]}));
    await waitFor('deleting the index', async () => !('all-codes' in await indexes()));
});

await test('delete table', async () => {
    await client.send(new DeleteTableCommand({TableName}));
    same((await waitUntilTableNotExists(waiting, {TableName})).state, 'SUCCESS');
    await refused('ResourceNotFoundException', client.send(new DescribeTableCommand({TableName})));
});
