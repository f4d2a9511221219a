// Mastra's client against our server: `node FILE stdio|http ERA TARGET…`.
import { load, run, target, transport } from './checks.mjs';

const { MCPClient } = await load('@mastra/mcp');

const server =
    transport === 'http' ? { url: new URL(target[0]) } : { command: target[0], args: target.slice(1), stderr: 'ignore' };
const client = new MCPClient({ servers: { shop: server } });
const tools = await client.listTools();
await run({
    tools: async () => Object.keys(tools).map(name => name.replace(/^shop_/, '')),
    call: async (name, args) => {
        const result = await tools[`shop_${name}`].execute(args, {});
        return String(result.content?.[0]?.text ?? result.result ?? result);
    },
    read: async uri => (await client.resources.read('shop', uri)).contents[0].text,
    prompt: async (name, args) =>
        (await client.prompts.get({ serverName: 'shop', name, args })).messages[0].content.text,
    close: () => client.disconnect()
});
