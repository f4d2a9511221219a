// The client of the TypeScript SDK 1.x against our server: `node FILE stdio|http ERA TARGET…`; prints one JSON object.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.env.BENCH_MODULES + '/');
const load = name => import(pathToFileURL(require.resolve(name)).href);
const { Client } = await load('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = await load('@modelcontextprotocol/sdk/client/streamableHttp.js');
const { StdioClientTransport } = await load('@modelcontextprotocol/sdk/client/stdio.js');
const { CreateMessageRequestSchema, ElicitRequestSchema, ResourceUpdatedNotificationSchema } =
    await load('@modelcontextprotocol/sdk/types.js');

const [transport, , ...target] = process.argv.slice(2);
const NOTE = 'interop://note';
const client = new Client(
    { name: 'interop', version: '1.0.0' },
    {
        capabilities: { sampling: {}, elicitation: { form: {} } }
    }
);
client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content: { ok: true } }));
client.setRequestHandler(CreateMessageRequestSchema, async () => ({
    role: 'assistant',
    model: 'none',
    stopReason: 'endTurn',
    content: { type: 'text', text: 'a thought' }
}));
let heard;
const updated = new Promise(done => (heard = done));
client.setNotificationHandler(ResourceUpdatedNotificationSchema, async note => heard(note.params.uri));
const call = async (name, args = {}) => {
    const result = await client.callTool({ name, arguments: args });
    assert(!result.isError, JSON.stringify(result));
    return result.content[0].text;
};

const checks = {
    list: async () => {
        const names = (await client.listTools()).tools.map(tool => tool.name);
        for (const name of ['add', 'ask', 'think', 'touch']) assert(names.includes(name), names.join());
        assert.equal((await client.listResources()).resources.length, 1);
        assert.equal((await client.listPrompts()).prompts[0].name, 'greet');
    },
    call: async () => assert.equal(await call('add', { a: 2, b: 3 }), '5'),
    read: async () => assert.equal((await client.readResource({ uri: NOTE })).contents[0].text, 'a note'),
    prompt: async () => {
        const found = await client.getPrompt({ name: 'greet', arguments: { name: 'Ada' } });
        assert.equal(found.messages[0].content.text, 'Say hello to Ada.');
    },
    complete: async () => {
        const ref = { type: 'ref/prompt', name: 'greet' };
        const found = await client.complete({ ref, argument: { name: 'name', value: 'A' } });
        assert.deepEqual(found.completion.values, ['Ada', 'Alan']);
    },
    subscribe: async () => {
        await client.subscribeResource({ uri: NOTE });
        await call('touch');
        assert.equal(await updated, NOTE);
    },
    sample: async () => assert.equal(await call('think'), 'a thought'),
    elicit: async () => assert.equal(await call('ask'), 'yes')
};

const link =
    transport === 'http'
        ? new StreamableHTTPClientTransport(new URL(target[0]))
        : new StdioClientTransport({ command: target[0], args: target.slice(1), stderr: 'ignore' });
let revision;
const set = link.setProtocolVersion?.bind(link);
link.setProtocolVersion = value => {
    revision = value;
    set?.(value);
};
await client.connect(link);
const outcome = { revision };
for (const [name, check] of Object.entries(checks)) {
    const timer = new Promise((_, late) => setTimeout(late, 10_000, new Error('no answer within 10 s')).unref());
    try {
        await Promise.race([check(), timer]);
        outcome[name] = 'ok';
    } catch (error) {
        outcome[name] = `${error.name}: ${error.message}`.slice(0, 300);
    }
}
console.log(JSON.stringify(outcome));
await client.close();
process.exit(0);
