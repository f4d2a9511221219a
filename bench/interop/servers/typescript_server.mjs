// What the TypeScript SDK offers our client. `node FILE stdio` or `node FILE http PORT`.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.env.BENCH_MODULES + '/');
const load = name => import(pathToFileURL(require.resolve(name)).href);
const { McpServer, createMcpHandler, completable, inputRequired } = await load('@modelcontextprotocol/server');
const { serveStdio } = await load('@modelcontextprotocol/server/stdio');
const z = await load('zod');

const NOTE = 'interop://note';
const text = value => ({ content: [{ type: 'text', text: value }] });
const consent = { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] };
let published = () => {};

function build() {
    const server = new McpServer(
        { name: 'interop', version: '1.0.0' },
        { capabilities: { tools: {}, resources: { subscribe: true } } }
    );
    const tool = (name, description, inputSchema, handler) => server.registerTool(name, { description, inputSchema }, handler);
    tool('add', 'Add two numbers.', z.object({ a: z.int(), b: z.int() }), async ({ a, b }) => text(String(a + b)));
    tool('ask', 'Ask the user for consent.', z.object({}), async (_, ctx) => {
        const answer = ctx.mcpReq.inputResponses?.ok;
        if (answer === undefined) {
            return inputRequired({ inputRequests: { ok: inputRequired.elicit({ message: 'Shall I?', requestedSchema: consent }) } });
        }
        return text(answer.action === 'accept' && answer.content.ok ? 'yes' : 'no');
    });
    tool('think', "Ask the user's model for a thought.", z.object({}), async (_, ctx) => {
        const answer = ctx.mcpReq.inputResponses?.it;
        if (answer === undefined) {
            const messages = [{ role: 'user', content: { type: 'text', text: 'Think of something.' } }];
            return inputRequired({ inputRequests: { it: inputRequired.createMessage({ messages, maxTokens: 50 }) } });
        }
        return text(answer.content.text);
    });
    tool('touch', 'Change the note.', z.object({}), async () => {
        await server.server.sendResourceUpdated({ uri: NOTE });
        published();
        return text('touched');
    });
    server.server.setRequestHandler('resources/subscribe', async () => ({}));
    server.server.setRequestHandler('resources/unsubscribe', async () => ({}));
    server.registerResource('note', NOTE, { mimeType: 'text/plain' }, async uri => ({
        contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'a note' }]
    }));
    const names = value => ['Ada', 'Alan', 'Grace'].filter(name => name.startsWith(value));
    server.registerPrompt('greet', { argsSchema: z.object({ name: completable(z.string(), names) }) }, ({ name }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Say hello to ${name}.` } }]
    }));
    return server;
}

if (process.argv[2] === 'stdio') {
    serveStdio(build);
} else {
    const { serve } = await load('@hono/node-server');
    const handler = createMcpHandler(build);
    published = () => handler.notify.resourceUpdated(NOTE);
    serve({ fetch: request => handler.fetch(request), port: Number(process.argv[3]), hostname: '127.0.0.1' });
}
