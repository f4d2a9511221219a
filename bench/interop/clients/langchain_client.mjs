// The client of LangChain.js against our server: `node FILE stdio|http ERA TARGET…`.
import { load, run, target, transport } from './checks.mjs';

const { MultiServerMCPClient } = await load('@langchain/mcp-adapters');

const server =
    transport === 'http'
        ? { transport: 'http', url: target[0] }
        : { transport: 'stdio', command: target[0], args: target.slice(1), stderr: 'ignore' };
const client = new MultiServerMCPClient({ mcpServers: { shop: server } });
const tools = Object.fromEntries((await client.getTools()).map(tool => [tool.name, tool]));
await run({
    tools: async () => Object.keys(tools),
    call: async (name, args) => {
        const found = await tools[name].invoke(args);
        return typeof found === 'string' ? found : found.text;
    },
    read: async uri => (await client.readResource('shop', uri))[0].text,
    close: () => client.close()
});
