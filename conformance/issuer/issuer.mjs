// An authorization server on a port of its own, as strict as they come: access tokens
// of SECONDS, refresh tokens that rotate, and a login that ends when a spent one is
// used. Its first line of JSON has its URL; there is one for each answer of its token
// endpoint then.
import { createServer } from 'node:http';
import { Provider } from 'oidc-provider';

const seconds = Number(process.argv[2]);
const day = 24 * 3600;
const scopes = 'mcp:read mcp:call';
const say = (line) => console.log(JSON.stringify(line));
const server = createServer().listen(0, '127.0.0.1', () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(url, {
    pkce: { required: () => true },
    scopes: ['openid', 'offline_access', ...scopes.split(' ')],
    rotateRefreshToken: () => true,
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    ttl: { AccessToken: seconds, RefreshToken: day, Session: day, Grant: day, Interaction: 600 },
    clientBasedCORS: () => true,
    features: {
      registration: { enabled: true },
      devInteractions: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => ({
          scope: scopes, audience: resource, accessTokenTTL: seconds, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  });
  provider.on('grant.success', (ctx) => say({ grant: ctx.oidc.params.grant_type }));
  provider.on('grant.error', (ctx, err) => say({ grant: ctx.oidc.params?.grant_type, error: err.error, why: err.error_detail }));
  server.on('request', provider.callback());
  say({ url });
});
