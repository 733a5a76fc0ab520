// An authorization server at PORT, as strict as they come: access tokens of
// SECONDS, refresh tokens that rotate, and a login that ends when a spent one is
// used. It prints a line of JSON for each answer of its token endpoint.
import { Provider } from 'oidc-provider';

const [port, seconds] = process.argv.slice(2).map(Number);
const day = 24 * 3600;
const provider = new Provider(`http://127.0.0.1:${port}`, {
  pkce: { required: () => true },
  scopes: ['openid', 'offline_access', 'mcp:read'],
  rotateRefreshToken: () => true,
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  ttl: { AccessToken: seconds, RefreshToken: day, Session: day, Grant: day, Interaction: 600 },
  features: {
    registration: { enabled: true },
    devInteractions: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({
        scope: 'mcp:read', audience: resource, accessTokenTTL: seconds, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
});
const say = (line) => console.log(JSON.stringify(line));
provider.on('grant.success', (ctx) => say({ grant: ctx.oidc.params.grant_type }));
provider.on('grant.error', (ctx, err) => say({ grant: ctx.oidc.params?.grant_type, error: err.error, why: err.error_detail }));
provider.listen(port, '127.0.0.1', () => say({ ready: true }));
