// The npm package `oidc-provider` (certified) as the authorization server of the tests.
// Started as `node FILE PORT`, with MODULES naming the folder that holds node_modules; says "ready" when it is.
// The environment: RESOURCE (the audience of access tokens), LIFETIME (seconds of an access token), NONCE=1 (proofs
// need a nonce), KEY (a public JWK for the client "keyed"), CALLBACK (the redirect URI of the client "proxy"),
// FORMAT=jwt (access tokens are signed), PLAIN=1 (access tokens are for nobody but the provider, unless asked for).
import { createRequire } from 'node:module';
import { randomBytes } from 'node:crypto';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.env.MODULES + '/');
const { default: Provider } = await import(pathToFileURL(require.resolve('oidc-provider')).href);

const port = Number(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const lifetime = Number(process.env.LIFETIME ?? 3600);
const device = 'urn:ietf:params:oauth:grant-type:device_code';

const clients = [
    {
        client_id: 'machine', client_secret: 'machine-secret', grant_types: ['client_credentials'],
        redirect_uris: [], response_types: [], scope: 'tools'
    },
    { client_id: 'api', client_secret: 'api-secret', grant_types: [], redirect_uris: [], response_types: [] },
    {
        client_id: 'screenless', token_endpoint_auth_method: 'none', application_type: 'native',
        grant_types: [device, 'refresh_token'], redirect_uris: [], response_types: []
    }
];
if (process.env.KEY) {
    clients.push({
        client_id: 'keyed', token_endpoint_auth_method: 'private_key_jwt', grant_types: ['client_credentials'],
        redirect_uris: [], response_types: [], scope: 'tools', jwks: { keys: [JSON.parse(process.env.KEY)] },
        token_endpoint_auth_signing_alg: 'ES256'
    });
}

if (process.env.CALLBACK) {
    clients.push({
        client_id: 'proxy', client_secret: 'proxy-secret-that-is-long', redirect_uris: [process.env.CALLBACK],
        grant_types: ['authorization_code', 'refresh_token'], token_endpoint_auth_method: 'client_secret_post'
    });
}

const provider = new Provider(issuer, {
    clients,
    scopes: ['openid', 'offline_access', 'tools', 'more'],
    rotateRefreshToken: true,
    issueRefreshToken: async (context, client, code) => code.scopes.has('offline_access'),
    pkce: { required: () => true },
    ttl: { AccessToken: lifetime, ClientCredentials: lifetime, DeviceCode: 60, Session: 600, Interaction: 600, Grant: 600 },
    clientBasedCORS: () => false,
    features: {
        registration: { enabled: true },
        revocation: { enabled: true },
        introspection: { enabled: true, allowedPolicy: async () => true },
        clientCredentials: { enabled: true },
        deviceFlow: { enabled: true },
        dPoP: {
            enabled: true, nonceSecret: randomBytes(32), requireNonce: () => process.env.NONCE === '1'
        },
        resourceIndicators: {
            enabled: true,
            defaultResource: () => (process.env.PLAIN === '1' ? undefined : process.env.RESOURCE),
            useGrantedResource: () => true,
            getResourceServerInfo: (context, resource) => {
                if (resource !== process.env.RESOURCE) throw new Error('another resource');
                return { scope: 'tools more', audience: resource, accessTokenTTL: lifetime, accessTokenFormat: process.env.FORMAT ?? 'opaque' };
            }
        }
    }
});
provider.proxy = false;
// It names no interval, and five seconds are the default of RFC 8628.
provider.use(async (context, next) => {
    await next();
    if (context.body?.device_code) context.body.interval = 1;
});
provider.listen(port, '127.0.0.1', () => console.log('ready'));
