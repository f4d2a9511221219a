// What the clients of agent frameworks are tried with: `run(client)` prints one JSON object.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.env.BENCH_MODULES + '/');
export const load = name => import(pathToFileURL(require.resolve(name)).href);
export const [transport, , ...target] = process.argv.slice(2);
const NOTE = 'interop://note';

// `client` has what the framework offers: `tools()` gives names, `call(name, args)` text, `read(uri)` text,
// `prompt(name, args)` text, and `revision` where it says which one it speaks.
export async function run(client) {
    const checks = {
        list: async () => {
            const names = await client.tools();
            for (const name of ['add', 'ask', 'think', 'touch']) assert(names.includes(name), names.join());
        },
        call: async () => assert.equal(await client.call('add', { a: 2, b: 3 }), '5'),
        read: async () => assert.equal(await client.read(NOTE), 'a note'),
        prompt: async () => assert.equal(await client.prompt('greet', { name: 'Ada' }), 'Say hello to Ada.')
    };
    const outcome = { revision: client.revision ?? '' };
    for (const [name, check] of Object.entries(checks)) {
        if (!client[{ list: 'tools' }[name] ?? name]) continue;
        const timer = new Promise((_, late) => setTimeout(late, 10_000, new Error('no answer within 10 s')).unref());
        try {
            await Promise.race([check(), timer]);
            outcome[name] = 'ok';
        } catch (error) {
            outcome[name] = `${error.name}: ${error.message}`.slice(0, 300);
        }
    }
    console.log(JSON.stringify(outcome));
    await client.close?.();
    process.exit(0);
}
