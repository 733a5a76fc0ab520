// Package auth has the credentials that everline shows to servers: it gets
// them, keeps them, renews them, and says what is wrong with them. Who may use
// everline is no matter of it, and nor is what becomes of a server that wants a
// login.
//
// A program has one Manager. Each server has a Source, made of what is
// configured of it:
//
//	m := auth.New(auth.Options{StateDir: dir, RedirectURI: own, Warn: log})
//	src := m.Source(auth.Spec{Server: name, URL: url, Place: "mcp.json:12"})
//
// The transport asks the source before each request, POST, GET and DELETE
// alike, and tells it of each 401 and 403:
//
//	t, f := src.Header(ctx)                       // f: nothing can be sent now
//	… Authorization: t.Value, if that is not "", to the exact origin of the server
//	f = src.Refused(ctx, t, status, resp.Header["Www-Authenticate"])
//	… f == nil: Header again, and send once more; a second refusal is final
//	t.Accepted() // where the server has let the request in
//
// Every fault of both is of a call that was not executed. Unauthorized needs the
// person of its Remedy; Unavailable has RetryAfter; Invalid needs another
// configuration; Forbidden is that call's alone. None is a strike, and the time
// in Header and Refused is none of a start's.
//
// The slot reads src.State(): NeedsLogin and Misconfigured are what it stops
// for, State.Dead says that no probe can help, and State.Changed is closed when
// a token has come, in whatever process somebody has logged in. Another Subject,
// or other Scopes, want another generation; another token does not.
//
// The daemon mounts Handler at /oauth/callback, calls Source for each server of
// a new configuration and Remove for those that are gone, Sweep once a day, and
// Close at the end. Commands and the admin API use Login, Login.Deliver, Logout,
// Status, Explain, KeyPlace and Rekey; without a daemon a command makes a
// Manager of its own on the same folder, which is safe at any time. Whatever
// leaves the program goes through Manager.Hide as well.
//
// Inside, a request falls from source (one server) to credential (one login,
// perhaps of several servers) to refresh, the token endpoint and the store.
// hunt, enroller and Login are what happens before there is a token.
package auth
