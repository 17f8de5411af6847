// dynamoose: models with indexes, conditions, batches and transactions.
import dynamoose from 'dynamoose';
import {numbers, refused, same, test, url} from './cases.mjs';

dynamoose.aws.ddb.local(url);
const fields = {
    shop: {type: String, hashKey: true},
    number: {type: Number, rangeKey: true},
    title: {type: String, index: {type: 'local', name: 'by-title'}},
    state: {type: String, index: {type: 'global', name: 'by-state', rangeKey: 'price'}},
    price: Number,
    tags: {type: Set, schema: [String]},
};
const Article = dynamoose.model('dynamoose-articles', new dynamoose.Schema(fields));
const options = {
    initialize: false, throughput: 'ON_DEMAND', waitForActive: {enabled: true, check: {timeout: 30000, frequency: 100}},
    expires: {ttl: 86400000, attribute: 'expires'},
};
const table = new dynamoose.Table('dynamoose-articles', [Article], options);
const plain = (article) => JSON.parse(JSON.stringify(article));

await test('create table with indexes and time to live', async () => {
    await table.initialize();
    const {Table} = await dynamoose.aws.ddb().describeTable({TableName: table.name});
    same([Table.TableStatus, Table.GlobalSecondaryIndexes[0].IndexName, Table.LocalSecondaryIndexes[0].IndexName],
        ['ACTIVE', 'by-state', 'by-title']);
    const {TimeToLiveDescription} = await dynamoose.aws.ddb().describeTimeToLive({TableName: table.name});
    same(TimeToLiveDescription.AttributeName, 'expires');
});

await test('create, get, update, delete with conditions', async () => {
    const first = {shop: 'a', number: 1, title: 'chair', state: 'new', price: 5, tags: new Set(['oak'])};
    await Article.create(first);
    await refused('ConditionalCheckFailedException', Article.create(first));
    const got = await Article.get({shop: 'a', number: 1}, {consistent: true});
    same([got.title, got.tags, typeof got.expires], ['chair', new Set(['oak']), 'object']);
    const updated = await Article.update({shop: 'a', number: 1}, {$SET: {state: 'old'}, $ADD: {price: 2}},
        {condition: new dynamoose.Condition().where('state').eq('new')});
    same([updated.state, updated.price], ['old', 7]);
    await refused('ConditionalCheckFailedException', Article.update({shop: 'a', number: 1}, {$REMOVE: ['title']},
        {condition: new dynamoose.Condition().where('price').lt(7).or().attribute('title').not().exists()}));
    await Article.delete({shop: 'a', number: 1}, {condition: new dynamoose.Condition('price').between(7, 8)});
    same(await Article.get({shop: 'a', number: 1}), undefined);
});

await test('batch write and get', async () => {
    for (const first of [0, 20]) {
        const answer = await Article.batchPut(numbers(first, first + 20).map((n) => (
            {shop: `s${n % 2}`, number: n, title: `t${99 - n}`, state: n % 4 ? 'old' : 'new', price: n})));
        same(answer.unprocessedItems, []);
    }
    const found = await Article.batchGet(numbers(0, 50).map((number) => ({shop: `s${number % 2}`, number})));
    same(found.length, 40);
    same((await Article.batchDelete([{shop: 's0', number: 38}, {shop: 's1', number: 39}])).unprocessedItems, []);
});

await test('query indexes page by page', async () => {
    const query = Article.query('state').eq('new').where('price').ge(8).using('by-state').sort('descending').limit(3);
    const found = [];
    for (let page = await query.exec(); ; page = await query.startAt(page.lastKey).exec()) {
        found.push(...page.map((article) => article.number));
        if (!page.lastKey)
            break;
    }
    same(found, numbers(8, 40, 4).reverse());
    const titles = await Article.query('shop').eq('s1').where('title').beginsWith('t7').using('by-title').all().exec();
    same(titles.map((article) => article.number), numbers(21, 30, 2).reverse());
    same((await Article.query('shop').eq('s0').filter('price').lt(10).count().exec()).count, 5);
});

await test('scan in parallel segments', async () => {
    const found = await Article.scan().parallel(3).all().exec();
    same(found.map((article) => article.number).sort((a, b) => a - b), numbers(0, 38));
});

await test('transactions', async () => {
    await dynamoose.transaction([
        Article.transaction.create({shop: 'tx', number: 1, price: 1}),
        Article.transaction.update({shop: 's0', number: 0}, {$ADD: {price: 100}}),
        Article.transaction.condition({shop: 's1', number: 1}, new dynamoose.Condition('state').eq('old')),
    ]);
    const error = await refused('TransactionCanceledException', dynamoose.transaction([
        Article.transaction.delete({shop: 's0', number: 0}), Article.transaction.create({shop: 'tx', number: 1})]));
    same(error.CancellationReasons.map((reason) => reason.Code), ['None', 'ConditionalCheckFailed']);
    const got = await dynamoose.transaction([Article.transaction.get({shop: 'tx', number: 1}),
        Article.transaction.get({shop: 's0', number: 0})]);
    same(got.map((article) => plain(article).price), [1, 100]);
});

await test('update table adds and deletes an index', async () => {
    const more = {...fields, price: {type: Number, index: {type: 'global', name: 'by-price', project: ['state']}}};
    const Priced = dynamoose.model('dynamoose-articles', new dynamoose.Schema(more));
    await new dynamoose.Table('dynamoose-articles', [Priced], {...options, create: false, update: ['indexes']})
        .initialize();
    same((await Priced.query('price').eq(7).using('by-price').exec()).map(plain),
        [{shop: 's1', number: 7, price: 7, state: 'old'}]);
    await new dynamoose.Table('dynamoose-articles',
        [dynamoose.model('dynamoose-articles', new dynamoose.Schema(fields))],
        {...options, create: false, update: ['indexes']}).initialize();
    const {Table} = await dynamoose.aws.ddb().describeTable({TableName: table.name});
    same(Table.GlobalSecondaryIndexes.map((index) => index.IndexName), ['by-state']);
});

await test('delete table', async () => {
    await dynamoose.aws.ddb().deleteTable({TableName: table.name});
    await refused('ResourceNotFoundException', Article.get({shop: 'tx', number: 1}));
});
