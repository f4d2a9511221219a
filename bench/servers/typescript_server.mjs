// The TypeScript SDK. Started as `node FILE stdio` or `node FILE http PORT`, with the packages of .peers/node.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.env.BENCH_MODULES + '/');
const load = name => import(pathToFileURL(require.resolve(name)).href);
const {
    McpServer, WebStandardStreamableHTTPServerTransport, createMcpHandler, inputRequired, isLegacyRequest
} = await load('@modelcontextprotocol/server');
const { serveStdio } = await load('@modelcontextprotocol/server/stdio');
const z = await load('zod');

const text = value => ({ content: [{ type: 'text', text: value }] });
const order = z.object({
    customer: z.object({ name: z.string(), city: z.string() }),
    lines: z.array(z.object({ sku: z.string(), count: z.int() }))
});
const consent = { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] };
const count = Number(process.env.BENCH_TOOLS ?? 6);

function build() {
    const server = new McpServer({ name: 'bench', version: '1.0.0' }, { capabilities: { tools: {} } });
    let left = count;
    const tool = (name, description, inputSchema, handler, more = {}) => {
        if (left-- > 0) server.registerTool(name, { description, inputSchema, ...more }, handler);
    };
    tool('echo', 'Say it again.', z.object({ text: z.string() }), async ({ text: value }) => text(value));
    tool('add', 'Add two numbers.', z.object({ a: z.int(), b: z.int() }), async ({ a, b }) => {
        const value = { sum: a + b };
        return { ...text(JSON.stringify(value)), structuredContent: value };
    }, { outputSchema: z.object({ sum: z.int() }) });
    tool('nested', 'Count the pieces of an order.', z.object({ order }), async ({ order }) =>
        text(String(order.lines.reduce((total, line) => total + line.count, 0))));
    tool('tell', 'Report progress once, then answer.', z.object({ text: z.string() }), async ({ text: value }, ctx) => {
        const progressToken = ctx.mcpReq._meta?.progressToken;
        await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: 1, total: 1 } });
        return text(value);
    });
    tool('ask', 'Ask the user once.', z.object({}), async (_, ctx) => {
        const answer = ctx.mcpReq.inputResponses?.ok;
        if (answer === undefined) {
            const ok = inputRequired.elicit({ message: 'Shall I?', requestedSchema: consent });
            return inputRequired({ inputRequests: { ok }, requestState: 'asked' });
        }
        return text(answer.action === 'accept' && answer.content.ok ? 'yes' : 'no');
    });
    tool('nap', 'Wait, as for a database.', z.object({ seconds: z.number() }), async ({ seconds }) => {
        await new Promise(done => setTimeout(done, seconds * 1000));
        return text('rested');
    });
    for (let number = 0; number < count - 6; number++) {
        tool(`filler_${number}`, 'One of many.', z.object({ text: z.string() }), async ({ text: value }) => text(value));
    }
    server.registerResource('text', 'bench://text', { mimeType: 'text/plain' }, async uri => ({
        contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'some text' }]
    }));
    server.registerPrompt('greet', { argsSchema: z.object({ name: z.string() }) }, ({ name }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Say hello to ${name}.` } }]
    }));
    return server;
}

if (process.argv[2] === 'stdio') {
    serveStdio(build);
} else {
    const { serve } = await load('@hono/node-server');
    const modern = createMcpHandler(build, { legacy: 'reject' });
    // Its own entry serves the older revisions without sessions, where a tool cannot ask: sessions are wired by hand.
    const sessions = new Map();
    const legacy = async request => {
        const known = sessions.get(request.headers.get('mcp-session-id'));
        if (known) return known.handleRequest(request);
        const transport = new WebStandardStreamableHTTPServerTransport({
            sessionIdGenerator: () => crypto.randomUUID(),
            onsessioninitialized: id => void sessions.set(id, transport)
        });
        await build().connect(transport);
        return transport.handleRequest(request);
    };
    const fetch = async request => ((await isLegacyRequest(request)) ? legacy(request) : modern.fetch(request));
    serve({ fetch, port: Number(process.argv[3]), hostname: '127.0.0.1' });
}
