// The client of the Vercel AI SDK against our server: `node FILE stdio|http ERA TARGET…`.
import { load, run, target, transport } from './checks.mjs';

const { createMCPClient } = await load('@ai-sdk/mcp');
const { Experimental_StdioMCPTransport } = await load('@ai-sdk/mcp/mcp-stdio');

const client = await createMCPClient({
    transport:
        transport === 'http'
            ? { type: 'http', url: target[0] }
            : new Experimental_StdioMCPTransport({ command: target[0], args: target.slice(1), stderr: 'ignore' })
});
const tools = await client.tools();
await run({
    tools: async () => Object.keys(tools),
    call: async (name, args) => (await tools[name].execute(args, { toolCallId: '1', messages: [] })).content[0].text,
    read: async uri => (await client.readResource({ uri })).contents[0].text,
    prompt: async (name, args) =>
        (await client.experimental_getPrompt({ name, arguments: args })).messages[0].content.text,
    close: () => client.close()
});
