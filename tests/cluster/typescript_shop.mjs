// The TypeScript SDK's client as a customer of `fleet`: `node FILE URL ERA NAME CALLS`.
// For each call it says its number and how it ended: done, or why not.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.env.BENCH_MODULES + '/');
const load = name => import(pathToFileURL(require.resolve(name)).href);
const { Client, StreamableHTTPClientTransport } = await load('@modelcontextprotocol/client');
const tasks = await import(
    pathToFileURL(`${process.env.BENCH_MODULES}/node_modules/@modelcontextprotocol/ext-tasks/dist/client/index.js`).href
);

const [url, era, name, calls] = process.argv.slice(2);
const uri = `fleet://stock/${name}`;
let heard = () => {};

async function connect() {
    const client = new Client(
        { name, version: '1.0.0' },
        { capabilities: { sampling: {} }, versionNegotiation: { mode: era === 'legacy' ? 'legacy' : 'auto' } }
    );
    client.setRequestHandler('sampling/createMessage', async request => ({
        role: 'assistant',
        model: 'none',
        stopReason: 'endTurn',
        content: { type: 'text', text: `grey, says ${name} to ${request.params.messages[0].content.text}` }
    }));
    client.setNotificationHandler('notifications/resources/updated', async () => heard());
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    if (era === 'legacy') await client.subscribeResource({ uri });
    else await listen(client);
    return client;
}

async function listen(client) {
    const open = await client.listen({ resourceSubscriptions: [uri] });
    // Where the stream ends, whatever happened meanwhile may have been missed.
    open.closed?.then(() => listen(client).then(() => heard(), () => {}), () => {});
}

async function render(client, number) {
    const session = tasks.createTaskSessionFromClient(client, { endpointId: 'fleet' });
    try {
        const execution = await session.callTool('render', { number });
        const { outcome } = await execution.settle();
        assert.equal(tasks.resultFromTaskOutcome(outcome).content[0].text, String(2 * number));
    } finally {
        await session.close();
    }
}

async function one(client, number) {
    const call = async (tool, args) => {
        const result = await client.callTool({ name: tool, arguments: args });
        assert(!result.isError, JSON.stringify(result));
        return result.content[0].text;
    };
    if (number % 4 === 0) {
        assert.equal(await call('ask', { number }), `grey, says ${name} to Which colour is ${number}?`);
    } else if (number % 4 === 1 && era === 'legacy') {
        await render(client, number);
    } else if (number % 4 === 2) {
        const update = new Promise(done => (heard = done));
        await call('sell', { name });
        await update;
    } else {
        await call('pid', {});
    }
}

let client = await connect();
for (let number = 0; number < Number(calls); number++) {
    let word = 'done';
    let timer;
    const late = new Promise((_, fail) => (timer = setTimeout(fail, 40_000, new Error('nothing within 40 s'))));
    try {
        await Promise.race([one(client, number), late]);
    } catch (error) {
        word = `${error.name}: ${error.code ?? ''} ${error.message}`.replaceAll(/\s+/g, ' ');
        await client.close().catch(() => {});
        client = await connect();
    }
    clearTimeout(timer);
    console.log(`${number} ${word}`);
}
process.exit(0);
