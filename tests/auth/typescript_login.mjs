// The TypeScript SDK's client logs in: `node FILE URL ERA`, with MODULES naming the folder that holds node_modules.
// Pages to visit go to stdout, one line each; what the browser came back with is read from stdin.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.env.MODULES + '/');
const { Client, StreamableHTTPClientTransport } = await import(
    pathToFileURL(require.resolve('@modelcontextprotocol/client')).href
);
const [url, era] = process.argv.slice(2);
const kept = {};
const provider = {
    redirectUrl: 'http://localhost:3030/callback',
    clientMetadata: {
        redirect_uris: ['http://localhost:3030/callback'],
        client_name: 'the TypeScript SDK',
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none'
    },
    clientInformation: () => kept.client,
    saveClientInformation: client => void (kept.client = client),
    tokens: () => kept.tokens,
    saveTokens: tokens => void (kept.tokens = tokens),
    redirectToAuthorization: page => console.log('visit ' + page),
    saveCodeVerifier: verifier => void (kept.verifier = verifier),
    codeVerifier: () => kept.verifier,
    saveDiscoveryState: state => void (kept.discovery = state),
    discoveryState: () => kept.discovery
};
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const connect = async () => {
    const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
    const client = new Client(
        { name: 'login', version: '1' },
        { versionNegotiation: { mode: era === 'legacy' ? 'legacy' : 'auto' } }
    );
    try {
        await client.connect(transport);
    } catch (error) {
        if (kept.tokens || !kept.verifier) throw error;
        await transport.finishAuth(new URL((await lines.next()).value).searchParams);
        return connect();
    }
    return client;
};
const client = await connect();
console.log('who ' + (await client.callTool({ name: 'who', arguments: {} })).content[0].text);
await client.close();
process.exit(0);
